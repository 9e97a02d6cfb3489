//! Process groups.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;

/// Kills all processes of the group that the process `leader` leads.
///
/// # Errors
///
/// The system's error, for example if none is left.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    let leader = leader.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process_group(leader, Signal::KILL)?)
}
