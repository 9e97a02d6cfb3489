//! Process groups.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::io;

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

fn pid(leader: u32) -> io::Result<Pid> {
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    Ok(leader.ok_or(io::ErrorKind::InvalidInput)?)
}
