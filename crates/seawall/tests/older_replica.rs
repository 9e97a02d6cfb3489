//! Repair of an unreadable end from a replica that was made beside the writer, which may have
//! appended more since: the replica's zeros do not prove that nothing followed.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::images::batches;
use common::{Bytes, lsn};
use seawall::damage::{Corruption, Lost};
use seawall::repair::RepairPlan;
use seawall::verify::Verdict;
use seawall::{Layout, Options};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::ops::RangeInclusive;
use std::sync::Arc;

const FIRST: &str = "000000000001.seg";
/// The unit of unreadable bytes, and the block size of these logs.
const PAGE: usize = 4096;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn plan(damaged: &MemStorage, replica: &MemStorage) -> RepairPlan {
    common::maintenance(&storage(damaged)).replicas_on(&[storage(replica)]).plan_repair().unwrap()
}

fn open(device: &MemStorage, fills_blocks: bool) -> Bytes {
    let clock = ManualClock::new();
    clock.set_wall_us(77);
    let options = Options::new().preallocate(false).idle_mark(None).fill_blocks(fills_blocks);
    let env = (Arc::new(clock), Arc::new(SeededEntropy::new(5)));
    options.env(env.0, env.1).open_in(storage(device)).unwrap()
}

fn append(log: &Bytes, numbers: RangeInclusive<u64>) {
    for number in numbers {
        assert_eq!(log.append(&common::payload(number, 1, 1500)).unwrap(), lsn(number));
    }
}

fn copy(device: &MemStorage) -> MemStorage {
    let replica = MemStorage::new();
    common::maintenance(&storage(device)).back_up_to(&storage(&replica)).unwrap();
    replica
}

/// Makes the pages of the records from `first` on unreadable.
fn refuse_pages(device: &MemStorage, first: u64) {
    let (_, all) = batches(device, FIRST);
    let (start, ..) = *all.iter().find(|(.., last)| *last == first).unwrap();
    let (_, end, _) = *all.last().unwrap();
    device.fail_read(FIRST, start / PAGE * PAGE..end.next_multiple_of(PAGE));
}

/// The cause and the lost records of each damage that the repair leaves.
fn left(plan: &RepairPlan) -> Vec<(Corruption, Option<Lost>)> {
    plan.after.damage.iter().map(|damage| (damage.cause, damage.lost)).collect()
}

#[test]
fn older_replica_does_not_replace_an_unreadable_end_by_zeros() {
    for copied in [2, 5] {
        let running = MemStorage::new();
        let log = open(&running, true);
        append(&log, 1..=copied);
        let replica = copy(&running);
        append(&log, copied + 1..=6);
        let device = running.power_cut(|_| true);
        drop(log);
        refuse_pages(&device, 6);
        let plan = plan(&device, &replica);
        assert!(plan.is_empty(), "{copied}: {:?}", plan.patches);
        let lost = Some(Lost::new(lsn(6), None));
        assert_eq!(left(&plan), [(Corruption::Unreadable, lost)], "{copied}");
    }
}

#[test]
fn older_replica_restores_its_records_and_no_zeros_after_them() {
    let running = MemStorage::new();
    let log = open(&running, true);
    append(&log, 1..=5);
    log.confirm().unwrap();
    let replica = copy(&running);
    append(&log, 6..=6);
    let device = running.power_cut(|_| true);
    drop(log);
    refuse_pages(&device, 5);
    let plan = plan(&device, &replica);
    assert_eq!((plan.patches.len(), plan.after.records), (1, 5), "{:?}", plan.patches);
    assert_eq!(plan.patches[0].new.len(), PAGE);
    assert_eq!(left(&plan), [(Corruption::Unreadable, Some(Lost::new(lsn(6), None)))]);
}

/// The mark confirms record 5, and the replica has it. Whether the page held more is not known.
#[test]
fn end_in_an_unreadable_page_rests_on_the_replica() {
    let running = MemStorage::new();
    let log = open(&running, false);
    append(&log, 1..=5);
    log.confirm().unwrap();
    let replica = copy(&running);
    let device = running.power_cut(|_| true);
    drop(log);
    refuse_pages(&device, 5);
    let plan = plan(&device, &replica);
    let end = (plan.after.verdict, plan.after.last_lsn, plan.end_by_replica);
    assert_eq!(end, (Verdict::Clean, Some(lsn(5)), Some(lsn(5))), "{:?}", plan.after.damage);
}

