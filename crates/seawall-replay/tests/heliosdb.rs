//! The four tests that the seed report on HeliosDB Nano's replay recommends, under their names in
//! the report, and one test for each bug found in its code.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::{expected, found, log_of, open_log, operations, wrong_keys};
use seawall::{Level, Log, LogReader, Lsn, Options};
use seawall_io::Storage;
use seawall_replay::{
    Batch, Bounds, Change, Error, MemoryStore, Operation, Replay, Report, Store, StoreError, TxId,
    Watermark,
};
use seawall_testkit::{Dice, MemStorage};
use std::sync::{Arc, Mutex};
use std::thread;

fn quiet() -> Options {
    Options::new().preallocate(false).idle_mark(None)
}

fn add(tx: u64, key: &str) -> Operation {
    Operation::Change(TxId(tx), Change::merge("", key, ("add", 1u64.to_le_bytes())))
}

fn sum_of(store: &MemoryStore) -> u64 {
    let number = |value: &Vec<u8>| u64::from_le_bytes(value[..].try_into().unwrap());
    store.rows("").values().map(number).sum()
}

fn in_batches_of(changes: usize) -> Replay {
    let bounds = Bounds { changes_min: changes, changes_max: changes, ..Bounds::default() };
    Replay::new().batches(bounds)
}

#[test]
fn group_commit_stress_test_with_concurrent_writers() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 50;
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let log: Log<Operation> = quiet().open_in(disk.clone()).unwrap();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let log = &log;
            scope.spawn(move || {
                for tx in (0..EACH).map(|tx| writer * EACH + tx) {
                    // Appends records one by one, so that the transactions of all writers
                    // interleave.
                    log.append(&Operation::Begin(TxId(tx))).unwrap();
                    log.append(&add(tx, &format!("writer {writer}"))).unwrap();
                    log.append(&Operation::Commit(TxId(tx))).unwrap();
                }
            });
        }
    });
    let store = MemoryStore::new();
    let reader: LogReader<Operation> = LogReader::open_in(disk).unwrap();
    let report = Replay::new().partitions(2).run(&reader, &store).unwrap();
    assert_eq!((report.applied, report.unfinished), (WRITERS * EACH, 0));
    assert_eq!((store.rows("").len(), sum_of(&store)), (8, WRITERS * EACH));
}

#[test]
fn batched_replay_of_a_large_data_set_is_correct() {
    let operations = operations(1, 50_000);
    let (reader, expected) = (log_of(&operations), expected(&operations, None));
    for (partitions, replay) in [(1, Replay::new()), (3, Replay::new()), (2, in_batches_of(100))] {
        let store = MemoryStore::new();
        let report = replay.partitions(partitions).run(&reader, &store).unwrap();
        assert_eq!((report.records, report.partitions), (50_000, partitions));
        assert_eq!(wrong_keys(&found(&store), &expected), 0);
    }
}

#[test]
fn crash_during_group_commit_keeps_acknowledged_records() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let disk = MemStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let log: Log<Operation> = quiet().open_in(storage).unwrap();
        disk.stop_after(disk.steps() + 1 + dice.below(60));
        let acknowledged = Mutex::new(0);
        thread::scope(|scope| {
            for writer in 0..4 {
                let (log, acknowledged) = (&log, &acknowledged);
                scope.spawn(move || {
                    for tx in (0..25).map(|tx| writer * 25 + tx) {
                        let begin = Operation::Begin(TxId(tx));
                        let whole = [begin, add(tx, "k"), Operation::Commit(TxId(tx))];
                        match log.append_batch(&whole) {
                            Ok(_) => *acknowledged.lock().unwrap() += 1,
                            Err(_) => return,
                        }
                    }
                });
            }
        });
        drop(log);
        let left: Arc<dyn Storage> = Arc::new(disk.power_cut(|_| dice.one_in(2)));
        drop(quiet().open_in::<Operation, seawall::MessagePack>(left.clone()).unwrap());
        let store = MemoryStore::new();
        let report = Replay::new().run(&LogReader::<Operation>::open_in(left).unwrap(), &store);
        let acknowledged = *acknowledged.lock().unwrap();
        let applied = report.unwrap().applied;
        assert!(applied >= acknowledged, "seed {seed}: {applied} of {acknowledged}");
        assert_eq!(sum_of(&store), applied, "seed {seed}");
    }
}

#[test]
fn all_modes_restore_the_same_state() {
    let operations = operations(2, 2_000);
    let expected = expected(&operations, None);
    for level in [Level::Buffered, Level::Synced, Level::Confirmed] {
        let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
        let log: Log<Operation> = quiet().level(level).open_in(disk.clone()).unwrap();
        for operation in &operations {
            log.append(operation).unwrap();
        }
        log.close().unwrap();
        let reader: LogReader<Operation> = LogReader::open_in(disk).unwrap();
        for replay in [Replay::new(), in_batches_of(1), in_batches_of(100)] {
            let store = MemoryStore::new();
            replay.run(&reader, &store).unwrap();
            assert_eq!(wrong_keys(&found(&store), &expected), 0, "{level:?}");
        }
    }
}

