//! Segments in files that were used before: a crash at every step, failed syncs and damage lose no
//! more than in new files, and no reader sees what an earlier segment left.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::images::headers;
use common::lives::{Act, Life, live};
use common::sample::Sample;
use common::workloads::{
    Acts, each_power_cut, fail_sync, failed_syncs, one_crash, one_fault, run, steps, syncs,
    two_crashes,
};
use common::{Bytes, again, judge, open, tiny};
use seawall::verify::Verdict;
use seawall::{Level, Maintenance};
use seawall_format::{Manifest, SegmentHeader};
use seawall_io::{Clock, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use Act::{Append, Confirm, Prune, Reopen, Set};

/// The first segment holds one record of 960 bytes, the others two. The fourth segment reuses the
/// file of the second.
const WORKLOADS: [Acts; 4] = [
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Prune,
        Append(960),
        Append(100),
        Append(960),
        Confirm,
        Append(50),
    ],
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Prune,
        Set(&[440, 440]),
        Set(&[100, 200, 300]),
        Confirm,
        Append(30),
        Reopen,
        Append(200),
    ],
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Prune,
        Append(960),
        Append(960),
        Prune,
        Append(960),
        Append(960),
        Prune,
        Append(20),
        Append(960),
    ],
    // The next process does not know what the file holds.
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Reopen,
        Prune,
        Append(960),
        Append(960),
        Append(300),
        Append(40),
    ],
];

/// Workloads to run after a recovery, until the second crash.
const AFTERWARDS: [Acts; 2] =
    [&[Append(90), Confirm], &[Append(960), Prune, Append(960), Append(960), Append(300)]];

/// The reused segments on a device.
fn reused(device: &MemStorage) -> Vec<SegmentHeader> {
    headers(device).into_iter().filter(|header| header.is_reused).collect()
}

#[test]
fn workloads_use_files_again() {
    for (acts, count) in WORKLOADS.into_iter().zip([1; 4]) {
        let life = run(acts, Level::Synced, u64::MAX);
        assert_eq!(reused(&life.device).len(), count, "{acts:?}: {:?}", life.device.names());
    }
}

/// Bytes of an earlier segment are never valid in the next one, because checksums depend on the
/// epoch.
#[test]
fn each_segment_has_its_own_epoch() {
    for acts in WORKLOADS {
        let mut segments = BTreeMap::new();
        for count in 1..=acts.len() {
            let life = run(&acts[..count], Level::Synced, u64::MAX);
            segments.extend(headers(&life.device).iter().map(|header| (header.id, header.epoch.0)));
        }
        let epochs: BTreeSet<_> = segments.values().collect();
        assert!(segments.len() >= 4 && epochs.len() == segments.len(), "{acts:?}: {segments:?}");
    }
}

#[test]
fn acknowledged_records_survive_a_crash_at_every_step() {
    let tally = one_crash(&WORKLOADS);
    println!("one crash with reused files: {tally:?}");
    assert!(tally.states > 2_000 && tally.torn > 80, "{tally:?}");
}

#[test]
fn records_survive_a_second_crash() {
    let mut sample = Sample::one_in(72);
    let tally = two_crashes(&WORKLOADS, &AFTERWARDS, &mut sample);
    println!("two crashes with reused files: {tally:?}");
    assert!(tally.states > sample.least(20_000), "{tally:?}");
}

#[test]
fn failed_sync_loses_no_acknowledged_record() {
    let mut sample = Sample::one_in(8);
    let tally = failed_syncs(&WORKLOADS, &mut sample);
    println!("failed syncs with reused files: {tally:?}");
    assert!(tally.states > sample.least(4_000), "{tally:?}");
}

