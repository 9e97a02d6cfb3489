//! Parity beside a log: what damage takes comes back, bit for bit, or is named.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

mod common;

use common::counted::Counted;
use common::{
    Bytes, Found, LAYOUTS, Random, again, judge, laid_out, lsn, open, payload_in, read, tiny,
};
use seawall::{
    Corruption, Error, Layout, LogReader, Lost, Lsn, OpenMode, Options, Parity, Raw, SegmentId,
    Verdict, cut_tail_in, mend_in, protect_in, protection_in, salvage_in,
};
use seawall_io::{Landing, MemStorage, Storage};
use std::collections::BTreeMap;
use std::sync::Arc;

const SCHEME: &str = "4+2";
const BLOCK: usize = 512;
/// Blocks of a stripe.
const DATA: usize = 4;

fn scheme() -> Parity {
    SCHEME.parse().unwrap()
}

fn with_parity(seed: u64, layout: Layout) -> Options {
    laid_out(tiny(seed).parity(Some(scheme())), layout)
}

fn shared(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn append(log: &Bytes, layout: Layout, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let size = 20 + usize::try_from(number * 37 % 300).unwrap();
        let lsn = log.append(&payload_in(layout, (number, 1), size)).unwrap();
        assert_eq!(lsn.get(), number);
    }
}

/// A closed log of several segments, and its records.
fn sample(layout: Layout) -> (MemStorage, BTreeMap<u64, Vec<u8>>) {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, 1..=60);
    log.close().unwrap();
    let found = read(&device, false).unwrap();
    assert_eq!(found.count(), 60);
    (device, found.records)
}

/// The names of the files that hold the log's records, and where the records begin in them.
fn data_files(device: &MemStorage) -> Vec<(String, usize)> {
    let data = data_files_of(device);
    assert!(data.len() >= 3, "several segments");
    data
}

fn data_files_of(device: &MemStorage) -> Vec<(String, usize)> {
    let names = device.names().into_iter();
    let data = names.filter_map(|name| match name.rsplit_once('.')?.1 {
        "seg" => Some((name, 4 * BLOCK + BLOCK)),
        "jsonl" => Some((name, 0)),
        _ => None,
    });
    data.collect()
}

/// The only one of them.
fn data_file(device: &MemStorage) -> (String, usize) {
    let files = data_files_of(device);
    assert_eq!(files.len(), 1);
    files.into_iter().next().unwrap()
}

fn spoil(device: &MemStorage, name: &str, range: std::ops::Range<usize>, how: &str) {
    device.edit(name, |bytes| {
        let end = range.end.min(bytes.len());
        let bytes = bytes.get_mut(range.start..end).unwrap_or_default();
        match how {
            "zeros" => bytes.fill(0),
            "garbage" => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5A),
            "bit" => bytes[end.saturating_sub(range.start) / 2] ^= 0x10,
            _ => panic!("{how}"),
        }
    });
}

/// All the ways to look at a log say that its records are these, and it goes on.
fn assert_whole(device: &MemStorage, layout: Layout, records: &BTreeMap<u64, Vec<u8>>, what: &str) {
    let found = judge(device).unwrap();
    assert!(found.verdict <= Verdict::Correctable, "{what}: {found:?}");
    assert_eq!(found.records, common::lsn_count(&records.values().cloned().collect::<Vec<_>>()));
    let delivered = read(device, false).unwrap();
    assert_eq!((&delivered.records, delivered.errors), (records, 0), "{what}");
    let reader = LogReader::open_any_in(shared(device)).unwrap();
    for (number, payload) in records {
        assert_eq!(reader.get(lsn(*number)).unwrap().as_ref(), Some(payload), "{what}: {number}");
    }
    let device = device.kill();
    let log = open(&laid_out(again(2), layout), &device).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(log.recovery().damage.is_empty());
    let own = Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap();
    assert_eq!(&own.records, records, "{what}");
    let next = log.append(&payload_in(layout, (1, 9), 20)).unwrap();
    assert_eq!(next.get(), records.keys().next_back().unwrap() + 1, "{what}");
    log.close().unwrap();
    let after = read(&device, false).unwrap();
    assert_eq!(after.count(), next.get(), "{what}");
}

