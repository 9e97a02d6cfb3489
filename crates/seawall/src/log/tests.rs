//! Tests that need the log's internal state: exclusive use of the writer, and handles in a forked
//! child. The tests do not fork: they change the process token of the handle.

use super::*;
use crate::base::codec::Raw;
use seawall_format::Level;
use seawall_io::SeededEntropy;
use seawall_testkit::MemStorage;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

type TestLog = Log<[u8], Raw>;

fn options(level: Level) -> Options {
    let clock = Arc::new(seawall_io::ManualClock::new());
    let env = Options::new().env(clock, Arc::new(SeededEntropy::new(1)));
    env.level(level).idle_mark(None).preallocate(false)
}

fn open(storage: &MemStorage, level: Level) -> TestLog {
    options(level).open_in(Arc::new(storage.clone())).unwrap()
}

/// A handle as a forked child sees it.
fn forked(mut log: TestLog) -> TestLog {
    let coordinator = Arc::get_mut(&mut log.coordinator).expect("the log has started no thread");
    coordinator.fork_guard.token = coordinator.fork_guard.token.wrapping_add(1);
    log
}

/// Runs `test`, and fails if that takes ten seconds.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    let waited = wait.recv_timeout(Duration::from_secs(10));
    assert_ne!(waited, Err(mpsc::RecvTimeoutError::Timeout), "a thread still waits");
    thread.join().expect("the test passes");
}

/// Calls to a log. Each returns whether it was refused because the handle is forked.
const CALLS: [fn(&TestLog) -> bool; 12] = [
    |log| is_refused(&log.append(b"x")),
    |log| is_refused(&log.append_batch([b"x".as_slice()])),
    |log| is_refused(&log.submit(b"x")),
    |log| is_refused(&log.try_submit(b"x")),
    |log| is_refused(&log.flush()),
    |log| is_refused(&log.confirm()),
    |log| is_refused(&log.checkpoint(Lsn::FIRST)),
    |log| is_refused(&log.truncate_before(Lsn::FIRST)),
    |log| is_refused(&log.truncate_after(None)),
    |log| is_refused(&log.read_from(Lsn::FIRST)),
    |log| is_refused(&log.get(Lsn::FIRST)),
    |log| is_refused(&log.record_id(Lsn::FIRST)),
];

fn is_refused<T>(result: &Result<T>) -> bool {
    matches!(result, Err(error @ Error::Forked { .. }) if error.log().is_some())
}

#[test]
fn forked_handle_refuses_every_write_and_wait() {
    for level in [Level::Buffered, Level::Synced, Level::Confirmed] {
        let storage = MemStorage::new();
        let log = open(&storage, level);
        if level != Level::Buffered {
            log.append(b"of the parent").unwrap();
        }
        let log = forked(log);
        let (steps, last) = (storage.steps(), log.durable());
        for (number, call) in CALLS.into_iter().enumerate() {
            assert!(call(&log), "call {number} at {level:?}");
        }
        assert_eq!(log.durable(), last);
        assert!(is_refused(&log.close()));
        assert_eq!(storage.steps(), steps);
    }
}

/// The parent forked while one of its threads held the writer; its threads do not exist in the
/// child.
#[test]
fn forked_handle_waits_for_no_thread_of_the_parent() {
    in_time(|| {
        let storage = MemStorage::new();
        let log = forked(open(&storage, Level::Synced));
        let gone = std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
        let mut state = log.coordinator.lock();
        state.background = vec![gone];
        std::mem::forget(state.writer.take());
        drop(state);
        let steps = storage.steps();
        assert!(is_refused(&log.append(b"x")));
        assert!(is_refused(&log.checkpoint(Lsn::FIRST)));
        let held = log.coordinator.lock();
        for call in CALLS {
            assert!(std::thread::scope(|scope| scope.spawn(|| call(&log)).join().unwrap()));
        }
        drop(held);
        drop(log);
        assert_eq!(storage.steps(), steps);
    });
}

