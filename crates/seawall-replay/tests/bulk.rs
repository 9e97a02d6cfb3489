//! Bulk recovery applies each committed transaction exactly once, wherever the process crashes, and
//! gives the same store as batches do.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::{DyingStore, Manner, expected, log_of, operations, wrong_keys};
use seawall::format::{LogId, RecordId};
use seawall::{LogReader, Lsn};
use seawall_replay::{
    Bounds, Change, Error, Operation, Operations, RecordSummaries, Replay, Source,
};
use seawall_replay::{Store, Watermark};
use seawall_testkit::{Dice, each_seed};
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory is small enough that most ingestions merge runs of a scratch file.
fn bulk(bulk_from: u64) -> Replay {
    let bounds = Bounds { changes_min: 1, changes_max: 5, ..Bounds::default() };
    Replay::new().bulk_from(bulk_from).batches(bounds).memory(2_000)
}

/// Replays into one store with several crashes, which may lose unflushed writes, then once to the
/// end. Returns an error that describes any difference.
fn lives(operations: &[Operation], (manner, dice): (Manner, &mut Dice)) -> Result<(), String> {
    let reader = log_of(operations);
    let mut store = DyingStore::new(manner, dice.below(40));
    for _ in 0..8 {
        let partitions = 1 + u32::try_from(dice.below(3)).unwrap();
        // Sometimes replays in batches, which can leave the partitions at different commits.
        let bulk_from = *dice.pick(&[1, 1, 15, u64::MAX]).unwrap();
        match bulk(bulk_from).partitions(partitions).run(&reader, &store) {
            Ok(_) => break,
            Err(Error::Store { .. } | Error::Flush(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        // An ingestion has a step for each row, a batch only one.
        let steps = *dice.pick(&[40, 400]).unwrap();
        let dies_at = dice.below(steps);
        let mut newest = |count: usize| count - dice.index(count.min(5) + 1);
        store = store.reopened(dies_at, &mut newest);
    }
    let store = store.reopened(u64::MAX, |count| count);
    bulk(1).partitions(2).run(&reader, &store).map_err(|error| error.to_string())?;
    match wrong_keys(&store.rows(), &expected(operations, None)) {
        0 => Ok(()),
        wrong => Err(format!("{wrong} wrong keys")),
    }
}

#[test]
fn each_transaction_is_ingested_once_despite_crashes() {
    each_seed(40, |dice| {
        let operations = operations(dice.any(), 400);
        assert_eq!(lives(&operations, (Manner::Together, dice)), Ok(()));
    });
}

/// Generates whole transactions of the unnamed table. A quarter of the logs end with operations
/// of other kinds.
fn whole_transactions(dice: &mut Dice) -> Vec<Operation> {
    let row = |dice: &mut Dice| match (dice.below(20).to_le_bytes(), dice.below(8)) {
        (key, 0) => Change::delete("", key),
        (key, 1 | 2) => Change::put("", key, dice.any().to_le_bytes()),
        (key, _) => Change::merge("", key, ("add", dice.below(9).to_le_bytes())),
    };
    let transaction = |dice: &mut Dice| {
        let count = dice.index(4);
        Operation::Atomic(dice.many(count, row))
    };
    let count = 1 + dice.index(200);
    let mut log = dice.many(count, transaction);
    if dice.below(4) == 0 {
        log.extend(operations(dice.any(), 100));
    }
    log
}

#[test]
fn transactions_gathered_while_planning_are_ingested_once_despite_crashes() {
    each_seed(60, |dice| {
        let log = whole_transactions(dice);
        assert_eq!(lives(&log, (Manner::Together, dice)), Ok(()));
    });
}

#[test]
fn nothing_after_the_last_record_wanted_is_gathered() {
    each_seed(10, |dice| {
        let log = whole_transactions(dice);
        let reader = log_of(&log);
        let store = DyingStore::new(Manner::Together, u64::MAX);
        for until in (1..=log.len() as u64).filter_map(Lsn::new) {
            if dice.below(3) == 0 {
                bulk(1).partitions(2).until(until).run(&reader, &store).unwrap();
                let expected = expected(&log, Some(until));
                assert_eq!(wrong_keys(&store.rows(), &expected), 0, "until {until}");
            }
        }
    });
}

/// A log reader that counts the operations read, and can omit one or fail to read it.
struct Watched<'a> {
    reader: &'a LogReader<Operation>,
    read: AtomicU64,
    missing: Option<Lsn>,
    unreadable: Option<Lsn>,
    /// Whether its summary is readable.
    has_summary: bool,
}

impl<'a> Watched<'a> {
    fn new(reader: &'a LogReader<Operation>) -> Self {
        Self { reader, read: AtomicU64::new(0), missing: None, unreadable: None, has_summary: true }
    }

    fn fail(&self, lsn: Lsn) -> seawall::Result<()> {
        if self.unreadable != Some(lsn) {
            return Ok(());
        }
        let source = std::io::ErrorKind::Other.into();
        Err(seawall::Error::Io { log: None, what: "read".to_owned(), source })
    }
}

impl Source for Watched<'_> {
    fn log_id(&self) -> seawall::Result<LogId> {
        Source::log_id(self.reader)
    }

    fn record_id(&self, lsn: Lsn) -> seawall::Result<Option<RecordId>> {
        self.reader.record_id(lsn)
    }

    fn oldest(&self) -> seawall::Result<Lsn> {
        self.reader.oldest()
    }

    fn operations(&self, from: Lsn) -> seawall::Result<Operations<'_>> {
        let operations = self.reader.operations(from)?.filter(|operation| {
            operation.as_ref().map_or(true, |(record, _)| Some(record.lsn) != self.missing)
        });
        Ok(Box::new(operations.map(|operation| {
            let (record, operation) = operation?;
            self.read.fetch_add(1, Ordering::Relaxed);
            self.fail(record.lsn).map(|()| (record, operation))
        })))
    }

    fn summaries(&self, from: Lsn) -> seawall::Result<RecordSummaries<'_>> {
        let summaries = self.reader.summaries(from)?;
        Ok(Box::new(summaries.map(|summary| {
            let (lsn, summary) = summary?;
            let failed = if self.has_summary { Ok(()) } else { self.fail(lsn) };
            failed.map(|()| (lsn, summary))
        })))
    }
}

