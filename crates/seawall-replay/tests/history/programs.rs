//! Random programs over two logs and several stores. Logs are truncated at both ends, grow again,
//! are killed and lose power; stores lose their newest batches. After each replay, either the store
//! contains exactly its log's committed transactions, or the replay returned a justified error.

use super::{Disk, open, reader};
use crate::common::sample::Sample;
use crate::common::{DyingStore, Manner, expected, wrong_keys};
use seawall::{Log, Lsn};
use seawall_replay::{Bounds, Change, Error, Operation, Replay, Store, TxId, Watermark};
use seawall_testkit::{Dice, MemStorage};
use std::collections::BTreeMap;
use std::sync::Arc;

const PROGRAMS: u64 = 200;
const STEPS: u64 = 60;

/// A log with its expected content.
struct Written {
    device: MemStorage,
    log: Option<Log<Operation>>,
    /// All records except those truncated at the end, each with a unique number.
    records: Vec<(u64, Operation)>,
    oldest: u64,
}

/// A store, and the records that it had applied after its last successful replay.
struct Kept {
    store: DyingStore,
    /// The index of the log, and the unique number of each record by LSN.
    history: Option<(usize, BTreeMap<u64, u64>)>,
}

impl Written {
    fn new() -> Self {
        let device = MemStorage::new();
        let log = Some(open(&(Arc::new(device.clone()) as Disk)));
        let mut written = Self { device, log, records: vec![], oldest: 1 };
        written.append(0, Change::create_table("t", "").into());
        written
    }

    fn disk(&self) -> Disk {
        Arc::new(self.device.clone())
    }

    fn log(&self) -> &Log<Operation> {
        self.log.as_ref().unwrap()
    }

    fn append(&mut self, own: u64, operation: Operation) {
        self.log().append(&operation).unwrap();
        self.records.push((own, operation));
    }

    /// The transactions open at the end of the log.
    fn open(&self) -> Vec<TxId> {
        let mut open = vec![];
        for (_, operation) in &self.records {
            match operation {
                Operation::Begin(tx) => open.push(*tx),
                Operation::Commit(tx) | Operation::Abort(tx) => open.retain(|other| other != tx),
                _ => {}
            }
        }
        open
    }

    fn grow(&mut self, dice: &mut Dice, own: &mut u64) {
        for _ in 0..=dice.below(12) {
            *own += 1;
            let key = format!("k{}", dice.below(12));
            // Some changes have equal bytes, also after a truncation.
            let change = match dice.below(3) {
                0 => Change::put("t", key, 7u64.to_le_bytes()),
                1 => Change::put("t", key, own.to_le_bytes()),
                _ => Change::merge("t", key, ("add", 1u64.to_le_bytes())),
            };
            let open = self.open();
            let operation = match (dice.below(8), dice.pick(&open).copied()) {
                (0, Some(tx)) => Operation::Commit(tx),
                (1, Some(tx)) => Operation::Abort(tx),
                (2 | 3, Some(tx)) => Operation::Change(tx, change),
                // Also of a transaction that is open: the program restarted.
                (4, _) => Operation::Begin(TxId(dice.below(4))),
                _ => change.into(),
            };
            self.append(*own, operation);
        }
    }

    /// Truncates the end of the log, but never the record that creates the table.
    fn truncate_after(&mut self, dice: &mut Dice) {
        let count = u64::try_from(self.records.len()).unwrap();
        let lowest = self.oldest.max(2) - 1;
        let last = count.saturating_sub(dice.below(20)).max(lowest);
        self.log().truncate_after(Lsn::new(last)).unwrap();
        self.records.truncate(usize::try_from(last).unwrap());
    }

    fn truncate_before(&mut self, dice: &mut Dice, needed: Option<Lsn>) {
        let count = u64::try_from(self.records.len()).unwrap();
        let by_chance = Lsn::new(1 + dice.below(count + 1)).unwrap();
        let before = needed.unwrap_or(by_chance);
        self.oldest = self.log().truncate_before(before).unwrap().get();
    }

    /// Closes the log, kills it or cuts the power, at random, and opens it again.
    fn reopen(&mut self, dice: &mut Dice) {
        let log = self.log.take().unwrap();
        self.device = match dice.below(3) {
            0 => {
                log.close().unwrap();
                self.device.clone()
            }
            1 => self.device.kill(),
            _ => self.device.power_cut(|_| dice.one_in(2)),
        };
        self.log = Some(open(&self.disk()));
        let durable = self.log().durable().map_or(0, Lsn::get);
        assert_eq!(
            durable,
            u64::try_from(self.records.len()).unwrap(),
            "all records were acknowledged"
        );
    }
}

impl Kept {
    fn new() -> Self {
        Self { store: DyingStore::new(Manner::Together, u64::MAX), history: None }
    }

