//! Why a store did not do what it was given.

use crate::store::write::Write;
use seawall::Lsn;
use std::fmt;

/// Why a store did not do as told.
#[derive(Debug)]
pub enum StoreError {
    /// One of the writes cannot be done.
    Refused {
        /// The record that asks for it.
        lsn: Lsn,
        /// What it asks for.
        change: String,
        /// Why it cannot be.
        why: String,
    },
    /// The store failed, whatever it was given.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// The store failed because of `error`.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// `write` cannot be done.
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
