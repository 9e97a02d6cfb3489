//! Errors of opening a store, one variant for each reaction of the caller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a store was not opened. The store is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process or another handle of this one has it open: close that first.
    Locked {
        /// The folder of the store.
        path: PathBuf,
    },
    /// The database exists, but is not a store of this release: use another folder or another
    /// release of this crate.
    Foreign {
        /// The folder of the store.
        path: PathBuf,
        /// The mismatch.
        why: String,
    },
    /// The device or the file system failed. Try again.
    Io {
        /// The folder of the store.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// fjall's files are damaged or of an unsupported version. The store can be rebuilt from a log
    /// that is complete from its first record on.
    Fjall {
        /// The folder of the store.
        path: PathBuf,
        /// The error of fjall.
        source: fjall::Error,
    },
}

/// The result of opening a store.
pub type Result<T, E = OpenError> = std::result::Result<T, E>;

impl OpenError {
    /// Converts an error of fjall for the store in `path`.
    pub(crate) fn of(path: &Path) -> impl Fn(fjall::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| match source {
            fjall::Error::Locked => Self::Locked { path: path.clone() },
            fjall::Error::Io(source) => Self::Io { path: path.clone(), source },
            source => Self::Fjall { path: path.clone(), source },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => {
                write!(
                    f,
                    "{}: the store is already open in this or another process",
                    path.display()
                )
            }
            Self::Foreign { path, why } => {
                write!(f, "{}: not a store of this release: {why}", path.display())
            }
            Self::Io { path, source } => {
                write!(f, "{}: the store cannot be opened: {source}", path.display())
            }
            Self::Fjall { path, source } => {
                write!(f, "{}: the store cannot be opened: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Fjall { source, .. } => Some(source),
            Self::Locked { .. } | Self::Foreign { .. } => None,
        }
    }
}
