//! Drives a bulk recovery: reads, assembles and collects transactions, and ingests them.

use crate::apply::fold::fold;
use crate::apply::partition::{Done, number};
use crate::apply::partitions::{Ran, Run};
use crate::bulk::gathered::{Commit, Gathered};
use crate::error::{Error, Result};
use crate::store::watermark::Watermark;
use crate::store::{Batch, Ingest};
use crate::transactions::transaction_assembler::{TransactionAssembler, Whole};
use seawall::Lsn;

/// The number of records between two progress reports.
const TELL: u64 = 4096;

/// The parts of a bulk recovery.
pub(crate) struct Bulk<'r, 'a, 'scope> {
    pub(crate) run: &'r Run<'a>,
    pub(crate) ingest: &'a dyn Ingest,
    /// The minimum number of changes to ingest. Fewer are written as a batch.
    pub(crate) ingest_from: u64,
    pub(crate) gathered: Gathered<'a, 'scope>,
    /// Totals of the writes so far.
    ran: Ran,
}

impl<'r, 'a, 'scope> Bulk<'r, 'a, 'scope> {
    /// Prepares a bulk recovery. All partitions of `run` must be at the same commit.
    pub(crate) fn new(
        run: &'r Run<'a>,
        (ingest, ingest_from): (&'a dyn Ingest, u64),
        gathered: Gathered<'a, 'scope>,
    ) -> Self {
        let ran = Ran { transactions: 0, done: Done::default(), batch_changes: 0, ingested: 0 };
        Self { run, ingest, ingest_from, gathered, ran }
    }

    /// Applies the transactions that `gather` assembles. Calls `hear` as [`Run::run`] does. Returns
    /// the totals of what was applied, even after an error.
    pub(crate) fn run(
        mut self,
        gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> (Ran, Result<()>) {
        let mut done = self.collect(gather, hear);
        // Transactions before damage in the log are applied, as they are in batches.
        if matches!(done, Ok(()) | Err(Error::Log(_))) {
            done = self.write().and(done);
        }
        (self.ran, done)
    }

    /// Collects all transactions. Writes those collected when their space is full, and before a
    /// transaction that creates or drops tables.
    fn collect(
        &mut self,
        mut gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<()> {
        let run = self.run;
        if self.gathered.collected().is_full() {
            self.write()?;
        }
        let (next, records) = (self.gathered.next(), self.gathered.records());
        hear(run.until.map_or(next, |until| until.min(next)), records);
        if run.until.is_some_and(|until| next > until) {
            return Ok(());
        }
        for (records, entry) in (records + 1..).zip(run.source.operations(next)?) {
            let (record, operation) = entry?;
            let lsn = record.lsn;
            if run.until.is_some_and(|until| lsn > until) {
                break;
            }
            if let Some(operation) = operation
                && let Some(transaction) = gather.take(record, operation)?
            {
                self.transaction(&transaction)?;
            }
            let is_last = run.until == Some(lsn);
            if is_last || records % TELL == 0 {
                hear(lsn, records);
            }
            if is_last {
                // Records after the last one needed are not read: they may be damaged.
                break;
            }
        }
        Ok(())
    }

    fn transaction(&mut self, transaction: &Whole) -> Result<()> {
        if !self.gathered.is_missing(transaction.commit.lsn) {
            return Ok(());
        }
        if transaction.has_tables() {
            self.write()?;
            return self.with_tables(transaction);
        }
        self.gathered.add(transaction)?;
        if self.gathered.collected().is_full() { self.write() } else { Ok(()) }
    }

    /// Applies a transaction that creates or drops tables. All earlier ones must be written.
    fn with_tables(&mut self, transaction: &Whole) -> Result<()> {
        let changes = transaction.changes().map(|(lsn, change)| (lsn, change.clone()));
        let changes: Vec<_> = changes.collect();
        let count = number(changes.len());
        let writes = fold(changes, self.run.tools)?;
        let (record, restart) = (transaction.commit, transaction.restart);
        let watermarks = self.watermarks(Commit { record, restart });
        self.write_batch(&Batch { writes, watermarks }, (1, count))
    }

    /// Writes the collected changes with their watermark: a few as a batch, many by ingestion.
    fn write(&mut self) -> Result<()> {
        let Some((transactions, commit)) = self.gathered.take_last() else { return Ok(()) };
        let watermarks = self.watermarks(commit);
        let collected = self.gathered.collected();
        let counts = (transactions, collected.count());
        if let Some(writes) = collected.batch(self.ingest_from)? {
            return self.write_batch(&Batch { writes, watermarks }, counts);
        }
        let mut writes = collected.writes(self.ingest)?;
        let ingested = self.ingest.ingest(&mut writes, &watermarks);
        if let Some(error) = writes.failed.take() {
            return Err(error);
        }
        ingested.map_err(Error::store("ingest rows"))?;
        self.ran.ingested += writes.count;
        self.count(counts, writes.count);
        Ok(())
    }

    fn write_batch(&mut self, batch: &Batch, counts: (u64, u64)) -> Result<()> {
        self.run.tools.store.write(batch).map_err(Error::store("write a batch"))?;
        self.count(counts, number(batch.writes.len()));
        Ok(())
    }

    /// Adds a batch or an ingestion to the totals.
    fn count(&mut self, (transactions, changes): (u64, u64), writes: u64) {
        self.ran.transactions += transactions;
        self.ran.done.batches += 1;
        self.ran.done.changes += changes;
        self.ran.done.writes += writes;
    }

    /// Returns the watermarks of all partitions after a commit: each partition must skip the
    /// transactions later.
    fn watermarks(&self, Commit { record, restart }: Commit) -> Vec<(u32, Watermark)> {
        let partitions = u32::try_from(self.run.partitions.len()).unwrap_or(u32::MAX);
        let mark = Watermark::new(self.run.log, Some(record), restart);
        (0..partitions).map(|partition| (partition, Watermark { partitions, ..mark })).collect()
    }
}
