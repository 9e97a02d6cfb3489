//! Losses in several segments at once, some of them without the seal that names the next one.

use super::lost::ending_with;
use super::*;
use seawall::Level;
use seawall_format::{HEADER_SIZE, Seal, SegmentHeader};

/// Found by simulation. The image: a failed write left no seal, and the header of the next segment
/// is lost. Before it, a segment that was named ahead has lost its first batch, and with it its
/// place in the log. Restored without that header, it would hide the segments before it.
#[test]
pub(crate) fn first_batch_is_restored_together_with_the_header_after_it() {
    let (sound, records) = sample(Layout::Binary);
    let files = data_files(&sound);
    for three in files.windows(3) {
        let device = sound.kill();
        spoil_in_a_row(&device, three);
        assert_whole(&device, Layout::Binary, &records, &three[1].0);
    }
}

/// Spoils records of the first segment, seal and first batch of the second, and the header of the
/// third.
fn spoil_in_a_row(device: &MemStorage, three: &[(String, usize)]) {
    let [(before, from), (here, _), (next, _)] = three else { unreachable!("three of them") };
    spoil(device, before, from + BLOCK..from + 2 * BLOCK, "garbage");
    spoil(device, here, 3 * BLOCK..4 * BLOCK, "zeros");
    spoil(device, here, *from..from + BLOCK, "garbage");
    spoil(device, next, 0..BLOCK, "garbage");
}

/// The same damage in a log with so much other damage that no block of it is tried alone.
#[test]
fn first_batch_is_restored_beside_much_other_damage() {
    let (device, records) = sample_of(1_500, Layout::Binary);
    let files = data_files(&device);
    let middle = files.len() / 2;
    // Damage nearby would use the parity of these segments too.
    let far = files.iter().enumerate().filter(|(at, _)| at.abs_diff(middle) > 4);
    assert!(far.clone().count() > 64, "{}", files.len());
    for (_, (name, from)) in far {
        spoil(&device, name, *from..from + BLOCK, "garbage");
    }
    spoil_in_a_row(&device, &files[middle - 1..=middle + 1]);
    assert_whole(&device, Layout::Binary, &records, &files[middle].0);
}

/// The logs that a crash can leave while an open replaces the newest segment: that segment and its
/// successor both exist, and the seal before them names the successor. Each log comes with the
/// names of the three files.
fn with_a_replaced_segment() -> Vec<(MemStorage, [String; 3])> {
    let mut found = vec![];
    for count in 20..60 {
        let device = MemStorage::new();
        let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
        append(&log, Layout::Binary, 1..=count);
        log.append(&payload_in(Layout::Binary, (count + 1, 1), 700)).unwrap();
        let left = device.kill();
        for stop in 0.. {
            let device = left.kill();
            device.stop_after(stop);
            let is_opened = open(&again(2).level(Level::Confirmed), &device).is_ok();
            let device = device.kill();
            let files = data_files_of(&device).into_iter().map(|(name, _)| name);
            let files: Vec<_> = files.collect();
            if let [.., before, replaced, newest] = &files[..]
                && next_id(&device, before) == SegmentId::from_file_name(newest)
            {
                let names = [before, replaced, newest].map(String::clone);
                found.push((device, names));
            }
            if is_opened {
                break;
            }
        }
    }
    found
}

/// The segment that this segment's seal names.
fn next_id(device: &MemStorage, name: &str) -> Option<SegmentId> {
    let bytes = device.bytes(name).unwrap();
    let header = SegmentHeader::decode(&bytes[..HEADER_SIZE]).ok()?;
    Some(Seal::decode(&bytes[3 * BLOCK..], &header)?.next.id)
}

