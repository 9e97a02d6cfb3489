//! Tail truncation: a repair that truncates the log before its first damage.

use super::ways_out::{are_as_written, try_all};
use super::*;

#[test]
fn tail_truncation_interrupted_anywhere_loses_no_kept_record() {
    let (image, damaged) = with_a_hole();
    let whole = damaged.kill();
    let before = whole.steps();
    let last = common::maintenance(&storage(&whole)).truncate_damaged_tail().unwrap().last;
    let steps = whole.steps() - before;
    assert!(steps > 20, "{steps}");
    for stop in 0..=steps {
        let device = damaged.kill();
        device.stop_after(before + stop);
        let _ = common::maintenance(&storage(&device)).truncate_damaged_tail();
        for left in [device.power_cut(|_| false), device.power_cut(|_| true), device.kill()] {
            let what = || format!("stopped after {stop} of {steps} steps");
            // The log is damaged as before, or repaired: never sound and shorter.
            if open(&again(9), &left.kill()).is_err() {
                assert_eq!(judge(&left).unwrap().verdict, Verdict::Lost, "{}", what());
            }
            let done = common::maintenance(&storage(&left)).truncate_damaged_tail().unwrap();
            assert_eq!(done.last, last, "{}", what());
            let log = open(&again(9), &left).unwrap();
            let kept = read_own(&log);
            assert_eq!(kept.records.keys().max().copied(), last.map(Lsn::get));
            are_as_written(&image, &kept, &what);
        }
    }
}

/// The process is killed before it reports, at any step: the next truncation reports the same
/// losses, and only that one does.
#[test]
fn interrupted_tail_truncation_reports_its_losses_once() {
    let (_, damaged) = with_a_hole();
    let cut = |device: &MemStorage| {
        common::maintenance(&storage(device)).truncate_damaged_tail().unwrap()
    };
    let losses = |cut: &TailTruncation| {
        let damage = cut.damage.iter().map(|one| (one.segment, one.offset, one.lost, one.cause));
        (cut.last, cut.intact_behind, damage.collect::<Vec<_>>(), cut.quarantine.len())
    };
    let whole = damaged.kill();
    let expected = losses(&cut(&whole));
    assert_eq!(files(&whole).iter().filter(|name| name.ends_with(".report")).count(), 0);
    let mut unreported = 0;
    for stop in 0.. {
        let device = damaged.kill();
        device.stop_after(device.steps() + stop);
        let mut killed = common::maintenance(&storage(&device)).until_reported();
        let is_whole = killed.truncate_damaged_tail().is_ok();
        for left in [device.power_cut(|_| false), device.power_cut(|_| true), device.kill()] {
            let plan = common::maintenance(&storage(&left)).plan_truncation().unwrap();
            unreported += u32::from(plan.unfinished.is_some());
            assert_eq!(plan.unfinished.is_some(), plan.damage.is_empty(), "{stop}");
            assert_eq!(losses(&cut(&left)), expected, "{stop}");
            assert_eq!(losses(&cut(&left)), (expected.0, 0, vec![], 0), "{stop}: again");
        }
        if is_whole {
            device.stop_after(u64::MAX);
            killed.confirm_report().unwrap();
            assert_eq!(cut(&device.kill()).damage, [], "reported");
            break;
        }
    }
    assert!(unreported > 9, "{unreported}");
}

/// A replica restored the records that an interrupted truncation had yet to remove.
#[test]
fn truncation_that_changed_nothing_is_not_reported() {
    let (image, damaged) = with_a_hole();
    let steps = damaged.steps();
    let unchanged = |left: &MemStorage| {
        let plan = common::maintenance(&storage(left)).plan_truncation().unwrap();
        let is_noted = files(left).iter().any(|name| name.ends_with("-cut.report"));
        is_noted && !plan.damage.is_empty() && plan.unfinished.is_none()
    };
    let interrupted = |stop| {
        let device = damaged.kill();
        device.stop_after(steps + stop);
        let _ = common::maintenance(&storage(&device)).truncate_damaged_tail();
        device.power_cut(|_| false)
    };
    let left = (0..99).map(interrupted).find(unchanged).unwrap();
    let replica = storage(&image.device.kill());
    let done = common::maintenance(&storage(&left)).replicas_on([&replica]).repair().unwrap();
    assert_eq!(done.after.verdict, Verdict::Clean);
    open(&again(9), &left).unwrap().append(&payload(99, 1, 40)).unwrap();
    let cut = common::maintenance(&storage(&left)).truncate_damaged_tail().unwrap();
    assert_eq!((cut.damage, cut.intact_behind), (vec![], 0));
}

