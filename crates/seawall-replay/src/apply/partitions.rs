//! Runs a replay in parallel: one thread reads, one deals changes out by key, and each partition
//! has a thread that applies.
//!
//! The reading thread reads, verifies and decodes. The calling thread assembles transactions, deals
//! their changes out, and sorts and folds the changes of each batch. Written batches return to the
//! reading thread, which allocated them: it can free them without contention in the allocator.
//! Tables are created and dropped only after all partitions have written everything sent to them.

use crate::apply::batch_size::BatchSize;
use crate::apply::fold::{Folding, Tools, fold};
use crate::apply::partition::{Done, Partition, Portion, number, partition_of};
use crate::error::{Error, Result};
use crate::operation::{Change, Operation};
use crate::source::Source;
use crate::store::Batch;
use crate::store::watermark::Watermark;
use crate::store::write::Write;
use crate::transactions::transaction_assembler::{TransactionAssembler, Whole};
use seawall::Lsn;
use seawall::format::{LogId, RecordId};
use seawall_io::Clock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder, ScopedJoinHandle};

/// Limits for records decoded ahead: chunks in the queue, and records or bytes in a chunk.
const CHUNKS_AHEAD: usize = 4;
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 1 << 20;
/// Batches queued for a partition while it writes one.
const BATCHES_AHEAD: usize = 1;
/// Written batches queued to be freed.
const SPENT_MAX: usize = 2;

/// Operations with their records, as read; `None` for a record that changes nothing.
pub(crate) type Chunk = Vec<(RecordId, Option<Operation>)>;

/// One run: from the store's position to record `until`.
pub(crate) struct Run<'a> {
    pub(crate) source: &'a dyn Source,
    /// The id of the log.
    pub(crate) log: LogId,
    pub(crate) tools: Tools<'a>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) size: BatchSize,
    /// The watermark of each partition.
    pub(crate) partitions: Vec<Watermark>,
    pub(crate) from: Lsn,
    pub(crate) until: Option<Lsn>,
}

/// Totals of all partitions.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) transactions: u64,
    pub(crate) done: Done,
    pub(crate) batch_changes: usize,
    /// The writes that were ingested.
    pub(crate) ingested: u64,
}