#[test]
fn every_block_that_is_lost_alone_comes_back_wherever_it_stood() {
    for layout in LAYOUTS {
        let (sound, records) = sample(layout);
        for (name, _) in data_files(&sound) {
            let length = sound.bytes(&name).unwrap().len();
            for start in (0..length).step_by(BLOCK) {
                for how in ["zeros", "garbage", "bit"] {
                    let device = sound.kill();
                    spoil(&device, &name, start..start + BLOCK, how);
                    assert_whole(&device, layout, &records, &format!("{name} {start} {how}"));
                    if how == "zeros" {
                        let what = format!("{name} {start} cut");
                        assert_whole(&cut(&device.kill()), layout, &records, &what);
                    }
                }
            }
        }
        // The heads of texts have a file of their own.
        for name in sound.names().iter().filter(|name| name.ends_with("head")) {
            for start in (0..4 * BLOCK).step_by(BLOCK) {
                let device = sound.kill();
                spoil(&device, name, start..start + BLOCK, "zeros");
                assert_whole(&device, layout, &records, &format!("{name} {start}"));
            }
        }
    }
}

#[test]
fn two_blocks_of_each_stripe_come_back_and_what_the_device_refuses_too() {
    for layout in LAYOUTS {
        let (sound, records) = sample(layout);
        let mut random = Random::new(5);
        for turn in 0..60 {
            let device = sound.kill();
            for (name, from) in data_files(&sound) {
                // What stands behind the records has no parity.
                let bytes = sound.bytes(&name).unwrap();
                let length = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
                for stripe in (from..length).step_by(DATA * BLOCK) {
                    for _ in 0..2 {
                        let block = usize::try_from(random.below(4)).unwrap();
                        let start = stripe + block * BLOCK;
                        if start >= length {
                            continue;
                        }
                        if random.below(4) == 0 {
                            device.fail_read(&name, start..start + BLOCK);
                        } else {
                            spoil(&device, &name, start..start + BLOCK, "garbage");
                        }
                    }
                }
            }
            let found = read(&device, false).unwrap();
            assert_eq!((&found.records, found.errors), (&records, 0), "turn {turn}");
            let judged = judge(&device);
            assert!(
                judged.as_ref().is_ok_and(|found| found.verdict <= Verdict::Correctable)
                    || matches!(judged, Err(Error::Io { .. })),
                "turn {turn}: {judged:?}"
            );
        }
    }
}

#[test]
fn what_is_beyond_the_parity_is_named_and_nothing_wrong_is_delivered() {
    for layout in LAYOUTS {
        let (sound, records) = sample(layout);
        let (name, from) = data_files(&sound)[1].clone();
        let device = sound.kill();
        spoil(&device, &name, from..from + 3 * BLOCK, "garbage");
        let judged = judge(&device).unwrap();
        assert_eq!(judged.verdict, Verdict::Lost);
        let found = read(&device, true).unwrap();
        assert!(found.count() < 60);
        for (number, payload) in &records {
            let lost = found.lost.iter().any(|lost| common::names(lost, *number));
            assert!(lost || found.records.get(number) == Some(payload), "record {number}");
        }
    }
}

#[test]
fn damaged_parity_costs_nothing_and_gives_nothing_wrong() {
    let (sound, records) = sample(Layout::Binary);
    let names = sound.names().into_iter().filter(|name| name.ends_with("parity"));
    let mut random = Random::new(9);
    for name in names {
        let length = sound.bytes(&name).unwrap().len();
        for turn in 0..length / 16 {
            let device = sound.kill();
            let at = usize::try_from(random.below(u64::try_from(length).unwrap())).unwrap();
            device.edit(&name, |bytes| bytes[at] ^= 1 << (turn % 8));
            assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{name} {at}");
            // And with damage to the log itself beside it: whatever is delivered is right.
            let (data, from) = data_files(&sound)[turn % 3].clone();
            spoil(&device, &data, from + turn * 8 % 1500..from + turn * 8 % 1500 + 600, "garbage");
            let found = read(&device, true).unwrap();
            for (number, payload) in &records {
                let lost = found.lost.iter().any(|lost| common::names(lost, *number));
                assert!(lost || found.records.get(number) == Some(payload), "{name} {at} {number}");
            }
        }
    }
}

