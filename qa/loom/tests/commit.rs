//! Checks commits in every interleaving of a few threads within a bound of preemptions: no thread
//! waits forever, and a record reported as durable is durable.
//!
//! The bound is 2, unless `LOOM_MAX_PREEMPTIONS` is set. Each interleaving opens a new log in
//! memory. Threads switch only where they take a lock or wait, so a leader's device accesses are
//! one step here. seawall-scheduled switches there, too.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

extern crate seawall_loom as seawall;

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use scheduler::model::Builder;
use scheduler::sync::{Condvar, Mutex};
use scheduler::thread::{Builder as ThreadBuilder, JoinHandle};
use seawall::format::Geometry;
use seawall::{Error, Follower, Level, Log, Lsn, Options, Raw, Ticket};
use seawall_io::{ManualClock, SeededEntropy};
use seawall_testkit::MemStorage;

type Bytes = Log<[u8], Raw>;

/// How often a runnable thread may be preempted, unless `LOOM_MAX_PREEMPTIONS` is set.
const PREEMPTIONS: usize = 2;

/// Runs `test` in every interleaving, and prints their number.
fn everywhere(name: &str, test: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    model.preemption_bound.get_or_insert(PREEMPTIONS);
    model.max_branches = 100_000;
    let bound = model.preemption_bound;
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let count = count.load(Ordering::Relaxed);
    let _ = writeln!(io::stderr(), "{name}: {count} interleavings, preemptions {bound:?}");
}

/// Options of a log without background work.
fn quiet() -> Options {
    Options::new()
        .geometry(Geometry { block: 512, reach: 512, batch_max: 1024 }, 7 * 512)
        .segment_size(10 * 512)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(1)))
}

fn open(options: &Options, device: &MemStorage) -> Arc<Bytes> {
    Arc::new(options.open_in(Arc::new(device.clone())).unwrap())
}

/// Starts a thread whose stack is large enough for a recovery. Loom's default stack sometimes is
/// not, depending on what the compiler inlines.
fn spawn<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    ThreadBuilder::new().stack_size(16 << 10).spawn(act).unwrap()
}

fn follow(log: &Arc<Bytes>) -> Follower<[u8], Raw> {
    let log = Arc::clone(log);
    spawn(move || log.follow(Lsn::FIRST).unwrap()).join().unwrap()
}

/// Starts one thread for each act.
fn threads<const N: usize>(log: &Arc<Bytes>, acts: [fn(&Bytes); N]) -> [JoinHandle<()>; N] {
    acts.map(|act| {
        let log = Arc::clone(log);
        spawn(move || act(&log))
    })
}

fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn lsn(number: u64) -> Option<Lsn> {
    Lsn::new(number)
}

/// Returns the last record after a power cut that loses everything unsynced.
fn survives(device: &MemStorage) -> Option<Lsn> {
    open(&quiet(), &device.power_cut(|_| false)).durable()
}

fn once(log: &Bytes) {
    log.append(b"once").unwrap();
}

fn twice(log: &Bytes) {
    log.append(b"once").unwrap();
    log.append(b"again").unwrap();
}

fn awaits(log: &Bytes) {
    block_on(log.submit(b"awaited").unwrap()).unwrap();
}

fn confirm(log: &Bytes) {
    log.confirm().unwrap();
}

fn cut(log: &Bytes) {
    log.truncate_after(None).unwrap();
}

/// Appends a record, and checks that it survives a power cut once it is acknowledged.
fn append(log: &Bytes, device: &MemStorage) -> seawall::Result<()> {
    let number = log.append(b"record")?;
    assert!(survives(device) >= Some(number), "{number} was acknowledged");
    Ok(())
}

#[test]
fn concurrent_appends_are_all_durable() {
    everywhere("two threads append twice", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        join(threads(&log, [twice, twice]));
        assert_eq!(survives(&device), lsn(4));
    });
    // One thread leads, and the other three may share the next batch.
    everywhere("four threads append", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        let others = threads(&log, [once, once, once]);
        once(&log);
        join(others);
        assert_eq!(survives(&device), lsn(4));
    });
}

#[test]
fn confirmations_and_appends_wake_each_other() {
    everywhere("two append, one confirms", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        join(threads(&log, [once, once, confirm]));
        assert_eq!(survives(&device), lsn(2));
    });
    everywhere("two append at level Confirmed", || {
        let device = MemStorage::new();
        let log = open(&quiet().level(Level::Confirmed), &device);
        join(threads(&log, [once, once]));
        assert_eq!(survives(&device), lsn(2));
    });
}

#[test]
fn a_truncation_between_batches_leaves_no_thread_waiting() {
    everywhere("two append, one cuts", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        join(threads(&log, [once, once, cut]));
        assert_eq!(survives(&device), log.durable());
    });
}

