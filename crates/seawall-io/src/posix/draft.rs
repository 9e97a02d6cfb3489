//! A directory that gets its name when it is whole.

use super::PosixStorage;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// What a directory is called while it is filled, behind its name.
const SUFFIX: &str = ".partial";

/// A new directory on its way: `NAME.partial` until [`Draft::finish`] names it, also after a crash.
/// Dropped before that, it is removed.
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
    /// Begins a directory that is to be called `target`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if that name is taken, or the name before it by another
    /// draft, or by what a crash left of one; whatever the device says.
    pub fn create(target: &Path) -> io::Result<Self> {
        let free = partial(target).filter(|_| target.symlink_metadata().is_err());
        let partial = free.ok_or(io::ErrorKind::AlreadyExists)?;
        let storage = Arc::new(PosixStorage::create(&partial)?);
        Ok(Self { storage, target: target.to_owned(), is_named: false })
    }

    /// The directory, to be filled.
    #[must_use]
    pub fn storage(&self) -> Arc<PosixStorage> {
        self.storage.clone()
    }

    /// Gives the directory its name, durably; what is in it is made durable before.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name was taken meanwhile; whatever the device says.
    /// If it says so of the last step, the sync of the parent, the directory stays, whole.
    pub fn finish(mut self) -> io::Result<()> {
        self.storage.rename_directory(&self.target)?;
        self.is_named = true;
        self.storage.sync_parent()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_named {
            // What stays is not taken for anything, and the next draft names it.
            let _ = fs::remove_dir_all(&self.storage.path);
        }
    }
}

/// The name before the name; none where a path has no last part, and so is there already.
fn partial(target: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(target.file_name()?);
    name.push(SUFFIX);
    Some(target.with_file_name(name))
}
