//! Collects the changes of one ingestion, and passes them to the sorter.

use crate::apply::fold::Tools;
use crate::bulk::part::Part;
use crate::bulk::run::Merge;
use crate::bulk::sorter::{Room, Sorted, Sorter};
use crate::bulk::tables::Tables;
use crate::bulk::writes::Writes;
use crate::error::Result;
use crate::operation::Change;
use crate::store::Ingest;
use crate::store::write::Write;
use seawall::Lsn;
use std::sync::Arc;
use std::thread::Scope;

/// The maximum size of one ingestion, in multiples of the memory for runs. Bounds the number of
/// runs in the scratch file.
const MEMORIES_MAX: usize = 64;
/// The maximum size of a part, in bytes. Smaller parts are sorted faster and merged more slowly.
const PART: usize = 8 << 20;

/// Changes of rows: the newest ones in `part`, in log order; the others in `sorter`, sorted.
pub(crate) struct Collected<'a, 'scope> {
    scope: &'scope Scope<'scope, 'a>,
    tools: Tools<'a>,
    room: Room,
    part_max: usize,
    tables: Arc<Tables>,
    /// The number of the table of the row added last.
    table: u32,
    part: Part,
    sorter: Option<Sorter<'scope>>,
    /// The size of the changes passed to the sorter, in bytes.
    size: usize,
    /// The number of changes.
    count: u64,
}

impl<'a, 'scope> Collected<'a, 'scope> {
    /// Creates an empty collection. Keeps changes of up to `room.memory` bytes in memory, and the
    /// others in a scratch file.
    pub(crate) fn new(scope: &'scope Scope<'scope, 'a>, tools: Tools<'a>, room: Room) -> Self {
        // Five parts need memory: one that this thread fills or sorts, one in the queue, one that
        // the sorter's thread sorts, and a copy of each of the two being sorted.
        let part_max = PART.min(room.memory / 8);
        let memory = room.memory - 5 * part_max;
        Self {
            scope,
            tools,
            room: Room { memory, ..room },
            part_max,
            tables: Arc::default(),
            table: 0,
            part: Part::default(),
            sorter: None,
            size: 0,
            count: 0,
        }
    }

    /// The number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the changes have to be ingested before more are collected.
    pub(crate) fn is_full(&self) -> bool {
        self.size / MEMORIES_MAX >= self.room.memory.max(1)
    }

    /// Adds the changes of a transaction.
    pub(crate) fn add<'c>(
        &mut self,
        changes: impl Iterator<Item = (Lsn, &'c Change)>,
    ) -> Result<()> {
        for (lsn, change) in changes {
            let row = (change.table(), change.key().unwrap_or_default());
            self.table = match self.tables.find(self.table, row) {
                Some(table) => table,
                None => Arc::make_mut(&mut self.tables).add(row),
            };
            self.part.add(lsn, (self.table, change))?;
            self.count += 1;
        }
        if self.part.size() >= self.part_max { self.sort_part() } else { Ok(()) }
    }

    fn sort_part(&mut self) -> Result<()> {
        let part = std::mem::take(&mut self.part);
        self.size += part.size();
        let sorter = match &mut self.sorter {
            Some(sorter) => sorter,
            none => {
                let what = (self.room.clone(), self.tools.operators);
                none.insert(Sorter::start(self.scope, what)?)
            }
        };
        match sorter.add((part, self.tables.clone()))? {
            Some(empty) => {
                self.part = empty;
                Ok(())
            }
            None => self.sorted().map(drop),
        }
    }

    /// Waits until all changes are sorted.
    fn sorted(&mut self) -> Result<Sorted> {
        self.sorter.take().map_or_else(|| Ok(Sorted::default()), Sorter::finish)
    }

    /// Folds the changes into the writes of a batch. Returns `None` if there are `fewer_than` or
    /// more, or if they do not fit in memory.
    pub(crate) fn batch(&mut self, fewer_than: u64) -> Result<Option<Vec<Write>>> {
        if self.count >= fewer_than || self.size >= self.room.memory {
            return Ok(None);
        }
        let order = self.tables.by_name();
        let mut writes = self.take(order)?;
        writes.all().map(Some)
    }

    /// Takes all changes as sorted writes, one for each key.
    pub(crate) fn writes(&mut self, ingest: &dyn Ingest) -> Result<Writes<'a>> {
        let order = self.tables.in_order_of(ingest);
        self.take(order)
    }

    fn take(&mut self, order: Vec<u32>) -> Result<Writes<'a>> {
        self.sort_part()?;
        let Sorted { mut spilled, scratch, in_memory, .. } = self.sorted()?;
        spilled.extend(in_memory);
        let tables = std::mem::take(&mut self.tables);
        (self.size, self.count) = (0, 0);
        Ok(Writes::new((Merge::new(spilled), scratch), (tables, order), self.tools))
    }
}
