//! Wakers that call the log while other writes are in flight.

use super::{PATIENCE, Stream, options, record};
use crate::callbacks::{Bell, poll};
use crate::common::{Bytes, within};
use seawall::{Options, Ticket};
use seawall_testkit::MemStorage;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::Waker;
use std::thread;

/// What a waker does with the log and a ticket of the write that is still in flight.
type CallBack = fn(Arc<Bytes>, Ticket);

/// Two batches are in flight. A task awaits the first, and its waker runs `call` before the second
/// returns.
fn wake_beside_a_write(stream: &Stream, log: Arc<Bytes>, call: CallBack) {
    let before = stream.before;
    let mut first = log.submit(&record(before + 1)).unwrap();
    let arguments = Arc::new(Mutex::new(None));
    let waker = Waker::from(Arc::new(Bell({
        let arguments = arguments.clone();
        move || {
            let (log, ticket) = arguments.lock().unwrap().take().unwrap();
            call(log, ticket);
        }
    })));
    assert!(poll(&mut first, &waker).is_pending());
    stream.wait_for(1);
    let second = log.submit(&record(before + 2)).unwrap();
    *arguments.lock().unwrap() = Some((log, second.clone()));
    let waits = thread::spawn(move || second.wait());
    stream.wait_for(2);
    stream.writes.state.lock().unwrap().shut = false;
    stream.land_in_order();
    assert_eq!(waits.join().unwrap().unwrap().get(), before + 2);
}

#[test]
fn waker_may_call_the_log_while_the_next_batch_is_in_flight() {
    let calls: [CallBack; 3] = [
        |log, _| log.append(b"from a waker").map(drop).unwrap(),
        |log, _| log.flush().map(drop).unwrap(),
        |_, ticket| ticket.wait().map(drop).unwrap(),
    ];
    for call in calls {
        within(PATIENCE, move || {
            let stream = Stream::new(0);
            wake_beside_a_write(&stream, stream.log().clone(), call);
        });
    }
}

#[test]
fn waker_may_drop_the_log_while_the_next_batch_is_in_flight() {
    within(PATIENCE, || {
        let mut stream = Stream::new(0);
        let log = stream.log.take().unwrap();
        wake_beside_a_write(&stream, log, |log, _| drop(Arc::into_inner(log).unwrap()));
    });
}

/// The flusher runs a waker that waits for this thread. Meanwhile this thread's records reach the
/// first segment that takes several writes.
#[test]
fn flusher_that_runs_a_waker_is_not_waited_for_after_a_rotation() {
    within(PATIENCE, || {
        let device = Arc::new(MemStorage::new());
        let log: Bytes = Options::new().open_in(device).unwrap();
        let (enter, entered) = mpsc::channel();
        let is_locked = Arc::new(Mutex::new(()));
        let lock = is_locked.lock().unwrap();
        let waker = Waker::from(Arc::new(Bell({
            let is_locked = is_locked.clone();
            move || {
                enter.send(()).unwrap();
                drop(is_locked.lock().unwrap());
            }
        })));
        let mut ticket = log.submit(b"awaited").unwrap();
        assert!(poll(&mut ticket, &waker).is_pending());
        entered.recv().unwrap();
        let large = vec![7; 100_000];
        for _ in 0..400 {
            drop(log.submit(&large).unwrap());
        }
        assert!(log.stats().rolls > 0);
        drop(lock);
        log.close().unwrap();
    });
}

/// Every flusher runs a waker that waits for this thread. So this thread must not leave a full
/// batch to them.
#[test]
fn flushers_that_run_wakers_are_not_waited_for() {
    within(PATIENCE, || {
        let stream = Stream::with(0, &options().writes_in_flight(2).stream_batch(1, 1));
        let log = stream.log();
        let is_done = Arc::new((Mutex::new(false), Condvar::new()));
        let (enter, entered) = mpsc::channel();
        // Three flushers: one more than there may be writes.
        for number in 1..=3 {
            let mut ticket = log.submit(&record(stream.before + number)).unwrap();
            stream.wait_for(1);
            let (enter, is_done) = (enter.clone(), is_done.clone());
            let waker = Waker::from(Arc::new(Bell(move || {
                enter.send(()).unwrap();
                let (is_done, changed) = &*is_done;
                drop(changed.wait_while(is_done.lock().unwrap(), |is_done| !*is_done).unwrap());
            })));
            assert!(poll(&mut ticket, &waker).is_pending());
            stream.land_in_order();
            entered.recv().unwrap();
        }
        stream.writes.state.lock().unwrap().shut = false;
        for number in 4..=20 {
            drop(log.submit(&record(stream.before + number)).unwrap());
        }
        let (told, changed) = &*is_done;
        *told.lock().unwrap() = true;
        changed.notify_all();
        assert_eq!(log.flush().unwrap().unwrap().get(), stream.before + 20);
    });
}
