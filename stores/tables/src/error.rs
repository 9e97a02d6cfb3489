//! Errors of opening a store, one variant for each reaction of the caller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a store was not opened. The content of what is there is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another handle of this process, has the store open: close that first.
    Locked {
        /// The store.
        path: PathBuf,
    },
    /// The path exists, but is not a store of this release: use another path or another release of
    /// this crate.
    Foreign {
        /// The store.
        path: PathBuf,
        /// The mismatch.
        why: String,
    },
    /// A sync failed since the machine was started: the store may show changes that the device has
    /// lost, and a later sync can succeed without them. Rebuild it; or restart the machine, which
    /// makes the store show what the device has, and open it again.
    Unsynced {
        /// The store.
        path: PathBuf,
    },
    /// The device or the file system failed. Try again.
    Io {
        /// The store.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The database's files are damaged or of an unsupported version. The store can be rebuilt from
    /// a log that is complete from its first record on.
    Database {
        /// The store.
        path: PathBuf,
        /// The error of the database.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The result of opening a store.
pub type Result<T, E = OpenError> = std::result::Result<T, E>;

impl OpenError {
    /// Converts an error of the operating system for the store at `path`.
    pub fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }

    /// Converts an error of the database for the store at `path`.
    pub fn database<E>(path: &Path) -> impl Fn(E) -> Self + use<E>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = path.to_owned();
        move |source| Self::Database { path: path.clone(), source: source.into() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => {
                let why = "the store is already open in this or another process";
                write!(f, "{}: {why}", path.display())
            }
            Self::Unsynced { path } => {
                let why = "a sync has failed, so the store may show changes that the device lost";
                write!(f, "{}: {why}", path.display())
            }
            Self::Foreign { path, why } => {
                write!(f, "{}: not a store of this release: {why}", path.display())
            }
            Self::Io { path, source } => {
                write!(f, "{}: the store cannot be opened: {source}", path.display())
            }
            Self::Database { path, source } => {
                write!(f, "{}: the store cannot be opened: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Database { source, .. } => Some(&**source),
            Self::Locked { .. } | Self::Unsynced { .. } | Self::Foreign { .. } => None,
        }
    }
}
