//! Lookup of one record by its number: the result agrees with the iterator, whatever is cached.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

mod races;

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::counted::{Counted, Reads};
use common::gate::Gated;
use common::hooked::Hooked;
use common::{Bytes, Found, Random, again, lsn, names, open, payload, read, tiny, within};
use seawall::damage::Damage;
use seawall::format::Geometry;
use seawall::{Error, Log, LogReader, Lsn, Options, Raw};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;

type Reader = LogReader<[u8], Raw>;

fn reader(storage: impl Storage + 'static) -> Reader {
    LogReader::open_in(Arc::new(storage)).unwrap()
}

/// A log whose segments are larger than the range of one index entry.
fn roomy() -> Options {
    Options::new()
        .geometry(Geometry { block: 512, reach: 1024, batch_max: 4096 }, 16_384)
        .segment_size(1 << 20)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(7)))
}

fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<_> = (1..=count).zip(Random::new(count)).collect();
    numbers.sort_by_key(|(_, random)| *random);
    numbers.into_iter().map(|(number, _)| number).collect()
}

fn append(log: &Bytes, life: u64, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let size = usize::try_from(number * 37 % 250).unwrap();
        assert_eq!(log.append(&payload(number, life, size)).unwrap(), lsn(number));
    }
}

/// The bytes that [`append`] wrote for record `number`.
#[expect(clippy::unnecessary_wraps, reason = "has the type of `get`'s results")]
fn appended(number: u64, life: u64) -> Option<Vec<u8>> {
    Some(payload(number, life, usize::try_from(number * 37 % 250).unwrap()))
}

#[test]
fn every_record_of_many_segments_is_found_in_any_order() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, 1, 1..=60);
    let set: Vec<_> = (61..=64).map(|number| payload(number, 1, 100)).collect();
    log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    drop(log);
    let log = open(&again(2), &device).unwrap();
    append(&log, 2, 65..=120);
    assert!(device.names().len() > 10, "several segments");
    let written = read(&device, false).unwrap().records;
    let readers =
        [reader(device.clone()), reader(device.kill()), reader(device.power_cut(|_| true))];
    for number in shuffled(120) {
        let expected = written.get(&number);
        assert_eq!(log.get(lsn(number)).unwrap().as_ref(), expected, "record {number}");
        for reader in &readers {
            assert_eq!(reader.get(lsn(number)).unwrap().as_ref(), expected, "record {number}");
        }
    }
    for number in [121, 122, 1 << 40, u64::MAX] {
        assert_eq!(log.get(lsn(number)).unwrap(), None);
        assert!(readers.iter().all(|reader| reader.get(lsn(number)).unwrap().is_none()));
    }
}

#[test]
fn every_record_of_large_segments_is_found_while_the_log_grows() {
    const RECORDS: u64 = 12_000;
    let device = MemStorage::new();
    let log = open(&roomy(), &device).unwrap();
    let reader = reader(device.clone());
    let mut got = 0;
    for stretch in 0..RECORDS / 1_000 {
        append(&log, 1, stretch * 1_000 + 1..=(stretch + 1) * 1_000);
        let end = (stretch + 1) * 1_000;
        for number in shuffled(end).into_iter().take(300).chain([end]) {
            assert_eq!(log.get(lsn(number)).unwrap(), appended(number, 1), "record {number}");
            assert_eq!(reader.get(lsn(number)).unwrap(), appended(number, 1), "record {number}");
            got += 1;
        }
        assert_eq!(log.get(lsn(end + 1)).unwrap(), None);
        assert_eq!(reader.get(lsn(end + 1)).unwrap(), None);
    }
    let large =
        device.names().into_iter().filter(|name| device.bytes(name).unwrap().len() > 500_000);
    assert!(large.count() >= 2 && got > 3_000);
}

#[test]
fn get_works_without_a_writer_and_detects_one_without_live() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, 1, 1..=40);
    drop(log);
    let device = device.power_cut(|_| true);
    let reader = reader(device.clone());
    for number in shuffled(40) {
        assert_eq!(reader.get(lsn(number)).unwrap(), appended(number, 1));
    }
    assert_eq!(reader.get(lsn(41)).unwrap(), None);
    // A life that truncates and continues, and that `live` does not mention.
    let log = open(&again(3), &device).unwrap();
    log.truncate_after(Some(lsn(30))).unwrap();
    append(&log, 2, 31..=50);
    log.truncate_before(lsn(20)).unwrap();
    drop(log);
    device.remove_raw("live");
    for number in 20..=50 {
        let life = if number > 30 { 2 } else { 1 };
        assert_eq!(reader.get(lsn(number)).unwrap(), appended(number, life), "record {number}");
    }
    assert_eq!(reader.get(lsn(51)).unwrap(), None);
    assert!(matches!(reader.get(Lsn::FIRST), Err(Error::Pruned { .. })));
}

