//! What replay asks of a store: atomic batches that hold how far it has come.

pub(crate) mod error;
pub(crate) mod memory;
pub(crate) mod watermark;
pub(crate) mod write;

use crate::store::error::StoreError;
use crate::store::watermark::Watermark;
use crate::store::write::Write;

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

/// What a store applies at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What to write, in this order. No key has two writes, unless a table was created or dropped
    /// between them.
    pub writes: Vec<Write>,
    /// The watermarks to write with it: lane, and how far it has come.
    pub watermarks: Vec<(u32, Watermark)>,
}
