//! A new directory that gets its name only when it is complete.

use super::{DIRECTORY, PosixStorage};
use crate::failure::{explain, into_parts};
use rustix::fs::{AtFlags, CWD, Dir, Mode, openat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Added to the target's name while the directory is being filled.
const SUFFIX: &str = ".partial";

/// A new directory under construction: it is called `NAME.partial` until [`Draft::finish`] renames
/// it, even after a crash. Dropping it removes the directory.
///
/// Another process may remove the directory, and make another of the same name. That one is neither
/// renamed nor removed.
///
/// # Examples
///
/// ```
/// use seawall_io::{Draft, Storage};
///
/// # let path = std::env::temp_dir().join(format!("seawall-io-draft-{}", std::process::id()));
/// let draft = Draft::create(&path)?;
/// draft.storage().create("notes")?;
/// assert!(!path.exists());
/// draft.finish()?;
/// assert!(path.join("notes").exists());
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    storage: Arc<PosixStorage>,
    target: PathBuf,
    is_named: bool,
}

impl Draft {
    /// Starts a directory that will be called `target`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if `target` exists, or if `target.partial` exists: another
    /// draft, or one that a crash left; otherwise the device's error.
    pub fn create(target: &Path) -> io::Result<Self> {
        let free = partial(target).filter(|_| target.symlink_metadata().is_err());
        let partial = free.ok_or(io::ErrorKind::AlreadyExists)?;
        let storage = PosixStorage::create(&partial).inspect_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                // Only the first sync, or opening the directory, has failed. Only an empty
                // directory is removed.
                let _ = unlinkat(CWD, &partial, AtFlags::REMOVEDIR);
            }
        })?;
        Ok(Self { storage: Arc::new(storage), target: target.to_owned(), is_named: false })
    }

    /// The directory under its temporary name.
    #[must_use]
    pub fn storage(&self) -> Arc<PosixStorage> {
        self.storage.clone()
    }

    /// Renames the directory to its final name, and makes the name durable. The caller has synced
    /// the contents: the files, and the directory with their names.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name was taken meanwhile; otherwise the device's
    /// error. If only the last step fails, the sync of the parent, the complete directory stays,
    /// and the error says so.
    pub fn finish(mut self) -> io::Result<()> {
        self.storage.rename_directory(&self.target)?;
        self.is_named = true;
        self.storage.sync_parent().map_err(|error| {
            let target = self.target.display();
            let place = format!("the parent of {target}, which is complete but may not be durable");
            explain("sync", &place, into_parts(error).1)
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_named {
            // If removal fails, the rest has a temporary name, and the next draft reports it.
            let _ = remove(&self.storage);
        }
    }
}

/// Removes a directory, unless its name belongs to another one by now.
fn remove(storage: &PosixStorage) -> io::Result<()> {
    remove_contents(&storage.directory)?;
    if storage.is_at(&storage.path)? {
        unlinkat(CWD, &storage.path, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

fn remove_contents(directory: &OwnedFd) -> io::Result<()> {
    let entries = retry_on_intr(|| Dir::read_from(directory.as_fd()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // Linux and POSIX give different errors for a directory.
            Err(Errno::ISDIR | Errno::PERM) => {
                let open = || openat(directory, name, DIRECTORY, Mode::empty());
                remove_contents(&retry_on_intr(open)?)?;
                unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The temporary name. `None` if the path has no last component, and so exists already.
fn partial(target: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(target.file_name()?);
    name.push(SUFFIX);
    Some(target.with_file_name(name))
}
