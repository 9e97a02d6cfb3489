//! Truncation and checkpoints between two batches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use scheduler::shuttle::future::block_on;
use scheduler::shuttle::thread::spawn;
use scheduler::time;
use seawall::{Error, Lsn};
use seawall_testkit::MemStorage;

use crate::world::{
    Bytes, Witness, again, any, below, coin, join, lsn, open, quiet, record, tasks,
};

/// An append: when it began and ended, counted in events, the LSN that it returned, and its record.
#[derive(Debug)]
struct Call {
    began: u64,
    ended: u64,
    number: u64,
    bytes: Vec<u8>,
}

/// Truncates a log once while other tasks append, and checks the records after a power cut against
/// the order of the calls.
fn cut_beside(append: fn(&Bytes, &[u8]) -> seawall::Result<Lsn>) {
    let device = MemStorage::new();
    let log = open(&quiet(), &device);
    let events = Arc::new(AtomicU64::new(0));
    let calls = Arc::new(Mutex::new(vec![]));
    let (inside, order, told) = (Arc::clone(&log), Arc::clone(&events), Arc::clone(&calls));
    let appends = tasks(3, move |task| {
        for turn in 0..2 {
            let bytes = record(task, turn);
            let began = order.fetch_add(1, Ordering::Relaxed);
            let number = append(&inside, &bytes).unwrap().get();
            let ended = order.fetch_add(1, Ordering::Relaxed);
            told.lock().unwrap().push(Call { began, ended, number, bytes });
        }
    });
    let (inside, order) = (Arc::clone(&log), Arc::clone(&events));
    let cut = spawn(move || {
        let last = inside.durable().filter(|_| coin());
        let began = order.fetch_add(1, Ordering::Relaxed);
        inside.truncate_after(last).unwrap();
        (began, order.fetch_add(1, Ordering::Relaxed), last.map_or(0, Lsn::get))
    });
    join(appends);
    let (began, ended, last) = cut.join().unwrap();
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let after = device.power_cut(|_| coin());
    let after: Bytes = again(&after).open_in(Arc::new(after)).unwrap();
    let found = after.read_from(Lsn::FIRST).unwrap().map(|entry| entry.unwrap());
    let found: BTreeMap<u64, Vec<u8>> = found.map(|(n, bytes)| (n.get(), bytes)).collect();
    for Call { began: from, ended: to, number, bytes } in &calls {
        let is_there = found.get(number) == Some(bytes);
        let must_stay = *number <= last || *from > ended;
        let must_go = *number > last && *to < began;
        assert!(is_there || !must_stay, "record {number} is gone: {bytes:?}");
        assert!(!is_there || !must_go, "record {number} is back: {bytes:?}");
    }
    let whose = |(number, bytes): (&u64, &Vec<u8>)| {
        calls.iter().filter(|call| call.number == *number && call.bytes == *bytes).count() == 1
    };
    assert!(found.iter().all(whose), "{found:?}");
}

/// An append may be woken only after its record was truncated.
pub(crate) fn appends_return_beside_a_cut() {
    cut_beside(Bytes::append);
}

pub(crate) fn tickets_are_awaited_beside_a_cut() {
    cut_beside(|log, bytes| log.submit(bytes).and_then(block_on));
}

/// A task that confirms waits for the writer ahead of appends. If a truncation has removed its
/// record meanwhile, it does not use the writer, so it must wake an append that it kept from doing
/// so.
pub(crate) fn confirmations_beside_a_cut_leave_no_append_waiting() {
    let device = MemStorage::new();
    let log = open(&quiet().writes_in_flight(2), &device);
    // Batches are in flight only in segments after the first.
    while log.stats().rolls == 0 {
        log.append(&[b'.'; 600]).unwrap();
    }
    let last = log.durable();
    let ticket = log.submit(&record(0, 0)).unwrap();
    let confirms = spawn({
        let log = Arc::clone(&log);
        move || log.confirm().unwrap()
    });
    let cuts = spawn({
        let log = Arc::clone(&log);
        move || {
            log.truncate_after(last).unwrap();
            log.append(&record(1, 0)).unwrap()
        }
    });
    ticket.wait().unwrap();
    confirms.join().unwrap();
    assert!(cuts.join().unwrap() > last.unwrap());
    let after = device.power_cut(|_| coin());
    let after: Bytes = again(&after).open_in(Arc::new(after)).unwrap();
    assert_eq!(after.durable(), log.durable());
}

pub(crate) fn checkpoints_and_prunes_go_between_appends() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any(), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let appends = tasks(2, move |task| {
        for turn in 0..4 {
            by.append(&inside, &record(task, turn)).unwrap();
        }
    });
    let inside = Arc::clone(&log);
    let prunes = spawn(move || {
        let mut oldest = Lsn::FIRST;
        for _ in 0..3 {
            let at = lsn(1 + below(inside.durable().map_or(1, Lsn::get)));
            match inside.checkpoint(at) {
                Ok(()) => assert!(at >= oldest, "{at} {oldest}"),
                Err(Error::InvalidOption { .. }) => {}
                Err(Error::Pruned { .. }) if at < oldest => {}
                Err(error) => panic!("{error}"),
            }
            let left = inside.truncate_before(at).unwrap();
            assert!(oldest <= left && left <= at.max(oldest), "{oldest} {left} {at}");
            oldest = left;
        }
        oldest
    });
    join(appends);
    let oldest = prunes.join().unwrap();
    let after = device.power_cut(|_| coin());
    let after: Bytes = again(&after).open_in(Arc::new(after)).unwrap();
    assert_eq!(after.oldest(), oldest);
    for (number, bytes) in witness.kept() {
        match after.get(lsn(number)) {
            Err(Error::Pruned { .. }) if lsn(number) < oldest => {}
            found => assert_eq!(found.unwrap(), Some(bytes)),
        }
    }
}