/// Found by simulation. The image: the newest segment and its replacement both exist. Two headers
/// are lost: that of the segment whose seal names the replacement, and that of the replacement,
/// perhaps with its first batch. Restoring either alone hides the replaced segment.
#[test]
fn seal_is_restored_together_with_the_lost_header_that_it_names() {
    let logs = with_a_replaced_segment();
    assert!(logs.len() > 10, "{}", logs.len());
    let mut with_batch = 0;
    for (number, (device, [before, replaced, newest])) in logs.into_iter().enumerate() {
        let made = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap();
        assert!(made.open.is_empty(), "{number}: {made:?}");
        let records = read(&device, false).unwrap().records;
        spoil(&device, &before, 0..BLOCK, "garbage");
        spoil(&device, &newest, 0..BLOCK, "garbage");
        let what = format!("{number}: {before}, {replaced} replaced by {newest}");
        assert_whole(&device, Layout::Binary, &records, &what);
        // One block of a segment must remain to show which segment the parity belongs to.
        let second = &device.bytes(&newest).unwrap()[6 * BLOCK..7 * BLOCK];
        if made.unsure == 0 && second.iter().any(|byte| *byte != 0) {
            spoil(&device, &newest, 5 * BLOCK..6 * BLOCK, "garbage");
            assert_whole(&device, Layout::Binary, &records, &format!("{what}, and its batch lost"));
            with_batch += 1;
        }
    }
    assert!(with_batch > 5, "{with_batch}");
}

/// Checks that every record shown without parity is also shown with it, and that every record shown
/// is correct. Returns whether parity restored a record.
fn hides_nothing(device: &MemStorage, records: &BTreeMap<u64, Vec<u8>>, what: &str) -> bool {
    let without = device.kill();
    for name in sides(&without) {
        without.remove_raw(&name);
    }
    let (with, without) = (read(device, true).unwrap(), read(&without, true).unwrap());
    let hidden = without.records.keys().find(|lsn| !with.records.contains_key(lsn));
    assert_eq!(hidden, None, "{what}: {:?}, not {:?}", with.lost, without.lost);
    let is_right = |(lsn, payload): (&u64, &Vec<u8>)| records.get(lsn) == Some(payload);
    assert!(with.records.iter().all(is_right), "{what}");
    with.count() > without.count()
}

/// The image: two headers are lost, that of the newest segment and that of another segment, which
/// has no parity and is named by no seal. If the newest segment were restored, nothing before the
/// other one would be shown.
#[test]
fn newest_segment_is_not_restored_if_it_hides_older_ones() {
    let (sound, records) = sample(Layout::Binary);
    let files = data_files(&sound);
    let (newest, _) = files.last().unwrap();
    for two in files[..files.len() - 1].windows(2) {
        let [(before, _), (lost, _)] = two else { unreachable!("two of them") };
        let device = sound.kill();
        spoil(&device, before, 3 * BLOCK..4 * BLOCK, "zeros");
        spoil(&device, lost, 0..BLOCK, "garbage");
        device.remove_raw(&lost.replace("seg", "parity"));
        spoil(&device, newest, 0..BLOCK, "garbage");
        hides_nothing(&device, &records, lost);
    }
}

/// Random blocks are lost, of parity files too.
#[test]
fn parity_hides_no_record_that_is_read_without_it() {
    let (sound, records) = sample(Layout::Binary);
    let (seed, turns) = (seed(), if is_long() { 20_000 } else { 200 });
    println!("SEAWALL_SEED={seed} chooses the same losses");
    let mut random = Random::new(seed);
    let mut restored = 0;
    for turn in 0..turns {
        let device = sound.kill();
        for (name, from) in data_files(&sound) {
            let blocks = u64::try_from(device.bytes(&name).unwrap().len() / BLOCK).unwrap();
            let any = usize::try_from(random.below(blocks)).unwrap() * BLOCK;
            for start in [0, 3 * BLOCK, from, any] {
                if random.below(4) == 0 {
                    let how = if start == 3 * BLOCK { "zeros" } else { "garbage" };
                    spoil(&device, &name, start..start + BLOCK, how);
                }
            }
            if random.below(4) == 0 {
                device.remove_raw(&name.replace("seg", "parity"));
            }
        }
        let what = format!("turn {turn}");
        restored += usize::from(hides_nothing(&device, &records, &what));
    }
    assert!(restored > turns / 4, "{restored} of {turns} in which parity restored a record");
}

