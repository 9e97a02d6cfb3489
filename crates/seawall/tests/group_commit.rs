//! Many threads, one log: each record gets its own number and keeps its own bytes, and no thread
//! waits for ever, whatever fails.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::gate::Gated;
use common::{Bytes, GEOMETRY, SEGMENT_MIN, Scratch, block_on, lsn, read_own, tiny, within};
use seawall::{Error, Level, Lsn, Options};
use seawall_io::{Clock, Storage, SystemEntropy};
use seawall_testkit::MemStorage;

const THREADS: u64 = 16;
const EACH: u64 = 200;
/// Time limit of each test, in seconds.
const PATIENCE: u64 = 20;

/// Options with a background thread and a real clock.
fn options() -> Options {
    Options::new().segment_size(1 << 20)
}

fn mixed(thread: u64, turn: u64) -> Vec<u8> {
    let size = usize::try_from((thread * 31 + turn * 7) % 90).unwrap();
    let mut bytes = format!("thread {thread}, turn {turn}").into_bytes();
    bytes.resize(bytes.len() + size, b'.');
    bytes
}

/// Runs `act` on many threads at once and returns all results.
fn on_threads<T: Send>(threads: u64, act: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(usize::try_from(threads).unwrap());
    let run = |number| {
        start.wait();
        act(number)
    };
    let run = &run;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|n| scope.spawn(move || run(n))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

fn append_from_everywhere(storage: Arc<dyn Storage>) {
    let log: Bytes = options().open_in(storage).unwrap();
    let numbers = on_threads(THREADS, |thread| {
        let append = |turn| log.append(&mixed(thread, turn)).unwrap().get();
        (0..EACH).map(append).collect::<Vec<u64>>()
    });
    let found = read_own(&log);
    assert!(found.is_prefix());
    assert_eq!(found.count(), THREADS * EACH);
    let mut all: Vec<u64> = vec![];
    for (thread, numbers) in (0..).zip(&numbers) {
        assert!(numbers.is_sorted_by(|a, b| a < b), "thread {thread}: {numbers:?}");
        for (turn, number) in (0..).zip(numbers) {
            assert_eq!(found.records[number], mixed(thread, turn));
        }
        all.extend(numbers);
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(1..=THREADS * EACH));
    log.close().unwrap();
}

#[test]
fn concurrent_appends_get_lsns_without_gaps_on_files() {
    within(PATIENCE * 3, || append_from_everywhere(Scratch::new("group-files").storage()));
}

#[test]
fn concurrent_appends_get_lsns_without_gaps_in_memory() {
    within(PATIENCE, || append_from_everywhere(Arc::new(MemStorage::new())));
}

#[test]
fn tickets_can_be_waited_for_in_any_order() {
    within(PATIENCE, || {
        let log: Bytes = options().open_in(Arc::new(MemStorage::new())).unwrap();
        on_threads(8, |thread| {
            let submit = |turn| log.submit(&mixed(thread, turn)).unwrap();
            let mut tickets: Vec<_> = (0..EACH).map(submit).collect();
            if thread % 2 == 0 {
                tickets.reverse();
            }
            for ticket in tickets {
                let number = ticket.lsn();
                assert_eq!(ticket.wait().unwrap(), number);
            }
        });
        assert_eq!(read_own(&log).count(), 8 * EACH);
    });
}

#[test]
fn tickets_can_be_awaited() {
    within(PATIENCE, || {
        let scratch = Scratch::new("group-await");
        let log: Bytes = options().open_in(scratch.storage()).unwrap();
        on_threads(4, |thread| {
            for turn in 0..50 {
                let ticket = log.submit(&mixed(thread, turn)).unwrap();
                let number = ticket.lsn();
                assert_eq!(block_on(ticket).unwrap(), number);
                assert!(log.durable() >= Some(number));
            }
        });
        assert_eq!(read_own(&log).count(), 200);
    });
}

#[test]
fn buffered_append_returns_before_any_sync_and_is_durable_soon_after() {
    within(PATIENCE, || {
        let (storage, gate) = Gated::new(MemStorage::new());
        let options = options().level(Level::Buffered).buffered(Duration::from_millis(5), 1 << 20);
        let log: Bytes = options.open_in(Arc::new(storage)).unwrap();
        gate.shut();
        let number = log.append(b"soon").unwrap();
        gate.wait_for_somebody();
        assert_eq!(log.durable(), None, "its sync has not returned");
        gate.open();
        while log.durable() < Some(number) {
            thread::park_timeout(Duration::from_millis(1));
        }
        log.append(b"now").unwrap();
        assert_eq!(log.flush().unwrap(), Some(lsn(2)));
        assert_eq!(log.durable(), Some(lsn(2)));
    });
}

#[test]
fn buffered_batch_is_written_once_it_is_large() {
    within(PATIENCE, || {
        let storage = Arc::new(MemStorage::new());
        let hour = Duration::from_secs(3600);
        let options = options().level(Level::Buffered).idle_mark(None).buffered(hour, 4096);
        let log: Bytes = options.open_in(storage).unwrap();
        for turn in 0..20 {
            // The first record starts or wakes the flusher, which sleeps again before the batch is
            // large.
            log.append(&[7; 500]).unwrap();
            pause();
            let last = (1..10).map(|_| log.append(&[7; 500]).unwrap()).last().unwrap();
            while log.durable() < Some(lsn(last.get() - 2)) {
                thread::park_timeout(Duration::from_millis(1));
            }
            assert_eq!(log.flush().unwrap(), Some(last), "{turn}");
        }
    });
}

/// Every caller gets the error: leaders, waiting and awaiting callers, and later ones.
#[test]
fn device_that_fails_for_good_releases_every_waiter_with_the_error() {
    within(PATIENCE, || {
        for nth in 0..12 {
            let device = MemStorage::new();
            let log: Bytes = options().open_in(Arc::new(device.clone())).unwrap();
            // The device fails from there on: no new segment can be created either.
            for later in nth..nth + 12 {
                device.fail_sync(later, |_| false);
            }
            let acknowledged = AtomicU64::new(0);
            let outcomes = on_threads(9, |thread| {
                loop {
                    let done = match thread % 3 {
                        0 => log.append(&mixed(thread, 0)),
                        1 => log.submit(&mixed(thread, 1)).and_then(seawall::Ticket::wait),
                        _ => log.submit(&mixed(thread, 2)).and_then(block_on),
                    };
                    match done {
                        Ok(number) => acknowledged.fetch_max(number.get(), Ordering::Relaxed),
                        Err(error) => return error,
                    };
                }
            });
            for error in outcomes {
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
            }
            assert!(matches!(log.append(b"later"), Err(Error::Poisoned { .. })));
            assert!(matches!(log.flush(), Err(Error::Poisoned { .. })));
            drop(log);
            let after = device.power_cut(|_| false);
            let log: Bytes = options().open_in(Arc::new(after)).unwrap();
            assert!(log.durable().map_or(0, Lsn::get) >= acknowledged.into_inner());
        }
    });
}

#[test]
fn dropping_the_log_leaves_no_ticket_waiting() {
    within(PATIENCE, || {
        for turn in 0..20 {
            let device = MemStorage::new();
            let log: Bytes = options().open_in(Arc::new(device.clone())).unwrap();
            let tickets: Vec<_> = (0..9).map(|n| log.submit(&mixed(turn, n)).unwrap()).collect();
            thread::scope(|scope| {
                for (index, ticket) in tickets.into_iter().enumerate() {
                    scope.spawn(move || match index % 2 {
                        0 => ticket.wait().unwrap(),
                        _ => block_on(ticket).unwrap(),
                    });
                }
                drop(log);
            });
            let again: Bytes = options().open_in(Arc::new(device)).unwrap();
            assert_eq!(again.durable(), Some(lsn(9)), "all were written, and the lock is free");
        }
    });
}

#[test]
fn lock_is_free_after_close_while_tickets_are_held() {
    let device = MemStorage::new();
    let log: Bytes = options().open_in(Arc::new(device.clone())).unwrap();
    let kept = log.submit(b"kept").unwrap();
    let busy = options().open_in::<[u8], seawall::Raw>(Arc::new(device.clone())).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }));
    log.close().unwrap();
    let again: Bytes = options().open_in(Arc::new(device)).unwrap();
    assert_eq!((kept.wait().unwrap(), again.durable()), (lsn(1), Some(lsn(1))));
}

