//! Parity is built, updated and rebuilt, and only from data that is known to be durable.

use super::*;

#[test]
fn damaged_parity_is_reported_and_rebuilt_from_intact_records() {
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
                let found = common::maintenance(&shared(&device)).protection().unwrap();
                assert_eq!(found.open, [id.unwrap()], "{what}");
                assert!(found.covered < found.bytes, "{what}");
                let made = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap();
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
fn parity_setting_is_stored_and_applies_to_new_records() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, Layout::Binary, 1..=30);
    log.close().unwrap();
    assert!(device.names().iter().all(|name| !name.ends_with("parity")));
    assert_eq!(common::maintenance(&shared(&device)).protection().unwrap().scheme, None);
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    append(&log, Layout::Binary, 31..=60);
    log.close().unwrap();
    let log = open(&again(3), &device).unwrap();
    append(&log, Layout::Binary, 61..=90);
    log.close().unwrap();
    let found = common::maintenance(&shared(&device)).protection().unwrap();
    assert_eq!(found.scheme, Some(scheme()));
    assert!(found.covered < found.bytes && found.open.contains(&SegmentId::FIRST), "{found:?}");
    // Data that an earlier process wrote is covered once parity is built on request.
    let made = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap();
    assert_eq!((made.open.len(), made.covered), (0, made.bytes));
    let records = read(&device, false).unwrap().records;
    for (name, from) in data_files(&device) {
        let harmed = device.kill();
        spoil(&harmed, &name, from..from + BLOCK, "zeros");
        assert_whole(&harmed, Layout::Binary, &records, &name);
    }
    // With parity disabled, new segments have none.
    let log = open(&again(4).parity(None), &device).unwrap();
    append(&log, Layout::Binary, 91..=150);
    log.close().unwrap();
    let found = common::maintenance(&shared(&device)).protection().unwrap();
    assert_eq!((found.scheme, found.open.is_empty()), (None, false));
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
}

#[test]
fn parity_is_covered_only_if_its_syncs_succeeded() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    append(&log, Layout::Binary, 1..=30);
    log.close().unwrap();
    let protection = |device: &MemStorage| common::maintenance(&shared(device)).protection();
    let mut failed = 0;
    for nth in 0.. {
        let device = device.kill();
        let build = || common::maintenance(&shared(&device)).build_parity(scheme());
        device.fail_sync(nth, |_| false);
        let first = build();
        if first.is_ok() {
            break;
        }
        failed += 1;
        // Nothing is reported as durable that a power cut takes away.
        for builds in [false, true] {
            let made = if builds { build() } else { protection(&device) };
            let made = made.unwrap();
            let left = protection(&device.power_cut(|_| false)).unwrap();
            assert_eq!((left.covered, left.open), (made.covered, made.open), "sync {nth}");
        }
    }
    assert!(failed > 4, "{failed}");
}

/// A parity file alone would not make a log of a directory that lost all other files.
#[test]
fn log_without_records_needs_no_parity() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        open(&laid_out(tiny(1), layout), &device).unwrap().close().unwrap();
        let names = device.names();
        for _ in 0..2 {
            let made = common::maintenance(&shared(&device)).build_parity(scheme()).unwrap();
            assert_eq!((made.bytes, made.covered, made.unsure), (0, 0, 0), "{made:?}");
            assert!(made.open.is_empty() && made.parity_bytes == 0, "{made:?}");
        }
        assert_eq!(device.names(), names);
    }
}

#[test]
fn open_after_any_power_cut_completes_the_parity() {
    let steps = {
        let device = MemStorage::new();
        let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
        append(&log, Layout::Binary, 1..=40);
        log.close().unwrap();
        device.steps()
    };
    for stop in (0..steps).step_by(3) {
        for kept in [CrashOutcome::Whole, CrashOutcome::Lost] {
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

/// The image: a block is damaged, and its parity file is endless, as a sparse file can be.
#[test]
fn oversized_parity_file_is_read_only_up_to_the_last_record() {
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

/// The image: the files of a damaged segment and of its parity are longer than any writer makes
/// them, as sparse files can be without taking space.
#[test]
fn rebuilding_reads_no_more_slots_than_a_segment_has() {
    let (sound, records) = sample(Layout::Binary);
    let (name, from) = data_files(&sound)[0].clone();
    spoil(&sound, &name, from..from + BLOCK, "garbage");
    let reads_with = |size: usize| {
        let longer = sound.kill();
        for name in [&name, &name.replace("seg", "parity")] {
            longer.edit(name, |bytes| bytes.resize(size, 0));
        }
        let (device, counts) = Counted::new(longer);
        let device: Arc<dyn Storage> = Arc::new(device);
        let found = common::maintenance(&device).verify().unwrap();
        assert_eq!(found.records, u64::try_from(records.len()).unwrap());
        counts.take()
    };
    assert_eq!(reads_with(4 << 20), reads_with(8 << 20));
}

/// The image: a slot that was rewritten as its stripe filled is torn. The head before it says that
/// all data has parity up to a block that it shares with the next records.
#[test]
fn torn_last_slot_is_rewritten_by_open() {
    let device = MemStorage::new();
    let log = open(&with_parity(1, Layout::Binary), &device).unwrap();
    append(&log, Layout::Binary, 1..=3);
    log.close().unwrap();
    for at in [0, 4, 40, 60, 700] {
        let torn = device.kill();
        let side = sides(&torn).pop().unwrap();
        torn.edit(&side, |bytes| bytes[2 * BLOCK + at] ^= 1);
        assert_protected(&torn, &format!("byte {at} of the slot"));
        // The rewritten slot is durable too.
        let left = torn.power_cut(|_| false);
        let (was, is) = (torn.bytes(&side), left.bytes(&side));
        assert_eq!(was, is, "byte {at} of the slot");
    }
}

/// A power cut tore the last slot of a segment that the writer had already left.
#[test]
fn slot_torn_by_a_crash_is_rewritten() {
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
        assert!(
            common::maintenance(&shared(&device)).protection().unwrap().open.is_empty(),
            "{name}"
        );
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

/// A forged head may claim anything.
#[test]
fn head_that_claims_to_cover_everything_is_harmless() {
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
            common::maintenance(&shared(&device)).protection().unwrap();
            let log = open(&again(2), &device).unwrap();
            append(&log, Layout::Binary, 61..=62);
            log.close().unwrap();
            assert_eq!(records.len(), 60);
            assert_eq!(read(&device, false).unwrap().count(), 62);
        }
    }
}
