//! Seawall beside other logs and stores: the same records, by turns, on the same disk.
//!
//! [`peer`] defines what is measured, `peers` has a file for each log, and [`race`] runs them.
//! `seawall-measure` does the measuring; the page and its charts come from `seawall-bench`.

#![forbid(unsafe_code)]

mod args;
mod compare;
mod damage;
mod payload;
mod peer;
mod peers;
mod race;
mod tell;

use args::{Cli, Verb};
use clap::Parser;
use seawall_bench::failure::{self, Failure};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Walrus prints to standard output unless this is set.
const QUIET: &str = "WALRUS_QUIET";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help is not an error. Ignores a failure to print, such as a closed pipe.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    let done = match cli.verb {
        _ if std::env::var_os(QUIET).is_none() => again(),
        None => compare::run(&cli.compare),
        Some(Verb::Damage(args)) => damage::run(&args),
        Some(Verb::Step(args)) => damage::step(&args),
    };
    done.map_or_else(|failure| ExitCode::from(failure.tell()), |()| ExitCode::SUCCESS)
}

/// Starts this program again with the same arguments, and with walrus quiet.
fn again() -> Result<(), Failure> {
    let program = std::env::current_exe();
    let error = program.map(|program| {
        Command::new(program).args(std::env::args_os().skip(1)).env(QUIET, "1").exec()
    });
    let error = error.unwrap_or_else(|error| error);
    let next = format!("set {QUIET}=1 in the environment yourself");
    Err(Failure::new(format!("cannot start again: {error}"), "this program", next))
}
