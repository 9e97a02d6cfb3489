//! Options that several verbs have in common.

use clap::{Args, ValueEnum};
use seawall::Level;

/// How to print the result.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Look {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print errors only (verify prints nothing)
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show files opened, effective options and timing
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
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

impl LevelName {
    /// As the command line and JSON have it.
    pub(crate) fn name(self) -> &'static str {
        level_name(self.into())
    }
}

/// A level as the command line and JSON have it.
pub(crate) fn level_name(level: Level) -> &'static str {
    match level {
        Level::Buffered => "buffered",
        Level::Synced => "synced",
        Level::Confirmed => "confirmed",
    }
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
