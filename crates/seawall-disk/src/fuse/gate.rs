//! Stops requests before the disk is drained for the last time, and turns errors into numbers.

use fuser::{Errno, ReplyEmpty};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// Lets requests through until it is closed.
#[derive(Debug, Default)]
pub(super) struct Gate {
    is_closed: RwLock<bool>,
    /// The number of open file handles.
    opened: AtomicUsize,
}

impl Gate {
    /// Refuses later requests, and returns when no request is in progress.
    pub(super) fn close(&self) {
        *self.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(super) fn file_opened(&self) {
        self.opened.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn file_closed(&self) {
        self.opened.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn pass<T>(&self, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed { Err(Errno::ESHUTDOWN) } else { work() }
    }
}

/// Converts an error of the disk or the volume to the error number for the program.
#[allow(clippy::needless_pass_by_value, reason = "map_err passes it by value")]
pub(super) fn errno(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::InvalidInput => Errno::EINVAL,
        io::ErrorKind::ReadOnlyFilesystem => Errno::EROFS,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::IsADirectory => Errno::EISDIR,
        io::ErrorKind::NotADirectory => Errno::ENOTDIR,
        io::ErrorKind::DirectoryNotEmpty => Errno::ENOTEMPTY,
        io::ErrorKind::InvalidFilename => Errno::ENAMETOOLONG,
        io::ErrorKind::FileTooLarge => Errno::EFBIG,
        io::ErrorKind::CrossesDevices => Errno::EXDEV,
        io::ErrorKind::TooManyLinks => Errno::EMLINK,
        io::ErrorKind::PermissionDenied => Errno::EPERM,
        _ => Errno::EIO,
    }
}

pub(super) fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