#[test]
fn removed_bytes_are_kept_in_quarantine() {
    let (_, damaged) = with_a_hole();
    let device = damaged.kill();
    let files = ["000000000001.seg", "000000000002.seg", NEWEST];
    let before = files.map(|file| device.bytes(file));
    let done = common::maintenance(&storage(&device)).truncate_damaged_tail().unwrap();
    // The first file is kept too: the data after its damage disappears with its next prune.
    let kept: Vec<_> = done.quarantine.iter().map(|file| device.bytes(file)).collect();
    assert_eq!(kept, before, "{:?}", done.quarantine);
    assert_eq!((device.bytes(files[1]), device.bytes(files[2])), (None, None));
}

/// Each try used to leave more copies.
#[test]
fn tail_truncation_on_a_full_disk_keeps_one_copy_of_each_file() {
    let (_, damaged) = with_a_hole();
    let used = damaged.used();
    let leaving = ["000000000001.seg", "000000000002.seg", NEWEST];
    let leaving: usize = leaving.iter().map(|file| damaged.bytes(file).unwrap().len()).sum();
    let leaving = u64::try_from(leaving).unwrap();
    let plan = common::maintenance(&storage(&damaged)).plan_truncation().unwrap();
    let mut failed = 0;
    for free in (0..=plan.room).step_by(512) {
        let device = damaged.kill();
        device.limit(used + free);
        let cut =
            |device: &MemStorage| common::maintenance(&storage(device)).truncate_damaged_tail();
        let mut left = None;
        for _ in 0..3 {
            let Err(error) = cut(&device) else { break };
            assert!(matches!(error, Error::Io { .. } | Error::DiskFull { .. }), "{error:?}");
            let names = copies(&device);
            assert!(free >= leaving || names.is_empty(), "{free}: {names:?}");
            assert_eq!(*left.get_or_insert(names.clone()), names, "{free}");
            failed += 1;
        }
        device.limit(u64::MAX);
        let done = if left.is_some() { cut(&device).unwrap() } else { continue };
        assert_eq!((done.quarantine.len(), copies(&device).len()), (3, 3), "{free}");
    }
    assert!(failed > 9, "{failed}");
    let device = damaged.kill();
    device.limit(used + plan.room);
    common::maintenance(&storage(&device)).truncate_damaged_tail().unwrap();
}

fn copies(device: &MemStorage) -> Vec<String> {
    files(device).into_iter().filter(|name| name.starts_with("quarantine")).collect()
}

/// Found by simulation. The image: damage, and a file after the newest one with the bytes of
/// another segment. The segment that the repair creates gets the name of that file, and used to be
/// removed with it.
#[test]
fn tail_truncation_keeps_the_segment_that_it_makes() {
    for from in ["000000000001.seg", "000000000002.seg", NEWEST] {
        let (image, device) = with_a_hole();
        device.copy_raw(from, "000000000004.seg");
        let cut = common::maintenance(&storage(&device)).truncate_damaged_tail().unwrap();
        let kept = read_own(&open(&again(9), &device).unwrap());
        assert_eq!(kept.records.keys().max().copied(), cut.last.map(Lsn::get), "{from}");
        are_as_written(&image, &kept, &|| from.to_owned());
    }
}

