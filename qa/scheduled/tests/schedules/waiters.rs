//! Tasks that submit first and wait later, by blocking or as a future.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use scheduler::shuttle::future::block_on;
use scheduler::shuttle::sync::{Condvar, Mutex};
use scheduler::shuttle::thread::{ThreadId, current, spawn, yield_now};
use scheduler::time;
use seawall::{Level, Lsn, Ticket};
use seawall_io::{Clock, SeededEntropy};
use seawall_testkit::MemStorage;

use crate::world::{Bytes, Witness, any, any_level, below, coin, join, open, quiet, record, tasks};

/// Submits a record, and tells the witness once `wait` returns that it is durable.
pub(crate) fn submit(
    log: &Bytes,
    witness: &Witness,
    bytes: &[u8],
    wait: impl FnOnce(Ticket) -> seawall::Result<Lsn>,
) -> seawall::Result<()> {
    witness.offer(bytes);
    let ticket = log.submit(bytes)?;
    let number = wait(ticket)?;
    if log.level() != Level::Buffered {
        witness.keep(number, bytes);
    }
    Ok(())
}

pub(crate) fn tickets_are_waited_for_in_any_order() {
    let device = MemStorage::new();
    let log = open(&quiet().level(any_level()), &device);
    let witness = Witness::new();
    time::flow();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        let records: Vec<Vec<u8>> = (0..3).map(|turn| record(task, turn)).collect();
        for bytes in &records {
            by.offer(bytes);
        }
        let mut tickets: Vec<(Ticket, &Vec<u8>)> =
            records.iter().map(|bytes| (inside.submit(bytes).unwrap(), bytes)).collect();
        if coin() {
            tickets.reverse();
        }
        for (ticket, bytes) in tickets {
            let number = ticket.lsn();
            assert_eq!(ticket.wait().unwrap(), number);
            if inside.level() != Level::Buffered {
                by.keep(number, bytes);
            }
        }
    });
    join(work);
    witness.check(&device);
    assert_eq!(log.flush().unwrap().map(Lsn::get), Some(9));
    witness.check(&device);
}

/// Simulated time does not advance: an awaited record must be written at once.
pub(crate) fn tickets_are_awaited() {
    let device = MemStorage::new();
    let level = if coin() { Level::Synced } else { Level::Confirmed };
    let log = open(&quiet().level(level), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        for turn in 0..2 {
            let bytes = record(task, turn);
            match task {
                0 => drop(by.append(&inside, &bytes).unwrap()),
                _ => submit(&inside, &by, &bytes, block_on).unwrap(),
            }
        }
    });
    join(work);
    assert_eq!(witness.check(&device), 6);
}

/// A waker of the task that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    condvar: Condvar,
}

impl Bell {
    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.condvar.wait(rung).unwrap();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.condvar.notify_all();
    }
}

/// A future may move from task to task: only the waker of its last poll must be woken.
pub(crate) fn the_waker_of_the_last_poll_is_woken() {
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    time::flow();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        let bytes = record(task, 0);
        submit(&inside, &by, &bytes, |mut ticket| {
            let (first, last) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
            let mut poll = |bell: &Arc<Bell>| {
                let waker = Waker::from(Arc::clone(bell));
                Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker))
            };
            if let Poll::Ready(done) = poll(&first) {
                return done;
            }
            loop {
                if let Poll::Ready(done) = poll(&last) {
                    return done;
                }
                last.wait();
                *last.rung.lock().unwrap() = false;
            }
        })
        .unwrap();
    });
    join(work);
    assert_eq!(witness.check(&device), 3);
}

/// Two tasks await clones of one ticket, and both are woken.
pub(crate) fn clones_of_a_ticket_are_awaited_by_two() {
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    time::flow();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(2, move |task| {
        let bytes = record(task, 0);
        submit(&inside, &by, &bytes, |ticket| {
            let clone = ticket.clone();
            let other = spawn(move || block_on(clone));
            let done = block_on(ticket);
            assert_eq!(other.join().unwrap().ok(), done.as_ref().ok().copied());
            done
        })
        .unwrap();
    });
    join(work);
    assert_eq!(witness.check(&device), 2);
}

/// A waker that appends.
struct Appender {
    log: Arc<Bytes>,
    witness: Arc<Witness>,
    record: Vec<u8>,
    bell: Bell,
}

impl Wake for Appender {
    fn wake(self: Arc<Self>) {
        self.witness.append(&self.log, &self.record).unwrap();
        *self.bell.rung.lock().unwrap() = true;
        self.bell.condvar.notify_all();
    }
}

/// The thread that wakes a task may have written the batch as a leader, to acknowledge a batch in
/// flight, or before a checkpoint.
pub(crate) fn wakers_append_beside_a_checkpoint() {
    let device = MemStorage::new();
    let log = open(&quiet().level(Level::Synced), &device);
    let witness = Witness::new();
    // Batches are in flight only in segments after the first.
    let mut number = 0;
    while log.stats().rolls == 0 {
        witness.append(&log, &[[number; 600].as_slice(), b"before"].concat()).unwrap();
        number += 1;
    }
    time::flow();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        if task == 0 {
            inside.checkpoint(Lsn::FIRST).unwrap();
            return;
        }
        submit(&inside, &by, &record(task, 0), |mut ticket| {
            let (log, witness) = (Arc::clone(&inside), Arc::clone(&by));
            let (record, bell) = (record(task, 1), Bell::default());
            let appender = Arc::new(Appender { log, witness, record, bell });
            let waker = Waker::from(Arc::clone(&appender));
            match Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(done) => return done,
                Poll::Pending => appender.bell.wait(),
            }
            ticket.wait()
        })
        .unwrap();
    });
    join(work);
    witness.check(&device);
}

