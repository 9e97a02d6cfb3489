//! The store: tables in a database, with their catalog in memory.

use crate::catalog::{Catalog, Prepared, Table, check_sizes, has_tables};
use crate::engine::{Edits, Engine};
use crate::garbage::sweep;
use crate::key::{self, CATALOG, FORMAT, FORMAT_KEY, GARBAGE, TableId, WATERMARKS, behind};
use crate::place::sync_names;
use crate::{OpenError, Result, Rows};
use seawall_replay::{Batch, Edit, Ingest, Store, StoreError, Watermark};
use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Tables in a database.
///
/// Any thread can read at any time, and sees complete batches. While a replay with several
/// partitions is running, a transaction may be partly visible.
///
/// A batch survives the end of the process as soon as it is written, and a power failure after the
/// next [`flush`](Store::flush).
pub struct Tables<E> {
    engine: E,
    pub(crate) catalog: RwLock<Catalog>,
    /// Held during an ingestion, and while tables are created or dropped. Locked before `catalog`.
    pub(crate) ingesting: Mutex<()>,
    /// Held while rows of dropped tables are removed.
    sweeping: Mutex<()>,
    /// Held while a replay runs.
    replay: Mutex<()>,
}

impl<E: Engine> Tables<E> {
    /// Opens the store at this path, or creates one.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if it is open elsewhere, if it is not a store of this release, or if the
    /// database fails.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let engine = E::open(path)?;
        // Also if the store existed: the process that created it may have been killed before this.
        sync_names(path).map_err(OpenError::io(path))?;
        check_format(&engine, path)?;
        let catalog = RwLock::new(read_catalog(&engine, path)?);
        let [ingesting, sweeping, replay] = [(); 3].map(Mutex::new);
        Ok(Self { engine, catalog, ingesting, sweeping, replay })
    }

    /// Returns whether there is a store at this path that [`open`](Self::open) would open rather
    /// than create. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`OpenError::Foreign`] if there is something else.
    pub fn exists(path: impl AsRef<Path>) -> Result<bool> {
        E::exists(path.as_ref())
    }

    /// The tables by name, each with its definition, without the table that has no name.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        let catalog = self.catalog();
        let entry = |(name, table): (&String, &Table)| (name.clone(), table.definition.clone());
        catalog.tables.iter().map(entry).collect()
    }

    /// The rows of a table, sorted by key; empty if the table does not exist.
    #[must_use]
    pub fn rows(&self, table: &str) -> Rows<E::Rows<'_>> {
        let catalog = self.catalog();
        let id = catalog.id(table);
        Rows::new(id.map(|id| self.engine.scan(behind(None, id.prefix()))))
    }

    /// The underlying database.
    #[must_use]
    pub fn engine(&self) -> &E {
        &self.engine
    }

    pub(crate) fn catalog(&self) -> RwLockReadGuard<'_, Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an ingestion. Until the guard is dropped, no table is created or dropped.
    pub(crate) fn tables_stay(&self) -> MutexGuard<'_, ()> {
        self.ingesting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog_to_change(&self) -> RwLockWriteGuard<'_, Catalog> {
        self.catalog.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, prepared: &Prepared<'_>, batch: &Batch) -> Result<(), StoreError> {
        self.engine.write(edits_of(batch), |edits| {
            let mut row = Vec::new();
            for ((id, key), value) in &prepared.rows {
                id.write_row(key, &mut row);
                match value {
                    Some(value) => edits.put(&row, value)?,
                    None => edits.remove(&row)?,
                }
            }
            for (name, table) in &prepared.tables {
                match table {
                    Some(Table { id, definition }) => {
                        let entry = key::catalog_entry(*id, definition);
                        edits.put(&key::catalog(name), &entry)?;
                    }
                    None => edits.remove(&key::catalog(name))?,
                }
            }
            for id in &prepared.garbage {
                edits.put(&id.garbage(), &[])?;
            }
            put_watermarks(&batch.watermarks, edits)
        })
    }
}

/// Returns the number of edits of a batch that changes only rows.
fn edits_of(batch: &Batch) -> usize {
    batch.writes.len() + batch.watermarks.len()
}

