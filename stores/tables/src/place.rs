//! The place of a database: locks it, and creates the database atomically.
//!
//! Some databases cannot be opened if their creation was interrupted. They are therefore created
//! under a temporary name.

use crate::lock::Lock;
use crate::{OpenError, Result};
use seawall_replay::StoreError;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

const DATABASE: &str = "database";

/// A folder or a file that is locked against other stores.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    database: PathBuf,
    /// Keeps the lock while it is open.
    lock: Lock,
}

impl Place {
    /// Locks the folder `path` with a file named after the database, and creates it if necessary,
    /// but not the folders above it, whose names would not be durable. The database is its folder
    /// `database`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if there is something else; [`OpenError::Unsynced`].
    pub fn folder(path: &Path, name: &str) -> Result<Self> {
        if let Err(error) = fs::create_dir(path)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(OpenError::io(path)(error));
        }
        Self::find_folder(path, name)?;
        Self::locked(path, &lock_in(path, name), path.join(DATABASE))
    }

    /// Locks the file `path`, which is the database, with a file next to it.
    ///
    /// # Errors
    ///
    /// [`OpenError::Locked`], [`OpenError::Unsynced`], [`OpenError::Io`].
    pub fn file(path: &Path) -> Result<Self> {
        Self::locked(path, &with_suffix(path, ".lock"), path.to_owned())
    }

    /// Returns the path of the database in the folder `path`, if it exists. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if [`folder`](Self::folder) would refuse it.
    pub fn find_folder(path: &Path, name: &str) -> Result<Option<PathBuf>> {
        let failed = OpenError::io(path);
        let foreign = |why: &str| OpenError::Foreign { path: path.to_owned(), why: why.to_owned() };
        let mut names = match fs::read_dir(path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && path.exists() => {
                return Err(foreign("it is not a directory"));
            }
            Err(error) => return Err(failed(error)),
        };
        let is_empty = names.next().transpose().map_err(&failed)?.is_none();
        if !is_empty && !lock_in(path, name).try_exists().map_err(&failed)? {
            return Err(foreign("the directory has other content"));
        }
        let database = path.join(DATABASE);
        Ok(database.try_exists().map_err(failed)?.then_some(database))
    }

    /// Returns the size of the file `path`, if it exists. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if it is not a file.
    pub fn find_file(path: &Path) -> Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(Some(found.len())),
            Ok(_) => {
                let why = "it is not a file".to_owned();
                Err(OpenError::Foreign { path: path.to_owned(), why })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::io(path)(error)),
        }
    }

    fn locked(path: &Path, lock: &Path, database: PathBuf) -> Result<Self> {
        let lock = Lock::open(lock, path)?;
        Ok(Self { path: path.to_owned(), database, lock })
    }

    /// Records that a sync of the database failed, so that changes which it shows may be lost. The
    /// store cannot be opened again until the machine has restarted. For a database that does not
    /// write such changes again when it is opened.
    pub fn mark_unsynced(&self) {
        self.lock.mark_unsynced();
    }

    /// Returns an error after [`mark_unsynced`](Self::mark_unsynced).
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    pub fn check_synced(&self) -> Result<(), StoreError> {
        if self.lock.is_unsynced() {
            return Err(StoreError::failed("a sync of the database has failed"));
        }
        Ok(())
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
        fs::rename(&partial, &self.database).map_err(failed)
    }
}

/// Makes the name of a store durable and, if it is a folder, the names in it. Otherwise a power
/// failure could remove the database with everything that is flushed later.
///
/// # Errors
///
/// Errors of the file system.
pub(crate) fn sync_names(path: &Path) -> io::Result<()> {
    let folder = path.is_dir().then_some(path);
    folder.into_iter().chain(path.parent()).try_for_each(sync_folder)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    #[cfg(test)]
    tests::SYNCED.with_borrow_mut(|synced| synced.push(path.to_owned()));
    // Other systems cannot open folders, and do not need this sync.
    if cfg!(unix) { OpenOptions::new().read(true).open(path)?.sync_all() } else { Ok(()) }
}

/// Returns the lock of a folder.
fn lock_in(path: &Path, name: &str) -> PathBuf {
    // Not `lock`, which is a file of Seawall logs: a log in the same folder must be detected.
    path.join(format!("seawall-{name}.lock"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tables;
    use crate::memory::Memory;
    use std::cell::RefCell;

    thread_local! {
        /// The folders that this thread has synced.
        pub(super) static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(vec![]) };
    }

    /// An empty folder, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("seawall-tables-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_of_a_store_are_synced_even_if_an_earlier_process_has_created_it() {
        let scratch = Scratch::new("names");
        let folder = scratch.0.join("store");
        let synced = || SYNCED.take();
        for _ in 0..2 {
            // The process is killed before it has synced anything.
            let place = Place::folder(&folder, "memory").unwrap();
            place
                .create(|partial| fs::create_dir(partial).map_err(OpenError::io(partial)))
                .unwrap();
            drop(place);
            synced();
            drop(Tables::<Memory>::open(&folder).unwrap());
            assert_eq!(synced(), [folder.clone(), scratch.0.clone()]);
        }
        drop(Tables::<Memory>::open(folder.join("file")).unwrap());
        assert_eq!(synced(), [folder]);
        drop(Tables::<Memory>::open("file").unwrap());
        assert_eq!(synced(), [Path::new(".")]);
    }

    #[test]
    fn folders_above_a_store_are_not_created() {
        let scratch = Scratch::new("above");
        let refused = Place::folder(&scratch.0.join("missing/store"), "memory").unwrap_err();
        assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 0);
    }
}