impl Run<'_> {
    /// Applies the transactions that `gather` assembles, from records that are already decoded, on
    /// this thread. A few thousand records take less time than starting threads for them.
    pub(crate) fn run_here(
        &self,
        gather: TransactionAssembler,
        records: Chunk,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Ran> {
        let sizes = self.sizes();
        let hand = |((number, &written), size)| {
            Hand::new(Server::Here(Box::new(self.partition(number, written)), None), size, written)
        };
        let hands = (0..).zip(&self.partitions).zip(&sizes).map(hand).collect();
        let mut deal = Deal::new(self, hands);
        let dealt = deal.all(gather, [records].into_iter(), hear);
        let (transactions, done) = (deal.transactions, deal.done);
        let ends = deal.hands.into_iter().filter_map(|hand| hand.server.end()).collect();
        let (done, batch_changes) = first_error(ends).map(|partitions| sum(done, &partitions))?;
        dealt?;
        Ok(Ran { transactions, done, batch_changes, ingested: 0 })
    }

    /// The batch size of each partition, published to the dealing thread.
    fn sizes(&self) -> Vec<AtomicUsize> {
        self.partitions.iter().map(|_| AtomicUsize::new(self.size.changes())).collect()
    }

    /// Applies the transactions that `gather` assembles. Calls `hear` with the last record read and
    /// the number of records so far.
    pub(crate) fn run(
        &self,
        gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Ran> {
        let sizes = self.sizes();
        thread::scope(|scope| {
            let (chunks, decoded) = sync_channel(CHUNKS_AHEAD);
            let (spends, spent) = sync_channel(SPENT_MAX);
            let start = Builder::new().spawn_scoped(scope, move || self.read(&chunks, &spent));
            let reader = start.map_err(Error::Thread)?;
            let (mut hands, mut threads) = (Vec::new(), Vec::new());
            for ((number, &written), size) in (0..).zip(&self.partitions).zip(&sizes) {
                let (sender, orders) = sync_channel(BATCHES_AHEAD);
                hands.push(Hand::new(Server::Thread(sender), size, written));
                let partition = self.partition(number, written);
                let spends = spends.clone();
                let serve = move || serve(partition, size, (&orders, &spends));
                threads.push(Builder::new().spawn_scoped(scope, serve).map_err(Error::Thread)?);
            }
            drop(spends);
            let mut deal = Deal::new(self, hands);
            let dealt = deal.all(gather, decoded.iter(), hear);
            // Stops the reading thread; the partitions finish the batches sent to them.
            drop(decoded);
            let (transactions, done) = (deal.transactions, deal.done);
            drop(deal);
            let partitions = join(threads);
            let read = reader.join().expect("the reader returns errors");
            // If a partition's failure ended reading or dealing, its own error is the cause.
            let (done, batch_changes) = partitions.map(|partitions| sum(done, &partitions))?;
            dealt.and(read)?;
            Ok(Ran { transactions, done, batch_changes, ingested: 0 })
        })
    }

    /// Creates the partition `number`, whose watermark in the store is `written`.
    pub(crate) fn partition(&self, number: u32, written: Watermark) -> Partition<'_> {
        let Self { tools, clock, .. } = *self;
        let size = self.size.clone();
        Partition { number, tools, clock, size, written, done: Done::default() }
    }

    /// Reads and decodes until the receiver is gone.
    fn read(&self, chunks: &SyncSender<Chunk>, spent: &Receiver<Vec<Write>>) -> Result<()> {
        let (mut chunk, mut weight) = (Vec::new(), 0);
        for entry in self.source.operations(self.from)? {
            let (record, operation) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    // Everything before the damage is applied.
                    let _ = chunks.send(chunk);
                    return Err(error.into());
                }
            };
            let lsn = record.lsn;
            if self.until.is_some_and(|until| lsn > until) {
                break;
            }
            weight += operation.as_ref().map_or(0, weight_of);
            chunk.push((record, operation));
            if chunk.len() == CHUNK_RECORDS || weight >= CHUNK_BYTES {
                weight = 0;
                spent.try_iter().for_each(drop);
                let next = Vec::with_capacity(CHUNK_RECORDS);
                if chunks.send(std::mem::replace(&mut chunk, next)).is_err() {
                    return Ok(());
                }
            }
            if self.until == Some(lsn) {
                break;
            }
        }
        // The receiver is gone only after another failure.
        let _ = chunks.send(chunk);
        Ok(())
    }
}

/// Applies the orders of a partition until the sender is gone.
fn serve(
    mut partition: Partition<'_>,
    size: &AtomicUsize,
    (orders, spends): (&Receiver<Order>, &SyncSender<Vec<Write>>),
) -> PartitionEnd {
    for order in orders {
        match order {
            Order::Apply(portion) => {
                let spent = partition.write(portion)?;
                size.store(partition.size.changes(), Ordering::Relaxed);
                // If the queue is full, the batch is freed here.
                let _ = spends.try_send(spent);
            }
            // The dealing thread may have stopped waiting after an error.
            Order::Meet(met) => drop(met.send(())),
        }
    }
    Ok((partition.done, partition.size.changes()))
}

/// A partition's totals, and its last batch size.
type PartitionEnd = Result<(Done, usize)>;

pub(crate) fn weight_of(operation: &Operation) -> usize {
    match operation {
        Operation::Change(_, change) => change.weight(),
        Operation::Atomic(changes) => changes.iter().map(Change::weight).sum(),
        Operation::Begin(_) | Operation::Commit(_) | Operation::Abort(_) => 0,
    }
}

/// Joins all partitions.
fn join(threads: Vec<ScopedJoinHandle<'_, PartitionEnd>>) -> Result<Vec<(Done, usize)>> {
    let end = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("partitions return errors");
    first_error(threads.into_iter().map(end).collect())
}

