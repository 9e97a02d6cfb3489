//! The second pass: assembles the changes of each committed transaction at its commit.

use crate::error::{Error, Result};
use crate::operation::{Change, Operation, TxId};
use crate::store::watermark::Watermark;
use crate::transactions::plan::Plan;
use crate::transactions::spill::{Folder, Place, Spill};
use seawall::Lsn;
use seawall::format::{LogId, RecordId};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The record of the commit. Transactions come in the order of their commits.
    pub lsn: Lsn,
    /// The watermark to store atomically with the changes. Pass it to [`transactions`] to continue
    /// with the next transaction; that also detects another log, or a log that lost this commit.
    ///
    /// [`transactions`]: crate::Replay::transactions
    pub watermark: Watermark,
    /// The changes with their records, in log order.
    pub changes: Vec<(Lsn, Change)>,
}

/// A committed transaction, as assembled.
#[derive(Debug)]
pub(crate) struct Whole {
    /// The record of the commit.
    pub(crate) commit: RecordId,
    pub(crate) restart: Lsn,
    pub(crate) changes: Changes,
}

/// The changes of a transaction.
#[derive(Debug)]
pub(crate) enum Changes {
    /// All in the record of the commit.
    Here(Vec<Change>),
    /// Each in its own record.
    Gathered(Vec<(Lsn, Change)>),
}

impl Whole {
    /// Returns whether the transaction creates or drops tables.
    pub(crate) fn has_tables(&self) -> bool {
        self.changes().any(|(_, change)| change.key().is_none())
    }

    /// Returns the changes with their records.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Lsn, &Change)> {
        let lsn = self.commit.lsn;
        let (here, gathered): (&[_], &[_]) = match &self.changes {
            Changes::Here(changes) => (changes, &[]),
            Changes::Gathered(changes) => (&[], changes),
        };
        let gathered = gathered.iter().map(|(lsn, change)| (*lsn, change));
        here.iter().map(move |change| (lsn, change)).chain(gathered)
    }

    /// Takes the changes with their records.
    pub(crate) fn into_changes(self) -> impl Iterator<Item = (Lsn, Change)> {
        let lsn = self.commit.lsn;
        let (here, gathered) = match self.changes {
            Changes::Here(changes) => (changes, vec![]),
            Changes::Gathered(changes) => (vec![], changes),
        };
        here.into_iter().map(move |change| (lsn, change)).chain(gathered)
    }

    /// Converts to the public type, for this log.
    pub(crate) fn into_transaction(self, log: LogId) -> Transaction {
        let Self { commit, restart, .. } = self;
        let watermark = Watermark::new(log, Some(commit), restart);
        Transaction { lsn: commit.lsn, watermark, changes: self.into_changes().collect() }
    }
}

/// Assembles transactions.
#[derive(Debug)]
pub(crate) struct TransactionAssembler {
    plan: Arc<Plan>,
    open: HashMap<TxId, Open>,
    /// The begins of transactions that will be aborted. They count for the restart LSN too: their
    /// abort is after the current commit, and truncating the log could replace it with a commit.
    to_abort: HashMap<TxId, Lsn>,
    /// The begins of all open transactions. A begin also ends an open transaction of its number,
    /// for good: a truncation that keeps a later commit keeps this begin, too.
    begins: BTreeSet<Lsn>,
    /// The size of the changes in `open`, in bytes.
    held: usize,
    held_max: usize,
    folder: Folder,
    scratch: Option<Spill>,
}

/// A transaction that will be committed.
#[derive(Debug)]
struct Open {
    begin: Lsn,
    /// The changes in the scratch file, which precede those in memory.
    away: Vec<Place>,
    changes: Vec<(Lsn, Change)>,
    weight: usize,
}

impl TransactionAssembler {
    /// Keeps changes of up to `held_max` bytes in memory, and the others in `folder`.
    pub(crate) fn new(plan: Arc<Plan>, held_max: usize, folder: Folder) -> Self {
        let (open, to_abort, begins) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        Self { plan, open, to_abort, begins, held: 0, held_max, folder, scratch: None }
    }

    /// Processes the next record. Returns the transaction that it completes.
    pub(crate) fn take(&mut self, record: RecordId, operation: Operation) -> Result<Option<Whole>> {
        let lsn = record.lsn;
        match operation {
            Operation::Atomic(changes) => {
                let (restart, changes) = (self.restart(lsn), Changes::Here(changes));
                return Ok(Some(Whole { commit: record, restart, changes }));
            }
            Operation::Begin(tx) if self.plan.is_committed.contains(lsn) => {
                self.end_uncommitted(tx);
                let open = Open { begin: lsn, away: vec![], changes: vec![], weight: 0 };
                self.begins.insert(lsn);
                if self.open.insert(tx, open).is_some() {
                    // If two transactions share a number, the plan commits only the second.
                    return Err(Error::NeverBegan { lsn, tx, from: self.plan.from });
                }
            }
            Operation::Change(tx, change) => {
                if let Some(open) = self.open.get_mut(&tx) {
                    let weight = change.weight();
                    open.changes.push((lsn, change));
                    open.weight += weight;
                    self.held += weight;
                    self.make_room()?;
                }
            }
            Operation::Commit(tx) => {
                if let Some(open) = self.open.remove(&tx) {
                    self.begins.remove(&open.begin);
                    self.held -= open.weight;
                    let (restart, changes) = (self.restart(lsn), self.whole(open)?);
                    let changes = Changes::Gathered(changes);
                    return Ok(Some(Whole { commit: record, restart, changes }));
                }
                // It is incomplete, and was skipped.
                self.end_uncommitted(tx);
            }
            // Changes of uncommitted transactions are not kept.
            Operation::Begin(tx) => {
                self.end_uncommitted(tx);
                self.to_abort.insert(tx, lsn);
                self.begins.insert(lsn);
            }
            Operation::Abort(tx) => self.end_uncommitted(tx),
        }
        Ok(None)
    }

