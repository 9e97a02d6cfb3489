//! Merges sorted runs into the rows of an ingestion, one for each key.

use crate::apply::fold::{Tools, merged};
use crate::bulk::row::{Packed, Row, pack};
use crate::bulk::run::Merge;
use crate::bulk::tables::Tables;
use crate::error::{Error, Result};
use crate::operation::Change;
use crate::store::SortedRows;
use crate::store::error::StoreError;
use crate::store::write::{Edit, NewRow, Write};
use crate::transactions::spill::Spill;
use std::sync::Arc;

/// The merged rows, table by table, sorted by key.
pub(crate) struct Writes<'a> {
    tools: Tools<'a>,
    merge: Merge,
    scratch: Option<Spill>,
    tables: Arc<Tables>,
    /// The current table, and those after it.
    table: u32,
    next_tables: std::vec::IntoIter<u32>,
    /// The packed row that was returned last.
    bytes: Vec<u8>,
    /// The number of rows so far.
    pub(crate) count: u64,
    /// The error that ended the rows, unless a change was refused. The store did not fail.
    pub(crate) failed: Option<Error>,
}

impl<'a> Writes<'a> {
    /// Merges runs into writes, for the tables in `order` one after the other.
    pub(crate) fn new(
        (merge, scratch): (Merge, Option<Spill>),
        (tables, order): (Arc<Tables>, Vec<u32>),
        tools: Tools<'a>,
    ) -> Self {
        let (next_tables, bytes) = (order.into_iter(), vec![]);
        let failed = None;
        Self { tools, merge, scratch, tables, table: 0, next_tables, bytes, count: 0, failed }
    }

    /// Takes all rows, as the writes of a batch.
    pub(crate) fn all(&mut self) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        while let Some(row) = self.step()? {
            writes.push(self.row(&row).to_write());
        }
        Ok(writes)
    }

    fn row(&self, row: &Packed) -> NewRow<'_> {
        let table = self.tables.name(self.table);
        NewRow { lsn: row.lsn, table, key: row.key(&self.bytes), value: row.value(&self.bytes) }
    }

    /// Returns the next row, which is in `self.bytes`.
    fn step(&mut self) -> Result<Option<Packed>> {
        while self.merge.next().is_none() {
            let Some(table) = self.next_tables.next() else { return Ok(None) };
            self.table = table;
            self.merge.open(table, (&self.tables, self.scratch.as_ref()))?;
        }
        let Some(mut row) = self.take()? else { return Ok(None) };
        if row.is_merge() {
            row = self.with_stored_value(&row)?;
        }
        while let Some((next, bytes)) = self.merge.next()
            && next.key(bytes) == row.key(&self.bytes)
        {
            if !next.is_merge() {
                row = self.take()?.unwrap_or(row);
                continue;
            }
            let name = self.tables.name(self.table);
            let (before, next) = (row.unpack(&self.bytes, name)?, next.unpack(bytes, name)?);
            self.merge.advance((&self.tables, self.scratch.as_ref()))?;
            row = self.pack(merged(before, next, self.tools.operators)?)?;
        }
        self.count += 1;
        Ok(Some(row))
    }

    /// Moves the next row of the table to `self.bytes`.
    fn take(&mut self) -> Result<Option<Packed>> {
        let Some((row, bytes)) = self.merge.next() else { return Ok(None) };
        let row = row.copy(bytes, &mut self.bytes);
        self.merge.advance((&self.tables, self.scratch.as_ref()))?;
        Ok(Some(row))
    }

    /// Evaluates a merge that is the first change of its key, with the value in the store.
    fn with_stored_value(&mut self, row: &Packed) -> Result<Packed> {
        let (lsn, change) = row.unpack(&self.bytes, self.tables.name(self.table))?;
        let (table, key) = (change.table(), row.key(&self.bytes));
        let stored = self.tools.store.get(table, key);
        let stored = stored.map_err(Error::store("read a key that is merged into"))?;
        let before = match stored {
            Some(value) => Change::put(table, key, value),
            None => Change::delete(table, key),
        };
        self.pack(merged((lsn, before), (lsn, change), self.tools.operators)?)
    }

    fn pack(&mut self, (lsn, change): Row) -> Result<Packed> {
        self.bytes.clear();
        pack(lsn, (self.table, &change), &mut self.bytes)?;
        Packed::at(&self.bytes, 0)
    }
}

impl SortedRows for Writes<'_> {
    fn next_row(&mut self) -> Result<Option<NewRow<'_>>, StoreError> {
        let row = self.step().map_err(|error| match error {
            Error::Apply { lsn, change, why } => StoreError::Refused { lsn, change, why },
            other => {
                let told = StoreError::failed(format!("{other:#}"));
                self.failed = Some(other);
                told
            }
        })?;
        Ok(row.map(|row| self.row(&row)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::part::Part;
    use crate::bulk::run::{Run, spill};
    use crate::merge::Operators;
    use crate::store::memory::MemoryStore;
    use crate::transactions::spill::Folder;
    use seawall::Lsn;

    #[test]
    fn scratch_file_that_cannot_be_read_is_not_an_error_of_the_store() {
        let (change, mut tables) = (Change::put("", "k", "v"), Tables::default());
        let table = tables.add(("", b"k"));
        let mut part = Part::default();
        part.add(Lsn::FIRST, (table, &change)).unwrap();
        let make = || Folder(std::env::temp_dir()).make().unwrap();
        let run = Run::in_memory(part.take_sorted((&tables, &Operators::new())).unwrap());
        let run = spill(vec![run], &tables, &mut make()).unwrap();
        let (store, operators) = (MemoryStore::new(), Operators::new());
        let tools = Tools { store: &store, operators: &operators };
        // Another scratch file, which lacks the rows.
        let merge = (Merge::new(vec![run]), Some(make()));
        let mut writes = Writes::new(merge, (Arc::new(tables), vec![table]), tools);
        writes.next_row().unwrap_err();
        assert!(matches!(writes.failed, Some(Error::Spill(_))), "{:?}", writes.failed);
    }
}