#[test]
fn damaged_parity_is_told_and_made_anew_from_sound_records() {
    for layout in LAYOUTS {
        let (sound, records) = sample(layout);
        let names = sound.names().into_iter().filter(|name| name.ends_with("parity"));
        for (name, id) in names.map(|name| (name.clone(), SegmentId::from_parity_name(&name))) {
            let length = sound.bytes(&name).unwrap().len();
            let slots = (2 * BLOCK..length).step_by(101).map(|at| (at, "bit"));
            for (at, how) in slots.chain([(0, "cut"), (700, "cut"), (length - 1, "cut")]) {
                let what = format!("{name} {at} {how}");
                let device = sound.kill();
                device.edit(&name, |bytes| match how {
                    "bit" => bytes[at] ^= 4,
                    _ => bytes.truncate(at),
                });
                let found = protection_in(&shared(&device)).unwrap();
                assert_eq!(found.open, [id.unwrap()], "{what}");
                assert!(found.covered < found.bytes, "{what}");
                let made = protect_in(&shared(&device), scheme()).unwrap();
                assert!(made.open.is_empty() && made.covered == made.bytes, "{what}: {made:?}");
                let stem = name.trim_end_matches("parity");
                let data = data_files(&device).into_iter();
                for (file, from) in data.filter(|(file, _)| file.starts_with(stem)) {
                    spoil(&device, &file, from..from + 2 * BLOCK, "garbage");
                }
                assert_eq!(read(&device, false).unwrap().records, records, "{what}");
            }
        }
    }
}

#[test]
fn a_log_has_parity_from_when_it_is_told_and_remembers() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, Layout::Binary, 1..=30);
    log.close().unwrap();
    assert!(device.names().iter().all(|name| !name.ends_with("parity")));
    assert_eq!(protection_in(&shared(&device)).unwrap().scheme, None);
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    append(&log, Layout::Binary, 31..=60);
    log.close().unwrap();
    let log = open(&again(3), &device).unwrap();
    append(&log, Layout::Binary, 61..=90);
    log.close().unwrap();
    let found = protection_in(&shared(&device)).unwrap();
    assert_eq!(found.scheme, Some(scheme()));
    assert!(found.covered < found.bytes && found.open.contains(&SegmentId::FIRST), "{found:?}");
    // What an earlier life wrote is protected when that is asked for.
    let made = protect_in(&shared(&device), scheme()).unwrap();
    assert_eq!((made.open.len(), made.covered), (0, made.bytes));
    let records = read(&device, false).unwrap().records;
    for (name, from) in data_files(&device) {
        let harmed = device.kill();
        spoil(&harmed, &name, from..from + BLOCK, "zeros");
        assert_whole(&harmed, Layout::Binary, &records, &name);
    }
    // Freed of it, the segments to come have none.
    let log = open(&again(4).parity(None), &device).unwrap();
    append(&log, Layout::Binary, 91..=150);
    log.close().unwrap();
    let found = protection_in(&shared(&device)).unwrap();
    assert_eq!((found.scheme, found.open.is_empty()), (None, false));
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
}

/// A file of parity and nothing else would make no log of a directory that lost the rest.
#[test]
fn a_log_without_records_lacks_no_parity_and_gets_none() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        open(&laid_out(tiny(1), layout), &device).unwrap().close().unwrap();
        let names = device.names();
        for _ in 0..2 {
            let made = protect_in(&shared(&device), scheme()).unwrap();
            assert_eq!((made.bytes, made.covered, made.unsure), (0, 0, 0), "{made:?}");
            assert!(made.open.is_empty() && made.parity_bytes == 0, "{made:?}");
        }
        assert_eq!(device.names(), names);
    }
}

/// What the log that a crash left says of its parity once it was opened and closed.
fn assert_protected(device: &MemStorage, what: &str) {
    let log = open(&again(2).parity(Some(scheme())), device).unwrap();
    log.close().unwrap();
    let found = protection_in(&shared(device)).unwrap();
    assert!(found.open.is_empty(), "{what}: {found:?}");
    assert_eq!(found.covered, found.bytes, "{what}: {found:?}");
    let records = read(device, false).unwrap().records;
    for (name, from) in device
        .names()
        .into_iter()
        .filter(|name| name.ends_with("seg"))
        .map(|name| (name, 5 * BLOCK))
    {
        let harmed = device.kill();
        spoil(&harmed, &name, from..from + 2 * BLOCK, "garbage");
        let found = read(&harmed, false).unwrap();
        assert_eq!((&found.records, found.errors), (&records, 0), "{what}: {name}");
    }
}

