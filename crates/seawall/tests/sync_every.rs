//! `Options::sync_every`: a crash loses fewer acknowledged records than the given number.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::Bytes;
use seawall::{Level, Lsn, Options};
use seawall_testkit::{CrashOutcome, MemStorage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

fn plain() -> Options {
    Options::new().segment_size(1 << 20).preallocate(false)
}

/// Options with which nothing else syncs: no delay ends, and no buffer is full.
fn options(records: u64) -> Options {
    let hour = Duration::from_secs(3600);
    plain().buffered(hour, usize::MAX).idle_mark(None).sync_every(records)
}

/// The last record after a power cut that loses everything unsynced.
fn after_a_power_cut(storage: &MemStorage) -> u64 {
    let left = Arc::new(storage.power_cut(|_| CrashOutcome::Lost));
    let log: Bytes = plain().open_in(left).unwrap();
    log.recovery().last.map_or(0, Lsn::get)
}

#[test]
fn power_cut_loses_fewer_records_than_the_period() {
    for period in [1, 2, 3, 10] {
        let storage = MemStorage::new();
        let log: Bytes = options(period).open_in(Arc::new(storage.clone())).unwrap();
        let mut lost_most = 0;
        for acknowledged in 1..=25 {
            assert_eq!(log.append(b"a record").unwrap().get(), acknowledged);
            let left = after_a_power_cut(&storage);
            assert!(left + period > acknowledged, "{left} of {acknowledged}, period {period}");
            lost_most = lost_most.max(acknowledged - left);
        }
        assert_eq!(lost_most, period - 1, "the others are not synced each");
        assert_eq!(log.level(), Level::Buffered);
    }
}

#[test]
fn power_cut_loses_fewer_records_than_the_period_with_sets_and_tickets() {
    let storage = MemStorage::new();
    let log: Bytes = options(5).open_in(Arc::new(storage.clone())).unwrap();
    for round in 0_usize..12 {
        let set = vec![b"of a set".as_slice(); 1 + round % 7];
        let acknowledged = match round % 3 {
            0 => log.append_batch(set).unwrap().end().get(),
            1 => log.submit(b"waited for").unwrap().wait().unwrap().get(),
            _ => log.append(b"alone").unwrap().get(),
        };
        let left = after_a_power_cut(&storage);
        assert!(left + 5 > acknowledged, "{left} of {acknowledged}");
    }
}

#[test]
fn power_cut_loses_fewer_records_than_the_period_of_many_threads() {
    let storage = MemStorage::new();
    let log: Bytes = options(4).open_in(Arc::new(storage.clone())).unwrap();
    let acknowledged = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    log.append(b"a record").unwrap();
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while acknowledged.load(Ordering::SeqCst) < 200 {
            // Records are numbered in the order in which they can be lost.
            let before = acknowledged.load(Ordering::SeqCst);
            let left = after_a_power_cut(&storage);
            assert!(left + 4 > before, "{left} of at least {before}");
        }
    });
}
