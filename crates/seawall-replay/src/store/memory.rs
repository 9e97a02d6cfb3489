//! A store in memory, for tests and small states.

use crate::store::error::StoreError;
use crate::store::watermark::Watermark;
use crate::store::write::{Edit, Write, is_same};
use crate::store::{Batch, Store};
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tables in memory. They are lost with the process; the next process replays the whole log.
#[derive(Debug)]
pub struct MemoryStore {
    content: Mutex<Content>,
    replay: Mutex<()>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    tables: BTreeMap<String, Table>,
    watermarks: BTreeMap<u32, Watermark>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    definition: Vec<u8>,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MemoryStore {
    /// Creates a store with only the table with the empty name.
    #[must_use]
    pub fn new() -> Self {
        let tables = BTreeMap::from([(String::new(), Table::default())]);
        let content = Mutex::new(Content { tables, watermarks: BTreeMap::new() });
        Self { content, replay: Mutex::new(()) }
    }

    /// Returns the tables, each with its definition.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        let content = self.content();
        let tables = content.tables.iter().filter(|(name, _)| !name.is_empty());
        tables.map(|(name, table)| (name.clone(), table.definition.clone())).collect()
    }

    /// Returns the rows of a table by key; none if the table is missing.
    #[must_use]
    pub fn rows(&self, table: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.content().tables.get(table).map(|table| table.rows.clone()).unwrap_or_default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        Ok(self.content().watermarks.values().copied().collect())
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let content = self.content();
        Ok(content.tables.get(table).and_then(|table| table.rows.get(key)).cloned())
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.write_mut(&mut batch.clone())
    }

    fn write_mut(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let mut content = self.content();
        // Check everything before changing anything, so that the batch is atomic.
        let mut is_there: BTreeMap<&str, bool> = BTreeMap::new();
        for write in batch.writes.chunk_by(is_same_table).filter_map(<[Write]>::first) {
            let there = || content.tables.contains_key(&write.table);
            let is_there = is_there.entry(&write.table).or_insert_with(there);
            *is_there = match (&write.edit, *is_there) {
                (Edit::Create { .. }, true) => {
                    return Err(StoreError::refused(write, "the table already exists"));
                }
                (Edit::Put { .. } | Edit::Delete { .. } | Edit::Drop, false) => {
                    return Err(StoreError::refused(write, "no such table"));
                }
                (Edit::Drop, true) if write.table.is_empty() => {
                    let why = "the table with the empty name always exists";
                    return Err(StoreError::refused(write, why));
                }
                (edit, _) => !matches!(edit, Edit::Drop),
            };
        }
        for run in batch.writes.chunk_by_mut(is_same_table) {
            content.apply_run(run);
        }
        content.watermarks.extend(batch.watermarks.iter().copied());
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn partitions_max(&self) -> usize {
        usize::MAX
    }

    fn replay_lock(&self) -> Option<&Mutex<()>> {
        Some(&self.replay)
    }
}

/// Returns whether both writes put a row into the same table.
fn is_same_table(one: &Write, next: &Write) -> bool {
    let are_puts = matches!((&one.edit, &next.edit), (Edit::Put { .. }, Edit::Put { .. }));
    are_puts && is_same(&one.table, &next.table)
}

/// The minimum length of a run that is worth merging, and the maximum number of the table's rows
/// for each row of the run.
const RUN_MIN: usize = 64;
const ROWS_EACH_MAX: usize = 8;

impl Content {
    /// Applies writes that all put rows into one table. A long run is sorted, if necessary, and
    /// merged with the table's rows. That takes fewer comparisons than inserting each row.
    fn apply_run(&mut self, run: &mut [Write]) {
        let table = run.first().and_then(|write| self.tables.get_mut(&write.table));
        let Some(Table { rows, .. }) = table
            .filter(|table| run.len() >= RUN_MIN && table.rows.len() <= run.len() * ROWS_EACH_MAX)
        else {
            return run.iter_mut().for_each(|write| self.apply(write));
        };
        let row = |write: &mut Write| match &mut write.edit {
            Edit::Put { key, value } => Some((take(key), take(value))),
            _ => None,
        };
        // Reserve room for all rows: growing is slow, and the map is built from the same memory.
        let mut new = Vec::with_capacity(run.len());
        new.extend(run.iter_mut().filter_map(row));
        rows.append(&mut new.into_iter().collect());
    }

    fn apply(&mut self, Write { table, edit, .. }: &mut Write) {
        match edit {
            Edit::Create { definition } => {
                let new = Table { definition: take(definition), ..Table::default() };
                self.tables.insert(take(table), new);
            }
            Edit::Drop => drop(self.tables.remove(table)),
            Edit::Put { key, value } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.rows.insert(take(key), take(value));
                }
            }
            Edit::Delete { key } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.rows.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::Lsn;
    use seawall_testkit::each_seed;

    fn write(table: &str, edit: Edit) -> Write {
        Write { lsn: Lsn::FIRST, table: table.to_owned(), edit }
    }

    fn put(table: &str) -> Write {
        write(table, Edit::Put { key: b"k".to_vec(), value: b"v".to_vec() })
    }

    /// Batches with sorted runs, long and short, give the same rows as their writes one by one.
    #[test]
    fn sorted_batch_is_applied_as_its_writes_are() {
        each_seed(64, |dice| {
            let (at_once, one_by_one) = (MemoryStore::new(), MemoryStore::new());
            for _ in 0..dice.index(6) {
                let count = dice.index(4 * RUN_MIN);
                let mut writes = dice.many(count, |dice| {
                    let key = vec![dice.byte(), dice.byte()];
                    let put = Edit::Put { key: key.clone(), value: vec![dice.byte()] };
                    write("", if dice.below(50) == 0 { Edit::Delete { key } } else { put })
                });
                writes.sort_by_key(|write| match &write.edit {
                    Edit::Put { key, .. } | Edit::Delete { key } => key.clone(),
                    _ => vec![],
                });
                for write in &writes {
                    let batch = Batch { writes: vec![write.clone()], watermarks: vec![] };
                    one_by_one.write(&batch).unwrap();
                }
                at_once.write(&Batch { writes, watermarks: vec![] }).unwrap();
                assert_eq!(at_once.rows(""), one_by_one.rows(""));
            }
        });
    }

    #[test]
    fn batch_with_an_invalid_write_changes_nothing() {
        let store = MemoryStore::default();
        let batch = |writes| Batch { writes, watermarks: vec![] };
        let create = || write("t", Edit::Create { definition: vec![] });
        for wrong in [
            vec![put(""), put("t")],
            vec![put(""), create(), write("t", Edit::Drop), put("t")],
            vec![put(""), create(), create()],
            vec![put(""), write("", Edit::Drop)],
        ] {
            store.write(&batch(wrong)).unwrap_err();
            assert!(store.rows("").is_empty() && store.tables().is_empty());
        }
        store.write(&batch(vec![create(), put("t"), write("t", Edit::Drop), create()])).unwrap();
        assert_eq!(store.tables(), [("t".to_owned(), vec![])]);
        assert!(store.rows("t").is_empty());
    }
}
