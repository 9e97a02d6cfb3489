//! Space reserved for a file, also beyond its end, so that it can grow on a full disk.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::{Errno, retry_on_intr};

use super::in_place::prefer_in_place;

/// Reserves space for the first `length` bytes; `false` if the file system cannot.
pub(super) fn reserve(file: &File, length: u64) -> io::Result<bool> {
    allocate_range(file, FallocateFlags::KEEP_SIZE, length).inspect_err(|_| {
        // Some file systems keep the part for which they found space.
        if let Ok(status) = file.metadata() {
            let _ = retry_on_intr(|| ftruncate(file, status.len()));
        }
    })
}

/// Allocates the first `length` bytes, and extends a shorter file; `false` if the file system
/// cannot.
pub(super) fn allocate(file: &File, length: u64) -> io::Result<bool> {
    allocate_range(file, FallocateFlags::empty(), length)
}

fn allocate_range(file: &File, flags: FallocateFlags, length: u64) -> io::Result<bool> {
    if length == 0 {
        // The call refuses a length of zero.
        return Ok(true);
    }
    prefer_in_place(file);
    match retry_on_intr(|| fallocate(file, flags, 0, length)) {
        Ok(()) => Ok(true),
        Err(error) if is_unsupported(error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the kernel, a sandbox or the file system does not know the call: the arguments are
/// valid.
fn is_unsupported(error: Errno) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].contains(&error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_that_cannot_allocate_is_no_failure() {
        for unsupported in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL] {
            assert!(is_unsupported(unsupported), "{unsupported:?}");
        }
        for failed in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG, Errno::IO, Errno::BADF] {
            assert!(!is_unsupported(failed), "{failed:?}");
        }
    }
}
