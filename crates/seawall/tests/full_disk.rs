//! A full disk refuses whole appends before they get a number. The log continues when there is
//! space.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::gate::Gated;
use common::hooked::Hooked;
use common::{Bytes, GEOMETRY, laid_out, maybe_encoded, tiny, within};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Log, Lsn, Options, Raw};
use seawall_format::SegmentId;
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

type TestLog = Log<[u8], Raw>;

fn open(storage: &MemStorage, ahead: bool) -> TestLog {
    open_in(Arc::new(storage.clone()), ahead, storage.steps() + 1)
}

fn open_in(storage: Arc<dyn Storage>, ahead: bool, seed: u64) -> TestLog {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 2048 };
    let options = Options::new()
        .geometry(geometry, 6144)
        .segment_size(12_288)
        .idle_mark(None)
        .preallocate(ahead)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(seed)));
    maybe_encoded(options).open_in(storage).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    format!("record {number} {}", "x".repeat(100)).into_bytes()
}

/// Appends until the disk is full. Returns the last acknowledged record.
fn fill(log: &TestLog, mut next: u64) -> u64 {
    loop {
        match log.append(&payload(next)) {
            Ok(lsn) => assert_eq!(lsn.get(), next),
            Err(Error::DiskFull { .. }) => return next - 1,
            Err(other) => panic!("record {next}: {other}"),
        }
        next += 1;
    }
}

fn read_all(log: &TestLog) -> u64 {
    let mut next = 1;
    for entry in log.read_from(Lsn::FIRST).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        assert_eq!((lsn.get(), bytes), (next, payload(next)));
        next += 1;
    }
    next - 1
}

#[test]
pub(crate) fn full_disk_freed_twenty_times_loses_nothing() {
    for ahead in [false, true] {
        let storage = MemStorage::new();
        let log = open(&storage, ahead);
        // The second slot of the file `keys` is far after the first.
        let keys = if common::is_encrypted() { 66_000 } else { 0 };
        let (mut limit, mut records) = (30_000 + keys, 0);
        for round in 0..20 {
            storage.limit(limit);
            let more = fill(&log, records + 1);
            assert!(more > records || round == 0, "round {round}: there was room");
            records = more;
            let refused = log.append(&payload(records + 1));
            assert!(matches!(refused, Err(Error::DiskFull { .. })));
            assert_eq!(read_all(&log), records, "a full log can be read");
            limit += 20_000;
        }
        log.close().unwrap();
        let as_storage: Arc<dyn Storage> = Arc::new(storage.clone());
        assert_eq!(common::maintenance(&as_storage).verify().unwrap().verdict, Verdict::Clean);
        storage.limit(u64::MAX);
        assert_eq!(read_all(&open(&storage, ahead)), records);
    }
}

/// Short records are framed in the batch itself, long ones beforehand.
#[test]
fn refused_long_record_leaves_nothing_for_the_next_one() {
    let storage = MemStorage::new();
    let log = open(&storage, false);
    storage.limit(30_000);
    let mut records = 0;
    let refused = loop {
        match log.append(&[b'1'; 700]) {
            Ok(_) => records += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Error::DiskFull { .. }) && records > 0, "{records}: {refused}");
    storage.limit(u64::MAX);
    assert_eq!(log.append(&[b'2'; 700]).unwrap().get(), records + 1);
    let read: Vec<_> = log.read_from(Lsn::FIRST).unwrap().map(|entry| entry.unwrap().1).collect();
    let expected = (0..records).map(|_| vec![b'1'; 700]).chain([vec![b'2'; 700]]);
    assert_eq!(read, expected.collect::<Vec<_>>());
}

#[test]
fn single_record_takes_one_small_segment() {
    let storage = MemStorage::new();
    let log = open(&storage, true);
    log.append(b"lone").unwrap();
    log.close().unwrap();
    let segments = storage.names().iter().filter(|name| name.contains(".seg")).count();
    assert_eq!((segments, storage.bytes("000000000001.seg").unwrap().len()), (1, 6144));
    assert!(storage.names().iter().all(|name| !name.starts_with("spare")));
}

