//! Files that lose their name: which of them have readers, and which can be used again.
//!
//! A reader takes a shared lock on a file and then checks that the file still has its name. A
//! process that removes or renames a file does so first and then tries the exclusive lock. So one
//! of the two always notices the other.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags, fstat, statat};
use rustix::io::Errno;

use super::{LOCK_ATTEMPTS, PosixStorage, in_place, uninterrupted};
use crate::failure::explain;
use crate::storage::{File, Recycled, Storage};

impl PosixStorage {
    /// Opens a file for reading and shares it.
    pub(super) fn open_shared(&self, name: &str) -> io::Result<fs::File> {
        for _ in 0..LOCK_ATTEMPTS {
            let file = self.open_file(name, OFlags::RDONLY)?;
            if self.share(&file, name)? {
                return Ok(file);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Takes a shared lock on the file, so that a process that removes it sees that it has a
    /// reader. Returns whether the file still has its name; if not, its bytes may be replaced.
    fn share(&self, file: &fs::File, name: &str) -> io::Result<bool> {
        // It may fail: another process holds a lock, or the file system has none. Then a process
        // that removes the file gets none, either.
        let _ = uninterrupted(|| file.try_lock_shared());
        self.has_name(file, name)
    }

    fn has_name(&self, file: &fs::File, name: &str) -> io::Result<bool> {
        let opened = fstat(file)?;
        match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a removed file if it has no other name and no reader.
    pub(super) fn if_abandoned(&self, file: fs::File, name: &str) -> Option<Arc<dyn File>> {
        has_names_only(&file, 0).then(|| self.wrap(file, name))
    }

    /// Renames the file `name` to `spare`, and removes it if it cannot be used again.
    pub(super) fn keep_or_remove(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        let kind = self.check_kind(name);
        kind.map_err(|error| explain("recycle", &self.label(name), error))?;
        // A process without write permission may still rename and remove the file.
        let file = self.open_file(name, OFlags::RDWR).ok();
        self.rename_new(name, spare)?;
        match file {
            Some(file) if self.is_reusable(&file, spare) => {
                Ok(Recycled::Renamed(self.wrap(file, spare)))
            }
            file => {
                self.remove(spare)?;
                Ok(Recycled::Removed(file.and_then(|file| self.if_abandoned(file, name))))
            }
        }
    }

    /// Returns whether no other holder can read the file, which is now called `spare`, and
    /// overwriting it needs no space.
    fn is_reusable(&self, file: &fs::File, spare: &str) -> bool {
        self.has_name(file, spare).unwrap_or(false)
            && has_names_only(file, 1)
            && in_place::overwrites_in_place(file)
            // Readers of the next contents take a shared lock.
            && file.unlock().is_ok()
    }
}

/// Returns whether the file has this many names and no reader. Takes the exclusive lock.
fn has_names_only(file: &fs::File, count: u64) -> bool {
    let has_count = file.metadata().is_ok_and(|status| status.nlink() == count);
    has_count && uninterrupted(|| file.try_lock()).unwrap_or(false)
}

#[cfg(test)]
mod tests;
