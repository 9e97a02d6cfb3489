//! A failed sync does not end a log: it continues in a new segment and loses nothing (R8).

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common::maybe_encoded;
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Level, Log, Lsn, Options, Raw};
use seawall_io::{ManualClock, SeededEntropy};
use seawall_testkit::MemStorage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const RECORDS: u64 = 40;

fn options(level: Level) -> Options {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 1024 };
    let clock = Arc::new(ManualClock::new());
    let options = Options::new()
        .geometry(geometry, 6144)
        .segment_size(8192)
        .level(level)
        .idle_mark(None)
        .preallocate(false)
        .env(clock, Arc::new(SeededEntropy::new(7)));
    maybe_encoded(options)
}

fn payload(number: u64) -> Vec<u8> {
    let size = usize::try_from(number * 37 % 200).expect("small");
    vec![u8::try_from(number % 251).expect("small"); size]
}

/// What one life of the log acknowledged, and how it ended.
struct Life {
    acknowledged: u64,
    outcome: Result<(), Error>,
    failovers: u64,
}

/// Opens the log, appends, confirms and closes, until a call fails.
fn live(storage: &MemStorage, level: Level) -> Life {
    let failovers = Arc::new(AtomicU64::new(0));
    let told = failovers.clone();
    let acknowledged = Mutex::new(0);
    let outcome = (|| {
        let options = options(level).on_failover(move |_| {
            told.fetch_add(1, Ordering::SeqCst);
        });
        let log: Log<[u8], Raw> = options.open_in(Arc::new(storage.clone()))?;
        for number in 1..=RECORDS {
            let lsn = log.append(&payload(number))?;
            assert_eq!(lsn.get(), number);
            *acknowledged.lock().unwrap() = number;
        }
        log.confirm()?;
        log.close()
    })();
    let acknowledged = *acknowledged.lock().unwrap();
    Life { acknowledged, outcome, failovers: failovers.load(Ordering::SeqCst) }
}

/// Reopens the log and compares all records with what was written.
fn check(storage: MemStorage, acknowledged: u64, case: &str) {
    let as_storage: Arc<dyn seawall_io::Storage> = Arc::new(storage.clone());
    let found = crate::common::maintenance(&as_storage)
        .verify()
        .unwrap_or_else(|error| panic!("{case}: verify {error}"));
    assert!(matches!(found.verdict, Verdict::Clean | Verdict::Torn), "{case}: {found:?}");
    let log: Log<[u8], Raw> =
        options(Level::Synced).open_in(Arc::new(storage)).unwrap_or_else(|e| panic!("{case}: {e}"));
    let mut next = 1;
    for entry in log.read_from(Lsn::FIRST).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        assert_eq!((lsn.get(), &bytes), (next, &payload(next)), "{case}");
        next += 1;
    }
    assert!(next > acknowledged, "{case}: {} of {acknowledged} records", next - 1);
}

/// Fails sync `nth`, with its pending bytes landing or not. Then kills the process or cuts power.
fn fail_one(level: Level, nth: u64, lands: bool) -> Life {
    let storage = MemStorage::new();
    storage.fail_sync(nth, move |_| lands);
    let life = live(&storage, level);
    let case = format!("{level:?}, sync {nth}, landed {lands}");
    if life.acknowledged > 0 {
        check(storage.kill(), life.acknowledged, &format!("{case}, killed"));
        check(storage.power_cut(|_| false), life.acknowledged, &format!("{case}, power cut"));
        check(storage.power_cut(|_| true), life.acknowledged, &format!("{case}, all landed"));
    }
    life
}

#[test]
pub(crate) fn log_continues_without_loss_after_a_failed_sync() {
    let (mut survived, mut ended) = (0, 0);
    for level in [Level::Synced, Level::Confirmed] {
        for lands in [false, true] {
            let sound = MemStorage::new();
            live(&sound, level).outcome.unwrap();
            for nth in (0..).take(sound.syncs().len()) {
                let life = fail_one(level, nth, lands);
                match life.outcome {
                    Ok(()) if life.failovers == 1 => survived += 1,
                    // The sync of a new segment or of a seal: the next attempt used another file.
                    Ok(()) => assert_eq!(life.failovers, 0),
                    // A directory or the manifest: there is no other file to use.
                    Err(error) => {
                        let cause = error.to_string();
                        let known = ["sync memory", "manifest"].iter().any(|w| cause.contains(w));
                        assert!(known, "sync {nth}: {cause}");
                        ended += 1;
                    }
                }
            }
        }
    }
    assert!(survived > 150 && ended > 5, "{survived} survived, {ended} ended");
}

#[test]
pub(crate) fn second_failure_right_after_the_first_is_survived() {
    let mut survived = 0;
    for nth in 6..60 {
        let storage = MemStorage::new();
        storage.fail_sync(nth, |_| false);
        storage.fail_sync(nth + 1, |_| false);
        let life = live(&storage, Level::Synced);
        check(storage.power_cut(|_| false), life.acknowledged, &format!("syncs {nth} and next"));
        survived += u32::from(life.outcome.is_ok());
    }
    assert!(survived > 20, "{survived}");
}

#[test]
fn device_that_fails_for_good_poisons_the_log_after_bounded_attempts() {
    let storage = MemStorage::new();
    let log: Log<[u8], Raw> = options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap();
    log.append(b"durable").unwrap();
    for nth in 0..20 {
        storage.fail_sync(nth, |_| false);
    }
    let refused = log.append(b"lost").unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
    assert!(matches!(log.append(b"later").unwrap_err(), Error::Poisoned { .. }));
    assert_eq!(log.durable().map(Lsn::get), Some(1));
}

