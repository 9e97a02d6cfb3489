//! fjall as a database of sorted keys.

use fjall::{Database, Guard, Iter, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch};
use fjall::{PersistMode, Readable};
use seawall_replay::StoreError;
use seawall_tables::{Edits, Engine, OpenError, Place, Range, Result, Row};
use std::fmt;
use std::path::Path;

const KEYSPACE: &str = "seawall";
/// The number of the operating system's error for a failed device.
const EIO: i32 = 5;

/// A fjall database in a locked folder.
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    /// Released last, after the database is closed.
    place: Place,
}

impl Fjall {
    /// The database, for its statistics and for other keyspaces.
    ///
    /// Writes to other keyspaces are not atomic with a batch. Do not change the keyspace `seawall`.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Engine for Fjall {
    const NAME: &'static str = "fjall";
    // fjall panics for a longer value.
    const VALUE_MAX: usize = 0xffff_ffff;

    type Rows<'a> = Rows;

    fn open(path: &Path) -> Result<Self> {
        let place = Place::folder(path, Self::NAME)?;
        // fjall writes its version file last, and cannot open a database without one.
        place.create(|partial| {
            let make = || {
                let database = Database::builder(partial).open()?;
                keyspace_of(&database)?;
                database.persist(PersistMode::SyncAll)
            };
            make().map_err(failed(path))
        })?;
        let opened = Database::builder(place.database()).open();
        let database = opened.inspect_err(|error| mark(&place, error)).map_err(failed(path))?;
        let keyspace = keyspace_of(&database).map_err(failed(path))?;
        Ok(Self { database, keyspace, place })
    }

    fn exists(path: &Path) -> Result<bool> {
        Ok(Place::find_folder(path, Self::NAME)?.is_some())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.database.snapshot().get(&self.keyspace, key);
        Ok(value.map_err(StoreError::failed)?.map(|value| value.to_vec()))
    }

    fn scan(&self, range: Range) -> Result<Rows, StoreError> {
        // Reads from a snapshot, because the keyspace itself may show parts of a batch.
        Ok(Rows(self.database.snapshot().range(&self.keyspace, range)))
    }

    fn write(
        &self,
        count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let batch = OwnedWriteBatch::with_capacity(self.database.clone(), count);
        let mut batch = Batch { batch, keyspace: &self.keyspace };
        fill(&mut batch)?;
        let committed = batch.batch.commit();
        committed.inspect_err(|error| mark(&self.place, error)).map_err(StoreError::failed)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.place.check_synced()?;
        let synced = self.database.persist(PersistMode::SyncAll);
        synced.inspect_err(|_| self.place.mark_unsynced()).map_err(StoreError::failed)
    }
}

/// Records a failed sync of the journal. When fjall is opened again, it continues that journal, and
/// writes nothing of it again. fjall syncs a full journal in the background, and then only reports
/// that something failed.
fn mark(place: &Place, error: &fjall::Error) {
    match error {
        fjall::Error::Poisoned => place.mark_unsynced(),
        fjall::Error::Io(error) if error.raw_os_error() == Some(EIO) => place.mark_unsynced(),
        _ => {}
    }
}

impl fmt::Debug for Fjall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fjall").finish_non_exhaustive()
    }
}

struct Batch<'a> {
    batch: OwnedWriteBatch,
    keyspace: &'a Keyspace,
}

impl Edits for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.batch.insert(self.keyspace, key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.batch.remove(self.keyspace, key);
        Ok(())
    }
}

/// The rows of a range of keys in a snapshot. While the iterator exists, fjall keeps unread rows.
pub struct Rows(Iter);

impl Iterator for Rows {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(row)
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(row)
    }
}

fn row(entry: Guard) -> Result<Row, StoreError> {
    let (key, value) = entry.into_inner().map_err(StoreError::failed)?;
    Ok((key.to_vec(), value.to_vec()))
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

fn keyspace_of(database: &Database) -> fjall::Result<Keyspace> {
    database.keyspace(KEYSPACE, KeyspaceCreateOptions::default)
}

fn failed(path: &Path) -> impl Fn(fjall::Error) -> OpenError + use<> {
    let (path, database) = (path.to_owned(), OpenError::database(path));
    move |source| match source {
        fjall::Error::Locked => OpenError::Locked { path: path.clone() },
        fjall::Error::Io(source) => OpenError::Io { path: path.clone(), source },
        source => database(source),
    }
}
