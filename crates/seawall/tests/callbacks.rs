//! User code that the log calls: hooks, codecs, wakers. If it panics, at most its own record is
//! affected. If it calls the log, it does not deadlock. Other callers are not affected.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::gate::Gated;
use common::watched::{Call, Watch, Watched};
use common::{Bytes, block_on, within};
use seawall::format::CodecId;
use seawall::recovery::Failover;
use seawall::{Codec, Error, Level, Log, Lsn, Options, Raw, Ticket};
use seawall_testkit::MemStorage;

/// Time limit of each test, in seconds.
const PATIENCE: u64 = 20;

/// Options without timed writes.
fn options() -> Options {
    let hour = Duration::from_secs(3600);
    Options::new().segment_size(1 << 20).idle_mark(None).buffered(hour, 1 << 20)
}

/// Checks that append, await, confirm and checkpoint work, from two threads.
fn serves<C: Codec<[u8]> + Send + 'static>(log: &Log<[u8], C>) {
    std::thread::scope(|scope| {
        scope.spawn(|| log.append(b"by another thread").unwrap());
        let ticket = log.submit(b"awaited").unwrap();
        let lsn = ticket.lsn();
        assert_eq!(block_on(ticket).unwrap(), lsn);
    });
    let last = log.confirm().unwrap();
    log.checkpoint(last.unwrap()).unwrap();
    assert_eq!(log.durable(), last);
}

/// Opens a log whose next sync fails: the log then continues in a new segment and calls `hook`.
fn fail_over(hook: impl Fn(&Failover) + Send + Sync + 'static) -> (Bytes, MemStorage) {
    let device = MemStorage::new();
    let log: Bytes = options().on_failover(hook).open_in(Arc::new(device.clone())).unwrap();
    log.append(b"before").unwrap();
    device.fail_sync(0, |_| false);
    (log, device)
}

#[test]
fn hook_that_panics_leaves_the_log_as_it_is() {
    within(PATIENCE, || {
        let (log, device) = fail_over(|_| panic!("a hook of the test panics"));
        assert_eq!(log.append(b"its sync fails").unwrap().get(), 2);
        assert_eq!(log.stats().failovers, 1);
        serves(&log);
        device.fail_sync(0, |_| false);
        let ticket = log.submit(b"its sync fails in the background").unwrap();
        block_on(ticket).unwrap();
        assert_eq!(log.stats().failovers, 2);
        serves(&log);
        log.close().unwrap();
    });
}

/// A call that a hook makes to the log.
type CallBack = fn(&Bytes) -> Result<(), Error>;

