//! Records that are whole transactions, packed into bytes.
//!
//! Keys and values that are allocated one by one are far apart in memory, and are freed in a
//! different order. Packed rows avoid both, so reading, sorting and writing them takes less time
//! than passing on the operations.

use crate::apply::fold::{Folding, Tools, fold};
use crate::apply::partition::{Partition, Portion, number};
use crate::apply::partitions::{Chunk, Ran, Run};
use crate::bulk::row::{Packed, pack};
use crate::bulk::tables::Tables;
use crate::bulk::writes::write;
use crate::error::Result;
use crate::operation::Operation;
use crate::record_summary::RecordSummary;
use crate::store::watermark::Watermark;
use crate::store::write::Write;
use seawall::Lsn;
use seawall::format::RecordId;

/// The size in bytes and the number of records from which a block is full. Large allocations are
/// slow to grow: their memory comes from the system, which clears it.
const BLOCK_BYTES: usize = 60 << 10;
const BLOCK_RECORDS: usize = 1_000;

/// Packed records. Each is a whole transaction that changes only rows, or changes nothing.
#[derive(Debug, Default)]
pub(crate) struct PackedLog {
    tables: Tables,
    /// The number of the table of the row added last.
    table: u32,
    blocks: Vec<Block>,
    /// The numbers of records and rows.
    count: usize,
    rows: usize,
}

/// A block of consecutive records.
#[derive(Debug)]
struct Block {
    entries: Vec<Entry>,
    /// The rows of all entries.
    bytes: Vec<u8>,
}

impl Block {
    fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.entries.len() >= BLOCK_RECORDS
    }
}

/// A record.
#[derive(Clone, Copy, Debug)]
struct Entry {
    record: RecordId,
    is_transaction: bool,
    /// The number of its rows.
    rows: usize,
}

impl PackedLog {
    /// The number of records.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a record. Returns whether it has a packed form; if not, nothing was added.
    pub(crate) fn add(&mut self, record: RecordId, operation: Option<&Operation>) -> Result<bool> {
        let changes = match operation {
            None => &[][..],
            Some(Operation::Atomic(changes)) => changes,
            Some(_) => return Ok(false),
        };
        if changes.iter().any(|change| change.key().is_none()) {
            return Ok(false);
        }
        let Self { tables, table, blocks, .. } = self;
        if blocks.last().is_none_or(Block::is_full) {
            // The first block starts small, because a small log has no other.
            let room = if blocks.is_empty() { 0 } else { BLOCK_BYTES + BLOCK_BYTES / 16 };
            blocks.push(Block { entries: vec![], bytes: Vec::with_capacity(room) });
        }
        let block = blocks.last_mut().expect("one was added if there was none");
        for change in changes {
            let row = (change.table(), change.key().unwrap_or_default());
            *table = tables.find(*table, row).unwrap_or_else(|| tables.add(row));
            pack(record.lsn, (*table, change), &mut block.bytes)?;
        }
        let is_transaction = operation.is_some();
        block.entries.push(Entry { record, is_transaction, rows: changes.len() });
        self.count += 1;
        self.rows += changes.len();
        Ok(true)
    }

    /// Returns the summaries of the records.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = (Lsn, Option<RecordSummary>)> {
        self.blocks.iter().flat_map(|block| &block.entries).map(|entry| {
            let atomic = RecordSummary::Atomic(number(entry.rows));
            (entry.record.lsn, entry.is_transaction.then_some(atomic))
        })
    }

    /// Unpacks the records.
    pub(crate) fn unpack(&self) -> Result<Chunk> {
        let mut chunk = Vec::with_capacity(self.count);
        for Block { entries, bytes } in &self.blocks {
            let mut at = 0;
            for &Entry { record, is_transaction, rows } in entries {
                let mut changes = Vec::with_capacity(rows);
                for _ in 0..rows {
                    let row = Packed::at(bytes, at)?;
                    at = row.end();
                    changes.push(row.unpack(bytes, self.tables.name(row.table))?.1);
                }
                chunk.push((record, is_transaction.then_some(Operation::Atomic(changes))));
            }
        }
        Ok(chunk)
    }

    /// Applies the transactions that the store lacks. The store has one partition.
    pub(crate) fn apply(&self, run: &Run<'_>, hear: &mut dyn FnMut(Lsn, u64)) -> Result<Ran> {
        let new = || Watermark::new(run.log, None, run.from);
        let written = run.partitions.first().copied().unwrap_or_else(new);
        let mut partition = run.partition(0, written);
        let mut batch = PackedBatch::of(self);
        let (mut transactions, mut records) = (0, 0);
        for block in &self.blocks {
            let mut at = 0;
            for &Entry { record, is_transaction, rows } in &block.entries {
                let is_missing = is_transaction && Some(record.lsn) > written.applied_lsn();
                at = batch.add((&block.bytes, at), (rows, is_missing))?;
                records += 1;
                if !is_missing {
                    continue;
                }
                transactions += 1;
                // No other transaction is open at any record.
                batch.reached = Some(Watermark::new(run.log, Some(record), record.lsn.next()));
                if partition.size.is_full(batch.rows.len(), batch.size) {
                    batch.write(&mut partition)?;
                    hear(record.lsn, records);
                }
            }
        }
        batch.write(&mut partition)?;
        if let Some(lsn) = partition.written.applied_lsn() {
            hear(lsn, records);
        }
        let batch_changes = partition.size.changes();
        Ok(Ran { transactions, done: partition.done, batch_changes, ingested: 0 })
    }
}

