//! Retention by size and by age: the excess is removed automatically, never what a checkpoint may
//! need, and a crash on the way loses nothing else.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::hooked::{Hook, Hooked};
use common::watched::{Call, Watch, Watched};
use common::{judge, lsn};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Log, LogReader, Lsn, Options, Raw, Retention};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::{MemStorage, What};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

type TestLog = Log<[u8], Raw>;

const SEGMENT: u64 = 4608;
/// How many of these records a segment holds at most.
const RECORDS: u64 = 8;
/// How many it holds at least: its first batch can fill its last block.
const RECORDS_LEAST: u64 = 4;

fn options(seed: u64, keep: Option<Retention>, clock: &Arc<ManualClock>) -> Options {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 1024 };
    let options = Options::new()
        .geometry(geometry, SEGMENT)
        .segment_size(SEGMENT)
        .idle_mark(None)
        .preallocate(false)
        .env(clock.clone(), Arc::new(SeededEntropy::new(seed)));
    match keep {
        Some(keep) => options.retention(keep),
        None => options,
    }
}

fn open(storage: &MemStorage, keep: impl Into<Option<Retention>>) -> Result<TestLog, Error> {
    open_at(storage, keep, &Arc::new(ManualClock::new()))
}

fn open_at(
    storage: &MemStorage,
    keep: impl Into<Option<Retention>>,
    clock: &Arc<ManualClock>,
) -> Result<TestLog, Error> {
    options(storage.steps() + 1, keep.into(), clock).open_in(Arc::new(storage.clone()))
}

fn payload(number: u64) -> Vec<u8> {
    format!("{number} {}", "x".repeat(200)).into_bytes()
}

fn append(log: &TestLog, count: u64) -> Result<(), Error> {
    for _ in 0..count {
        let next = log.durable().map_or(1, |last| last.get() + 1);
        log.append(&payload(next))?;
    }
    Ok(())
}

fn ring(segments: u64) -> Retention {
    Retention::new().max_bytes(segments * SEGMENT).without_checkpoints()
}

fn reader(storage: impl Storage + 'static) -> LogReader<[u8], Raw> {
    LogReader::open_in(Arc::new(storage)).unwrap()
}

fn oldest(storage: &MemStorage) -> u64 {
    reader(storage.clone()).oldest().unwrap().get()
}

/// Returns how many records follow from `from` on without a gap, each as it was written.
fn span(log: &TestLog, from: u64) -> u64 {
    let mut next = from;
    for entry in log.read_from(lsn(from)).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        assert_eq!((lsn.get(), bytes), (next, payload(next)));
        next += 1;
    }
    next - from
}

/// The size of all segment files, in bytes.
fn size(storage: &MemStorage) -> u64 {
    let names = storage.names().into_iter().filter(|name| name.contains(".seg"));
    names.map(|name| storage.bytes(&name).unwrap().len() as u64).sum()
}

#[test]
fn retention_keeps_the_size_and_the_newest_records() {
    for segments in [0, 1, 3, 7] {
        let storage = MemStorage::new();
        let log = open(&storage, ring(segments)).unwrap();
        for number in 1..=300 {
            append(&log, 1).unwrap();
            assert!(size(&storage) <= (segments + 1) * SEGMENT, "{segments}, record {number}");
        }
        let oldest = oldest(&storage);
        assert!(300 - oldest < (segments + 1) * RECORDS, "{segments}: {oldest} is the oldest");
        assert!(size(&storage) > segments * SEGMENT * 4 / 5, "{segments}: {}", size(&storage));
        assert_eq!(span(&log, oldest), 301 - oldest);
        assert_eq!(log.stats().pruned, log.stats().rolls - live_segments(&storage) + 1);
        log.close().unwrap();
        assert_eq!(judge(&storage).unwrap().verdict, Verdict::Clean);
        let log = open(&storage, ring(segments)).unwrap();
        assert_eq!((log.recovery().first, log.durable()), (Lsn::new(oldest), Lsn::new(300)));
    }
}

fn live_segments(storage: &MemStorage) -> u64 {
    judge(storage).unwrap().summary.segments
}