    fn end_uncommitted(&mut self, tx: TxId) {
        if let Some(begin) = self.to_abort.remove(&tx) {
            self.begins.remove(&begin);
        }
    }

    /// Returns the first record to read when continuing after `lsn`.
    pub(crate) fn restart(&self, lsn: Lsn) -> Lsn {
        self.begins.first().map_or(lsn.next(), |begin| lsn.next().min(*begin))
    }

    fn whole(&self, open: Open) -> Result<Vec<(Lsn, Change)>> {
        let Some(scratch) = self.scratch.as_ref().filter(|_| !open.away.is_empty()) else {
            return Ok(open.changes);
        };
        let mut changes = Vec::new();
        for place in open.away {
            let stored: Vec<(u64, Change)> =
                rmp_serde::from_slice(&scratch.get(place)?).map_err(garbled)?;
            let numbered = |(lsn, change)| Some((Lsn::new(lsn)?, change));
            changes.extend(stored.into_iter().filter_map(numbered));
        }
        changes.extend(open.changes);
        Ok(changes)
    }

    /// Moves changes to the scratch file if they take too much memory: those of the largest
    /// transactions, until half of the memory is free.
    fn make_room(&mut self) -> Result<()> {
        if self.held <= self.held_max {
            return Ok(());
        }
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(self.folder.make()?),
        };
        let mut heavy: Vec<&mut Open> = self.open.values_mut().filter(|o| o.weight > 0).collect();
        heavy.sort_by_key(|open| std::cmp::Reverse(open.weight));
        for open in heavy {
            if self.held <= self.held_max / 2 {
                break;
            }
            let changes: Vec<(u64, Change)> =
                open.changes.drain(..).map(|(lsn, change)| (lsn.get(), change)).collect();
            let bytes = rmp_serde::to_vec(&changes).map_err(garbled)?;
            open.away.push(scratch.put(&bytes)?);
            self.held -= open.weight;
            open.weight = 0;
        }
        Ok(())
    }
}

fn garbled(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Spill(io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transactions::plan::{Floor, Planner};

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    fn gathered(operations: &[Operation], held_max: usize) -> Vec<Transaction> {
        let folder = || Folder(std::env::temp_dir());
        let floor = Floor { from: Lsn::FIRST, applied: None, applied_by_any: None };
        let mut planner = Planner::new(floor, 100, folder());
        let numbered = || (1..).map(lsn).zip(operations);
        numbered().try_for_each(|(at, operation)| planner.see(at, Some(operation.into()))).unwrap();
        let plan = Arc::new(planner.finish().unwrap());
        let mut gather = TransactionAssembler::new(plan, held_max, folder());
        let take = |(lsn, operation): (Lsn, &Operation)| {
            let record = RecordId { lsn, time_us: 1, crc: 2 };
            gather.take(record, operation.clone()).unwrap()
        };
        numbered().filter_map(take).map(|whole| whole.into_transaction(LogId(3))).collect()
    }

    fn put(tx: u64, key: &str) -> Operation {
        Operation::Change(TxId(tx), Change::put("", key, "v"))
    }

    fn keys(transaction: &Transaction) -> String {
        let key = |(_, change): &(Lsn, Change)| change.key().unwrap().to_vec();
        String::from_utf8(transaction.changes.iter().flat_map(key).collect()).unwrap()
    }

    /// Three interleaved transactions, of which the third is aborted.
    fn mixed() -> Vec<Operation> {
        let (one, two, three) = (TxId(1), TxId(2), TxId(3));
        vec![
            Operation::Begin(one),
            put(1, "a"),
            Operation::Begin(two),
            put(2, "b"),
            put(1, "c"),
            Operation::Begin(three),
            put(3, "x"),
            Operation::Commit(two),
            put(1, "d"),
            Operation::Abort(three),
            Operation::Commit(one),
        ]
    }

    #[test]
    fn transactions_are_whole_and_in_commit_order() {
        let found = gathered(&mixed(), usize::MAX);
        let found: Vec<_> =
            found.iter().map(|t| (t.lsn.get(), keys(t), t.watermark.restart.get())).collect();
        assert_eq!(found, [(8, "b".to_owned(), 1), (11, "acd".to_owned(), 12)]);
    }

    #[test]
    fn changes_from_the_scratch_file_keep_their_order() {
        assert_eq!(gathered(&mixed(), 0), gathered(&mixed(), usize::MAX));
        assert_eq!(gathered(&mixed(), 200), gathered(&mixed(), usize::MAX));
    }

    #[test]
    fn restart_lsn_is_before_unfinished_transactions() {
        let operations = [Operation::Begin(TxId(1)), put(1, "a"), Change::put("", "b", "v").into()];
        assert_eq!(gathered(&operations, 0).first().map(|t| t.watermark.restart), Some(Lsn::FIRST));
    }

    #[test]
    fn superseded_begin_holds_the_restart_lsn_until_its_successor() {
        let one = TxId(1);
        let atomic = || Change::put("", "k", "v").into();
        let begins = [Operation::Begin(one), atomic(), Operation::Begin(one), atomic()];
        let ends = [Operation::Commit(one), atomic()];
        let found = gathered(&[&begins[..], &ends].concat(), 0);
        let found: Vec<_> =
            found.iter().map(|t| (t.lsn.get(), t.watermark.restart.get())).collect();
        assert_eq!(found, [(2, 1), (4, 3), (5, 6), (6, 7)]);
    }
}