#[test]
fn get_finds_each_acknowledged_record_and_only_durable_ones() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log: Bytes = roomy().segment_size(32_768).open_in(Arc::new(gated)).unwrap();
        let reader = reader(device);
        for number in 1..=400 {
            gate.shut();
            std::thread::scope(|scope| {
                scope.spawn(|| append(&log, 1, [number]));
                gate.wait_for_somebody();
                let next = lsn(number);
                let seen = [log.get(next).unwrap(), reader.get(next).unwrap()];
                let before = next.previous().map(|before| log.get(before).unwrap());
                gate.open();
                assert_eq!(seen, [None, None], "record {number} is not durable");
                assert_eq!(before, (number > 1).then(|| appended(number - 1, 1)));
            });
            assert_eq!(log.get(lsn(number)).unwrap(), appended(number, 1));
            assert_eq!(reader.get(lsn(number)).unwrap(), appended(number, 1));
        }
    });
}

/// The image: the writer was halfway through writing `live`, and has finished since.
#[test]
fn reading_live_during_its_update_shows_only_durable_records() {
    let device = MemStorage::new();
    let (gated, gate) = Gated::new(device.clone());
    let log: Bytes = tiny(1).open_in(Arc::new(gated)).unwrap();
    append(&log, 1, 1..=3);
    let (hooked, hook) = Hooked::new(device.clone(), u64::MAX, || {});
    let reader = reader(hooked);
    gate.shut();
    let got = std::thread::scope(|scope| {
        scope.spawn(|| append(&log, 1, [4]));
        gate.wait_for_somebody();
        let told = device.bytes("live").unwrap();
        device.edit("live", |bytes| bytes[50] ^= 1);
        // The first calls check its lock, open it and read it.
        hook.plan(3, move || device.edit("live", |bytes| bytes.clone_from(&told)));
        let got = reader.get(lsn(4));
        gate.open();
        got
    });
    assert!(!hook.is_waiting());
    assert_eq!(got.unwrap(), None);
}

#[test]
fn get_never_returns_a_truncated_record() {
    for last in 0..=40 {
        let device = MemStorage::new();
        let log = open(&tiny(1), &device).unwrap();
        let reader = reader(device.clone());
        append(&log, 1, 1..=40);
        let check = |number: u64, expected: Option<Vec<u8>>| {
            let got = [log.get(lsn(number)).unwrap(), reader.get(lsn(number)).unwrap()];
            assert!(got == [expected.clone(), expected], "cut behind {last}, record {number}");
        };
        for number in shuffled(40) {
            check(number, appended(number, 1));
        }
        log.truncate_after(Lsn::new(last)).unwrap();
        (1..=last).for_each(|number| check(number, appended(number, 1)));
        (last + 1..=41).for_each(|number| check(number, None));
        for number in last + 1..=50 {
            append(&log, 2, [number]);
            check(number, appended(number, 2));
            check(number + 1, None);
        }
        for number in shuffled(50) {
            check(number, appended(number, if number > last { 2 } else { 1 }));
        }
    }
}

#[test]
fn get_of_a_pruned_record_returns_pruned() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    let reader = reader(device);
    append(&log, 1, 1..=90);
    for number in shuffled(90) {
        assert!(log.get(lsn(number)).unwrap().is_some() && reader.get(lsn(number)).is_ok());
    }
    for before in [30, 31, 60, 90] {
        let oldest = log.truncate_before(lsn(before)).unwrap();
        for number in shuffled(90) {
            for got in [log.get(lsn(number)), reader.get(lsn(number))] {
                match got {
                    Err(Error::Pruned { oldest: first, .. }) => {
                        assert!(first == oldest && lsn(number) < oldest, "record {number}");
                    }
                    got => {
                        assert_eq!(got.unwrap(), appended(number, 1));
                        assert!(lsn(number) >= oldest, "record {number}");
                    }
                }
            }
        }
    }
}

