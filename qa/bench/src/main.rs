//! `seawall-bench`: the benchmarks, with the in-memory store only.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_bench::main_with(&[])
}