/// A failed write can also destroy acknowledged records in its block. The new segment holds them,
/// so a power cut after the failover loses nothing (hole 17 of the model).
#[test]
pub(crate) fn records_in_a_block_spoiled_by_a_failed_write_are_carried() {
    let mut spoiled = 0;
    for nth in 6..60 {
        let storage = MemStorage::new();
        storage.spoil_sync(nth, 512);
        let life = live(&storage, Level::Synced);
        if life.failovers == 0 {
            continue;
        }
        spoiled += 1;
        assert_eq!(life.acknowledged, RECORDS, "sync {nth}");
        check(storage.power_cut(|_| false), RECORDS, &format!("sync {nth} spoils, power cut"));
        check(storage.kill(), RECORDS, &format!("sync {nth} spoils, killed"));
    }
    assert!(spoiled > 20, "{spoiled}");
}

/// The same with records of an earlier process in that block.
#[test]
pub(crate) fn spoiled_block_of_another_process_is_carried() {
    let mut spoiled = 0;
    for good in 1..RECORDS {
        let storage = MemStorage::new();
        let open = || -> Log<[u8], Raw> {
            options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap()
        };
        let log = open();
        for number in 1..=good {
            log.append(&payload(number)).unwrap();
        }
        log.close().unwrap();
        let log = open();
        storage.spoil_sync(0, 512);
        log.append(&payload(good + 1)).unwrap();
        spoiled += log.stats().failovers;
        check(storage.power_cut(|_| false), good + 1, &format!("{good} records, power cut"));
        check(storage.kill(), good + 1, &format!("{good} records, killed"));
    }
    assert!(spoiled > 20, "{spoiled}");
}

/// Returns the device of a process killed between the write of record `good + 1` and its sync.
fn killed_before_a_sync(good: u64, sync: impl FnOnce(&MemStorage)) -> MemStorage {
    let storage = MemStorage::new();
    let log: Log<[u8], Raw> = options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap();
    for number in 1..=good {
        log.append(&payload(number)).unwrap();
    }
    sync(&storage);
    log.append(&payload(good + 1)).unwrap_err();
    storage.kill()
}

/// Found by simulation. The image: the page cache shows a record that was not synced, and the sync
/// of the next open garbles the block that the record shares with acknowledged ones.
#[test]
pub(crate) fn records_in_a_block_spoiled_by_an_open_are_carried() {
    let mut spoiled = 0;
    for (good, nth) in (1..RECORDS).flat_map(|good| (0..4).map(move |nth| (good, nth))) {
        let storage = killed_before_a_sync(good, |storage| storage.stop_after(storage.steps() + 1));
        storage.spoil_sync(nth, 512);
        // A failed directory sync ends the open.
        let opened: Result<Log<[u8], Raw>, _> =
            options(Level::Synced).open_in(Arc::new(storage.clone()));
        drop(opened);
        let left = storage.power_cut(|_| false);
        spoiled += u64::from(left.bytes("000000000001.seg") != storage.bytes("000000000001.seg"));
        check(left, good, &format!("{good} records, sync {nth} spoils"));
    }
    assert!(spoiled > 20, "{spoiled}");
}

/// The same, but the earlier process had a failed sync, and was killed before it could write the
/// records to another segment. The next open notices nothing.
#[test]
pub(crate) fn records_in_a_block_spoiled_by_a_killed_process_are_carried() {
    let mut spoiled = 0;
    for good in 1..RECORDS {
        let storage = killed_before_a_sync(good, |storage| {
            storage.spoil_sync(0, 512);
            storage.stop_after(storage.steps() + 2);
        });
        let lost = storage.power_cut(|_| false);
        spoiled += u64::from(lost.bytes("000000000001.seg") != storage.bytes("000000000001.seg"));
        let log: Log<[u8], Raw> =
            options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap();
        drop(log);
        check(storage.power_cut(|_| false), good, &format!("{good} records"));
    }
    assert!(spoiled > 10, "{spoiled}");
}

/// A mark whose sync failed is none, and a batch that no segment took is not counted.
#[test]
fn what_failed_is_not_counted() {
    let storage = MemStorage::new();
    let log: Log<[u8], Raw> = options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap();
    log.append(&payload(1)).unwrap();
    storage.fail_sync(0, |_| false);
    log.confirm().unwrap();
    assert_eq!((log.stats().marks, log.stats().failovers), (0, 1));
    let before = log.stats();
    (0..4).for_each(|nth| storage.fail_sync(nth, |_| false));
    let told = log.append(&payload(2));
    assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
    assert_eq!(log.stats(), before);
}

/// The same for a rotation: after some of these numbers of records, the next one needs another
/// segment.
#[test]
fn rotation_that_failed_is_not_counted() {
    for records in 1..12 {
        let storage = MemStorage::new();
        let log: Log<[u8], Raw> =
            options(Level::Synced).open_in(Arc::new(storage.clone())).unwrap();
        (0..records).for_each(|_| log.append(&[7; 700]).map(drop).unwrap());
        let before = log.stats();
        (0..4).for_each(|nth| storage.fail_sync(nth, |_| false));
        let told = log.append(&[7; 700]);
        assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
        assert_eq!(log.stats(), before, "{records} records");
    }
}
