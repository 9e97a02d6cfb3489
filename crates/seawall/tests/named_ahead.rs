//! Segments that get their names before they are needed: a crash at every step, failed writes and
//! damage lose no more than with segments named on time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::images::{batches, begun_header};
use common::lives::{Act, Faults, Life, Tally, check, cuts, live};
use common::sample::Sample;
use common::workloads::{
    Acts, each_power_cut, fail_sync, failed_syncs, one_crash, one_fault, run, steps, syncs,
    two_crashes,
};
use common::{Bytes, again, judge, open, read, tiny};
use seawall::verify::Verdict;
use seawall::{Level, Lsn, Maintenance};
use seawall_format::batch::{self, BatchHeader};
use seawall_format::{Closed, HEADER_SIZE, Manifest, SegmentHeader, SegmentId, tail};
use seawall_io::{Clock, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::time::Duration;

use Act::{Append, Confirm, Prune, Reopen, Set};

/// The first segment holds one record of 960 bytes, the others two. From the third on, segments are
/// named ahead.
const WORKLOADS: [Acts; 5] = [
    &[Append(960), Append(960), Append(960), Append(960), Append(960), Append(960), Append(50)],
    &[
        Append(960),
        Append(960),
        Append(960),
        Set(&[440, 440]),
        Confirm,
        Append(700),
        Set(&[100, 200, 300]),
        Confirm,
        Append(30),
        Append(500),
    ],
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Reopen,
        Append(960),
        Append(960),
        Append(960),
        Reopen,
        Append(20),
    ],
    // The fourth segment reuses the file of the second.
    &[
        Append(960),
        Append(960),
        Append(960),
        Append(960),
        Prune,
        Append(960),
        Append(960),
        Append(960),
        Confirm,
        Append(960),
        Append(40),
    ],
    &[Append(960), Append(960), Append(960), Prune, Append(20), Append(960), Prune, Append(960)],
];

/// The clean close names a record that is the only one before a segment named ahead.
const CLOSED_EARLY: Acts = &[Append(20), Reopen, Append(960), Append(960)];

/// Workloads to run after a recovery, until the second crash.
const AFTERWARDS: [Acts; 2] =
    [&[Append(90), Confirm], &[Append(960), Append(960), Append(960), Append(960), Append(30)]];

/// The segments on a device that were named ahead, oldest first, and whether they have begun.
fn named_ahead(device: &MemStorage) -> Vec<(SegmentHeader, bool)> {
    let names = device.names().into_iter();
    let segments = names.filter(|name| SegmentId::from_file_name(name).is_some());
    let headers = segments.filter_map(|name| {
        let bytes = device.bytes(&name)?;
        let header = SegmentHeader::decode(bytes.get(..HEADER_SIZE)?).ok()?;
        let batch = bytes.get(usize::try_from(header.data_start()).unwrap()..)?;
        let begun = BatchHeader::begins(&header, batch);
        header.named_ahead.then(|| (begun.clone().unwrap_or(header), begun.is_some()))
    });
    headers.collect()
}

#[test]
fn workloads_enter_segments_that_were_named_ahead() {
    for (acts, count) in WORKLOADS.into_iter().zip([3, 3, 3, 3, 1]) {
        let life = run(acts, Level::Synced, u64::MAX);
        let begun = named_ahead(&life.device).iter().filter(|(_, has_begun)| *has_begun).count();
        assert_eq!(begun, count, "{acts:?}: {:?}", life.device.names());
    }
}

#[test]
fn acknowledged_records_survive_a_crash_at_every_step() {
    let tally = one_crash(&WORKLOADS);
    println!("one crash with segments named ahead: {tally:?}");
    assert!(tally.states > 2_000 && tally.torn > 80, "{tally:?}");
}

#[test]
fn records_survive_a_second_crash() {
    let mut sample = Sample::one_in(72);
    let tally = two_crashes(&WORKLOADS, &AFTERWARDS, &mut sample);
    println!("two crashes with segments named ahead: {tally:?}");
    assert!(tally.states > sample.least(20_000), "{tally:?}");
}

