//! The options of the verbs that make and replace keys, and the padding of `append`.

use super::common::KeyOption;
use super::values::parse_size;
use clap::Args;
use seawall::encryption::Padding;
use seawall_output::Look;
use std::path::PathBuf;
use std::str::FromStr;

/// `seawall keygen`
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// The file to make, which only its owner can read; an existing one is never replaced
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall rekey`
#[derive(Debug, Args)]
pub(crate) struct Rekey {
    /// The log; no other process may have it open for writing
    pub(crate) log: PathBuf,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    /// The file with the key that the log has from now on
    #[arg(long, value_name = "NEW")]
    pub(crate) new_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The sizes that encrypted batches grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pad(pub(crate) Padding);

/// The size of a block on most devices.
const BLOCK: u32 = 4096;

impl FromStr for Pad {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let padding = match text {
            "off" => Some(Padding::Off),
            "padme" => Some(Padding::Padme),
            "block" => Padding::multiple_of(BLOCK),
            _ => {
                let size = parse_size(text).ok().and_then(|size| u32::try_from(size).ok());
                size.and_then(Padding::multiple_of)
            }
        };
        let wrong =
            || format!("`{text}` is not off, block, padme or a multiple of 8 bytes up to 1MiB");
        padding.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_a_name_or_a_multiple_of_eight_bytes() {
        let pad = |text: &str| text.parse::<Pad>().map(|pad| pad.0).ok();
        assert_eq!(pad("off"), Some(Padding::Off));
        assert_eq!(pad("padme"), Some(Padding::Padme));
        assert_eq!(pad("block"), Padding::multiple_of(4096));
        assert_eq!(pad("512"), Padding::multiple_of(512));
        assert_eq!(pad("1MiB"), Padding::multiple_of(1 << 20));
        for wrong in ["", "0", "9", "-8", "2MiB", "Off", "none", "4294967304"] {
            assert_eq!(pad(wrong), None, "{wrong}");
        }
    }
}
