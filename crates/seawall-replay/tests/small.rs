//! Small replays of logs whose records are whole transactions: each is applied exactly once, and
//! batches are sorted.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::{DyingStore, Manner, expected, key, log_of, wrong_keys};
use seawall::damage::Corruption;
use seawall::{Log, LogReader, Lsn, Options};
use seawall_replay::{
    Batch, Bounds, Change, Error, MemoryStore, Operation, Replay, Store, StoreError, Watermark,
};
use seawall_testkit::{Dice, MemStorage};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The number of records in a log.
const COUNT: u64 = 120;

/// Generates a log whose first record creates tables, and whose other records have up to three
/// changes of their rows each. A third of these are additions, which would count twice if applied
/// twice.
fn operations(dice: &mut Dice) -> Vec<Operation> {
    let tables = vec![Change::create_table("u", ""), Change::create_table("t", "")];
    let mut operations = vec![Operation::Atomic(tables)];
    while operations.len() < usize::try_from(COUNT).unwrap() {
        let count = dice.index(4);
        operations.push(Operation::Atomic(dice.many(count, change)));
    }
    operations
}

fn change(dice: &mut Dice) -> Change {
    let table = ["u", "", "t"][dice.index(3)];
    let key = key(dice.below(12));
    match dice.below(6) {
        0 | 1 => Change::merge(table, key, ("add", (1 + dice.below(100)).to_le_bytes())),
        2 => Change::delete(table, key),
        _ => Change::put(table, key, dice.any().to_le_bytes()),
    }
}

fn replay(dice: &mut Dice) -> Replay {
    let bounds = Bounds { changes_min: 1, changes_max: 1 + dice.index(20), ..Bounds::default() };
    let partitions = if dice.below(6) == 0 { 2 } else { 1 };
    Replay::new().partitions(partitions).batches(bounds)
}

/// Replays the log in steps, some of which end in a crash that may lose unflushed writes. Returns
/// an error that describes any difference.
fn lives(manner: Manner, seed: u64, loses_power: bool) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let operations = operations(&mut dice);
    let reader = log_of(&operations);
    let mut store = DyingStore::new(manner, u64::MAX);
    let mut until = 1;
    while until < COUNT {
        until = COUNT.min(until + dice.below(40));
        match replay(&mut dice).until(Lsn::new(until).unwrap()).run(&reader, &store) {
            Ok(report) => {
                let rows = expected(&operations, Lsn::new(until));
                if wrong_keys(&store.rows(), &rows) > 0 {
                    return Err(format!("wrong keys after LSN {until}"));
                }
                assert_eq!(report.applied_lsn, Lsn::new(until));
            }
            Err(Error::Store { .. } | Error::Flush(_)) => {}
            // For example a table that is created twice.
            Err(error) => return Err(error.to_string()),
        }
        let dies_at = dice.below(8);
        store = store.reopened(dies_at, |count| {
            let newest = if loses_power { dice.index(count.min(4) + 1) } else { 0 };
            count - newest
        });
    }
    let store = store.reopened(u64::MAX, |count| count);
    replay(&mut dice).run(&reader, &store).map_err(|error| error.to_string())?;
    match wrong_keys(&store.rows(), &expected(&operations, None)) {
        0 => Ok(()),
        wrong => Err(format!("{wrong} wrong keys")),
    }
}

#[test]
fn each_transaction_of_a_small_log_is_applied_once_despite_crashes() {
    for seed in 0..100 {
        for loses_power in [false, true] {
            let lived = lives(Manner::Together, seed, loses_power);
            assert_eq!(lived, Ok(()), "seed {seed}, power cut: {loses_power}");
        }
    }
}

#[test]
fn separate_watermark_of_a_small_replay_is_detected() {
    for (manner, loses_power) in [(Manner::Apart, false), (Manner::Elsewhere, true)] {
        let caught = (0..30).filter(|seed| lives(manner, *seed, loses_power).is_err()).count();
        assert!(caught > 0, "{manner:?} was not detected");
    }
}

#[test]
fn refused_change_of_a_small_log_is_named() {
    let mut operations = operations(&mut Dice::new(1));
    operations[60] = Change::merge("t", "k", ("max", "1")).into();
    let (reader, store) = (log_of(&operations), DyingStore::new(Manner::Together, u64::MAX));
    let first = Lsn::new(2).unwrap();
    Replay::new().until(first).run(&reader, &store).unwrap();
    let bounds = Bounds { changes_min: 1, changes_max: 1, ..Bounds::default() };
    let error = Replay::new().batches(bounds).run(&reader, &store).unwrap_err();
    assert!(error.to_string().starts_with("LSN 61: merge into table `t`"), "{error}");
    let before = expected(&operations, Lsn::new(60));
    assert_eq!(wrong_keys(&store.rows(), &before), 0);
    assert!(store.get("t", b"k").unwrap().is_none());
}

