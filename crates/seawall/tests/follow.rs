//! Following a log: each record once, in order, across rotations, prunes and restarts of the
//! writer.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::gate::Gated;
use common::hooked::Hooked;
use common::within;
use seawall::format::Geometry;
use seawall::{Error, Log, LogReader, Lsn, Options, Raw};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

type TestLog = Log<[u8], Raw>;

fn open(storage: &MemStorage, seed: u64) -> TestLog {
    open_in(Arc::new(storage.clone()), seed)
}

fn open_in(storage: Arc<dyn Storage>, seed: u64) -> TestLog {
    with_segments(16_384, 32_768, seed).open_in(storage).unwrap()
}

/// A log whose first segment has size `first`, and whose largest has size `max`.
fn with_segments(first: u64, max: u64, seed: u64) -> Options {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 4096 };
    Options::new()
        .geometry(geometry, first)
        .segment_size(max)
        .idle_mark(None)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(seed)))
}

fn payload(number: u64) -> Vec<u8> {
    format!("{number} {}", "y".repeat(60)).into_bytes()
}

#[test]
fn follower_process_sees_each_record_once_across_rotations_and_restarts() {
    const RECORDS: u64 = 4_000;
    let storage = MemStorage::new();
    drop(open(&storage, 1));
    let position = AtomicU64::new(1);
    // Limits how far the writer gets ahead, however threads are scheduled: so there is something to
    // prune.
    let (ahead, seen) = sync_channel(200);
    let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage.clone())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let ahead = ahead;
            for life in 0..4 {
                let log = open(&storage, 2 + life);
                for number in 1..=RECORDS / 4 {
                    log.append(&payload(life * (RECORDS / 4) + number)).unwrap();
                    if ahead.send(()).is_err() {
                        return;
                    }
                    if number % 100 == 0 {
                        let read = Lsn::new(position.load(Ordering::SeqCst)).unwrap();
                        log.truncate_before(read).unwrap();
                    }
                }
            }
        });
        // Moved here, so that the writer ends if this thread fails.
        let seen = seen;
        let mut follower = reader.follow(Lsn::FIRST).unwrap();
        for number in 1..=RECORDS {
            let (lsn, bytes) = follower.next_within(LONG).unwrap().expect("it comes in time");
            assert_eq!((lsn.get(), bytes), (number, payload(number)));
            position.store(number + 1, Ordering::SeqCst);
            seen.recv().unwrap();
        }
        assert_eq!(follower.next_within(Duration::ZERO).unwrap(), None);
    });
    assert!(reader.oldest().unwrap() > Lsn::FIRST, "something was pruned");
}

#[test]
fn follower_in_process_is_woken_and_ends_with_the_log() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    let mut follower = log.follow(Lsn::FIRST).unwrap();
    std::thread::scope(|scope| {
        let seen = scope.spawn(move || {
            let mut seen = 0;
            while let Some((lsn, bytes)) = follower.next_within(LONG).unwrap() {
                seen += 1;
                assert_eq!((lsn.get(), bytes), (seen, payload(seen)));
            }
            seen
        });
        for number in 1..=1_000 {
            log.append(&payload(number)).unwrap();
        }
        log.close().unwrap();
        assert_eq!(seen.join().unwrap(), 1_000);
    });
}

#[test]
fn follower_overtaken_by_a_truncation_gets_an_error() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    for number in 1..=10 {
        log.append(&payload(number)).unwrap();
    }
    let mut follower = log.follow(Lsn::FIRST).unwrap();
    for _ in 1..=10 {
        follower.next_within(LONG).unwrap().unwrap();
    }
    log.truncate_after(Lsn::new(4)).unwrap();
    let told = within(20, move || follower.next_within(LONG).unwrap_err());
    assert!(matches!(told, Error::Rewound { next, .. } if next.get() == 5), "{told}");
}

