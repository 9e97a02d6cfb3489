//! Reading beside applying, and keys dealt out to partitions, which a store calls lanes.
//!
//! One thread reads, verifies and decodes; this one puts transactions together, deals their changes
//! out, and sorts and folds what makes a batch; each lane has a thread that applies. What was
//! applied goes back to who decoded it: there its memory is given up without a wait for a lock.
//! Tables are created and dropped when all lanes have met.

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
use std::thread::{self, ScopedJoinHandle};

/// Records that are decoded ahead: so many times this many, or what weighs that much.
const CHUNKS_AHEAD: usize = 4;
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 1 << 20;
/// Batches that wait for a lane while it writes one.
const BATCHES_AHEAD: usize = 1;
/// Batches that were written and wait to be given up.
const SPENT_MAX: usize = 2;

/// Numbered operations, as they were read.
pub(crate) type Chunk = Vec<(RecordId, Option<Operation>)>;

/// One run from where the store stands to record `until`.
pub(crate) struct Run<'a> {
    pub(crate) source: &'a dyn Source,
    /// Which log that is.
    pub(crate) log: LogId,
    pub(crate) tools: Tools<'a>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) size: BatchSize,
    /// Where each lane of the store stands.
    pub(crate) lanes: Vec<Watermark>,
    pub(crate) from: Lsn,
    pub(crate) until: Option<Lsn>,
}

/// What was done in all lanes together, and where they stand now.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) transactions: u64,
    pub(crate) done: Done,
    pub(crate) batch_changes: usize,
}

impl Run<'_> {
    /// Applies what `gather` puts together; `hear` is told of each record that was read last, and
    /// how many there were.
    pub(crate) fn run(
        &self,
        gather: TransactionAssembler,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Ran> {
        // What the lanes have found out, for the dealer.
        let size = |_| AtomicUsize::new(self.size.changes());
        let sizes: Vec<AtomicUsize> = self.lanes.iter().map(size).collect();
        thread::scope(|scope| {
            let (chunks, decoded) = sync_channel(CHUNKS_AHEAD);
            let (spends, spent) = sync_channel(SPENT_MAX);
            let reader = scope.spawn(move || self.read(&chunks, &spent));
            let (mut hands, mut threads) = (Vec::new(), Vec::new());
            for ((lane, &written), size) in (0..).zip(&self.lanes).zip(&sizes) {
                let (sender, orders) = sync_channel(BATCHES_AHEAD);
                hands.push(Hand { sender, size, changes: vec![], weight: 0, sent: written });
                let lane = self.partition(lane, written);
                let spends = spends.clone();
                threads.push(scope.spawn(move || serve(lane, size, (&orders, &spends))));
            }
            drop(spends);
            let mut deal = Deal::new(self, hands);
            let dealt = deal.all(gather, &decoded, hear);
            // Who reads ahead stops, and lanes write what they have.
            drop(decoded);
            let (transactions, done) = (deal.transactions, deal.done);
            drop(deal);
            let lanes = join(threads);
            let read = reader.join().expect("the reader returns errors");
            // Where reading or dealing ended because of a lane, that lane says why.
            let (done, batch_changes) = lanes.map(|lanes| sum(done, &lanes))?;
            dealt.and(read)?;
            Ok(Ran { transactions, done, batch_changes })
        })
    }

    /// The partition of this number, which has come as far as `written`.
    fn partition(&self, number: u32, written: Watermark) -> Partition<'_> {
        let Self { tools, clock, .. } = *self;
        let size = self.size.clone();
        Partition { number, tools, clock, size, written, done: Done::default() }
    }

    /// Reads and decodes until nobody wants more.
    fn read(&self, chunks: &SyncSender<Chunk>, spent: &Receiver<Vec<Write>>) -> Result<()> {
        let (mut chunk, mut weight) = (Vec::new(), 0);
        for entry in self.source.operations(self.from)? {
            let (record, operation) = entry?;
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
        // Nobody listens where something else failed.
        let _ = chunks.send(chunk);
        Ok(())
    }
}

/// Applies what a lane is told to, until nobody tells it more.
fn serve(
    mut lane: Partition<'_>,
    size: &AtomicUsize,
    (orders, spends): (&Receiver<Order>, &SyncSender<Vec<Write>>),
) -> LaneEnd {
    for order in orders {
        match order {
            Order::Apply(portion) => {
                let spent = lane.write(portion)?;
                size.store(lane.size.changes(), Ordering::Relaxed);
                // If it cannot go back at once, it goes here.
                let _ = spends.try_send(spent);
            }
            // Who waits for this lane hears it, or does not wait any more.
            Order::Meet(met) => drop(met.send(())),
        }
    }
    Ok((lane.done, lane.size.changes()))
}

/// What a lane did, and the size of its last batches.
type LaneEnd = Result<(Done, usize)>;

fn weight_of(operation: &Operation) -> usize {
    match operation {
        Operation::Change(_, change) => change.weight(),
        Operation::Atomic(changes) => changes.iter().map(Change::weight).sum(),
        Operation::Begin(_) | Operation::Commit(_) | Operation::Abort(_) => 0,
    }
}