/// A sync failed, so that the cache shows what the disk never had. Such a file must not be used
/// again: its table would be wrong either after a crash or after a power cut.
#[test]
fn file_in_which_a_sync_failed_makes_no_later_end_unclean() {
    // The third record of the third segment is the last that fits. The log records checksums from
    // the first prune on.
    let first: &[Act] = &[
        Append(960),
        Append(960),
        Prune,
        Append(960),
        Append(960),
        Append(960),
        Append(300),
        Append(960),
        Append(960),
    ];
    // The files of the second and the third segment become those of the fifth and the sixth.
    let second: &[Act] = &[Prune, Append(960), Append(960), Append(960), Append(40)];
    let (mut states, mut used_again) = (0, 0);
    for (nth, keep) in
        syncs(first, Level::Synced, 5).flat_map(|(nth, _)| (0..3).map(move |k| (nth, k)))
    {
        for is_same_process in [true, false] {
            let device = MemStorage::new();
            fail_sync(&device, nth, keep);
            let unborn = Life::unborn(seawall::Layout::Binary);
            let life = if is_same_process {
                live(&device, &[first, second].concat(), Level::Synced, &unborn)
            } else {
                let before = live(&device, first, Level::Synced, &unborn);
                live(&device.kill(), second, Level::Synced, &before)
            };
            if life.error.is_some() {
                // The directory sync failed, after which no write is safe.
                continue;
            }
            used_again += reused(&life.device).len();
            for left in [life.device.kill(), life.device.power_cut(|_| false)] {
                let found = judge(&left).unwrap();
                assert_eq!(found.verdict, Verdict::Clean, "sync {nth}, {keep}: {found:?}");
                states += 1;
            }
        }
    }
    println!("failed syncs before a file is used again: {states} states, {used_again} used again");
    assert!(states > 200 && used_again > 50, "{states}, {used_again}");
}

#[test]
fn one_damaged_run_or_lost_file_never_hides_a_confirmed_record() {
    let mut sample = Sample::one_in(10);
    let faults = one_fault(&WORKLOADS, &mut sample);
    println!("one fault after each step with reused files: {faults} faults");
    assert!(faults > sample.least(40_000), "{faults}");
}

/// Programs without support for reused files read the manifest first. It must make them refuse the
/// log before such a file exists.
#[test]
fn manifest_says_that_files_are_reused_before_a_segment_does() {
    let mut states = 0;
    each_power_cut(&WORKLOADS, 256, |_, device, what| {
        let has_table = device.names().iter().any(|name| name.ends_with(".before"));
        if has_table || !reused(device).is_empty() {
            let slots = Manifest::decode_file(&device.bytes("manifest").unwrap());
            assert!(slots.iter().flatten().all(|slot| slot.reuses), "{what}: {slots:?}");
            states += 1;
        }
    });
    assert!(states > 100, "{states}");
}

/// A log whose newest segment is in a reused file, not closed.
fn unclosed() -> MemStorage {
    let life = run(WORKLOADS[0], Level::Synced, u64::MAX);
    let device = life.device.kill();
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
    device
}

#[test]
fn end_of_a_reused_file_is_ambiguous_without_its_table() {
    let device = unclosed();
    let [header] = &*reused(&device) else { panic!("{:?}", device.names()) };
    let table = header.id.before_name();
    let length = device.bytes(&table).unwrap().len();
    for damage in 0..length + 2 {
        let damaged = device.kill();
        match damage.checked_sub(length) {
            None => damaged.edit(&table, |bytes| bytes[damage] ^= 1),
            Some(0) => damaged.edit(&table, |bytes| bytes.truncate(length - 1)),
            Some(_) => damaged.remove_raw(&table),
        }
        assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Unsure, "{damage}");
    }
}

#[test]
fn changed_bytes_after_the_end_of_a_reused_file_are_not_a_clean_end() {
    let device = unclosed();
    let header = reused(&device).remove(0);
    let name = header.id.file_name();
    let end = device.bytes(&name).unwrap().len();
    for at in (end - 512..end).step_by(17) {
        for change in [|byte: &mut u8| *byte ^= 1, |byte: &mut u8| *byte = byte.wrapping_add(7)] {
            let damaged = device.kill();
            damaged.edit(&name, |bytes| change(&mut bytes[at]));
            assert_ne!(judge(&damaged).unwrap().verdict, Verdict::Clean, "byte {at}");
        }
    }
}

