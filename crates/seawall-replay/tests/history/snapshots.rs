//! A dump of another log, or with records that the log lost, is ignored.

use super::{Disk, files_of, lsn};
use seawall::{Log, Lsn, Options};
use seawall_replay::{Reason, SnapshotError, Snapshots};
use seawall_testkit::MemStorage;
use std::sync::Arc;

fn new_disk() -> Disk {
    Arc::new(MemStorage::new())
}

fn open(disk: &Disk) -> Log<u64> {
    Options::new().preallocate(false).idle_mark(None).open_in(disk.clone()).unwrap()
}

/// A restored state, and the LSN of the dump used.
type Found = (Vec<u64>, Option<Lsn>);

fn restore(log: &Log<u64>, dumps: &Disk) -> Result<Found, SnapshotError> {
    let dumps = Snapshots::<Vec<u64>>::open_in(dumps.clone(), "numbers", 1)?;
    let (_, restored) = dumps.restore(log, push)?;
    Ok((restored.state, restored.dump))
}

#[expect(clippy::unnecessary_wraps, reason = "has the signature of a fallible function")]
fn push(state: &mut Vec<u64>, _: Lsn, value: u64) -> Result<(), String> {
    state.push(value);
    Ok(())
}

/// Creates a log with the numbers in `range`, and a dump after every fourth.
fn log_and_dumps(range: std::ops::Range<u64>) -> (Disk, Disk) {
    let (disk, dumps) = (new_disk(), new_disk());
    let log = open(&disk);
    take(&log, &dumps, range);
    (disk, dumps)
}

fn take(log: &Log<u64>, dumps: &Disk, range: std::ops::Range<u64>) {
    let folder = Snapshots::<Vec<u64>>::open_in(dumps.clone(), "numbers", 1).unwrap();
    let (mut snapshotter, restored) = folder.restore(log, push).unwrap();
    let mut state = restored.state;
    for value in range {
        let lsn = log.append(&value).unwrap();
        state.push(value);
        if lsn.get().is_multiple_of(4) {
            snapshotter.take(log, lsn, &state).unwrap();
        }
    }
}

#[test]
fn dump_of_another_log_is_refused() {
    let (_, dumps) = log_and_dumps(0..10);
    let (other, _) = log_and_dumps(100..115);
    let found = restore(&open(&other), &dumps);
    assert!(found.is_err(), "{found:?}");
    let refused = found.unwrap_err();
    let is_named = matches!(refused, SnapshotError::OtherLog { dump, .. } if dump == lsn(8));
    assert!(is_named, "{refused}");
}

#[test]
fn state_of_one_log_is_not_dumped_with_another() {
    let ((disk, dumps), (other, _)) = (log_and_dumps(0..10), log_and_dumps(100..115));
    let folder = Snapshots::<Vec<u64>>::open_in(dumps, "numbers", 1).unwrap();
    let (mut snapshotter, restored) = folder.restore(&open(&disk), push).unwrap();
    let refused = snapshotter.take(&open(&other), lsn(12), &restored.state).unwrap_err();
    assert!(matches!(refused, SnapshotError::OtherLog { .. }), "{refused}");
}

#[test]
fn copied_and_salvaged_logs_accept_the_dumps_of_their_log() {
    let (disk, dumps) = log_and_dumps(0..10);
    let (copied, salvaged) = (new_disk(), new_disk());
    seawall::Maintenance::on(&disk).back_up_to(&copied).unwrap();
    seawall::Maintenance::on(&disk).salvage_to(salvaged.clone()).unwrap();
    for log in [copied, salvaged] {
        let found = restore(&open(&log), &files_of(&dumps)).unwrap();
        assert_eq!(found, ((0..10).collect(), Some(lsn(8))));
    }
}

#[test]
fn dump_without_a_log_id_is_accepted_and_the_next_one_has_it() {
    // Produced by an independent program from format.md, section 13: draft 1, LSN 4, numbers 0 to
    // 3.
    const DRAFT_1: &str = "\
        53454157414c4c4400000100582c4bf83a4626220000010008070605040302010400000000000000\
        0500000000000000070000000000000001000000010000076e756d62657273000000000000000000\
        00000000000000000000000000000000000000000000000000000000000000000000000000000000\
        0000000000000000d8f65df905000000940001020398abd8ab454e44530500000000000000010000\
        0000000000";
    let pairs = DRAFT_1.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    let (disk, dumps) = (new_disk(), new_disk());
    let log = open(&disk);
    for value in 0..6 {
        log.append(&value).unwrap();
    }
    log.checkpoint(lsn(5)).unwrap();
    dumps.create("00000000000000000004.dump").unwrap().write_at(&bytes, 0).unwrap();
    assert_eq!(restore(&log, &dumps).unwrap(), ((0..6).collect(), Some(lsn(4))));
    take(&log, &dumps, 6..8);
    let (other, _) = log_and_dumps(0..9);
    assert!(matches!(restore(&open(&other), &dumps), Err(SnapshotError::OtherLog { .. })));
}

#[test]
fn dump_that_reappears_after_a_truncation_is_not_used() {
    let (disk, dumps) = log_and_dumps(0..10);
    let backup = files_of(&dumps);
    let log = open(&disk);
    let folder = Snapshots::<Vec<u64>>::open_in(dumps.clone(), "numbers", 1).unwrap();
    folder.truncate_after(&log, Some(lsn(5))).unwrap();
    take(&log, &dumps, 50..60);
    let expected = restore(&log, &dumps).unwrap().0;
    assert_eq!(expected.get(..6).unwrap(), [0, 1, 2, 3, 4, 50]);
    let (state, dump) = restore(&log, &backup).unwrap();
    assert_eq!((state, dump), (expected, Some(lsn(4))));
    let folder = Snapshots::<Vec<u64>>::open_in(backup, "numbers", 1).unwrap();
    let (_, restored) = folder.restore(&log, push).unwrap();
    let [passed] = restored.passed_over.as_slice() else { panic!("expected one passed-over dump") };
    assert!(matches!(passed.reason, Reason::OtherHistory), "{passed}");
}
