//! The exclusive lock of a directory. It consists of a lock on the directory itself, which cannot
//! be removed while it is held, and a lock on a file in it, for programs that lock only the file.

use super::{DIRECTORY, PosixStorage};
use crate::failure::explain;
use crate::storage::{Lock, Storage};

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat, flock, fstat, statat};
use rustix::io::{Errno, retry_on_intr};

/// Both locks belong to open files and end when these are closed.
#[derive(Debug)]
pub(super) struct PosixLock {
    directory: OwnedFd,
    _file: fs::File,
    /// The file's status when it was locked.
    held: Stat,
    name: String,
    /// The directory's name for messages.
    place: String,
}

/// A lock on one file.
#[derive(Debug)]
pub(super) struct PosixFileLock {
    _file: fs::File,
}

impl Lock for PosixFileLock {
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Lock for PosixLock {
    fn check(&self) -> io::Result<()> {
        self.loss()?.map_or(Ok(()), |loss| Err(io::Error::other(loss)))
    }
}

impl PosixLock {
    /// Names the locked directory or file if it was removed or replaced.
    fn loss(&self) -> io::Result<Option<String>> {
        let Self { directory, held, name, place, .. } = self;
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) => Ok(None),
            Ok(_) => Ok(Some(format!("{place}/{name} was replaced"))),
            Err(Errno::NOENT) if fstat(directory)?.st_nlink == 0 => {
                Ok(Some(format!("{place} was removed")))
            }
            Err(Errno::NOENT) => Ok(Some(format!("{place}/{name} was removed"))),
            Err(error) => Err(error.into()),
        }
    }
}

impl PosixStorage {
    /// Tries once to take both locks.
    pub(super) fn try_lock(&self, name: &str) -> io::Result<Option<PosixLock>> {
        // The directory comes first, so that no file is created beside a holder whose lock file was
        // removed.
        let Some(directory) = self.lock_directory()? else { return Ok(None) };
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
        self.hold(directory, file, name)
    }

    /// Locks only the file `name`, which is created if needed. This is for a directory in which
    /// several programs have files, each with its own lock; [`Storage::lock`] is for a directory
    /// with a single owner. Returns `None` if another process holds the lock, even after several
    /// tries.
    ///
    /// # Errors
    ///
    /// The name belongs to something that is not a regular file; otherwise the system's error.
    pub fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let attempt = || {
            let open = || rustix::fs::openat(&self.directory, ".", DIRECTORY, Mode::empty());
            let directory = retry_on_intr(open)?;
            let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
            self.hold(directory, file, name)
        };
        for _ in 0..super::LOCK_ATTEMPTS {
            match attempt() {
                Ok(Some(lock)) => return Ok(Some(Box::new(lock))),
                Ok(None) => super::pause(),
                Err(error) => return Err(explain("lock", &self.label(name), error)),
            }
        }
        Ok(None)
    }

    /// Locks the directory; `None` if another process holds the lock.
    pub(super) fn lock_directory(&self) -> io::Result<Option<OwnedFd>> {
        // A lock belongs to one open file description, and this one is used only for the lock.
        let open = || rustix::fs::openat(&self.directory, ".", DIRECTORY, Mode::empty());
        let directory = retry_on_intr(open)?;
        let is_free = lock_if_possible(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(is_free.then_some(directory))
    }

    pub(super) fn hold(
        &self,
        directory: OwnedFd,
        file: fs::File,
        name: &str,
    ) -> io::Result<Option<PosixLock>> {
        if !super::uninterrupted(|| file.try_lock())? {
            return Ok(None);
        }
        let (held, name, place) = (fstat(&file)?, name.to_owned(), self.place());
        let lock = PosixLock { directory, _file: file, held, name, place };
        // If the file was replaced since it was opened, our lock on it excludes no other process.
        Ok(lock.loss()?.is_none().then_some(lock))
    }

    pub(super) fn probe_lock(&self, name: &str) -> io::Result<bool> {
        if !self.is_directory_free()? {
            return Ok(true);
        }
        self.probe_file_lock(name)
    }

    /// Locks only a file. [`Storage::is_locked`] also holds this lock for a moment.
    pub(super) fn try_lock_file(&self, name: &str) -> io::Result<Option<PosixFileLock>> {
        let file = self.open_file(name, OFlags::RDWR | OFlags::CREATE)?;
        for _ in 0..super::LOCK_ATTEMPTS {
            if super::uninterrupted(|| file.try_lock())? {
                return Ok(Some(PosixFileLock { _file: file }));
            }
            super::pause();
        }
        Ok(None)
    }

    pub(super) fn probe_file_lock(&self, name: &str) -> io::Result<bool> {
        let file = match self.open_file(name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        super::uninterrupted(|| file.try_lock_shared()).map(|got| !got)
    }

    fn is_directory_free(&self) -> io::Result<bool> {
        // A separate open file description: no other part of this process can release its lock.
        let open = || rustix::fs::openat(&self.directory, ".", DIRECTORY, Mode::empty());
        let directory = retry_on_intr(open)?;
        lock_if_possible(&directory, FlockOperation::NonBlockingLockShared)
    }
}

/// Returns whether the directory was locked, or cannot be locked on this file system: then the lock
/// on the file must suffice.
fn lock_if_possible(directory: impl AsFd, how: FlockOperation) -> io::Result<bool> {
    match retry_on_intr(|| flock(&directory, how)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) if is_unknown(error) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether this error says that the file system cannot lock directories.
fn is_unknown(error: Errno) -> bool {
    [Errno::NOTSUP, Errno::NOSYS, Errno::INVAL, Errno::BADF].contains(&error)
}
