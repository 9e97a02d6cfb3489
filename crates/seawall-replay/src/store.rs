//! What replay asks of a store: atomic batches that hold how far it has come.

use crate::Watermark;
use seawall::Lsn;
use std::fmt;

/// A store that a log is replayed into.
///
/// It promises two things. A batch is applied whole or not at all, its [watermarks](Watermark)
/// included, whoever is killed when; what is lost in a crash are the newest batches, never one from
/// between. And [`flush`](Store::flush) returns when all of them survive a power cut.
///
/// With a watermark that is written beside the batch, or in a part of the store that is not atomic
/// with it, replay is *not* exactly-once.
///
/// Stores for one thread need no more than the four calls. One that takes batches from several
/// threads at once says so by [`lanes_max`](Store::lanes_max). Writes come sorted by table and key
/// within each batch, but for those that create or drop a table.
pub trait Store: Send + Sync {
    /// The watermarks that were written last, in the order of their lanes; none in a new store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError>;

    /// What `key` has in `table`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`]. A table that is not there has no keys.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Applies a batch, its writes in their order, and its watermarks: all, or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for a write that cannot be: a row of a table that is not there, a
    /// table that is there already.
    fn write(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Returns when every batch survives a power cut. The log may then be truncated up to what the
    /// watermarks still need.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn flush(&self) -> Result<(), StoreError>;

    /// How many threads may call [`write`](Store::write) at once and gain by it.
    fn lanes_max(&self) -> usize {
        1
    }
}

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

/// What a store applies at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What to write, in this order. No key has two writes, unless a table was created or dropped
    /// between them.
    pub writes: Vec<Write>,
    /// The watermarks to write with it: lane, and how far it has come.
    pub watermarks: Vec<(u32, Watermark)>,
}

/// One write to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The record that asks for it; of several writes to one key the last.
    pub lsn: Lsn,
    /// The table; the one without a name is always there.
    pub table: String,
    /// What to do in it.
    pub edit: Edit,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The key is no longer there; it may never have been.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// The table comes to be, empty; it was not there.
    Create {
        /// What the catalog says of it.
        definition: Vec<u8>,
    },
    /// The table, which was there, and its rows go.
    Drop,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.clone();
        match &self.edit {
            Edit::Put { key, .. } => crate::Change::put(table, key.as_slice(), ""),
            Edit::Delete { key } => crate::Change::delete(table, key.as_slice()),
            Edit::Create { .. } => crate::Change::create_table(table, ""),
            Edit::Drop => crate::Change::drop_table(table),
        }
        .fmt(f)
    }
}
