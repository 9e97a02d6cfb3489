//! Closing a log while other tasks still use it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use scheduler::shuttle::future::block_on;
use scheduler::shuttle::sync::Mutex;
use scheduler::shuttle::thread::spawn;
use scheduler::time;
use seawall::{Error, Level, Lsn, Ticket};
use seawall_testkit::MemStorage;

use crate::waiters::{Bell, poll_once};
use crate::world::{
    Bytes, Witness, again, any, any_level, below, coin, join, open, quiet, record, tasks,
};

pub(crate) fn a_close_leaves_no_ticket_waiting() {
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    if coin() {
        time::flow();
    }
    let wait_for = |turn| {
        let (by, bytes) = (Arc::clone(&witness), record(0, turn));
        by.offer(&bytes);
        let mut ticket = log.submit(&bytes).unwrap();
        spawn(move || {
            let done = match turn {
                0 => ticket.wait(),
                // This task polls its ticket once and drops it.
                1 if !poll_once(&mut ticket) => return,
                _ => block_on(ticket),
            };
            by.keep(done.unwrap(), &bytes);
        })
    };
    let work: Vec<_> = (0..4).map(wait_for).collect();
    let log = Arc::into_inner(log).expect("this is the only handle");
    if coin() {
        log.close().unwrap();
    } else {
        drop(log);
    }
    let again = open(&again(&device), &device);
    assert_eq!(again.durable().map(Lsn::get), Some(4), "all were written, and the lock is free");
    assert_eq!(again.recovery().confirmed.map(Lsn::get), Some(4), "the close is noted");
    join(work);
    assert_eq!(witness.check(&device), 4);
}

/// One task closes the log that the others append to.
pub(crate) fn a_close_beside_appends_keeps_what_they_were_told() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    join(tasks(4, move |task| {
        if task == 0 {
            inside.close_shared().unwrap();
            assert!(matches!(inside.close_shared(), Err(Error::Closed { .. })));
            return;
        }
        for turn in 0..3 {
            let bytes = record(task, turn);
            by.offer(&bytes);
            // The close writes even a record that no task waits for.
            let done = if coin() {
                inside.append(&bytes)
            } else {
                inside.submit(&bytes).and_then(Ticket::wait)
            };
            match done {
                Ok(number) => by.keep(number, &bytes),
                Err(Error::Closed { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }));
    let again = open(&again(&device), &device);
    assert_eq!(again.recovery().confirmed, again.durable(), "the close is noted");
    drop((again, log));
    witness.check(&device);
}

/// A waker that owns the last handle of the log.
struct Last {
    log: Mutex<Option<Arc<Bytes>>>,
    bell: Arc<Bell>,
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        let log = self.log.lock().unwrap().take();
        drop(log);
        Arc::clone(&self.bell).wake();
    }
}

/// The leader calls the waker. If the leader is the log's own thread, that thread closes its log.
pub(crate) fn a_waker_may_drop_the_log() {
    time::flow();
    let device = MemStorage::new();
    let level = if coin() { Level::Synced } else { Level::Confirmed };
    let log = open(&any().level(level), &device);
    let witness = Witness::new();
    let bell = Arc::new(Bell::default());
    witness.offer(b"awaited");
    let mut ticket = log.submit(b"awaited").unwrap();
    let others: Vec<Ticket> = (0..2)
        .map(|turn| {
            let bytes = record(1, turn);
            witness.offer(&bytes);
            log.submit(&bytes).unwrap()
        })
        .collect();
    let others = Mutex::new(others);
    let work = tasks(2, move |_| {
        let ticket = others.lock().unwrap().pop();
        ticket.map(|ticket| if coin() { ticket.wait() } else { block_on(ticket) }.unwrap())
    });
    let last = Last { log: Mutex::new(Some(log)), bell: Arc::clone(&bell) };
    let waker = Waker::from(Arc::new(last));
    if Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending() {
        bell.wait();
        let again = Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(done) = again else { panic!("woken, and not ready") };
        witness.keep(done.unwrap(), b"awaited");
    }
    drop(waker);
    join(work);
    assert_eq!(witness.check(&device), 3);
}

pub(crate) fn a_close_beside_the_preparer_leaves_no_file_behind() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&quiet().preallocate(true), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let appends = tasks(2, move |task| {
        for turn in 0..below(4) {
            by.append(&inside, &record(task, turn)).unwrap();
        }
    });
    join(appends);
    Arc::into_inner(log).expect("this is the only handle").close().unwrap();
    let spares: Vec<String> =
        device.names().into_iter().filter(|name| name.starts_with("spare-")).collect();
    assert!(spares.is_empty(), "{spares:?}");
    witness.check(&device);
}
