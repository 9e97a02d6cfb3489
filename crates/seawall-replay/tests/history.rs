//! A store of another log, or with records that the log lost, is refused. A store of this log is
//! accepted, even if the log's files were copied or repaired.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

mod given_up;
mod programs;
mod snapshots;
mod starts;

use crate::common::{Rows, found};
use seawall::format::Geometry;
use seawall::{Log, LogReader, Lsn, Options};
use seawall_io::{Access, Storage};
use seawall_replay::{
    Batch, Change, Error, MemoryStore, Operation, Replay, Store, Transaction, TxId, Watermark,
};
use seawall_testkit::MemStorage;
use std::sync::Arc;

type Disk = Arc<dyn Storage>;

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// Opens a log with small segments and no background threads.
fn open(disk: &Disk) -> Log<Operation> {
    let geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
    let options = Options::new().geometry(geometry, 7 * 512).segment_size(7 * 512);
    options.preallocate(false).idle_mark(None).open_in(disk.clone()).unwrap()
}

fn reader(disk: &Disk) -> LogReader<Operation> {
    LogReader::open_in(disk.clone()).unwrap()
}

/// Copies the files of a log to another device.
fn files_of(disk: &Disk) -> Disk {
    let other: Disk = Arc::new(MemStorage::new());
    for name in disk.list().unwrap() {
        let file = disk.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        other.create(&name).unwrap().write_at(&bytes, 0).unwrap();
    }
    other
}

/// Creates a log with `count` transactions, each of which puts a different key.
fn log_of(name: &str, count: u64) -> Disk {
    let disk: Disk = Arc::new(MemStorage::new());
    put(&open(&disk), name, count);
    disk
}

fn put(log: &Log<Operation>, name: &str, count: u64) {
    for number in 0..count {
        log.append(&Change::put("", format!("{name}{number}"), "v").into()).unwrap();
    }
}

fn replay(disk: &Disk, store: &MemoryStore) -> Result<u64, Error> {
    Replay::new().run(&reader(disk), store).map(|report| report.applied)
}

/// Replays into a new store and returns its rows.
fn fold(disk: &Disk) -> Rows {
    let store = MemoryStore::new();
    replay(disk, &store).unwrap();
    found(&store)
}

#[test]
fn store_with_truncated_records_is_refused() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    assert_eq!(replay(&disk, &store).unwrap(), 10);
    let log = open(&disk);
    log.truncate_after(Some(lsn(5))).unwrap();
    put(&log, "n", 7);
    let before = found(&store);
    let refused = replay(&disk, &store);
    assert!(refused.is_err(), "{refused:?}: {:?}, not {:?}", found(&store), fold(&disk));
    let refused = refused.unwrap_err();
    let is_named = matches!(refused, Error::OtherHistory { applied } if applied == lsn(10));
    assert!(is_named, "{refused}");
    assert_eq!(found(&store), before, "the refused replay changed the store");
}

#[test]
fn equal_record_with_the_same_lsn_is_not_mistaken_for_the_old_one() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    replay(&disk, &store).unwrap();
    let log = open(&disk);
    log.truncate_after(Some(lsn(5))).unwrap();
    put(&log, "n", 4);
    log.append(&Change::put("", "k9", "v").into()).unwrap();
    let refused = replay(&disk, &store);
    assert!(refused.is_err(), "{refused:?}: {:?}, not {:?}", found(&store), fold(&disk));
    assert!(matches!(refused.unwrap_err(), Error::OtherHistory { .. }));
}

#[test]
fn store_of_another_log_with_more_records_is_refused() {
    let store = MemoryStore::new();
    replay(&log_of("k", 10), &store).unwrap();
    let other = log_of("x", 15);
    let refused = replay(&other, &store);
    assert!(refused.is_err(), "{refused:?}: {:?}, not {:?}", found(&store), fold(&other));
    let id = reader(&other).id().unwrap();
    let refused = refused.unwrap_err();
    assert!(matches!(refused, Error::OtherLog { log, store } if log == id && store != id));
}

#[test]
fn store_without_changes_belongs_to_its_log_too() {
    let store = MemoryStore::new();
    replay(&log_of("k", 0), &store).unwrap();
    let refused = replay(&log_of("x", 3), &store).unwrap_err();
    assert!(matches!(refused, Error::OtherLog { .. }), "{refused}");
}

#[test]
fn log_that_ends_before_the_store_is_reported_as_ahead() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    replay(&disk, &store).unwrap();
    open(&disk).truncate_after(Some(lsn(5))).unwrap();
    let refused = replay(&disk, &store).unwrap_err();
    assert!(matches!(refused, Error::Ahead { applied, .. } if applied == lsn(10)), "{refused}");
}