#[test]
fn records_are_pruned_at_the_maximum_age_and_not_before() {
    let storage = MemStorage::new();
    let clock = Arc::new(ManualClock::new());
    let keep = Retention::new().max_age(Duration::from_secs(60)).without_checkpoints();
    let log = open_at(&storage, keep, &clock).unwrap();
    for number in 1..=300_u64 {
        clock.advance(Duration::from_secs(1));
        append(&log, 1).unwrap();
        let oldest = oldest(&storage);
        assert!(oldest <= number.saturating_sub(60).max(1), "{oldest} is the oldest of {number}");
        assert!(oldest + 60 + 2 * RECORDS > number, "{oldest} is the oldest of {number}");
    }
    let before = oldest(&storage);
    clock.set_wall_us(1);
    append(&log, 30).unwrap();
    assert_eq!(oldest(&storage), before, "a clock that was set back makes nothing old");
    log.close().unwrap();
    clock.set_wall_us(3_600_000_000);
    let log = open_at(&storage, keep, &clock).unwrap();
    assert!(log.stats().pruned > 3, "a log is looked at when it is opened");
    let first = log.recovery().first.unwrap().get();
    assert!(first > 330 - RECORDS && span(&log, first) == 331 - first, "{first}");
}

#[test]
fn nothing_is_pruned_without_a_checkpoint() {
    let storage = MemStorage::new();
    let clock = Arc::new(ManualClock::new());
    let keep = Retention::new().max_bytes(0).max_age(Duration::ZERO);
    let log = open_at(&storage, keep, &clock).unwrap();
    for _ in 0..100 {
        clock.advance(Duration::from_secs(1_000_000));
        append(&log, 1).unwrap();
    }
    drop(log);
    let log = open_at(&storage, keep, &clock).unwrap();
    assert_eq!((oldest(&storage), span(&log, 1), log.stats().pruned), (1, 100, 0));
    log.checkpoint(lsn(101)).unwrap();
    assert!(oldest(&storage) > 100 - RECORDS, "the checkpoint is the moment to look");
    assert!(log.stats().pruned > 5);
}

#[test]
fn records_needed_by_the_older_checkpoint_are_not_pruned() {
    let storage = MemStorage::new();
    let log = open(&storage, Retention::new().max_bytes(0)).unwrap();
    append(&log, 40).unwrap();
    log.checkpoint(lsn(31)).unwrap();
    for (checkpoint, before) in [(75, 31), (110, 75), (145, 110), (145, 145)] {
        append(&log, 35).unwrap();
        log.checkpoint(lsn(checkpoint)).unwrap();
        let oldest = oldest(&storage);
        assert!(oldest <= before, "{oldest}, and {before} is needed");
        assert!(oldest + RECORDS > before, "{oldest}, and only {before} is needed");
        append(&log, 1).unwrap();
    }
    assert!(log.stats().rolls > 14);
    let oldest = oldest(&storage);
    assert_eq!(span(&log, oldest), 185 - oldest);
    // A checkpoint that moves back keeps the records that are still there from then on.
    log.checkpoint(lsn(oldest)).unwrap();
    append(&log, 100).unwrap();
    assert_eq!(span(&log, oldest), 285 - oldest);
}

#[test]
fn frequent_checkpoints_keep_the_log_within_its_size() {
    let storage = MemStorage::new();
    let log = open(&storage, Retention::new().max_bytes(3 * SEGMENT)).unwrap();
    for number in 1..=300 {
        append(&log, 1).unwrap();
        log.checkpoint(lsn(number)).unwrap();
        assert!(size(&storage) <= 4 * SEGMENT, "record {number}");
    }
    assert!(300 - oldest(&storage) > 3 * RECORDS_LEAST, "no more goes than must");
}

/// The devices that a crash now may leave.
fn crashes(storage: &MemStorage) -> [MemStorage; 4] {
    [
        storage.kill(),
        storage.power_cut(|_| false),
        storage.power_cut(|_| true),
        storage.power_cut(|item| item.what == What::Directory),
    ]
}

type Then = fn(&TestLog, u64) -> Result<(), Error>;

/// Appends records, calls `then` after each append, and adds the oldest record to `told`.
fn run(
    storage: &MemStorage,
    (keep, then): (Retention, Then),
    told: &mut Vec<u64>,
) -> Result<(), Error> {
    let log = open(storage, keep)?;
    let beside = LogReader::<[u8], Raw>::open_in(Arc::new(storage.clone()))?;
    for number in 1..=60 {
        append(&log, 1)?;
        then(&log, number)?;
        told.push(beside.oldest()?.get());
    }
    log.close()
}

