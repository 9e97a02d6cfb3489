//! Seawall beside other logs and stores: the same records, by turns, on the same disk.
//!
//! [`peer`] says what is asked of each, `peers` has a file for each of them, and [`race`] lets them
//! run; how it is measured is in
//! `seawall-measure`, and the page and its charts are those of `seawall-bench`.

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

/// Walrus prints to standard output, unless this is set.
const QUIET: &str = "WALRUS_QUIET";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output. An error while printing has no reader either.
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

/// The same program with the same arguments, and quiet.
fn again() -> Result<(), Failure> {
    let program = std::env::current_exe();
    let error = program.map(|program| {
        Command::new(program).args(std::env::args_os().skip(1)).env(QUIET, "1").exec()
    });
    let error = error.unwrap_or_else(|error| error);
    let next = format!("set {QUIET}=1 in the environment yourself");
    Err(Failure::new(format!("cannot start again: {error}"), "this program", next))
}
