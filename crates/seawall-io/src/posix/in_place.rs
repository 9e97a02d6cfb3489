//! Overwriting in place, also on file systems that copy on write.
//!
//! A segment's space is reserved before a record is admitted to it. Where every overwrite allocates
//! new blocks, that reservation is useless: a full disk fails the write. `btrfs` overwrites a file
//! in place if it has had the attribute `NOCOW` (`chattr +C`) since it was empty.

use std::fs;

/// `BTRFS_SUPER_MAGIC` of Linux.
#[cfg(target_os = "linux")]
const BTRFS: u32 = 0x9123_683E;

/// Asks the file system to overwrite an empty file in place.
#[cfg(target_os = "linux")]
pub(super) fn prefer_in_place(file: &fs::File) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

    if file_system(file) != Some(BTRFS) {
        return;
    }
    if let Ok(flags) = ioctl_getflags(file) {
        // If the file system refuses, the file behaves like any other there.
        let _ = ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// Other systems have no such attribute.
#[cfg(not(target_os = "linux"))]
pub(super) fn prefer_in_place(_: &fs::File) {}

/// Returns whether overwriting the whole file is certain to need no new space. Unknown file
/// systems, and those that only forward to another one, count as copying.
#[cfg(target_os = "linux")]
pub(super) fn overwrites_in_place(file: &fs::File) -> bool {
    use rustix::fs::{IFlags, ioctl_getflags};
    /// `EXT4_SUPER_MAGIC`, which ext2 and ext3 share, `XFS_SUPER_MAGIC` and `TMPFS_MAGIC`.
    const EXT4: u32 = 0xEF53;
    const XFS: u32 = 0x5846_5342;
    const TMPFS: u32 = 0x0102_1994;

    match file_system(file) {
        Some(EXT4 | TMPFS) => true,
        Some(XFS) => unshare(file),
        Some(BTRFS) => ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW)),
        _ => false,
    }
}

/// Other systems do not say how they overwrite.
#[cfg(not(target_os = "linux"))]
pub(super) fn overwrites_in_place(_: &fs::File) -> bool {
    false
}

/// Copies the blocks that the file shares with clones of it (`cp --reflink`), so that they are not
/// copied when they are overwritten. Does nothing quickly if it never had a clone.
#[cfg(target_os = "linux")]
fn unshare(file: &fs::File) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::retry_on_intr;

    match file.metadata().map(|status| status.len()) {
        // The call refuses a length of zero.
        Ok(0) => true,
        Ok(length) => {
            retry_on_intr(|| fallocate(file, FallocateFlags::UNSHARE_RANGE, 0, length)).is_ok()
        }
        Err(_) => false,
    }
}

/// The number of the file's kind of file system.
#[cfg(target_os = "linux")]
pub(super) fn file_system(file: &fs::File) -> Option<u32> {
    rustix::fs::fstatfs(file).ok().and_then(|found| u32::try_from(found.f_type).ok())
}