#[test]
fn truncating_records_that_the_store_has_not_applied_is_allowed() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    Replay::new().until(lsn(6)).run(&reader(&disk), &store).unwrap();
    let log = open(&disk);
    log.truncate_after(Some(lsn(6))).unwrap();
    put(&log, "n", 7);
    assert_eq!(replay(&disk, &store).unwrap(), 7);
    assert_eq!(found(&store), fold(&disk));
}

#[test]
fn truncated_abort_may_be_followed_by_a_commit() {
    let disk: Disk = Arc::new(MemStorage::new());
    let (log, store) = (open(&disk), MemoryStore::new());
    let change = |key: &str| Change::put("", key, "v");
    let tx = TxId(1);
    let append = |operation: Operation| log.append(&operation).unwrap();
    append(Operation::Begin(tx));
    append(Operation::Change(tx, change("a")));
    let applied = append(change("b").into());
    append(Operation::Abort(tx));
    assert_eq!(replay(&disk, &store).unwrap(), 1);
    log.truncate_after(Some(applied)).unwrap();
    append(Operation::Commit(tx));
    assert_eq!(replay(&disk, &store).unwrap(), 1);
    assert_eq!(found(&store), fold(&disk));
}

#[test]
fn copied_recovered_and_salvaged_logs_are_the_same_log() {
    let device = MemStorage::new();
    let disk: Disk = Arc::new(device.clone());
    let log = open(&disk);
    put(&log, "k", 10);
    let store = MemoryStore::new();
    replay(&disk, &store).unwrap();

    let target: Disk = Arc::new(MemStorage::new());
    seawall::Maintenance::on(&disk).back_up_to(&target).unwrap();
    assert_eq!(replay(&target, &store).unwrap(), 0, "copied");

    // The next open writes unconfirmed records to a new segment.
    let killed: Disk = Arc::new(device.kill());
    put(&open(&killed), "l", 3);
    assert!(killed.list().unwrap().iter().filter(|name| name.contains(".seg")).count() > 1);
    assert_eq!(replay(&killed, &store).unwrap(), 3, "recovered");
    assert_eq!(found(&store), fold(&killed));

    let salvaged: Disk = Arc::new(MemStorage::new());
    seawall::Maintenance::on(&killed).salvage_to(salvaged.clone()).unwrap();
    put(&open(&salvaged), "m", 2);
    assert_eq!(replay(&salvaged, &store).unwrap(), 2, "salvaged");
    assert_eq!(found(&store), fold(&salvaged));
    // The two copies of the log diverge here.
    put(&open(&killed), "n", 5);
    let refused = replay(&killed, &store).unwrap_err();
    assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
}

#[test]
fn store_is_proved_by_the_records_from_needed_from_and_by_no_fewer() {
    let disk = log_of("k", 0);
    let log = open(&disk);
    let store = MemoryStore::new();
    put(&log, "k", 40);
    // Truncates at a segment boundary: the last commit is removed, the record after it is kept.
    let bases: Vec<Lsn> = (1..=40).map(|at| log.truncate_before(lsn(at)).unwrap()).collect();
    let base = *bases.iter().filter(|base| **base <= lsn(20)).max().unwrap();
    let disk = log_of("k", 40);
    let log = open(&disk);
    let last = base.previous().unwrap();
    let report = Replay::new().until(last).run(&reader(&disk), &store).unwrap();
    assert_eq!((report.applied_lsn, report.needed_from), (Some(last), last));
    assert!(log.truncate_before(report.needed_from).unwrap() <= last);
    assert_eq!(Replay::new().until(last).run(&reader(&disk), &store).unwrap().applied, 0);

    assert_eq!(log.truncate_before(base).unwrap(), base, "only the last commit goes");
    let refused = replay(&disk, &store).unwrap_err();
    assert!(matches!(refused, Error::Unproven { applied, .. } if applied == Some(last)));
    let said = refused.to_string();
    assert!(said.contains("the last commit it has applied, was pruned"), "{said}");
    let report = Replay::new().adopt().run(&reader(&disk), &store).unwrap();
    assert_eq!(report.applied, 40 - last.get());
    assert_eq!(replay(&disk, &store).unwrap(), 0, "the new watermarks prove it");
}

/// Converts the watermarks to those of an earlier version, without log id and record.
fn aged(store: &MemoryStore) {
    let old = |mark: Watermark| Watermark::from_bytes(&mark.to_bytes()[..24]).unwrap();
    let marks = store.watermarks().unwrap().into_iter().map(old);
    let watermarks = (0..).zip(marks).collect();
    store.write(&Batch { writes: vec![], watermarks }).unwrap();
}

