//! The end of a log: what parity knows about it, and blocks that cannot be read.

use super::*;

/// Returns the log as a power cut leaves it, seen after a reboot: everything that was synced.
fn after_a_power_cut(layout: Layout, numbers: std::ops::RangeInclusive<u64>) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, numbers);
    let left = device.power_cut(|_| true);
    drop(log);
    left
}

#[test]
fn unreadable_blocks_are_rebuilt_for_every_reader() {
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
fn unreadable_block_of_zeros_is_rebuilt() {
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

/// Parity knows the block at the end of the records only as of its last update.
#[test]
fn unreadable_block_without_parity_is_not_damage() {
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
            let reader = common::reader(shared(&sound)).unwrap();
            let mut cursor = reader.read_from(Lsn::FIRST).unwrap();
            assert_eq!(cursor.next().unwrap().unwrap().0, lsn(1));
            if gives_it_then {
                sound.fail_read(&name, 0..0);
            }
            assert_eq!(cursor.next().unwrap().unwrap().0, lsn(2));
            match cursor.next() {
                Some(Ok((found, _))) if gives_it_then => assert_eq!(found, lsn(3)),
                Some(Err(Error::Damaged { damage, .. })) if !gives_it_then => {
                    assert_eq!(damage.cause, Corruption::Unreadable, "{layout:?}");
                }
                other => panic!("{layout:?} {gives_it_then}: {other:?}"),
            }
        }
        log.close().unwrap();
    }
}

/// The image: records that only a parity slot confirms have become zeros.
#[test]
fn log_does_not_end_before_records_known_to_parity() {
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
                    assert!(matches!(log, Err(Error::Damaged { .. })), "{count}");
                    continue;
                }
                // A record that ends after the stripe is lost, and known to have existed.
                assert!(judged.verdict >= Verdict::Correctable, "{count}: {judged:?}");
                assert!(read(&device, false).unwrap().records.len() + 12 >= records.len());
                let Ok(log) = log else { continue };
                // The content of the block after the stripe is gone, and was never confirmed.
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

/// A text lost its last records together with the line break before them. The line before them then
/// looks edited, and an edited text may end early.
#[test]
fn text_without_its_last_line_break_does_not_count_as_edited() {
    // Lines that end one byte into the third block of the stripe, at the end of that block, and at
    // or after the end of the stripe.
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
            assert!(matches!(strict, Err(Error::Ambiguous { .. })), "{damage} {more}: {strict:?}");
            assert_whole(&device, Layout::Text, &records, &format!("{damage} {more}"));
        }
    }
}

/// The image: a block is lost, and parity knows only its beginning.
#[test]
fn end_in_a_lost_block_is_ambiguous() {
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
    assert_eq!(log.recovery().tail, seawall::recovery::TailState::Ambiguous);
    let found = judge(&device).unwrap();
    assert_eq!((found.verdict, found.records), (Verdict::Correctable, 60));
    assert_eq!(found.tail, seawall::recovery::TailState::Ambiguous, "as the open says");
}

/// The image: after a power cut the header of the last batch is damaged, or the last line of an
/// atomic set. Only parity shows how many records there were, and the first one is intact, so no
/// record is named as lost.
#[test]
fn get_returns_every_record_of_a_last_batch_whose_size_only_parity_shows() {
    for layout in LAYOUTS {
        let running = MemStorage::new();
        let options = laid_out(tiny(1), layout).geometry(common::GEOMETRY, 10 * 512);
        let log = open(&options.parity("2+1".parse().ok()), &running).unwrap();
        let records: Vec<_> = (1..=4).map(|lsn| payload_in(layout, (lsn, 1), 230)).collect();
        log.append(&records[0]).unwrap();
        log.append_batch(records[1..].iter().map(Vec::as_slice)).unwrap();
        // Without `live`, nothing else confirms the last batch.
        let device = running.power_cut(|item| item.file != "live");
        drop(log);
        let (name, from) = data_file(&device);
        let (_, batches) = batches(&device, &name);
        let [_, (start, end, 4)] = batches[..] else { panic!("{layout:?}: {batches:?}") };
        let bytes = device.bytes(&name).unwrap();
        let line = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let at = line.filter(|_| layout == Layout::Text).unwrap_or(start) + 8;
        let stripe_end = from + 2 * BLOCK;
        assert!(at < stripe_end && end >= stripe_end, "{layout:?}: {at} has parity");
        device.edit(&name, |bytes| bytes[at] ^= 1);
        assert_whole(&device, layout, &(1..).zip(records).collect(), &format!("{layout:?}"));
    }
}

