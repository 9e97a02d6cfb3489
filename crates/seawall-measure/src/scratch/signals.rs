//! Signals that end this process.

use seawall_host::read_text;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::process::{Command, Stdio};

/// The maximum size of the status file.
const STATUS_MAX: u64 = 64 * 1024;

/// SIGINT, SIGTERM and SIGHUP, without those that were ignored when the process started, as under
/// nohup or in background jobs of a shell.
#[must_use]
pub fn ending_signals() -> Vec<i32> {
    let ignored = ignored().or_else(ignored_by_a_child).unwrap_or(0);
    let is_heard = |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard).collect()
}

/// The ignored signals as a bit mask; `None` without `/proc`.
fn ignored() -> Option<u64> {
    let status = read_text(Path::new("/proc/self/status"), STATUS_MAX).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// The same three, as a child process inherits them: those that do not end a shell.
fn ignored_by_a_child() -> Option<u64> {
    let script = "for s in 1 2 15; do sh -c \"kill -$s \\$\\$\" && echo $s; done; exit 0";
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).stdin(Stdio::null()).stderr(Stdio::null());
    let said = String::from_utf8(shell.output().ok()?.stdout).ok()?;
    let numbers = said.lines().filter_map(|line| line.parse::<u32>().ok());
    Some(
        numbers
            .filter(|number| (1..=64).contains(number))
            .fold(0, |mask, number| mask | 1 << (number - 1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this test again under a shell that ignores SIGHUP.
    #[test]
    fn ignored_signals_are_known_without_proc() {
        const CHILD: &str = "SEAWALL_IGNORES_HANGUP";
        if std::env::var_os(CHILD).is_some() {
            let hangup = 1 << (SIGHUP - 1);
            assert_eq!(ignored_by_a_child().unwrap() & hangup, hangup);
            assert_eq!(ignored_by_a_child().map(|mask| mask & 1 << (SIGTERM - 1)), Some(0));
            return;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP; exec \"$0\" ignored_signals_are_known_without_proc"]);
        let ran = shell.arg(std::env::current_exe().unwrap()).env(CHILD, "").output().unwrap();
        assert!(ran.status.success() && ran.stdout.windows(8).any(|text| text == b"1 passed"));
    }
}
