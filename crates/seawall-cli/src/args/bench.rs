//! The options of `seawall bench`.

use super::common::LevelName;
use super::values;
use clap::{Args, Subcommand};
use seawall_output::{Look, help};
use std::path::PathBuf;

/// `seawall bench`
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) what: BenchVerb,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Compare durable commits with plain write-and-sync, in alternating slices
    #[command(after_help = help!("bench"))]
    Append(BenchAppend),
}

/// `seawall bench append`
#[derive(Debug, Args)]
pub(crate) struct BenchAppend {
    /// The directory to write in
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Numbers of threads that commit concurrently
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = values::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Use async tasks on one thread as writers instead of threads
    #[arg(long)]
    pub(crate) tasks: bool,
    /// Seconds for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = values::parse_seconds)]
    pub(crate) time: f64,
    /// Record size in bytes
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = values::parse_record_size)]
    pub(crate) size: usize,
    /// Durability level of a commit
    #[arg(long, value_enum, default_value_t = LevelName::Synced)]
    pub(crate) level: LevelName,
    #[command(flatten)]
    pub(crate) look: Look,
}
