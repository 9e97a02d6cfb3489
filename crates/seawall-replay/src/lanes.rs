//! Reading beside applying, and keys dealt out to lanes.
//!
//! One thread reads, verifies and decodes; this one puts transactions together and deals their
//! changes out; each lane has a thread that applies. Tables are created and dropped when all lanes
//! have met.

use crate::fold::{Tools, fold};
use crate::gather::{Gather, Transaction};
use crate::lane::{Done, Lane, Portion, lane_of, number};
use crate::{Batch, BatchSize, Change, Error, Operation, Result, Source, Watermark};
use seawall::Lsn;
use seawall_io::Clock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};

/// Records that are decoded ahead: so many times this many, or what weighs that much.
const CHUNKS_AHEAD: usize = 4;
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 1 << 20;
/// Portions that wait for a lane.
const PORTIONS_AHEAD: usize = 8;
/// Changes dealt out at once; whole transactions, and one at least.
const PORTION_CHANGES: usize = 128;
const PORTION_BYTES: usize = 256 << 10;

/// Numbered operations, as they were read.
pub(crate) type Chunk = Vec<(Lsn, Option<Operation>)>;

/// One run from where the store stands to record `until`.
pub(crate) struct Run<'a> {
    pub(crate) source: &'a dyn Source,
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
    pub(crate) fn run(&self, gather: Gather, hear: &mut dyn FnMut(Lsn, u64)) -> Result<Ran> {
        thread::scope(|scope| {
            let (chunks, decoded) = sync_channel(CHUNKS_AHEAD);
            let reader = scope.spawn(move || self.read(&chunks));
            let (mut senders, mut threads) = (Vec::new(), Vec::new());
            for (lane, &written) in (0..).zip(&self.lanes) {
                let (sender, portions) = sync_channel(PORTIONS_AHEAD);
                senders.push(sender);
                threads.push(scope.spawn(move || self.lane(lane, written, &portions)));
            }
            let mut deal = Deal::new(self, senders);
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

    /// Reads and decodes until nobody wants more.
    fn read(&self, chunks: &SyncSender<Chunk>) -> Result<()> {
        let (mut chunk, mut weight) = (Vec::new(), 0);
        for entry in self.source.operations(self.from)? {
            let (lsn, operation) = entry?;
            if self.until.is_some_and(|until| lsn > until) {
                break;
            }
            weight += operation.as_ref().map_or(0, weight_of);
            chunk.push((lsn, operation));
            if chunk.len() == CHUNK_RECORDS || weight >= CHUNK_BYTES {
                weight = 0;
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

    fn lane(&self, number: u32, written: Watermark, orders: &Receiver<Order>) -> LaneEnd {
        let mut lane = Lane {
            number,
            tools: self.tools,
            clock: self.clock,
            size: self.size.clone(),
            written,
            reached: written,
            changes: Vec::new(),
            weight: 0,
            done: Done::default(),
        };
        for order in orders {
            match order {
                Order::Apply(portion) => lane.take(portion)?,
                Order::Meet(met) => {
                    lane.write()?;
                    // Who waits for this lane hears it, or does not wait any more.
                    let _ = met.send(());
                }
            }
        }
        lane.write()?;
        Ok((lane.done, lane.size.changes()))
    }
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
    /// Write everything, then say so.
    Meet(SyncSender<()>),
}

/// Deals changes out to the lanes.
struct Deal<'a> {
    run: &'a Run<'a>,
    senders: Vec<SyncSender<Order>>,
    /// What is yet to be sent to each.
    hands: Vec<Vec<(Lsn, Change)>>,
    count: usize,
    weight: usize,
    /// How many changes are sent at once.
    count_max: usize,
    /// How far everything was dealt out.
    last: Option<Watermark>,
    /// Of those, how far it was sent.
    sent: Option<Watermark>,
    transactions: u64,
    /// What was applied here, and not in a lane.
    done: Done,
}

/// A lane is gone: it says itself why.
struct Gone;

impl<'a> Deal<'a> {
    fn new(run: &'a Run<'a>, senders: Vec<SyncSender<Order>>) -> Self {
        let hands = senders.iter().map(|_| Vec::new()).collect();
        let count_max = PORTION_CHANGES.min(run.size.changes());
        let (last, sent, done) = (None, None, Done::default());
        let (count, weight, transactions) = (0, 0, 0);
        Self { run, senders, hands, count, weight, count_max, last, sent, transactions, done }
    }

    /// Deals out everything that is decoded.
    fn all(
        &mut self,
        mut gather: Gather,
        decoded: &Receiver<Chunk>,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<()> {
        let mut records = 0;
        for chunk in decoded {
            records += number(chunk.len());
            let at = chunk.last().map(|(lsn, _)| *lsn);
            for (lsn, operation) in chunk {
                let Some(operation) = operation else { continue };
                let whole = gather.take(lsn, operation)?;
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
        let _ = self.send();
        Ok(())
    }

    fn transaction(&mut self, transaction: Transaction) -> Result<Result<(), Gone>> {
        let Transaction { lsn, restart, changes } = transaction;
        let applied = |mark: &Watermark| mark.applied >= Some(lsn);
        if self.run.lanes.iter().all(applied) {
            return Ok(Ok(()));
        }
        self.transactions += 1;
        let mark = Watermark { applied: Some(lsn), restart, lanes: count_of(&self.run.lanes) };
        if changes.iter().any(|(_, change)| change.key().is_none()) {
            return self.with_tables(changes, mark);
        }
        for (record, change) in changes {
            let lane = usize::try_from(lane_of(&change, mark.lanes)).unwrap_or(usize::MAX);
            if self.run.lanes.get(lane).is_some_and(applied) {
                continue;
            }
            self.count += 1;
            self.weight += change.weight();
            if let Some(hand) = self.hands.get_mut(lane) {
                hand.push((record, change));
            }
        }
        self.last = Some(mark);
        let is_enough = self.count >= self.count_max || self.weight >= PORTION_BYTES;
        Ok(if is_enough { self.send() } else { Ok(()) })
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
        (self.last, self.sent) = (Some(mark), Some(mark));
        Ok(Ok(()))
    }

    /// Sends each lane what is its own, and how far it has come with that.
    fn send(&mut self) -> Result<(), Gone> {
        let Some(mark) = self.last.filter(|_| self.last != self.sent) else { return Ok(()) };
        let (through, restart) = (mark.applied.unwrap_or(mark.restart), mark.restart);
        for (sender, hand) in self.senders.iter().zip(&mut self.hands) {
            let portion = Portion { changes: std::mem::take(hand), through, restart };
            sender.send(Order::Apply(portion)).map_err(|_| Gone)?;
        }
        (self.count, self.weight, self.sent) = (0, 0, Some(mark));
        Ok(())
    }

    /// Waits until every lane has written all that it was sent.
    fn meet(&self) -> Result<(), Gone> {
        let (met, all_met) = sync_channel(self.senders.len());
        for sender in &self.senders {
            sender.send(Order::Meet(met.clone())).map_err(|_| Gone)?;
        }
        drop(met);
        let heard = all_met.iter().count();
        if heard == self.senders.len() { Ok(()) } else { Err(Gone) }
    }
}

fn count_of(lanes: &[Watermark]) -> u32 {
    u32::try_from(lanes.len()).unwrap_or(u32::MAX)
}