#[test]
fn preallocated_file_left_by_a_crash_is_removed() {
    let storage = MemStorage::new();
    let log = open(&storage, false);
    fill_some(&log, 40);
    let crashed = storage.kill();
    crashed.create("spare-9.tmp").unwrap().allocate(50_000).unwrap();
    let log = open(&crashed, false);
    assert!(!crashed.names().contains(&"spare-9.tmp".to_owned()));
    assert_eq!(read_all(&log), 40);
}

fn fill_some(log: &TestLog, count: u64) {
    for number in 1..=count {
        log.append(&payload(number)).unwrap();
    }
}

/// A record that would fit without the batch in flight.
#[test]
fn record_is_refused_if_the_batch_in_flight_takes_its_space() {
    within(20, || {
        let storage = MemStorage::new();
        let (gated, gate) = Gated::new(storage.clone());
        let log = open_in(Arc::new(gated), false, 1);
        log.append(&[b'1'; 1200]).unwrap();
        storage.limit(0);
        gate.shut();
        thread::scope(|scope| {
            let second = scope.spawn(|| log.append(&[b'2'; 1200]));
            gate.wait_for_somebody();
            let third = scope.spawn(|| log.append(&[b'3'; 1200]));
            thread::park_timeout(Duration::from_millis(50));
            gate.open();
            assert_eq!(second.join().unwrap().unwrap().get(), 2);
            assert!(matches!(third.join().unwrap(), Err(Error::DiskFull { .. })));
        });
        storage.limit(u64::MAX);
        assert_eq!(log.append(b"room again").unwrap().get(), 3);
    });
}

/// The first batch of a segment that was named ahead fills its last block. A record that is
/// submitted while that batch is in flight needs space after that block.
#[test]
fn record_beside_the_first_batch_of_a_segment_is_refused_or_kept() {
    within(60, || {
        let (mut kept, mut refused) = (0, 0);
        let geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
        let options = Options::new()
            .geometry(geometry, 7 * 512)
            .segment_size(14 * 512)
            .idle_mark(None)
            .preallocate(false);
        for (size, blocks) in (420..900).step_by(40).flat_map(|size| [(size, 6), (size, 7)]) {
            for syncs in 0..4 {
                let storage = MemStorage::new();
                let (gated, gate) = Gated::new(storage.clone());
                let log: TestLog = options.open_in(Arc::new(gated)).unwrap();
                log.append(&[b'1'; 560]).unwrap();
                let names = storage.names();
                let bytes = names.iter().filter_map(|name| storage.bytes(name));
                let used: usize = bytes.map(|bytes| bytes.len()).sum();
                storage.limit(u64::try_from(used).unwrap() + blocks * 512);
                gate.shut();
                (0..syncs).for_each(|_| gate.pass_one());
                thread::scope(|scope| {
                    let first = scope.spawn(|| log.append(&vec![b'2'; size]));
                    while !gate.is_waited_at() && !first.is_finished() {
                        thread::yield_now();
                    }
                    let beside = log.try_submit(&[b'3'; 40]);
                    gate.open();
                    let case = format!("{size} bytes, {blocks} blocks, {syncs} syncs");
                    let first = first.join().unwrap();
                    assert!(matches!(first, Ok(_) | Err(Error::DiskFull { .. })), "{case}");
                    match beside.map(seawall::Ticket::wait) {
                        Ok(lsn) => {
                            assert!(lsn.is_ok(), "{case}: {lsn:?}");
                            kept += 1;
                        }
                        Err(_) => refused += 1,
                    }
                });
                assert_eq!(log.stats().named_ahead, log.stats().rolls);
            }
        }
        assert!(kept > 0 && refused > 0, "{kept} {refused}");
    });
}