#[test]
fn replaying_twice_equals_once() {
    let operations = operations(3, 1_000);
    let (reader, store) = (log_of(&operations), MemoryStore::new());
    Replay::new().run(&reader, &store).unwrap();
    let once = found(&store);
    let again: Vec<Report> = (1..4)
        .map(|partitions| Replay::new().partitions(partitions).run(&reader, &store).unwrap())
        .collect();
    assert!(again.iter().all(|report| (report.applied, report.changes) == (0, 0)));
    assert_eq!(found(&store), once);
}

/// A store that refuses the key in `refuses`, if one is set.
struct Picky {
    store: MemoryStore,
    refuses: Mutex<Option<&'static [u8]>>,
}

impl Store for Picky {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let refuses = *self.refuses.lock().unwrap();
        let is_refused = |write: &&seawall_replay::Write| match &write.edit {
            seawall_replay::Edit::Put { key, .. } => Some(&key[..]) == refuses,
            _ => false,
        };
        match batch.writes.iter().find(is_refused) {
            Some(write) => Err(StoreError::refused(write, "not this one")),
            None => self.store.write(batch),
        }
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }
}

#[test]
fn error_leaves_log_and_store_usable() {
    let (log, reader) = open_log();
    for key in ["a", "b", "c"] {
        log.append(&Change::put("", key, "1").into()).unwrap();
    }
    let store = Picky { store: MemoryStore::new(), refuses: Mutex::new(Some(b"b")) };
    let error = in_batches_of(1).run(&reader, &store).unwrap_err();
    assert_eq!(error.to_string(), "LSN 2: put into table ``, key `b`: not this one");
    assert_eq!(store.store.rows("").len(), 1);

    // The log accepts appends, and the next replay continues after this one.
    log.append(&Change::put("", "d", "1").into()).unwrap();
    *store.refuses.lock().unwrap() = None;
    let report = in_batches_of(1).run(&reader, &store).unwrap();
    assert_eq!((report.applied, report.applied_lsn), (3, Lsn::new(4)));
    assert_eq!(store.store.rows("").len(), 4);
}

#[test]
fn failing_change_stops_the_replay_before_its_record() {
    let (log, reader) = open_log();
    let mut operations: Vec<Operation> =
        (0..1000).map(|n| Change::put("", format!("{n}"), "").into()).collect();
    operations[500] = Change::merge("", "k", ("unknown", "")).into();
    log.append_batch(&operations).unwrap();
    for partitions in 1..=3 {
        let store = MemoryStore::new();
        let error = in_batches_of(1).partitions(partitions).run(&reader, &store).unwrap_err();
        assert!(matches!(&error, Error::Apply { lsn, .. } if lsn.get() == 501), "{error}");
        let watermarks = store.watermarks().unwrap();
        let lowest = watermarks.iter().map(Watermark::applied_lsn).min().flatten();
        assert!(lowest < Lsn::new(501), "{lowest:?}");
    }
}

/// A store that compares its content, after each batch, with the expected state at the commit in
/// its watermark.
struct Watchful {
    store: MemoryStore,
    operations: Vec<Operation>,
    batches: Mutex<u64>,
}

impl Store for Watchful {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.write(batch)?;
        *self.batches.lock().unwrap() += 1;
        if let Some(until) = batch.watermarks[0].1.applied_lsn() {
            let expected = expected(&self.operations, Some(until));
            assert_eq!(wrong_keys(&found(&self.store), &expected), 0, "after {until}");
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }
}

#[test]
fn batch_never_splits_a_transaction() {
    let operations = operations(4, 600);
    let reader = log_of(&operations);
    for changes in [1, 2, 3, 10, 100] {
        let (store, batches) = (MemoryStore::new(), Mutex::new(0));
        let store = Watchful { store, operations: operations.clone(), batches };
        in_batches_of(changes).run(&reader, &store).unwrap();
        assert!(*store.batches.lock().unwrap() > 2);
    }
}

#[test]
fn transaction_larger_than_all_bounds_is_applied_at_once() {
    let (log, reader) = open_log();
    log.append(&Operation::Begin(TxId(1))).unwrap();
    for n in 0..2_000 {
        log.append(&Operation::Change(TxId(1), Change::put("", format!("{n}"), [0; 99]))).unwrap();
    }
    log.append(&Operation::Commit(TxId(1))).unwrap();
    let store = MemoryStore::new();
    let report = in_batches_of(10).memory(10_000).run(&reader, &store).unwrap();
    assert_eq!((report.batches, report.changes, store.rows("").len()), (1, 2_000, 2_000));
}
