//! Options for parity: `append --parity`, and `protect`.

use super::common::KeyOption;
use crate::output::progress::Patience;
use clap::Args;
use seawall::parity::NoScheme;
use seawall_output::Look;
use std::path::PathBuf;
use std::str::FromStr;

/// The parity scheme for a log, or `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parity(pub(crate) Option<seawall::parity::Parity>);

impl FromStr for Parity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            _ => text
                .parse()
                .map(|scheme| Self(Some(scheme)))
                .map_err(|error: NoScheme| format!("{error}; none turns parity off")),
        }
    }
}

/// `seawall protect`
#[derive(Debug, Args)]
pub(crate) struct Protect {
    /// The log
    pub(crate) log: PathBuf,
    /// Data and parity blocks of a stripe [default: the log's own setting, else 16+2]
    #[arg(long, value_name = "16+2")]
    pub(crate) parity: Option<seawall::parity::Parity>,
    /// Show what would be added and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_is_a_scheme_or_none() {
        let scheme = seawall::parity::Parity::DEFAULT;
        assert_eq!("16+2".parse(), Ok(Parity(Some(scheme))));
        assert_eq!("none".parse(), Ok(Parity(None)));
        for wrong in ["", "16", "+", "0+0", "1+1", "16+0", "2+3", "65+2", "16+17", "None", "yes"] {
            let refused = wrong.parse::<Parity>().unwrap_err();
            assert!(refused.contains("e.g. 16+2") && refused.contains("none"), "{refused}");
        }
    }
}
