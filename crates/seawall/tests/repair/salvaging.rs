//! Salvage: writes the intact records to a new log, and reports the others.

use super::ways_out::{are_as_written, try_all};
use super::*;

#[test]
fn interrupted_salvage_never_leaves_a_seemingly_whole_log() {
    let (image, damaged) = with_a_hole();
    let (whole, rescued) = rescue(&damaged).unwrap();
    let steps = whole.steps();
    for stop in 0..=steps {
        let target = MemStorage::new();
        target.stop_after(stop);
        let done = common::maintenance(&storage(&damaged)).salvage_to(storage(&target));
        assert_eq!(done.is_ok(), stop == steps, "step {stop}");
        for left in [target.power_cut(|_| false), target.power_cut(|_| true), target.kill()] {
            let Ok(found) = judge(&left) else { continue };
            let empty = found.records == 0 && found.damage.is_empty();
            let whole = found.records == rescued.records;
            assert!(empty || whole || found.verdict == Verdict::Lost, "step {stop}: {found:#?}");
            if whole {
                are_as_written(&image, &read(&left, true).unwrap(), &|| format!("step {stop}"));
            }
        }
    }
}

/// Without the manifest and the first segment, the beginning of the log is unknown. The salvage
/// reports those records and does not reuse their LSNs.
#[test]
fn salvage_names_the_records_lost_with_the_manifest() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    damaged.remove_raw("manifest");
    damaged.remove_raw("000000000001.seg");
    let (target, rescued) = rescue(&damaged).unwrap();
    let first = rescued.first.unwrap();
    let given_up: Vec<_> = rescued.given_up.iter().map(ToString::to_string).collect();
    assert_eq!(given_up, [format!("records 1 to {}", first.get() - 1)]);
    assert_eq!(judge(&target).unwrap().given_up, rescued.given_up);
    assert!(rescued.damage.iter().any(|damage| damage.cause == Corruption::Manifest));
}

#[test]
fn partial_atomic_set_is_given_up_as_a_whole() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    // Records 2 to 4 are a set; the last of them is damaged.
    let (_, batches) = batches(&damaged, "000000000001.seg");
    let record_4 = batches[1].1 - 8;
    damaged.edit("000000000001.seg", |bytes| bytes[record_4] ^= 1);
    let (target, rescued) = rescue(&damaged).unwrap();
    assert_eq!(rescued.broken_sets, 2);
    let given_up: Vec<_> = rescued.given_up.iter().map(ToString::to_string).collect();
    assert_eq!(given_up, ["records 2 to 4"]);
    let kept = read(&target, false).unwrap();
    assert!(kept.records.keys().copied().eq([1].into_iter().chain(5..=13)));
}

/// The image: a salvaged log whose records 2 to 4 are void batches, first beside its writer, then
/// after a reboot.
#[test]
fn record_given_up_is_not_found_but_its_neighbours_are() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    let (_, batches) = batches(&damaged, "000000000001.seg");
    let record_4 = batches[1].1 - 8;
    damaged.edit("000000000001.seg", |bytes| bytes[record_4] ^= 1);
    let target = rescue(&damaged).unwrap().0;
    let log = open(&of_any_size(3), &target).unwrap();
    let here = |lsn| log.get(lsn);
    let reader = LogReader::<[u8], Raw>::open_in(storage(&target)).unwrap();
    let elsewhere = |lsn| reader.get(lsn);
    let rebooted = LogReader::<[u8], Raw>::open_in(storage(&target.power_cut(|_| true))).unwrap();
    let later = |lsn| rebooted.get(lsn);
    let ways: [&dyn Fn(Lsn) -> seawall::Result<Option<Vec<u8>>>; 3] = [&here, &elsewhere, &later];
    for (way, get) in ways.into_iter().enumerate() {
        for number in 1..=13 {
            let found = get(lsn(number));
            if !(2..=4).contains(&number) {
                assert!(matches!(found, Ok(Some(_))), "way {way}, {number}: {found:?}");
                continue;
            }
            let Err(Error::Damaged { damage, .. }) = found else { panic!("way {way}: {found:?}") };
            assert_eq!(damage.cause, Corruption::GivenUp, "way {way}: {damage}");
            let lost = damage.lost.unwrap();
            let named = lost.from.get()..=lost.to.unwrap().get();
            assert!(named.contains(&number) && (2..=4).contains(named.end()), "{damage}");
        }
        assert!(matches!(get(lsn(14)), Ok(None)), "way {way}");
    }
}

