//! Truncation at either end, and checkpoints: durable when the call returns, and truncated records
//! never return.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

mod crashes;

use crate::common;

use common::gate::Gated;
use common::hooked::Hooked;
use common::watched::Call;
use common::{block_on, within};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Log, LogReader, Lsn, Options, Raw, Ticket};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

type TestLog = Log<[u8], Raw>;

fn options(seed: u64) -> Options {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 1024 };
    Options::new()
        .geometry(geometry, 4608)
        .segment_size(4608)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(seed)))
}

fn open(storage: &MemStorage) -> Result<TestLog, Error> {
    options(storage.steps() + 1).open_in(Arc::new(storage.clone()))
}

fn append(log: &TestLog, text: &str, count: u64) -> Result<(), Error> {
    for number in 0..count {
        log.append(format!("{text} {number} {}", "x".repeat(90)).as_bytes())?;
    }
    Ok(())
}

/// The records from `from` on as text, in order.
fn records(log: &TestLog, from: u64) -> Vec<String> {
    let read = log.read_from(lsn(from)).unwrap();
    read.map(|entry| String::from_utf8(entry.unwrap().1).unwrap()).collect()
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

fn verdict(storage: &MemStorage) -> Verdict {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    common::maintenance(&storage).verify().unwrap().verdict
}

#[test]
fn record_is_not_mistaken_for_a_truncated_one_with_its_lsn() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "a", 5).unwrap();
    log.truncate_after(Some(lsn(2))).unwrap();
    for nth in 0..20 {
        storage.fail_sync(nth, |_| false);
    }
    // Number 3 was durable once. This record is not.
    let refused = append(&log, "b", 1).unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
}

/// Found by simulation: a truncation that removed nothing marked all records as confirmed, so the
/// next confirmation wrote no mark. The image: a record whose only evidence is its batch.
#[test]
fn truncation_of_nothing_confirms_nothing() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "a", 1).unwrap();
    log.truncate_after(Some(lsn(1))).unwrap();
    log.confirm().unwrap();
    assert_eq!(log.stats().marks, 1);
    let cut = storage.power_cut(|_| false);
    cut.edit("000000000001.seg", |bytes| bytes[4 * 512 + 1024..][..512].fill(0));
    assert_eq!(verdict(&cut), Verdict::Lost);
}

/// Found by simulation: closing a poisoned log rewrote the manifest, beginning with the intact
/// slot. The image: one slot garbled by the failed write, the other by the close.
#[test]
fn close_of_a_poisoned_log_writes_nothing() {
    for drop_it in [false, true] {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "a", 3).unwrap();
        storage.spoil_sync(0, 512);
        assert!(matches!(log.checkpoint(lsn(2)), Err(Error::Poisoned { .. })));
        storage.spoil_sync(0, 512);
        let steps = storage.steps();
        if drop_it {
            drop(log);
        } else {
            assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        }
        assert_eq!(storage.steps(), steps, "nothing is written");
        assert_eq!(verdict(&storage.power_cut(|_| false)), Verdict::Clean);
    }
}

