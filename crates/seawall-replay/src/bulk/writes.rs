//! Merges sorted runs into the writes of an ingestion, one for each key.

use crate::apply::fold::{Tools, merged};
use crate::bulk::row::Row;
use crate::bulk::run::Merge;
use crate::bulk::tables::Tables;
use crate::error::Error;
use crate::operation::Change;
use crate::store::error::StoreError;
use crate::store::write::{Edit, Write};
use crate::transactions::spill::Spill;
use std::sync::Arc;

/// Writes sorted by key, of one table after the other.
pub(crate) struct Writes<'a> {
    tools: Tools<'a>,
    merge: Merge,
    scratch: Option<Spill>,
    tables: Arc<Tables>,
    /// The current table, and those after it.
    table: u32,
    next_tables: std::vec::IntoIter<u32>,
    /// The number of writes so far.
    pub(crate) count: u64,
}

impl<'a> Writes<'a> {
    /// Merges runs into the writes of these tables, in this order.
    pub(crate) fn new(
        (merge, scratch): (Merge, Option<Spill>),
        (tables, order): (Arc<Tables>, Vec<u32>),
        tools: Tools<'a>,
    ) -> Self {
        Self { tools, merge, scratch, tables, table: 0, next_tables: order.into_iter(), count: 0 }
    }

    /// Returns the next write.
    pub(crate) fn step(&mut self) -> Result<Option<Write>, Error> {
        while self.merge.next().is_none() {
            let Some(table) = self.next_tables.next() else { return Ok(None) };
            self.table = table;
            self.merge.open(table, (&self.tables, self.scratch.as_ref()))?;
        }
        let Some(first) = self.take()? else { return Ok(None) };
        let mut row = self.with_stored_value(first)?;
        while self.merge.next().is_some_and(|(next, bytes)| row.1.key() == Some(next.key(bytes))) {
            let Some(next) = self.take()? else { break };
            row = merged(row, next, self.tools.operators)?;
        }
        self.count += 1;
        Ok(write(row))
    }

    fn take(&mut self) -> Result<Option<Row>, Error> {
        let name = self.tables.name(self.table);
        self.merge.take(name, (&self.tables, self.scratch.as_ref()))
    }

    /// Evaluates the first change of a key, if it is a merge into a value of the store.
    fn with_stored_value(&self, row: Row) -> Result<Row, Error> {
        let (lsn, Change::Merge { table, key, .. }) = &row else { return Ok(row) };
        let stored = self.tools.store.get(table, key);
        let stored = stored.map_err(Error::store("read a key that is merged into"))?;
        let before = match stored {
            Some(value) => Change::put(table.clone(), key.clone(), value),
            None => Change::delete(table.clone(), key.clone()),
        };
        merged((*lsn, before), row, self.tools.operators)
    }
}

/// Returns the write of a change that puts or deletes a row.
pub(crate) fn write((lsn, change): Row) -> Option<Write> {
    let (table, edit) = match change {
        Change::Put { table, key, value } => (table, Edit::Put { key, value }),
        Change::Delete { table, key } => (table, Edit::Delete { key }),
        // Merges were evaluated, and changes of tables have no packed form.
        Change::Merge { .. } | Change::CreateTable { .. } | Change::DropTable { .. } => {
            return None;
        }
    };
    Some(Write { lsn, table, edit })
}

impl Iterator for Writes<'_> {
    type Item = Result<Write, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose()?;
        Some(step.map_err(|error| match error {
            Error::Apply { lsn, change, why } => StoreError::Refused { lsn, change, why },
            other => StoreError::failed(other),
        }))
    }
}