/// Puts of different keys: more than a small replay keeps in memory.
fn many_puts() -> Vec<Operation> {
    (0..70_000u32).map(|n| Change::put("", n.to_le_bytes(), [7; 8]).into()).collect()
}

#[test]
fn whole_transactions_are_read_once() {
    let log = many_puts();
    let reader = log_of(&log);
    let (source, store) = (Watched::new(&reader), DyingStore::new(Manner::Together, u64::MAX));
    let report = Replay::new().bulk_from(50_000).run(&source, &store).unwrap();
    assert_eq!((report.ingested, report.applied), (70_000, 70_000));
    assert_eq!(wrong_keys(&store.rows(), &expected(&log, None)), 0);
    let marks = store.watermarks().unwrap();
    assert_eq!(marks.first().map(|mark| mark.restart), Lsn::new(70_001));
    // The record at which the small replay ended is read twice.
    assert_eq!(source.read.into_inner(), 70_001);
}

#[test]
fn nothing_is_gathered_if_many_more_changes_are_wanted() {
    let reader = log_of(&many_puts());
    let (source, store) = (Watched::new(&reader), DyingStore::new(Manner::Together, u64::MAX));
    let report = Replay::new().bulk_from(1_000_000).run(&source, &store).unwrap();
    assert_eq!((report.ingested, report.applied), (0, 70_000));
    let read = source.read.into_inner();
    assert!(read < 2 * 70_000, "{read}: summaries, once no record is kept");
}