/// A log of two lives with several segments, sets and a mark, in three states: in use; killed and
/// rebooted; closed and rebooted.
fn two_lives() -> [MemStorage; 3] {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, 1, 1..=9);
    let set: Vec<_> = (10..=14).map(|number| payload(number, 1, 120)).collect();
    log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    append(&log, 1, 15..=22);
    drop(log);
    let log = open(&again(2), &device).unwrap();
    append(&log, 2, 23..=30);
    log.confirm().unwrap();
    let set: Vec<_> = (31..=34).map(|number| payload(number, 2, 200)).collect();
    log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    let (in_use, killed) = (device.kill(), device.power_cut(|_| true));
    drop(log);
    [in_use, killed, device.power_cut(|_| true)]
}

/// The output of a reader that skips damage, and what else is known.
struct Around<'a> {
    found: &'a Found,
    /// Whether `live` says that there are 34 records.
    is_told: bool,
    what: &'a str,
}

impl Around<'_> {
    /// Checks that `get` returns each delivered record, and an error for each lost one. If the
    /// reader has cached lost records, it may return those: they are in `kept`.
    fn compare(&self, reader: &Reader, kept: &BTreeMap<u64, Vec<u8>>) {
        let Self { found, is_told, what } = self;
        let knows_the_end = *is_told || !kept.is_empty();
        let delivered = found.records.keys().next_back().map_or(0, |last| last + 1);
        for number in 1..=delivered.max(36) {
            let named = found.lost.iter().any(|lost| names(lost, number));
            let record = found.records.get(&number);
            match (reader.get(lsn(number)), record) {
                (Ok(Some(got)), _) => {
                    let expected = record.or(kept.get(&number));
                    assert!(Some(&got) == expected, "{what}: record {number}");
                }
                (Err(Error::Damaged { damage, .. }), None) => {
                    assert!(named, "{what}: {damage:?} for record {number}");
                    let Damage { lost, .. } = *damage;
                    assert!(names(&lost.unwrap(), number), "{what}: {lost:?} for record {number}");
                }
                // Reading everything does not show how many records a lost file had.
                (Ok(None), None) if !named || knows_the_end && number > 34 => {}
                (got, _) => panic!("{what}: record {number}: {got:?}"),
            }
        }
    }
}

#[test]
fn get_around_damage_agrees_with_reading_everything() {
    let (mut lost, mut whole) = (0, 0);
    for (number, sound) in two_lives().into_iter().enumerate() {
        let written = read(&sound, false).unwrap().records;
        assert_eq!(written.len(), 34);
        for file in sound.names() {
            let length = sound.bytes(&file).unwrap().len();
            let spots = (0..length).step_by(29).map(Some).chain([None]);
            for spot in spots {
                let device = sound.kill();
                // One reader has read everything before, the other one has not.
                let warm = reader(device.clone());
                (1..=34).for_each(|number| drop(warm.get(lsn(number)).unwrap()));
                match spot {
                    Some(byte) => device.edit(&file, |bytes| bytes[byte] ^= 1 << (byte % 8)),
                    None => device.remove_raw(&file),
                }
                let Ok(found) = read(&device, true) else { continue };
                let around = Around {
                    found: &found,
                    is_told: number == 0 && file != "live",
                    what: &format!("{file}, {spot:?}, image {number}"),
                };
                around.compare(&reader(device.clone()), &BTreeMap::new());
                around.compare(&warm, &written);
                let all = found.records.len() == 34;
                (lost, whole) = (lost + u32::from(!all), whole + u32::from(all));
            }
        }
    }
    println!("{lost} with lost records, {whole} without");
    assert!(lost > 100 && whole > 50);
}

/// The file that contains `text`, and its position there.
fn place_of(device: &MemStorage, text: &[u8]) -> Option<(String, usize)> {
    device.names().into_iter().find_map(|name| {
        let bytes = device.bytes(&name)?;
        let at = bytes.windows(text.len()).position(|part| part == text)?;
        Some((name, at))
    })
}