/// The follower waits for the next record while records before it are truncated and replaced: by
/// as many, or in one batch by more, so that its position exists again. It may not have read any
/// record itself.
#[test]
fn truncation_is_reported_to_a_follower_that_waits() {
    for (from, replaced) in [(1, 1), (1, 3), (4, 1), (4, 2), (4, 3)] {
        let storage = MemStorage::new();
        let log = open(&storage, 1);
        for number in 1..=3 {
            log.append(&payload(number)).unwrap();
        }
        let mut follower = log.follow(Lsn::new(from).unwrap()).unwrap();
        let waits = std::thread::spawn(move || {
            for _ in from..=3 {
                follower.next_within(LONG).unwrap().unwrap();
            }
            let told = [follower.next_record(), follower.next_record()];
            told.map(|told| told.unwrap_err())
        });
        // The follower may reach its wait before or after the truncation.
        std::thread::park_timeout(Duration::from_millis(20));
        log.truncate_after(Lsn::new(3 - replaced)).unwrap();
        let set = vec![b"another".as_slice(); usize::try_from(replaced).unwrap()];
        log.append_batch(set).unwrap();
        for told in within(20, move || waits.join().unwrap()) {
            let is_told = matches!(told, Error::Rewound { next, .. } if next.get() == 4 - replaced);
            assert!(is_told, "from {from}, {replaced} replaced: {told}");
        }
    }
}

/// The image: when the follower reads, the log has grown past its position again.
#[test]
fn truncation_is_reported_to_a_follower_after_the_log_has_regrown() {
    for (cut, here) in (0..=12).flat_map(|cut| [(cut, true), (cut, false)]) {
        let storage = MemStorage::new();
        let log = open(&storage, 1);
        (1..=10).for_each(|number| assert_eq!(log.append(&payload(number)).unwrap().get(), number));
        let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage.clone())).unwrap();
        let mut follower =
            if here { log.follow(Lsn::FIRST) } else { reader.follow(Lsn::FIRST) }.unwrap();
        for _ in 1..=10 {
            follower.next_within(LONG).unwrap().unwrap();
        }
        log.append_batch([payload(11).as_slice(), payload(12).as_slice()]).unwrap();
        log.truncate_after(Lsn::new(cut)).unwrap();
        for _ in 0..20 {
            log.append(b"another").unwrap();
        }
        let next = follower.next_within(LONG);
        match next {
            Err(Error::Rewound { next, .. }) => {
                assert_eq!((next.get(), cut < 10), (cut + 1, true), "cut behind {cut}");
            }
            Ok(Some((lsn, _))) => assert_eq!((lsn.get(), cut >= 10), (11, true), "{cut}"),
            other => panic!("cut behind {cut}, here: {here}: {other:?}"),
        }
    }
}

/// Found by simulation. The image: when the follower reads, the log has grown past its position
/// again, and everything written in place of the truncated records was pruned.
#[test]
fn truncation_is_reported_to_a_follower_after_its_evidence_was_pruned() {
    for (is_cut, here) in [(true, true), (true, false), (false, true), (false, false)] {
        let storage = MemStorage::new();
        let of_one_record = with_segments(7_168, 7_168, 1);
        let log: TestLog = of_one_record.open_in(Arc::new(storage.clone())).unwrap();
        let large = [7; 3_000];
        (1..=3).for_each(|number| assert_eq!(log.append(&large).unwrap().get(), number));
        let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage.clone())).unwrap();
        let mut follower =
            if here { log.follow(Lsn::FIRST) } else { reader.follow(Lsn::FIRST) }.unwrap();
        for _ in 1..=3 {
            follower.next_within(LONG).unwrap().unwrap();
        }
        if is_cut {
            log.truncate_after(Lsn::new(2)).unwrap();
            log.append(&large).unwrap();
        }
        log.append(&large).unwrap();
        assert_eq!(log.truncate_before(Lsn::new(4).unwrap()).unwrap().get(), 4);
        match follower.next_within(LONG) {
            // The writer in this process remembers the truncation.
            Err(Error::Rewound { next, .. }) if here => assert_eq!((next.get(), is_cut), (3, true)),
            Err(Error::Pruned { oldest, .. }) if !here => {
                assert_eq!((oldest.get(), is_cut), (4, true));
            }
            Ok(Some((lsn, _))) => assert_eq!((lsn.get(), is_cut), (4, false)),
            other => panic!("cut: {is_cut}, here: {here}: {other:?}"),
        }
    }
}

