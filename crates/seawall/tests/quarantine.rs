//! Quarantine: the bytes that recovery truncates are kept for inspection, up to a size limit.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{again, lsn, open, tiny};
use seawall::Error;
use seawall::recovery::TailState;
use seawall_io::{Access, Storage};
use seawall_testkit::MemStorage;

const NEWEST: &str = "000000000002.seg";

const MIB: u64 = 1 << 20;

/// The file name of bytes that were truncated at `time`.
fn of_time(time: u64) -> String {
    format!("{time:020}-segment-1-offset-4096.bytes")
}

#[test]
fn quarantine_keeps_the_newest_and_drops_the_oldest() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    log.append(b"one").unwrap();
    drop(log);
    let folder = device.folder("quarantine").unwrap();
    let of_a_repair = format!("{:020}-000000000001.seg", 1);
    for (name, size) in [
        (of_time(2), 30 * MIB),
        (of_time(3), 30 * MIB),
        (of_time(4), 34 * MIB - 1024),
        (of_a_repair.clone(), 80 * MIB),
    ] {
        folder.create(&name).unwrap().set_len(size).unwrap();
    }
    // Far after the last batch, where its write does not reach.
    device.edit("000000000001.seg", |bytes| *bytes.last_mut().unwrap() = 7);
    let log = open(&again(1), &device).unwrap();
    let recovery = log.recovery();
    let kept = recovery.quarantine.clone().expect("they are kept");
    let name = kept.strip_prefix("quarantine/").unwrap();
    assert_eq!(folder.list().unwrap(), [of_a_repair, of_time(3), of_time(4), name.to_owned()]);
    let file = folder.open(name, Access::Read).unwrap();
    let size = usize::try_from(recovery.cut_bytes).unwrap();
    let mut bytes = vec![1; size + 1];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), size);
    assert_eq!((bytes[size - 1], bytes[..size - 1].iter().all(|byte| *byte == 0)), (7, true));
}

/// A killed log whose newest segment holds one record, which is damaged and not confirmed.
fn with_a_damaged_end() -> MemStorage {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for record in [b"one", b"two", b"odd"] {
        log.append(record).unwrap();
    }
    log.truncate_after(Some(lsn(2))).unwrap();
    log.append(b"acknowledged, and not confirmed yet").unwrap();
    device.stop_after(0);
    drop(log);
    let device = device.kill();
    device.edit(NEWEST, |bytes| *bytes.iter_mut().rfind(|byte| **byte != 0).unwrap() ^= 4);
    // Otherwise it says that the record was acknowledged.
    device.remove_raw("live");
    device
}

/// The copies of removed tails, oldest first.
fn tails(device: &MemStorage) -> Vec<String> {
    device.names().into_iter().filter(|name| name.ends_with("bytes")).collect()
}

#[test]
fn ambiguous_end_that_cannot_be_copied_is_not_removed() {
    let damaged = with_a_damaged_end();
    let sound = damaged.kill();
    let log = open(&again(2), &sound).unwrap();
    assert_eq!(log.recovery().tail, TailState::Ambiguous);
    let copy = log.recovery().quarantine.clone().unwrap();
    assert_eq!(sound.bytes(NEWEST), None, "the new segment replaces it");
    let mut device = damaged.kill();
    let (older, before) = (of_time(2), device.bytes(NEWEST));
    device.folder("quarantine").unwrap().create(&older).unwrap().set_len(64 * MIB).unwrap();
    for _ in 0..2 {
        device.copy_raw("manifest", &copy);
        device.refuse_writes(&copy, true);
        let refused = open(&again(2), &device).unwrap_err();
        assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
        assert!(refused.to_string().contains(NEWEST), "{refused}");
        assert_eq!(device.bytes(NEWEST), before);
        assert!(device.names().contains(&format!("quarantine/{older}")), "it makes no room");
        device = device.power_cut(|_| true);
    }
    let log = open(&again(3), &device).unwrap();
    let kept = log.recovery().quarantine.clone().unwrap();
    assert_eq!((log.recovery().last, device.bytes(&kept)), (Some(lsn(2)), sound.bytes(&copy)));
}

#[test]
fn interrupted_opens_keep_one_copy_of_the_same_tail() {
    let damaged = with_a_damaged_end();
    let whole = damaged.kill();
    drop(open(&again(2), &whole).unwrap());
    let copy = whole.bytes(&tails(&whole)[0]);
    for steps in 0..whole.steps() {
        let mut device = damaged.kill();
        for seed in 2..6 {
            device.stop_after(steps);
            let opened = open(&again(seed), &device);
            drop(opened);
            device = device.kill();
        }
        let log = open(&again(6), &device).unwrap();
        assert_eq!(log.recovery().last, Some(lsn(2)), "{steps}");
        let kept = tails(&device);
        assert_eq!(kept.len(), 1, "{steps}: {kept:?}");
        assert_eq!(device.bytes(&kept[0]), copy, "{steps}");
    }
}
