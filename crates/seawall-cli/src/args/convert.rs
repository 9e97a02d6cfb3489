//! The options of `seawall convert`.

use super::common::KeyOption;
use crate::output::progress::Patience;
use clap::{Args, ValueEnum};
use seawall::format::CodecId;
use seawall_output::Look;
use std::path::PathBuf;

/// `seawall convert`
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The source; it is only read
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,
    /// The target. Same content counts as success; a target with other content is not changed
    #[arg(value_name = "DST")]
    pub(crate) target: PathBuf,
    /// Format of SRC [default: seawall for a directory, otherwise detected from the first entry]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) from: Option<ForeignFormat>,
    /// Format of DST
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: ForeignFormat,
    /// Codec of the entries of a cwal log or of a new seawall log
    #[arg(long, value_enum)]
    pub(crate) codec: Option<EntryCodec>,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The format of a source or target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForeignFormat {
    /// A Seawall log, a directory
    Seawall,
    /// A file of the `CWal` library: length, data, CRC-32
    #[value(help = "A file of the CWal library: length, data, CRC-32")]
    Cwal,
    /// The text form of cwal
    CwalText,
    /// JSON values, one after another
    Json,
    /// `MessagePack` records, each followed by its CRC-32
    #[value(help = "MessagePack records, each followed by its CRC-32")]
    Msgpack,
}

/// How an entry's bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryCodec {
    /// Bytes
    Raw,
    /// `MessagePack` values
    #[value(help = "MessagePack values")]
    Msgpack,
    /// JSON text
    Json,
}

impl From<EntryCodec> for CodecId {
    fn from(codec: EntryCodec) -> Self {
        match codec {
            EntryCodec::Raw => Self::Raw,
            EntryCodec::Msgpack => Self::MessagePack,
            EntryCodec::Json => Self::Json,
        }
    }
}

impl ForeignFormat {
    /// The name on the command line and in JSON.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no format is hidden");
        value.get_name().to_owned()
    }
}