/// Returns the totals of all partitions, or the error with the lowest LSN.
fn first_error(ends: Vec<PartitionEnd>) -> Result<Vec<(Done, usize)>> {
    let (good, bad): (Vec<_>, Vec<_>) = ends.into_iter().partition(PartitionEnd::is_ok);
    let first = bad.into_iter().filter_map(PartitionEnd::err);
    match first.min_by_key(|error| error.lsn().map_or(u64::MAX, Lsn::get)) {
        Some(error) => Err(error),
        None => Ok(good.into_iter().flatten().collect()),
    }
}

fn sum(dealt: Done, partitions: &[(Done, usize)]) -> (Done, usize) {
    let add = |a: Done, b: Done| Done {
        batches: a.batches + b.batches,
        changes: a.changes + b.changes,
        writes: a.writes + b.writes,
    };
    let done = partitions.iter().fold(dealt, |sum, (done, _)| add(sum, *done));
    (done, partitions.first().map_or(0, |(_, size)| *size))
}

/// A message to a partition.
enum Order {
    Apply(Portion),
    /// Reply when everything sent so far is written.
    Meet(SyncSender<()>),
}

/// The thread that applies the batches of a partition.
enum Server<'a> {
    /// The partition's own thread.
    Thread(SyncSender<Order>),
    /// The dealing thread, with the error that ended the partition, if any.
    Here(Box<Partition<'a>>, Option<Error>),
}

impl Server<'_> {
    fn apply(&mut self, portion: Portion, size: &AtomicUsize) -> Result<(), Gone> {
        match self {
            Self::Thread(orders) => orders.send(Order::Apply(portion)).map_err(|_| Gone),
            Self::Here(partition, failed) => match partition.write(portion) {
                Ok(_) => {
                    size.store(partition.size.changes(), Ordering::Relaxed);
                    Ok(())
                }
                Err(error) => {
                    *failed = Some(error);
                    Err(Gone)
                }
            },
        }
    }

    /// Returns the result of a partition without its own thread; `None` for other partitions.
    fn end(self) -> Option<PartitionEnd> {
        match self {
            Self::Thread(_) => None,
            Self::Here(_, Some(error)) => Some(Err(error)),
            Self::Here(partition, None) => Some(Ok((partition.done, partition.size.changes()))),
        }
    }
}

/// Changes collected for a partition and not sent yet.
struct Hand<'a> {
    server: Server<'a>,
    /// The partition's current batch size, in changes.
    size: &'a AtomicUsize,
    changes: Vec<(Lsn, Change)>,
    weight: usize,
    /// The partition's watermark once everything sent is written.
    sent: Watermark,
}

impl<'a> Hand<'a> {
    fn new(server: Server<'a>, size: &'a AtomicUsize, sent: Watermark) -> Self {
        Self { server, size, changes: vec![], weight: 0, sent }
    }

    /// Sends the collected changes with the watermark `reached`.
    fn send(&mut self, reached: Watermark, tools: Tools<'_>) -> Result<(), Gone> {
        if reached.applied_lsn() <= self.sent.applied_lsn() {
            return Ok(());
        }
        let next = Vec::with_capacity(self.changes.len());
        let rows = std::mem::replace(&mut self.changes, next);
        let changes = rows.len();
        let portion = Portion { rows: Folding::of(rows, tools), changes, reached };
        (self.weight, self.sent) = (0, reached);
        self.server.apply(portion, self.size)
    }
}

/// Deals changes out to the partitions.
struct Deal<'a> {
    run: &'a Run<'a>,
    hands: Vec<Hand<'a>>,
    /// The watermark of the last transaction dealt out.
    last: Option<Watermark>,
    transactions: u64,
    /// Totals of the batches applied by the dealing thread itself.
    done: Done,
}

/// A partition has stopped. Its own result holds the error.
struct Gone;

impl<'a> Deal<'a> {
    fn new(run: &'a Run<'a>, hands: Vec<Hand<'a>>) -> Self {
        Self { run, hands, last: None, transactions: 0, done: Done::default() }
    }

