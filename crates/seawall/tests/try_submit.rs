//! `try_submit` never waits: a full batch, a missing segment file and a full disk refuse the
//! record, and a later try succeeds.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::gate::Gated;
use common::{Bytes, GEOMETRY, SEGMENT_MIN, lsn, read_own, within};
use seawall::{Error, ErrorKind, Lsn, Options};
use seawall_io::{Clock, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a test, in seconds.
const PATIENCE: u64 = 20;
const RECORD: [u8; 400] = [b'a'; 400];

/// Opens a log with small batches and segments, and without preallocated files.
fn open(storage: Arc<dyn Storage>) -> Bytes {
    let options = Options::new().geometry(GEOMETRY, SEGMENT_MIN).segment_size(1 << 16);
    options.preallocate(false).open_in(storage).unwrap()
}

/// Submits records until one is refused. Returns how many were accepted.
fn fill(log: &Bytes) -> u64 {
    for count in 0..1000 {
        match log.try_submit(&RECORD) {
            Ok(ticket) => assert_eq!(ticket.lsn(), lsn(count + 1)),
            Err(Error::WouldBlock { .. }) => return count,
            Err(other) => panic!("record {count}: {other}"),
        }
    }
    panic!("a thousand records in one batch")
}

/// Tries again until the record is taken or refused for another reason.
fn submit_patiently(log: &Bytes) -> Result<Lsn, Error> {
    loop {
        match log.try_submit(&RECORD) {
            Err(Error::WouldBlock { .. }) => SystemClock::new().sleep(Duration::from_millis(1)),
            done => return done.map(|ticket| ticket.lsn()),
        }
    }
}

#[test]
fn full_batch_is_refused_while_the_device_is_busy_and_taken_afterwards() {
    within(PATIENCE, || {
        let (gated, gate) = Gated::new(MemStorage::new());
        let log = open(Arc::new(gated));
        gate.shut();
        let count = fill(&log);
        assert!(count > 0, "the first record finds room");
        let refused = log.try_submit(&RECORD).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Retry, "{refused}");
        assert_eq!(log.durable(), None, "the device is still busy");
        gate.open();
        assert_eq!(submit_patiently(&log).unwrap(), lsn(count + 1));
        assert_eq!(log.flush().unwrap(), Some(lsn(count + 1)));
        assert_eq!(read_own(&log).count(), count + 1);
    });
}

/// No other call makes room, so the log's own thread must.
#[test]
fn refused_records_get_their_next_segment_without_another_call() {
    within(PATIENCE, || {
        let log = open(Arc::new(MemStorage::new()));
        for number in 1..=2000 {
            assert_eq!(submit_patiently(&log).unwrap(), lsn(number));
        }
        assert_eq!(log.flush().unwrap(), Some(lsn(2000)));
        assert!(log.stats().rolls > 2, "{:?}", log.stats());
        assert_eq!(read_own(&log).count(), 2000);
    });
}

#[test]
fn full_disk_is_reported_by_a_later_try_and_ends_once_there_is_space() {
    within(PATIENCE, || {
        let storage = MemStorage::new();
        let log = open(Arc::new(storage.clone()));
        storage.limit(0);
        let refused = loop {
            match submit_patiently(&log) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused:?}");
        storage.limit(u64::MAX);
        let next = log.flush().unwrap().unwrap().next();
        let taken = loop {
            // A try that was refused before the disk had space may still be reported.
            match submit_patiently(&log) {
                Err(Error::DiskFull { .. }) => {}
                done => break done.unwrap(),
            }
        };
        assert_eq!(taken, next);
    });
}

#[test]
fn poisoned_log_refuses_for_good() {
    within(PATIENCE, || {
        let storage = MemStorage::new();
        let log = open(Arc::new(storage.clone()));
        for sync in 0..12 {
            storage.fail_sync(sync, |_| false);
        }
        assert!(matches!(log.append(&RECORD), Err(Error::Poisoned { .. })));
        let refused = log.try_submit(&RECORD).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Reopen, "{refused}");
    });
}