#[test]
fn a_failed_sync_releases_all_waiters() {
    for nth in 0..3 {
        everywhere("two append to a device that fails for good", move || {
            let device = MemStorage::new();
            let log = open(&quiet(), &device);
            for later in nth..nth + 12 {
                device.fail_sync(later, |_| false);
            }
            let threads = [(); 2].map(|()| {
                let (log, device) = (Arc::clone(&log), device.clone());
                spawn(move || match append(&log, &device) {
                    Ok(()) | Err(Error::Poisoned { .. }) => {}
                    Err(error) => panic!("{error}"),
                })
            });
            join(threads);
        });
    }
}

#[test]
fn an_acknowledged_record_survives_a_power_cut_at_once() {
    everywhere("three append and look", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        let others = [(); 2].map(|()| {
            let (log, device) = (Arc::clone(&log), device.clone());
            spawn(move || append(&log, &device).unwrap())
        });
        append(&log, &device).unwrap();
        join(others);
    });
}

#[test]
fn a_follower_is_woken() {
    everywhere("one appends, one follows", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        let mut follower = follow(&log);
        let follows = spawn(move || {
            assert_eq!(follower.next_record().unwrap().map(|(number, _)| number), lsn(1));
            assert_eq!(follower.next_record().unwrap().map(|(number, _)| number), lsn(2));
        });
        join(threads(&log, [twice]));
        follows.join().unwrap();
    });
}

/// Tries to submit the record and waits for it. Returns whether the log accepted it.
fn tries(log: &Bytes, record: &[u8]) -> bool {
    match log.try_submit(record) {
        Ok(ticket) => ticket.wait().is_ok(),
        Err(Error::WouldBlock { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the number of records after a power cut that loses everything unsynced, and checks that
/// none of them is in `refused`.
fn count_without(device: &MemStorage, refused: &[&[u8]]) -> usize {
    let left = device.power_cut(|_| false);
    let refused: Vec<Vec<u8>> = refused.iter().map(|record| record.to_vec()).collect();
    let count = move || {
        let log = open(&quiet(), &left);
        let records = log.read_from(Lsn::FIRST).unwrap().map(|entry| entry.unwrap().1);
        records.inspect(|record| assert!(!refused.contains(record), "{record:?}")).count()
    };
    spawn(count).join().unwrap()
}

#[test]
fn try_submit_takes_its_record_or_leaves_no_trace() {
    everywhere("one tries, one appends", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        let inside = Arc::clone(&log);
        let tried = spawn(move || tries(&inside, b"tried"));
        once(&log);
        let refused: &[&[u8]] = if tried.join().unwrap() { &[] } else { &[b"tried"] };
        log.flush().unwrap();
        assert_eq!(count_without(&device, refused), 2 - refused.len());
    });
    everywhere("one tries while the open batch is full, one flushes", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        drop(log.submit(&[b'x'; 900]).unwrap());
        let inside = Arc::clone(&log);
        let tried = spawn(move || tries(&inside, &[b'y'; 900]));
        log.flush().unwrap();
        let refused: &[&[u8]] = if tried.join().unwrap() { &[] } else { &[&[b'y'; 900]] };
        log.flush().unwrap();
        assert_eq!(count_without(&device, refused), 2 - refused.len());
    });
    everywhere("one tries, and the last handle closes the log", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        drop(log.submit(&[b'x'; 900]).unwrap());
        let inside = Arc::clone(&log);
        let tried = spawn(move || inside.try_submit(&[b'y'; 900]).is_ok());
        drop(log);
        let refused: &[&[u8]] = if tried.join().unwrap() { &[] } else { &[&[b'y'; 900]] };
        assert_eq!(count_without(&device, refused), 2 - refused.len());
    });
}

/// Wakes a thread that waits for a future.
struct Bell {
    rung: Mutex<bool>,
    condvar: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.condvar.notify_one();
    }
}

fn block_on(mut ticket: Ticket) -> seawall::Result<Lsn> {
    let bell = Arc::new(Bell { rung: Mutex::new(false), condvar: Condvar::new() });
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        if let Poll::Ready(done) = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        let mut rung = bell.rung.lock().unwrap();
        while !*rung {
            rung = bell.condvar.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// The log's flusher writes the awaited record: with it, three threads take part.
#[test]
fn an_awaited_record_is_written_and_its_waker_woken() {
    everywhere("one awaits, one appends", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        join(threads(&log, [awaits, once]));
        assert_eq!(survives(&device), lsn(2));
        drop(log);
    });
}

#[test]
fn a_close_releases_waiters_and_followers() {
    everywhere("one awaits while the log is closed", || {
        let device = MemStorage::new();
        let log = open(&quiet(), &device);
        let ticket = log.submit(b"awaited").unwrap();
        let awaits = spawn(move || assert_eq!(block_on(ticket).ok(), lsn(1)));
        Arc::into_inner(log).unwrap().close().unwrap();
        awaits.join().unwrap();
        assert_eq!(survives(&device), lsn(1));
    });
    everywhere("one follows while the log is closed", || {
        let log = open(&quiet(), &MemStorage::new());
        let mut follower = follow(&log);
        let follows = spawn(move || assert!(follower.next_record().unwrap().is_none()));
        Arc::into_inner(log).unwrap().close().unwrap();
        follows.join().unwrap();
    });
}
