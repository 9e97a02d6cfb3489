//! The interface that a database must implement: sorted keys and atomic batches.

use crate::OpenError;
use seawall_replay::StoreError;
use std::ops::Bound;
use std::path::Path;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A range of keys.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A database of sorted keys, to be wrapped by [`Tables`](crate::Tables).
///
/// A crash may lose the newest batches, never one before a batch that survives.
pub trait Engine: Sized + Send + Sync {
    /// The name of the database, used in messages and in `--into NAME:PLACE`.
    const NAME: &'static str;
    /// The longest value that the database accepts, in bytes.
    const VALUE_MAX: usize;
    /// The number of threads that can usefully call [`write`](Engine::write) at the same time.
    const PARTITIONS_MAX: usize = 1;
    /// Whether [`ingest`](Engine::ingest) is implemented.
    const INGESTS: bool = false;

    /// The rows of a range, sorted by key.
    type Rows<'a>: Iterator<Item = Result<Row, StoreError>>
    where
        Self: 'a;

    /// Opens the database at `path`, or creates an empty one, even if an earlier creation was
    /// interrupted. No other handle can open the database meanwhile. The caller makes its name
    /// durable, and those in its folder.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    fn open(path: &Path) -> Result<Self, OpenError>;

    /// Returns whether there is a database at `path` that [`open`](Engine::open) would open rather
    /// than create. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if there is something else that `open` would refuse.
    fn exists(path: &Path) -> Result<bool, OpenError>;

    /// Returns the value of a key, which has at most 65,535 bytes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads a range of keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn scan(&self, range: Range) -> Result<Self::Rows<'_>, StoreError>;

    /// Applies all edits that `fill` makes atomically, or none if `fill` fails. `count` is the
    /// approximate number of edits.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`], or the error of `fill`.
    fn write(
        &self,
        count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Returns when all batches survive a power cut.
    ///
    /// After a failed sync, the kernel may drop what it could not write, and the next sync succeeds
    /// without it. Then a database either writes all of it again before a flush succeeds, also
    /// after it was opened again, or calls [`Place::mark_unsynced`](crate::Place::mark_unsynced).
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn flush(&self) -> Result<(), StoreError>;

    /// Applies any number of edits, sorted by key, as atomically as [`write`](Engine::write) does,
    /// even in a crash. Only called if [`INGESTS`](Engine::INGESTS).
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`], or the error of `fill`.
    fn ingest(
        &self,
        _fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        Err(StoreError::failed(format!("{} has no ingestion", Self::NAME)))
    }
}

/// The edits that [`Engine::write`] and [`Engine::ingest`] apply. No key occurs twice.
pub trait Edits {
    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, if it exists.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError>;
}