#[test]
fn crash_during_retention_loses_no_retained_record() {
    let checkpoints: Then = |log, number| match number % 10 {
        0 => log.checkpoint(lsn(number - 4)),
        _ => Ok(()),
    };
    let cases: [(Retention, Then); 2] =
        [(ring(2), |_, _| Ok(())), (Retention::new().max_bytes(0), checkpoints)];
    for (case, workload) in cases.into_iter().enumerate() {
        let mut plan = vec![];
        run(&MemStorage::new(), workload, &mut plan).unwrap();
        assert!(plan.last() > Some(&20) && plan.is_sorted(), "{plan:?}");
        let (mut pruning, mut left_behind) = (0, 0);
        for steps in 1.. {
            let storage = MemStorage::new();
            storage.stop_after(steps);
            let mut told = vec![];
            let done = run(&storage, workload, &mut told);
            assert!(plan.starts_with(&told), "step {steps}");
            let acknowledged = told.len();
            let least = told.last().copied().unwrap_or(1);
            let most = plan.get(acknowledged).copied().unwrap_or(least);
            for (way, crashed) in crashes(&storage).into_iter().enumerate() {
                let case = format!("case {case}, step {steps}, way {way}");
                let log = open(&crashed, None).unwrap_or_else(|e| panic!("{case}: {e}"));
                let first = oldest(&crashed);
                assert!((least..=most).contains(&first), "{case}: {first} {least} {most}");
                let count = span(&log, first);
                assert!(first + count > acknowledged as u64, "{case}: {first} {count}");
                pruning += u32::from(least < most);
                drop(log);
                left_behind += u32::from(has_segments_behind(&crashed));
                let log = open(&crashed, ring(2)).unwrap();
                append(&log, 3 * RECORDS).unwrap();
                assert!(size(&crashed) <= 3 * SEGMENT, "{case}: what a crash left goes, too");
            }
            if done.is_ok() {
                break;
            }
        }
        assert!(pruning > 20 && left_behind > 3, "{pruning} {left_behind}");
    }
}

/// Whether there are still files of pruned segments.
fn has_segments_behind(storage: &MemStorage) -> bool {
    let files = storage.names().iter().filter(|name| name.contains(".seg")).count() as u64;
    files > live_segments(storage)
}

#[test]
fn oldest_record_is_the_same_after_reopening() {
    for keep in [None, Some(ring(2))] {
        let storage = MemStorage::new();
        let log = open(&storage, ring(2)).unwrap();
        append(&log, 100).unwrap();
        drop(log);
        let first = oldest(&storage);
        for _ in 0..5 {
            let log = open(&storage, keep).unwrap();
            assert_eq!((log.recovery().first, log.durable()), (Lsn::new(first), Lsn::new(100)));
            drop(log);
        }
        assert_eq!(oldest(&storage), first);
    }
}

/// Reads from record `from` on, and checks that each record is the next one. Returns the record at
/// which reading ended, or that was pruned.
fn read_on(entries: impl Iterator<Item = Result<(Lsn, Vec<u8>), Error>>, from: u64) -> u64 {
    let mut next = from;
    for entry in entries {
        match entry {
            Ok((lsn, bytes)) => assert_eq!((lsn.get(), bytes), (next, payload(next))),
            Err(Error::Pruned { oldest, .. }) => {
                assert!(oldest > lsn(next), "{oldest} is there, and {next} was asked for");
                return next;
            }
            Err(other) => panic!("record {next}: {other}"),
        }
        next += 1;
    }
    next
}

#[test]
fn reader_in_the_pruned_part_gets_pruned() {
    let storage = MemStorage::new();
    let log = open(&storage, ring(2)).unwrap();
    append(&log, 30).unwrap();
    let first = oldest(&storage);
    let mut here = log.read_from(lsn(first)).unwrap();
    let mut beside = reader(storage.clone()).read_from(lsn(first)).unwrap();
    let mut follower = reader(storage.clone()).follow(lsn(first)).unwrap();
    assert!(here.next().is_some() && beside.next().is_some());
    assert!(follower.next_within(Duration::ZERO).unwrap().is_some());
    append(&log, 100).unwrap();
    let told = |result: Option<Result<_, Error>>| matches!(result, Some(Err(Error::Pruned { .. })));
    assert!(told(here.find(Result::is_err)));
    assert!(told(beside.find(Result::is_err)));
    let mut onward = std::iter::from_fn(|| follower.next_within(Duration::ZERO).transpose());
    assert!(told(onward.find(Result::is_err)));
    assert!(matches!(log.read_from(lsn(first)), Err(Error::Pruned { .. })));
}

/// A log that keeps only its tail, on a device with a hook before each read call.
fn hooked(storage: &MemStorage, records: u64) -> (Arc<dyn Storage>, Arc<Hook>, Arc<TestLog>) {
    let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || {});
    let hooked: Arc<dyn Storage> = Arc::new(hooked);
    let options = options(1, Some(ring(0)), &Arc::new(ManualClock::new()));
    let log: TestLog = options.open_in(hooked.clone()).unwrap();
    append(&log, records).unwrap();
    (hooked, hook, Arc::new(log))
}

