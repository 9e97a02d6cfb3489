//! The options of `seawall bench`.

use super::common::{LevelName, Look};
use super::examples::BENCH_EXAMPLES;
use super::values;
use clap::{Args, Subcommand};
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
    /// Measure durable commits beside plain write-and-sync, in alternating slices
    #[command(after_help = BENCH_EXAMPLES)]
    Append(BenchAppend),
}

/// `seawall bench append`
#[derive(Debug, Args)]
pub(crate) struct BenchAppend {
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many threads commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = values::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// The writers are tasks on one thread, which await their records; not threads
    #[arg(long)]
    pub(crate) tasks: bool,
    /// Seconds for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = values::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = values::parse_record_size)]
    pub(crate) size: usize,
    /// What a commit waits for
    #[arg(long, value_enum, default_value_t = LevelName::Synced)]
    pub(crate) level: LevelName,
    #[command(flatten)]
    pub(crate) look: Look,
}
