//! Options that several verbs have in common.

use clap::{Args, ValueEnum};
use seawall::Level;
use seawall_output::text::typed;
use std::path::PathBuf;

/// The key of an encrypted log.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyOption {
    /// The file with the key of an encrypted log, as keygen makes it; or a pipe, or /dev/fd/N
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

impl KeyOption {
    /// The option, to append to a command that needs the key of an encrypted log.
    pub(crate) fn hint(&self, is_encrypted: bool) -> String {
        match &self.key_file {
            Some(file) => format!(" --key-file {}", typed(file)),
            None if is_encrypted => " --key-file FILE".to_owned(),
            None => String::new(),
        }
    }
}

/// A durability level by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelName {
    /// In memory; durable within 10 ms or 1 MiB
    Buffered,
    /// On the device
    Synced,
    /// On the device, with evidence stored elsewhere
    Confirmed,
}

impl From<LevelName> for Level {
    fn from(name: LevelName) -> Self {
        match name {
            LevelName::Buffered => Self::Buffered,
            LevelName::Synced => Self::Synced,
            LevelName::Confirmed => Self::Confirmed,
        }
    }
}
