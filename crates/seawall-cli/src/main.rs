//! The seawall command line: append, read, check and measure write-ahead logs.
//!
//! One file per verb under `cmd`. Standard output is the answer, standard error the rest, and
//! [`report`] holds the one table of exit codes.

#![forbid(unsafe_code)]

mod args;
mod bookmark;
mod cmd;
mod framing;
mod human;
mod json;
mod not_yet;
mod notes;
mod output;
mod printer;
mod progress;
mod report;
mod select;
mod tone;
mod translate;

use std::process::ExitCode;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        report::say(&format!(
            "seawall: this is a bug in seawall: {panic}\n  \
             where: version {}\n  \
             next: please report it with these lines and the command",
            env!("CARGO_PKG_VERSION")
        ));
    }));
    let exit = match args::parse() {
        Ok((verb, notes)) => {
            let exit = report::exit(cmd::run(&verb));
            notes.end(exit);
            exit
        }
        Err(exit) => exit,
    };
    ExitCode::from(exit.code())
}