/// Found by simulation: a truncation was complete except for the last directory sync, and readers
/// of its handle reported the truncated records as lost. The image: the log after the truncation,
/// intact.
#[test]
fn truncation_with_a_failed_sync_shows_the_log_before_or_after_it() {
    for target in [2, 6, 14] {
        let mut poisoned = 0;
        for nth in 0..10 {
            let storage = MemStorage::new();
            let log = open(&storage).unwrap();
            append(&log, "a", 15).unwrap();
            let all = records(&log, 1);
            let mut follower = log.follow(lsn(1)).unwrap();
            storage.fail_sync(nth, |_| true);
            poisoned += u64::from(log.truncate_after(Some(lsn(target))).is_err());
            let elsewhere: LogReader<[u8], Raw> =
                LogReader::open_in(Arc::new(storage.clone())).unwrap();
            let elsewhere = elsewhere.read_from(lsn(1)).unwrap();
            let elsewhere = elsewhere.map(|entry| String::from_utf8(entry.unwrap().1).unwrap());
            let here = records(&log, 1);
            for found in [&here, &elsewhere.collect()] {
                let count = found.len();
                assert!(count == 15 || count == usize::try_from(target).unwrap(), "{count}");
                assert_eq!(found[..], all[..count], "sync {nth}");
            }
            // All records that the handle calls durable can be read.
            let count = u64::try_from(here.len()).unwrap();
            assert_eq!(log.durable(), Lsn::new(count), "sync {nth}");
            let seen = within(20, move || {
                std::iter::from_fn(|| match follower.next_within(Duration::ZERO) {
                    // The follower began before the truncation.
                    Err(Error::Poisoned { .. } | Error::Rewound { .. }) => None,
                    found => found.unwrap().map(|(at, _)| at),
                })
                .count()
            });
            assert!(seen >= here.len(), "sync {nth}: {seen}");
            for number in 1..=15 {
                assert_eq!(log.get(lsn(number)).unwrap().is_some(), number <= count);
            }
        }
        assert!(poisoned > 0, "{target}");
    }
}

/// Found by `appends_return_beside_a_cut` of seawall-scheduled: a waiter that woke late, or checked
/// late, waited until another caller's record had the number.
#[test]
fn waiter_of_a_truncated_record_is_released() {
    for wait in [Ticket::wait, block_on] {
        within(20, move || {
            let log = open(&MemStorage::new()).unwrap();
            let (kept, cut) = (log.submit(b"kept").unwrap(), log.submit(b"cut").unwrap());
            log.truncate_after(Some(lsn(1))).unwrap();
            assert_eq!((wait(kept).unwrap(), wait(cut).unwrap()), (lsn(1), lsn(2)));
            assert_eq!(log.confirm().unwrap(), Some(lsn(1)));
            assert_eq!(records(&log, 1), ["kept"]);
        });
    }
}

#[test]
fn truncated_records_never_return_and_their_lsns_are_reused() {
    for last in 0..30 {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "old", 30).unwrap();
        log.truncate_after(Lsn::new(last)).unwrap();
        assert_eq!(log.durable(), Lsn::new(last));
        append(&log, "new", 3).unwrap();
        drop(log);
        assert_eq!(verdict(&storage), Verdict::Clean);
        let log = open(&storage).unwrap();
        let found = records(&log, 1);
        assert_eq!(found.len() as u64, last + 3, "cut behind {last}");
        let old = found.iter().filter(|text| text.starts_with("old")).count();
        assert_eq!(old as u64, last, "cut behind {last}");
    }
}

#[test]
fn emptied_log_is_empty_and_opens() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 10).unwrap();
    log.truncate_after(None).unwrap();
    drop(log);
    let log = open(&storage).unwrap();
    assert_eq!((log.durable(), records(&log, 1).len()), (None, 0));
    assert_eq!(log.append(b"first").unwrap(), Lsn::FIRST);
}

#[test]
fn reading_a_pruned_record_returns_pruned() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 60).unwrap();
    let before = storage.names().len();
    let oldest = log.truncate_before(lsn(40)).unwrap();
    assert!(oldest <= lsn(40) && oldest > lsn(20), "{oldest}");
    assert!(storage.names().len() < before);
    let refused = log.read_from(Lsn::FIRST).unwrap_err();
    assert!(matches!(refused, Error::Pruned { oldest: o, .. } if o == oldest), "{refused}");
    assert_eq!(records(&log, oldest.get()).len() as u64, 61 - oldest.get());
    assert!(matches!(log.truncate_after(Lsn::new(1)), Err(Error::Pruned { .. })));
    drop(log);
    assert_eq!(verdict(&storage), Verdict::Clean);
    let log = open(&storage).unwrap();
    assert_eq!(log.recovery().first, Some(oldest));
    assert_eq!(log.append(b"next").unwrap(), lsn(61));
}