#[test]
fn failed_sync_loses_no_acknowledged_record() {
    let mut sample = Sample::one_in(8);
    let tally = failed_syncs(&WORKLOADS, &mut sample);
    println!("failed syncs with segments named ahead: {tally:?}");
    assert!(tally.states > sample.least(3_000), "{tally:?}");
}

/// Fails a write, then kills the process or cuts the power while the log fails over to another
/// segment. With `block`, the failed write garbles the blocks of this size that it touched, and the
/// power fails only after the other segment is durable.
fn crash_in_a_failover(block: Option<usize>) -> Tally {
    let (mut sample, mut tally) = (Sample::one_in(4), Tally::default());
    let failing = |nth: u64| {
        let device = MemStorage::new();
        match block {
            Some(block) => device.spoil_sync(nth, block),
            None => fail_sync(&device, nth, 0),
        }
        device
    };
    let unborn = Life::unborn(seawall::Layout::Binary);
    for acts in WORKLOADS {
        for (nth, step) in syncs(acts, Level::Synced, 5) {
            let device = failing(nth);
            live(&device, acts, Level::Synced, &unborn);
            // Sync `nth + 1` is that of the other segment, `nth + 2` that of the directory.
            let durable = (0..).zip(device.syncs()).find(|(sync, _)| *sync == nth + 2);
            let durable = durable.map_or(u64::MAX, |(_, step)| step);
            for stop in (step..step + 12).filter(|_| sample.takes_next()) {
                let device = failing(nth);
                device.stop_after(stop);
                let life = live(&device, acts, Level::Synced, &unborn);
                let what = format!("{acts:?}, sync {nth} fails, stopped at {stop}");
                tally.add(check(&life, &device.kill(), Faults::FailedSync, &what));
                if block.is_some() && stop < durable {
                    continue;
                }
                for (mask, cut) in cuts(&device, stop, 16) {
                    let what = format!("{what}, power cut, kept {mask:b}");
                    tally.add(check(&life, &cut, Faults::FailedSync, &what));
                }
            }
        }
    }
    assert!(tally.states > sample.least(2_500), "{tally:?}");
    tally
}

#[test]
fn crash_in_a_failover_loses_no_acknowledged_record() {
    println!("crashes in a failover: {:?}", crash_in_a_failover(None));
}

#[test]
fn crash_after_a_garbled_write_loses_no_acknowledged_record() {
    println!("crashes after a garbled write: {:?}", crash_in_a_failover(Some(512)));
}

/// The first batch of a segment, the seal written beside it, or both fail. No crash afterwards
/// loses an acknowledged record.
#[test]
fn first_batch_and_seal_fail_together_and_alone() {
    let acts = WORKLOADS[0];
    let (mut failovers, mut tally) = (0, Tally::default());
    for (first, _) in syncs(acts, Level::Synced, 5) {
        for (second, keep) in (first + 1..first + 6).flat_map(|nth| (0..3).map(move |k| (nth, k))) {
            let device = MemStorage::new();
            for nth in [first, second] {
                fail_sync(&device, nth, keep);
            }
            let life = live(&device, acts, Level::Synced, &Life::unborn(seawall::Layout::Binary));
            failovers += u64::from(life.error.is_none());
            let what = format!("syncs {first} and {second} fail and keep {keep}");
            for left in [device.kill(), device.power_cut(|_| false)] {
                tally.add(check(&life, &left, Faults::FailedSync, &what));
            }
        }
    }
    println!("two failed syncs: {tally:?}, {failovers} logs went on");
    assert!(failovers > 50, "{failovers}");
}

#[test]
fn one_damaged_run_or_lost_file_never_hides_a_confirmed_record() {
    let mut sample = Sample::one_in(10);
    let faults = one_fault(&WORKLOADS, &mut sample);
    println!("one fault after each step with segments named ahead: {faults} faults");
    assert!(faults > sample.least(40_000), "{faults}");
}

