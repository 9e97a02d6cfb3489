//! The place of a database: locks it, and creates the database atomically.
//!
//! Some databases cannot be opened if their creation was interrupted. They are therefore created
//! under a temporary name.

use crate::{OpenError, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

const DATABASE: &str = "database";

/// A folder or a file that is locked against other stores.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    database: PathBuf,
    /// Keeps the lock while it is open.
    _lock: File,
}

impl Place {
    /// Locks the folder `path` with a file named after the database, and creates it if necessary.
    /// The database is its folder `database`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if the folder has other content.
    pub fn folder(path: &Path, name: &str) -> Result<Self> {
        let failed = OpenError::io(path);
        // Not `lock`, which is a file of Seawall logs: a log in the same folder must be detected.
        let lock = path.join(format!("seawall-{name}.lock"));
        fs::create_dir_all(path).map_err(&failed)?;
        let mut names = fs::read_dir(path).map_err(&failed)?.filter_map(io::Result::ok);
        let is_ours = lock.exists() || names.next().is_none();
        if !is_ours {
            let why = "the directory has other content".to_owned();
            return Err(OpenError::Foreign { path: path.to_owned(), why });
        }
        Self::locked(path, &lock, path.join(DATABASE))
    }

    /// Locks the file `path`, which is the database, with a file next to it.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`], [`OpenError::Io`].
    pub fn file(path: &Path) -> Result<Self> {
        Self::locked(path, &with_suffix(path, ".lock"), path.to_owned())
    }

    fn locked(path: &Path, lock: &Path, database: PathBuf) -> Result<Self> {
        let failed = OpenError::io(path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(lock).map_err(&failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), database, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Returns the path of the store, as given to [`folder`](Self::folder) or [`file`](Self::file).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// Creates the database with `make` if there is none. `make` gets a temporary path. It must
    /// make the database durable there and close it.
    ///
    /// # Errors
    ///
    /// [`OpenError::Io`], or the error of `make`.
    #[expect(clippy::disallowed_methods, reason = "the database is not a log")]
    pub fn create(&self, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let failed = OpenError::io(&self.path);
        if self.database.try_exists().map_err(&failed)? {
            return Ok(());
        }
        let partial = with_suffix(&self.database, ".partial");
        match partial.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&partial).map_err(&failed)?,
            Ok(_) => fs::remove_file(&partial).map_err(&failed)?,
            Err(_) => {}
        }
        make(&partial)?;
        fs::rename(&partial, &self.database).map_err(&failed)?;
        self.sync_names().map_err(failed)
    }

    /// Makes the names of the database and of its folder durable. Otherwise a power failure could
    /// remove the database with everything that is flushed later.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn sync_names(&self) -> io::Result<()> {
        let mut folders = self.database.ancestors().skip(1);
        let above = if self.database == self.path { 1 } else { 2 };
        folders.by_ref().take(above).try_for_each(sync_folder)
    }
}

/// Makes the names in the folder of `path` durable.
///
/// # Errors
///
/// Errors of the file system.
pub fn sync_name(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    // Other systems cannot open folders, and do not need this sync.
    if cfg!(unix) { OpenOptions::new().read(true).open(path)?.sync_all() } else { Ok(()) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