#[test]
fn record_after_a_missing_last_one_is_not_gathered() {
    let log: Vec<Operation> = many_puts().into_iter().take(100).collect();
    let reader = log_of(&log);
    let source = Watched { missing: Lsn::new(60), ..Watched::new(&reader) };
    let store = DyingStore::new(Manner::Together, u64::MAX);
    let last = Lsn::new(60).unwrap();
    let report = bulk(1).partitions(2).until(last).run(&source, &store).unwrap();
    assert_eq!((report.applied, report.applied_lsn), (59, Lsn::new(59)));
}

#[test]
fn unreadable_record_ends_gathering_and_is_reported() {
    let log: Vec<Operation> = many_puts().into_iter().take(100).collect();
    let reader = log_of(&log);
    for (has_summary, applied) in [(true, 59), (false, 0)] {
        let unreadable = Lsn::new(60);
        let source = Watched { unreadable, has_summary, ..Watched::new(&reader) };
        let store = DyingStore::new(Manner::Together, u64::MAX);
        let error = bulk(1).partitions(2).run(&source, &store).unwrap_err();
        assert!(matches!(error, Error::Log(_)), "{error}");
        let marks = store.watermarks().unwrap();
        assert_eq!(marks.first().and_then(Watermark::applied_lsn), Lsn::new(applied));
        let some: Vec<_> = (0..applied).zip(log.clone()).map(|(_, put)| put).collect();
        assert_eq!(wrong_keys(&store.rows(), &expected(&some, None)), 0);
    }
}

#[test]
fn watermark_ingested_after_the_rows_is_detected() {
    let control = |seed: u64| {
        let mut dice = Dice::new(seed);
        lives(&operations(dice.any(), 400), (Manner::Apart, &mut dice))
    };
    let caught = (0..30).filter(|seed| control(*seed).is_err());
    assert!(caught.count() > 0, "the control was not detected");
}

#[test]
fn crash_at_every_step_of_an_ingestion_is_survived() {
    let operations = operations(7, 150);
    let (reader, expected) = (log_of(&operations), expected(&operations, None));
    for dies_at in 0.. {
        let store = DyingStore::new(Manner::Together, dies_at);
        let is_through = bulk(1).run(&reader, &store).is_ok();
        let store = store.reopened(u64::MAX, |count| count);
        let report = bulk(1).run(&reader, &store).unwrap();
        assert_eq!(wrong_keys(&store.rows(), &expected), 0, "died at step {dies_at}");
        if is_through {
            assert!(dies_at > 60 && report.applied == 0, "{dies_at}, {report:?}");
            break;
        }
    }
}

#[test]
fn partitions_at_different_commits_are_not_ingested() {
    let operations = operations(7, 300);
    let (reader, expected) = (log_of(&operations), expected(&operations, None));
    let mut uneven = 0;
    for dies_at in 0..60 {
        let store = DyingStore::new(Manner::Together, dies_at);
        bulk(u64::MAX).partitions(3).run(&reader, &store).unwrap_err();
        let store = store.reopened(u64::MAX, |count| count);
        let marks = store.watermarks().unwrap();
        uneven += usize::from(marks.windows(2).any(|pair| pair[0].applied != pair[1].applied));
        bulk(1).partitions(3).run(&reader, &store).unwrap();
        assert_eq!(wrong_keys(&store.rows(), &expected), 0, "{marks:?}");
    }
    assert!(uneven > 10, "{uneven}");
}

#[test]
fn ingested_changes_equal_changes_applied_in_batches() {
    each_seed(20, |dice| {
        let operations = operations(dice.any(), 1_000);
        let reader = log_of(&operations);
        let run = |replay: Replay| {
            let store = DyingStore::new(Manner::Together, u64::MAX);
            let report = replay.run(&reader, &store).unwrap();
            (store.rows(), store.watermarks().unwrap(), report)
        };
        let (rows, marks, in_batches) = run(bulk(u64::MAX).memory(1 << 20));
        // Once with a scratch file, once all in memory.
        for memory in [2_000, 1 << 20] {
            let (ingested, marks_of_it, report) = run(bulk(1).memory(memory));
            assert_eq!((wrong_keys(&ingested, &rows), &marks_of_it), (0, &marks));
            assert_eq!(
                (report.applied, report.changes, report.applied_lsn),
                (in_batches.applied, in_batches.changes, in_batches.applied_lsn)
            );
            assert!(report.ingested > 0 && in_batches.ingested == 0, "{report:?}");
        }
    });
}