    fn highest(&self) -> Option<u64> {
        let marks = self.store.watermarks().unwrap();
        marks.iter().filter_map(Watermark::applied_lsn).map(Lsn::get).max()
    }

    /// Returns whether the store's applied records equal those of `log`, as far as the log still
    /// has them.
    fn belongs_to(&self, number: usize, log: &Written) -> bool {
        if self.store.watermarks().unwrap().is_empty() {
            return true; // The store is new, or has lost all batches.
        }
        let Some((of, history)) = &self.history else { return true };
        let Some(applied) = self.highest() else { return *of == number };
        let record = log.records.get(usize::try_from(applied - 1).unwrap());
        *of == number && record.map(|(own, _)| own) == history.get(&applied)
    }

    /// Replays, and checks that the store has the log's transactions or the error is justified. On
    /// success, returns the LSN up to which the log can be pruned.
    fn replay(&mut self, number: usize, log: &Written, dice: &mut Dice) -> Option<Lsn> {
        let changes_max = usize::try_from(1 + dice.below(6)).unwrap();
        let bounds = Bounds { changes_min: 1, changes_max, ..Bounds::default() };
        let partitions = 1 + u32::try_from(dice.below(3)).unwrap();
        let count = u64::try_from(log.records.len()).unwrap();
        let until = dice.one_in(3).then(|| Lsn::new(1 + dice.below(count.max(1)))).flatten();
        let replay = Replay::new().partitions(partitions).batches(bounds);
        let replay = until.into_iter().fold(replay, Replay::until);
        let belongs = self.belongs_to(number, log);
        let before = self.store.rows();
        match replay.run(&reader(&log.disk()), &self.store) {
            Ok(report) => {
                assert!(belongs, "a store of another history was accepted: {report:?}");
                let operations: Vec<_> =
                    log.records.iter().map(|(_, operation)| operation.clone()).collect();
                let wrong = wrong_keys(&self.store.rows(), &expected(&operations, report.last));
                assert_eq!(wrong, 0, "{report:?}");
                let history = (1..).zip(&log.records).map(|(lsn, (own, _))| (lsn, *own));
                self.history = Some((number, history.collect()));
                Some(report.needed_from)
            }
            Err(error) => {
                let is_due = match &error {
                    Error::OtherLog { .. } | Error::OtherHistory { .. } | Error::Ahead { .. } => {
                        !belongs
                    }
                    Error::Pruned { needs, .. } => needs.get() < log.oldest,
                    Error::Unproven { .. } => self.highest() < Some(log.oldest),
                    _ => false,
                };
                assert!(is_due, "{error}; belongs: {belongs}");
                assert_eq!(wrong_keys(&self.store.rows(), &before), 0, "{error}");
                None
            }
        }
    }
}

/// Runs a random program. Returns the number of successful replays, and of stores refused because
/// of another history.
fn program(seed: u64) -> (u64, u64) {
    let mut dice = Dice::new(seed);
    let mut logs = [Written::new(), Written::new()];
    let mut stores = [Kept::new(), Kept::new(), Kept::new()];
    let (mut own, mut good, mut refused) = (0, 0, 0);
    for _ in 0..STEPS {
        let number = usize::try_from(dice.below(8) / 7).unwrap();
        let log = &mut logs[number];
        let kept = usize::try_from(dice.below(3)).unwrap();
        match dice.below(16) {
            0 => log.truncate_after(&mut dice),
            1 => log.truncate_before(&mut dice, None),
            2 => log.reopen(&mut dice),
            3 => stores[kept] = Kept::new(),
            4 => {
                let Kept { store, history } = std::mem::replace(&mut stores[kept], Kept::new());
                let lost = usize::try_from(dice.below(4)).unwrap();
                let store = store.reopened(u64::MAX, |count| count.saturating_sub(lost));
                stores[kept] = Kept { store, history };
            }
            5..10 => log.grow(&mut dice, &mut own),
            _ => {
                let belongs = stores[kept].belongs_to(number, log);
                let needed = stores[kept].replay(number, log, &mut dice);
                good += u64::from(needed.is_some());
                refused += u64::from(!belongs);
                if needed.is_some() && dice.one_in(3) {
                    log.truncate_before(&mut dice, needed);
                }
            }
        }
    }
    (good, refused)
}

#[test]
fn store_is_the_fold_of_its_log_or_the_replay_fails() {
    let (mut good, mut refused, mut sample) = (0, 0, Sample::one_in(4));
    for seed in (1..=PROGRAMS).filter(|_| sample.takes_next()) {
        println!("seed {seed}");
        let (some, others) = program(seed);
        (good, refused) = (good + some, refused + others);
    }
    println!("{good} successful replays, {refused} stores refused");
    let least = sample.least(PROGRAMS);
    assert!(good > least && refused > least, "{good}, {refused}");
}
