//! The folder of a store: its lock, and a database that is created atomically.
//!
//! fjall cannot open a database whose creation was interrupted, because its version file is written
//! last. So the database is created under a temporary name.

use crate::{OpenError, Result};
use fjall::{Database, PersistMode};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Not `lock`, which is a file of Seawall logs: a log in the same folder must be detected.
const LOCK: &str = "seawall-fjall.lock";
const DATABASE: &str = "database";
const PARTIAL: &str = "database.partial";

/// A folder that is locked against other stores.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Locked while it is open.
    _lock: File,
}

impl Place {
    /// Opens the folder and creates it if necessary.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let mut names = fs::read_dir(path).map_err(failed)?.filter_map(io::Result::ok);
        let is_ours = path.join(LOCK).exists() || names.next().is_none();
        if !is_ours {
            let why = "the directory has other content".to_owned();
            return Err(OpenError::Foreign { path: path.to_owned(), why });
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = options.open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the database. A new one is initialized by `fill` before it gets its name.
    pub(crate) fn open(
        &self,
        fill: impl FnOnce(&Database) -> fjall::Result<()>,
    ) -> Result<Database> {
        let failed = OpenError::of(&self.path);
        self.open_or_make(fill).map_err(failed)
    }

    #[expect(clippy::disallowed_methods, reason = "the folder is fjall's, and not a log")]
    fn open_or_make(
        &self,
        fill: impl FnOnce(&Database) -> fjall::Result<()>,
    ) -> fjall::Result<Database> {
        let path = self.path.join(DATABASE);
        if !path.try_exists()? {
            let partial = self.path.join(PARTIAL);
            if partial.try_exists()? {
                fs::remove_dir_all(&partial)?;
            }
            let database = Database::builder(&partial).open()?;
            fill(&database)?;
            database.persist(PersistMode::SyncAll)?;
            drop(database);
            fs::rename(&partial, &path)?;
            // Without this a power failure could remove the folder with everything that is flushed
            // later.
            sync_folder(&self.path)?;
            let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(parent.unwrap_or(Path::new(".")))?;
        }
        Database::builder(&path).open()
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    // Other systems cannot open folders and need no such sync.
    if cfg!(unix) { OpenOptions::new().read(true).open(path)?.sync_all() } else { Ok(()) }
}