#[test]
fn checkpoint_beyond_the_end_is_refused() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 3).unwrap();
    log.checkpoint(lsn(4)).unwrap();
    assert!(matches!(log.checkpoint(lsn(5)), Err(Error::InvalidOption { .. })));
    assert_eq!(log.append(b"still usable").unwrap(), lsn(4));
}

#[test]
fn checkpoint_at_a_pruned_record_is_refused() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 60).unwrap();
    let oldest = log.truncate_before(lsn(50)).unwrap();
    log.checkpoint(lsn(55)).unwrap();
    for pruned in [lsn(1), oldest.previous().unwrap()] {
        let refused = log.checkpoint(pruned).unwrap_err();
        assert!(
            matches!(refused, Error::Pruned { oldest: left, .. } if left == oldest),
            "{refused}"
        );
        assert_eq!(log.replay_start(), lsn(55), "the checkpoint stays");
    }
    log.checkpoint(oldest).unwrap();
    assert_eq!(records(&log, log.replay_start().get()).len() as u64, 61 - oldest.get());
}

/// Damages the record that contains this text, in every file that has it.
fn spoil(storage: &MemStorage, text: &str) {
    for name in storage.names().iter().filter(|name| name.contains(".seg")) {
        let bytes = storage.bytes(name).unwrap();
        let found = bytes.windows(text.len()).position(|part| part == text.as_bytes());
        if let Some(byte) = found {
            storage.edit(name, |bytes| *bytes.get_mut(byte).unwrap() ^= 1);
        }
    }
}

