//! The first pass: finds the outcome of each transaction.
//!
//! A finished transaction takes one bit, at the LSN of its begin: whether it was committed. An open
//! transaction takes an entry with its begin. If too many are open at once, they go to a scratch
//! file, partitioned by transaction number, and all later records follow them there. At the end
//! each part is small enough to be processed in memory.
//!
//! LSNs have no gaps, so a missing one was given up by a repair. A transaction is incomplete if one
//! of its records may be among those given up: it is open at a gap and commits after it, or it has
//! no begin. A begin after the gap starts a whole transaction, whatever its number was used for
//! before.

use crate::error::{Error, Result};
use crate::operation::TxId;
use crate::record_summary::RecordSummary;
use crate::transactions::bits::Bits;
use crate::transactions::spill::{Folder, Place, Spill};
use seawall::Lsn;
use seawall::damage::{Damage, Lost};
use std::collections::HashMap;

/// What a replay would do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The first record to read.
    pub from: Lsn,
    /// The last record read.
    pub last: Option<Lsn>,
    /// The number of records read.
    pub records: u64,
    /// The number of records that a repair of the log gave up, among those read.
    pub given_up: u64,
    /// The number of committed transactions.
    pub committed: u64,
    /// The committed transactions that the store already has.
    pub applied_before: u64,
    /// The number of changes in the committed transactions that the store lacks.
    pub changes: u64,
    /// The number of aborted transactions.
    pub aborted: u64,
    /// The number of transactions without an end.
    pub unfinished: u64,
    /// The oldest transaction without an end.
    pub oldest_unfinished: Option<Unfinished>,
    /// The number of committed transactions that lack records, and were skipped. See
    /// [`Replay::skip_incomplete`](crate::Replay::skip_incomplete).
    pub incomplete: u64,
    /// Damage after the last record that loses none. Repair the log.
    pub damage: Option<Damage>,
    pub(crate) is_committed: Bits,
}

/// A transaction without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The transaction's number.
    pub tx: TxId,
    /// The record of its begin. If that is before the first record read or was discarded, the first
    /// change that was read.
    pub lsn: Lsn,
}

/// How much of the log the store already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    /// The first record to read.
    pub(crate) from: Lsn,
    /// The last commit that every partition has applied.
    pub(crate) applied: Option<Lsn>,
    /// The last commit that any partition has applied.
    pub(crate) applied_by_any: Option<Lsn>,
}

/// An open transaction.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: Lsn,
    /// Its begin is before the first record read.
    is_headless: bool,
    changes: u64,
}

/// Finds the outcome of each transaction, record by record.
#[derive(Debug)]
pub(crate) struct Planner {
    floor: Floor,
    open: HashMap<TxId, Open>,
    open_max: usize,
    folder: Folder,
    away: Option<Away>,
    skips_incomplete: bool,
    /// The ranges of records given up, in order.
    given_up: Vec<(Lsn, Lsn)>,
    plan: Plan,
}

impl Planner {
    /// Keeps up to `open_max` open transactions in memory, and the others in `folder`.
    pub(crate) fn new(floor: Floor, open_max: usize, folder: Folder) -> Self {
        let plan = Plan {
            from: floor.from,
            last: None,
            records: 0,
            given_up: 0,
            committed: 0,
            applied_before: 0,
            changes: 0,
            aborted: 0,
            unfinished: 0,
            oldest_unfinished: None,
            incomplete: 0,
            damage: None,
            is_committed: Bits::from(floor.from),
        };
        Self {
            floor,
            open: HashMap::new(),
            open_max: open_max.max(1),
            folder,
            away: None,
            skips_incomplete: false,
            given_up: vec![],
            plan,
        }
    }

    /// Skips transactions that lack records, instead of returning an error.
    pub(crate) fn skip_incomplete(mut self, skips: bool) -> Self {
        self.skips_incomplete = skips;
        self
    }

    /// Processes the next record.
    pub(crate) fn see(&mut self, lsn: Lsn, outline: Option<RecordSummary>) -> Result<()> {
        let next = self.plan.last.map_or(self.floor.from, Lsn::next);
        if let Some(to) = lsn.previous().filter(|to| next <= *to) {
            self.give_up(next, to)?;
        }
        self.plan.last = Some(lsn);
        self.plan.records += 1;
        let (tx, step) = match outline {
            None => return Ok(()),
            Some(RecordSummary::Atomic(changes)) => {
                self.committed(lsn, changes);
                return Ok(());
            }
            Some(RecordSummary::Begin(tx)) => (tx, Step::Begin),
            Some(RecordSummary::Change(tx)) => (tx, Step::Change(1)),
            Some(RecordSummary::Commit(tx)) => (tx, Step::Commit),
            Some(RecordSummary::Abort(tx)) => (tx, Step::Abort),
        };
        if step == Step::Begin || self.open.contains_key(&tx) {
            if let Some(away) = self.away.as_mut().filter(|_| step == Step::Begin) {
                away.begin(tx, lsn)?;
            }
            self.step(lsn, tx, step)?;
        } else {
            match &mut self.away {
                // The transaction may be in the scratch file.
                Some(away) => away.note(tx, lsn, step)?,
                None => self.step(lsn, tx, step)?,
            }
        }
        self.make_room()
    }

