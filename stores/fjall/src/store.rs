//! The store: a keyspace of fjall with its catalog in memory.

use crate::catalog::{Catalog, Prepared, Table, has_tables};
use crate::garbage::Sweep;
use crate::key::{self, CATALOG, FORMAT, FORMAT_KEY, GARBAGE, TableId, WATERMARKS};
use crate::place::Place;
use crate::{OpenError, Result, Rows};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use seawall_replay::{Batch, Store, StoreError, Watermark};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const KEYSPACE: &str = "seawall";

/// Tables in a fjall database.
///
/// Reading is possible at any time and from any thread; a reader sees complete batches. While a
/// replay with several partitions is running, a transaction may be visible in part.
///
/// A batch survives the end of the process as soon as it is written, and a power failure after the
/// next [`flush`](Store::flush).
pub struct FjallStore {
    database: Database,
    keyspace: Keyspace,
    catalog: RwLock<Catalog>,
    /// Held while rows of dropped tables are removed.
    sweeping: Mutex<()>,
    /// Released last, after the database is closed.
    _place: Place,
}

impl FjallStore {
    /// Opens the store in this folder, or creates one.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if it is open elsewhere, if it is not a store of this release, or if fjall
    /// fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_fjall::{FjallStore, OpenError};
    ///
    /// # let dir = std::env::temp_dir().join(format!("seawall-doc-open-{}", std::process::id()));
    /// let store = FjallStore::open(&dir)?;
    /// assert!(store.tables().is_empty());
    /// assert!(matches!(FjallStore::open(&dir), Err(OpenError::Locked { .. })));
    /// # drop(store); std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let place = Place::take(path.as_ref())?;
        let path = place.path();
        let database = place.open(|new| keyspace_of(new)?.insert(FORMAT_KEY, FORMAT))?;
        let failed = OpenError::of(path);
        let keyspace = keyspace_of(&database).map_err(&failed)?;
        let format = keyspace.get(FORMAT_KEY).map_err(&failed)?.unwrap_or_default();
        if *format != FORMAT {
            let why = format!("the format is {:?}, not {FORMAT:?}", &*format);
            return Err(OpenError::Foreign { path: path.to_owned(), why });
        }
        let catalog = RwLock::new(read_catalog(&keyspace, path)?);
        Ok(Self { database, keyspace, catalog, sweeping: Mutex::new(()), _place: place })
    }

    /// The tables by name, each with its definition, without the table that has no name.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::Lsn;
    /// use seawall_fjall::FjallStore;
    /// use seawall_replay::{Batch, Edit, Store, Write};
    ///
    /// # let dir = std::env::temp_dir().join(format!("seawall-doc-tables-{}", std::process::id()));
    /// let store = FjallStore::open(&dir)?;
    /// let create = Edit::Create { definition: b"cents".to_vec() };
    /// let writes = vec![Write { lsn: Lsn::FIRST, table: "account".to_owned(), edit: create }];
    /// store.write(&Batch { writes, watermarks: vec![] })?;
    /// assert_eq!(store.tables(), [("account".to_owned(), b"cents".to_vec())]);
    /// # drop(store); std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        let catalog = self.catalog();
        let entry = |(name, table): (&String, &Table)| (name.clone(), table.definition.clone());
        catalog.tables.iter().map(entry).collect()
    }

    /// A snapshot of the rows of a table, sorted by key; empty if the table does not exist.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::Lsn;
    /// use seawall_fjall::FjallStore;
    /// use seawall_replay::{Batch, Edit, Store, Write};
    ///
    /// # let dir = std::env::temp_dir().join(format!("seawall-doc-rows-{}", std::process::id()));
    /// let store = FjallStore::open(&dir)?;
    /// let put = Edit::Put { key: b"ada".to_vec(), value: b"300".to_vec() };
    /// let writes = vec![Write { lsn: Lsn::FIRST, table: String::new(), edit: put }];
    /// store.write(&Batch { writes, watermarks: vec![] })?;
    /// let rows = store.rows("").collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(rows, [(b"ada".to_vec(), b"300".to_vec())]);
    /// # drop(store); std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rows(&self, table: &str) -> Rows {
        let catalog = self.catalog();
        // A snapshot, because the keyspace itself may show parts of a batch.
        let snapshot = self.database.snapshot();
        let rows = catalog.id(table).map(|id| snapshot.prefix(&self.keyspace, id.prefix()));
        Rows::new(rows)
    }

    /// The underlying database, for its statistics and for other keyspaces.
    ///
    /// Writes to other keyspaces are not atomic with a batch. Do not change the keyspace `seawall`.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog_to_change(&self) -> RwLockWriteGuard<'_, Catalog> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, prepared: &Prepared<'_>, batch: &Batch) -> Result<(), StoreError> {
        let mut to = self.database.batch();
        let mut row = Vec::new();
        for ((id, key), value) in &prepared.rows {
            id.write_row(key, &mut row);
            match value {
                Some(value) => to.insert(&self.keyspace, &row[..], *value),
                None => to.remove(&self.keyspace, &row[..]),
            }
        }
        for (name, table) in &prepared.tables {
            match table {
                Some(Table { id, definition }) => {
                    let entry = key::catalog_entry(*id, definition);
                    to.insert(&self.keyspace, key::catalog(name), entry);
                }
                None => to.remove(&self.keyspace, key::catalog(name)),
            }
        }
        for id in &prepared.garbage {
            to.insert(&self.keyspace, id.garbage(), []);
        }
        for (partition, mark) in &batch.watermarks {
            to.insert(&self.keyspace, key::watermark(*partition), mark.to_bytes());
        }
        to.commit().map_err(StoreError::failed)
    }
}