#[test]
fn store_of_an_earlier_version_is_refused_until_adopted() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    Replay::new().until(lsn(8)).run(&reader(&disk), &store).unwrap();
    aged(&store);
    let refused = replay(&disk, &store).unwrap_err();
    assert!(matches!(refused, Error::Unproven { .. }), "{refused}");
    assert!(refused.to_string().contains("written by an earlier version"), "{refused}");
    Replay::new().adopt().plan(&reader(&disk), &store).unwrap();
    assert!(replay(&disk, &store).is_err(), "a plan changes nothing");
    assert_eq!(Replay::new().adopt().run(&reader(&disk), &store).unwrap().applied, 2);
    assert_eq!((replay(&disk, &store).unwrap(), found(&store)), (0, fold(&disk)));

    // Adopting works without new records, too.
    aged(&store);
    assert_eq!(Replay::new().adopt().run(&reader(&disk), &store).unwrap().applied, 0);
    assert_eq!(replay(&disk, &store).unwrap(), 0);
}

#[test]
fn adopting_does_not_accept_a_store_of_another_history() {
    let disk = log_of("k", 10);
    let store = MemoryStore::new();
    replay(&disk, &store).unwrap();
    let adopting = |disk: &Disk| Replay::new().adopt().run(&reader(disk), &store).unwrap_err();
    assert!(matches!(adopting(&log_of("x", 15)), Error::OtherLog { .. }));
    let log = open(&disk);
    log.truncate_after(Some(lsn(5))).unwrap();
    assert!(matches!(adopting(&disk), Error::Ahead { .. }));
    put(&log, "n", 7);
    assert!(matches!(adopting(&disk), Error::OtherHistory { .. }));
}

#[test]
fn partitions_of_two_logs_are_refused() {
    let (one, other) = (log_of("k", 10), log_of("x", 10));
    let stores = [&one, &other].map(|disk| {
        let store = MemoryStore::new();
        Replay::new().partitions(2).run(&reader(disk), &store).unwrap();
        store
    });
    let [first, second] = stores.map(|store| store.watermarks().unwrap()[0]);
    let store = MemoryStore::new();
    let watermarks = vec![(0, first), (1, second)];
    store.write(&Batch { writes: vec![], watermarks }).unwrap();
    let refused = replay(&one, &store).unwrap_err();
    assert!(matches!(refused, Error::Watermarks { .. }), "{refused}");
}

#[test]
fn transactions_iterator_detects_another_history_too() {
    let disk = log_of("k", 10);
    let after = |disk: &Disk, mark| {
        let all = Replay::new().transactions(&reader(disk), mark)?.collect::<Result<Vec<_>, _>>();
        all.map(|all| all.into_iter().collect::<Vec<Transaction>>())
    };
    let all = after(&disk, None).unwrap();
    assert_eq!(all.len(), 10);
    let mark = all[5].watermark;
    assert_eq!(after(&disk, Some(mark)).unwrap(), all[6..]);
    let refused = after(&log_of("x", 15), Some(mark)).unwrap_err();
    assert!(matches!(refused, Error::OtherLog { .. }), "{refused}");
    let log = open(&disk);
    log.truncate_after(Some(lsn(5))).unwrap();
    put(&log, "n", 7);
    let refused = after(&disk, Some(mark)).unwrap_err();
    assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
}

#[test]
fn whitespace_in_a_readable_log_does_not_change_a_record() {
    let disk: Disk = Arc::new(MemStorage::new());
    let open = || {
        let options = Options::new().layout(seawall::Layout::Text);
        let options = options.preallocate(false).idle_mark(None);
        options.open_in::<Operation, seawall::Json>(disk.clone()).unwrap()
    };
    let log = open();
    log.append(&Change::put("", "k", "v").into()).unwrap();
    log.close().unwrap();
    let store = MemoryStore::new();
    let replay = || {
        let reader: LogReader<Operation, seawall::Json> = LogReader::open_in(disk.clone()).unwrap();
        Replay::new().run(&reader, &store).map(|report| report.applied)
    };
    assert_eq!(replay().unwrap(), 1);
    let name = disk.list().unwrap().into_iter().find(|name| name.contains(".jsonl")).unwrap();
    let file = disk.open(&name, Access::ReadWrite).unwrap();
    let mut text = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut text, 0).unwrap();
    let text = String::from_utf8(text).unwrap();
    let edited = text.replace("\"table\":", "\n  \"table\" : ");
    assert_ne!(text, edited);
    file.write_at(edited.as_bytes(), 0).unwrap();
    assert_eq!(replay().unwrap(), 0);
}
