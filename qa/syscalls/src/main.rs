//! Fails every system call of a log once, and looks at what is left.
//!
//! A fixed workload runs in a process of its own, traced; each of its calls that touch the log
//! fails once with each error, falls short, or is the last before the process is killed. What the
//! workload was told before then must be there afterwards.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod linux;

/// As scripts know it: nothing was tried, which is neither good nor bad.
const SKIPPED: u8 = 77;

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
fn main() -> ExitCode {
    use std::io::Write;
    let why = "SKIPPED, nothing was tried: this bench knows x86-64 Linux with glibc only\n";
    let _ = std::io::stderr().write_all(why.as_bytes());
    ExitCode::from(SKIPPED)
}