#[test]
fn follower_overtaken_by_pruning_gets_an_error() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage.clone())).unwrap();
    log.append(&payload(1)).unwrap();
    let mut follower = reader.follow(Lsn::FIRST).unwrap();
    follower.next_within(LONG).unwrap().unwrap();
    for number in 2..=2_000 {
        log.append(&payload(number)).unwrap();
    }
    let oldest = log.truncate_before(Lsn::new(1_500).unwrap()).unwrap();
    let told = follower.next_within(LONG).unwrap_err();
    assert!(matches!(told, Error::Pruned { oldest: o, .. } if o == oldest), "{told}");
}

#[test]
fn follower_shows_only_durable_records() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 1);
        let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(device)).unwrap();
        let mut followers = [log.follow(Lsn::FIRST).unwrap(), reader.follow(Lsn::FIRST).unwrap()];
        for number in 1..=300 {
            gate.shut();
            std::thread::scope(|scope| {
                scope.spawn(|| log.append(&payload(number)).unwrap());
                gate.wait_for_somebody();
                // The previous record is durable and not read yet.
                let durable = Lsn::new(number - 1);
                let seen = followers.each_mut().map(|follower| {
                    let mut next = || follower.next_within(Duration::ZERO).unwrap();
                    (durable.and_then(|_| next()).map(|(lsn, _)| lsn), next())
                });
                gate.open();
                assert_eq!(seen, [(durable, None), (durable, None)]);
            });
        }
    });
}

#[test]
fn follower_in_process_is_woken_by_each_commit() {
    let log = open(&MemStorage::new(), 1);
    let mut follower = log.follow(Lsn::FIRST).unwrap();
    let (sender, seen) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Some((lsn, _)) = follower.next_within(LONG).unwrap() {
                sender.send(lsn.get()).unwrap();
            }
        });
        for number in 1..=100 {
            log.append(&payload(number)).unwrap();
            assert_eq!(seen.recv_timeout(LONG / 4), Ok(number));
        }
        log.close().unwrap();
    });
}

/// Found by simulation: a follower never stopped searching. The image: a salvaged log whose last
/// record was lost and given up, so it is durable beyond the last readable record.
#[test]
fn follower_skips_records_given_up_at_the_end() {
    within(20, || {
        let device = MemStorage::new();
        let log = common::open(&common::tiny(1), &device).unwrap();
        for number in 1..=2 {
            log.append(&common::payload(number, 1, 300)).unwrap();
        }
        log.close().unwrap();
        let bytes = device.bytes("000000000001.seg").unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        device.edit("000000000001.seg", |bytes| *bytes.get_mut(end).unwrap() ^= 1);
        let mended = MemStorage::new();
        seawall::Maintenance::on(&(Arc::new(device) as _))
            .salvage_to(Arc::new(mended.clone()))
            .unwrap();
        let log = common::open(&common::again(2), &mended).unwrap();
        let reader = LogReader::<[u8], Raw>::open_in(Arc::new(mended)).unwrap();
        for here in [true, false] {
            let follower = if here { log.follow(Lsn::FIRST) } else { reader.follow(Lsn::FIRST) };
            let mut follower = follower.unwrap();
            let mut next = || {
                let next = follower.next_within(Duration::ZERO).unwrap().map(|(lsn, _)| lsn);
                (next, follower.position().get())
            };
            assert_eq!([next(), next(), next()], [(Lsn::new(1), 2), (None, 3), (None, 3)]);
            let lsn = log.append(b"behind").unwrap();
            assert_eq!(next(), (Some(lsn), 4));
            log.truncate_after(lsn.previous()).unwrap();
        }
    });
}