#[test]
fn refused_change_is_named_and_everything_before_it_is_applied() {
    let add = |table: &str, operand: &[u8]| Change::merge(table, "k", ("add", operand));
    let one = 1u64.to_le_bytes();
    for (wrong, why) in [
        (
            Change::put("missing", "k", "v"),
            "LSN 21: put into table `missing`, key `k`: no such table",
        ),
        (add("", b"short"), "LSN 21: merge into table ``, key `k`: 5 bytes, not 8"),
    ] {
        let good = || (0..20).map(|_| Operation::from(add("", &one)));
        // Later changes of the same key do not hide the failing change.
        let replaced = || [Operation::from(Change::put("", "k", "replaced"))].into_iter();
        let short: Vec<_> = good().chain([wrong.into()]).chain(replaced()).collect();
        let long: Vec<_> = short.iter().cloned().chain(good()).collect();
        for (log, memory) in [(&short, 2_000), (&short, 1 << 20), (&long, 2_000), (&long, 1 << 20)]
        {
            let store = DyingStore::new(Manner::Together, u64::MAX);
            let error = bulk(1).memory(memory).run(&log_of(log), &store).unwrap_err();
            assert_eq!(error.to_string(), why);
            let marks = store.watermarks().unwrap();
            assert_eq!(marks.first().and_then(Watermark::applied_lsn), Lsn::new(20));
        }
    }
}

#[test]
fn rows_of_many_tables_are_ingested_into_their_tables() {
    let mut log: Vec<Operation> =
        ["b", "a", "c"].map(|name| Change::create_table(name, "").into()).into();
    each_seed(1, |dice| {
        let row = |dice: &mut Dice| {
            let (table, key) = (*dice.pick(&["a", "b", "c", ""]).unwrap(), [dice.byte() % 20]);
            match dice.below(4) {
                0 => Change::delete(table, key),
                1 => Change::merge(table, key, ("add", dice.below(9).to_le_bytes())),
                _ => Change::put(table, key, dice.below(9).to_le_bytes()),
            }
        };
        log.extend(dice.many(1_000, row).into_iter().map(Operation::from));
    });
    for memory in [0, 2_000, 1 << 20] {
        let store = DyingStore::new(Manner::Together, u64::MAX);
        let report = bulk(1).memory(memory).run(&log_of(&log), &store).unwrap();
        assert!(report.ingested > 0, "{report:?}");
        assert_eq!(wrong_keys(&store.rows(), &expected(&log, None)), 0, "memory {memory}");
    }
}

#[test]
fn store_that_lacks_little_is_not_ingested() {
    let operations = operations(3, 400);
    let reader = log_of(&operations);
    let store = DyingStore::new(Manner::Together, u64::MAX);
    let report = Replay::new().until(Lsn::new(300).unwrap()).run(&reader, &store).unwrap();
    assert_eq!(report.ingested, 0, "fewer than the default");
    let report = bulk(50).run(&reader, &store).unwrap();
    assert_eq!(wrong_keys(&store.rows(), &expected(&operations, None)), 0);
    assert!(report.applied > 0, "{report:?}");
}

#[test]
fn missing_scratch_folder_leaves_the_changes_to_batches() {
    let puts = (0..500u32).map(|n| Change::put("", n.to_le_bytes(), [7; 8]).into());
    let log: Vec<Operation> = puts.collect();
    let store = DyingStore::new(Manner::Together, u64::MAX);
    let replay = bulk(1).scratch("/nowhere/at/all");
    let report = replay.run(&log_of(&log), &store).unwrap();
    assert_eq!((report.ingested, report.applied, report.changes), (0, 500, 500));
    assert_eq!(wrong_keys(&store.rows(), &expected(&log, None)), 0);
}
