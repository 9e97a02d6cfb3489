//! Signals that end this process.

use seawall_host::read_text;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;

/// The maximum size of the status file.
const STATUS_MAX: u64 = 64 * 1024;

/// SIGINT, SIGTERM and SIGHUP, without those that were ignored when the process started, as under
/// nohup or in background jobs of a shell.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let ignored = ignored().unwrap_or(0);
    let is_heard = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard).collect()
}

/// The ignored signals as a bit mask; `None` if unknown.
fn ignored() -> Option<u64> {
    let status = read_text(Path::new("/proc/self/status"), STATUS_MAX).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
