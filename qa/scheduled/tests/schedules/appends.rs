//! Concurrent appends.

use std::sync::Arc;
use std::time::Duration;

use scheduler::time;
use seawall::{Level, Lsn};
use seawall_testkit::MemStorage;

use crate::world::{
    Bytes, Witness, again, any, any_level, below, join, open, quiet, record, tasks,
};

pub(crate) fn appends_of_every_level_are_numbered_and_kept() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let numbers = join(tasks(4, move |task| {
        let append = |turn| by.append(&inside, &record(task, turn)).unwrap();
        let numbers: Vec<Lsn> = (0..3).map(append).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        numbers
    }));
    let mut numbers: Vec<u64> = numbers.into_iter().flatten().map(Lsn::get).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=12));
    if log.level() == Level::Buffered {
        witness.check(&device);
        assert_eq!(log.flush().unwrap().map(Lsn::get), Some(12));
    }
    assert_eq!(witness.check(&device), 12);
    drop(log);
    assert_eq!(witness.check(&device), 12);
}

pub(crate) fn sets_are_kept_whole() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let appends = tasks(3, move |task| {
        for turn in 0..2 {
            let name = |part| format!("task {task}, turn {turn}, part {part}").into_bytes();
            let set: Vec<Vec<u8>> = (0..=below(3)).map(name).collect();
            for bytes in &set {
                by.offer(bytes);
            }
            let range = inside.append_batch(set.iter().map(Vec::as_slice)).unwrap();
            let numbers = range.start().get()..=range.end().get();
            assert_eq!(numbers.clone().count(), set.len());
            for (number, bytes) in numbers.zip(&set) {
                by.keep(Lsn::new(number).unwrap(), bytes);
            }
        }
    });
    join(appends);
    drop(log);
    witness.check(&device);
}

/// Simulated time does not advance, so the clock wakes no thread.
pub(crate) fn flush_and_confirm_return_beside_appends() {
    let device = MemStorage::new();
    let log = open(&quiet().level(any_level()), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(4, move |task| {
        for turn in 0..2 {
            match task {
                0 | 1 => drop(by.append(&inside, &record(task, turn)).unwrap()),
                2 => drop(inside.flush().unwrap()),
                _ => drop(inside.confirm().unwrap()),
            }
        }
    });
    join(work);
    assert_eq!(log.confirm().unwrap().map(Lsn::get), Some(4));
    assert_eq!(witness.check(&device), 4);
}

pub(crate) fn a_log_that_idles_is_confirmed() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&quiet().idle_mark(Some(Duration::from_millis(100))), &device);
    let inside = Arc::clone(&log);
    join(tasks(2, move |task| {
        for turn in 0..2 {
            inside.append(&record(task, turn)).unwrap();
        }
    }));
    let last = log.append(b"the last").unwrap();
    // Evidence that survives a power cut, whatever the log says of it.
    let confirmed = || -> Option<Lsn> {
        let after = device.power_cut(|_| false);
        let after: Bytes = again(&after).open_in(Arc::new(after)).unwrap();
        after.recovery().confirmed
    };
    while confirmed() != Some(last) {
        assert!(time::now() < Duration::from_secs(60), "the flusher sleeps");
        time::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn a_buffered_record_becomes_durable_without_a_waiter() {
    time::flow();
    let device = MemStorage::new();
    let log: Arc<Bytes> = open(&any().level(Level::Buffered), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let appends = tasks(2, move |task| {
        by.append(&inside, &record(task, 0)).unwrap();
        by.append(&inside, &record(task, 1)).unwrap();
    });
    join(appends);
    while log.durable().map(Lsn::get) != Some(4) {
        assert!(time::now() < Duration::from_secs(60), "the flusher sleeps");
        time::sleep(Duration::from_millis(1));
    }
    assert_eq!(witness.check(&device), 4);
}