/// The image: no segment has a seal, and each has lost no more than parity can restore.
#[test]
fn losses_of_several_segments_without_seals_are_rebuilt() {
    let (sound, records) = sample(Layout::Binary);
    let (seed, turns) = (seed(), if is_long() { 2_000 } else { 40 });
    println!("SEAWALL_SEED={seed} chooses the same losses");
    let mut random = Random::new(seed);
    for turn in 0..turns {
        let device = sound.kill();
        for (name, from) in data_files(&sound) {
            spoil(&device, &name, 3 * BLOCK..4 * BLOCK, "zeros");
            if random.below(3) == 0 {
                spoil(&device, &name, 0..BLOCK, "garbage");
            }
            let bytes = sound.bytes(&name).unwrap();
            let length = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            for stripe in (from..length).step_by(DATA * BLOCK) {
                // One block of the first stripe must remain to show which segment the parity
                // belongs to.
                let first = if random.below(2) == 0 { stripe } else { stripe + BLOCK };
                for start in [first, stripe + 2 * BLOCK] {
                    if start < length && random.below(3) > 0 {
                        spoil(&device, &name, start..start + BLOCK, "garbage");
                    }
                }
            }
        }
        let found = judge(&device).unwrap();
        assert!(found.verdict <= Verdict::Correctable, "turn {turn}: {found:?}");
        let found = read(&device, false).unwrap();
        assert_eq!((&found.records, found.errors), (&records, 0), "turn {turn}");
        let reader = LogReader::open_any_in(shared(&device)).unwrap();
        for (number, payload) in records.iter().step_by(7) {
            assert_eq!(reader.get(lsn(*number)).unwrap().as_ref(), Some(payload), "turn {turn}");
        }
        let log = open(&again(2), &device).unwrap_or_else(|e| panic!("turn {turn}: {e}"));
        let own = Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap();
        assert_eq!(own.records, records, "turn {turn}");
    }
}

/// The parity of the newest segment describes a different last record than the segment has. Its
/// block is not used, but the other segments are still restored.
#[test]
fn one_harmful_block_keeps_no_other_segment_from_being_rebuilt() {
    let mut tried = 0;
    for count in 30..50 {
        let ((sound, records), (other, _)) = (ending_with(1, count), ending_with(2, count));
        let files = data_files(&sound);
        let [.., (before, from), (here, _), (next, _), (newest, _)] = &files[..] else { continue };
        let parity = newest.replace("seg", "parity");
        let known = other.bytes(&parity).unwrap();
        sound.edit(&parity, |there| *there = known);
        spoil(&sound, before, from + BLOCK..from + 2 * BLOCK, "garbage");
        spoil(&sound, here, 3 * BLOCK..4 * BLOCK, "zeros");
        spoil(&sound, here, *from..from + BLOCK, "garbage");
        spoil(&sound, next, 0..BLOCK, "garbage");
        assert_whole(&sound, Layout::Binary, &records, &format!("{count} records"));
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}

/// The image: a truncation could neither remove the truncated segments nor name its own segment in
/// a seal. The header of that segment is lost, and a block of a segment that no longer counts.
#[test]
fn truncated_records_do_not_come_back_with_a_lost_block_of_theirs() {
    let (device, mut records) = sample(Layout::Binary);
    let left = device.kill();
    let log = open(&again(1), &device).unwrap();
    log.truncate_after(Some(Lsn::FIRST)).unwrap();
    append(&log, Layout::Binary, 2..=2);
    log.close().unwrap();
    records.retain(|number, _| *number <= 2);
    let (newest, _) = data_files_of(&device).pop().unwrap();
    let there = device.names();
    for name in left.names().iter().filter(|name| !there.contains(name)) {
        device.create(name).unwrap().write_at(&left.bytes(name).unwrap(), 0).unwrap();
    }
    let (oldest, from) = data_files(&device).remove(0);
    spoil(&device, &oldest, 3 * BLOCK..4 * BLOCK, "zeros");
    assert_whole(&device.kill(), Layout::Binary, &records, "without a seal");
    spoil(&device, &newest, 0..BLOCK, "garbage");
    for (name, _) in data_files(&device).into_iter().filter(|(name, _)| *name < newest) {
        for start in [from, from + BLOCK] {
            let harmed = device.kill();
            spoil(&harmed, &name, start..start + BLOCK, "garbage");
            assert_whole(&harmed, Layout::Binary, &records, &format!("{name} {start}"));
        }
    }
}
