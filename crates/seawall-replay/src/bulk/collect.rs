//! Collects the changes of one ingestion, in memory and then in a scratch file.

use crate::apply::fold::{Tools, fold, sort};
use crate::bulk::run::{Row, Run};
use crate::bulk::writes::Writes;
use crate::error::Result;
use crate::store::Ingest;
use crate::store::write::Write;
use crate::transactions::spill::{Folder, Spill};
use std::collections::BTreeSet;

/// The runs of one ingestion. Together with the memory for a run this bounds the scratch file.
const RUNS_MAX: usize = 64;

/// Changes of rows in the order of the log.
#[derive(Debug)]
pub(crate) struct Collected {
    rows: Vec<Row>,
    weight: usize,
    /// The number of changes, with those in the scratch file.
    count: u64,
    runs: Vec<Run>,
    scratch: Option<Spill>,
    memory: usize,
    folder: Folder,
}

impl Collected {
    /// Keeps changes of up to `memory` bytes in memory, and the others in `folder`.
    pub(crate) fn new(memory: usize, folder: Folder) -> Self {
        let (rows, runs) = (Vec::new(), Vec::new());
        Self { rows, weight: 0, count: 0, runs, scratch: None, memory, folder }
    }

    /// The number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the changes have to be ingested before more are collected.
    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() >= RUNS_MAX
    }

    /// Adds the changes of a transaction.
    pub(crate) fn add(&mut self, rows: impl Iterator<Item = Row>, tools: Tools<'_>) -> Result<()> {
        for row in rows {
            self.weight += row.1.weight();
            self.count += 1;
            self.rows.push(row);
        }
        if self.weight < self.memory {
            return Ok(());
        }
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(self.folder.make()?),
        };
        self.weight = 0;
        let sorted = sort(std::mem::take(&mut self.rows));
        self.runs.push(Run::spilled(sorted, scratch, tools.operators)?);
        Ok(())
    }

    /// Folds the changes into the writes of a batch, if there are fewer than `fewer_than`.
    pub(crate) fn batch(
        &mut self,
        fewer_than: u64,
        tools: Tools<'_>,
    ) -> Result<Option<Vec<Write>>> {
        if self.count >= fewer_than || !self.runs.is_empty() {
            return Ok(None);
        }
        let writes = fold(std::mem::take(&mut self.rows), tools)?;
        self.clear();
        Ok(Some(writes))
    }

    /// Takes all changes as sorted writes, one for each key.
    pub(crate) fn writes<'a>(&mut self, tools: Tools<'a>, ingest: &dyn Ingest) -> Writes<'a> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.push(Run::in_memory(sort(std::mem::take(&mut self.rows))));
        let tables: BTreeSet<&String> = runs.iter().flat_map(Run::tables).collect();
        let mut tables: Vec<String> = tables.into_iter().cloned().collect();
        ingest.sort_tables(&mut tables);
        let scratch = self.scratch.take();
        self.clear();
        Writes::new((runs, scratch), tables, tools)
    }

    fn clear(&mut self) {
        (self.weight, self.count) = (0, 0);
    }
}