/// Found by review. The image: damage in the second segment, and the newest one is lost. A repair
/// that was killed could not be repeated: the new segment had the id of the lost one, which the
/// seal of a segment that was not removed yet names.
#[test]
fn tail_truncation_beside_a_lost_segment_can_be_repeated() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for number in 1..=48 {
        log.append(&payload(number, 1, 200)).unwrap();
    }
    log.close().unwrap();
    let damaged = device.power_cut(|_| false);
    let segments = || damaged.names().into_iter().filter(|name| name.starts_with('0'));
    assert!(segments().count() > 4, "{:?}", damaged.names());
    let (_, batches) = batches(&damaged, "000000000002.seg");
    damaged.edit("000000000002.seg", |bytes| bytes[batches[1].1 - 20] ^= 1);
    damaged.remove_raw(&segments().next_back().unwrap());
    let whole = damaged.kill();
    let before = whole.steps();
    let last = common::maintenance(&storage(&whole)).truncate_damaged_tail().unwrap().last;
    let kept = read(&whole, false).unwrap().records;
    for stop in before..=whole.steps() {
        let device = damaged.kill();
        device.stop_after(stop);
        let _ = common::maintenance(&storage(&device)).truncate_damaged_tail();
        for left in [device.power_cut(|_| false), device.power_cut(|_| true), device.kill()] {
            let mut found = read(&left, true).unwrap().records;
            found.retain(|number, _| Some(lsn(*number)) <= last);
            assert_eq!(found, kept, "stopped after step {stop}");
            let done = common::maintenance(&storage(&left)).truncate_damaged_tail().unwrap();
            assert_eq!(done.last, last, "stopped after step {stop}");
            assert_eq!(read(&left, false).unwrap().records, kept, "stopped after step {stop}");
        }
    }
}

/// Running readers must not be told to undo records that the repair is about to rewrite.
#[test]
fn tail_truncation_never_tells_readers_to_undo_kept_records() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    let records = [1, 2, 3, 4].map(|lsn| payload(lsn, 1, 40));
    log.append(&records[0]).unwrap();
    let tickets = [1, 2, 3].map(|index| log.submit(&records[index]).unwrap());
    let [.., last] = tickets;
    last.wait().unwrap();
    log.close().unwrap();
    let (_, batches) = batches(&device, "000000000001.seg");
    assert_eq!(batches.len(), 2, "the last three share one");
    let damaged = device.kill();
    damaged.edit("000000000001.seg", |bytes| bytes[batches[1].1 - 8] ^= 1);
    let before = damaged.steps();
    let whole = damaged.kill();
    assert_eq!(
        common::maintenance(&storage(&whole)).truncate_damaged_tail().unwrap().last.map(Lsn::get),
        Some(3)
    );
    for stop in 0..=whole.steps() - before {
        let left = damaged.kill();
        left.stop_after(before + stop);
        let _ = common::maintenance(&storage(&left)).truncate_damaged_tail();
        let live = left.bytes("live").and_then(|live| Live::decode(&live));
        assert!(live.is_none_or(|live| live.durable >= Lsn::new(3)), "step {stop}: {live:?}");
    }
}

/// Found by simulation. The image: a log that was truncated to empty three times, then got a record
/// and a checkpoint at it. The segment in which it continued after the first truncation is lost.
#[test]
fn truncation_before_a_gap_below_the_checkpoint_shows_no_removed_record() {
    for layout in layouts() {
        let device = MemStorage::new();
        let log = open(&laid_out(tiny(1), layout), &device).unwrap();
        for life in 1..=4 {
            log.append(&payload_in(layout, (1, life), 50)).unwrap();
            if life < 4 {
                log.truncate_after(None).unwrap();
            }
        }
        log.checkpoint(Lsn::FIRST).unwrap();
        log.close().unwrap();
        let damaged = device.power_cut(|_| false);
        damaged.names().iter().filter(|name| name.starts_with("000000000002")).for_each(|name| {
            damaged.remove_raw(name);
        });
        let cut = common::maintenance(&storage(&damaged)).truncate_damaged_tail().unwrap();
        assert_eq!((cut.last, cut.intact_behind), (None, 1));
        assert_eq!(read(&damaged, true).unwrap().count(), 0);
        assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Clean);
    }
}

