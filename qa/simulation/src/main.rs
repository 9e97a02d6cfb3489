//! `seawall-sim`: runs seeds until the time is over or one is a finding.

#![forbid(unsafe_code)]

mod hunt;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

/// Simulates many lives of one log on a disk that fails, and compares what it delivers with what it
/// promised.
///
/// Everything follows from the seed: what is done, which task goes on, what fails, and where it
/// crashes. A finding is made smaller, and printed as a test.
#[derive(Debug, Parser)]
#[command(name = "seawall-sim", after_help = EXAMPLES)]
struct Arguments {
    /// Runs one seed.
    #[arg(long, conflicts_with_all = ["seconds", "exhaustive", "plan"])]
    seed: Option<u64>,
    /// Runs seeds for so many seconds.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The first of them.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// Tries every crash of all workloads of so many groups, with every choice of what had reached
    /// the disk.
    #[arg(long, value_name = "K", conflicts_with = "seconds")]
    exhaustive: Option<u32>,
    /// Runs a plan, as a finding prints it, and tells what happens.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["seconds", "exhaustive"])]
    plan: Option<String>,
    /// Goes on behind a finding.
    #[arg(long)]
    keep_going: bool,
    /// Prints findings as they are, and does not look for smaller ones.
    #[arg(long)]
    no_shrink: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  seawall-sim --seed 42           one seed, twice: the traces must be equal
  seawall-sim --seconds 60        as many seeds as that, from 1 on
  seawall-sim --exhaustive 2      every crash of all workloads of two groups
  seawall-sim --plan 'seed 1 binary 5120 | synced ; a100 c ; ; power@40 sector:7'

Exit codes: 0 nothing found, 1 a finding, 2 usage.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match hunt::run_asked(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "seawall-sim: {error}");
            ExitCode::from(2)
        }
    }
}
