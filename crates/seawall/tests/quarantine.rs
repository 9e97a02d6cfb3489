//! Quarantine: the bytes that recovery truncates are kept for inspection, up to a size limit.

use crate::common;

use common::{again, open, tiny};
use seawall_io::{Access, Storage};
use seawall_testkit::MemStorage;

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
