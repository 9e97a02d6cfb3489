//! Process groups.

use crate::fd::read_bytes;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpgid};
use rustix::process::{kill_process_group, test_kill_process_group};
use std::io;
use std::path::Path;

/// The maximum size of a process's status.
const STATUS_MAX: u64 = 4096;

/// Kills all processes of the group that the process `leader` leads.
///
/// # Errors
///
/// The system's error, for example if none is left.
pub fn kill_group(leader: u32) -> io::Result<()> {
    Ok(kill_process_group(pid(leader)?, Signal::KILL)?)
}

/// Returns whether the group has processes, and all of them are other users': this process may not
/// kill them.
#[must_use]
pub fn is_group_foreign(leader: u32) -> bool {
    pid(leader).is_ok_and(|leader| test_kill_process_group(leader) == Err(Errno::PERM))
}

/// Returns whether a process of the group runs or waits for a device. One that has ended does not
/// count, although nothing may ever wait for it. `None` if the system does not list the group, as
/// without `/proc` or if that hides other users' processes.
#[must_use]
pub fn is_group_running(leader: u32) -> Option<bool> {
    let processes = std::fs::read_dir("/proc").ok()?;
    let states = processes.filter_map(|process| state_in(&process.ok()?.path(), leader));
    states.map(|state| !matches!(state, 'Z' | 'X')).reduce(|one, other| one || other)
}

/// The state of the process with this folder, if it is in the group.
fn state_in(process: &Path, leader: u32) -> Option<char> {
    let status = read_bytes(&process.join("stat"), STATUS_MAX).ok()?;
    // The name before these fields can contain spaces, brackets and bytes that are not UTF-8.
    let after = status.rsplit(|byte| *byte == b')').next()?;
    let mut fields = std::str::from_utf8(after).ok()?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?;
    (group.parse() == Ok(leader)).then_some(state)
}

/// Waits for those processes of the group that have ended and are children of this process. As the
/// first process of a container it gets the children of others.
pub fn reap_group(leader: u32) {
    let Ok(leader) = pid(leader) else { return };
    while let Ok(Some(_)) = waitpgid(leader, WaitOptions::NOHANG) {}
}

fn pid(leader: u32) -> io::Result<Pid> {
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    Ok(leader.ok_or(io::ErrorKind::InvalidInput)?)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::programs::output;
    use rustix::process::{getpid, set_child_subreaper};
    use seawall_io::{Clock, SystemClock};
    use std::process::Command;
    use std::time::Duration;

    fn wait_until(is_so: impl Fn() -> bool) {
        let clock = SystemClock::new();
        while !is_so() {
            assert!(clock.now() < Duration::from_secs(60), "it does not happen");
            clock.sleep(Duration::from_millis(5));
        }
    }

    /// The processes become children of this one, as of the first one of a container.
    #[test]
    fn processes_that_have_ended_do_not_run_and_are_reaped() {
        set_child_subreaper(Some(getpid())).unwrap();
        let job = "setsid sh -c 'sleep 100; true' > /dev/null 2>&1 & echo $!";
        let said = output(Command::new("sh").args(["-c", job])).unwrap().stdout;
        let leader = String::from_utf8(said).unwrap().trim().parse().unwrap();
        wait_until(|| is_group_running(leader) == Some(true));
        kill_group(leader).unwrap();
        wait_until(|| is_group_running(leader) == Some(false));
        kill_group(leader).expect("nothing has waited for them");
        reap_group(leader);
        assert_eq!(is_group_running(leader), None);
    }

    /// The system cuts a long name inside a character.
    #[test]
    fn process_runs_whatever_bytes_its_name_has() {
        set_child_subreaper(Some(getpid())).unwrap();
        let renames = r"printf 'x) \377' > /proc/$$/comm; kill -STOP $$";
        let job = "setsid sh -c \"$0\" > /dev/null 2>&1 & echo $!";
        let said = output(Command::new("sh").args(["-c", job, renames])).unwrap().stdout;
        let leader: u32 = String::from_utf8(said).unwrap().trim().parse().unwrap();
        let name = format!("/proc/{leader}/comm");
        wait_until(|| read_bytes(Path::new(&name), STATUS_MAX).unwrap() == b"x) \xff\n");
        let is_running = is_group_running(leader);
        kill_group(leader).unwrap();
        wait_until(|| is_group_running(leader) == Some(false));
        reap_group(leader);
        assert_eq!((is_running, is_group_running(leader)), (Some(true), None));
    }
}
