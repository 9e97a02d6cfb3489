//! The name of a directory itself, which another process may remove or give to another directory.

use super::PosixStorage;
use crate::storage::Storage;
use rustix::fs::{AtFlags, CWD, RenameFlags, fstat, statat};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

impl PosixStorage {
    /// Renames this directory to `path`, which must be free. Fails if another process has removed
    /// this directory, also if it has made another with the same name.
    pub(super) fn rename_directory(&self, path: &Path) -> io::Result<()> {
        let path: PathBuf = path.components().collect();
        if !self.is_at(&self.path)? {
            return Err(self.lost());
        }
        rename_if_free(&self.path, &path)?;
        if !self.is_at(&path)? {
            // The directory was replaced since the check. The other one gets its name back.
            let _ = rename_if_free(&path, &self.path);
            return Err(self.lost());
        }
        Ok(())
    }

    /// Whether `path` is this directory, and not another one that has replaced it.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = fstat(&self.directory)?;
        match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn lost(&self) -> io::Error {
        let place = self.place();
        io::Error::other(format!("another process removed or replaced {place}"))
    }
}

/// Renames a directory to a name that must be free.
fn rename_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot rename without replacing. Check first; two concurrent callers may
        // still collide.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => {
            rustix::fs::rename(from, to).map_err(io::Error::from)
        }
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        other => other.map_err(io::Error::from),
    }
}
