//! redb as a database of sorted keys.

use crate::backend::{Overlay, Recorded};
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, Durability, ReadOnlyDatabase, ReadableDatabase};
use redb::{StorageBackend, StorageError, Table, TableDefinition, TableError, WriteTransaction};
use seawall_replay::StoreError;
use seawall_tables::{Edits, Engine, OpenError, Place, Range, Result, Row};
use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("seawall");

/// A redb database in a locked file.
///
/// Each batch is synced: redb keeps unsynced batches only in the memory of the process.
pub struct Redb {
    database: Database,
    /// Released last, after the database is closed.
    place: Arc<Place>,
}

impl Redb {
    /// The database, for its statistics and for other tables.
    ///
    /// Writes to other tables are not atomic with a batch. Do not change the table `seawall`.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }
}

impl Redb {
    /// Opens a database that exists.
    fn open_in(backend: impl StorageBackend, place: Place) -> Result<Self> {
        let place = Arc::new(place);
        let backend = Recorded { backend, place: place.clone() };
        let opened = Database::builder().create_with_backend(backend);
        let database = opened.map_err(failed(place.path()))?;
        check_table(&database, place.path())?;
        Ok(Self { database, place })
    }
}

impl Engine for Redb {
    const NAME: &'static str = "redb";
    const VALUE_MAX: usize = 1 << 31;

    type Rows<'a> = Rows;

    fn open(path: &Path) -> Result<Self> {
        // Before anything is changed: redb changes the file of a database that it opens.
        Self::exists(path)?;
        let place = Place::file(path)?;
        // redb writes its magic number last, and cannot open a file without one.
        place.create(|partial| {
            let database = Database::create(partial).map_err(failed(path))?;
            let make = || -> Result<(), redb::Error> {
                let transaction = database.begin_write()?;
                transaction.open_table(TABLE)?;
                Ok(transaction.commit()?)
            };
            make().map_err(OpenError::database(path))
        })?;
        let file = File::options().read(true).write(true).open(place.database());
        let backend = FileBackend::new(file.map_err(OpenError::io(path))?);
        Self::open_in(backend.map_err(failed(path))?, place)
    }

    fn exists(path: &Path) -> Result<bool> {
        if Place::find_file(path)?.is_none() {
            return Ok(false);
        }
        match ReadOnlyDatabase::open(path) {
            Ok(database) => check_table(&database, path)?,
            // A process was killed. The database may be of another program, so it is repaired only
            // in memory.
            Err(DatabaseError::RepairAborted) => match repaired(path) {
                Ok(database) => check_table(&database, path)?,
                Err(DatabaseError::DatabaseAlreadyOpen) => {}
                Err(error) => return Err(failed(path)(error)),
            },
            // A process is running. `open` reports it.
            Err(DatabaseError::DatabaseAlreadyOpen) => {}
            Err(error) => return Err(failed(path)(error)),
        }
        Ok(true)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let get = || -> Result<_, redb::Error> {
            // The table keeps the snapshot open, which has to outlive the value.
            let table = self.database.begin_read()?.open_table(TABLE)?;
            let value = table.get(key)?;
            Ok(value.map(|value| value.value().to_vec()))
        };
        get().map_err(StoreError::failed)
    }

    fn scan(&self, (from, to): Range) -> Result<Rows, StoreError> {
        fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
            bound.as_ref().map(Vec::as_slice)
        }
        let range = || -> Result<_, redb::Error> {
            let table = self.database.begin_read()?.open_table(TABLE)?;
            Ok(table.range::<&[u8]>((bytes(&from), bytes(&to)))?)
        };
        Ok(Rows(range().map_err(StoreError::failed)?))
    }

    fn write(
        &self,
        _count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut transaction = self.database.begin_write().map_err(StoreError::failed)?;
        transaction.set_durability(Durability::Immediate).map_err(StoreError::failed)?;
        fill_table(&transaction, fill)?;
        transaction.commit().map_err(StoreError::failed)
    }

    /// Only checks that no sync failed: each batch is durable already.
    fn flush(&self) -> Result<(), StoreError> {
        self.place.check_synced()
    }
}

/// Opens a database in a repaired copy. Its file does not change.
fn repaired(path: &Path) -> Result<Database, DatabaseError> {
    let copy = Overlay::new(FileBackend::new(File::options().read(true).open(path)?)?)?;
    Database::builder().create_with_backend(copy)
}

fn check_table(database: &impl ReadableDatabase, path: &Path) -> Result<()> {
    let has_table = || -> Result<bool, redb::Error> {
        match database.begin_read()?.open_table(TABLE) {
            Ok(_) => Ok(true),
            Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    };
    if has_table().map_err(OpenError::database(path))? {
        return Ok(());
    }
    let why = "the database has no table `seawall` of bytes".to_owned();
    Err(OpenError::Foreign { path: path.to_owned(), why })
}

fn fill_table(
    transaction: &WriteTransaction,
    fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    fill(&mut Batch(transaction.open_table(TABLE).map_err(StoreError::failed)?))
}

impl fmt::Debug for Redb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redb").finish_non_exhaustive()
    }
}

struct Batch<'a>(Table<'a, &'static [u8], &'static [u8]>);

impl Edits for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.insert(key, value).map(drop).map_err(StoreError::failed)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.remove(key).map(drop).map_err(StoreError::failed)
    }
}

/// The rows of a range of keys in a snapshot. While the iterator exists, redb keeps unread rows.
pub struct Rows(redb::Range<'static, &'static [u8], &'static [u8]>);

type Entry<'a> = (redb::AccessGuard<'a, &'static [u8]>, redb::AccessGuard<'a, &'static [u8]>);

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

fn row(entry: Result<Entry<'_>, StorageError>) -> Result<Row, StoreError> {
    let (key, value) = entry.map_err(StoreError::failed)?;
    Ok((key.value().to_vec(), value.value().to_vec()))
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

fn failed(path: &Path) -> impl Fn(DatabaseError) -> OpenError + use<> {
    let (path, database) = (path.to_owned(), OpenError::database(path));
    move |source| match source {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked { path: path.clone() },
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() == ErrorKind::InvalidData =>
        {
            OpenError::Foreign { path: path.clone(), why: source.to_string() }
        }
        DatabaseError::Storage(StorageError::Io(source)) => {
            OpenError::Io { path: path.clone(), source }
        }
        source => database(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_tables::Tables;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A file whose syncs fail once `FAILS` is set.
    #[derive(Debug)]
    struct Failing(FileBackend);

    static FAILS: AtomicBool = AtomicBool::new(false);

    impl StorageBackend for Failing {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            if FAILS.load(Ordering::SeqCst) { Err(io::Error::other("lost")) } else { Ok(()) }
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }

    #[test]
    fn store_whose_sync_failed_cannot_be_opened_again() {
        let folder = seawall_store_tests::Folder::new("redb-unsynced");
        let path = folder.0.join("store");
        drop(Tables::<Redb>::open(&path).unwrap());
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let backend = Failing(FileBackend::new(file).unwrap());
        let store = Redb::open_in(backend, Place::file(&path).unwrap()).unwrap();
        let write = |key: &[u8]| store.write(1, |edits| edits.put(key, b"v"));
        write(b"k").unwrap();
        store.flush().unwrap();
        FAILS.store(true, Ordering::SeqCst);
        write(b"l").unwrap_err();
        store.flush().unwrap_err();
        drop(store);
        FAILS.store(false, Ordering::SeqCst);
        let refused = Redb::open(&path).unwrap_err();
        assert!(matches!(refused, OpenError::Unsynced { .. }), "{refused}");
    }
}
