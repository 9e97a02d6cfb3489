//! Merges sorted runs into the writes of an ingestion, one for each key.

use crate::apply::fold::{Tools, is_same_row, merged};
use crate::bulk::run::{Row, Run};
use crate::error::Error;
use crate::operation::Change;
use crate::store::error::StoreError;
use crate::store::write::{Edit, Write};
use crate::transactions::spill::Spill;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Writes sorted by key, of one table after the other.
pub(crate) struct Writes<'a> {
    tools: Tools<'a>,
    runs: Vec<Run>,
    scratch: Option<Spill>,
    tables: std::vec::IntoIter<String>,
    /// The next row of each run that has one of the current table.
    heads: BinaryHeap<Head>,
    /// The number of writes so far.
    pub(crate) count: u64,
}

/// The next row of a run. The greatest one is the first to be written: of several with the same key
/// that of the oldest run.
struct Head {
    row: Row,
    run: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.row.1.key(), other.run).cmp(&(self.row.1.key(), self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl<'a> Writes<'a> {
    /// Merges runs, of which a later one has later changes.
    pub(crate) fn new(
        (runs, scratch): (Vec<Run>, Option<Spill>),
        tables: Vec<String>,
        tools: Tools<'a>,
    ) -> Self {
        let tables = tables.into_iter();
        Self { tools, runs, scratch, tables, heads: BinaryHeap::new(), count: 0 }
    }

    fn step(&mut self) -> Result<Option<Write>, Error> {
        while self.heads.is_empty() {
            let Some(table) = self.tables.next() else { return Ok(None) };
            for run in 0..self.runs.len() {
                if let Some(opened) = self.runs.get_mut(run) {
                    opened.open(&table);
                }
                self.advance(run)?;
            }
        }
        let Some(first) = self.pop()? else { return Ok(None) };
        let mut row = self.with_stored_value(first)?;
        while self.heads.peek().is_some_and(|head| is_same_row(&row.1, &head.row.1)) {
            let Some(next) = self.pop()? else { break };
            row = merged(row, next, self.tools.operators)?;
        }
        self.count += 1;
        Ok(write(row))
    }

    /// Takes the first row, and reads the next one of its run.
    fn pop(&mut self) -> Result<Option<Row>, Error> {
        let Some(Head { row, run }) = self.heads.pop() else { return Ok(None) };
        self.advance(run)?;
        Ok(Some(row))
    }

    fn advance(&mut self, run: usize) -> Result<(), Error> {
        if let Some(rows) = self.runs.get_mut(run)
            && let Some(row) = rows.next(self.scratch.as_ref())?
        {
            self.heads.push(Head { row, run });
        }
        Ok(())
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

fn write((lsn, change): Row) -> Option<Write> {
    let (table, edit) = match change {
        Change::Put { table, key, value } => (table, Edit::Put { key, value }),
        Change::Delete { table, key } => (table, Edit::Delete { key }),
        // Merges were evaluated, and changes of tables are not collected.
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
