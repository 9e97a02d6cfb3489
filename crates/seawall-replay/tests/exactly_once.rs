//! Each committed transaction is applied exactly once, wherever the process crashes. The same test
//! detects stores that write their watermark separately from the rows.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::sample::Sample;
use common::{DyingStore, Manner, expected, log_of, operations, wrong_keys};
use seawall::format::{LogId, RecordId};
use seawall::{Log, LogReader, Lsn};
use seawall_replay::{
    Bounds, Change, Error, Operation, Operations, Phase, Replay, Source, Store, TxId,
};
use seawall_testkit::Dice;
use std::sync::Mutex;

fn replay(partitions: u32, changes_max: usize) -> Replay {
    let bounds = Bounds { changes_min: 1, changes_max, ..Bounds::default() };
    // The memory is small enough that transactions also go to the scratch file.
    Replay::new().partitions(partitions).batches(bounds).memory(400)
}

/// Replays into one store with several crashes, which may lose unflushed writes, then once to the
/// end. Returns an error that describes any difference.
fn lives(manner: Manner, seed: u64, loses_power: bool) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let operations = operations(seed, 400);
    let reader = log_of(&operations);
    let mut store = DyingStore::new(manner, dice.below(60));
    for _ in 0..8 {
        let (partitions, batch) = (1 + u32::try_from(dice.below(4)).unwrap(), 1 + dice.below(20));
        match replay(partitions, usize::try_from(batch).unwrap()).run(&reader, &store) {
            Ok(_) => break,
            Err(Error::Store { .. } | Error::Flush(_)) => {}
            // For example a table that is created twice.
            Err(error) => return Err(error.to_string()),
        }
        let dies_at = dice.below(60);
        let kept = |count: usize| {
            let newest = if loses_power { dice.below(count.min(5) as u64 + 1) } else { 0 };
            count - usize::try_from(newest).unwrap()
        };
        store = store.reopened(dies_at, kept);
    }
    let store = store.reopened(u64::MAX, |count| count);
    let report = replay(2, 7).run(&reader, &store).map_err(|error| error.to_string())?;
    assert_eq!(report.partitions, 2);
    match wrong_keys(&store.rows(), &expected(&operations, None)) {
        0 => Ok(()),
        wrong => Err(format!("{wrong} wrong keys")),
    }
}

#[test]
fn each_transaction_is_applied_once_despite_crashes() {
    for seed in 0..25 {
        for loses_power in [false, true] {
            let lived = lives(Manner::Together, seed, loses_power);
            assert_eq!(lived, Ok(()), "seed {seed}, power cut: {loses_power}");
        }
    }
}

#[test]
fn watermark_written_after_the_batch_is_detected() {
    let caught = (0..30).filter(|seed| lives(Manner::Apart, *seed, false).is_err()).count();
    assert!(caught > 0, "the control was not detected");
}

#[test]
fn watermark_lost_independently_is_detected() {
    let caught = (0..30).filter(|seed| lives(Manner::Elsewhere, *seed, true).is_err()).count();
    assert!(caught > 0, "the control was not detected");
}

#[test]
fn crash_at_every_write_is_survived_with_one_and_four_partitions() {
    let operations = operations(7, 200);
    let (reader, expected) = (log_of(&operations), expected(&operations, None));
    let mut sample = Sample::one_in(4);
    for partitions in 1..=4 {
        for other in [partitions, 5 - partitions] {
            let mut dies_at = 0;
            loop {
                let store = DyingStore::new(Manner::Together, dies_at);
                let is_through = replay(partitions, 3).run(&reader, &store).is_ok();
                if !is_through && !sample.takes_next() {
                    dies_at += 1;
                    continue;
                }
                let store = store.reopened(u64::MAX, |count| count);
                replay(other, 5).run(&reader, &store).unwrap();
                let wrong = wrong_keys(&store.rows(), &expected);
                assert_eq!(
                    wrong, 0,
                    "{partitions} partitions, then {other}; died at write {dies_at}"
                );
                if is_through {
                    break;
                }
                dies_at += 1;
            }
            assert!(dies_at > 30, "{dies_at}");
        }
    }
}

#[test]
fn replay_in_two_steps_equals_one_replay() {
    let operations = operations(11, 300);
    let (reader, all) = (log_of(&operations), expected(&operations, None));
    for until in (1..300).step_by(7).filter_map(Lsn::new) {
        let store = DyingStore::new(Manner::Together, u64::MAX);
        replay(3, 10).until(until).run(&reader, &store).unwrap();
        assert_eq!(wrong_keys(&store.rows(), &expected(&operations, Some(until))), 0, "{until}");
        // Replaying up to an LSN before the store's position changes nothing.
        replay(3, 10).until(Lsn::FIRST).run(&reader, &store).unwrap();
        assert_eq!(wrong_keys(&store.rows(), &expected(&operations, Some(until))), 0, "{until}");
        replay(1, 10).run(&reader, &store).unwrap();
        assert_eq!(wrong_keys(&store.rows(), &all), 0, "{until}");
    }
}