/// A power cut loses `live`. If the newest segment is lost too, only its predecessor's seal shows
/// that it held an acknowledged record.
#[test]
fn first_acknowledgement_waits_for_the_seal() {
    let mut states = 0;
    for acts in WORKLOADS {
        for stop in 0..=steps(acts, Level::Synced) {
            let life = run(acts, Level::Synced, stop);
            let left = life.device.power_cut(|_| false);
            let names = left.names().into_iter();
            let segments: Vec<_> =
                names.filter(|name| SegmentId::from_file_name(name).is_some()).collect();
            let is_begun = |name: &&String| begun_header(&left.bytes(name).unwrap()).is_some();
            let Some(newest) = segments.iter().rfind(is_begun) else { continue };
            left.remove_raw(newest);
            if segments.len() == 1 || judge(&left).is_err() {
                continue;
            }
            let found = judge(&left).unwrap();
            let last = found.last_lsn.map_or(0, Lsn::get).max(life.pruned);
            let is_named = last >= life.acknowledged || found.verdict == Verdict::Lost;
            assert!(is_named, "{acts:?}, step {stop}: {found:?}");
            states += u64::from(found.verdict == Verdict::Lost);
        }
    }
    assert!(states > 50, "{states}");
}

#[test]
fn record_that_only_a_seal_confirms_is_missed() {
    let device = unclosed();
    device.remove_raw("live");
    let (newest, _) = named_ahead(&device).pop().unwrap();
    let start = usize::try_from(newest.data_start()).unwrap();
    device.edit(&newest.id.file_name(), |bytes| bytes[start..].fill(0));
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "it has not begun");
    let pred = newest.pred.unwrap().id.file_name();
    let (at, end, last) = *batches(&device, &pred).1.last().unwrap();
    device.edit(&pred, |bytes| bytes[at..end].fill(0));
    let found = judge(&device).unwrap();
    assert_eq!((found.verdict, found.last_lsn), (Verdict::Lost, Lsn::new(last - 1)), "{found:?}");
}

/// Programs without support for segments named ahead read the manifest first. It must make them
/// refuse the log before such a segment exists.
#[test]
fn manifest_says_that_segments_are_named_ahead_before_one_is() {
    let mut states = 0;
    each_power_cut(&WORKLOADS, 256, |_, device, what| {
        if !named_ahead(device).is_empty() {
            let slots = Manifest::decode_file(&device.bytes("manifest").unwrap());
            assert!(slots.iter().flatten().all(|slot| slot.names_ahead), "{what}: {slots:?}");
            states += 1;
        }
    });
    assert!(states > 100, "{states}");
}

/// A log of ten records whose last segments were named ahead; not closed.
fn unclosed() -> MemStorage {
    let device = MemStorage::new();
    let log: Bytes = open(&tiny(1).parity(None), &device).unwrap();
    for _ in 0..10 {
        log.append(&[7; 460]).unwrap();
    }
    let left = device.kill();
    assert_eq!(judge(&left).unwrap().verdict, Verdict::Clean);
    left
}

/// The content of the first batch's header is stored elsewhere too, so damage to it costs only the
/// records of that batch.
#[test]
fn damaged_first_batch_costs_no_other_record() {
    let device = unclosed();
    let segments = named_ahead(&device);
    assert!(segments.len() > 1, "{segments:?}");
    for (number, (header, _)) in segments.iter().enumerate() {
        let is_newest = number + 1 == segments.len();
        let at = usize::try_from(header.data_start()).unwrap();
        let changes: [fn(&mut [u8]); 3] = [
            |bytes| bytes[8..24].fill(0xA5),
            |bytes| bytes[..512].fill(0),
            |bytes| bytes[60..80].fill(0x11),
        ];
        for (change, spoil) in changes.into_iter().enumerate() {
            let damaged = device.kill();
            damaged.edit(&header.id.file_name(), |bytes| spoil(&mut bytes[at..]));
            let what = format!("segment {}, change {change}", header.id);
            let found = judge(&damaged).unwrap();
            let delivered = read(&damaged, true).unwrap();
            // The newest segment holds a single batch. If nothing confirms it, it looks like one
            // that was never acknowledged.
            if is_newest && found.damage.is_empty() {
                assert_eq!(found.records, header.base.get() - 1, "{what}: {found:?}");
                continue;
            }
            assert_eq!(found.damage.len(), 1, "{what}: {found:#?}");
            let lost = found.damage.iter().filter_map(|damage| damage.lost);
            let lost: Vec<_> = lost.map(|lost| (lost.from, lost.to)).collect();
            let first = (header.base, Some(header.base));
            // The frame after a damaged batch header is intact.
            let expected = if change == 0 { vec![] } else { vec![first] };
            assert_eq!(lost, expected, "{what}: {found:#?}");
            assert_eq!(delivered.records.len(), 10 - lost.len(), "{what}");
        }
    }
}