/// The image: a part of a text was shifted, so that bytes between the lines of a set are no line,
/// and the last line of the set is damaged.
#[test]
fn set_of_lines_with_damage_inside_is_not_carried_in_part() {
    let image = write_in(End::Closed, Layout::Text);
    let damaged = image.device.kill();
    // Records 2 to 4 are a set.
    damaged.edit("000000000001.jsonl", |bytes| {
        let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let at = lines.iter().position(|line| line.starts_with(b"{\"lsn\":3,")).unwrap();
        lines.insert(at, b"{\"lsn\":\n");
        let mut changed = lines.concat();
        let four = changed.windows(9).position(|part| part == b"{\"lsn\":4,").unwrap();
        changed[four + 30] ^= 1;
        *bytes = changed;
    });
    let found = judge(&damaged).unwrap();
    assert_eq!(found.verdict, Verdict::Lost);
    let (target, rescued) = rescue(&damaged).unwrap();
    let after = judge(&target).unwrap();
    assert_eq!((after.verdict, after.records), (Verdict::Clean, rescued.records), "{after:#?}");
    // The intact records of the set are given up with the others.
    let carried = read(&target, false).unwrap().records;
    assert!(rescued.broken_sets > 0, "{rescued:#?}");
    assert!(carried.iter().all(|(lsn, _)| !(2..=4).contains(lsn)), "{rescued:#?}");
    try_all(&image, &damaged, &|| "damage in the midst of a set of lines".to_owned());
}

/// Found by simulation. The image: a truncation left one record of a set of three, and the batch is
/// damaged after that record.
#[test]
fn set_shortened_by_a_truncation_is_salvaged_from_a_damaged_batch() {
    for layout in layouts() {
        let device = MemStorage::new();
        let log = open(&laid_out(tiny(1), layout), &device).unwrap();
        let set: Vec<_> = (1..=3).map(|number| payload_in(layout, (number, 1), 50)).collect();
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
        log.truncate_after(Lsn::new(1)).unwrap();
        log.append(&payload_in(layout, (2, 2), 50)).unwrap();
        log.close().unwrap();
        let name = if layout == Layout::Text { "000000000001.jsonl" } else { "000000000001.seg" };
        let damaged = device.power_cut(|_| false);
        damaged.edit(name, |bytes| {
            let last = bytes.windows(set[2].len()).position(|part| part == set[2]).unwrap();
            bytes[last + 20] ^= 1;
        });
        let before = read(&damaged, true).unwrap();
        let (target, rescued) = rescue(&damaged).unwrap();
        let after = judge(&target).unwrap();
        assert_eq!((after.verdict, rescued.records), (Verdict::Clean, 2), "{after:#?}");
        assert_eq!(read(&target, false).unwrap().records, before.records);
        common::maintenance(&storage(&damaged)).truncate_damaged_tail().unwrap();
        assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Clean);
        assert_eq!(read(&damaged, false).unwrap().count(), 1);
    }
}