#[test]
fn wherever_the_power_goes_the_next_open_makes_what_parity_lacks() {
    let steps = {
        let device = MemStorage::new();
        let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
        append(&log, Layout::Binary, 1..=40);
        log.close().unwrap();
        device.steps()
    };
    for stop in (0..steps).step_by(3) {
        for kept in [Landing::Whole, Landing::Lost] {
            let device = MemStorage::new();
            device.stop_after(stop);
            let mut acknowledged = 0;
            if let Ok(log) = open(&with_parity(1, Layout::Binary), &device) {
                for number in 1..=40 {
                    let size = 20 + usize::try_from(number * 37 % 300).unwrap();
                    if log.append(&payload_in(Layout::Binary, (number, 1), size)).is_err() {
                        break;
                    }
                    acknowledged = number;
                }
            }
            let left = device.power_cut(|_| kept.clone());
            let what = format!("stopped after {stop}, {kept:?}");
            assert_protected(&left, &what);
            assert!(read(&left, false).unwrap().count() >= acknowledged, "{what}");
        }
    }
}

#[test]
fn a_strict_open_refuses_what_is_damaged_and_others_go_on_beside_it() {
    let (sound, records) = sample(Layout::Binary);
    let (name, from) = data_files(&sound).pop().unwrap();
    spoil(&sound, &name, from + 300..from + 310, "garbage");
    let strict = open(&again(5).mode(OpenMode::Strict), &sound);
    assert!(matches!(strict, Err(Error::Damaged(_))), "{strict:?}");
    let log = open(&again(6), &sound).unwrap();
    assert_eq!(log.recovery().mended.len(), 1);
    assert!(log.recovery().warnings[0].contains("repair"), "{:?}", log.recovery().warnings);
    assert_eq!(log.get(lsn(60)).unwrap().as_ref(), records.get(&60));
    let damaged = sound.bytes(&name).unwrap();
    append(&log, Layout::Binary, 61..=62);
    log.close().unwrap();
    let after = sound.bytes(&name).unwrap();
    assert_eq!(after[from..from + 512], damaged[from..from + 512], "nothing is written over it");
    let mut cursor = LogReader::open_any_in(shared(&sound)).unwrap().cursor(Lsn::FIRST).unwrap();
    while cursor.next_record().unwrap().is_some() {}
    assert_eq!(cursor.mended().len(), 1);
}

fn sides(device: &MemStorage) -> Vec<String> {
    device.names().into_iter().filter(|name| name.ends_with("parity")).collect()
}

/// The image: a block is damaged, and its parity goes on for ever, as a sparse file can.
#[test]
fn a_file_of_parity_without_end_is_looked_at_as_far_as_there_are_records() {
    let (sound, records) = sample(Layout::Binary);
    for name in sides(&sound) {
        sound.edit(&name, |bytes| bytes.resize(8 << 20, 0));
    }
    let (name, from) = data_files(&sound)[0].clone();
    spoil(&sound, &name, from..from + BLOCK, "garbage");
    let (device, counts) = Counted::new(sound);
    let reader = LogReader::<[u8], Raw>::open_any_in(Arc::new(device)).unwrap();
    let found = Found::take(reader.read_from(Lsn::FIRST).unwrap()).unwrap();
    assert_eq!((&found.records, found.errors), (&records, 0));
    let reads = counts.take();
    assert!(reads.bytes < 2 << 20, "{reads:?}");
}

/// The image: after a crash, all of the newest segment is zeros, or something else, its header
/// included. With the header from the parity alone it would be an empty segment, and sound.
#[test]
fn a_segment_that_is_lost_as_a_whole_is_not_made_an_empty_one() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let log = open(&with_parity(1, layout), &device).unwrap();
        append(&log, layout, 1..=40);
        // Its parity has no slot for the last records.
        let crashed = device.power_cut(|_| true);
        drop(log);
        let names = |end: &str| {
            let found = crashed.names().into_iter().rfind(|name| name.ends_with(end));
            found.unwrap()
        };
        let lost = match layout {
            Layout::Text => vec![names("head"), names("jsonl")],
            _ => vec![names("seg")],
        };
        for how in ["zeros", "garbage"] {
            let harmed = crashed.kill();
            for name in &lost {
                spoil(&harmed, name, 0..usize::MAX, how);
            }
            let judged = judge(&harmed).unwrap();
            assert_eq!(judged.verdict, Verdict::Lost, "{layout:?} {how}: {judged:?}");
            let found = read(&harmed, true).unwrap();
            for number in found.count() + 1..=40 {
                let is_told = found.lost.iter().any(|lost| common::names(lost, number));
                assert!(is_told, "{layout:?} {how}: record {number} is silently missing");
            }
        }
    }
}

