//! The rig: measures unmodified PostgreSQL with its log on a Seawall disk, and tests which
//! acknowledged inserts of PostgreSQL, `MariaDB` and `SQLite` survive a power cut.
//!
//! The disk is a FUSE directory, where `initdb --waldir` puts the log, or a FUSE file, which a loop
//! device with direct I/O turns into a block device with ext4. The data directory stays on the
//! machine's file system. All files are below one folder, and `clean` removes them.
//!
//! Tests without PostgreSQL: a disk on a simulated device whose power is cut during a workload, and
//! a log on a device that goes away and comes back while the machine keeps running.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod args;
#[cfg(target_os = "linux")]
mod database;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod need;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod rig;
#[cfg(target_os = "linux")]
mod tpcc;
#[cfg(target_os = "linux")]
mod verbs;
#[cfg(target_os = "linux")]
mod workload;

use std::process::ExitCode;

/// Exit code: nothing was tested.
const SKIPPED: u8 = 77;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    rig::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    use std::io::Write;
    let _ =
        std::io::stderr().write_all(b"SKIPPED, nothing was tested: this rig knows Linux only\n");
    ExitCode::from(SKIPPED)
}