/// The image: after a power cut the device cannot read the block where the log ends, and parity
/// knows only its beginning. Of the records in it, only the first is confirmed. Also returns the
/// name of the file.
fn with_an_unreadable_end(layout: Layout) -> (MemStorage, String) {
    let device = after_a_power_cut(layout, 1..=2);
    let covered = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap().covered;
    let (name, from) = data_file(&device);
    let known = from + usize::try_from(covered).unwrap();
    let block = from + (known - from) / BLOCK * BLOCK;
    assert!(known > block, "{layout:?}: the second begins in the same block");
    device.fail_read(&name, block..block + BLOCK);
    (device, name)
}

/// Whether the damage is an unreadable place that loses an unknown number of records from `lsn` on.
fn loses_from(damage: &[seawall::damage::Damage], first: u64) -> bool {
    damage.iter().any(|damage| {
        damage.cause == Corruption::Unreadable
            && damage.lost.is_some_and(|lost| lost.from == lsn(first) && lost.to.is_none())
    })
}

/// A later read may succeed, and the block then holds acknowledged records.
#[test]
fn end_in_an_unreadable_block_is_not_truncated() {
    for layout in LAYOUTS {
        let (device, name) = with_an_unreadable_end(layout);
        let is_named =
            |damage: &seawall::damage::Damage| loses_from(std::slice::from_ref(damage), 2);
        let found = judge(&device).unwrap();
        assert_eq!((found.verdict, found.records), (Verdict::Lost, 1), "{layout:?}");
        assert!(found.damage.iter().any(is_named), "{layout:?}: {:?}", found.damage);
        let shown = read(&device, false).unwrap();
        assert_eq!((shown.records.len(), shown.errors), (1, 1), "{layout:?}");
        let reader = common::reader(shared(&device)).unwrap();
        assert!(reader.get(lsn(1)).unwrap().is_some(), "{layout:?}");
        let asked = reader.get(lsn(2));
        assert!(
            matches!(&asked, Err(Error::Damaged { damage: lost, .. }) if is_named(lost)),
            "{asked:?}"
        );
        let refused = open(&laid_out(again(2), layout), &device).unwrap_err();
        assert!(
            matches!(&refused, Error::Damaged { damage: lost, .. } if is_named(lost)),
            "{refused:?}"
        );
        device.fail_read(&name, 0..0);
        let log = open(&laid_out(again(3), layout), &device).unwrap();
        assert_eq!(log.durable(), Some(lsn(2)), "{layout:?}");
    }
}

/// A repair would turn the rest of the block into zeros, and the log would seem to end there.
#[test]
fn repair_keeps_the_loss_in_an_unreadable_last_block() {
    for layout in LAYOUTS {
        let (device, name) = with_an_unreadable_end(layout);
        for _ in 0..2 {
            let plan = common::maintenance(&shared(&device)).plan_repair().unwrap();
            assert!(plan.is_empty(), "{layout:?}: {:?}", plan.patches);
            let done = common::maintenance(&shared(&device)).repair().unwrap();
            assert!(loses_from(&done.after.damage, 1), "{layout:?}: {:?}", done.after.damage);
            let found = judge(&device).unwrap();
            assert!(loses_from(&found.damage, 2), "{layout:?}: {:?}", found.damage);
            assert_eq!(read(&device, false).unwrap().errors, 1, "{layout:?}");
        }
        let target = MemStorage::new();
        let rescued = common::maintenance(&shared(&device)).salvage_to(shared(&target)).unwrap();
        assert_eq!(rescued.records, 1, "{layout:?}: the one that parity knows");
        assert!(loses_from(&rescued.damage, 2), "{layout:?}: {:?}", rescued.damage);
        assert_eq!(judge(&target).unwrap().verdict, Verdict::Clean, "{layout:?}");
        let shorter = device.kill();
        let done = common::maintenance(&shared(&shorter)).truncate_damaged_tail().unwrap();
        assert!(loses_from(&done.damage, 2), "{layout:?}: {:?}", done.damage);
        let log = open(&laid_out(again(2), layout), &shorter).unwrap();
        assert_eq!(log.append(&payload_in(layout, (2, 9), 20)).unwrap(), lsn(2), "{layout:?}");
        assert_eq!(read_own(&log).count(), 2, "{layout:?}");
        device.fail_read(&name, 0..0);
        let log = open(&laid_out(again(3), layout), &device).unwrap();
        assert_eq!(log.durable(), Some(lsn(2)), "{layout:?}: nothing was overwritten");
    }
}