/// The results of a hook's calls, by name.
type Answers = Arc<Mutex<Vec<(&'static str, String)>>>;

#[test]
fn hook_that_calls_the_log_is_refused_without_a_deadlock() {
    const CALLS: [(&str, CallBack); 9] = [
        ("append", |log| log.append(b"x").map(drop)),
        ("append_batch", |log| log.append_batch([b"x".as_slice()]).map(drop)),
        ("submit", |log| log.submit(b"x").map(drop)),
        ("flush", |log| log.flush().map(drop)),
        ("confirm", |log| log.confirm().map(drop)),
        ("checkpoint", |log| log.checkpoint(Lsn::FIRST)),
        ("truncate_before", |log| log.truncate_before(Lsn::FIRST).map(drop)),
        ("truncate_after", |log| log.truncate_after(None)),
        ("wait", |log| {
            let ticket = TICKET.lock().unwrap().take().unwrap();
            let _ = log;
            ticket.wait().map(drop)
        }),
    ];
    static TICKET: Mutex<Option<Ticket>> = Mutex::new(None);
    within(PATIENCE, || {
        let shared: Arc<OnceLock<Arc<Bytes>>> = Arc::default();
        let answers: Answers = Arc::default();
        let (seen, told) = (shared.clone(), answers.clone());
        let (log, _) = fail_over(move |_| {
            let log = seen.get().unwrap();
            for (name, call) in CALLS {
                told.lock().unwrap().push((name, format!("{:?}", call(log))));
            }
            // Calls that only read succeed.
            assert_eq!((log.stats().failovers, log.durable().unwrap().get()), (1, 3));
            assert_eq!(log.get(Lsn::FIRST).unwrap(), Some(b"before".to_vec()));
            assert_eq!(log.read_from(Lsn::FIRST).unwrap().count(), 3);
            told.lock().unwrap().push(("end", String::new()));
        });
        let log = Arc::new(log);
        shared.set(log.clone()).unwrap();
        *TICKET.lock().unwrap() = Some(log.submit(b"its sync fails").unwrap());
        assert_eq!(log.append(b"with it").unwrap().get(), 3);
        let answers = answers.lock().unwrap();
        assert_eq!(answers.len(), CALLS.len() + 1, "{answers:?}");
        for (name, answer) in answers.iter().take(CALLS.len()) {
            assert_eq!(answer, "Err(Reentrant { log: Some(\"memory\") })", "{name}");
        }
        serves(&log);
    });
}

/// Other threads can append while a hook is running.
#[test]
fn hook_that_waits_for_another_thread_does_not_block_the_log() {
    within(PATIENCE, || {
        let (ask, asked) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel::<()>();
        let is_done = Mutex::new(is_done);
        let (log, _) = fail_over(move |_| {
            ask.send(()).unwrap();
            is_done.lock().unwrap().recv().unwrap();
        });
        std::thread::scope(|scope| {
            scope.spawn(|| log.append(b"its sync fails").unwrap());
            asked.recv().unwrap();
            log.append(b"meanwhile").unwrap();
            done.send(()).unwrap();
        });
        log.close().unwrap();
    });
}

/// Waits until a record without a waiter is durable.
fn await_durable(log: &Bytes, number: Lsn) {
    while log.durable() < Some(number) {
        std::thread::yield_now();
    }
}

/// A hook runs on the only thread that writes records without a waiter.
#[test]
fn record_without_a_waiter_is_written_while_a_hook_runs() {
    within(PATIENCE, || {
        let (ask, asked) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel::<()>();
        let is_done = Mutex::new(is_done);
        let device = MemStorage::new();
        let options = options().buffered(Duration::from_millis(1), 1 << 20);
        let log: Bytes = options
            .level(Level::Buffered)
            .on_failover(move |_| {
                ask.send(()).unwrap();
                is_done.lock().unwrap().recv().unwrap();
            })
            .open_in(Arc::new(device.clone()))
            .unwrap();
        log.append(b"before").unwrap();
        log.flush().unwrap();
        device.fail_sync(0, |_| false);
        log.append(b"its sync fails").unwrap();
        asked.recv().unwrap();
        for _ in 0..3 {
            await_durable(&log, log.append(b"meanwhile").unwrap());
        }
        done.send(()).unwrap();
        log.close().unwrap();
    });
}

/// Tasks whose wakers wait for this thread do not keep other records from being written, however
/// many there are.
#[test]
fn record_without_a_waiter_is_written_while_wakers_run() {
    const TASKS: u64 = 6;
    within(PATIENCE, || {
        let log: Bytes = options().open_in(Arc::new(MemStorage::new())).unwrap();
        let (is_done, woken) = (Arc::new((Mutex::new(false), Condvar::new())), AtomicU64::new(0));
        let woken = Arc::new(woken);
        let waker = Waker::from(Arc::new(Bell({
            let (is_done, woken) = (is_done.clone(), woken.clone());
            move || {
                let (is_done, changed) = &*is_done;
                drop(changed.wait_while(is_done.lock().unwrap(), |is_done| !*is_done).unwrap());
                woken.fetch_add(1, Ordering::SeqCst);
            }
        })));
        let tickets: Vec<Ticket> = (1..=TASKS)
            .map(|_| {
                let mut ticket = log.submit(b"awaited").unwrap();
                if poll(&mut ticket, &waker).is_ready() {
                    woken.fetch_add(1, Ordering::SeqCst);
                }
                await_durable(&log, ticket.lsn());
                ticket
            })
            .collect();
        let (told, changed) = &*is_done;
        *told.lock().unwrap() = true;
        changed.notify_all();
        drop(tickets);
        log.close().unwrap();
        assert_eq!(woken.load(Ordering::SeqCst), TASKS, "each task is woken");
    });
}

/// Appends when its thread ends.
struct LastAppend(Arc<Bytes>);

impl Drop for LastAppend {
    fn drop(&mut self) {
        self.0.append(&[7; 600]).unwrap();
        self.0.append_batch([b"of a set".as_slice()]).unwrap();
    }
}

thread_local! {
    static LAST: std::cell::RefCell<Option<LastAppend>> = const { std::cell::RefCell::new(None) };
}

/// Thread locals of the log are dropped first, because they were used last.
#[test]
fn destructor_of_a_thread_local_may_append() {
    within(PATIENCE, || {
        let log: Arc<Bytes> = Arc::new(options().open_in(Arc::new(MemStorage::new())).unwrap());
        let inside = log.clone();
        let thread = std::thread::spawn(move || {
            LAST.with(|last| *last.borrow_mut() = Some(LastAppend(inside.clone())));
            inside.append(&[1; 600]).unwrap();
        });
        thread.join().unwrap();
        assert_eq!(log.durable().unwrap().get(), 3);
    });
}

/// A codec that panics in the function that `WHERE` names.
enum Panicking {}

thread_local! {
    static WHERE: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

fn panic_at(place: &'static str) {
    assert_ne!(WHERE.get(), place, "a codec of the test panics");
}

impl Codec<[u8]> for Panicking {
    type Item = Vec<u8>;
    const ID: CodecId = CodecId::Raw;

    fn encode(record: &[u8], payload: &mut Vec<u8>) -> Result<(), seawall::CodecError> {
        let (half, rest) = record.split_at(record.len() / 2);
        payload.extend_from_slice(half);
        panic_at("encode");
        payload.extend_from_slice(rest);
        Ok(())
    }

    fn payload_of(_: &[u8]) -> Option<&[u8]> {
        panic_at("payload_of");
        None
    }

    fn decode(payload: &[u8]) -> Result<Vec<u8>, seawall::CodecError> {
        panic_at("decode");
        Ok(payload.to_vec())
    }
}

/// Runs `act` with a codec that panics at `place`. Returns whether it panicked.
fn panics_at(place: &'static str, act: impl FnOnce()) -> bool {
    WHERE.set(place);
    let panicked = catch_unwind(AssertUnwindSafe(act)).is_err();
    WHERE.set("");
    panicked
}

#[test]
fn codec_that_panics_leaves_no_trace_of_its_record() {
    within(PATIENCE, || {
        let device = MemStorage::new();
        let log: Log<[u8], Panicking> = options().open_in(Arc::new(device.clone())).unwrap();
        let waiting = log.submit(b"in the open batch").unwrap();
        for place in ["encode", "payload_of"] {
            assert!(panics_at(place, || drop(log.append(b"appended"))));
            assert!(panics_at(place, || drop(log.submit(b"submitted"))));
            assert!(panics_at(place, || drop(log.append_batch([b"set".as_slice(), b"of two"]))));
        }
        let records = (0..2).map(|number| {
            assert_eq!(number, 0, "an iterator of the test panics");
            b"of a set".as_slice()
        });
        catch_unwind(AssertUnwindSafe(|| log.append_batch(records))).unwrap_err();
        assert_eq!(log.append(b"behind").unwrap().get(), 2);
        assert_eq!(waiting.wait().unwrap(), Lsn::FIRST);
        assert!(panics_at("decode", || drop(log.get(Lsn::FIRST))));
        let mut follower = log.follow(Lsn::FIRST).unwrap();
        assert!(panics_at("decode", || drop(follower.next_within(Duration::ZERO))));
        assert_eq!(log.get(Lsn::FIRST).unwrap(), Some(b"in the open batch".to_vec()));
        serves(&log);
        log.close().unwrap();
        let log: Bytes = options().open_in(Arc::new(device)).unwrap();
        let found: Vec<_> =
            log.read_from(Lsn::FIRST).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found.get(1).unwrap(), &(Lsn::FIRST.next(), b"behind".to_vec()));
    });
}

/// A waker that calls a function when it is woken.
pub(crate) struct Bell<F>(pub(crate) F);

impl<F: Fn() + Send + Sync> Wake for Bell<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

pub(crate) fn poll(ticket: &mut Ticket, waker: &Waker) -> Poll<Result<Lsn, Error>> {
    std::pin::Pin::new(ticket).poll(&mut Context::from_waker(waker))
}

/// A sync fails while the log is closed. The hook waits for a thread that appends.
#[test]
fn hook_that_waits_for_another_thread_does_not_block_a_close() {
    within(PATIENCE, || {
        let (ask, asked) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel::<()>();
        let is_done = Mutex::new(is_done);
        let (log, _) = fail_over(move |_| {
            ask.send(()).unwrap();
            is_done.lock().unwrap().recv().unwrap();
        });
        let ticket = log.submit(b"its sync fails").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| log.close_shared().unwrap());
            asked.recv().unwrap();
            assert!(matches!(log.append(b"meanwhile"), Err(Error::Closed { .. })));
            done.send(()).unwrap();
        });
        assert_eq!(ticket.wait().unwrap().get(), 2);
    });
}