/// The writer rotates and prunes just before each device call of a verification: a file that is
/// gone by then was pruned.
#[test]
fn verify_is_correct_during_any_step_of_retention() {
    for (records, more) in (1..=2 * RECORDS).flat_map(|records| [(records, 1), (records, 20)]) {
        for look in 0.. {
            let storage = MemStorage::new();
            let (hooked, hook, log) = hooked(&storage, records);
            let beside = log.clone();
            hook.plan(look, move || append(&beside, more).unwrap());
            let found = seawall::Maintenance::on(&hooked).verify();
            let case = format!("{records} records and {more}, before look {look}");
            assert_eq!(found.map(|found| found.verdict).ok(), Some(Verdict::Clean), "{case}");
            if hook.is_waiting() {
                break;
            }
        }
    }
}

/// The writer rotates and prunes just before each device call of a reader that begins at the oldest
/// record, or at the next one to be written.
#[test]
fn reader_sees_no_damage_during_any_step_of_retention() {
    for (records, more) in (1..=2 * RECORDS).flat_map(|records| [(records, 1), (records, 20)]) {
        for (here, from_end) in [(false, false), (false, true), (true, false), (true, true)] {
            for look in 0.. {
                let storage = MemStorage::new();
                let (hooked, hook, log) = hooked(&storage, records);
                let from = if from_end { records + 1 } else { oldest(&storage) };
                let beside = log.clone();
                hook.plan(look, move || append(&beside, more).unwrap());
                let started = if here {
                    log.read_from(lsn(from))
                } else {
                    LogReader::open_in(hooked).and_then(|reader| reader.read_from(lsn(from)))
                };
                match started {
                    Ok(entries) => drop(read_on(entries, from)),
                    Err(Error::Pruned { oldest, .. }) => assert!(oldest > lsn(from)),
                    Err(other) => panic!("{records} and {more}, here: {here}, {look}: {other}"),
                }
                if hook.is_waiting() {
                    assert!(look > 3, "{look}");
                    break;
                }
            }
        }
    }
}

/// The log is verified just before each device call of the writer during a prune.
#[test]
fn verify_during_retention_finds_no_damage() {
    let mut pruned = 0;
    for records in 1..=2 * RECORDS {
        for look in 0.. {
            let storage = MemStorage::new();
            let (_, hook, log) = hooked(&storage, records);
            let before = log.stats().pruned;
            let beside = storage.clone();
            hook.plan(look, move || {
                let found = judge(&beside).unwrap();
                let seen = (found.verdict, found.records > 0);
                assert_eq!(seen, (Verdict::Clean, true), "{records}, {look}");
            });
            append(&log, 1).unwrap();
            if hook.is_waiting() {
                break;
            }
            pruned += log.stats().pruned - before;
        }
    }
    assert!(pruned > 1, "{pruned}");
}

#[test]
fn failed_sync_during_retention_poisons_the_log_and_keeps_the_records() {
    let storage = MemStorage::new();
    let log = open(&storage, Retention::new().max_bytes(0)).unwrap();
    append(&log, 60).unwrap();
    storage.fail_sync(2, |_| false);
    assert!(matches!(log.checkpoint(lsn(60)), Err(Error::Poisoned { .. })));
    assert!(matches!(log.append(b"x"), Err(Error::Poisoned { .. })));
    drop(log);
    for crashed in crashes(&storage) {
        let log = open(&crashed, None).unwrap();
        let first = oldest(&crashed);
        assert_eq!(span(&log, first), 61 - first);
    }
}

/// Blocks the writes of the thread that prepares and removes files, until `release`.
#[derive(Debug, Default)]
struct Held {
    may_write: Mutex<bool>,
    changed: Condvar,
}