/// Only if the log was not opened since: then the rest of the page is as the close left it.
#[test]
fn replica_restores_an_unreadable_end_of_a_closed_log() {
    for was_opened in [false, true] {
        let device = MemStorage::new();
        let log = open(&device, false);
        append(&log, 1..=5);
        log.close().unwrap();
        let replica = copy(&device);
        let device = if was_opened {
            let log = open(&device, false);
            append(&log, 6..=6);
            device.power_cut(|_| true)
        } else {
            device
        };
        refuse_pages(&device, 5);
        let plan = plan(&device, &replica);
        if was_opened {
            let left = left(&plan);
            let last = left.last().and_then(|(_, lost)| *lost);
            assert!(last.is_some_and(|lost| lost.to.is_none()), "{left:?}");
        } else {
            assert_eq!((plan.after.verdict, plan.end_by_replica), (Verdict::Clean, None));
            assert_eq!(plan.after.records, 5);
        }
    }
}

/// A page of zeros after the end of a closed log held no record.
#[test]
fn replica_restores_an_unreadable_page_of_zeros_of_a_closed_log() {
    let device = MemStorage::new();
    let log = open(&device, false);
    append(&log, 1..=5);
    log.close().unwrap();
    let replica = copy(&device);
    let (_, all) = batches(&device, FIRST);
    let page = all.last().unwrap().1.next_multiple_of(PAGE);
    device.fail_read(FIRST, page..page + PAGE);
    let plan = plan(&device, &replica);
    assert_eq!((plan.after.verdict, plan.end_by_replica), (Verdict::Clean, None));
}

/// A file that ends with the record of the last clean close may have held a later one.
#[test]
fn cut_file_of_a_reopened_log_may_have_lost_records() {
    for was_opened in [false, true] {
        let device = MemStorage::new();
        let log = open(&device, false);
        append(&log, 1..=5);
        log.close().unwrap();
        let (_, all) = batches(&device, FIRST);
        let (_, end, _) = *all.last().unwrap();
        let log = was_opened.then(|| open(&device, false));
        if let Some(log) = &log {
            append(log, 6..=6);
        }
        let device = device.power_cut(|_| true);
        device.edit(FIRST, |bytes| bytes.truncate(end));
        let found = common::maintenance(&storage(&device)).verify().unwrap();
        let lost = was_opened.then(|| Lost::new(lsn(6), None));
        let all: Vec<_> = found.damage.iter().map(|damage| (damage.cause, damage.lost)).collect();
        assert_eq!(all, [(Corruption::CutShort, lost)], "{was_opened}");
    }
}

/// The replica was made beside the writer and ends like a closed log, but this log went on.
#[test]
fn manifest_of_a_replica_does_not_prove_where_the_log_ends() {
    let running = MemStorage::new();
    let log = open(&running, true);
    append(&log, 1..=3);
    let replica = copy(&running);
    append(&log, 4..=6);
    let device = running.power_cut(|_| true);
    drop(log);
    device.remove_raw("manifest");
    let lost = Some(Lost::new(lsn(4), None));

    let mut maintenance = common::maintenance(&storage(&device)).replicas_on(&[storage(&replica)]);
    let done = maintenance.repair().unwrap();
    assert_eq!((done.after.verdict, done.after.records), (Verdict::Clean, 6));
    let refused = device.kill();
    refuse_pages(&refused, 4);
    assert_eq!(left(&plan(&refused, &replica)), [(Corruption::Unreadable, lost)]);
    let (_, all) = batches(&device, FIRST);
    device.edit(FIRST, |bytes| bytes.truncate(all[2].1));
    let found = maintenance.verify().unwrap();
    let all: Vec<_> = found.damage.iter().map(|damage| (damage.cause, damage.lost)).collect();
    assert_eq!(all, [(Corruption::CutShort, lost)]);
}

/// A line of a set that is intact, and a block after it that the device refuses.
#[test]
fn intact_line_before_an_unreadable_end_hides_no_loss() {
    let device = MemStorage::new();
    let options = common::laid_out(common::tiny(1), Layout::Text);
    let log = common::open(&options, &device).unwrap();
    let set: Vec<_> = (1..=3).map(|n| common::payload_in(Layout::Text, (n, 1), 300)).collect();
    log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    let device = device.power_cut(|_| true);
    let name = device.names().into_iter().rfind(|name| name.ends_with("jsonl")).unwrap();
    let line = device.bytes(&name).unwrap().iter().position(|byte| *byte == b'\n').unwrap();
    let block = line.next_multiple_of(512);
    device.fail_read(&name, block..block + 1024);
    let plan = common::maintenance(&storage(&device)).plan_repair().unwrap();
    assert_eq!(left(&plan), [(Corruption::Unreadable, Some(Lost::new(lsn(2), None)))]);
}