/// The ends of all lanes; of several errors the one that concerns the first record.
fn join(threads: Vec<ScopedJoinHandle<'_, LaneEnd>>) -> Result<Vec<(Done, usize)>> {
    let ends: Vec<LaneEnd> =
        threads.into_iter().map(|lane| lane.join().expect("lanes return errors")).collect();
    let (good, bad): (Vec<_>, Vec<_>) = ends.into_iter().partition(LaneEnd::is_ok);
    let first = bad.into_iter().filter_map(LaneEnd::err);
    match first.min_by_key(|error| error.lsn().map_or(u64::MAX, Lsn::get)) {
        Some(error) => Err(error),
        None => Ok(good.into_iter().flatten().collect()),
    }
}

fn sum(dealt: Done, lanes: &[(Done, usize)]) -> (Done, usize) {
    let add = |a: Done, b: Done| Done {
        batches: a.batches + b.batches,
        changes: a.changes + b.changes,
        writes: a.writes + b.writes,
    };
    let done = lanes.iter().fold(dealt, |sum, (done, _)| add(sum, *done));
    (done, lanes.first().map_or(0, |(_, size)| *size))
}

/// What a lane is told.
enum Order {
    Apply(Portion),
    /// Say that everything is written.
    Meet(SyncSender<()>),
}

/// What is yet to be sent to a lane.
struct Hand<'a> {
    sender: SyncSender<Order>,
    /// How many changes make a batch there.
    size: &'a AtomicUsize,
    changes: Vec<(Lsn, Change)>,
    weight: usize,
    /// Where the lane is with what it was sent.
    sent: Watermark,
}

impl Hand<'_> {
    /// Sends what it has, and how far the lane is with that.
    fn send(&mut self, reached: Watermark, tools: Tools<'_>) -> Result<(), Gone> {
        if reached.applied_lsn() <= self.sent.applied_lsn() {
            return Ok(());
        }
        let next = Vec::with_capacity(self.changes.len());
        let rows = std::mem::replace(&mut self.changes, next);
        let changes = rows.len();
        let portion = Portion { rows: Folding::of(rows, tools), changes, reached };
        (self.weight, self.sent) = (0, reached);
        self.sender.send(Order::Apply(portion)).map_err(|_| Gone)
    }
}

/// Deals changes out to the lanes.
struct Deal<'a> {
    run: &'a Run<'a>,
    hands: Vec<Hand<'a>>,
    /// How far everything was dealt out.
    last: Option<Watermark>,
    transactions: u64,
    /// What was applied here, and not in a lane.
    done: Done,
}

/// A lane is gone: it says itself why.
struct Gone;

impl<'a> Deal<'a> {
    fn new(run: &'a Run<'a>, hands: Vec<Hand<'a>>) -> Self {
        Self { run, hands, last: None, transactions: 0, done: Done::default() }
    }

    /// Deals out everything that is decoded.
    fn all(
        &mut self,
        mut gather: TransactionAssembler,
        decoded: &Receiver<Chunk>,
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
        // A lane that is gone says itself why.
        let _ = self.send();
        Ok(())
    }

    fn transaction(&mut self, transaction: Whole) -> Result<Result<(), Gone>> {
        let Whole { commit, restart, .. } = transaction;
        let applied = |mark: &Watermark| mark.applied_lsn() >= Some(commit.lsn);
        if self.run.lanes.iter().all(applied) {
            return Ok(Ok(()));
        }
        self.transactions += 1;
        let lanes = count_of(&self.run.lanes);
        let mark = Watermark { lanes, ..Watermark::new(self.run.log, Some(commit), restart) };
        if transaction.has_tables() {
            return self.with_tables(transaction.into_changes().collect(), mark);
        }
        for (record, change) in transaction.into_changes() {
            let lane = usize::try_from(partition_of(&change, mark.lanes)).unwrap_or(usize::MAX);
            let has_it = self.run.lanes.get(lane).is_some_and(applied);
            if let Some(hand) = self.hands.get_mut(lane).filter(|_| !has_it) {
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

    /// Applies a transaction that creates or drops tables, when all lanes have met.
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
        // In all lanes at once: none may do it again, and none may stand behind it.
        let watermarks = (0..mark.lanes).map(|lane| (lane, mark)).collect();
        let batch = Batch { writes, watermarks };
        self.run.tools.store.write(&batch).map_err(Error::store("write a batch"))?;
        self.last = Some(mark);
        for hand in &mut self.hands {
            hand.sent = mark;
        }
        Ok(Ok(()))
    }

    /// Sends each lane what is its own; one that was only passed by moves on, too.
    fn send(&mut self) -> Result<(), Gone> {
        let Some(mark) = self.last else { return Ok(()) };
        let tools = self.run.tools;
        self.hands.iter_mut().try_for_each(|hand| hand.send(mark, tools))
    }

    /// Waits until every lane has written all that it was sent.
    fn meet(&self) -> Result<(), Gone> {
        let (met, all_met) = sync_channel(self.hands.len());
        for hand in &self.hands {
            hand.sender.send(Order::Meet(met.clone())).map_err(|_| Gone)?;
        }
        drop(met);
        let heard = all_met.iter().count();
        if heard == self.hands.len() { Ok(()) } else { Err(Gone) }
    }
}

fn count_of(lanes: &[Watermark]) -> u32 {
    u32::try_from(lanes.len()).unwrap_or(u32::MAX)
}
