//! Benchmarks for developers of Seawall, as a program and as a library.
//!
//! The program measures the methods of other logs beside Seawall, single costs of Seawall, and an
//! earlier build beside this one. `verbs` has a file for each verb, [`main_with`] runs them, and
//! `driver` holds the steps that they share. The library has the charts, pages and baselines that
//! other benches use.
//!
//! `seawall-measure`, which the command line uses as well, measures the slices.

#![forbid(unsafe_code)]

mod args;
pub mod baseline;
mod beside;
pub mod chart;
pub mod compared;
mod driver;
pub mod failure;
pub mod output;
pub mod page;
mod place;
mod processor;
mod stores;
mod verbs;

use args::{Cli, Verb};
use clap::FromArgMatches;
use failure::Failure;
use seawall_cli::StoreKind;
use std::process::ExitCode;
use verbs::{helios, open, read, replay};

/// Runs the program. `stores` are the stores that `--store NAME:PLACE` finds by name.
pub fn main_with(stores: &'static [&'static dyn StoreKind]) -> ExitCode {
    let said = |error: clap::Error| {
        // Help is not an error. Ignores a failure to print, such as a closed pipe.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 })
    };
    let parsed = args::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return said(error),
    };
    let done = run(cli.verb, stores);
    done.map_or_else(|failure| ExitCode::from(failure.tell()), |()| ExitCode::SUCCESS)
}

fn run(verb: Verb, stores: &'static [&'static dyn StoreKind]) -> Result<(), Failure> {
    match verb {
        Verb::Append(args) => driver::run(&args),
        Verb::Read(args) => driver::run(&read::Read::of(args)),
        Verb::Paper(args) => driver::run(&args),
        Verb::Cwal(args) => driver::run(&args),
        Verb::Helios(args) => driver::run(&helios::Modes { args, stores }),
        Verb::Stream(args) => driver::run(&args),
        Verb::Roll(args) => driver::run(&args),
        Verb::Frame(args) => driver::run(&args),
        Verb::Compress(args) => driver::run(&args),
        Verb::Encrypt(args) => driver::run(&args),
        Verb::Parity(args) => driver::run(&args),
        Verb::Replay(args) => driver::run(&replay::Stored { args, stores }),
        Verb::Disk(args) => driver::run(&args),
        Verb::Open(args) => driver::run(&args),
        Verb::Reader(args) => read::alone(&args),
        Verb::Opener(args) => open::opener(&args),
    }
}
