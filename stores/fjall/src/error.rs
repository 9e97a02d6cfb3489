//! What can go wrong when a store is opened, one variant for each act of the caller.

use std::fmt;
use std::path::PathBuf;

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
    /// fjall failed, or its files are damaged. Where the device was at fault it may be tried
    /// again; else the store can be replayed anew from a log that goes back to the beginning.
    Fjall {
        /// Where it is.
        path: PathBuf,
        /// What it said.
        source: fjall::Error,
    },
}

/// The result of opening a store.
pub type Result<T, E = OpenError> = std::result::Result<T, E>;

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => {
                write!(f, "{}: the store is open already, here or elsewhere", path.display())
            }
            Self::Foreign { path, why } => {
                write!(f, "{}: this is no store of this release: {why}", path.display())
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
            Self::Fjall { source, .. } => Some(source),
            Self::Locked { .. } | Self::Foreign { .. } => None,
        }
    }
}