/// The image: a log that was cut behind `last` and went on with these records. The seal that names
/// the segment of the cut is lost; what was cut still stands in the segment before. With the names
/// of the two files that have their headers.
fn cut_with_lost_seal(
    layout: Layout,
    last: Option<Lsn>,
    records: &[Vec<u8>],
) -> (MemStorage, [String; 2]) {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, 1..=4);
    log.truncate_after(last).unwrap();
    for record in records {
        log.append(record).unwrap();
    }
    log.close().unwrap();
    let is_head = |name: &String| matches!(name.rsplit_once('.'), Some((_, "seg" | "head")));
    let heads: Vec<_> = device.names().into_iter().filter(is_head).collect();
    let heads: [String; 2] = heads.try_into().unwrap();
    spoil(&device, &heads[0], 3 * BLOCK..4 * BLOCK, "zeros");
    (device, heads)
}

/// The header of the segment that the cut made is lost, too.
#[test]
fn what_was_cut_is_not_shown_where_parity_has_the_header_of_the_cut() {
    for layout in LAYOUTS {
        let records: Vec<_> = (1..=2).map(|lsn| payload_in(layout, (lsn, 2), 50)).collect();
        let (device, [_, newest]) = cut_with_lost_seal(layout, None, &records);
        let records = (1..).zip(records).collect();
        assert_whole(&device.kill(), layout, &records, "without a seal");
        for how in ["zeros", "garbage", "bit"] {
            let harmed = device.kill();
            spoil(&harmed, &newest, 0..BLOCK, how);
            // The bit is to be one that means something.
            spoil(&harmed, &newest, 40..48, "bit");
            let what = format!("{layout:?} {how}");
            assert_whole(&harmed, layout, &records, &what);
            let mends: [fn(&MemStorage) -> MemStorage; 3] = [salvaged, cut, mended];
            for (number, mend) in mends.into_iter().enumerate() {
                assert_whole(&mend(&harmed.kill()), layout, &records, &format!("{what} {number}"));
            }
        }
    }
}

/// And a record before the cut is lost, whatever parity says: the cut is still seen.
#[test]
fn what_was_cut_is_not_counted_beside_a_record_that_is_lost() {
    for layout in LAYOUTS {
        let record = payload_in(layout, (2, 2), 50);
        let only = std::slice::from_ref(&record);
        let (device, [before, newest]) = cut_with_lost_seal(layout, Some(lsn(1)), only);
        device.remove_raw(&format!("{}.parity", before.split_once('.').unwrap().0));
        spoil(&device, &newest, 0..BLOCK, "garbage");
        let (data, start) = data_files_of(&device).remove(0);
        spoil(&device, &data, start + 60..start + 70, "garbage");
        let found = judge(&device).unwrap();
        let lost: Vec<_> = found.damage.iter().filter_map(|damage| damage.lost).collect();
        assert_eq!(lost, [Lost { from: lsn(1), to: Some(lsn(1)) }], "{layout:?}: {found:?}");
        assert_eq!((found.records, found.last_lsn), (1, Some(lsn(2))), "{layout:?}: {found:?}");
        let target = MemStorage::new();
        salvage_in(&shared(&device), shared(&target)).unwrap();
        let rescued = read(&target, false).unwrap().records;
        assert_eq!(rescued, BTreeMap::from([(2, record)]), "{layout:?}");
    }
}

/// A log that was repaired from its parity.
fn mended(device: &MemStorage) -> MemStorage {
    let done = mend_in(&shared(device), &[]).unwrap();
    assert_eq!(done.after.verdict, Verdict::Clean);
    device.clone()
}

/// A log that was cut before its first damage: with parity there is none.
fn cut(device: &MemStorage) -> MemStorage {
    let done = cut_tail_in(&shared(device)).unwrap();
    assert!(done.damage.is_empty(), "{done:?}");
    device.clone()
}

fn salvaged(device: &MemStorage) -> MemStorage {
    let target = MemStorage::new();
    let rescued = salvage_in(&shared(device), shared(&target)).unwrap();
    assert!(rescued.given_up.is_empty(), "{rescued:?}");
    target
}

/// The image: a slot that was written anew as its stripe filled is torn, and the head before said
/// that all up to a block that it shares with the next records had parity.
#[test]
fn a_torn_last_slot_is_made_again_when_the_log_is_opened() {
    let device = MemStorage::new();
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    append(&log, Layout::Binary, 1..=3);
    log.close().unwrap();
    for at in [0, 4, 40, 60, 700] {
        let torn = device.kill();
        let side = sides(&torn).pop().unwrap();
        torn.edit(&side, |bytes| bytes[2 * BLOCK + at] ^= 1);
        assert_protected(&torn, &format!("byte {at} of the slot"));
        // Durable it is, too.
        let left = torn.power_cut(|_| false);
        let (was, is) = (torn.bytes(&side), left.bytes(&side));
        assert_eq!(was, is, "byte {at} of the slot");
    }
}

