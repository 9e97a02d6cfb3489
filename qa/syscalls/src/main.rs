//! Fails every system call of a log once, and checks the log afterwards.
//!
//! A fixed workload runs in a traced process. Each of its calls that touch the log fails once with
//! each error, transfers fewer bytes than requested, or is the last before the process is killed.
//! Every record that was acknowledged until then must be readable afterwards.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod linux;

/// Exit code: nothing was tested.
const SKIPPED: u8 = 77;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
fn main() -> ExitCode {
    use std::io::Write;
    let why = "SKIPPED, nothing was tested: only x86-64 Linux with glibc is supported\n";
    let _ = std::io::stderr().write_all(why.as_bytes());
    ExitCode::from(SKIPPED)
}