/// A truncation creates a segment with the next id while a table for that id exists.
#[test]
fn file_made_ready_before_a_truncation_is_used_after_it() {
    let device = MemStorage::new();
    let log: Bytes = open(&tiny(1).preallocate(true), &device).unwrap();
    let has_table = || device.names().iter().any(|name| name.contains(".before"));
    for _ in 0..4 {
        log.append(&[7; 960]).unwrap();
    }
    log.truncate_before(log.durable().unwrap()).unwrap();
    // The thread makes the file ready once an eighth of the tail is used.
    let clock = SystemClock::new();
    // If the thread is too late for a rotation, the rotation creates another file, and the one that
    // the thread prepares then is removed. The next prune leaves a file again.
    let append = |turn: u64, bytes: &[u8]| {
        let last = log.append(bytes).unwrap();
        if turn.is_multiple_of(100) {
            log.truncate_before(last).unwrap();
        }
        assert!(clock.now() < Duration::from_secs(60), "{:?}", device.names());
    };
    for turn in 1.. {
        if has_table() {
            break;
        }
        append(turn, b"");
    }
    let last = log.append(&[8; 100]).unwrap();
    log.truncate_after(last.previous()).unwrap();
    let reused_before = log.stats().reused;
    for turn in 1.. {
        if log.stats().reused > reused_before {
            break;
        }
        append(turn, &[9; 960]);
    }
    let stray = device.kill();
    assert_eq!(judge(&stray).unwrap().verdict, Verdict::Clean);
    for header in reused(&stray) {
        assert!(stray.names().contains(&header.id.before_name()), "{:?}", stray.names());
    }
    drop(log);
}

#[test]
fn log_without_reuse_keeps_no_removed_file() {
    let (device, acts) = (MemStorage::new(), WORKLOADS[2]);
    let log: Bytes = open(&tiny(1).reuse(false), &device).unwrap();
    for act in acts {
        match act {
            Append(size) => drop(log.append(&vec![7; *size]).unwrap()),
            _ => drop(log.truncate_before(log.durable().unwrap()).unwrap()),
        }
        let others = |name: &String| name.contains(".before") || name.contains(".tmp");
        assert!(!device.names().iter().any(others), "{:?}", device.names());
    }
    assert_eq!(reused(&device), []);
}

#[test]
fn close_and_open_leave_no_spare_file_and_no_table_without_a_segment() {
    for stop in 0..=steps(WORKLOADS[2], Level::Synced) {
        let life = run(WORKLOADS[2], Level::Synced, stop);
        let device = life.device.kill();
        let Ok(log) = open(&again(9), &device) else { panic!("step {stop}") };
        let stray = |names: Vec<String>| {
            let is_stray = |name: &String| {
                let table = name.strip_suffix(".before").map(|id| format!("{id}.seg"));
                name.contains(".tmp") || table.is_some_and(|segment| !names.contains(&segment))
            };
            names.iter().any(is_stray)
        };
        assert!(!stray(device.names()), "step {stop}: {:?}", device.names());
        log.close().unwrap();
        assert!(!stray(device.names()), "step {stop}, closed: {:?}", device.names());
    }
}

#[test]
fn backup_of_a_reused_segment_opens_clean() {
    let device = unclosed();
    let copy = MemStorage::new();
    let source: Arc<dyn Storage> = Arc::new(device.clone());
    Maintenance::on(&source).back_up_to(&(Arc::new(copy.clone()) as Arc<dyn Storage>)).unwrap();
    assert_eq!(judge(&copy).unwrap().verdict, Verdict::Clean);
    assert_eq!(judge(&copy).unwrap().records, judge(&device).unwrap().records);
    let [newest] = &*reused(&copy) else { panic!("{:?}", copy.names()) };
    assert!(copy.names().contains(&newest.id.before_name()));
    let log = open(&again(3), &copy).unwrap();
    assert_eq!(log.append(b"in the copy").unwrap().get(), judge(&device).unwrap().records + 4);
}
