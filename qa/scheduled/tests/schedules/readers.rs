//! Readers and followers that run concurrently with the writer.

use std::sync::Arc;
use std::time::Duration;

use scheduler::shuttle::thread::spawn;
use scheduler::time;
use seawall::{LogReader, Lsn, Raw};
use seawall_testkit::MemStorage;

use crate::disk::Disk;
use crate::world::{Witness, again, any, below, coin, join, lsn, open, quiet, record, tasks};

/// Simulated time does not advance: a reader that misses the wake-up sleeps forever.
pub(crate) fn a_follower_is_woken_by_each_record() {
    let device = MemStorage::new();
    let log = open(&quiet(), &device);
    let witness = Witness::new();
    let followers: Vec<_> = (0..2)
        .map(|_| {
            let mut follower = log.follow(Lsn::FIRST).unwrap();
            spawn(move || {
                let next = |_| follower.next_record().unwrap().expect("the log is open");
                (0..4).map(next).collect::<Vec<_>>()
            })
        })
        .collect();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    join(tasks(2, move |task| {
        for turn in 0..2 {
            by.append(&inside, &record(task, turn)).unwrap();
        }
    }));
    let kept = witness.kept();
    for seen in join(followers) {
        let seen: Vec<(u64, Vec<u8>)> =
            seen.into_iter().map(|(n, bytes)| (n.get(), bytes)).collect();
        assert!(seen.into_iter().eq(kept.clone()));
    }
    assert_eq!(time::now(), Duration::ZERO);
    assert_eq!(witness.check(&device), 4);
}

pub(crate) fn a_close_releases_followers() {
    let device = MemStorage::new();
    let log = open(&quiet(), &device);
    let followers: Vec<_> = (0..2)
        .map(|_| {
            let mut follower = log.follow(Lsn::FIRST).unwrap();
            spawn(move || {
                let mut count = 0;
                while follower.next_record().unwrap().is_some() {
                    count += 1;
                }
                count
            })
        })
        .collect();
    let inside = Arc::clone(&log);
    join(tasks(2, move |task| inside.append(&record(task, 0)).unwrap()));
    Arc::into_inner(log).expect("this is the only handle").close().unwrap();
    assert_eq!(join(followers), [2, 2], "what was durable before the close is delivered");
}

pub(crate) fn what_was_acknowledged_is_got_at_once() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        for turn in 0..3 {
            if task < 2 {
                let bytes = record(task, turn);
                let number = by.append(&inside, &bytes).unwrap();
                assert_eq!(inside.get(number).unwrap(), Some(bytes));
                continue;
            }
            let acknowledged = by.kept();
            let found = inside.read_from(Lsn::FIRST).unwrap().map(|entry| entry.unwrap());
            let found: Vec<(Lsn, Vec<u8>)> = found.collect();
            assert!(found.len() >= acknowledged.len(), "{} of {acknowledged:?}", found.len());
            for (number, bytes) in acknowledged {
                assert_eq!(found[usize::try_from(number - 1).unwrap()], (lsn(number), bytes));
            }
        }
    });
    join(work);
    assert_eq!(witness.check(&device), 6);
}

/// The reader opens the files, as a reader in another process does.
pub(crate) fn a_reader_elsewhere_sees_nothing_that_a_power_cut_takes() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let appends = tasks(2, move |task| {
        for turn in 0..3 {
            by.append(&inside, &record(task, turn)).unwrap();
        }
    });
    let elsewhere = device.clone();
    let reader = spawn(move || {
        for _ in 0..=below(3) {
            let reader: LogReader<[u8], Raw> =
                again(&elsewhere).open_any_reader_in(Disk::on(&elsewhere)).unwrap();
            let entries = reader.read_from(Lsn::FIRST).unwrap();
            let seen: Vec<(Lsn, Vec<u8>)> = entries.map(|entry| entry.unwrap()).collect();
            let after = elsewhere.power_cut(|_| coin());
            let log: crate::world::Bytes = again(&after).open_in(Arc::new(after)).unwrap();
            for (number, bytes) in seen {
                assert_eq!(log.get(number).unwrap(), Some(bytes), "{number} was shown");
            }
        }
    });
    join(appends);
    reader.join().unwrap();
    assert_eq!(witness.check(&device), 6);
}
