//! `seawall`: the command line without a built-in store.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_cli::main_with(&[])
}