/// After a power cut, which loses `live`, only later batches show that the segment has begun. They
/// may be beyond the range that its first writes can cover.
#[test]
fn damage_to_all_that_the_first_writes_reach_hides_no_later_record() {
    let device = MemStorage::new();
    let options = tiny(1).parity(None).segment_size(40 * 512);
    let log: Bytes = open(&options, &device).unwrap();
    let window = |header: &SegmentHeader| tail::window(&batch::Life::of(header));
    let (header, last, start) = loop {
        let last = log.append(&[7; 460]).unwrap();
        let Some((header, true)) = named_ahead(&device).pop() else { continue };
        let start = usize::try_from(header.data_start()).unwrap();
        let bytes = device.bytes(&header.id.file_name()).unwrap();
        if bytes[start + window(&header) + 1024..].iter().any(|byte| *byte != 0) {
            break (header, last, start);
        }
    };
    let left = device.power_cut(|_| false);
    assert_eq!(judge(&left).unwrap().last_lsn, Some(last));
    left.remove_raw("live");
    left.edit(&header.id.file_name(), |bytes| bytes[start..start + window(&header)].fill(0));
    let found = judge(&left).unwrap();
    assert_eq!((found.verdict, found.last_lsn), (Verdict::Lost, Some(last)), "{found:?}");
    assert_eq!(found.damage[0].lost.unwrap().from, header.base, "{found:?}");
    drop(log);
}

/// If the preceding segment has lost its seal, its last record shows where the next one begins.
#[test]
fn damaged_first_batch_costs_no_other_record_without_the_seal_before_it() {
    let device = unclosed();
    let (header, _) = named_ahead(&device).remove(0);
    let pred = header.pred.unwrap().id.file_name();
    let block = usize::try_from(header.geometry.block).unwrap();
    device.edit(&pred, |bytes| bytes[3 * block..4 * block].fill(0));
    let at = usize::try_from(header.data_start()).unwrap();
    device.edit(&header.id.file_name(), |bytes| bytes[at + 8..at + 24].fill(0xA5));
    let found = judge(&device).unwrap();
    assert_eq!((found.damage.len(), found.verdict), (1, Verdict::Correctable), "{found:#?}");
    assert_eq!(read(&device, true).unwrap().records.len(), 10);
}

/// A log with a segment that was named ahead and has not begun.
fn prepared() -> (MemStorage, Bytes, SegmentHeader) {
    prepared_with(1)
}

/// The same, with random bits from `seed`.
fn prepared_with(seed: u64) -> (MemStorage, Bytes, SegmentHeader) {
    let device = MemStorage::new();
    let options = tiny(seed).preallocate(true).parity(None).segment_size(40 * 512);
    let log: Bytes = open(&options, &device).unwrap();
    let clock = SystemClock::new();
    loop {
        let newest = named_ahead(&device).pop().filter(|(_, has_begun)| !has_begun);
        let is_next = |(header, _): &(SegmentHeader, bool)| {
            let pred = device.bytes(&header.pred.unwrap().id.file_name()).unwrap();
            let has_room = pred[pred.len() - 1024..].iter().all(|byte| *byte == 0);
            has_room && header.id.get() == header.pred.unwrap().id.get() + 1
        };
        if let Some((header, _)) = newest.filter(is_next) {
            return (device, log, header);
        }
        log.append(&[7; 100]).unwrap();
        assert!(clock.now() < Duration::from_secs(60), "{:?}", device.names());
    }
}