    /// Returns the plan after the last record.
    pub(crate) fn finish(mut self) -> Result<Plan> {
        if let Some(mut away) = self.away.take() {
            away.take_in(&mut self.open)?;
            for part in away.parts {
                for piece in part.pieces {
                    for note in away.scratch.get(piece)?.chunks_exact(NOTE_SIZE) {
                        let (tx, lsn, step) = read_note(note);
                        self.step(lsn, tx, step)?;
                    }
                }
                self.end_open();
            }
        } else {
            self.end_open();
        }
        Ok(self.plan)
    }

    /// Notes that a repair gave up these records.
    fn give_up(&mut self, from: Lsn, to: Lsn) -> Result<()> {
        self.given_up.push((from, to));
        self.plan.given_up += to.get() - from.get() + 1;
        let Floor { applied: lowest, applied_by_any: highest, .. } = self.floor;
        if lowest < highest && Some(from) <= highest && Some(to) > lowest {
            let [lowest, highest] = [lowest, highest].map(|lsn| lsn.map_or(0, Lsn::get));
            let why = format!(
                "some partitions have applied LSN {highest} and others only LSN {lowest}, but a \
                 repair of the log gave up {} between them",
                Lost::new(from, Some(to))
            );
            return Err(Error::Watermarks { why });
        }
        Ok(())
    }

    /// Processes one step of a transaction whose entry, if there is one, is in memory.
    fn step(&mut self, lsn: Lsn, tx: TxId, step: Step) -> Result<()> {
        let from = self.floor.from;
        match step {
            Step::Begin => {
                let open = Open { first: lsn, is_headless: false, changes: 0 };
                if let Some(before) = self.open.insert(tx, open) {
                    self.unfinished(tx, before);
                }
            }
            Step::Replaced => {
                if let Some(before) = self.open.remove(&tx) {
                    self.unfinished(tx, before);
                }
            }
            Step::Change(count) => {
                let headless = Open { first: lsn, is_headless: true, changes: 0 };
                self.open.entry(tx).or_insert(headless).changes += count;
            }
            Step::Commit => {
                let begun = self.open.remove(&tx).filter(|open| !open.is_headless);
                let lost = self.given_up_between(begun.map_or(from, |open| open.first), lsn);
                // A transaction that some partitions have applied cannot be skipped.
                let may_skip = self.skips_incomplete && Some(lsn) > self.floor.applied_by_any;
                match begun {
                    Some(Open { first, changes, .. }) if lost.is_empty() => {
                        self.plan.is_committed.insert(first);
                        self.committed(lsn, changes);
                    }
                    // The store has the transaction, whose earlier records were pruned or lost.
                    _ if Some(lsn) <= self.floor.applied => self.committed(lsn, 0),
                    _ if may_skip => self.plan.incomplete += 1,
                    _ => return Err(incomplete((lsn, tx), lost, from)),
                }
            }
            Step::Abort => {
                self.open.remove(&tx);
                self.plan.aborted += 1;
            }
        }
        Ok(())
    }

    /// Returns the records given up between two others.
    fn given_up_between(&self, after: Lsn, before: Lsn) -> Vec<Lost> {
        let start = self.given_up.partition_point(|(from, _)| *from < after);
        let ranges = self.given_up.iter().skip(start).take_while(|(_, to)| *to < before);
        ranges.map(|(from, to)| Lost::new(*from, Some(*to))).collect()
    }

    fn committed(&mut self, lsn: Lsn, changes: u64) {
        self.plan.committed += 1;
        if Some(lsn) <= self.floor.applied {
            self.plan.applied_before += 1;
        } else {
            self.plan.changes += changes;
        }
    }

    fn end_open(&mut self) {
        for (tx, open) in std::mem::take(&mut self.open) {
            self.unfinished(tx, open);
        }
    }

    fn unfinished(&mut self, tx: TxId, Open { first: lsn, .. }: Open) {
        self.plan.unfinished += 1;
        let oldest = &mut self.plan.oldest_unfinished;
        if oldest.is_none_or(|oldest| lsn < oldest.lsn) {
            *oldest = Some(Unfinished { tx, lsn });
        }
    }

    fn make_room(&mut self) -> Result<()> {
        if self.open.len() <= self.open_max {
            return Ok(());
        }
        let away = match &mut self.away {
            Some(away) => away,
            none => none.insert(Away::new(&self.folder)?),
        };
        away.take_in(&mut self.open)
    }
}

