//! The store interface: atomic batches that include the progress of the replay.

pub(crate) mod error;
pub(crate) mod memory;
pub(crate) mod watermark;
pub(crate) mod write;

use crate::store::error::StoreError;
use crate::store::watermark::Watermark;
use crate::store::write::{NewRow, Write};
use std::sync::Mutex;

/// A store that a log is replayed into.
///
/// An implementation guarantees two things. A batch, including its [watermarks](Watermark), is
/// applied completely or not at all, even in a crash; and a crash loses only the newest batches,
/// never one before a batch that survives. After [`flush`](Store::flush) returns, all batches
/// survive a power cut.
///
/// Replay is *not* exactly-once if the store writes watermarks separately from the batch, or in a
/// part of the store that is not atomic with it.
///
/// Writes in a batch are sorted by table and key, except in batches that create or drop a table. A
/// store that gains from concurrent batches returns their number from
/// [`partitions_max`](Store::partitions_max).
///
/// # Examples
///
/// ```
/// use seawall::{Log, LogReader};
/// use seawall_replay::{Batch, Change, Edit, Operation, Replay, Store, StoreError, Watermark};
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// /// Rows and watermarks change in one transaction.
/// #[derive(Default)]
/// struct Rows(Mutex<(BTreeMap<Vec<u8>, Vec<u8>>, Vec<Watermark>)>);
///
/// impl Store for Rows {
///     fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
///         Ok(self.0.lock().unwrap().1.clone())
///     }
///     fn get(&self, _table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
///         Ok(self.0.lock().unwrap().0.get(key).cloned())
///     }
///     fn write(&self, batch: &Batch) -> Result<(), StoreError> {
///         let mut state = self.0.lock().unwrap();
///         let mut rows = state.0.clone();
///         for write in &batch.writes {
///             match &write.edit {
///                 Edit::Put { key, value } => drop(rows.insert(key.clone(), value.clone())),
///                 Edit::Delete { key } => drop(rows.remove(key)),
///                 _ => return Err(StoreError::refused(write, "only one table")),
///             }
///         }
///         *state = (rows, batch.watermarks.iter().map(|(_, mark)| *mark).collect());
///         Ok(())
///     }
///     fn flush(&self) -> Result<(), StoreError> {
///         Ok(()) // must make all batches durable
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("seawall-doc-store-{}", std::process::id()));
/// let log: Log<Operation> = Log::open(&path)?;
/// log.append(&Change::put("", "ada", "300").into())?;
///
/// let (reader, store) = (LogReader::<Operation>::open(&path)?, Rows::default());
/// assert_eq!(Replay::new().run(&reader, &store)?.applied, 1);
/// assert_eq!(Replay::new().run(&reader, &store)?.applied, 0); // already applied
/// # drop(log); std::fs::remove_dir_all(&path)?;
/// # Ok(())
/// # }
/// ```
pub trait Store: Send + Sync {
    /// Returns the watermarks written last, one per partition in order; none in a new store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError>;

    /// Returns the value of `key` in `table`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`]. A missing table has no keys; that is not an error.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Applies a batch atomically: its writes in order, and its watermarks.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for an invalid write: to a row of a missing table, or the creation
    /// of a table that exists.
    fn write(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Applies a batch as [`write`](Store::write) does, and may move keys and values out of it. A
    /// store in memory can thus keep them without copying.
    ///
    /// # Errors
    ///
    /// As [`write`](Store::write).
    fn write_mut(&self, batch: &mut Batch) -> Result<(), StoreError> {
        self.write(batch)
    }

    /// Returns when every batch survives a power cut. The log may then be pruned up to the records
    /// that the watermarks need.
    ///
    /// After a failed sync, the kernel may drop what it could not write, and the next sync succeeds
    /// without it. Then a store either writes that again before a flush succeeds, or refuses to be
    /// flushed and to be opened again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn flush(&self) -> Result<(), StoreError>;

    /// Returns the largest number of threads that can usefully call [`write`](Store::write) at the
    /// same time.
    fn partitions_max(&self) -> usize {
        1
    }

    /// Returns the lock that a replay holds while it runs, which refuses a second one meanwhile. A
    /// store without it must not be given to two replays at the same time: both would apply the
    /// same changes.
    fn replay_lock(&self) -> Option<&Mutex<()>> {
        None
    }

    /// Returns the bulk ingestion of the store, if it has one. Replay uses it for a store that
    /// lacks many changes.
    fn ingestion(&self) -> Option<&dyn Ingest> {
        None
    }
}

/// Bulk ingestion: a store takes any number of sorted rows at once, faster than in batches.
pub trait Ingest {
    /// Sorts tables into the order in which [`ingest`](Ingest::ingest) takes their rows.
    fn sort_tables(&self, tables: &mut [String]);

    /// Applies `rows` and `watermarks` atomically, even in a crash, and only if no row is an error.
    /// There can be more rows than fit in memory.
    ///
    /// If a crash loses a batch that was written earlier, it also loses the ingestion.
    ///
    /// # Errors
    ///
    /// As [`Store::write`], and the first error among `rows`.
    fn ingest(
        &self,
        rows: &mut dyn SortedRows,
        watermarks: &[(u32, Watermark)],
    ) -> Result<(), StoreError>;
}

/// The rows of an [ingestion](Ingest): table by table, sorted by key, each key once.
pub trait SortedRows {
    /// Returns the next row, or `None` after the last one.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if a change cannot be applied or read. Nothing may be ingested then.
    fn next_row(&mut self) -> Result<Option<NewRow<'_>>, StoreError>;
}

/// Yields the writes that put or delete rows, and skips the others.
impl SortedRows for std::slice::Iter<'_, Write> {
    fn next_row(&mut self) -> Result<Option<NewRow<'_>>, StoreError> {
        Ok(self.find_map(NewRow::of))
    }
}

/// A batch of writes, applied atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The writes, in order. No key has two writes, unless a table was created or dropped between
    /// them.
    pub writes: Vec<Write>,
    /// The watermarks to write with the batch: partition number and watermark.
    pub watermarks: Vec<(u32, Watermark)>,
}
