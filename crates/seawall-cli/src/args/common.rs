//! Options that several verbs have in common.

use crate::output::stdout::Output;
use crate::output::text::typed;
use clap::{Args, ValueEnum};
use seawall::Level;
use serde::Serialize;
use std::path::PathBuf;

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

impl Look {
    /// Prints the result as JSON, or calls `tell` to print it for people.
    pub(crate) fn show(
        self,
        out: &mut Output,
        answer: &impl Serialize,
        tell: impl FnOnce(&mut Output),
    ) {
        if self.json {
            out.json(answer);
        } else if !self.quiet {
            tell(out);
        }
    }
}

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
