//! Drives a bulk recovery: reads, assembles and collects transactions, and ingests them.

use crate::apply::fold::fold;
use crate::apply::partition::{Done, number};
use crate::apply::partitions::{Ran, Run};
use crate::bulk::collect::Collected;
use crate::error::{Error, Result};
use crate::store::watermark::Watermark;
use crate::store::{Batch, Ingest};
use crate::transactions::transaction_assembler::{TransactionAssembler, Whole};
use seawall::Lsn;

/// The number of records between two progress reports.
const TELL: u64 = 4096;

/// The parts of a bulk recovery.
pub(crate) struct Bulk<'a, 'scope> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) ingest: &'a dyn Ingest,
    /// Fewer changes are written as a batch.
    pub(crate) ingest_from: u64,
    pub(crate) collected: Collected<'a, 'scope>,
    /// The watermark of the last transaction that was collected and not written.
    reached: Option<Watermark>,
    /// The number of these transactions.
    pending: u64,
    /// What was written.
    ran: Ran,
}

impl<'a, 'scope> Bulk<'a, 'scope> {
    /// Prepares a run, whose partitions are all at the same commit.
    pub(crate) fn new(
        run: &'a Run<'a>,
        (ingest, ingest_from): (&'a dyn Ingest, u64),
        collected: Collected<'a, 'scope>,
    ) -> Self {
        let ran = Ran { transactions: 0, done: Done::default(), batch_changes: 0, ingested: 0 };
        Self { run, ingest, ingest_from, collected, reached: None, pending: 0, ran }
    }

    /// Applies the transactions that `gather` assembles. Calls `hear` as [`Run::run`] does. Returns
    /// what was applied, also before an error.
    pub(crate) fn run(
        mut self,
        gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> (Ran, Result<()>) {
        let mut done = self.collect(gather, hear);
        // What precedes damage of the log is applied, as in batches.
        if matches!(done, Ok(()) | Err(Error::Log(_))) {
            done = self.write().and(done);
        }
        (self.ran, done)
    }

    /// Collects all transactions, and writes them where they end or fill their space.
    fn collect(
        &mut self,
        mut gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<()> {
        let run = self.run;
        for (records, entry) in (1..).zip(run.source.operations(run.from)?) {
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
        let (run, commit) = (self.run, transaction.commit);
        let applied = |mark: &Watermark| mark.applied_lsn() >= Some(commit.lsn);
        if run.partitions.iter().all(applied) {
            return Ok(());
        }
        let partitions = u32::try_from(run.partitions.len()).unwrap_or(u32::MAX);
        let mark = Watermark::new(run.log, Some(commit), transaction.restart);
        let mark = Watermark { partitions, ..mark };
        if transaction.has_tables() {
            self.write()?;
            return self.with_tables(transaction, mark);
        }
        self.collected.add(transaction.changes())?;
        self.reached = Some(mark);
        self.pending += 1;
        if self.collected.is_full() { self.write() } else { Ok(()) }
    }

    /// Applies a transaction that creates or drops tables, after everything before it was written.
    fn with_tables(&mut self, transaction: &Whole, mark: Watermark) -> Result<()> {
        let changes = transaction.changes().map(|(lsn, change)| (lsn, change.clone()));
        let changes: Vec<_> = changes.collect();
        let count = number(changes.len());
        let writes = fold(changes, self.run.tools)?;
        self.write_batch(&Batch { writes, watermarks: watermarks(mark) }, (1, count))
    }

    /// Writes what was collected, with its watermark: a little as a batch, much by ingestion.
    fn write(&mut self) -> Result<()> {
        let Some(mark) = self.reached.take() else { return Ok(()) };
        let counts = (std::mem::take(&mut self.pending), self.collected.count());
        if let Some(writes) = self.collected.batch(self.ingest_from)? {
            return self.write_batch(&Batch { writes, watermarks: watermarks(mark) }, counts);
        }
        let mut writes = self.collected.writes(self.ingest)?;
        let ingested = self.ingest.ingest(&mut writes, &watermarks(mark));
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

    /// Counts what was written.
    fn count(&mut self, (transactions, changes): (u64, u64), writes: u64) {
        self.ran.transactions += transactions;
        self.ran.done.batches += 1;
        self.ran.done.changes += changes;
        self.ran.done.writes += writes;
    }
}

/// The watermark in all partitions at once: each must skip the transactions later.
fn watermarks(mark: Watermark) -> Vec<(u32, Watermark)> {
    (0..mark.partitions).map(|partition| (partition, mark)).collect()
}