/// The effect of a record on its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Change(u64),
    Commit,
    Abort,
    /// Another transaction with its number begins.
    Replaced,
}

/// Returns the error for a commit whose transaction lacks records.
fn incomplete((lsn, tx): (Lsn, TxId), lost: Vec<Lost>, from: Lsn) -> Error {
    if lost.is_empty() {
        Error::NeverBegan { lsn, tx, from }
    } else {
        Error::Incomplete { lsn, tx, lost }
    }
}

/// Transactions in the scratch file, partitioned by number.
#[derive(Debug)]
struct Away {
    scratch: Spill,
    parts: Vec<Part>,
    /// The highest number of a transaction in the file.
    highest: Option<TxId>,
}

#[derive(Debug, Default)]
struct Part {
    pieces: Vec<Place>,
    /// Notes not yet written to the scratch file.
    notes: Vec<u8>,
}

/// The number of parts. One part fits in memory as long as at most this many times `open_max`
/// transactions are open.
const PARTS: u64 = 64;
/// The size of the pieces in which the notes of a part are written, in bytes.
const PIECE: usize = 64 * 1024;
/// The size of a note, in bytes: kind, transaction, record, count.
const NOTE_SIZE: usize = 25;

impl Away {
    fn new(folder: &Folder) -> Result<Self> {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Ok(Self { scratch: folder.make()?, parts, highest: None })
    }

    /// Moves all open transactions to the scratch file, as notes of their begins and changes.
    fn take_in(&mut self, open: &mut HashMap<TxId, Open>) -> Result<()> {
        for (tx, Open { first, is_headless, changes }) in std::mem::take(open) {
            if !is_headless {
                self.note(tx, first, Step::Begin)?;
            }
            if changes > 0 {
                self.note(tx, first, Step::Change(changes))?;
            }
        }
        let Self { scratch, parts, .. } = self;
        parts.iter_mut().try_for_each(|part| part.put_away(scratch))
    }

    /// Ends an earlier transaction of this number. Numbers usually rise, so few begins need a note.
    fn begin(&mut self, tx: TxId, lsn: Lsn) -> Result<()> {
        if Some(tx) > self.highest { Ok(()) } else { self.note(tx, lsn, Step::Replaced) }
    }

    fn note(&mut self, tx: TxId, lsn: Lsn, step: Step) -> Result<()> {
        self.highest = self.highest.max(Some(tx));
        let (kind, count) = match step {
            Step::Begin => (0, 0),
            Step::Change(count) => (1, count),
            Step::Commit => (2, 0),
            Step::Abort => (3, 0),
            Step::Replaced => (4, 0),
        };
        // The numbers of transactions open at the same time are often consecutive.
        let part = usize::try_from(tx.0 % PARTS).expect("fewer than the address space");
        let part = self.parts.get_mut(part).expect("one for each remainder");
        part.notes.push(kind);
        for field in [tx.0, lsn.get(), count] {
            part.notes.extend_from_slice(&field.to_le_bytes());
        }
        if part.notes.len() >= PIECE { part.put_away(&mut self.scratch) } else { Ok(()) }
    }
}

impl Part {
    fn put_away(&mut self, scratch: &mut Spill) -> Result<()> {
        if !self.notes.is_empty() {
            self.pieces.push(scratch.put(&self.notes)?);
            self.notes.clear();
        }
        Ok(())
    }
}