/// Parity of a log that was damaged when it was made, beside the log as it was before.
/// A closed log of so many records of one size, whose last one is of that kind.
fn ending_with(kind: u64, count: u64) -> (MemStorage, BTreeMap<u64, Vec<u8>>) {
    let device = MemStorage::new();
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    for number in 1..=count {
        let kind = if number == count { kind } else { 1 };
        log.append(&payload_in(Layout::Binary, (number, kind), 100)).unwrap();
    }
    log.close().unwrap();
    let found = read(&device, false).unwrap();
    assert_eq!(found.count(), count);
    (device, found.records)
}

#[test]
fn parity_that_knows_otherwise_takes_nothing_away() {
    let mut tried = 0;
    for count in 30..50 {
        let ((sound, records), (other, _)) = (ending_with(1, count), ending_with(2, count));
        let (name, from) = data_files(&sound).pop().unwrap();
        let parity = name.replace("seg", "parity");
        let known = other.bytes(&parity).unwrap();
        sound.edit(&parity, |there| *there = known);
        let (one, two) = (sound.bytes(&name).unwrap(), other.bytes(&name).unwrap());
        let is_other = |start: &usize| one[*start..*start + BLOCK] != two[*start..*start + BLOCK];
        let (others, same): (Vec<_>, Vec<_>) = (from..one.len()).step_by(BLOCK).partition(is_other);
        // All but one block is the same, so the slot is believed of what is lost.
        if others.len() != 1 {
            continue;
        }
        for start in same {
            let harmed = sound.kill();
            spoil(&harmed, &name, start..start + BLOCK, "garbage");
            let without = harmed.kill();
            without.remove_raw(&parity);
            let (with, without) = (read(&harmed, true).unwrap(), read(&without, true).unwrap());
            let what = format!("{count} records, known otherwise of the last, lost at {start}");
            assert!(without.records.keys().all(|lsn| with.records.contains_key(lsn)), "{what}");
            let right = |(lsn, payload): (&u64, &Vec<u8>)| records.get(lsn) == Some(payload);
            assert!(with.records.iter().all(right), "{what}");
            tried += usize::from(with.count() > without.count());
        }
    }
    assert!(tried >= 10, "{tried} in which it gave a record back all the same");
}

/// The log as a power cut leaves it on another boot: all that was synced.
fn after_a_power_cut(layout: Layout, numbers: std::ops::RangeInclusive<u64>) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, numbers);
    let left = device.power_cut(|_| true);
    drop(log);
    left
}

#[test]
fn what_the_device_refuses_comes_back_to_whoever_looks() {
    for layout in LAYOUTS {
        let (sound, records) = sample(layout);
        for (name, from) in data_files(&sound) {
            let device = sound.kill();
            device.fail_read(&name, from..from + 2 * BLOCK);
            assert_whole(&device, layout, &records, &format!("{name} {from}"));
        }
        for name in sound.names().iter().filter(|name| SegmentId::from_file_name(name).is_some()) {
            let device = sound.kill();
            device.fail_read(name, 0..BLOCK);
            assert_eq!(read(&device, false).unwrap().records, records, "{name}");
            assert!(judge(&device).unwrap().verdict <= Verdict::Correctable, "{name}");
        }
    }
}

#[test]
fn a_block_of_zeros_that_the_device_refuses_comes_back_too() {
    let device = MemStorage::new();
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    for number in 1..=8 {
        let mut payload = vec![0; 900 + number];
        payload[899] = 7;
        log.append(&payload).unwrap();
    }
    log.close().unwrap();
    let records = read(&device, false).unwrap().records;
    for (name, from) in data_files(&device) {
        let bytes = device.bytes(&name).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for start in (from..used).step_by(BLOCK) {
            let harmed = device.kill();
            harmed.fail_read(&name, start..start + BLOCK);
            let found = read(&harmed, false).unwrap();
            assert_eq!((&found.records, found.errors), (&records, 0), "{name} {start}");
        }
    }
}

