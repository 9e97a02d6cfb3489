//! Submits that never block: concurrent with leaders and exclusive users, with full batches, and
//! with a close. A record is accepted or refused, and a refused one is nowhere in the log.

use std::sync::Arc;
use std::time::Duration;

use scheduler::shuttle::future::block_on;
use scheduler::time;
use seawall::{Error, Level, Lsn, Ticket};
use seawall_testkit::MemStorage;

use crate::world::{Bytes, Witness, again, any, any_level, coin, join, open, record, tasks};

/// Tries to submit a record; `None` if that would block. The witness learns only of accepted
/// records, so it reports a refused one in the log.
fn try_submit(log: &Bytes, witness: &Witness, bytes: &[u8]) -> Option<Ticket> {
    match log.try_submit(bytes) {
        Ok(ticket) => {
            witness.offer(bytes);
            Some(ticket)
        }
        Err(Error::WouldBlock { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a record is durable, and tells the witness.
fn keep(log: &Bytes, witness: &Witness, (ticket, bytes): (Ticket, &[u8])) {
    let number = if coin() { ticket.wait() } else { block_on(ticket) }.unwrap();
    if log.level() != Level::Buffered {
        witness.keep(number, bytes);
    }
}

/// Returns a record so large that a batch has room for two.
fn large(task: u64, turn: u64) -> Vec<u8> {
    let mut bytes = record(task, turn);
    bytes.resize(400, b'.');
    bytes
}

pub(crate) fn a_try_beside_leaders_and_checkpoints_takes_a_record_or_leaves_no_trace() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let taken = join(tasks(4, move |task| {
        let mut taken = 0;
        for turn in 0..2 {
            let bytes = record(task, turn);
            match task {
                0 => taken += by.append(&inside, &bytes).map(|_| 1).unwrap(),
                1 => inside.checkpoint(Lsn::FIRST).unwrap(),
                _ => {
                    if let Some(ticket) = try_submit(&inside, &by, &bytes) {
                        keep(&inside, &by, (ticket, &bytes));
                        taken += 1;
                    }
                }
            }
        }
        taken
    }));
    let taken: u64 = taken.into_iter().sum();
    assert_eq!(log.flush().unwrap().map_or(0, Lsn::get), taken);
    assert_eq!(witness.check(&device), taken);
}

/// No other call makes room in the batch, so the log's own thread must.
pub(crate) fn records_refused_by_a_full_batch_are_taken_later_and_once() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let work = tasks(3, move |task| {
        for turn in 0..3 {
            let bytes = large(task, turn);
            let ticket = loop {
                if let Some(ticket) = try_submit(&inside, &by, &bytes) {
                    break ticket;
                }
                assert!(time::now() < Duration::from_secs(60), "nothing makes room");
                time::sleep(Duration::from_millis(1));
            };
            if coin() {
                keep(&inside, &by, (ticket, &bytes));
            }
        }
    });
    join(work);
    assert_eq!(log.flush().unwrap().map(Lsn::get), Some(9));
    assert_eq!(witness.check(&device), 9);
}

/// The last task closes the log while the log's own thread makes room in the batch because records
/// were refused.
pub(crate) fn a_close_beside_tries_keeps_the_taken_records_and_no_refused_one() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let by = Arc::clone(&witness);
    let taken = join(tasks(3, move |task| {
        let tries = (0..3).filter_map(|turn| try_submit(&log, &by, &large(task, turn)));
        tries.fold(0, |taken, ticket| {
            drop(ticket);
            taken + 1
        })
    }));
    let taken: u64 = taken.into_iter().sum();
    let again = open(&again(&device), &device);
    assert_eq!(
        again.durable().map_or(0, Lsn::get),
        taken,
        "all were written, and the lock is free"
    );
    drop(again);
    assert_eq!(witness.check(&device), taken);
}
