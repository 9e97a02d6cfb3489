//! What can go wrong when a store is opened, one variant for each act of the caller.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a store was not opened. Nothing in it was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or another part of this one: close it there first.
    Locked {
        /// Where it is.
        path: PathBuf,
    },
    /// The database is there, and no store of this release: it is another folder, or another
    /// release of this crate that is needed.
    Foreign {
        /// Where it is.
        path: PathBuf,
        /// What tells.
        why: String,
    },
    /// The device or the file system refused. It may be tried again.
    Io {
        /// Where it is.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// fjall's files are damaged, or of a version that it does not read. A store can be made anew
    /// from a log that goes back to the beginning.
    Fjall {
        /// Where it is.
        path: PathBuf,
        /// What it said.
        source: fjall::Error,
    },
}

/// The result of opening a store.
pub type Result<T, E = OpenError> = std::result::Result<T, E>;

impl OpenError {
    /// What fjall says of the store in `path`.
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
                write!(f, "{}: the store is open already, here or elsewhere", path.display())
            }
            Self::Foreign { path, why } => {
                write!(f, "{}: this is no store of this release: {why}", path.display())
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