impl Store for FjallStore {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        let snapshot = self.database.snapshot();
        let marks = snapshot.prefix(&self.keyspace, WATERMARKS);
        marks
            .map(|mark| Watermark::from_bytes(&mark.value().map_err(StoreError::failed)?))
            .collect()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let catalog = self.catalog();
        // No longer key exists, and fjall panics for one.
        let Some(id) = catalog.id(table).filter(|_| key.len() <= key::ROW_KEY_MAX) else {
            return Ok(None);
        };
        let value = self.database.snapshot().get(&self.keyspace, id.row(key));
        Ok(value.map_err(StoreError::failed)?.map(|value| value.to_vec()))
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        // Keep the catalog locked until the batch is written, so that no table is dropped
        // meanwhile.
        if !has_tables(batch) {
            let catalog = self.catalog();
            return self.commit(&catalog.prepare(batch)?, batch);
        }
        let mut catalog = self.catalog_to_change();
        let prepared = catalog.prepare(batch)?;
        self.commit(&prepared, batch)?;
        catalog.apply(prepared);
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        let sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let garbage: Vec<TableId> = self.catalog().garbage.iter().copied().collect();
        for id in garbage {
            Sweep { database: &self.database, keyspace: &self.keyspace }
                .remove(id)
                .map_err(StoreError::failed)?;
            self.catalog_to_change().garbage.remove(&id);
        }
        drop(sweeping);
        self.database.persist(PersistMode::SyncAll).map_err(StoreError::failed)
    }

    /// One: fjall writes one batch at a time.
    fn partitions_max(&self) -> usize {
        1
    }
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("catalog", &*self.catalog()).finish_non_exhaustive()
    }
}

fn keyspace_of(database: &Database) -> fjall::Result<Keyspace> {
    database.keyspace(KEYSPACE, KeyspaceCreateOptions::default)
}

fn read_catalog(keyspace: &Keyspace, path: &Path) -> Result<Catalog> {
    let failed = OpenError::of(path);
    let mut catalog = Catalog::default();
    for entry in keyspace.prefix(CATALOG) {
        let (key, value) = entry.into_inner().map_err(&failed)?;
        let name = key.strip_prefix(&CATALOG).and_then(|name| str::from_utf8(name).ok());
        let (Some(name), Some((id, definition))) = (name, TableId::from_bytes(&value)) else {
            return Err(garbled(path, &key));
        };
        let table = Table { id, definition: definition.to_vec() };
        catalog.tables.insert(name.to_owned(), table);
    }
    for entry in keyspace.prefix(GARBAGE) {
        let key = entry.key().map_err(&failed)?;
        let id = key.strip_prefix(&GARBAGE).and_then(TableId::from_bytes);
        let (id, _) = id.filter(|(_, rest)| rest.is_empty()).ok_or_else(|| garbled(path, &key))?;
        catalog.garbage.insert(id);
    }
    Ok(catalog)
}

fn garbled(path: &Path, key: &[u8]) -> OpenError {
    let why = format!("the entry `{}` of its catalog cannot be read", key.escape_ascii());
    OpenError::Foreign { path: path.to_owned(), why }
}
