//! Both slots of the file `keys` have the keys before a record depends on them, so that damage to
//! one slot loses nothing.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::lives::cuts;
use common::{again, encrypted, lsn, open, payload, read, tiny};
use seawall_format::keys::{SLOT_B, WrappedKeys};
use seawall_testkit::MemStorage;

/// The offsets of the slots.
fn slots() -> [usize; 2] {
    [0, usize::try_from(SLOT_B.0).unwrap()]
}

/// The number of keys in each slot that is readable.
fn counts(device: &MemStorage) -> [Option<usize>; 2] {
    let slots = WrappedKeys::decode_file(&device.bytes("keys").unwrap());
    slots.map(|slot| slot.ok().map(|slot| slot.numbers().count()))
}

fn damage(device: &MemStorage, slot: usize) {
    device.edit("keys", |bytes| bytes[slot + 100] ^= 1);
}

/// A closed log with five records.
fn written() -> MemStorage {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for number in 1..=5 {
        log.append(&payload(number, 0, 50)).unwrap();
    }
    log.close().unwrap();
    device
}

/// The devices on which one slot of `keys` lacks the newest keys: a new log key was written to one
/// slot only, or one slot is damaged.
fn incomplete() -> Vec<MemStorage> {
    let before = written();
    let mut found = vec![];
    for slot in slots() {
        let device = before.kill();
        damage(&device, slot);
        found.push(device);
    }
    for stop in 0.. {
        let device = before.kill();
        device.stop_after(stop);
        let renewed = open(&again(2), &device).and_then(|log| log.renew_log_key());
        for left in [device.power_cut(|_| false), device.kill()] {
            let [one, two] = counts(&left);
            found.extend(Some(left).filter(|_| one != two));
        }
        if renewed.is_ok() {
            break;
        }
    }
    assert!(found.len() > 3, "{}", found.len());
    found
}

/// Checks that the log has at least `count` records, also without either slot of `keys`.
#[track_caller]
fn depends_on_no_slot(device: &MemStorage, count: u64, what: &str) {
    for slot in slots() {
        let device = device.kill();
        damage(&device, slot);
        let found = read(&device, false).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert!(found.is_prefix() && found.count() >= count, "{what}, slot at {slot}: {found:?}");
        let opened = open(&again(9), &device);
        assert!(opened.unwrap().durable() >= Some(lsn(count)), "{what}, slot at {slot}");
    }
}

#[test]
fn slot_that_lacks_the_newest_keys_is_written_before_they_are_used() {
    encrypted(|| {
        for (number, device) in incomplete().iter().enumerate() {
            let what = format!("device {number}, keys {:?}", counts(device));
            let log = open(&again(3), device).unwrap();
            for number in 6..=40 {
                log.append(&payload(number, 0, 150)).unwrap();
            }
            log.close().unwrap();
            let [one, two] = counts(device);
            assert!(one.is_some() && one == two, "{what}: {one:?}, {two:?}");
            depends_on_no_slot(device, 40, &what);
        }
    });
}

#[test]
fn crash_while_slots_are_completed_leaves_a_log_that_the_key_opens() {
    encrypted(|| {
        let mut states = 0;
        for (number, before) in incomplete().iter().enumerate() {
            for stop in 0.. {
                let device = before.kill();
                device.stop_after(stop);
                let mut durable = 5;
                let mut live = || -> seawall::Result<()> {
                    let log = open(&again(3), &device)?;
                    durable = log.append(&payload(6, 0, 50))?.get();
                    log.close()
                };
                let is_done = live().is_ok();
                let mut left = cuts(&device, stop, 16);
                left.push((0, device.kill()));
                for (mask, left) in left {
                    states += 1;
                    let what = format!("device {number}, step {stop}, kept {mask:b}");
                    let found = read(&left, false);
                    let found = found.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    assert!(found.is_prefix() && found.count() >= durable, "{what}: {found:?}");
                    // Before the open, damage to the readable slot lost the keys as well.
                    if counts(&left).iter().all(Option::is_some) {
                        depends_on_no_slot(&left, durable, &what);
                    }
                    let opened = open(&again(8), &left);
                    assert!(opened.unwrap().durable() >= Some(lsn(durable)), "{what}");
                }
                if is_done {
                    break;
                }
            }
        }
        println!("{states} states");
        assert!(states > 200, "{states}");
    });
}