#[test]
fn truncation_on_a_full_disk_uses_the_preallocated_file() {
    within(20, || {
        let storage = MemStorage::new();
        let log = open(&storage, true);
        log.append(&payload(1)).unwrap();
        // The file of the log, and that of the next segment.
        let is_segment = |name: &str| SegmentId::from_file_name(name).is_some();
        let is_file = |name: &&String| name.starts_with("spare") || is_segment(name);
        while storage.names().iter().filter(is_file).count() < 2 {
            thread::park_timeout(Duration::from_millis(1));
        }
        // Waits until it is ready.
        let mut steps = 0;
        while steps != storage.steps() {
            steps = storage.steps();
            thread::park_timeout(Duration::from_millis(50));
        }
        log.append(&payload(2)).unwrap();
        storage.limit(storage.used());
        log.truncate_after(Lsn::new(1)).unwrap();
        assert_eq!(log.append(&payload(2)).unwrap().get(), 2);
        assert_eq!(read_all(&log), 2);
    });
}

#[test]
fn preallocated_file_is_removed_by_close() {
    within(20, || {
        let storage = MemStorage::new();
        // A preallocated file has a temporary name, or already that of the next segment.
        let is_spare = |name: &String| name.starts_with("spare") || *name == "000000000002.seg";
        let has_spare = || storage.names().iter().any(is_spare);
        let log = open(&storage, true);
        log.append(&[b'1'; 1000]).unwrap();
        log.append(&[b'2'; 1000]).unwrap();
        while !has_spare() {
            thread::park_timeout(Duration::from_millis(1));
        }
        // A file that is still being created is removed anyway. Waits until it is ready and handed
        // over.
        let mut steps = 0;
        while steps != storage.steps() {
            steps = storage.steps();
            thread::park_timeout(Duration::from_millis(50));
        }
        log.close().unwrap();
        assert!(!has_spare());
    });
}

/// An append that finds the disk full must not leave earlier, admitted records waiting. Another
/// record is submitted just before each storage call that the append makes.
#[test]
fn full_disk_leaves_no_committer_waiting() {
    within(60, || {
        let mut beside_a_full_disk = 0;
        for (records, look) in (10..30).flat_map(|records| (0..8).map(move |look| (records, look)))
        {
            let storage = MemStorage::new();
            let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || {});
            let log = Arc::new(open_in(Arc::new(hooked), false, 1));
            fill_some(&log, records);
            storage.limit(1);
            let (beside, (tell, told)) = (log.clone(), mpsc::channel());
            hook.plan(look, move || {
                let (admitted, is_admitted) = mpsc::channel();
                let waits = thread::spawn(move || {
                    let ticket = beside.submit(&[1; 8])?;
                    let _ = admitted.send(());
                    ticket.wait()
                });
                tell.send(waits).unwrap();
                // The submit may wait for space, which is freed later. Once it has its number, it
                // takes a moment until it waits for its turn.
                let _ = is_admitted.recv_timeout(Duration::from_millis(20));
                let _ = is_admitted.recv_timeout(Duration::from_millis(20));
            });
            let is_full = matches!(log.append(&vec![1; 700]), Err(Error::DiskFull { .. }));
            if hook.is_waiting() {
                continue;
            }
            beside_a_full_disk += u64::from(is_full);
            let _ = told.recv().unwrap().join().unwrap();
        }
        assert!(beside_a_full_disk > 3, "{beside_a_full_disk}");
    });
}

/// Truncated records free their space only when the truncation is durable, in a segment of its own.
/// If there is no space for a larger one, that segment has the minimum size.
#[test]
fn truncation_frees_a_disk_with_space_for_one_minimal_segment() {
    let storage = MemStorage::new();
    let log = open(&storage, false);
    storage.limit(60_000);
    let records = fill(&log, 1);
    assert!(records > 100, "{records}");
    let used: usize =
        storage.names().iter().map(|name| storage.bytes(name).map_or(0, |bytes| bytes.len())).sum();
    storage.limit(u64::try_from(used).unwrap() + 4096);
    assert!(matches!(log.append(&[b'x'; 700]), Err(Error::DiskFull { .. })));
    log.truncate_after(Lsn::new(10)).unwrap();
    assert_eq!(read_all(&log), 10);
    assert!(fill(&log, 11) > 100, "the room is free");
    log.close().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(storage);
    assert_eq!(common::maintenance(&storage).verify().unwrap().verdict, Verdict::Clean);
}