/// Of the block where they end, parity knows what stood there when it was last kept.
#[test]
fn what_the_device_refuses_and_parity_does_not_know_is_not_taken_for_damage() {
    for layout in LAYOUTS {
        let sound = MemStorage::new();
        let log = open(&with_parity(1, layout), &sound).unwrap();
        append(&log, layout, 1..=2);
        log.close().unwrap();
        let log = open(&laid_out(again(2).parity(None), layout), &sound).unwrap();
        let (name, from) = data_file(&sound);
        let used = sound.bytes(&name).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
        append(&log, layout, 3..=3);
        let start = from + (used - from) / BLOCK * BLOCK;
        for gives_it_then in [false, true] {
            sound.fail_read(&name, start..start + BLOCK);
            let reader = LogReader::open_any_in(shared(&sound)).unwrap();
            let mut cursor = reader.read_from(Lsn::FIRST).unwrap();
            assert_eq!(cursor.next().unwrap().unwrap().0, lsn(1));
            if gives_it_then {
                sound.fail_read(&name, 0..0);
            }
            assert_eq!(cursor.next().unwrap().unwrap().0, lsn(2));
            match cursor.next() {
                Some(Ok((found, _))) if gives_it_then => assert_eq!(found, lsn(3)),
                Some(Err(Error::Damaged(damage))) if !gives_it_then => {
                    assert_eq!(damage.cause, Corruption::Unreadable, "{layout:?}");
                }
                other => panic!("{layout:?} {gives_it_then}: {other:?}"),
            }
        }
        log.close().unwrap();
    }
}

/// The disk was left with records that a slot knows and nothing else confirms, as zeros.
#[test]
fn an_end_behind_which_parity_knows_of_records_is_none() {
    for layout in LAYOUTS {
        let mut tried = 0;
        for count in 20..=60 {
            let sound = after_a_power_cut(layout, 1..=count);
            let records = read(&sound, false).unwrap().records;
            let (name, from) = data_files(&sound).pop().unwrap();
            let parity = format!("{}.parity", name.split_once('.').unwrap().0);
            let bytes = sound.bytes(&name).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            let stripes = (used - from) / (DATA * BLOCK);
            if sound.bytes(&parity).is_none() || stripes == 0 {
                continue;
            }
            let end = from + stripes * DATA * BLOCK;
            for lost in [2, 3] {
                let device = sound.kill();
                device.edit(&name, |bytes| match layout {
                    Layout::Text => bytes.truncate(end - lost * BLOCK),
                    _ => bytes[end - lost * BLOCK..].fill(0),
                });
                let judged = judge(&device).unwrap();
                let strict = open(&again(5).mode(OpenMode::Strict), &device.kill());
                assert!(strict.is_err(), "{count}: a strict open takes no such end");
                let log = open(&laid_out(again(2), layout), &device);
                tried += 1;
                if lost == 3 {
                    assert_eq!(judged.verdict, Verdict::Lost, "{count}: {judged:?}");
                    assert!(matches!(log, Err(Error::Damaged(_))), "{count}");
                    continue;
                }
                // A record that ends behind the stripe is lost, and known to have been there.
                assert!(judged.verdict >= Verdict::Correctable, "{count}: {judged:?}");
                assert!(read(&device, false).unwrap().records.len() + 12 >= records.len());
                let Ok(log) = log else { continue };
                // What stood in the block behind the stripe is gone, and was never confirmed.
                let own = Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap();
                assert!(own.records.len() + 12 >= records.len(), "{count}");
                let before = device.bytes(&name).unwrap();
                let next = log.append(&payload_in(layout, (1, 9), 20)).unwrap();
                assert_eq!(next.get(), own.count() + 1);
                log.close().unwrap();
                let after = device.bytes(&name).unwrap();
                let same = from..before.len().min(after.len());
                assert!(after[same.clone()] == before[same], "{count}: written over what is known");
            }
        }
        assert!(tried > 4, "{layout:?}: {tried}");
    }
}

