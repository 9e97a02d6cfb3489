//! PostgreSQL, unchanged, with its log on a Seawall disk: how fast it is, and what is left of what
//! it acknowledged when the power is cut.
//!
//! The disk appears as a file by FUSE; a loop device past the cache makes a block device of it,
//! with ext4 on it, where `initdb --waldir` puts the log. The data directory stays on the file
//! system of the machine. All that is made lies below one folder, and `clean` takes it away.
//!
//! Without PostgreSQL: a simulated device whose power is cut under a workload, and what a disk on
//! it has kept. And a log of Seawall itself on a device that goes away and comes back while the
//! machine runs on.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod args;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod clean;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod cluster;
#[cfg(target_os = "linux")]
mod crash;
#[cfg(target_os = "linux")]
mod detach;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod drill;
#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod need;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod rig;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "one ioctl, for which rustix has no safe call")]
mod shutdown;
#[cfg(target_os = "linux")]
mod uml;
#[cfg(target_os = "linux")]
mod volume;
#[cfg(target_os = "linux")]
mod writer;

use std::process::ExitCode;

/// As scripts know it: nothing was tried, which is neither good nor bad.
const SKIPPED: u8 = 77;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    rig::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    use std::io::Write;
    let _ = std::io::stderr().write_all(b"SKIPPED, nothing was tried: this rig knows Linux only\n");
    ExitCode::from(SKIPPED)
}