#[test]
fn segment_that_has_not_begun_changes_nothing_for_readers_and_copies() {
    let (device, log, header) = prepared();
    let last = log.durable();
    let left = device.kill();
    let found = judge(&left).unwrap();
    assert_eq!((found.verdict, found.last_lsn), (Verdict::Clean, last), "{found:?}");
    let copy = MemStorage::new();
    let source: Arc<dyn Storage> = Arc::new(device.clone());
    let target: Arc<dyn Storage> = Arc::new(copy.clone());
    Maintenance::on(&source).back_up_to(&target).unwrap();
    assert!(!copy.names().contains(&header.id.file_name()), "{:?}", copy.names());
    assert_eq!(judge(&copy).unwrap().last_lsn, last);
    log.close().unwrap();
    assert!(!device.names().contains(&header.id.file_name()), "{:?}", device.names());
}

#[test]
fn segment_that_has_not_begun_counts_once_a_byte_of_it_has_changed() {
    let (device, log, header) = prepared();
    let last = log.durable();
    let left = device.kill();
    let (start, end) = (header.data_start(), header.size);
    let geometry = header.geometry;
    let marks = [u64::from(geometry.block), 2 * u64::from(geometry.block)];
    for at in (start..end).step_by(97) {
        let touched = left.kill();
        touched.edit(&header.id.file_name(), |bytes| bytes[usize::try_from(at).unwrap()] = 1);
        let found = judge(&touched).unwrap();
        let sound = matches!(found.verdict, Verdict::Torn | Verdict::Unsure);
        assert!(sound && found.last_lsn == last, "byte {at}: {found:?}");
    }
    for at in marks {
        // An invalid mark is not damage: a crash can leave one.
        let touched = left.kill();
        touched.edit(&header.id.file_name(), |bytes| bytes[usize::try_from(at).unwrap()] = 1);
        assert_eq!(judge(&touched).unwrap().verdict, Verdict::Clean);
    }
    let short = left.kill();
    short.edit(&header.id.file_name(), |bytes| bytes.truncate(bytes.len() - 1));
    assert_eq!(judge(&short).unwrap().verdict, Verdict::Lost);
    let alone = left.kill();
    alone.remove_raw(&header.pred.unwrap().id.file_name());
    assert_eq!(judge(&alone).unwrap().verdict, Verdict::Lost);
    drop(log);
}

/// The manifest says where the log begins, although the only readable segment has not begun.
#[test]
fn pruned_records_are_not_lost_if_only_a_segment_that_has_not_begun_is_left() {
    let (device, log, header) = prepared();
    log.truncate_before(log.durable().unwrap()).unwrap();
    let oldest = log.oldest();
    let left = device.kill();
    assert!(oldest > Lsn::FIRST && left.names().contains(&header.id.file_name()), "{oldest}");
    let (other, other_log, _) = prepared_with(9);
    let foreign = other.bytes("000000000001.seg").unwrap();
    left.edit(&header.pred.unwrap().id.file_name(), |bytes| *bytes = foreign);
    let found = judge(&left).unwrap();
    assert_eq!(found.verdict, Verdict::Lost);
    let lost = found.damage.iter().filter_map(|damage| damage.lost).map(|lost| lost.from).min();
    assert_eq!(lost, Some(oldest), "{found:?}");
    drop((log, other_log));
}

/// A crash may undo the removal of a segment, but never that of the segment alone: without its
/// table, the end of the segment would be ambiguous.
#[test]
fn table_of_a_segment_that_has_not_begun_goes_after_the_segment() {
    let (mut states, mut sample) = (0, Sample::one_in(5));
    for stop in 0..=steps(WORKLOADS[3], Level::Synced) {
        let life = run(WORKLOADS[3], Level::Synced, stop);
        for left in [life.device.kill(), life.device.power_cut(|_| false)] {
            let opening = left.kill();
            drop(open(&again(5), &opening));
            for open_stop in 0..=opening.steps() {
                let device = left.kill();
                device.stop_after(open_stop);
                drop(open(&again(5), &device));
                for (mask, cut) in
                    cuts(&device, stop, 16).into_iter().filter(|_| sample.takes_next())
                {
                    let what = format!("step {stop}, open stopped at {open_stop}, kept {mask:b}");
                    check(&life, &cut, Faults::None, &what);
                    states += 1;
                }
            }
        }
    }
    assert!(states > sample.least(1_000), "{states}");
}

