//! A process that can start no further thread: the log writes each record on the caller's thread,
//! and no call waits for a thread that does not exist.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use crate::callbacks::poll;
use common::programs::output;
use common::{Bytes, again, lsn, open, payload, tiny};
use seawall::parity::Parity;
use seawall::{Error, ErrorKind, Level, Lsn, Maintenance, Options};
use seawall_format::SegmentId;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Set in the child process, which can start no thread.
const CHILD: &str = "SEAWALL_TEST_NO_THREADS";

/// No address space has room for such a stack, so every start of a thread fails.
const STACK: u64 = 1 << 60;

/// Runs the test `name` in a process that can start no thread, or `test` in that process.
fn without_threads(name: &str, test: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        std::thread::Builder::new().spawn(|| ()).unwrap_err();
        return test();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("no_threads::{name}"), "--nocapture", "--test-threads=1"]);
    let ran = output(child.env(CHILD, "1").env("RUST_MIN_STACK", STACK.to_string())).unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
}

/// Options of a log that leaves records without a waiter to a thread, for an hour.
fn unhurried(level: Level) -> Options {
    tiny(1).level(level).buffered(Duration::from_secs(3600), 1 << 20)
}

/// The records that are left after a power cut.
fn left(device: &MemStorage) -> Option<u64> {
    let log = open(&again(2), &device.power_cut(|_| false)).unwrap();
    log.durable().map(Lsn::get)
}

#[test]
fn record_without_a_waiter_is_durable_when_the_call_returns() {
    without_threads("record_without_a_waiter_is_durable_when_the_call_returns", || {
        for level in [Level::Buffered, Level::Synced, Level::Confirmed] {
            let device = MemStorage::new();
            let log = open(&unhurried(level), &device).unwrap();
            for number in 1..=3 {
                log.append(&payload(number, 1, 50)).unwrap();
                assert_eq!(left(&device), Some(number), "{level:?}");
            }
            log.append_batch([b"4".as_slice(), b"5"]).unwrap();
            assert_eq!(left(&device), Some(5), "{level:?}");
            // A task that awaits the ticket would otherwise never be woken.
            let mut ticket = log.submit(b"6").unwrap();
            assert_eq!(left(&device), Some(6), "{level:?}");
            let polled = poll(&mut ticket, Waker::noop());
            assert!(matches!(polled, Poll::Ready(Ok(last)) if last == lsn(6)), "{polled:?}");
        }
    });
}

#[test]
fn record_that_no_thread_would_write_is_refused_without_blocking() {
    without_threads("record_that_no_thread_would_write_is_refused_without_blocking", || {
        let device = MemStorage::new();
        let log = open(&unhurried(Level::Synced), &device).unwrap();
        for number in 1..=3 {
            let refused = log.try_submit(b"refused").unwrap_err();
            assert!(matches!(refused, Error::Io { .. }), "{refused}");
            assert_eq!(refused.kind(), ErrorKind::Retry);
            assert_eq!(log.append(b"written").unwrap(), lsn(number), "the log is unchanged");
        }
    });
}

/// Parity is synced, and files of removed segments are removed, although the preallocator cannot
/// start.
#[test]
fn work_of_the_preallocator_is_done_at_once() {
    without_threads("work_of_the_preallocator_is_done_at_once", || {
        let device = MemStorage::new();
        let parity: Parity = "4+2".parse().unwrap();
        let options = unhurried(Level::Synced).preallocate(true).parity(Some(parity));
        let log: Bytes = open(&options, &device).unwrap();
        while log.stats().rolls < 6 {
            log.append(&payload(1, 1, 100)).unwrap();
        }
        let cut: Arc<dyn Storage> = Arc::new(device.power_cut(|_| false));
        let protection = Maintenance::on(&cut).protection().unwrap();
        assert!(protection.open.len() <= 1, "{protection:?}");
        assert_eq!(log.stats().parity_failures, 0);

        let last = log.durable().unwrap();
        log.checkpoint(last).unwrap();
        log.truncate_before(last).unwrap();
        while log.stats().rolls < 9 {
            log.append(&payload(2, 1, 100)).unwrap();
        }
        let names = device.names();
        let files = names.iter().filter(|name| SegmentId::from_file_name(name).is_some()).count();
        assert!(files <= 5, "{names:?}");
        log.close().unwrap();
    });
}
