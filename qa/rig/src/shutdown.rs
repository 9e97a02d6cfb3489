//! Shuts a file system down at once, as if its device had been pulled: ext4's and XFS's ioctl.

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::io;
use std::path::Path;

/// `EXT4_IOC_SHUTDOWN`, the same number as `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Nothing more reaches the device, not even the journal.
const WITHOUT_FLUSH: u32 = 2;

/// Shuts down the file system that is mounted here: what was not synced is lost.
///
/// # Errors
///
/// This file system or this kernel cannot be shut down, or only by others.
pub(crate) fn shut_down(mounted: &Path) -> io::Result<()> {
    let folder = open(mounted, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    // SAFETY: this ioctl takes a pointer to a `u32`, and only reads from it.
    let request = unsafe { Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSH) };
    // SAFETY: the call keeps the folder open and the flags in memory until it returns.
    unsafe { ioctl(&folder, request) }?;
    Ok(())
}
