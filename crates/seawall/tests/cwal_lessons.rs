//! Bugs of a small C++ log, `CWal`, each as a promise that this log keeps.
//!
//! Its `wal_fsync` reopens the file and syncs that descriptor, without flushing the stream in front
//! of it, and ignores all results. Its `rotate_log` overwrites the file from the start and leaves
//! the old bytes after the new ones. It has no recovery, and cannot tell a torn write from damage.
//! What `convert` must do with files that `CWal` leaves is in
//! `crates/seawall-foreign/src/tests.rs`.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{Found, judge, lsn, names, open, payload, read, tiny};
use seawall::Lsn;
use seawall::verify::Verdict;
use seawall_testkit::{MemStorage, What};

/// Appends records up to `last`, confirms them, and drops the log.
fn append_until(device: &MemStorage, last: u64, life: u64) {
    let log = open(&tiny(life), device).unwrap();
    let next = log.durable().map_or(1, |last| last.get() + 1);
    for number in next..=last {
        log.append(&payload(number, life, 40)).unwrap();
    }
    log.confirm().unwrap();
}

fn written(count: u64, life: u64) -> Vec<Vec<u8>> {
    (1..=count).map(|number| payload(number, life, 40)).collect()
}

fn records(found: &Found) -> Vec<Vec<u8>> {
    found.records.values().cloned().collect()
}

/// `wal_fsync` syncs another descriptor, so bytes still in the stream's buffer are not in the file.
#[test]
fn returned_append_is_durable_without_a_flush() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for number in 1..=30 {
        log.append(&payload(number, 1, 40)).unwrap();
        let after_the_cut = device.power_cut(|_| false);
        let found = read(&after_the_cut, false).unwrap();
        assert_eq!(records(&found), written(number, 1), "record {number}");
    }
}

/// `wal_fsync` returns nothing, and ignores what `fsync` and `open` return.
#[test]
fn failed_sync_never_counts_as_a_successful_one() {
    for nth in 1..60 {
        let device = MemStorage::new();
        device.fail_sync(nth, |_| false);
        let mut acknowledged = 0;
        if let Ok(log) = open(&tiny(1), &device) {
            for number in 1..=20 {
                match log.append(&payload(number, 1, 40)) {
                    Ok(lsn) => acknowledged = lsn.get(),
                    Err(_) => break,
                }
            }
            std::mem::forget(log);
        }
        if acknowledged > 0 {
            let found = read(&device.power_cut(|_| false), false).unwrap();
            let kept = records(&found);
            assert!(kept.starts_with(&written(acknowledged, 1)), "sync {nth}: {}", kept.len());
        }
    }
}

/// `rotate_log` seeks to the start: old entries follow a shorter new log, and are read.
#[test]
fn shorter_log_over_a_longer_one_shows_no_old_record() {
    let device = MemStorage::new();
    append_until(&device, 40, 1);
    let log = open(&tiny(2), &device).unwrap();
    log.truncate_after(None).unwrap();
    for number in 1..=10 {
        assert_eq!(log.append(&payload(number, 2, 40)).unwrap(), lsn(number));
        let found = read(&device.power_cut(|_| false), false).unwrap();
        assert_eq!(records(&found), written(number, 2));
    }
    drop(log);
    assert_eq!(records(&read(&device, false).unwrap()), written(10, 2));
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
}

/// `CWal` has no recovery: if a log ends with half an entry, it appends after that.
#[test]
fn open_recovers_the_log_and_continues_after_its_last_record() {
    let steps = {
        let device = MemStorage::new();
        append_until(&device, 8, 1);
        device.steps()
    };
    for step in 1..steps {
        let device = MemStorage::new();
        device.stop_after(step);
        let _ = open(&tiny(1), &device).map(|log| {
            for number in 1..=8 {
                if log.append(&payload(number, 1, 40)).is_err() {
                    break;
                }
            }
            std::mem::forget(log);
        });
        let device =
            device.power_cut(|pending| !matches!(pending.what, What::Sector(n) if n % 2 == 0));
        let log = open(&tiny(2), &device).unwrap();
        let kept = log.durable().map_or(0, Lsn::get);
        let next = log.append(&payload(kept + 1, 2, 40)).unwrap();
        assert_eq!(next.get(), kept + 1, "step {step}");
        log.close().unwrap();
        let mut expected = written(kept, 1);
        expected.push(payload(kept + 1, 2, 40));
        assert_eq!(records(&read(&device, false).unwrap()), expected, "step {step}");
    }
}

/// `CWal` has no rule for a torn write: its reader fails on half an entry as on a flipped bit.
#[test]
fn torn_write_ends_the_log_and_a_flipped_bit_is_reported() {
    let device = MemStorage::new();
    append_until(&device, 20, 1);
    let acknowledged = device.kill();
    let log = open(&tiny(2), &device).unwrap();
    let before = device.steps();
    device.stop_after(before + 1);
    // Written, but not synced when power is cut.
    log.append(&payload(21, 1, 900)).unwrap_err();
    std::mem::forget(log);
    let torn = device.power_cut(|pending| matches!(pending.what, What::Sector(n) if n % 2 == 0));
    assert_eq!(records(&read(&torn, false).unwrap()), written(20, 1));
    assert!(matches!(judge(&torn).unwrap().verdict, Verdict::Clean | Verdict::Torn));

    let name = acknowledged.names().into_iter().find(|name| name.ends_with("01.seg")).unwrap();
    let needle = payload(7, 1, 40);
    acknowledged.edit(&name, |bytes| {
        let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
        bytes[at] ^= 1;
    });
    let found = read(&acknowledged, false).unwrap();
    assert_eq!(records(&found), written(6, 1));
    assert!(found.lost.iter().any(|lost| names(lost, 7)), "{found:?}");
    assert_eq!(judge(&acknowledged).unwrap().verdict, Verdict::Lost);
}

/// `read_log` compares no checksum, allocates any length that it reads, and also returns success at
/// the end of the file. None of this is tested with damage. Here every byte is changed once.
#[test]
fn changed_byte_never_yields_an_unwritten_record() {
    let device = MemStorage::new();
    append_until(&device, 6, 1);
    let name = device.names().into_iter().find(|name| name.ends_with("01.seg")).unwrap();
    for at in 0..device.bytes(&name).unwrap().len() {
        let changed = device.kill();
        changed.edit(&name, |bytes| bytes[at] ^= 0x55);
        let Ok(found) = read(&changed, false) else { continue };
        let kept = records(&found);
        assert!(written(6, 1).starts_with(&kept), "byte {at}: {found:?}");
        assert!(kept.len() == 6 || found.errors > 0, "byte {at}: the end looks clean");
    }
}
