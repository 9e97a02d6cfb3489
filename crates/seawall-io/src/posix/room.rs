//! Space reserved beyond the end of a file, so that the file can grow on a full disk.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::{Errno, retry_on_intr};

use super::in_place::prefer_in_place;

/// Reserves space for the first `length` bytes; `false` if the file system cannot.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<bool> {
    if length == 0 {
        // The call refuses a length of zero.
        return Ok(true);
    }
    prefer_in_place(file);
    match retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, length)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => {
            // Some file systems keep the part for which they found space.
            if let Ok(status) = file.metadata() {
                let _ = retry_on_intr(|| ftruncate(file, status.len()));
            }
            Err(error.into())
        }
    }
}