/// Small batches, so that the open one is nearly always full.
#[test]
fn records_wait_for_space_when_the_batch_is_full() {
    within(PATIENCE, || {
        let device = MemStorage::new();
        let options = Options::new().geometry(GEOMETRY, SEGMENT_MIN).segment_size(1 << 16);
        let log: Bytes = options.open_in(Arc::new(device)).unwrap();
        let sizes = [960, 500, 400, 10];
        on_threads(8, |thread| {
            for turn in 0..50 {
                let size = sizes[usize::try_from((thread + turn) % 4).unwrap()];
                let record = vec![b'a'; size];
                let _: Lsn = match turn % 2 {
                    0 => log.append(&record).unwrap(),
                    _ => log.submit(&record).unwrap().lsn(),
                };
            }
        });
        assert_eq!(log.flush().unwrap(), Some(lsn(400)));
        assert_eq!(read_own(&log).count(), 400);
    });
}

#[test]
fn too_large_record_leaves_the_log_usable() {
    let device = MemStorage::new();
    let log = common::open(&tiny(1), &device).unwrap();
    assert!(matches!(log.append(&[1; 969]), Err(Error::TooLarge { .. })));
    let set: [&[u8]; 2] = [&[1; 500], &[2; 500]];
    assert!(matches!(log.append_batch(set), Err(Error::TooLarge { .. })));
    assert!(matches!(log.append_batch([]), Err(Error::InvalidOption { .. })));
    assert_eq!(log.append(&[1; 968]).unwrap(), lsn(1), "the largest that format.md allows");
    log.close().unwrap();
    assert_eq!(common::judge(&device).unwrap().records, 1);
}