/// The image: an old log lost its oldest segment, and with it more records than 32 bits can count;
/// the newest segment holds none yet. Or the LSN is forged, and no log reaches it.
#[test]
fn more_than_32_bits_of_records_can_be_given_up() {
    for (lost, is_rescued) in [(10_000_000_000, true), (1 << 62, false)] {
        let device = MemStorage::new();
        open(&tiny(1), &device).unwrap().close().unwrap();
        let (first, second) = ("000000000001.seg", "000000000002.seg");
        device.copy_raw(first, second);
        device.edit(second, |bytes| {
            let header = SegmentHeader::decode(bytes).unwrap();
            let header = SegmentHeader {
                id: header.id.next().unwrap(),
                pred: Some(header.reference()),
                base: Lsn::new(lost + 1).unwrap(),
                carried: Lsn::new(lost),
                ..header
            };
            bytes[..HEADER_SIZE].copy_from_slice(&header.encode());
        });
        device.remove_raw(first);
        match rescue(&device.power_cut(|_| false)) {
            Ok((target, rescued)) => {
                assert_eq!(rescued.given_up[0].to_string(), format!("records 1 to {lost}"));
                assert_eq!(judge(&target).unwrap().verdict, Verdict::Clean);
                assert!(is_rescued);
            }
            Err(Error::Damaged { .. }) => assert!(!is_rescued),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn misplaced_bytes_are_named_with_the_place_they_belong_to() {
    let image = write(End::Closed);
    let (_, first) = batches(&image.device, "000000000001.seg");
    let (_, second) = batches(&image.device, "000000000002.seg");
    let cause = |damaged: &MemStorage| {
        let found = judge(damaged).unwrap();
        let damage = found.damage.into_iter().find(|damage| damage.lost.is_some()).unwrap();
        (damage.cause, damage.origin.map(|origin| (origin.segment.get(), origin.offset.0)))
    };
    let bytes = |file: &str, batch: (usize, usize, u64)| {
        image.device.bytes(file).unwrap()[batch.0..batch.1].to_vec()
    };
    let put = |at: usize, what: &[u8]| {
        let damaged = image.device.kill();
        damaged.edit("000000000001.seg", |bytes| bytes[at..at + what.len()].copy_from_slice(what));
        damaged
    };
    let own = bytes("000000000001.seg", first[0]);
    let place = first[0].0 as u64;
    let copied = put(first[1].0, &own);
    assert_eq!(cause(&copied), (Corruption::Duplicated, Some((1, place))));
    copied.edit("000000000001.seg", |bytes| bytes[first[0].0..first[0].0 + 48].fill(0xEE));
    let moved = judge(&copied).unwrap().damage;
    assert!(moved.iter().any(|damage| damage.cause == Corruption::Misplaced), "{moved:#?}");
    let foreign = bytes("000000000002.seg", second[1]);
    let from = second[1].0 as u64;
    assert_eq!(cause(&put(first[1].0, &foreign)), (Corruption::ForeignEpoch, Some((2, from))));
    let device = image.device.kill();
    device.copy_raw("000000000001.seg", NEWEST);
    assert_eq!(cause(&device).0, Corruption::Duplicated);
    let renamed = image.device.kill();
    renamed.copy_raw("000000000001.seg", "000000000002.seg");
    renamed.remove_raw("000000000001.seg");
    let causes: Vec<_> = judge(&renamed).unwrap().damage.iter().map(|found| found.cause).collect();
    assert!(causes.contains(&Corruption::Misplaced), "{causes:?}");
}

/// A partial log inside its own source would get in the way of both.
#[test]
fn salvage_and_backup_into_their_source_log_are_refused() {
    let folder = Scratch::new("inside");
    let log: Bytes = Options::new().open(&folder.path).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    let inside = folder.path.join("new");
    assert!(matches!(
        Maintenance::at(&folder.path).salvage(&inside),
        Err(Error::InvalidOption { .. })
    ));
    assert!(matches!(
        Maintenance::at(&folder.path).back_up(&inside),
        Err(Error::InvalidOption { .. })
    ));
    assert!(!inside.exists());
}

/// The writer could no longer write `live`, continued, and was killed.
#[test]
fn salvage_continues_past_a_stale_live_file() {
    let image = write(End::Killed);
    let damaged = image.device.kill();
    let first = damaged.bytes("000000000001.seg").unwrap();
    let first = SegmentHeader::decode(&first).unwrap();
    let live = Live::decode(&damaged.bytes("live").unwrap()).unwrap();
    let stale = Live { segment: first.reference(), durable: Lsn::new(4), ..live };
    damaged.edit("live", |bytes| bytes.copy_from_slice(&stale.encode()));
    let (_, rescued) = rescue(&damaged).unwrap();
    assert_eq!((rescued.records, rescued.damage.len()), (image.records.len() as u64, 0));
}

/// The ids of the records that can be read, by the cursor and by the lookup.
fn ids(device: &MemStorage) -> Vec<RecordId> {
    let reader = LogReader::<[u8], Raw>::open_any_in(storage(device)).unwrap().skip_damaged(true);
    let (mut cursor, mut ids) = (reader.cursor(Lsn::FIRST).unwrap(), vec![]);
    loop {
        match cursor.next_record() {
            Ok(Some(record)) => {
                let id = RecordId::of(&record, Layout::Binary);
                assert_eq!(reader.record_id(record.lsn).unwrap(), Some(id));
                ids.push(id);
            }
            Ok(None) => return ids,
            Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error:#}"),
        }
    }
}

#[test]
fn record_keeps_its_id_if_a_neighbour_in_its_batch_is_damaged() {
    let (device, file) = (MemStorage::new(), "000000000001.seg");
    let log = open(&tiny(123_456).level(Level::Buffered), &device).unwrap();
    for number in 1..=4 {
        log.append(&payload(number, 0, 50)).unwrap();
    }
    log.close().unwrap();
    let mut before = ids(&device);
    assert_eq!((batches(&device, file).1.len(), before.len()), (1, 4), "one batch");
    assert_eq!(before[0].time_us, 123_456);
    before.pop();
    let damaged = device.kill();
    let record_4 = batches(&device, file).1[0].1 - 20;
    damaged.edit(file, |bytes| bytes[record_4] ^= 1);
    assert_eq!(ids(&damaged), before, "damaged");
    assert_eq!(ids(&rescue(&damaged).unwrap().0), before, "salvaged");
    let continued = damaged.kill();
    drop(open(&again(2).mode(OpenMode::Salvage), &continued).unwrap());
    assert_eq!(ids(&continued), before, "continued");
    common::maintenance(&storage(&damaged)).truncate_damaged_tail().unwrap();
    assert_eq!(ids(&damaged), before, "truncated");
}