/// Decodes what [`Away::note`] encoded.
fn read_note(note: &[u8]) -> (TxId, Lsn, Step) {
    let field = |at: usize| {
        let mut field = [0; 8];
        let found = note.iter().skip(1 + at * 8);
        field.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(field)
    };
    let step = match note.first() {
        Some(0) => Step::Begin,
        Some(1) => Step::Change(field(2)),
        Some(2) => Step::Commit,
        Some(3) => Step::Abort,
        _ => Step::Replaced,
    };
    (TxId(field(0)), Lsn::new(field(1)).unwrap_or(Lsn::FIRST), step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Change, Operation};
    use seawall_testkit::{Dice, each_seed};
    use std::collections::BTreeSet;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    fn planned(open_max: usize, operations: &[Operation]) -> Result<Plan> {
        let operations: Vec<_> = (10..).map(lsn).zip(operations.iter().cloned()).collect();
        plan_of(&operations, (open_max, false))
    }

    fn plan_of(operations: &[(Lsn, Operation)], (open_max, skips): (usize, bool)) -> Result<Plan> {
        let floor = Floor { from: lsn(10), applied: None, applied_by_any: None };
        let planner = Planner::new(floor, open_max, Folder(std::env::temp_dir()));
        let mut planner = planner.skip_incomplete(skips);
        for (at, operation) in operations {
            planner.see(*at, Some(operation.into()))?;
        }
        planner.finish()
    }

    fn change(tx: u64) -> Operation {
        Operation::Change(TxId(tx), Change::put("", "k", "v"))
    }

    #[test]
    fn plan_counts_committed_aborted_and_unfinished_transactions() {
        let (one, two, three) = (TxId(1), TxId(2), TxId(3));
        let plan = planned(
            9,
            &[
                Operation::Begin(one),
                Operation::Begin(two),
                change(1),
                Operation::Begin(three),
                change(2),
                Operation::Commit(one),
                Operation::Abort(two),
                Change::delete("", "k").into(),
            ],
        )
        .unwrap();
        assert_eq!((plan.committed, plan.aborted, plan.unfinished, plan.changes), (2, 1, 1, 2));
        assert_eq!(plan.oldest_unfinished, Some(Unfinished { tx: three, lsn: lsn(13) }));
        let committed: Vec<u64> =
            (10..18).filter(|&at| plan.is_committed.contains(lsn(at))).collect();
        assert_eq!(committed, [10]);
    }

    #[test]
    fn second_begin_of_a_number_leaves_the_first_transaction_unfinished() {
        let one = TxId(1);
        let again = [Operation::Begin(one), Operation::Begin(one), Operation::Commit(one)];
        let plan = planned(9, &again).unwrap();
        assert_eq!((plan.committed, plan.unfinished), (1, 1));
        assert!(!plan.is_committed.contains(lsn(10)) && plan.is_committed.contains(lsn(11)));
    }

    #[test]
    fn commit_without_a_begin_is_an_error_with_its_lsn() {
        let error = planned(9, &[change(4), Operation::Commit(TxId(4))]).unwrap_err();
        assert_eq!(error.lsn(), Some(lsn(11)), "{error}");
        let plan = planned(9, &[change(4), Operation::Abort(TxId(4))]).unwrap();
        assert_eq!((plan.aborted, plan.unfinished), (1, 0));
    }

    /// The steps of a few transactions. Most are in a typical order, the others in any.
    fn program(dice: &mut Dice) -> Vec<Operation> {
        let (steps, mut open) = (dice.index(300), BTreeSet::new());
        let is_typical = dice.one_in(2);
        dice.many(steps, |dice| {
            let tx = dice.below(40);
            if !is_typical && dice.one_in(8) {
                return match dice.below(4) {
                    0 => Operation::Begin(TxId(tx)),
                    1 => change(tx),
                    2 => Operation::Commit(TxId(tx)),
                    _ => Operation::Abort(TxId(tx)),
                };
            }
            match dice.below(6) {
                0 if open.remove(&tx) => Operation::Commit(TxId(tx)),
                1 if open.remove(&tx) => Operation::Abort(TxId(tx)),
                kind if open.contains(&tx) && kind != 2 => change(tx),
                _ => {
                    open.insert(tx);
                    Operation::Begin(TxId(tx))
                }
            }
        })
    }

    #[test]
    fn plan_from_the_scratch_file_equals_the_plan_in_memory() {
        each_seed(512, |dice| {
            let mut operations: Vec<_> = (10..).map(lsn).zip(program(dice)).collect();
            if dice.one_in(2) {
                // A repair gave up some of the records.
                operations.retain(|_| !dice.one_in(20));
            }
            let plans = |skips| {
                let plan = |open_max| plan_of(&operations, (open_max, skips));
                (plan(1000), plan(3))
            };
            let (large, small) = plans(false);
            assert_eq!(large.is_ok(), small.is_ok());
            let (Ok(large), Ok(small)) = plans(true) else { panic!("none is refused") };
            let ends = |plan: &Plan| (plan.committed, plan.aborted, plan.unfinished);
            assert_eq!(ends(&large), ends(&small));
            assert_eq!((large.records, large.changes), (small.records, small.changes));
            assert_eq!((large.given_up, large.incomplete), (small.given_up, small.incomplete));
            assert_eq!(large.oldest_unfinished, small.oldest_unfinished);
            for at in (10..400).map(lsn) {
                assert_eq!(large.is_committed.contains(at), small.is_committed.contains(at));
            }
        });
    }

    /// A number is used again while its first transaction is in the scratch file.
    #[test]
    fn begin_replaces_a_transaction_in_the_scratch_file() {
        let (five, six) = (TxId(5), TxId(6));
        let operations = [
            Operation::Begin(five),
            change(5),
            Operation::Begin(six),
            Operation::Abort(six),
            Operation::Begin(five),
            Operation::Abort(five),
            Operation::Commit(five),
        ];
        for open_max in [100, 1] {
            let error = planned(open_max, &operations).unwrap_err();
            assert!(matches!(error, Error::NeverBegan { .. }), "{error}");
        }
    }
}