/// Whether the log opens after a power cut and damage to one record.
fn opens_with_spoilt(storage: &MemStorage, text: &str) -> bool {
    let left = storage.power_cut(|_| false);
    spoil(&left, text);
    match open(&left) {
        Ok(_) => true,
        Err(Error::Damaged { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn checkpoint_is_durable_and_lowered_by_a_truncation() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 60).unwrap();
    assert!(!opens_with_spoilt(&storage, "old 3 "), "without a checkpoint all is judged");
    log.checkpoint(lsn(50)).unwrap();
    let device: Arc<dyn Storage> = Arc::new(storage.power_cut(|_| false));
    assert_eq!(common::maintenance(&device).verify().unwrap().summary.checkpoint, Lsn::new(50));
    assert!(opens_with_spoilt(&storage, "old 3 "), "what stands before it is not judged");
    assert!(!opens_with_spoilt(&storage, "old 52 "));
    log.truncate_after(Lsn::new(20)).unwrap();
    append(&log, "new", 60).unwrap();
    assert!(!opens_with_spoilt(&storage, "new 2 "), "nobody said that it is not needed");
}

/// Readers of this handle and of another process, with a truncation just before each of their
/// reads.
#[test]
fn reader_during_a_truncation_finds_no_damage() {
    let mut raced = 0;
    for (last, here) in [0, 1, 7, 25].into_iter().flat_map(|last| [(last, true), (last, false)]) {
        for look in 0.. {
            let storage = MemStorage::new();
            let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || ());
            let device: Arc<dyn Storage> = Arc::new(hooked);
            let log: Arc<TestLog> = Arc::new(options(1).open_in(device.clone()).unwrap());
            append(&log, "old", 30).unwrap();
            let beside = log.clone();
            hook.plan(look, move || beside.truncate_after(Lsn::new(last)).unwrap());
            let entries = if here {
                log.read_from(lsn(1)).unwrap()
            } else {
                LogReader::open_in(device).and_then(|reader| reader.read_from(lsn(1))).unwrap()
            };
            let what = format!("cut behind {last} before look {look}, here: {here}");
            let mut found = 0;
            for entry in entries {
                match entry {
                    Ok((lsn, _)) => found = lsn.get(),
                    Err(Error::Rewound { next, .. }) => assert_eq!(next.get(), last + 1, "{what}"),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            assert!((last..=30).contains(&found), "{what}: {found}");
            if hook.is_waiting() {
                assert!(look > 3, "{what}");
                break;
            }
            raced += 1;
        }
    }
    assert!(raced > 50, "{raced}");
}

/// Found by simulation. The image: two truncations in one segment, neither of which could seal it.
/// The second one happens just before each read of a reader.
#[test]
fn reader_during_a_truncation_shows_nothing_that_an_earlier_one_removed() {
    let mut raced = 0;
    for here in [true, false] {
        for look in 0.. {
            let storage = MemStorage::new();
            let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || ());
            let device: Arc<dyn Storage> = Arc::new(hooked);
            let log: Arc<TestLog> = Arc::new(options(1).open_in(device.clone()).unwrap());
            append(&log, "old", 10).unwrap();
            let cut = move |log: &TestLog, last| {
                let holder = storage.names().into_iter().rfind(|name| name.contains(".seg"));
                let holder = holder.filter(|_| last == 8).unwrap_or("000000000001.seg".to_owned());
                storage.refuse_writes(&holder, true);
                log.truncate_after(Some(lsn(last))).unwrap();
                storage.refuse_writes(&holder, false);
            };
            cut(&log, 8);
            append(&log, "new", 2).unwrap();
            let beside = log.clone();
            hook.plan(look, move || cut(&beside, 5));
            let entries = if here {
                log.read_from(lsn(1)).unwrap()
            } else {
                LogReader::open_in(device).and_then(|reader| reader.read_from(lsn(1))).unwrap()
            };
            for entry in entries {
                match entry {
                    Ok((number, bytes)) => {
                        let is_old = bytes.starts_with(b"old");
                        assert!(number <= lsn(8) || !is_old, "look {look}, here: {here}: {number}");
                    }
                    Err(Error::Rewound { next, .. }) => assert_eq!(next, lsn(6)),
                    Err(error) => panic!("look {look}, here: {here}: {error}"),
                }
            }
            if hook.is_waiting() {
                break;
            }
            raced += 1;
        }
    }
    assert!(raced > 20, "{raced}");
}

/// Holds a truncation after it has removed one of several segments. It continues only when the
/// reader waits for it, or is done.
#[test]
fn reader_waits_for_the_end_of_a_truncation_in_progress() {
    for last in [1, 3] {
        let (gated, gate) = Gated::before(Call::Remove, MemStorage::new());
        let log: Arc<TestLog> = Arc::new(options(1).open_in(Arc::new(gated)).unwrap());
        append(&log, "old", 30).unwrap();
        let mut entries = log.read_from(lsn(1)).unwrap();
        assert_eq!(entries.next().unwrap().unwrap().0, lsn(1));
        gate.shut();
        gate.pass_one();
        let beside = log.clone();
        let cut = thread::spawn(move || beside.truncate_after(Lsn::new(last)));
        while !gate.is_waited_at() {
            thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        let reader = thread::spawn(move || {
            let found: Vec<_> = entries.collect();
            let _ = tell.send(());
            found
        });
        let _ = told.recv_timeout(Duration::from_millis(200));
        gate.open();
        cut.join().unwrap().unwrap();
        for entry in reader.join().unwrap() {
            match entry {
                Ok((lsn, _)) => assert!(lsn.get() <= 30),
                Err(Error::Rewound { next, .. }) => assert_eq!(next.get(), last + 1),
                Err(error) => panic!("cut behind {last}: {error}"),
            }
        }
    }
}

#[test]
fn truncation_at_damage_is_refused_and_changes_nothing() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 30).unwrap();
    // Record 4 is in the first segment, like record 6.
    storage.edit("000000000001.seg", |bytes| {
        let at = bytes.windows(6).position(|text| text == b"old 3 ").unwrap();
        bytes[at] ^= 1;
    });
    let (names, refused) = (storage.names(), log.truncate_after(Some(lsn(6))));
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    assert_eq!((log.durable(), storage.names()), (Lsn::new(30), names));
    assert_eq!(records(&log, 25).len(), 6);
    assert_eq!(log.append(b"next").unwrap(), lsn(31));
    log.truncate_after(Some(lsn(25))).unwrap();
    assert_eq!(log.append(b"again").unwrap(), lsn(26));
}