/// Runs `act`, which writes a record that a task awaits, and then uses the log alone. The waker of
/// the task makes a call to the log.
fn wake_in(act: fn(&Bytes), call: fn(&Bytes)) {
    let (gated, gate) = Gated::new(MemStorage::new());
    let log: Arc<Bytes> = Arc::new(options().open_in(Arc::new(gated)).unwrap());
    gate.shut();
    let held = std::thread::spawn({
        let log = log.clone();
        move || log.append(b"its sync is held").unwrap()
    });
    gate.wait_for_somebody();
    let mut ticket = log.submit(b"awaited").unwrap();
    let by = log.clone();
    let waker = Waker::from(Arc::new(Bell(move || call(&by))));
    assert!(poll(&mut ticket, &waker).is_pending());
    let acts = std::thread::spawn({
        let log = log.clone();
        move || act(&log)
    });
    // From now on this thread is next to use the log.
    std::thread::park_timeout(Duration::from_millis(50));
    gate.open();
    assert_eq!(held.join().unwrap().get(), 1);
    acts.join().unwrap();
    assert_eq!(ticket.wait().unwrap().get(), 2);
}

#[test]
fn waker_may_call_the_log_that_its_thread_uses_alone() {
    let acts: [fn(&Bytes); 3] = [
        |log| log.checkpoint(Lsn::FIRST).unwrap(),
        |log| log.truncate_before(Lsn::FIRST).map(drop).unwrap(),
        // The calls below are then refused.
        |log| log.close_shared().unwrap(),
    ];
    let calls: [fn(&Bytes); 4] = [
        |log| drop(log.append(b"from a waker")),
        |log| drop(log.submit(b"from a waker")),
        |log| drop(log.flush()),
        |log| drop(log.checkpoint(Lsn::FIRST)),
    ];
    for act in acts {
        for call in calls {
            within(PATIENCE, move || wake_in(act, call));
        }
    }
}