    /// Deals out all decoded operations.
    fn all(
        &mut self,
        mut gather: TransactionAssembler,
        decoded: impl Iterator<Item = Chunk>,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<()> {
        let mut records = 0;
        for chunk in decoded {
            records += number(chunk.len());
            let at = chunk.last().map(|(record, _)| record.lsn);
            for (record, operation) in chunk {
                let Some(operation) = operation else { continue };
                let whole = gather.take(record, operation)?;
                if let Some(transaction) = whole
                    && self.transaction(transaction)?.is_err()
                {
                    return Ok(());
                }
            }
            if let Some(at) = at {
                hear(at, records);
            }
        }
        // If a partition has stopped, joining it returns the error.
        let _ = self.send();
        Ok(())
    }

    fn transaction(&mut self, transaction: Whole) -> Result<Result<(), Gone>> {
        let Whole { commit, restart, .. } = transaction;
        let applied = |mark: &Watermark| mark.applied_lsn() >= Some(commit.lsn);
        if self.run.partitions.iter().all(applied) {
            return Ok(Ok(()));
        }
        self.transactions += 1;
        let partitions = count_of(&self.run.partitions);
        let mark = Watermark { partitions, ..Watermark::new(self.run.log, Some(commit), restart) };
        if transaction.has_tables() {
            return self.with_tables(transaction.into_changes().collect(), mark);
        }
        for (record, change) in transaction.into_changes() {
            let partition =
                usize::try_from(partition_of(&change, mark.partitions)).unwrap_or(usize::MAX);
            let has_it = self.run.partitions.get(partition).is_some_and(applied);
            if let Some(hand) = self.hands.get_mut(partition).filter(|_| !has_it) {
                hand.weight += change.weight();
                hand.changes.push((record, change));
            }
        }
        self.last = Some(mark);
        let bytes_max = self.run.size.bounds().bytes_max;
        let is_full = |hand: &&mut Hand<'_>| {
            hand.changes.len() >= hand.size.load(Ordering::Relaxed) || hand.weight >= bytes_max
        };
        let tools = self.run.tools;
        Ok(self.hands.iter_mut().filter(is_full).try_for_each(|hand| hand.send(mark, tools)))
    }

    /// Applies a transaction that creates or drops tables, after all partitions have caught up.
    fn with_tables(
        &mut self,
        changes: Vec<(Lsn, Change)>,
        mark: Watermark,
    ) -> Result<Result<(), Gone>> {
        if self.send().is_err() || self.meet().is_err() {
            return Ok(Err(Gone));
        }
        self.done.changes += number(changes.len());
        let writes = fold(changes, self.run.tools)?;
        self.done.writes += number(writes.len());
        self.done.batches += 1;
        // Advance all partitions at once: each must skip this transaction later, and none may lag.
        let watermarks = (0..mark.partitions).map(|partition| (partition, mark)).collect();
        let batch = Batch { writes, watermarks };
        self.run.tools.store.write(&batch).map_err(Error::store("write a batch"))?;
        self.last = Some(mark);
        for hand in &mut self.hands {
            hand.sent = mark;
        }
        Ok(Ok(()))
    }

    /// Sends each partition its changes, or only the new watermark if it has none.
    fn send(&mut self) -> Result<(), Gone> {
        let Some(mark) = self.last else { return Ok(()) };
        let tools = self.run.tools;
        self.hands.iter_mut().try_for_each(|hand| hand.send(mark, tools))
    }

    /// Waits until every partition has written everything sent to it.
    fn meet(&self) -> Result<(), Gone> {
        let (met, all_met) = sync_channel(self.hands.len());
        let mut count = 0;
        for hand in &self.hands {
            // A partition without a thread has written everything.
            if let Server::Thread(orders) = &hand.server {
                orders.send(Order::Meet(met.clone())).map_err(|_| Gone)?;
                count += 1;
            }
        }
        drop(met);
        if all_met.iter().count() == count { Ok(()) } else { Err(Gone) }
    }
}

fn count_of(partitions: &[Watermark]) -> u32 {
    u32::try_from(partitions.len()).unwrap_or(u32::MAX)
}
