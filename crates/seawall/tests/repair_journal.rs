//! The journal of an interrupted repair: the next repair completes it, and overwrites nothing that
//! can be read.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::images::{End, NEWEST, files, write};
use common::{Bytes, again, encrypted, open, payload, tiny};
use seawall::Error;
use seawall::Lsn;
use seawall::damage::Lost;
use seawall::repair::RepairPlan;
use seawall_format::Manifest;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

const FIRST: &str = "000000000001.seg";
/// Where the second slot of the file `keys` begins.
const KEYS_SLOT_B: usize = 65_536;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn mend(damaged: &MemStorage, replicas: &[&MemStorage]) -> seawall::Result<RepairPlan> {
    let replicas: Vec<_> = replicas.iter().map(|device| storage(device)).collect();
    common::maintenance(&storage(damaged)).replicas_on(&replicas).repair()
}

/// Every file of a log outside the quarantine, with its content.
fn state(device: &MemStorage) -> Vec<(String, Vec<u8>)> {
    let names = files(device).into_iter().filter(|name| !name.starts_with("quarantine"));
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

/// A closed log.
fn closed() -> MemStorage {
    let device = MemStorage::new();
    let log: Bytes = open(&tiny(1), &device).unwrap();
    for number in 1..=5 {
        log.append(&payload(number, 0, 100)).unwrap();
    }
    log.close().unwrap();
    device.power_cut(|_| true)
}

/// A failed sync can leave new bytes in the cache that are not on the device.
#[test]
fn repair_of_keys_is_completed_after_a_failed_sync() {
    encrypted(|| {
        let sound = closed();
        let mut failed = 0;
        for has_more in [false, true] {
            for nth in 0.. {
                let device = sound.kill();
                device.edit("keys", |bytes| {
                    bytes[100] ^= 1;
                    bytes[KEYS_SLOT_B + 100] ^= 1;
                });
                if has_more {
                    device.edit(FIRST, |bytes| bytes[2600] ^= 1);
                }
                device.fail_sync(nth, |_| false);
                match mend(&device, &[&sound.kill()]) {
                    Err(Error::Io { .. }) => {}
                    // The repair has no sync `nth`.
                    Ok(_) => break,
                    other => panic!("{has_more}, sync {nth}: {other:?}"),
                }
                mend(&device, &[&sound.kill()]).unwrap();
                let left = device.power_cut(|_| false);
                assert!(state(&left) == state(&sound), "{has_more}, sync {nth}");
                failed += 1;
            }
        }
        assert!(failed > 8, "{failed}");
    });
}

/// The image: the damaged byte of a manifest slot is its sequence number, and later openings wrote
/// this number in an intact slot. So the slot differs from the repaired one as the damaged one did.
#[test]
fn interrupted_repair_leaves_a_rewritten_manifest_slot_as_it_is() {
    let slots = |device: &MemStorage| {
        let slots = Manifest::decode_file(&device.bytes("manifest").unwrap());
        slots.map(|slot| slot.ok().map(|slot| slot.sequence))
    };
    let sound = closed();
    let later = slots(&sound)[0].unwrap() + 2;
    let damaged = sound.kill();
    damaged.edit("manifest", |bytes| bytes[40] = u8::try_from(later).unwrap());
    assert_eq!(slots(&damaged)[0], None);
    // Interrupted after the journal is complete, before the manifest is repaired.
    let before = damaged.steps();
    let left = (0..20)
        .map(|stop| {
            let device = damaged.kill();
            device.stop_after(before + stop);
            let _ = mend(&device, &[&sound.kill()]);
            device.power_cut(|_| false)
        })
        .find(|left| {
            let plan = common::maintenance(&storage(left)).plan_repair().unwrap();
            plan.unfinished.is_some() && slots(left)[0].is_none()
        })
        .unwrap();
    for seed in 2.. {
        open(&again(seed), &left).unwrap().close().unwrap();
        if slots(&left)[0] >= Some(later) {
            break;
        }
    }
    let [a, b] = slots(&left);
    assert_eq!(a, Some(later));
    mend(&left, &[]).unwrap();
    assert_eq!(slots(&left), [a, b]);
    let plan = common::maintenance(&storage(&left)).plan_repair().unwrap();
    assert_eq!(plan.unfinished, None);
}

/// What a repair takes from a replica alone.
fn claims(plan: &RepairPlan) -> (Option<Lsn>, Vec<Lost>) {
    (plan.end_by_replica, plan.unproven.clone())
}

/// The second repair finds an intact log, so only the journal has the bytes that were lost.
fn interrupted_repair_still_reports(damaged: &MemStorage, replica: &MemStorage) {
    let whole = damaged.kill();
    let expected = claims(&mend(&whole, &[replica]).unwrap());
    assert_ne!(expected, (None, vec![]));
    let (mut resumed, mut reported) = (0, 0);
    for stop in 0.. {
        let device = damaged.kill();
        device.stop_after(device.steps() + stop);
        let killed = common::maintenance(&storage(&device)).replicas_on([&storage(replica)]);
        let mut killed = killed.until_reported();
        let is_whole = killed.repair().is_ok();
        for left in [device.kill(), device.power_cut(|_| false)] {
            let is_done = files(&left).iter().any(|name| name.ends_with("-mend.done"));
            let alone = left.kill();
            let maintenance = common::maintenance(&storage(&left));
            let plan = maintenance.replicas_on([&storage(replica)]).plan_repair().unwrap();
            assert_eq!(claims(&plan), expected, "{stop}: plan");
            let done = mend(&left, &[replica]).unwrap();
            assert_eq!(claims(&done), expected, "{stop}");
            assert!(state(&left) == state(&whole), "{stop}");
            assert_eq!(claims(&mend(&left, &[replica]).unwrap()), (None, vec![]), "{stop}: again");
            if is_done {
                assert_eq!(claims(&mend(&alone, &[]).unwrap()), expected, "{stop}: alone");
                reported += 1;
            } else if plan.unfinished.is_some() {
                // Without the replica, all records of a lost file count as unproven.
                let (end, unproven) = claims(&mend(&alone, &[]).unwrap());
                assert_eq!(end, expected.0, "{stop}: alone");
                assert!(!unproven.is_empty() || expected.1.is_empty(), "{stop}: alone");
                resumed += 1;
            }
        }
        if is_whole {
            device.stop_after(u64::MAX);
            killed.confirm_report().unwrap();
            assert_eq!(claims(&mend(&device.kill(), &[replica]).unwrap()), (None, vec![]));
            break;
        }
    }
    assert!(resumed > 4 && reported > 1, "{resumed}, {reported}");
}

#[test]
fn interrupted_repair_reports_the_end_that_only_a_replica_knows() {
    let image = write(End::PowerCut);
    let damaged = image.device.kill();
    damaged.remove_raw(NEWEST);
    interrupted_repair_still_reports(&damaged, &image.device.kill());
    let damaged = image.device.kill();
    damaged.edit(NEWEST, |bytes| bytes.truncate(3000));
    interrupted_repair_still_reports(&damaged, &image.device.kill());
}

#[test]
fn interrupted_repair_reports_the_records_that_rest_on_a_replica_alone() {
    let sound = closed();
    let replica = sound.kill();
    open(&again(2), &replica).unwrap().close().unwrap();
    let damaged = sound.kill();
    damaged.remove_raw(FIRST);
    interrupted_repair_still_reports(&damaged, &replica);
}