/// Two tickets are polled before the sync returns, the first with a waker that panics.
#[test]
fn panicking_waker_does_not_affect_other_tasks() {
    within(PATIENCE, || {
        let (gated, gate) = Gated::new(MemStorage::new());
        let log: Bytes = options().open_in(Arc::new(gated)).unwrap();
        gate.shut();
        let mut tickets = [log.submit(b"1").unwrap(), log.submit(b"2").unwrap()];
        let (rung, woken) = mpsc::channel();
        let bad = Waker::from(Arc::new(Bell(|| panic!("a waker of the test panics"))));
        let good = Waker::from(Arc::new(Bell(move || rung.send(()).unwrap())));
        for (ticket, waker) in tickets.iter_mut().zip([&bad, &good]) {
            assert!(poll(ticket, waker).is_pending());
        }
        std::thread::scope(|scope| {
            let appended = scope.spawn(|| log.append(b"3").unwrap());
            gate.wait_for_somebody();
            gate.open();
            assert_eq!(appended.join().unwrap().get(), 3);
        });
        woken.recv().unwrap();
        for ticket in tickets {
            block_on(ticket).unwrap();
        }
        serves(&log);
        log.close().unwrap();
    });
}

/// Once all syncs fail, every waiter gets the error, even after another waiter's waker panicked.
#[test]
fn panicking_waker_of_a_poisoned_log_leaves_no_waiter() {
    within(PATIENCE, || {
        let device = MemStorage::new();
        let log: Bytes = options().open_in(Arc::new(device.clone())).unwrap();
        let mut ticket = log.submit(b"1").unwrap();
        let other = log.submit(b"2").unwrap();
        for nth in 0..100 {
            device.fail_sync(nth, |_| false);
        }
        let bad = Waker::from(Arc::new(Bell(|| panic!("a waker of the test panics"))));
        assert!(poll(&mut ticket, &bad).is_pending());
        let refused = block_on(other);
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        assert!(matches!(log.append(b"3"), Err(Error::Poisoned { .. })));
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
    });
}