/// Puts and removes the rows of a batch that neither creates nor drops tables.
fn put_rows<E: Engine>(
    catalog: &Catalog,
    batch: &Batch,
    edits: &mut dyn Edits,
) -> Result<(), StoreError> {
    let mut row = Vec::new();
    for same_table in batch.writes.chunk_by(|one, next| one.table == next.table) {
        let Some(first) = same_table.first() else { continue };
        let no_table = || StoreError::refused(first, "no such table");
        let id = catalog.id(&first.table).ok_or_else(no_table)?;
        for write in same_table {
            check_sizes::<E>(write)?;
            match &write.edit {
                Edit::Put { key, value } => {
                    id.write_row(key, &mut row);
                    edits.put(&row, value)?;
                }
                Edit::Delete { key } => {
                    id.write_row(key, &mut row);
                    edits.remove(&row)?;
                }
                Edit::Create { .. } | Edit::Drop => {}
            }
        }
    }
    Ok(())
}

pub(crate) fn put_watermarks(
    watermarks: &[(u32, Watermark)],
    edits: &mut dyn Edits,
) -> Result<(), StoreError> {
    let mut marks = watermarks.iter();
    marks.try_for_each(|(number, mark)| edits.put(&key::watermark(*number), &mark.to_bytes()))
}

impl<E: Engine> Store for Tables<E> {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        let marks = self.engine.scan(behind(None, WATERMARKS.to_vec()))?;
        marks.map(|mark| Watermark::from_bytes(&mark?.1)).collect()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let catalog = self.catalog();
        // No stored key is longer, and fjall panics for a longer one.
        let Some(id) = catalog.id(table).filter(|_| key.len() <= key::ROW_KEY_MAX) else {
            return Ok(None);
        };
        self.engine.get(&id.row(key))
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        // Keep the catalog locked until the batch is written, so that no table is dropped
        // meanwhile.
        if !has_tables(batch) {
            let catalog = self.catalog();
            return self.engine.write(edits_of(batch), |edits| {
                put_rows::<E>(&catalog, batch, edits)?;
                put_watermarks(&batch.watermarks, edits)
            });
        }
        let _changing = self.tables_stay();
        let mut catalog = self.catalog_to_change();
        let prepared = catalog.prepare::<E>(batch)?;
        self.commit(&prepared, batch)?;
        catalog.apply(prepared);
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        let sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let garbage: Vec<TableId> = self.catalog().garbage.iter().copied().collect();
        for id in garbage {
            sweep(&self.engine, id)?;
            self.catalog_to_change().garbage.remove(&id);
        }
        drop(sweeping);
        self.engine.flush()
    }

    fn partitions_max(&self) -> usize {
        E::PARTITIONS_MAX
    }

    fn replay_lock(&self) -> Option<&Mutex<()>> {
        Some(&self.replay)
    }

    fn ingestion(&self) -> Option<&dyn Ingest> {
        if E::INGESTS { Some(self) } else { None }
    }
}

impl<E> fmt::Debug for Tables<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

/// Checks the format, and writes it into an empty database.
fn check_format<E: Engine>(engine: &E, path: &Path) -> Result<()> {
    let failed = OpenError::database(path);
    let foreign = |why| Err(OpenError::Foreign { path: path.to_owned(), why });
    match engine.get(&FORMAT_KEY).map_err(&failed)? {
        Some(format) if format == FORMAT => Ok(()),
        Some(format) => foreign(format!("the format is {format:?}, not {FORMAT:?}")),
        None if engine.scan(ALL).map_err(&failed)?.next().is_some() => {
            foreign("the database has other content".to_owned())
        }
        None => engine.write(1, |edits| edits.put(&FORMAT_KEY, &FORMAT)).map_err(failed),
    }
}

const ALL: (Bound<Vec<u8>>, Bound<Vec<u8>>) = (Bound::Unbounded, Bound::Unbounded);

fn read_catalog<E: Engine>(engine: &E, path: &Path) -> Result<Catalog> {
    let failed = OpenError::database(path);
    let mut catalog = Catalog::default();
    for entry in engine.scan(behind(None, CATALOG.to_vec())).map_err(&failed)? {
        let (key, value) = entry.map_err(&failed)?;
        let name = key.strip_prefix(&CATALOG).and_then(|name| str::from_utf8(name).ok());
        let (Some(name), Some((id, definition))) = (name, TableId::from_bytes(&value)) else {
            return Err(garbled(path, &key));
        };
        let table = Table { id, definition: definition.to_vec() };
        catalog.tables.insert(name.to_owned(), table);
    }
    for entry in engine.scan(behind(None, GARBAGE.to_vec())).map_err(&failed)? {
        let (key, _) = entry.map_err(&failed)?;
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