/// Without space for a new segment, nothing is truncated: also the checkpoint stays.
#[test]
fn truncation_without_space_changes_nothing() {
    for layout in [Layout::Binary, Layout::Text] {
        let storage = MemStorage::new();
        let options = laid_out(tiny(1), layout).idle_mark(None).preallocate(false);
        let log = common::open(&options, &storage).unwrap();
        (1..=6).for_each(|_| log.append(b"7").map(drop).unwrap());
        log.checkpoint(Lsn::new(5).unwrap()).unwrap();
        let files = storage.names();
        storage.limit(storage.used());
        let refused = log.truncate_after(Lsn::new(2)).unwrap_err();
        assert!(matches!(refused, Error::DiskFull { .. }), "{layout:?}: {refused}");
        assert_eq!((log.replay_start().get(), storage.names()), (5, files));
        storage.limit(u64::MAX);
        assert_eq!(log.append(b"8").unwrap().get(), 7);
        assert_eq!(log.read_from(Lsn::FIRST).unwrap().count(), 7);
        log.truncate_after(Lsn::new(2)).unwrap();
        assert_eq!(log.append(b"9").unwrap().get(), 3);
    }
}

/// A segment that cannot be opened stops a truncation before it has changed anything.
#[test]
fn truncation_that_cannot_read_changes_nothing() {
    let storage = MemStorage::new();
    let log = open(&storage, false);
    (1..=6).for_each(|number| log.append(&payload(number)).map(drop).unwrap());
    log.checkpoint(Lsn::new(5).unwrap()).unwrap();
    storage.fail_read("000000000001.seg", 0..usize::MAX);
    let refused = log.truncate_after(Lsn::new(2)).unwrap_err();
    assert!(matches!(refused, Error::Io { .. } | Error::Damaged { .. }), "{refused}");
    assert_eq!(log.append(&payload(7)).unwrap().get(), 7);
    assert_eq!(log.replay_start().get(), 5);
}

/// Options of a readable log. Its texts grow in space reserved beyond their ends.
fn readable(seed: u64) -> Options {
    laid_out(tiny(seed), Layout::Text).geometry(GEOMETRY, 4096).segment_size(16_384)
}

fn value(number: u64) -> Vec<u8> {
    format!("{{\"number\":{number},\"text\":\"{}\"}}", "x".repeat(100)).into_bytes()
}

/// Appends until the disk is full. Returns the last acknowledged record.
fn fill_readable(log: &Bytes, mut next: u64) -> u64 {
    loop {
        match log.append(&value(next)) {
            Ok(lsn) => assert_eq!(lsn.get(), next),
            Err(Error::DiskFull { .. }) => return next - 1,
            Err(other) => panic!("record {next}: {other:#}"),
        }
        next += 1;
    }
}

fn check_values(log: &Bytes, (mut next, last): (u64, u64)) {
    for entry in log.read_from(Lsn::new(next).unwrap()).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        assert_eq!((lsn.get(), bytes), (next, value(next)));
        next += 1;
    }
    assert_eq!(next - 1, last);
}

#[test]
fn full_disk_refuses_only_whole_appends_of_a_readable_log() {
    let storage = MemStorage::new();
    let log = common::open(&readable(1), &storage).unwrap();
    let mut records = 0;
    for round in 0..20 {
        storage.limit(storage.used() + 20_000);
        let more = fill_readable(&log, records + 1);
        assert!(more > records, "round {round}: there was room");
        records = more;
        assert!(matches!(log.append(&value(0)), Err(Error::DiskFull { .. })));
        check_values(&log, (1, records));
    }
    storage.limit(storage.used());
    let oldest = log.truncate_before(Lsn::new(records).unwrap()).unwrap().get();
    assert!(oldest > 1);
    let more = fill_readable(&log, records + 1);
    assert!(more > records + 20, "a prune makes room");
    check_values(&log, (oldest, more));
    assert_eq!(log.stats().failovers, 0);
    log.close().unwrap();
    let as_storage: Arc<dyn Storage> = Arc::new(storage.clone());
    assert_eq!(common::maintenance(&as_storage).verify().unwrap().verdict, Verdict::Clean);
    check_values(&common::open(&readable(2), &storage).unwrap(), (oldest, more));
}