/// The rows of a batch.
struct PackedBatch<'a> {
    log: &'a PackedLog,
    /// The rank of each table in the order of names, indexed by table number.
    ranks: Vec<u32>,
    rows: Vec<Row<'a>>,
    /// The size of the rows, in bytes.
    size: usize,
    /// The watermark after the batch; `None` while it has no transaction.
    reached: Option<Watermark>,
    /// The writes of the previous batch, cleared. Their memory is reused.
    spent: Vec<Write>,
}

/// A packed row, with the numbers that decide most comparisons.
struct Row<'a> {
    /// The rank of its table.
    rank: u32,
    /// Its number in the batch.
    number: u32,
    /// See [`Tables::head`].
    head: u64,
    bytes: &'a [u8],
}

impl<'a> PackedBatch<'a> {
    fn of(log: &'a PackedLog) -> Self {
        let mut ranks: Vec<(u32, u32)> = log.tables.by_name().into_iter().zip(0..).collect();
        ranks.sort_unstable();
        let ranks = ranks.into_iter().map(|(_, rank)| rank).collect();
        Self { log, ranks, rows: vec![], size: 0, reached: None, spent: vec![] }
    }

    /// Adds the rows of a record, which begin at `at`, if they are missing in the store. Returns
    /// the end of the rows.
    fn add(
        &mut self,
        (bytes, mut at): (&'a [u8], usize),
        (rows, is_missing): (usize, bool),
    ) -> Result<usize> {
        for _ in 0..rows {
            let row = Packed::at(bytes, at)?;
            at = row.end();
            if is_missing {
                let table = usize::try_from(row.table).unwrap_or(usize::MAX);
                let rank = self.ranks.get(table).copied().unwrap_or_default();
                let head = self.log.tables.head(row.table, row.key(bytes));
                let number = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
                let bytes = row.whole(bytes);
                self.size += bytes.len();
                self.rows.push(Row { rank, number, head, bytes });
            }
        }
        Ok(at)
    }

    /// Writes the batch, if there is one.
    fn write(&mut self, partition: &mut Partition<'_>) -> Result<()> {
        let Some(reached) = self.reached.take() else { return Ok(()) };
        self.sort();
        let mut writes = std::mem::take(&mut self.spent);
        writes.reserve(self.rows.len());
        for same in self.rows.chunk_by(Row::is_same_key) {
            self.fold_into(&mut writes, same, partition.tools)?;
        }
        let changes = self.rows.len();
        self.size = 0;
        self.rows.clear();
        self.spent = partition.write(Portion { rows: Folding::Done(writes), changes, reached })?;
        self.spent.clear();
        self.rows.reserve(partition.size.changes().min(self.log.rows));
        Ok(())
    }

    /// Sorts by table and key. Rows of one key keep the order of the log.
    fn sort(&mut self) {
        self.rows.sort_unstable_by_key(Row::order);
        for equal in self.rows.chunk_by_mut(Row::has_same_head).filter(|rows| rows.len() > 1) {
            equal.sort_by(|one, next| one.key().cmp(next.key()));
        }
    }

    /// Appends the writes of one key.
    fn fold_into(&self, writes: &mut Vec<Write>, same: &[Row<'_>], tools: Tools<'_>) -> Result<()> {
        let unpacked = |row: &Row<'_>| {
            let packed = row.packed()?;
            packed.unpack(row.bytes, self.log.tables.name(packed.table))
        };
        if same.iter().any(|row| row.packed().is_ok_and(|packed| packed.is_merge())) {
            let rows = same.iter().map(unpacked).collect::<Result<_>>()?;
            writes.extend(fold(rows, tools)?);
        } else if let Some(last) = same.last() {
            writes.extend(write(unpacked(last)?));
        }
        Ok(())
    }
}

impl Row<'_> {
    fn packed(&self) -> Result<Packed> {
        Packed::at(self.bytes, 0)
    }

    fn key(&self) -> &[u8] {
        self.packed().map_or(&[], |packed| packed.key(self.bytes))
    }

    /// Returns the sort key as one number, because comparing two numbers takes no branch.
    fn order(&self) -> u128 {
        u128::from(self.rank) << 96 | u128::from(self.head) << 32 | u128::from(self.number)
    }

    fn has_same_head(&self, next: &Self) -> bool {
        (self.rank, self.head) == (next.rank, next.head)
    }

    fn is_same_key(&self, next: &Self) -> bool {
        self.has_same_head(next) && self.key() == next.key()
    }
}