/// The blocks are on different pages, the unit of unreadable bytes.
#[test]
fn other_damage_is_repaired_beside_an_unreadable_last_block() {
    let running = MemStorage::new();
    let options = with_parity(1, Layout::Binary).geometry(common::GEOMETRY, 14 * 512);
    let log = open(&options.segment_size(14 * 512), &running).unwrap();
    append(&log, Layout::Binary, 1..=14);
    let device = running.power_cut(|_| true);
    drop(log);
    let covered = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap().covered;
    let (name, from) = data_file(&device);
    let last = from + usize::try_from(covered).unwrap() / BLOCK * BLOCK;
    assert!(last > 4096 + BLOCK, "{last}");
    device.fail_read(&name, last..last + BLOCK);
    let before = judge(&device).unwrap();
    spoil(&device, &name, from + 60..from + 70, "garbage");
    let done = common::maintenance(&shared(&device)).repair().unwrap();
    let end = u64::try_from(last).unwrap();
    assert!(!done.is_empty() && done.patches.iter().all(|patch| patch.end() <= end), "{done:#?}");
    let after = judge(&device).unwrap();
    assert_eq!((after.records, after.damage), (before.records, before.damage));
}

/// The clean close names the last record, so the rest of the block was zeros.
#[test]
fn unreadable_last_block_of_a_closed_log_is_repaired() {
    for layout in LAYOUTS {
        let (device, _) = sample(layout);
        let (name, from) = data_files(&device).pop().unwrap();
        let sound = device.bytes(&name).unwrap();
        let used = sound.iter().rposition(|byte| *byte != 0).unwrap();
        let last = from + (used - from) / BLOCK * BLOCK;
        device.fail_read(&name, last..last + BLOCK);
        let plan = common::maintenance(&shared(&device)).plan_repair().unwrap();
        assert_eq!((plan.after.verdict, plan.after.records), (Verdict::Clean, 60), "{layout:?}");
        assert_eq!(plan.patches.len(), 1, "{layout:?}: {:?}", plan.patches);
    }
}

/// The clean close names the last record that parity covers. The open that continued in the same
/// block says so, too, but a record followed.
#[test]
fn unreadable_last_block_of_a_reopened_log_keeps_its_loss() {
    for layout in LAYOUTS {
        let running = MemStorage::new();
        let log = open(&with_parity(1, layout), &running).unwrap();
        append(&log, layout, 1..=2);
        log.close().unwrap();
        let closed = running.kill();
        let log = open(&laid_out(again(2), layout), &running).unwrap();
        append(&log, layout, 3..=3);
        let reopened = running.power_cut(|_| true);
        drop(log);
        let (name, _) = data_file(&closed);
        let used = closed.bytes(&name).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
        let block = used / BLOCK * BLOCK;
        let refused = |device: MemStorage| {
            device.fail_read(&name, block..block + BLOCK);
            common::maintenance(&shared(&device)).plan_repair().unwrap()
        };
        let plan = refused(closed);
        assert_eq!((plan.after.verdict, plan.after.records), (Verdict::Clean, 2), "{layout:?}");
        let after = refused(reopened).after;
        assert_eq!(after.verdict, Verdict::Lost, "{layout:?}: record 3 was acknowledged");
        assert!(loses_from(&after.damage, after.records + 1), "{layout:?}: {:?}", after.damage);
    }
}
