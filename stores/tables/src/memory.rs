//! For tests: a database in memory, with ingestion.

use crate::Result;
use crate::engine::{Edits, Engine, Range, Row};
use seawall_replay::StoreError;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A database in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Memory {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Memory {
    const NAME: &'static str = "memory";
    const VALUE_MAX: usize = 1 << 20;
    const INGESTS: bool = true;

    type Rows<'a> = std::vec::IntoIter<Result<Row, StoreError>>;

    fn open(_path: &Path) -> Result<Self> {
        Ok(Self::default())
    }

    fn exists(_path: &Path) -> Result<bool> {
        Ok(false)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.rows().get(key).cloned())
    }

    fn scan(&self, range: Range) -> Result<Self::Rows<'_>, StoreError> {
        let rows = self.rows();
        let rows = rows.range(range).map(|(key, value)| Ok((key.clone(), value.clone())));
        Ok(rows.collect::<Vec<_>>().into_iter())
    }

    fn write(
        &self,
        _count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut edits = All(vec![]);
        fill(&mut edits)?;
        let mut rows = self.rows();
        for (key, value) in edits.0 {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => drop(rows.remove(&key)),
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn ingest(
        &self,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.write(0, fill)
    }
}

/// The edits of a batch. Those without a value remove their key.
struct All(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Edits for All {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.push((key.to_vec(), Some(value.to_vec())));
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.push((key.to_vec(), None));
        Ok(())
    }
}
