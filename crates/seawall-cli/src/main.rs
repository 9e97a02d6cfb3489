//! `seawall`: the command line without a store of its own.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_cli::main_with(&[])
}
