//! Shuts a file system down, as if its device had been pulled, by an ioctl of ext4 and XFS.

use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::io;
use std::path::Path;

/// `EXT4_IOC_SHUTDOWN`, the same number as `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
/// Flag: nothing more reaches the device, not even the journal.
const WITHOUT_FLUSH: u32 = 2;

/// Shuts down the file system mounted here; unsynced data is lost.
///
/// # Errors
///
/// This file system or kernel does not support it, or the caller has no right to do it.
pub(crate) fn shut_down(mounted: &Path) -> io::Result<()> {
    let folder = open(mounted, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    // SAFETY: this ioctl takes a pointer to a `u32`, and only reads from it.
    let request = unsafe { Setter::<SHUTDOWN, u32>::new(WITHOUT_FLUSH) };
    // SAFETY: the call keeps the folder open and the flags in memory until it returns.
    unsafe { ioctl(&folder, request) }?;
    Ok(())
}
