//! The path at which a server appears, locked while the server runs.

use seawall_host::folder_and_name;
use seawall_io::{Lock, PosixStorage, Storage};
use std::io;
use std::path::{Path, PathBuf};

/// A path that this process has locked.
#[derive(Debug)]
pub(crate) struct LockedPath {
    pub(crate) path: PathBuf,
    folder: PosixStorage,
    name: String,
    /// Held while the server runs.
    _lock: Box<dyn Lock>,
}

impl LockedPath {
    /// Locks the file at `path` with `suffix` added to its name; `None` if another process holds
    /// that lock.
    ///
    /// # Errors
    ///
    /// As [`split`], and the device's error.
    pub(crate) fn take(path: &Path, suffix: &str) -> io::Result<Option<Self>> {
        let (folder, name) = split(path)?;
        let folder = PosixStorage::open(folder)?;
        let lock = folder.lock_file(&format!("{name}{suffix}"))?;
        let (path, name) = (path.to_owned(), name.to_owned());
        Ok(lock.map(|lock| Self { path, folder, name, _lock: lock }))
    }

    /// Removes the file at the path.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.folder.remove(&self.name)
    }
}

/// The directory of a path, and the name in it.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] if `path` does not end in a name.
pub(crate) fn split(path: &Path) -> io::Result<(&Path, &str)> {
    folder_and_name(path).ok_or_else(|| {
        let why = format!("{} does not end in a file name", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}