/// If the tail before a segment that has begun is not clean, it may have held records.
#[test]
fn end_before_a_segment_that_has_begun_cannot_be_told_if_it_is_not_clean() {
    let (device, log, header) = prepared();
    log.append(&[7; 900]).unwrap();
    let left = device.kill();
    left.remove_raw("live");
    let pred = header.pred.unwrap().id.file_name();
    let end = usize::try_from(judge(&left).unwrap().tail_at.unwrap().1.0).unwrap();
    left.edit(&pred, |bytes| bytes[end - 600..end].fill(0));
    assert_eq!(judge(&left).unwrap().verdict, Verdict::Torn);
    let start = usize::try_from(header.data_start()).unwrap();
    left.edit(&header.id.file_name(), |bytes| bytes[start] = 1);
    assert_eq!(judge(&left).unwrap().verdict, Verdict::Unsure);
    drop(log);
}

/// The last clean close names a record whose sectors have since become zeros. In the segment after
/// it, a crash left a part of the first batch.
#[test]
fn record_that_the_last_close_names_is_missed_before_a_torn_first_batch() {
    let mut states = 0;
    each_power_cut(&[WORKLOADS[2], CLOSED_EARLY], 256, |_, left, what| {
        let Some(bytes) = left.bytes("manifest") else { return };
        let slots = Manifest::decode_file(&bytes).into_iter().flatten();
        let newest = slots.max_by_key(|slot| slot.sequence);
        let closed = newest.and_then(|slot| slot.closed);
        let Some(Closed { last: Some(last), segment }) = closed else { return };
        let file = segment.id.file_name();
        let (_, found) = batches(left, &file);
        let Some((at, end, _)) = found.into_iter().find(|batch| batch.2 == last.get()) else {
            return;
        };
        left.edit(&file, |bytes| bytes[at..end].fill(0));
        let found = judge(left).unwrap();
        let is_named = found.verdict == Verdict::Lost || found.last_lsn >= Some(last);
        assert!(is_named, "{what}, without {last}: {found:?}");
        let is_torn = |(header, has_begun): &(SegmentHeader, bool)| {
            let start = usize::try_from(header.data_start()).unwrap();
            let bytes = left.bytes(&header.id.file_name()).unwrap();
            let is_next = header.pred == Some(segment) && !has_begun;
            is_next && bytes[start..].iter().any(|byte| *byte != 0)
        };
        states += u64::from(named_ahead(left).last().is_some_and(is_torn));
    });
    assert!(states > 2, "{states}");
}

/// A thread names the next segment. Rotations by batches of any size, truncations and prunes find
/// it in use, too small or out of date.
#[test]
fn segments_named_by_a_thread_are_entered() {
    let device = MemStorage::new();
    let log: Bytes = open(&tiny(1).preallocate(true), &device).unwrap();
    let (clock, mut turn) = (SystemClock::new(), 0_usize);
    while log.stats().named_ahead < 40 {
        turn += 1;
        let last = log.append(&vec![7; turn * 37 % 961]).unwrap();
        match turn % 50 {
            13 => log.truncate_after(last.previous()).unwrap(),
            27 => drop(log.truncate_before(last).unwrap()),
            _ => {}
        }
        assert!(clock.now() < Duration::from_secs(60), "{:?}", log.stats());
    }
    let found = judge(&device.power_cut(|_| false)).unwrap();
    assert_eq!((found.verdict, found.last_lsn), (Verdict::Clean, log.durable()), "{found:?}");
    log.close().unwrap();
    let log: Bytes = open(&again(3), &device).unwrap();
    assert_eq!(log.append(b"after").unwrap(), found.last_lsn.map_or(Lsn::FIRST, Lsn::next));
}

#[test]
fn log_without_names_ahead_has_no_such_segment() {
    let device = MemStorage::new();
    let log: Bytes = open(&tiny(1).name_ahead(false), &device).unwrap();
    for _ in 0..20 {
        log.append(&[7; 460]).unwrap();
        assert_eq!(named_ahead(&device), []);
    }
    assert!(log.stats().rolls > 3);
}