/// Records 2, 3 and 4 and the set of 5 and 6 share a batch, as records of many threads do. A
/// damaged record costs no other one except the beginning of its set.
#[test]
fn appends_in_one_batch_are_judged_separately() {
    const FRAME: usize = 48;
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    let records: Vec<_> = (1..=8).map(|lsn| payload(lsn, 1, FRAME - 8)).collect();
    log.append(&records[0]).unwrap();
    let tickets = [1, 2, 3].map(|index| log.submit(&records[index]).unwrap());
    log.append_batch([records[4].as_slice(), &records[5]]).unwrap();
    let [.., last] = tickets;
    assert_eq!(last.wait().unwrap().get(), 4);
    log.append(&records[6]).unwrap();
    log.append(&records[7]).unwrap();
    log.close().unwrap();
    let file = "000000000001.seg";
    let image = Image { end: End::Closed, layout: Layout::Binary, device, records, window: NONE };
    let (_, batches) = batches(&image.device, file);
    assert_eq!(batches.iter().map(|batch| batch.2).collect::<Vec<_>>(), [1, 6, 7, 8]);
    for at in batches[1].0 + 48..batches[1].1 {
        let what = || format!("byte {at}");
        let damaged = image.device.power_cut(|_| false);
        damaged.edit(file, |bytes| bytes[at] ^= 1 << (at % 8));
        try_all(&image, &damaged, &what);
        let hit = 2 + ((at - batches[1].0 - 48) / FRAME) as u64;
        let (first, broken) = if hit == 6 { (5, 1) } else { (hit, 0) };
        let (_, rescued) = rescue(&damaged).unwrap();
        assert_eq!((rescued.records, rescued.broken_sets), (7 - broken, broken), "{}", what());
        let kept = common::maintenance(&storage(&damaged))
            .truncate_damaged_tail()
            .unwrap()
            .last
            .map(Lsn::get);
        assert_eq!(kept, Some(first - 1), "{}", what());
    }
}

#[test]
fn log_in_use_is_not_repaired() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    log.append(b"one").unwrap();
    let target = storage(&MemStorage::new());
    let busy = |error: Option<Error>| matches!(error, Some(Error::Busy { .. }));
    assert!(busy(common::maintenance(&storage(&device)).salvage_to(target).err()));
    assert!(busy(common::maintenance(&storage(&device)).truncate_damaged_tail().err()));
    assert!(busy(common::maintenance(&storage(&device)).diagnose().err()));
}

/// The image: the headers of two adjacent batches are damaged, and all records are intact. Found by
/// code review: truncation put them into one batch above the maximum size, and panicked.
#[test]
fn intact_records_of_adjacent_batches_are_kept() {
    for size in [300, 480, 600, 900] {
        let device = MemStorage::new();
        let options = of_any_size(1).geometry(GEOMETRY, 24 * 512).segment_size(24 * 512);
        let log = open(&options, &device).unwrap();
        for number in 1..=6 {
            log.append(&payload(number, 1, size)).unwrap();
        }
        log.close().unwrap();
        let (_, batches) = batches(&device, "000000000001.seg");
        device.edit("000000000001.seg", |bytes| {
            for (begin, ..) in &batches[1..3] {
                bytes[begin + 20] ^= 1;
            }
        });
        assert_eq!(
            common::maintenance(&storage(&device)).truncate_damaged_tail().unwrap().last,
            Some(lsn(3)),
            "{size}"
        );
        let left = device.power_cut(|_| false);
        assert_eq!(judge(&left).unwrap().verdict, Verdict::Clean, "{size}");
        let kept = read(&left, false).unwrap().records;
        let written = |number| (number, payload(number, 1, size));
        assert!(kept.into_iter().eq((1..=3).map(written)), "{size}");
    }
}

/// The image: a forged manifest, sound in itself, of a log with smaller batches than its segments
/// have.
#[test]
fn oversized_batches_are_refused_or_given_up_without_a_panic() {
    for size in [200, 600, 900] {
        let device = MemStorage::new();
        let log = open(&of_any_size(1).geometry(GEOMETRY, 24 * 512), &device).unwrap();
        for number in 1..=6 {
            log.append(&payload(number, 1, size)).unwrap();
        }
        let left = device.kill();
        left.edit("manifest", |bytes| {
            for slot in Manifest::decode_file(bytes).into_iter().flatten() {
                let geometry = Geometry { batch_max: 512, ..slot.geometry };
                let forged = Manifest { geometry, ..slot };
                let at = usize::try_from(forged.offset().0).unwrap();
                let slot = forged.encode();
                bytes[at..at + slot.len()].copy_from_slice(&slot);
            }
        });
        let fits = size == 200;
        let (target, rescued) = rescue(&left).unwrap();
        let records = if fits { 6 } else { 0 };
        assert_eq!((rescued.records, rescued.given_up.is_empty()), (records, fits), "{size}");
        assert_eq!(judge(&target).unwrap().verdict, Verdict::Clean, "{size}");
        let cut = common::maintenance(&storage(&left.kill())).truncate_damaged_tail();
        assert!(fits == cut.is_ok(), "{size}: {cut:?}");
        let opened = Options::new().open_in::<[u8], Raw>(storage(&left));
        assert!(fits == opened.is_ok(), "{size}: {opened:?}");
    }
}