impl Held {
    fn release(&self) {
        *self.may_write.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Watch for Held {
    fn before(&self, call: Call) {
        let is_write = matches!(call, Call::Write | Call::Sync);
        if is_write && thread::current().name() == Some("seawall-prealloc") {
            let may_write = self.may_write.lock().unwrap();
            drop(self.changed.wait_while(may_write, |may_write| !*may_write).unwrap());
        }
    }
}

/// A log that keeps one segment, just after its first prune, with the preallocator blocked.
fn pruned_beside_commits() -> (MemStorage, Arc<Held>, TestLog) {
    pruned_beside_commits_after(|_| {})
}

/// Like `pruned_beside_commits`, but calls `act` on the new log first.
fn pruned_beside_commits_after(act: fn(&TestLog)) -> (MemStorage, Arc<Held>, TestLog) {
    let device = MemStorage::new();
    let (storage, held) = Watched::by(Held::default(), device.clone());
    let options = options(1, Some(ring(0)), &Arc::new(ManualClock::new())).preallocate(true);
    let log: TestLog = common::maybe_encrypted(options).open_in(Arc::new(storage)).unwrap();
    act(&log);
    while log.stats().pruned == 0 {
        append(&log, 1).unwrap();
    }
    (device, held, log)
}

const FIRST: &str = "000000000001.seg";

/// The first and last record of the log that a crash of the process now leaves.
fn left(device: &MemStorage) -> (u64, u64) {
    let crashed = device.kill();
    let log = open(&crashed, None).unwrap();
    let first = oldest(&crashed);
    (first, first + span(&log, first) - 1)
}

#[test]
fn commits_do_not_wait_for_the_manifest_of_retention() {
    common::within(60, || {
        let (device, held, log) = pruned_beside_commits();
        append(&log, 1).unwrap();
        let last = log.durable().unwrap().get();
        assert_eq!(left(&device), (1, last), "the manifest is not written");
        held.release();
        while device.bytes(FIRST).is_some() {
            thread::yield_now();
        }
        let (first, end) = left(&device);
        assert!(first > 1 && end == last, "{first} {end}");
    });
}

/// Runs `act` while the preallocator is blocked, then releases it in case `act` waits for it.
fn beside_waiting<T: Send>(held: &Held, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let acting = scope.spawn(act);
        for _ in 0..20 {
            if !acting.is_finished() {
                thread::park_timeout(Duration::from_millis(10));
            }
        }
        held.release();
        acting.join().unwrap()
    })
}

/// If the prune wrote its manifest after the checkpoint, it would undo the checkpoint.
#[test]
fn checkpoint_is_written_after_the_manifest_of_retention() {
    common::within(60, || {
        let (device, held, log) = pruned_beside_commits();
        append(&log, 1).unwrap();
        let last = log.durable().unwrap();
        beside_waiting(&held, || log.checkpoint(last).unwrap());
        while device.bytes(FIRST).is_some() {
            thread::yield_now();
        }
        assert_eq!(reader(device.kill()).replay_start().unwrap(), last);
    });
}

/// Retention has removed the segments already, but not durably.
#[test]
fn truncation_is_durable_beside_retention() {
    common::within(60, || {
        let (device, held, log) = pruned_beside_commits();
        let last = log.durable().unwrap();
        let (oldest, left) = beside_waiting(&held, || {
            let oldest = log.truncate_before(last).unwrap();
            (oldest, left(&device.power_cut(|_| false)))
        });
        assert_eq!((left, oldest > Lsn::FIRST), ((oldest.get(), last.get()), true));
    });
}

/// The keys of the segments that retention removes are kept until these no longer count.
#[test]
fn keys_are_kept_until_the_manifest_of_retention_is_written() {
    common::within(60, || {
        common::encrypted(|| {
            let (device, held, log) = pruned_beside_commits_after(|log| {
                append(log, 1).unwrap();
                log.renew_log_key().unwrap();
            });
            device.refuse_writes("manifest", true);
            let renewed = beside_waiting(&held, || log.renew_log_key());
            assert!(matches!(renewed, Err(Error::Poisoned { .. })), "{renewed:?}");
            drop(log);
            device.refuse_writes("manifest", false);
            let left: Arc<dyn Storage> = Arc::new(device.kill());
            let found = common::maintenance(&left).verify().unwrap();
            assert_eq!((&*found.damage, found.first_lsn), (&[][..], Some(Lsn::FIRST)), "{found:?}");
        });
    });
}

#[test]
fn failed_write_of_the_manifest_keeps_the_pruned_files_and_poisons_the_log() {
    common::within(60, || {
        let (device, held, log) = pruned_beside_commits();
        device.refuse_writes("manifest", true);
        held.release();
        let error = loop {
            if let Err(error) = append(&log, 1) {
                break error;
            }
        };
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
        assert!(error.to_string().contains("manifest"), "{error}");
        let last = log.durable().unwrap().get();
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        assert!(device.bytes(FIRST).is_some());
        device.refuse_writes("manifest", false);
        let (first, end) = left(&device);
        // The record of the append that failed may be there.
        assert!(first == 1 && (last..=last + 1).contains(&end), "{first} {end} {last}");
    });
}
