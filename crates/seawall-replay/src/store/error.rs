//! The errors of a store.

use crate::store::write::Write;
use seawall::Lsn;
use std::fmt;

/// Why a store did not apply a batch, or could not be read.
#[derive(Debug)]
pub enum StoreError {
    /// A write in the batch is invalid.
    Refused {
        /// The record of the change.
        lsn: Lsn,
        /// A description of the change.
        change: String,
        /// The reason.
        why: String,
    },
    /// The store failed, independently of the batch.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Wraps a store's own error.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// Refuses `write` because of `why`.
    pub fn refused(write: &Write, why: impl Into<String>) -> Self {
        Self::Refused { lsn: write.lsn, change: write.to_string(), why: why.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { lsn, change, why } => write!(f, "LSN {lsn}: {change}: {why}"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}