#[test]
fn concurrent_appends_and_confirms_all_return() {
    within(PATIENCE, || {
        let scratch = Scratch::new("group-confirm");
        let log: Bytes = options().open_in(scratch.storage()).unwrap();
        on_threads(12, |thread| {
            for turn in 0..60 {
                let _: Option<Lsn> = match thread % 3 {
                    0 => Some(log.append(&mixed(thread, turn)).unwrap()),
                    _ => log.confirm().unwrap(),
                };
            }
        });
        assert_eq!(read_own(&log).count(), 4 * 60);
    });
}

/// Several threads wait for the confirmation of batch 0, and a record of batch 2 waits for the same
/// event. A waiter that leaves must not use up a wake-up that another one needs.
#[test]
fn confirmation_wakes_every_waiter_that_it_covers() {
    within(PATIENCE, || {
        for _ in 0..20 {
            let (storage, gate) = Gated::new(MemStorage::new());
            let log: Bytes = options().idle_mark(None).open_in(Arc::new(storage)).unwrap();
            gate.shut();
            thread::scope(|scope| {
                scope.spawn(|| log.append(b"batch 0").unwrap());
                gate.wait_for_somebody();
                let confirm = || assert!(log.confirm().unwrap().is_some());
                (0..5).for_each(|_| drop(scope.spawn(confirm)));
                pause();
                scope.spawn(|| log.append(b"batch 1").unwrap());
                pause();
                gate.pass_one();
                pause();
                gate.wait_for_somebody();
                scope.spawn(|| log.append(b"batch 2").unwrap());
                pause();
                gate.open();
            });
            assert_eq!(log.durable(), Some(lsn(3)));
        }
    });
}

/// A clock that advances by a microsecond whenever it is read.
#[derive(Debug, Default)]
struct Read(AtomicU64);

impl Clock for Read {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {
        pause();
    }
}

/// With two committers, the waiting one spins, and reads the clock, for as long as a write should
/// take. If the write takes longer, the committer sleeps.
#[test]
fn one_of_two_committers_spins_for_a_fast_write_and_sleeps_for_a_slow_one() {
    within(PATIENCE, || {
        let clock = Arc::new(Read::default());
        let (storage, gate) = Gated::new(MemStorage::new());
        let options = options().env(clock.clone(), Arc::new(SystemEntropy));
        let options = options.idle_mark(None).preallocate(false);
        let log: Bytes = options.open_in(Arc::new(storage)).unwrap();
        gate.shut();
        thread::scope(|scope| {
            scope.spawn(|| log.append(b"leads").unwrap());
            gate.wait_for_somebody();
            scope.spawn(|| log.append(b"leads next").unwrap());
            // The log counts two committers only if this one is waiting when the first write
            // completes.
            (0..50).for_each(|_| pause());
            gate.pass_one();
            while log.durable().is_none() || !gate.is_waited_at() {
                pause();
            }
            let before = clock.0.load(Ordering::Relaxed);
            scope.spawn(|| log.append(b"waits").unwrap());
            let reads = || clock.0.load(Ordering::Relaxed);
            // On a busy machine, a thread that is awake may not run for a while.
            let is_still = |seen: u64| {
                let mut pauses = (0..200).map(|_| pause());
                pauses.all(|()| reads() == seen)
            };
            let is_asleep = (0..10).any(|_| is_still(reads()));
            assert!(is_asleep, "it still is awake after {} reads", reads() - before);
            gate.open();
        });
        assert_eq!(log.durable(), Some(lsn(3)));
    });
}

/// Long enough for a thread to reach the place where it waits. If not, the test only checks less.
fn pause() {
    thread::park_timeout(Duration::from_millis(3));
}

#[test]
fn ticket_waits_until_its_level_is_reached() {
    for (level, synced) in
        [(Level::Buffered, None), (Level::Synced, Some(1)), (Level::Confirmed, Some(1))]
    {
        let storage = MemStorage::new();
        let options = options().level(level).buffered(Duration::from_secs(3600), usize::MAX);
        let log: Bytes = options.open_in(Arc::new(storage)).unwrap();
        let lsn = log.submit(b"one").unwrap().wait().unwrap();
        assert_eq!((lsn, log.durable().map(Lsn::get)), (Lsn::FIRST, synced), "{level:?}");
        assert_eq!(block_on(log.submit(b"two").unwrap()).unwrap().get(), 2);
    }
}