/// The disk has space for the smallest segment, which the first record needs, but not for the
/// larger one that both records need.
#[test]
fn refused_record_leaves_the_space_of_an_admitted_one() {
    let storage = MemStorage::new();
    let options = readable(1).geometry(Geometry { batch_max: 8192, ..GEOMETRY }, 4096);
    let log = common::open(&options, &storage).unwrap();
    let text = |number: u64| format!("\"{number} {}\"", "x".repeat(2_800)).into_bytes();
    log.append(&text(1)).unwrap();
    storage.limit(storage.used() + 7_000);
    let admitted = log.submit(&text(2)).unwrap();
    assert!(storage.names().iter().any(|name| name.starts_with("spare")), "in a segment to come");
    let refused = log.submit(&text(3)).map(|ticket| ticket.lsn());
    assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
    // Another program takes the free space.
    storage.limit(storage.used());
    assert_eq!(admitted.wait().unwrap().get(), 2);
    storage.limit(u64::MAX);
    assert_eq!(log.append(&text(3)).unwrap().get(), 3);
}

/// Records of one byte: a line takes more than ten times the space of the record's frame.
#[test]
fn space_is_reserved_for_the_lines_of_many_short_records() {
    for count in [1, 2, 5, 20, 40] {
        let storage = MemStorage::new();
        let log = common::open(&readable(1), &storage).unwrap();
        storage.limit(30_000);
        let mut records = 0;
        let refused = loop {
            match log.append_batch(std::iter::repeat_n(b"7".as_slice(), count)) {
                Ok(lsns) => records = lsns.end().get(),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, Error::DiskFull { .. }), "{count} at once: {refused:#}");
        storage.limit(u64::MAX);
        assert_eq!(log.append(b"8").unwrap().get(), records + 1, "{count} at once");
        assert_eq!(log.stats().failovers, 0);
    }
}

/// The open after a crash frees it, too, whether the log continues in place or in another segment.
#[test]
fn space_reserved_for_a_text_is_freed_after_its_last_write() {
    let length = |storage: &MemStorage| -> u64 {
        let bytes = |name: &String| storage.bytes(name).map_or(0, |bytes| bytes.len());
        u64::try_from(storage.names().iter().map(bytes).sum::<usize>()).unwrap()
    };
    let storage = MemStorage::new();
    let log = common::open(&readable(1), &storage).unwrap();
    for number in 1..=100 {
        log.append(&value(number)).unwrap();
    }
    let reserved = storage.used() - length(&storage);
    assert!((1..=16_384).contains(&reserved), "the newest text alone has some: {reserved}");
    log.truncate_after(Lsn::new(99)).unwrap();
    for crashed in [storage.kill(), storage.power_cut(|_| true), storage.power_cut(|_| false)] {
        let log = common::open(&readable(2), &crashed).unwrap();
        log.append(&value(100)).unwrap();
        log.close().unwrap();
        assert_eq!(crashed.used(), length(&crashed));
    }
    log.close().unwrap();
    assert_eq!(storage.used(), length(&storage));
}

/// Neither an open nor the first segment of a log needs more space than there is.
#[test]
fn readable_log_is_created_and_opened_with_little_space() {
    let storage = MemStorage::new();
    storage.limit(3_600);
    let log = common::open(&readable(1), &storage).unwrap();
    assert!(matches!(log.append(&value(1)), Err(Error::DiskFull { .. })));
    storage.limit(20_000);
    log.append(&value(1)).unwrap();
    log.close().unwrap();
    storage.limit(storage.used());
    let log = common::open(&readable(2), &storage).unwrap();
    assert!(matches!(log.append(&value(2)), Err(Error::DiskFull { .. })));
    check_values(&log, (1, 1));
    storage.limit(u64::MAX);
    log.append(&value(2)).unwrap();
    log.close().unwrap();
}