#[test]
fn neighbours_of_a_lost_record_in_its_batch_are_found() {
    let device = MemStorage::new();
    let log = open(&roomy(), &device).unwrap();
    append(&log, 1, 1..=2_000);
    let set: Vec<_> = (2_001..=2_010).map(|number| payload(number, 1, 100)).collect();
    log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    append(&log, 1, 2_011..=3_000);
    let (file, at) = place_of(&device, &payload(2_005, 1, 100)).unwrap();
    let reader = reader(device.clone());
    device.edit(&file, |bytes| bytes[at + 3] ^= 4);
    for round in 0..3 {
        for number in (1_990..=2_020).rev().chain(shuffled(3_000).into_iter().take(100)) {
            let expected = match number {
                2_005 => None,
                2_001..=2_010 => set.get(usize::try_from(number - 2_001).unwrap()).cloned(),
                _ => appended(number, 1),
            };
            for got in [log.get(lsn(number)), reader.get(lsn(number))] {
                match got {
                    Ok(got) => assert_eq!(got, expected, "round {round}, record {number}"),
                    Err(Error::Damaged { damage, .. }) => {
                        assert!(number == 2_005 && names(&damage.lost.unwrap(), number));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}

#[test]
fn get_never_misses_a_durable_record() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, 1, 1..=40);
    let segments: Vec<_> =
        device.names().into_iter().filter(|name| name.contains(".seg")).collect();
    let [.., sealed, newest] = segments.as_slice() else { panic!("segments") };
    // Neither the newest file nor the seal that names it is left. `live` says how far the log went.
    let left = device.kill();
    left.remove_raw(newest);
    left.edit(sealed, |bytes| bytes[3 * 512..4 * 512].fill(0));
    let reader = reader(left);
    let is_lost = |number: &u64| match reader.get(lsn(*number)) {
        Err(Error::Damaged { damage, .. }) => names(&damage.lost.unwrap(), *number),
        got => {
            assert_eq!(got.unwrap(), appended(*number, 1), "record {number}");
            false
        }
    };
    let lost: Vec<_> = (1..=40).filter(is_lost).collect();
    assert!((1..15).contains(&lost.len()) && lost.ends_with(&[40]), "{lost:?}");
    // `live` may be out of date, so later records may be lost, too.
    assert!(is_lost(&41));
}

#[test]
fn record_near_the_last_lookup_costs_one_short_read() {
    const NEAR: u64 = (64 << 10) + (64 << 10);
    let (counted, counts) = Counted::new(MemStorage::new());
    let log: Bytes = roomy().open_in(Arc::new(counted.clone())).unwrap();
    append(&log, 1, 1..=9_000);
    let reader = reader(counted);
    let mut worst = [Reads::default(); 2];
    // Every part of each segment is scanned once.
    for number in (1..=9_000).rev() {
        log.get(lsn(number)).unwrap();
        reader.get(lsn(number)).unwrap();
    }
    counts.take();
    for number in shuffled(9_000) {
        assert_eq!(log.get(lsn(number)).unwrap(), appended(number, 1));
        let here = counts.take();
        assert_eq!(reader.get(lsn(number)).unwrap(), appended(number, 1));
        for (worst, reads) in worst.iter_mut().zip([here, counts.take()]) {
            worst.bytes = worst.bytes.max(reads.bytes);
            worst.opens = worst.opens.max(reads.opens);
            worst.lists += reads.lists;
        }
    }
    let [here, elsewhere] = worst;
    assert!(here.bytes <= NEAR && elsewhere.bytes <= NEAR + 64, "{worst:?}");
    assert_eq!((here.opens, here.lists), (1, 0));
    // The segment, and `live`.
    assert_eq!((elsewhere.opens, elsewhere.lists), (2, 0));
}

#[test]
fn newest_record_costs_one_short_read_as_the_log_grows() {
    let (counted, counts) = Counted::new(MemStorage::new());
    let log: Bytes = roomy().open_in(Arc::new(counted)).unwrap();
    let (mut lists, mut most) = (0, 0);
    for number in 1..=9_000 {
        append(&log, 1, [number]);
        counts.take();
        assert_eq!(log.get(lsn(number)).unwrap(), appended(number, 1));
        let reads = counts.take();
        if reads.lists == 0 {
            most = most.max(reads.bytes);
        }
        lists += reads.lists;
    }
    let rolls = log.stats().rolls;
    assert!(lists <= rolls + 1, "{lists} looks at the directory, {rolls} rolls");
    assert!(most <= 128 << 10, "{most} bytes");
}

#[test]
fn get_refuses_records_of_another_type_by_name() {
    let device = MemStorage::new();
    let log: Log<String> = tiny(1).open_in(Arc::new(device.clone())).unwrap();
    log.append(&"text".to_owned()).unwrap();
    let reader: LogReader<u64> = LogReader::open_in(Arc::new(device)).unwrap();
    let got = reader.get(Lsn::FIRST);
    assert!(matches!(got, Err(Error::Decode { lsn, .. }) if lsn == Lsn::FIRST), "{got:?}");
    assert_eq!(log.get(Lsn::FIRST).unwrap().as_deref(), Some("text"));
}
