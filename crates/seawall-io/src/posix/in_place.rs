//! Overwriting in place on file systems that copy on write.
//!
//! A segment's space is reserved before a record is admitted to it. Where every overwrite allocates
//! new blocks, that reservation is useless: a full disk fails the write. `btrfs` overwrites a file
//! in place if it has had the attribute `NOCOW` (`chattr +C`) since it was empty.

use std::fs;

/// Asks the file system to overwrite an empty file in place.
#[cfg(target_os = "linux")]
pub(super) fn prefer_in_place(file: &fs::File) {
    use rustix::fs::{IFlags, fstatfs, ioctl_getflags, ioctl_setflags};
    /// `BTRFS_SUPER_MAGIC` of Linux.
    const BTRFS: u32 = 0x9123_683E;

    let is_btrfs = fstatfs(file).is_ok_and(|found| u32::try_from(found.f_type) == Ok(BTRFS));
    if !is_btrfs {
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