/// A waker that appends to the log when it is dropped.
mod nosy {
    use super::{Arc, AtomicBool, Bytes, OnceLock, Ordering};
    use std::task::{Wake, Waker};

    /// Appends to the log in `drop`: the log's own code may drop the last clone.
    pub(super) struct Nosy(pub(super) Arc<OnceLock<Arc<Bytes>>>, pub(super) Arc<AtomicBool>);

    impl Wake for Nosy {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Nosy {
        fn drop(&mut self) {
            if let Some(log) = self.0.get() {
                log.append(b"from a waker that is dropped").unwrap();
                self.1.store(true, Ordering::SeqCst);
            }
        }
    }

    pub(super) fn waker(nosy: Nosy) -> Waker {
        Waker::from(Arc::new(nosy))
    }
}

#[test]
fn waker_that_calls_the_log_in_drop_does_not_deadlock() {
    within(PATIENCE, || {
        let shared: Arc<OnceLock<Arc<Bytes>>> = Arc::default();
        let (gated, gate) = Gated::new(MemStorage::new());
        let log: Bytes = options().open_in(Arc::new(gated)).unwrap();
        let log = Arc::new(log);
        shared.set(log.clone()).unwrap();
        gate.shut();
        let held = std::thread::spawn({
            let log = log.clone();
            move || log.append(b"held")
        });
        gate.wait_for_somebody();
        let was_dropped = Arc::new(AtomicBool::new(false));
        let mut ticket = log.submit(b"awaited").unwrap();
        let first = nosy::waker(nosy::Nosy(shared, was_dropped.clone()));
        assert!(poll(&mut ticket, &first).is_pending());
        drop(first);
        gate.open();
        // This poll replaces, and drops, the waker of the first poll.
        let _ = poll(&mut ticket, Waker::noop());
        block_on(ticket).unwrap();
        assert!(was_dropped.load(Ordering::SeqCst));
        held.join().unwrap().unwrap();
        serves(&log);
    });
}

/// A device that panics at one call, once.
#[derive(Debug, Default)]
struct Trap {
    call: Mutex<Option<Call>>,
    sprung: AtomicU64,
}

impl Trap {
    fn set(&self, call: Call) {
        *self.call.lock().unwrap() = Some(call);
    }
}

impl Watch for Trap {
    fn before(&self, call: Call) {
        let is_set = {
            let mut set = self.call.lock().unwrap();
            if *set == Some(call) { set.take() } else { None }
        };
        if is_set.is_some() {
            self.sprung.fetch_add(1, Ordering::SeqCst);
            panic!("a device of the test panics");
        }
    }
}

/// Storage may be user code, too. It panics during a checkpoint while other threads wait.
#[test]
fn panicking_device_poisons_the_log_and_releases_all_waiters() {
    within(PATIENCE, || {
        let (trapped, trap) = Watched::by(Trap::default(), MemStorage::new());
        let (gated, gate) = Gated::before(Call::Write, trapped);
        let log: Bytes = options().open_in(Arc::new(gated)).unwrap();
        log.append(b"1").unwrap();
        std::thread::scope(|scope| {
            gate.shut();
            let checkpoint =
                scope.spawn(|| catch_unwind(AssertUnwindSafe(|| log.checkpoint(Lsn::FIRST))));
            gate.wait_for_somebody();
            let waiters = [
                scope.spawn(|| log.append(b"2").map(drop)),
                scope.spawn(|| log.truncate_before(Lsn::FIRST).map(drop)),
                scope.spawn(|| log.flush().map(drop)),
            ];
            trap.set(Call::Write);
            gate.open();
            checkpoint.join().unwrap().unwrap_err();
            for waiter in waiters {
                let told = waiter.join().unwrap();
                assert!(matches!(told, Ok(()) | Err(Error::Poisoned { .. })), "{told:?}");
            }
        });
        assert_eq!(trap.sprung.load(Ordering::SeqCst), 1);
        assert!(matches!(log.append(b"3"), Err(Error::Poisoned { .. })));
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
    });
}

/// The same panic in the flusher, and in a thread that closes the log.
#[test]
fn device_panic_in_background_or_close_releases_all_waiters() {
    within(PATIENCE, || {
        let (trapped, trap) = Watched::by(Trap::default(), MemStorage::new());
        let log: Bytes = options().open_in(Arc::new(trapped)).unwrap();
        trap.set(Call::Write);
        let told = block_on(log.submit(b"1").unwrap());
        assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
        assert!(matches!(log.append(b"2"), Err(Error::Poisoned { .. })));
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));

        let (trapped, trap) = Watched::by(Trap::default(), MemStorage::new());
        let log: Bytes = options().open_in(Arc::new(trapped)).unwrap();
        log.append(b"1").unwrap();
        let mut follower = log.follow(Lsn::FIRST.next()).unwrap();
        let follows = std::thread::spawn(move || follower.next_within(Duration::from_secs(3600)));
        trap.set(Call::Write);
        catch_unwind(AssertUnwindSafe(|| log.close())).unwrap_err();
        let told = follows.join().unwrap();
        assert!(matches!(told, Ok(None) | Err(Error::Poisoned { .. })), "{told:?}");
    });
}

/// A separate thread preallocates the file for the next segment. If it panics, the log creates the
/// file when needed, and closes normally.
#[test]
fn device_panic_during_preallocation_loses_no_record() {
    within(PATIENCE, || {
        let (trapped, trap) = Watched::by(Trap::default(), MemStorage::new());
        let log: Log<[u8], Raw> =
            options().level(Level::Synced).open_in(Arc::new(trapped)).unwrap();
        trap.set(Call::Create);
        let large = vec![7; 100_000];
        // Three segments of 1 MiB. Each is an eighth full before the next one is preallocated.
        for number in 1..=30_u64 {
            let appended = catch_unwind(AssertUnwindSafe(|| log.append(&large)));
            assert_eq!(appended.unwrap().unwrap().get(), number);
            if number == 5 {
                while trap.sprung.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
            }
        }
        assert!(log.stats().rolls >= 2);
        serves(&log);
        log.close().unwrap();
    });
}
