//! `Options::fill_blocks`: no block with acknowledged records is written again, so a device that
//! garbles the blocks it is writing at a power cut destroys no acknowledged record.

use crate::common;

use common::images::batches;
use common::lives::{Act, Faults, Life, Tally, check, live};
use common::sample::Sample;
use common::workloads::{Acts, run, steps, syncs};
use common::{
    Bytes, GEOMETRY, Random, again, compressed, encrypted, laid_out, open, tiny, with_filled_blocks,
};
use seawall::format::{Geometry, SegmentId};
use seawall::{Error, Layout, Level, Lsn, Options};
use seawall_testkit::{CrashOutcome, MemStorage};

use Act::{Append, Confirm, Prune, Reopen, Set};

/// The block size of the log.
const BLOCK: usize = 512;

const WORKLOADS: [Acts; 4] = [
    &[Append(50), Append(90), Set(&[20, 30]), Append(400), Confirm, Append(700), Append(5)],
    &[Append(50), Append(90), Reopen, Append(20), Append(600), Reopen, Append(30)],
    // Segments that were named ahead.
    &[Append(500), Append(20), Append(800), Append(30), Append(800), Append(800), Append(40)],
    // A reused file.
    &[
        Append(800),
        Append(800),
        Append(800),
        Append(800),
        Prune,
        Append(20),
        Append(800),
        Append(9),
    ],
];

/// Returns possible states after a power cut on a device that garbles the blocks it is writing.
fn garbling_cuts(device: &MemStorage, seed: u64) -> impl Iterator<Item = MemStorage> {
    let all = device.power_cut(|_| CrashOutcome::Garbled(BLOCK));
    let some = (0..12).map(move |nth| {
        let mut random = Random::new(seed << 8 | nth);
        device.power_cut(|_| match random.below(3) {
            0 => CrashOutcome::Lost,
            1 => CrashOutcome::Whole,
            _ => CrashOutcome::Garbled(BLOCK),
        })
    });
    std::iter::once(all).chain(some)
}

fn cut_at_every_step(look: &mut dyn FnMut(&Life, &MemStorage, &str)) {
    for acts in WORKLOADS {
        for level in [Level::Synced, Level::Confirmed] {
            for stop in 0..=steps(acts, level) {
                let life = run(acts, level, stop);
                for left in garbling_cuts(&life.device, stop) {
                    look(&life, &left, &format!("{acts:?} {level:?}, step {stop}"));
                }
            }
        }
    }
}

fn garbled_cuts_lose_nothing() -> Tally {
    let mut tally = Tally::default();
    with_filled_blocks(|| {
        cut_at_every_step(&mut |life, left, what| {
            // Garbage at the end of the log can come from a write, or from damage.
            tally.add(check(life, left, Faults::FailedSync, what));
        });
    });
    tally
}

#[test]
fn power_cut_that_garbles_blocks_loses_no_acknowledged_record() {
    let tally = garbled_cuts_lose_nothing();
    println!("power cuts that garble blocks: {tally:?}");
    assert!(tally.states > 6_000 && tally.unsure > 100, "{tally:?}");
}

#[test]
fn power_cut_that_garbles_blocks_loses_no_compressed_or_encrypted_record() {
    println!("compressed: {:?}", compressed(garbled_cuts_lose_nothing));
    println!("encrypted: {:?}", encrypted(garbled_cuts_lose_nothing));
}

/// Shows that the tests above can fail.
#[test]
fn without_the_option_a_garbling_power_cut_loses_acknowledged_records() {
    let mut lost = 0;
    cut_at_every_step(&mut |life, left, _| {
        let found = open(&again(1 << 30), left);
        let end = found.map_or(0, |log| log.recovery().last.map_or(0, Lsn::get));
        lost += u64::from(end.max(life.pruned) < life.acknowledged);
    });
    assert!(lost > 100, "{lost}");
}

/// A write fails and garbles its blocks. Then the process dies, or power is cut, at each step until
/// the log continues in another segment.
#[test]
fn write_that_fails_and_garbles_its_blocks_loses_no_acknowledged_record() {
    let (mut sample, mut tally) = (Sample::one_in(2), Tally::default());
    let unborn = Life::unborn(Layout::Binary);
    let failing = |nth: u64| {
        let device = MemStorage::new();
        device.spoil_sync(nth, BLOCK);
        device
    };
    with_filled_blocks(|| {
        for acts in WORKLOADS {
            for (nth, step) in syncs(acts, Level::Synced, 5) {
                for stop in (step..step + 12).filter(|_| sample.takes_next()) {
                    let device = failing(nth);
                    device.stop_after(stop);
                    let life = live(&device, acts, Level::Synced, &unborn);
                    let what = format!("{acts:?}, sync {nth} fails, stopped at {stop}");
                    for left in garbling_cuts(&device, stop).chain([device.kill()]) {
                        tally.add(check(&life, &left, Faults::FailedSync, &what));
                    }
                }
            }
        }
    });
    println!("power cuts after a write that garbled blocks: {tally:?}");
    assert!(tally.states > sample.least(4_000), "{tally:?}");
}

fn segments(device: &MemStorage) -> impl Iterator<Item = String> {
    device.names().into_iter().filter(|name| SegmentId::from_file_name(name).is_some())
}