/// A store that drops the watermarks of batches with rows.
struct Forgetful(MemoryStore);

impl Store for Forgetful {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.0.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let keeps = batch.writes.is_empty();
        let watermarks = batch.watermarks.iter().filter(|_| keeps).copied().collect();
        self.0.write(&Batch { writes: batch.writes.clone(), watermarks })
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.0.flush()
    }
}

#[test]
fn report_says_what_the_store_needs_and_not_what_was_written() {
    let operations: Vec<Operation> = vec![Change::put("", "k", "v").into(); 9];
    let report = Replay::new().run(&log_of(&operations), &Forgetful(MemoryStore::new())).unwrap();
    assert_eq!((report.applied, report.applied_lsn, report.needed_from), (9, None, Lsn::FIRST));
}

/// A store whose first writes each wait until another one has begun.
#[derive(Default)]
struct Meeting {
    store: MemoryStore,
    /// The number of writes of rows that have begun.
    begun: Mutex<u32>,
    changed: Condvar,
}

impl Store for Meeting {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        if !batch.writes.is_empty() {
            let mut begun = self.begun.lock().unwrap();
            *begun += 1;
            self.changed.notify_all();
            let long = Duration::from_secs(20);
            let waited = self.changed.wait_timeout_while(begun, long, |begun| *begun < 2);
            if waited.unwrap().1.timed_out() {
                return Err(StoreError::failed("no other partition writes"));
            }
        }
        self.store.write(batch)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn partitions_max(&self) -> usize {
        2
    }
}

#[test]
fn partitions_of_a_small_replay_write_at_the_same_time() {
    let put = |number| Operation::from(Change::put("", key(number), "value"));
    let reader = log_of(&(0..100).map(put).collect::<Vec<_>>());
    let store = Meeting::default();
    let report = Replay::new().partitions(2).run(&reader, &store).unwrap();
    assert_eq!((report.partitions, store.store.rows("").len()), (2, 100));
}

/// Two threads replay into one store: whatever their order, each change is applied once.
#[test]
fn second_replay_into_a_store_is_refused_while_one_runs() {
    let add = |_| Change::merge("", "sum", ("add", 1u64.to_le_bytes())).into();
    let log = log_of(&(0..500).map(add).collect::<Vec<Operation>>());
    let store = MemoryStore::new();
    let mut refused = None;
    let hear = |_| {
        let error = Replay::new().run(&log, &store).map(|report| report.applied).unwrap_err();
        refused = Some(format!("{error:#}"));
    };
    Replay::new().run_with(&log, &store, hear).unwrap();
    let said = "the store failed to start a replay: another replay into it runs";
    assert_eq!(refused.as_deref(), Some(said));
    assert_eq!(store.get("", b"sum").unwrap(), Some(500u64.to_le_bytes().to_vec()));
    assert_eq!(Replay::new().run(&log, &store).unwrap().applied, 0);
}

/// The advice differs: after a failed sync, a later one proves nothing about the same changes.
#[test]
fn failed_flush_differs_from_a_failed_write() {
    let log = log_of(&[Change::put("", "k", "v").into()]);
    let run = |dies_at| {
        let store = DyingStore::new(Manner::Together, dies_at);
        (Replay::new().run(&log, &store).map(drop), store.writes())
    };
    let (done, steps) = run(u64::MAX);
    done.unwrap();
    let failed = run(steps - 1).0.unwrap_err();
    assert!(matches!(failed, Error::Flush(_)), "{failed}");
    let failed = run(0).0.unwrap_err();
    assert!(matches!(failed, Error::Store { .. }), "{failed}");
}

/// The preallocated end of the file is missing: no record is lost.
#[test]
fn log_that_was_cut_after_its_last_record_is_applied_with_the_damage() {
    let disk = MemStorage::new();
    let log: Log<Operation> = Options::new().open_in(Arc::new(disk.clone())).unwrap();
    log.append_batch(&operations(&mut Dice::new(3))).unwrap();
    log.close().unwrap();
    disk.edit("000000000001.seg", |bytes| bytes.truncate(bytes.len() - 1));
    let reader: LogReader<Operation> = LogReader::open_in(Arc::new(disk)).unwrap();
    let read = reader.read_from(Lsn::FIRST).unwrap().flatten().count();
    for partitions in [1, 2] {
        let replay = Replay::new().partitions(partitions);
        let store = MemoryStore::new();
        let plan = replay.plan(&reader, &store).unwrap();
        let transactions = replay.transactions(&reader, None).unwrap().map(Result::unwrap).count();
        let report = replay.run(&reader, &store).unwrap();
        let applied = [plan.committed, report.applied].map(|count| usize::try_from(count).unwrap());
        assert_eq!([applied[0], applied[1], transactions], [read; 3]);
        assert_eq!(plan.damage.map(|damage| damage.cause), Some(Corruption::CutShort));
        assert_eq!(report.damage.map(|damage| damage.lost), Some(None));
    }
}
