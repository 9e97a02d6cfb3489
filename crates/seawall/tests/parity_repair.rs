//! Repair by parity: the bytes that a device lost are written back, and nothing else is.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{LAYOUTS, judge, laid_out, open, payload_in, tiny};
use seawall::Layout;
use seawall::repair::RepairSource;
use seawall::verify::Verdict;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

const BLOCK: usize = 512;

fn shared(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn sample(layout: Layout) -> MemStorage {
    let device = MemStorage::new();
    let options = laid_out(tiny(1).parity("4+2".parse().ok()), layout);
    let log = open(&options, &device).unwrap();
    for number in 1..=60 {
        let size = 20 + usize::try_from(number * 37 % 300).unwrap();
        log.append(&payload_in(layout, (number, 1), size)).unwrap();
    }
    log.close().unwrap();
    device
}

#[test]
fn every_lost_block_is_written_back_bit_for_bit() {
    for layout in LAYOUTS {
        let sound = sample(layout);
        let data = if layout == Layout::Text { "jsonl" } else { "seg" };
        for name in sound.names().iter().filter(|name| name.ends_with(data)) {
            let bytes = sound.bytes(name).unwrap();
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            for start in (0..end).step_by(BLOCK) {
                let device = sound.kill();
                device.edit(name, |bytes| {
                    let end = end.min(start + BLOCK);
                    bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0x5A);
                });
                let what = format!("{name} {start}");
                let found = judge(&device).unwrap();
                let plan = common::maintenance(&shared(&device)).plan_repair().unwrap();
                assert!(device.bytes(name) != sound.bytes(name), "a plan changes nothing");
                assert_eq!(plan.is_empty(), found.verdict == Verdict::Clean, "{what}: {found:?}");
                let done = common::maintenance(&shared(&device)).repair().unwrap();
                assert_eq!(done.patches, plan.patches, "{what}");
                assert_eq!(done.end_by_replica, None, "{what}: there is no replica");
                let after = judge(&device).unwrap();
                assert_eq!((after.verdict, after.mended.len()), (Verdict::Clean, 0), "{what}");
                if found.verdict != Verdict::Clean {
                    assert!(done.patches.iter().all(|patch| patch.by == RepairSource::Parity));
                    assert!(device.bytes(name) == sound.bytes(name), "{what}");
                    assert_eq!(done.quarantine.len(), 1, "what stood there is kept: {what}");
                }
            }
        }
    }
}

#[test]
fn salvaged_log_has_parity_from_the_start() {
    for layout in LAYOUTS {
        let source = sample(layout);
        let target = MemStorage::new();
        assert_eq!(
            common::maintenance(&shared(&source)).salvage_to(shared(&target)).unwrap().records,
            60
        );
        let found = common::maintenance(&shared(&target)).protection().unwrap();
        assert_eq!((found.open.len(), found.covered), (0, found.bytes));
        assert_eq!(found.scheme, "4+2".parse().ok());
    }
}

#[test]
fn salvage_uses_records_restored_by_parity() {
    let source = sample(Layout::Binary);
    source.edit("000000000002.seg", |bytes| {
        bytes.iter_mut().skip(5 * BLOCK).take(300).for_each(|b| *b = 0);
    });
    let before = source.bytes("000000000002.seg");
    let target = MemStorage::new();
    let rescued = common::maintenance(&shared(&source)).salvage_to(shared(&target)).unwrap();
    assert_eq!((rescued.records, rescued.given_up.len()), (60, 0));
    assert!(before == source.bytes("000000000002.seg"), "it is only read");
}
