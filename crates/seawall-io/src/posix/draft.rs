//! A new directory that gets its name only when it is complete.

use super::PosixStorage;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// Added to the target's name while the directory is being filled.
const SUFFIX: &str = ".partial";

/// A new directory under construction: it is called `NAME.partial` until [`Draft::finish`] renames
/// it, even after a crash. Dropping it removes the directory.
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
        let storage = Arc::new(PosixStorage::create(&partial)?);
        Ok(Self { storage, target: target.to_owned(), is_named: false })
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
    /// error. If only the last step fails, the sync of the parent, the complete directory stays.
    pub fn finish(mut self) -> io::Result<()> {
        self.storage.rename_directory(&self.target)?;
        self.is_named = true;
        self.storage.sync_parent()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_named {
            // If removal fails, the rest has a temporary name, and the next draft reports it.
            let _ = fs::remove_dir_all(&self.storage.path);
        }
    }
}

/// The temporary name. `None` if the path has no last component, and so exists already.
fn partial(target: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(target.file_name()?);
    name.push(SUFFIX);
    Some(target.with_file_name(name))
}
