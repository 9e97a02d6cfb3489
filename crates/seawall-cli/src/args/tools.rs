//! The options of the verbs that need no log: `doctor`, `probe`, `completions`, `man`.

use super::values;
use crate::output::progress::Patience;
use clap::Args;
use clap_complete::Shell;
use seawall_output::Look;
use std::path::PathBuf;

/// `seawall doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The directory for logs
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall probe`
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The directory for logs
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Seconds for the whole measurement
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = values::parse_seconds)]
    pub(crate) time: f64,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall completions`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `seawall man`
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write all pages to this directory: seawall.1, and one for each verb
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}