/// A clock of a log. The log asks for the time at each landing, with the batch before already
/// durable, so the clock knows how many landings each thread has begun since a record was durable.
#[derive(Debug, Default)]
struct LandingClock {
    log: OnceLock<Weak<Bytes>>,
    seen: StdMutex<HashMap<ThreadId, BTreeSet<u64>>>,
}

impl Clock for LandingClock {
    fn now(&self) -> Duration {
        if let Some(log) = self.log.get().and_then(Weak::upgrade) {
            let durable = log.durable().map_or(0, Lsn::get);
            let mut seen = self.seen.lock().unwrap();
            seen.entry(current().id()).or_default().insert(durable);
        }
        time::now()
    }

    fn wall_us(&self) -> u64 {
        time::Clock.wall_us()
    }

    fn sleep(&self, time: Duration) {
        time::sleep(time);
    }
}

/// A waker that counts the landings that its thread has begun since its record was durable.
struct CountsLandings {
    clock: Arc<LandingClock>,
    number: u64,
    most: Arc<AtomicUsize>,
}

impl Wake for CountsLandings {
    fn wake(self: Arc<Self>) {
        let seen = self.clock.seen.lock().unwrap();
        let late = seen.get(&current().id()).map_or(0, |seen| seen.range(self.number..).count());
        self.most.fetch_max(late, Ordering::Relaxed);
    }
}

/// The thread that acknowledges a write goes on with those that return meanwhile. It must not do so
/// forever while a task is to be woken.
pub(crate) fn a_waker_is_called_after_few_landings() {
    let device = MemStorage::new();
    let clock = Arc::new(LandingClock::default());
    let entropy = Arc::new(SeededEntropy::new(below(u64::MAX)));
    let options = quiet().writes_in_flight(2);
    let log = open(&options.level(Level::Synced).env(Arc::clone(&clock) as _, entropy), &device);
    clock.log.set(Arc::downgrade(&log)).unwrap();
    let witness = Witness::new();
    // Batches are in flight only in segments after the first.
    let mut number = 0;
    while log.stats().rolls < 2 {
        witness.append(&log, &[[number; 600].as_slice(), b"before"].concat()).unwrap();
        number += 1;
    }
    time::flow();
    let most = Arc::new(AtomicUsize::new(0));
    let (inside, by, counted) = (Arc::clone(&log), Arc::clone(&witness), Arc::clone(&most));
    let work = tasks(3, move |task| {
        let mut tickets = vec![];
        for turn in 0..7 {
            let bytes = record(task, turn);
            by.offer(&bytes);
            let mut ticket = inside.submit(&bytes).unwrap();
            let (clock, most) = (Arc::clone(&clock), Arc::clone(&counted));
            let number = ticket.lsn().get();
            let waker = Waker::from(Arc::new(CountsLandings { clock, number, most }));
            let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                tickets.push(ticket);
            }
        }
        for ticket in tickets {
            ticket.wait().unwrap();
        }
    });
    join(work);
    // Two, and the writes in flight, which were on the device.
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 4, "a task was woken {most} landings late");
    witness.check(&device);
    // The clock must not drop the last handle: the log reads it under its own lock.
    let mut log = log;
    while let Err(shared) = Arc::try_unwrap(log) {
        log = shared;
        yield_now();
    }
}

/// Wakers wait until a later record is durable, which no thread waits for.
pub(crate) fn a_record_is_written_while_wakers_wait_for_it() {
    let device = MemStorage::new();
    let log = open(&any().level(Level::Synced), &device);
    let witness = Witness::new();
    time::flow();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(2, move |task| {
        // So short that they fill no batch: the task that fills one runs wakers, too.
        let (mut bytes, mut later) = (record(task, 0), record(task, 1));
        bytes.truncate(20);
        later.truncate(20);
        by.offer(&bytes);
        let mut ticket = inside.submit(&bytes).unwrap();
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::new(Holder(Arc::clone(&bell))));
        let _ = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker));
        by.offer(&later);
        let number = inside.submit(&later).unwrap().lsn();
        while inside.durable() < Some(number) {
            assert!(time::now() < Duration::from_secs(60), "nothing writes the record");
            time::sleep(Duration::from_millis(1));
        }
        by.keep(number, &later);
        bell.wake();
    });
    join(work);
    assert_eq!(log.flush().unwrap().map(Lsn::get), Some(4));
    assert_eq!(witness.check(&device), 4);
}

/// A waker that waits.
struct Holder(Arc<Bell>);

impl Wake for Holder {
    fn wake(self: Arc<Self>) {
        self.0.wait();
    }
}

/// Polls a ticket once, which makes the log write, and returns whether it was ready.
pub(crate) fn poll_once(ticket: &mut Ticket) -> bool {
    let was_ready = AtomicBool::new(false);
    block_on(poll_fn(|context| {
        let poll = Pin::new(&mut *ticket).poll(context);
        was_ready.store(poll.is_ready(), Ordering::Relaxed);
        Poll::Ready(())
    }));
    was_ready.into_inner()
}