/// A log of records 1 to 5, and both kinds of followers from `from` on.
fn five_followed_from(from: u64) -> (TestLog, [Result<TestFollower, Error>; 2]) {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    (1..=5).for_each(|number| assert_eq!(log.append(&payload(number)).unwrap().get(), number));
    let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage)).unwrap();
    let from = Lsn::new(from).unwrap();
    let followers = [log.follow(from), reader.follow(from)];
    (log, followers)
}

type TestFollower = seawall::Follower<[u8], Raw>;

#[test]
fn follower_from_beyond_the_end_is_refused_at_once() {
    within(60, || {
        for from in [7, 100, u64::MAX] {
            let (_log, followers) = five_followed_from(from);
            for follower in followers {
                // If `follow` itself is not refused, the first read must be.
                let refused = follower.and_then(|mut follower| follower.next_within(LONG / 20));
                let told = matches!(
                    &refused,
                    Err(Error::BeyondEnd { from: at, next, .. })
                        if (at.get(), next.get()) == (from, 6)
                );
                assert!(told, "from {from}: {refused:?}");
            }
        }
    });
}

#[test]
fn follower_from_the_end_waits_for_the_next_record() {
    within(60, || {
        let (log, followers) = five_followed_from(6);
        for follower in followers {
            let mut follower = follower.unwrap();
            assert_eq!(follower.next_within(Duration::ZERO).unwrap(), None);
            let lsn = log.append(b"behind").unwrap();
            assert_eq!(follower.next_within(LONG).unwrap(), Some((lsn, b"behind".to_vec())));
            log.truncate_after(lsn.previous()).unwrap();
            let told = follower.next_within(LONG).unwrap_err();
            assert!(matches!(told, Error::Rewound { next, .. } if next == lsn), "{told}");
        }
    });
}

/// The position implies that the record before it was seen, even if this follower showed none.
#[test]
fn follower_without_records_learns_that_its_position_was_truncated() {
    within(60, || {
        let (log, followers) = five_followed_from(6);
        log.truncate_after(Lsn::new(3)).unwrap();
        for follower in followers {
            let told = follower.unwrap().next_within(LONG).unwrap_err();
            assert!(matches!(told, Error::Rewound { next, .. } if next.get() == 4), "{told}");
        }
    });
}

/// The writer has assigned the number, but no sync covers the record yet.
/// Found by review: the new record 5 was never delivered, and the follower went on after it. The
/// truncation gives up the record that the follower counts as read.
#[test]
fn follower_from_the_end_notices_a_truncation_after_the_log_has_regrown() {
    for kept in [4, 2, 0] {
        let storage = MemStorage::new();
        let log = open(&storage, 1);
        (1..=5).for_each(|number| assert_eq!(log.append(&payload(number)).unwrap().get(), number));
        drop(log);
        let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage.clone())).unwrap();
        let mut followers =
            [false, true].map(|polls| (polls, reader.follow(Lsn::new(6).unwrap()).unwrap()));
        for (_, waiting) in followers.iter_mut().filter(|(polls, _)| *polls) {
            assert!(waiting.next_within(Duration::ZERO).unwrap().is_none());
        }
        let log = open(&storage, 2);
        log.truncate_after(Lsn::new(kept)).unwrap();
        for number in kept + 1..=7 {
            log.append(&payload(number)).unwrap();
        }
        for (polls, follower) in &mut followers {
            let next = follower.next_within(LONG);
            let is_rewound =
                matches!(&next, Err(Error::Rewound { next, .. }) if next.get() == kept + 1);
            assert!(is_rewound, "{kept} kept, polled before: {polls}: {next:?}");
        }
        drop(log);
    }
}

