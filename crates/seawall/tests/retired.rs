//! What retention removes is given back to the file system bit by bit, and harms nobody who reads.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

mod common;

use common::{Bytes, Scratch, lsn};
use seawall::{LogReader, Options, Raw, Retention};
use seawall_io::{Clock, SystemClock};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SEGMENT: u64 = 1 << 20;
/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> Options {
    let keep = Retention::new().max_bytes(2 * SEGMENT).without_checkpoints();
    Options::new().segment_size(SEGMENT).retention(keep)
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().repeat(4096);
    bytes.truncate(32_000);
    bytes
}

/// Appends until so many segments were pruned.
fn append_until_pruned(log: &Bytes, count: u64) {
    let before = log.stats().pruned;
    while log.stats().pruned < before + count {
        let next = log.durable().map_or(1, |last| last.get() + 1);
        log.append(&payload(next)).unwrap();
    }
}

/// The bytes of files in that directory that this process has open and that have no name any more.
fn held(path: &Path) -> u64 {
    let mut held = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let entry = entry.unwrap().path();
        let Ok(target) = fs::read_link(&entry) else { continue };
        let is_removed = target.to_string_lossy().ends_with(" (deleted)");
        if is_removed && target.starts_with(path) {
            held += fs::metadata(&entry).map_or(0, |found| found.len());
        }
    }
    held
}

#[test]
fn what_was_removed_is_given_back_at_leisure_and_at_the_close() {
    let scratch = Scratch::new("retired");
    let log: Bytes = options().open(&scratch.path).unwrap();
    append_until_pruned(&log, 8);
    let clock = SystemClock::new();
    while held(&scratch.path) > 0 {
        assert!(clock.now() < PATIENCE, "{} bytes are held", held(&scratch.path));
        clock.sleep(Duration::from_millis(1));
    }
    append_until_pruned(&log, 4);
    log.close().unwrap();
    assert_eq!(held(&scratch.path), 0);
}

#[test]
fn who_has_no_preparer_gives_it_back_at_once() {
    let scratch = Scratch::new("retired-at-once");
    let log: Bytes = options().prepare_ahead(false).open(&scratch.path).unwrap();
    append_until_pruned(&log, 2);
    assert_eq!(held(&scratch.path), 0);
}

#[test]
fn who_reads_a_segment_that_is_removed_reads_it_to_its_end() {
    let scratch = Scratch::new("retired-read");
    let log: Bytes = options().open(&scratch.path).unwrap();
    append_until_pruned(&log, 1);
    let first = log.oldest();
    let reader: LogReader<[u8], Raw> = LogReader::open(&scratch.path).unwrap();
    let mut beside = reader.read_from(first).unwrap();
    let mut here = log.read_from(first).unwrap();
    let mut next = first.get();
    for cursor in [&mut beside, &mut here] {
        assert_eq!(cursor.next().unwrap().unwrap(), (first, payload(first.get())));
    }
    append_until_pruned(&log, 4);
    SystemClock::new().sleep(Duration::from_millis(100));
    // All that the first segment holds: some 30 records.
    for cursor in [&mut beside, &mut here] {
        next = first.get() + 1;
        while let Some(Ok((number, bytes))) = cursor.next() {
            assert_eq!((number, bytes), (lsn(next), payload(next)));
            next += 1;
        }
        assert!(next > first.get() + 20, "{next} after {first}");
    }
    assert!(next < log.oldest().get(), "all of it was removed meanwhile");
}