#[test]
fn current_store_reads_little_more_than_the_new_records() {
    let operations = operations(3, 2_000);
    let reader = log_of(&operations);
    let store = DyingStore::new(Manner::Together, u64::MAX);
    let first = replay(1, 100).run(&reader, &store).unwrap();
    assert_eq!(first.records, 2_000);
    let mut records = 0;
    let again = replay(1, 100)
        .run_with(&reader, &store, |progress| {
            records = progress.records.max(records);
            assert_eq!(progress.phase, Phase::Apply);
        })
        .unwrap();
    assert_eq!((again.applied, again.changes), (0, 0));
    assert!(again.records <= 2_000 - again.needed_from.get() + 2, "{again:?}");
    assert_eq!(again.applied_lsn, first.applied_lsn);
}

/// After each crash, the program numbers its transactions from 1 again.
#[test]
fn transaction_that_never_ended_is_not_read_after_its_number_begins_again() {
    let (log, reader) = common::open_log();
    let store = DyingStore::new(Manner::Together, u64::MAX);
    let one = TxId(1);
    let change = || Operation::Change(one, Change::put("", "k", "v"));
    for _ in 0..10 {
        log.append_batch(&[Operation::Begin(one), change()]).unwrap();
        replay(1, 10).run(&reader, &store).unwrap();
        log.append_batch(&[Operation::Begin(one), change(), Operation::Commit(one)]).unwrap();
        let report = replay(1, 10).run(&reader, &store).unwrap();
        assert_eq!((Some(report.needed_from), report.applied), (report.last, 1), "{report:?}");
        // The commit before, and all five records of this round.
        assert!(report.records <= 6, "{report:?}");
    }
}

/// A log that grows during a replay: each pass sees more records than the previous one.
struct Growing {
    log: Log<Operation>,
    reader: LogReader<Operation>,
    rest: Mutex<Vec<Operation>>,
}

impl Source for Growing {
    fn log_id(&self) -> seawall::Result<LogId> {
        Ok(self.log.id())
    }

    fn record_id(&self, lsn: Lsn) -> seawall::Result<Option<RecordId>> {
        self.reader.record_id(lsn)
    }

    fn oldest(&self) -> seawall::Result<Lsn> {
        self.reader.oldest()
    }

    fn operations(&self, from: Lsn) -> seawall::Result<Operations<'_>> {
        let mut rest = self.rest.lock().unwrap();
        let found = Source::operations(&self.reader, from)?.collect::<Vec<_>>();
        // Each pass sees some of the records logged since the previous one.
        let count = rest.len().min(37);
        let some: Vec<_> = rest.drain(..count).collect();
        if !some.is_empty() {
            self.log.append_batch(&some)?;
        }
        Ok(Box::new(found.into_iter()))
    }
}

#[test]
fn records_logged_during_a_replay_wait_for_the_next() {
    let operations = operations(9, 600);
    let (log, reader) = common::open_log();
    let growing = Growing { log, reader, rest: Mutex::new(operations.clone()) };
    let store = DyingStore::new(Manner::Together, u64::MAX);
    for _ in 0..20 {
        let report = replay(2, 5).run(&growing, &store).unwrap();
        match report.last {
            Some(until) => {
                let expected = expected(&operations, Some(until));
                assert_eq!(wrong_keys(&store.rows(), &expected), 0, "up to {until}");
            }
            None => assert!(store.rows()[""].is_empty()),
        }
    }
    assert_eq!(wrong_keys(&store.rows(), &expected(&operations, None)), 0);
}

#[test]
fn lost_or_pruned_records_are_an_error() {
    let mut operations = operations(5, 299);
    // A transaction that never ends: the store reads from here on, and finds the last record.
    operations.insert(0, Operation::Begin(TxId(99)));
    let (log, reader) = common::open_log();
    for some in operations.chunks(100) {
        log.append_batch(some).unwrap();
    }
    let store = DyingStore::new(Manner::Together, u64::MAX);
    replay(2, 10).run(&reader, &store).unwrap();
    log.truncate_after(Lsn::new(200)).unwrap();
    let error = replay(2, 10).run(&reader, &store).unwrap_err();
    let is_named = matches!(error, Error::Ahead { last, .. } if last == Lsn::new(200));
    assert!(is_named, "{error}");
    assert_eq!(store.watermarks().unwrap().len(), 2);
    let other = log_of(&operations[..200]);
    let error = replay(2, 10).run(&other, &store).unwrap_err();
    assert!(matches!(error, Error::OtherLog { .. }), "{error}");
}
