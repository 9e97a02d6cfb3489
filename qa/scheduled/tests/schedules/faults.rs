//! A device that fails, is full, or loses power while tasks wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use scheduler::shuttle::future::block_on;
use scheduler::time;
use seawall::{Error, Lsn, Result, Ticket};
use seawall_testkit::MemStorage;

use crate::waiters::submit;
use crate::world::{Bytes, Witness, any, any_level, below, coin, join, open, record, tasks};

/// Appends in one of three ways, and tells the witness once the record is durable.
fn append_somehow(log: &Bytes, witness: &Witness, (task, turn): (u64, u64)) -> Result<()> {
    let bytes = record(task, turn);
    match task % 3 {
        0 => witness.append(log, &bytes).map(drop),
        1 => submit(log, witness, &bytes, Ticket::wait),
        _ => submit(log, witness, &bytes, block_on),
    }
}

pub(crate) fn a_failed_sync_releases_everybody_and_loses_nothing() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let nth = below(6);
    // One failed sync poisons the log only if it is that of the directory.
    if coin() {
        device.fail_sync(nth, |_| false);
    } else {
        device.spoil_sync(nth, 512);
    }
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let outcomes = join(tasks(3, move |task| {
        (0..3).try_for_each(|turn| append_somehow(&inside, &by, (task, turn)))
    }));
    let ended = log.flush();
    for outcome in outcomes {
        match outcome {
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
                assert!(matches!(ended, Err(Error::Poisoned { .. })), "{ended:?}");
            }
        }
    }
    witness.check(&device);
    drop(log);
    witness.check(&device);
}

pub(crate) fn a_device_that_fails_for_good_releases_everybody_with_the_error() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let first = below(6);
    for nth in first..first + 12 {
        device.fail_sync(nth, |_| false);
    }
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    let outcomes = join(tasks(3, move |task| {
        let mut follower = inside.follow(Lsn::FIRST).unwrap();
        let outcome = (0..).find_map(|turn| append_somehow(&inside, &by, (task, turn)).err());
        while let Ok(Some(_)) = follower.next_record() {}
        outcome.expect("without end otherwise")
    }));
    for error in outcomes {
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    }
    assert!(matches!(log.append(b"later"), Err(Error::Poisoned { .. })));
    // Records that were durable before the failure still are.
    let flushed = log.flush();
    assert!(matches!(flushed, Err(Error::Poisoned { .. })) || log.durable() == flushed.unwrap());
    drop(log);
    witness.check(&device);
}

pub(crate) fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    let used: usize =
        device.names().iter().filter_map(|name| device.bytes(name)).map(|b| b.len()).sum();
    device.limit(u64::try_from(used).unwrap() + below(12) * 512);
    let is_refused = Arc::new(AtomicBool::new(false));
    let (inside, by, refused) = (Arc::clone(&log), Arc::clone(&witness), Arc::clone(&is_refused));
    join(tasks(3, move |task| {
        for turn in 0..3 {
            match append_somehow(&inside, &by, (task, turn)) {
                Ok(()) => {}
                Err(Error::DiskFull { .. }) => refused.store(true, Ordering::Relaxed),
                Err(error) => panic!("{error}"),
            }
        }
    }));
    device.limit(1 << 20);
    let before = log.flush().unwrap();
    let number = witness.append(&log, b"there is room again").unwrap();
    assert!(Some(number) > before);
    log.flush().unwrap();
    assert_eq!(witness.check(&device), number.get());
    assert!(is_refused.load(Ordering::Relaxed) || number.get() == 10);
}

pub(crate) fn a_power_cut_at_any_step_takes_nothing_that_was_acknowledged() {
    time::flow();
    let device = MemStorage::new();
    let log = open(&any().level(any_level()), &device);
    let witness = Witness::new();
    device.stop_after(device.steps() + below(60));
    let (inside, by) = (Arc::clone(&log), Arc::clone(&witness));
    join(tasks(4, move |task| {
        for turn in 0..3 {
            let done = match task {
                3 => inside.confirm().map(drop),
                _ => append_somehow(&inside, &by, (task, turn)),
            };
            if done.is_err() {
                return;
            }
        }
    }));
    drop(log);
    for _ in 0..3 {
        witness.check(&device);
    }
}