/// The number of batches that do not begin at a block boundary.
fn within_blocks(device: &MemStorage) -> usize {
    let all = segments(device).flat_map(|name| batches(device, &name).1);
    all.filter(|(at, _, _)| !at.is_multiple_of(BLOCK)).count()
}

#[test]
fn log_without_the_option_goes_on_in_a_new_segment() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for _ in 0..2 {
        log.append(b"shares a block").unwrap();
    }
    log.close().unwrap();
    assert_eq!((segments(&device).count(), within_blocks(&device)), (1, 1));

    let reopened = |seed: u64, text: &[u8]| {
        let log = with_filled_blocks(|| open(&again(seed), &device)).unwrap();
        log.append(text).unwrap();
        log.close().unwrap();
        (segments(&device).count(), within_blocks(&device))
    };
    assert_eq!(reopened(2, b"alone"), (2, 1));
    assert_eq!(reopened(3, b"and again"), (2, 1), "it ends at a block");
    let log: Bytes = open(&again(4), &device).unwrap();
    assert_eq!(log.read_from(Lsn::FIRST).unwrap().map(Result::unwrap).count(), 4);
}

#[test]
fn failed_write_leaves_batches_that_share_no_block() {
    for nth in 0..2 {
        let device = MemStorage::new();
        let options = with_filled_blocks(|| tiny(1).geometry(GEOMETRY, 5120));
        let log = open(&options, &device).unwrap();
        log.append(b"before").unwrap();
        device.spoil_sync(nth, BLOCK);
        for size in [20, 30, 600, 40] {
            log.append(&vec![b'x'; size]).unwrap();
        }
        assert_eq!(log.stats().failovers, 1);
        drop(log);
        assert_eq!(within_blocks(&device), 0, "sync {nth}");
    }
}

#[test]
fn readable_log_and_batches_of_other_sizes_are_refused() {
    let refused = |options: &Options| {
        let device = MemStorage::new();
        let options = options.clone().fill_blocks(true);
        match open(&options, &device).unwrap_err() {
            Error::InvalidOption { why, .. } => why,
            error => panic!("{error}"),
        }
    };
    let why = refused(&laid_out(tiny(1), Layout::Text));
    assert_eq!(why, "a readable log cannot fill blocks: its lines have no padding");
    let odd = Geometry { batch_max: 1000, ..GEOMETRY };
    let why = refused(&tiny(1).geometry(odd, 4608));
    assert_eq!(why, "a log with batches of up to 1000 bytes cannot fill blocks of 512");

    let device = MemStorage::new();
    open(&laid_out(tiny(1), Layout::Text), &device).unwrap().close().unwrap();
    let options = laid_out(again(2), Layout::Text).fill_blocks(true);
    assert!(matches!(open(&options, &device), Err(Error::InvalidOption { .. })));
}

#[test]
fn full_disk_refuses_records_whose_blocks_have_no_space() {
    let mut refused = 0;
    for limit in (12..40).map(|blocks| blocks * 512) {
        let device = MemStorage::new();
        device.limit(limit + 8192);
        let Ok(log) = with_filled_blocks(|| open(&tiny(1), &device)) else { continue };
        let end = std::iter::from_fn(|| Some(log.append(b"takes a block")));
        let acknowledged = match end.enumerate().find(|(_, appended)| appended.is_err()) {
            Some((count, Err(Error::DiskFull { .. }))) => count,
            other => panic!("{limit}: {other:?}"),
        };
        refused += 1;
        // The log continues when there is space again.
        device.limit(u64::MAX);
        log.append(b"and another").unwrap();
        let left = device.power_cut(|_| CrashOutcome::Garbled(BLOCK));
        let log = with_filled_blocks(|| open(&again(2), &left)).unwrap();
        let found = log.read_from(Lsn::FIRST).unwrap().map(Result::unwrap).count();
        assert_eq!(found, acknowledged + 1, "{limit}");
    }
    assert!(refused > 10, "{refused}");
}

/// The new segment carries the batches of one block, and each takes a whole block there.
#[test]
fn recovery_has_space_for_the_blocks_of_what_it_carries() {
    let device = MemStorage::new();
    let log = open(&tiny(1).segment_size(20 * 512), &device).unwrap();
    for number in 0..11_u8 {
        log.append(&[number; 8]).unwrap();
    }
    let left = device.power_cut(|_| CrashOutcome::Lost);
    drop(log);
    for seed in 2..4 {
        let options = with_filled_blocks(|| again(seed)).segment_size(20 * 512);
        let log = open(&options, &left).unwrap();
        log.append(&[99; 8]).unwrap();
        drop(log);
        let newest = segments(&left).max().unwrap();
        let size = left.bytes(&newest).unwrap().len();
        assert!(batches(&left, &newest).1.iter().all(|(_, end, _)| *end <= size), "{newest}");
    }
    let log =
        open(&again(9).segment_size(20 * 512), &left.power_cut(|_| CrashOutcome::Lost)).unwrap();
    let found = log.read_from(Lsn::FIRST).unwrap().map(Result::unwrap).count();
    assert_eq!(found, 13);
}
