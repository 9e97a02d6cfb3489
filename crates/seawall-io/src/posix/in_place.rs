//! Files that are overwritten in place, also where the file system copies on write.
//!
//! A segment gets its room before a record is admitted to it. Where each overwrite takes new blocks
//! that room is worth nothing: a full disk is met by the write. `btrfs` overwrites the files in
//! place that have the attribute `NOCOW` (`chattr +C`) since they were empty.

use std::fs;

/// Has an empty file overwritten in place, as far as the file system lets it.
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
        // Where it is refused the file is as any other there.
        let _ = ioctl_setflags(file, flags | IFlags::NOCOW);
    }
}

/// Others have no such attribute.
#[cfg(not(target_os = "linux"))]
pub(super) fn prefer_in_place(_: &fs::File) {}
