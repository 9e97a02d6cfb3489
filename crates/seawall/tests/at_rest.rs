//! Salvage and diagnosis of a log at rest notice a writer that opens it meanwhile, and count
//! records that parity restores as intact.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::hooked::Hooked;
use common::{Bytes, again, of_any_size, open, payload};
use seawall::verify::Verdict;
use seawall::{Error, Lsn};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

fn closed() -> MemStorage {
    let device = MemStorage::new();
    let log: Bytes = open(&common::tiny(1), &device).unwrap();
    for number in 1..=60 {
        log.append(&payload(number, 1, 100)).unwrap();
    }
    log.close().unwrap();
    device.power_cut(|_| false)
}

/// What a writer does between its open and its close.
const BESIDE: [fn(&Bytes); 3] = [
    |log| {
        for number in 61..=120 {
            log.append(&payload(number, 1, 100)).unwrap();
        }
    },
    |log| {
        log.truncate_before(Lsn::new(40).unwrap()).unwrap();
    },
    |log| {
        log.truncate_after(Lsn::new(20)).unwrap();
        log.append(&payload(21, 2, 100)).unwrap();
    },
];

/// The writer opens the log just before each read, and either stays or closes the log.
#[test]
fn writer_that_opens_meanwhile_is_noticed() {
    let sound = closed();
    let mut busy = 0;
    let ways = [(true, true), (false, true), (true, false), (false, false)];
    for (beside, (stays, salvages)) in
        BESIDE.iter().flat_map(|beside| ways.map(|way| (beside, way)))
    {
        for look in 0.. {
            let device = sound.kill();
            let (hooked, hook) = Hooked::new(device.clone(), look, move || {
                let log: Bytes = open(&again(2), &device).unwrap();
                beside(&log);
                if stays { std::mem::forget(log) } else { log.close().unwrap() }
            });
            let source: Arc<dyn Storage> = Arc::new(hooked);
            let found = if salvages {
                let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
                let found = common::maintenance(&source).salvage_to(target);
                found.map(|found| (found.records, found.damage.len()))
            } else {
                let found = common::maintenance(&source).diagnose();
                found.map(|found| (found.records, found.damage.len()))
            };
            match found {
                Err(Error::Busy { .. }) => busy += 1,
                // The writer came after everything was read, or before.
                Ok((60, 0)) => {}
                Ok((_, 0)) if look < 4 => {}
                other => panic!("stays {stays}, salvages {salvages}, look {look}: {other:?}"),
            }
            if hook.is_waiting() {
                break;
            }
        }
    }
    assert!(busy > 50, "{busy}");
}

#[test]
fn records_that_parity_restores_are_not_diagnosed_as_lost() {
    let device = MemStorage::new();
    let parity = "4+2".parse().unwrap();
    let log: Bytes = open(&of_any_size(1).parity(Some(parity)), &device).unwrap();
    for number in 1..=60 {
        log.append(&payload(number, 1, 100)).unwrap();
    }
    log.close().unwrap();
    let damaged = device.power_cut(|_| false);
    damaged.edit("000000000001.seg", |bytes| bytes[3_000] ^= 1);
    let source: Arc<dyn Storage> = Arc::new(damaged);
    let found = common::maintenance(&source).diagnose().unwrap();
    assert_eq!((found.verdict, found.records), (Verdict::Correctable, 60), "{:#?}", found.damage);
    assert!(found.damage.iter().all(|damage| damage.lost.is_none()) && !found.mended.is_empty());
}
