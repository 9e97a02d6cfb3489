//! `seawall-sim`: runs seeds until the time is up or one of them fails.

#![forbid(unsafe_code)]

mod hunt;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

/// Simulates many lives of one log on a failing disk, and compares the records it delivers with its
/// promises.
///
/// The seed determines everything: the operations, the order of the tasks, the failures and the
/// crashes. A finding (a broken promise) is reduced to a smaller one and printed as a test.
#[derive(Debug, Parser)]
#[command(name = "seawall-sim", after_help = EXAMPLES)]
struct Arguments {
    /// Runs one seed.
    #[arg(long, conflicts_with_all = ["seconds", "exhaustive", "plan"])]
    seed: Option<u64>,
    /// Runs one seed after another for this many seconds.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The first seed of `--seconds`. By default each day has other seeds.
    #[arg(long, value_name = "SEED")]
    from: Option<u64>,
    /// Tries every crash of all workloads of K groups, with every possible state of the disk at the
    /// crash.
    #[arg(long, value_name = "K", conflicts_with = "seconds")]
    exhaustive: Option<u32>,
    /// Runs a plan that a finding printed, and prints each step.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["seconds", "exhaustive"])]
    plan: Option<String>,
    /// Continues after a finding.
    #[arg(long)]
    keep_going: bool,
    /// Prints findings without reducing them.
    #[arg(long)]
    no_shrink: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  seawall-sim --seed 42           one seed, twice: the traces must be equal
  seawall-sim --seconds 60        the seeds of this day for a minute
  seawall-sim --exhaustive 2      every crash of all workloads of two groups
  seawall-sim --plan 'seed 1 binary 5120 | synced ; a100 c ; ; power@40 sector:7'

Exit codes: 0 nothing found, 1 a finding, 2 usage.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match hunt::run_requested(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "seawall-sim: {error}");
            ExitCode::from(2)
        }
    }
}
