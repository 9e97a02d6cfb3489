//! Losses within the strength of parity are restored; losses beyond it are reported.

use super::*;

#[test]
pub(crate) fn every_single_lost_block_is_rebuilt() {
    for layout in layouts() {
        let (sound, records) = sample(layout);
        let mut blocks = Sample::one_in(3);
        for (name, _) in data_files(&sound) {
            let length = sound.bytes(&name).unwrap().len();
            for start in (0..length).step_by(BLOCK).filter(|_| blocks.takes_next()) {
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
        // The heads of texts are files of their own.
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
pub(crate) fn two_lost_or_unreadable_blocks_per_stripe_are_rebuilt() {
    for layout in layouts() {
        let (sound, records) = sample(layout);
        let (seed, turns) = (seed(), if is_long() { 60 } else { 20 });
        println!("SEAWALL_SEED={seed} chooses the same blocks");
        let mut random = Random::new(seed);
        for turn in 0..turns {
            let device = sound.kill();
            for (name, from) in data_files(&sound) {
                // The space after the records has no parity.
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
pub(crate) fn damage_beyond_parity_is_named_and_no_wrong_record_delivered() {
    for layout in layouts() {
        let (sound, records) = sample(layout);
        let (name, from) = data_files(&sound)[1].clone();
        let device = sound.kill();
        spoil(&device, &name, from..from + 3 * BLOCK, "garbage");
        let judged = judge(&device).unwrap();
        assert_eq!(judged.verdict, Verdict::Lost);
        let found = read(&device, true).unwrap();
        assert!(found.records.len() < records.len());
        for (number, payload) in &records {
            let lost = found.lost.iter().any(|lost| common::names(lost, *number));
            assert!(lost || found.records.get(number) == Some(payload), "record {number}");
        }
    }
}

#[test]
fn damaged_parity_loses_no_record_and_yields_no_wrong_one() {
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
            // With damage to the log itself as well, every delivered record is still correct.
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
fn strict_open_refuses_damage_that_the_default_open_tolerates() {
    let (sound, records) = sample(Layout::Binary);
    let (name, from) = data_files(&sound).pop().unwrap();
    spoil(&sound, &name, from + 300..from + 310, "garbage");
    let strict = open(&again(5).mode(OpenMode::Strict), &sound);
    assert!(matches!(strict, Err(Error::Damaged { .. })), "{strict:?}");
    let log = open(&again(6), &sound).unwrap();
    assert_eq!(log.recovery().mended.len(), 1);
    assert!(log.recovery().warnings[0].contains("repair"), "{:?}", log.recovery().warnings);
    assert_eq!(log.get(lsn(60)).unwrap().as_ref(), records.get(&60));
    let damaged = sound.bytes(&name).unwrap();
    append(&log, Layout::Binary, 61..=62);
    log.close().unwrap();
    let after = sound.bytes(&name).unwrap();
    assert_eq!(after[from..from + 512], damaged[from..from + 512], "nothing is written over it");
    let mut cursor = common::reader(shared(&sound)).unwrap().cursor(Lsn::FIRST).unwrap();
    while cursor.next_record().unwrap().is_some() {}
    assert_eq!(cursor.mended().len(), 1);
}

/// The image: after a crash, the whole newest segment is zeros or garbage, its header included. If
/// only the header came back from parity, it would look like a sound, empty segment.
#[test]
fn lost_segment_is_not_rebuilt_as_an_empty_one() {
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

/// The image: a sync failed, so its record is in two segments, and the seal between them is lost.
/// The header of the newer segment is damaged, and a record of the older one. With both repaired,
/// the rewritten record is shown in the newer segment only.
#[test]
fn header_of_a_segment_with_rewritten_records_is_rebuilt() {
    for (layout, count) in LAYOUTS.into_iter().flat_map(|of| [2, 7, 8, 9].map(|count| (of, count)))
    {
        let device = MemStorage::new();
        let log = open(&with_parity(1, layout), &device).unwrap();
        append(&log, layout, 1..=count);
        device.fail_sync(0, |_| true);
        append(&log, layout, count + 1..=count + 2);
        assert_eq!(log.stats().failovers, 1, "{layout:?}");
        log.close().unwrap();
        let records = read(&device, false).unwrap().records;
        let is_head = |name: &String| matches!(name.rsplit_once('.'), Some((_, "seg" | "head")));
        let heads: Vec<_> = device.names().into_iter().filter(is_head).collect();
        let [.., older, newer] = &heads[..] else { panic!("{layout:?}: {heads:?}") };
        let what = format!("{layout:?}, {count} records before");
        spoil(&device, older, 3 * BLOCK..4 * BLOCK, "zeros");
        assert_whole(&device, layout, &records, &format!("{what}, no seal"));
        spoil(&device, newer, 0..BLOCK, "garbage");
        let [files @ .., _] = &data_files_of(&device)[..] else { panic!("{heads:?}") };
        for (data, start) in files {
            spoil(&device, data, start + 60..start + 70, "garbage");
        }
        assert_whole(&device, layout, &records, &what);
    }
}

/// A closed log of `count` records of one size, and its records. The last record is of `kind`.
pub(crate) fn ending_with(kind: u64, count: u64) -> (MemStorage, BTreeMap<u64, Vec<u8>>) {
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

/// The image: parity built while the last record was damaged, beside the undamaged log.
#[test]
fn contradicting_parity_removes_no_record() {
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
        // Only one block differs, so the slot is trusted about a lost block.
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