/// The parent forked while one of its threads held the lock, for example in a checkpoint. Calls
/// that return no error return what the parent knew.
#[test]
fn forked_handle_takes_no_lock_to_tell_what_it_knows() {
    in_time(|| {
        let log = open(&MemStorage::new(), Level::Synced);
        let last = *log.append_batch([b"1".as_slice(), b"2", b"3"]).unwrap().end();
        log.checkpoint(Lsn::FIRST.next()).unwrap();
        let known = |log: &TestLog| {
            (log.durable(), log.oldest(), log.replay_start(), log.id(), format!("{log:?}"))
        };
        let of_the_parent = known(&log);
        assert_eq!((of_the_parent.0, of_the_parent.2), (Some(last), Lsn::FIRST.next()));
        let log = forked(log);
        assert_eq!(log.stats().records, 3);
        let held = log.coordinator.lock();
        let in_child = std::thread::scope(|scope| {
            scope.spawn(|| (known(&log), log.stats().records)).join().unwrap()
        });
        drop(held);
        assert_eq!(in_child, (of_the_parent, 0));
    });
}

#[test]
fn forked_handle_starts_no_thread_for_buffered_records() {
    let storage = MemStorage::new();
    let log = open(&storage, Level::Buffered);
    log.coordinator.enqueue(&mut RecordSet::of(&[b"of the parent"]), true).unwrap();
    let log = forked(log);
    let steps = storage.steps();
    assert!(is_refused(&log.submit(b"x")));
    assert!(log.coordinator.lock().background.is_empty());
    assert!(is_refused(&log.flush()));
    drop(log);
    assert_eq!(storage.steps(), steps);
}

#[test]
fn forked_handle_releases_its_lock_when_dropped() {
    let storage = MemStorage::new();
    let log = open(&storage, Level::Synced);
    log.append(b"of the parent").unwrap();
    let log = forked(log);
    let ticket = Ticket {
        place: Position { lsn: Lsn::FIRST, batch_seq: 0 },
        waits_for: Some((log.coordinator.clone(), WaitFor::Confirmed)),
        number: None,
    };
    drop(log);
    assert!(is_refused(&ticket.clone().wait()));
    assert_eq!(open(&storage, Level::Synced).durable(), Some(Lsn::FIRST));
    drop(ticket);
}

/// Two threads append without pause, and a third requests exclusive use of the writer.
#[test]
fn exclusive_user_gets_the_writer_after_at_most_two_batches() {
    in_time(|| {
        for round in 0..20 {
            let storage = MemStorage::new();
            let log = open(&storage, Level::Synced);
            let (here, arrived) = mpsc::channel();
            let (go, may_go) = mpsc::channel::<()>();
            storage.lie_at_sync(0, move |_| {
                let _ = here.send(());
                let _ = may_go.recv();
                true
            });
            let is_over = AtomicBool::new(false);
            let batches = std::thread::scope(|scope| {
                let append = || {
                    while !is_over.load(Ordering::Relaxed) {
                        log.append(b"x").unwrap();
                    }
                };
                scope.spawn(append);
                arrived.recv().unwrap();
                scope.spawn(append);
                let alone = scope.spawn(|| {
                    let batches = log
                        .coordinator
                        .with_exclusive_writer(|writer, _| Ok(writer.counts.batches));
                    is_over.store(true, Ordering::Relaxed);
                    batches.unwrap()
                });
                while log.coordinator.exclusive_waiters() == 0 {
                    std::thread::yield_now();
                }
                drop(go);
                alone.join().unwrap()
            });
            assert!(batches <= 2, "round {round}: {batches} batches were written first");
        }
    });
}

#[test]
fn try_submit_returns_while_another_thread_holds_the_lock() {
    in_time(|| {
        let log = open(&MemStorage::new(), Level::Synced);
        let held = log.coordinator.lock();
        let refused = std::thread::scope(|scope| {
            let call = scope.spawn(|| log.try_submit(b"x").map(|ticket| ticket.lsn()));
            call.join().unwrap()
        });
        drop(held);
        assert!(matches!(refused, Err(Error::WouldBlock { .. })), "{refused:?}");
        assert_eq!(log.try_submit(b"x").unwrap().lsn(), Lsn::FIRST);
    });
}

#[test]
fn try_submit_returns_during_an_exclusive_operation() {
    in_time(|| {
        let log = open(&MemStorage::new(), Level::Synced);
        let refused = log.coordinator.with_exclusive_writer(|_, _| {
            std::thread::scope(|scope| {
                let call = scope.spawn(|| log.try_submit(b"x").map(|ticket| ticket.lsn()));
                Ok(call.join().unwrap())
            })
        });
        let refused = refused.unwrap();
        assert!(matches!(refused, Err(Error::WouldBlock { .. })), "{refused:?}");
        assert_eq!(log.append(b"x").unwrap(), Lsn::FIRST);
    });
}