#[test]
fn follower_from_a_submitted_record_waits_until_it_is_durable() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device);
        let log = open_in(Arc::new(gated), 1);
        log.append(&payload(1)).unwrap();
        gate.shut();
        let tickets = [log.submit(b"2").unwrap(), log.submit(b"3").unwrap()];
        let mut follower = log.follow(tickets[1].lsn()).unwrap();
        assert_eq!(follower.next_within(Duration::ZERO).unwrap(), None);
        gate.open();
        let seen = std::thread::scope(|scope| {
            let seen = scope.spawn(|| follower.next_within(LONG).unwrap());
            log.flush().unwrap();
            seen.join().unwrap()
        });
        assert_eq!(seen, Some((tickets[1].lsn(), b"3".to_vec())));
    });
}

/// The image: one byte of the second of three records was changed.
#[test]
fn follower_at_damage_returns_the_error_each_time() {
    within(60, || {
        let storage = MemStorage::new();
        let log = open(&storage, 1);
        (1..=3).for_each(|number| assert_eq!(log.append(&payload(number)).unwrap().get(), number));
        let second = payload(2);
        storage.edit("000000000001.seg", |bytes| {
            let at = bytes.windows(second.len()).position(|bytes| bytes == second).unwrap();
            *bytes.get_mut(at).unwrap() ^= 1;
        });
        let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(storage)).unwrap();
        for mut follower in [log.follow(Lsn::FIRST).unwrap(), reader.follow(Lsn::FIRST).unwrap()] {
            assert_eq!(follower.next_within(LONG).unwrap(), Some((Lsn::FIRST, payload(1))));
            for _ in 0..3 {
                let told = follower.next_within(LONG / 20);
                assert!(matches!(told, Err(Error::Damaged { .. })), "{told:?}");
            }
        }
    });
}

#[test]
fn truncated_records_are_not_delivered_to_a_follower() {
    let device = MemStorage::new();
    let log = open(&device, 1);
    log.append(&payload(1)).unwrap();
    let mut follower = log.follow(Lsn::FIRST).unwrap();
    log.truncate_after(None).unwrap();
    log.append(&payload(2)).unwrap();
    assert_eq!(follower.next_record().unwrap(), Some((Lsn::FIRST, payload(2))));
}

/// Found by simulation. The image: a follower that starts over gets the writer's newest segment,
/// and when it reads the directory, that segment was pruned.
#[test]
fn follower_that_restarts_during_pruning_continues() {
    let mut beside = 0;
    for look in 0..12 {
        let (hooked, hook) = Hooked::new(MemStorage::new(), u64::MAX, || {});
        let log = with_segments(7_168, 7_168, 1).preallocate(false).open_in(Arc::new(hooked));
        let log: Arc<TestLog> = Arc::new(log.unwrap());
        log.append(&payload(1)).unwrap();
        log.append(&payload(2)).unwrap();
        let mut follower = log.follow(Lsn::FIRST).unwrap();
        follower.next_within(LONG).unwrap().unwrap();
        log.truncate_after(Lsn::new(1)).unwrap();
        let writer = log.clone();
        hook.plan(look, move || {
            // A segment holds one of these records.
            for _ in 0..2 {
                writer.append(&[7; 3_000]).unwrap();
            }
            let oldest = writer.truncate_before(Lsn::new(3).unwrap()).unwrap();
            assert_eq!(oldest.get(), 3);
        });
        match follower.next_within(Duration::ZERO) {
            Ok(found) => assert!(found.is_none_or(|(lsn, _)| lsn.get() == 2), "look {look}"),
            Err(Error::Pruned { oldest, .. }) => assert_eq!(oldest.get(), 3, "look {look}"),
            Err(other) => panic!("look {look}: {other:#}"),
        }
        beside += u64::from(!hook.is_waiting());
    }
    assert!(beside > 3, "{beside}");
}
