//! `seawall-bench`: the benchmarks, with no store but the one in memory.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    seawall_bench::main_with(&[])
}