/// What took the last records of a text took the break of the line before them, too: that line
/// looks as if somebody had edited it, and an edited text may end early.
#[test]
fn a_text_that_lost_its_end_with_a_line_break_is_not_taken_for_an_edited_one() {
    // Lines that end one byte into the third block of the stripe, at its end, and behind it.
    let lost = DATA / 2 * BLOCK;
    let text_of = |lengths: &[usize]| {
        let device = MemStorage::new();
        let options = with_parity(1, Layout::Text).geometry(common::GEOMETRY, 10 * 512);
        let log = open(&options, &device).unwrap();
        for (number, length) in lengths.iter().enumerate() {
            let data = format!("\"{}\"", number.to_string().repeat(*length));
            log.append(data.as_bytes()).unwrap();
        }
        let left = device.power_cut(|_| true);
        drop(log);
        left
    };
    let name = "000000000001.jsonl";
    let bytes = text_of(&[1; 4]).bytes(name).unwrap();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let around: Vec<_> = lines.map(|line| line.len() - 1).collect();
    for more in [0, 60] {
        let ends = [512, lost + 1, lost + 512, DATA * BLOCK + more];
        let starts = [0].iter().chain(&ends);
        let lengths =
            ends.iter().zip(starts).zip(&around).map(|((end, start), around)| end - start - around);
        let sound = text_of(&lengths.collect::<Vec<_>>());
        assert_eq!(sound.bytes(name).unwrap().len(), DATA * BLOCK + more);
        let records = read(&sound, false).unwrap().records;
        for damage in ["zeros", "garbage", "end"] {
            let device = sound.kill();
            match damage {
                "end" if more > 0 => continue,
                "end" => device.edit(name, |bytes| bytes.truncate(lost)),
                _ => spoil(&device, name, lost..DATA * BLOCK, damage),
            }
            let strict =
                open(&laid_out(again(2), Layout::Text).mode(OpenMode::Strict), &device.kill());
            assert!(matches!(strict, Err(Error::CannotTell { .. })), "{damage} {more}: {strict:?}");
            assert_whole(&device, Layout::Text, &records, &format!("{damage} {more}"));
        }
    }
}

/// The disk was left with a block lost of which parity knows the beginning only.
#[test]
fn the_end_in_a_lost_block_cannot_be_told() {
    let (sound, _) = sample(Layout::Binary);
    let (name, from) = data_files(&sound).pop().unwrap();
    let log = open(&again(7).parity(None), &sound).unwrap();
    let used = |device: &MemStorage| {
        device.bytes(&name).unwrap().iter().rposition(|byte| *byte != 0).unwrap() + 1
    };
    let before = used(&sound);
    log.append(b"7").unwrap();
    let device = sound.power_cut(|_| true);
    drop(log);
    let block = from + (before - from) / BLOCK * BLOCK;
    assert!(before > block && used(&device) < block + BLOCK, "both in one block");
    spoil(&device, &name, block..block + BLOCK, "zeros");
    let log = open(&again(8), &device.kill()).unwrap();
    assert_eq!(log.recovery().tail, seawall::TailState::CannotTell);
    let found = judge(&device).unwrap();
    assert_eq!((found.verdict, found.records), (Verdict::Correctable, 60));
}

/// A power cut left the last slot of a segment torn that the writer had left already.
#[test]
fn a_slot_that_a_crash_tore_is_made_anew() {
    let (sound, _) = sample(Layout::Binary);
    for (name, _) in data_files(&sound).into_iter().rev().take(2) {
        let device = sound.kill();
        let parity = name.replace("seg", "parity");
        device.edit(&parity, |bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        });
        let log = open(&again(2), &device).unwrap();
        append(&log, Layout::Binary, 61..=61);
        log.close().unwrap();
        assert!(protection_in(&shared(&device)).unwrap().open.is_empty(), "{name}");
        let bytes = device.bytes(&name).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let last = 5 * BLOCK + (used - 5 * BLOCK) / (DATA * BLOCK) * DATA * BLOCK;
        for start in (last..used).step_by(BLOCK) {
            let other = if start == last { start } else { last };
            let harmed = device.kill();
            spoil(&harmed, &name, start..start + BLOCK, "garbage");
            spoil(&harmed, &name, other..other + BLOCK, "bit");
            assert_eq!(read(&harmed, false).unwrap().count(), 61, "{name} {start}");
        }
    }
}

/// Whoever forges a head may say anything in it.
#[test]
fn a_head_that_covers_everything_breaks_nothing() {
    use seawall_format::parity::Head;
    let (sound, records) = sample(Layout::Binary);
    for name in sound.names().into_iter().filter(|name| name.ends_with("parity")) {
        for covered in [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 40] {
            let device = sound.kill();
            device.edit(&name, |bytes| {
                let mut head = Head::decode_file(bytes).unwrap();
                (head.sequence, head.covered) = (head.sequence + 1, covered);
                let at = usize::try_from(head.offset().0).unwrap();
                bytes[at..at + 280].copy_from_slice(&head.encode());
            });
            protection_in(&shared(&device)).unwrap();
            let log = open(&again(2), &device).unwrap();
            append(&log, Layout::Binary, 61..=62);
            log.close().unwrap();
            assert_eq!(records.len(), 60);
            assert_eq!(read(&device, false).unwrap().count(), 62);
        }
    }
}
