//! Readers beside a writer see every acknowledged record at once, and no record that a crash could
//! still lose.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::hooked::Hooked;
use common::lives::{Act, Life, cuts, live};
use common::mute::{Mute, Refused};
use common::sample::Sample;
use common::{
    Bytes, Found, GEOMETRY, KINDS, LAYOUTS, SEGMENT_MIN, Scratch, again, judge, laid_out, lsn,
    of_any_size, open, payload, payload_in, read, read_own, tiny, within,
};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, LogReader, Lsn, Maintenance, OpenMode, Options};
use seawall_format::SegmentId;
use seawall_io::Storage;
use seawall_testkit::MemStorage;

use Act::{Append, Confirm, Reopen, Set};

const WORKLOADS: [&[Act]; 4] = [
    &[Append(100), Set(&[60, 70, 80]), Confirm, Append(50)],
    &[Append(900), Append(500), Set(&[300, 300]), Append(600), Append(30)],
    &[Append(100), Reopen, Append(120), Reopen, Append(900), Append(40)],
    &[Append(960), Append(960), Append(960), Confirm],
];

/// The records that a reader on the same boot finds on a stopped device; none if there is no log.
fn seen(stopped: &MemStorage, what: &str) -> Found {
    match read(stopped, false) {
        Ok(found) => found,
        Err(Error::NotALog { .. }) => Found::default(),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Compares the records that a reader saw when the device stopped with those that each crash then
/// leaves. Returns the number of crashes.
fn compare(life: &Life, what: &str) -> u64 {
    // The reader syncs records that it shows and that nothing confirms.
    let read = life.device.kill();
    let shown = seen(&read, what);
    assert_eq!(shown.errors, 0, "{what}: a sound log, and a reader found damage");
    assert!(shown.is_prefix(), "{what}");
    assert!(shown.count() >= life.told, "{what}: acknowledged and not shown");
    for (found, written) in shown.records.values().zip(&life.submitted) {
        assert!(found == written, "{what}");
    }
    let mut states = 0;
    for (mask, left) in cuts(&read, 7, 256) {
        let left_there = open(&laid_out(again(1 << 30), life.layout), &left)
            .map_or(0, |log| read_own(&log).count());
        let shown = shown.count();
        assert!(left_there >= shown, "{what}, kept {mask:b}: {shown} shown, {left_there} left");
        states += 1;
    }
    states
}

#[test]
fn reader_sees_exactly_the_durable_records() {
    let mut states = 0;
    for (kind, acts) in KINDS.into_iter().flat_map(|kind| WORKLOADS.map(|acts| (kind, acts))) {
        let (level, layout) = kind;
        for stop in 0.. {
            let device = MemStorage::new();
            device.stop_after(stop);
            let life = live(&device, acts, level, &Life::unborn(layout));
            states += compare(&life, &format!("{acts:?} {kind:?}, step {stop}"));
            if life.error.is_none() {
                break;
            }
        }
    }
    println!("readers beside a first life: {states} states");
    assert!(states > 1_000, "{states}");
}

/// The image: the process died at some step, its unsynced writes are in the page cache, and `live`
/// is from this boot. The next process recovers while readers read.
#[test]
fn reader_during_a_recovery_sees_only_kept_records() {
    let (mut states, mut sample) = (0, Sample::one_in(4));
    for (layout, acts) in LAYOUTS.into_iter().flat_map(|l| WORKLOADS.map(|acts| (l, acts))) {
        for first_stop in (0..).step_by(3) {
            let device = MemStorage::new();
            device.stop_after(first_stop);
            let first = live(&device, acts, Level::Synced, &Life::unborn(layout));
            for second_stop in 0.. {
                let again = device.kill();
                again.stop_after(second_stop);
                let second = live(&again, &[Append(200)], Level::Synced, &first);
                let what = format!(
                    "{acts:?} {layout:?}, step {first_stop}, killed, then step {second_stop}"
                );
                if sample.takes_next() {
                    states += compare(&second, &what);
                }
                if second.error.is_none() {
                    break;
                }
            }
            if first.error.is_none() {
                break;
            }
        }
    }
    println!("readers beside a recovery: {states} states");
    assert!(states > sample.least(5_000), "{states}");
}

/// Found by simulation. The image: one recovery created a segment and died before it named it. The
/// next one created another, named it and died. `live` is from the process before them.
#[test]
fn reader_during_a_second_recovery_sees_no_damage() {
    let mut states = 0;
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let acts = [Append(100), Append(300)];
        let life = live(&device, &acts, Level::Synced, &Life::unborn(layout));
        assert_eq!(life.told, 2);
        let dies = |device: &MemStorage, stop| {
            let dying = device.kill();
            dying.stop_after(stop);
            let opened = open(&laid_out(again(stop + 3), layout), &dying);
            let is_over = opened.is_ok();
            (dying.kill(), is_over)
        };
        for first in 0.. {
            let (once, is_over) = dies(&life.device, first);
            for second in 0.. {
                let (twice, is_over) = dies(&once, second);
                let what = format!("{layout:?}, step {first}, then step {second}");
                let shown = seen(&twice, &what);
                assert_eq!((shown.count(), shown.errors), (2, 0), "{what}");
                states += 1;
                if is_over {
                    break;
                }
            }
            if is_over {
                break;
            }
        }
    }
    println!("readers beside a second recovery: {states} states");
    assert!(states > 500, "{states}");
}

/// A killed log of four records, with nothing after the last one.
fn killed() -> MemStorage {
    let device = MemStorage::new();
    let acts = [Append(100), Append(900), Append(500), Append(20)];
    let life = live(&device, &acts, Level::Synced, &Life::unborn(Layout::Binary));
    assert_eq!(life.acknowledged, 4);
    device
}

#[test]
fn damaged_live_file_falls_back_to_the_decision_table() {
    let sound = killed().bytes("live").unwrap();
    for length in 0..sound.len() {
        let device = killed();
        device.edit("live", |bytes| bytes.truncate(length));
        assert_eq!(read(&device, false).unwrap().count(), 4, "cut to {length}");
    }
    for bit in 0..sound.len() * 8 {
        let device = killed();
        device.edit("live", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert_eq!(read(&device, false).unwrap().count(), 4, "bit {bit}");
    }
    let device = killed();
    device.remove_raw("live");
    assert_eq!(read(&device, false).unwrap().count(), 4);
}

#[test]
fn live_file_of_another_boot_is_ignored() {
    let device = killed();
    let of_this_boot = device.bytes("live").unwrap();
    let rebooted = device.power_cut(|_| true);
    rebooted.edit("live", |bytes| bytes.clone_from(&of_this_boot));
    assert_eq!(read(&rebooted, false).unwrap().count(), 4);
    // `live` says 4, but the record written after them on the other boot is shown.
    let log = open(&again(3), &rebooted).unwrap();
    log.append(&payload(5, 2, 30)).unwrap();
    // There is no clean close: it would outrank `live`, whatever the boot.
    let killed = rebooted.kill();
    drop(log);
    for left in [killed, rebooted] {
        left.edit("live", |bytes| bytes.clone_from(&of_this_boot));
        assert_eq!(read(&left, false).unwrap().count(), 5);
    }
}

#[test]
fn record_of_a_set_says_that_the_set_continues() {
    let device = MemStorage::new();
    let acts = [Append(10), Set(&[20, 30, 40]), Set(&[50, 60])];
    assert!(live(&device, &acts, Level::Synced, &Life::unborn(Layout::Binary)).error.is_none());
    let reader = LogReader::open_any_in(Arc::new(device)).unwrap();
    let mut cursor = reader.cursor(Lsn::FIRST).unwrap();
    let mut found = vec![];
    while let Some(record) = cursor.next_record().unwrap() {
        found.push(record.goes_on);
    }
    assert_eq!(found, [false, true, true, false, true, false]);
}

/// Once its log is closed, another handle may change the log.
#[test]
fn cursor_of_a_closed_log_is_told_of_what_another_handle_pruned() {
    let device = MemStorage::new();
    let fill = |log: &Bytes, numbers: std::ops::RangeInclusive<u64>| {
        numbers.for_each(|number| log.append(&payload(number, 1, 300)).map(drop).unwrap());
    };
    let log = open(&tiny(1), &device).unwrap();
    fill(&log, 1..=40);
    let mut cursor = log.cursor(Lsn::FIRST).unwrap();
    cursor.next_record().unwrap().unwrap();
    log.close().unwrap();
    let log = open(&again(2), &device).unwrap();
    fill(&log, 41..=80);
    let oldest = log.truncate_before(lsn(60)).unwrap();
    let told = loop {
        match cursor.next_record() {
            Ok(record) => assert!(record.unwrap().lsn < oldest),
            Err(told) => break told,
        }
    };
    assert!(matches!(told, Error::Pruned { oldest: now, .. } if now == oldest), "{told:?}");
}

#[test]
fn verify_during_a_write_reports_a_clean_log() {
    let device = MemStorage::new();
    let log = open(&again(1), &device).unwrap();
    for number in 1..=8 {
        log.append(&payload(number, 1, 300)).unwrap();
        let found = judge(&device).unwrap();
        assert_eq!((found.verdict, found.records), (Verdict::Clean, number));
        assert!(found.summary.in_use);
    }
}

/// Many rotations on a real file system, with readers that never stop reading.
#[test]
fn readers_of_a_fast_writer_see_a_growing_prefix() {
    within(30, || {
        let scratch = Scratch::new("readers");
        let options = Options::new().geometry(GEOMETRY, SEGMENT_MIN).segment_size(10 * 512);
        let log: Bytes = options.open_in(scratch.storage()).unwrap();
        let (acknowledged, reads) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while acknowledged.load(Ordering::SeqCst) < RECORDS {
                        read_beside(&scratch, &acknowledged);
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for number in 1..=RECORDS {
                // However slow the readers are, they read while the log grows.
                while reads.load(Ordering::Relaxed) < number / (RECORDS / 6) {
                    std::thread::yield_now();
                }
                let size = usize::try_from(number % 500).unwrap();
                assert_eq!(log.append(&payload(number, 1, size)).unwrap().get(), number);
                acknowledged.store(number, Ordering::SeqCst);
            }
        });
        println!("{reads:?} reads beside {RECORDS} appends");
    });
}

const RECORDS: u64 = 600;

fn read_beside(scratch: &Scratch, acknowledged: &AtomicU64) {
    let before = acknowledged.load(Ordering::SeqCst);
    let reader = LogReader::open_any_in(Arc::clone(&scratch.storage())).unwrap();
    let found = Found::take(reader.read_from(Lsn::FIRST).unwrap()).unwrap();
    assert_eq!(found.errors, 0, "{:?}", found.lost);
    assert!(found.is_prefix());
    assert!(found.count() >= before, "{} of {before}", found.count());
    for (number, bytes) in &found.records {
        let size = usize::try_from(number % 500).unwrap();
        assert!(*bytes == payload(*number, 1, size), "record {number}");
    }
}

/// A log with one record per segment, and the content of `live` after the first record.
fn with_stale_live(records: u64) -> (MemStorage, Bytes, Vec<u8>) {
    let device = MemStorage::new();
    let log = open(&again(1), &device).unwrap();
    let append = |number: u64| log.append(&payload(number, 1, 900)).unwrap();
    append(1);
    let stale = device.bytes("live").unwrap();
    (2..=records).for_each(|number| assert_eq!(append(number).get(), number));
    (device, log, stale)
}

/// Found by simulation. Rotation frees the space after the last batch of the segment that a reader
/// takes for the newest. Without `live`, the reader looks again before it reports damage.
#[test]
fn rotation_is_never_damage_to_a_reader_without_live() {
    for at in 0..40 {
        let device = MemStorage::new();
        let log = open(&again(1), &device).unwrap();
        let append = move |numbers: std::ops::RangeInclusive<u64>| {
            for number in numbers {
                log.append(&payload(number, 1, 200)).unwrap();
            }
        };
        append(1..=2);
        device.edit("live", Vec::clear);
        device.refuse_writes("live", true);
        let beside = device.clone();
        let (hooked, hook) = Hooked::new(device.clone(), at, move || {
            // The seal cannot be written either.
            beside.refuse_writes("000000000001.seg", true);
            append(3..=9);
        });
        let reader = LogReader::open_any_in(Arc::new(hooked)).unwrap();
        let found = Found::take(reader.read_from(Lsn::FIRST).unwrap()).unwrap();
        assert_eq!(found.errors, 0, "look {at}: {:?}", found.lost);
        assert!(found.is_prefix() && found.count() >= 2, "look {at}");
        assert!(
            device.names().iter().filter(|name| name.contains(".seg")).count() > 1
                || hook.is_waiting()
        );
    }
}

/// Found by simulation. The image: a closed log with a stale `live` that lost its newest file.
#[test]
fn lost_record_of_a_clean_close_is_damage_despite_a_stale_live() {
    let (device, log, stale) = with_stale_live(9);
    log.close().unwrap();
    device.edit("live", |bytes| bytes.clone_from(&stale));
    let newest = device.names().into_iter().rfind(|name| name.contains(".seg"));
    device.remove_raw(&newest.unwrap());
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Lost);
    let found = read(&device, true).unwrap();
    assert_eq!((found.count(), found.errors), (7, 1));
    let reader = LogReader::open_any_in(Arc::new(device)).unwrap();
    assert!(matches!(reader.get(Lsn::new(9).unwrap()), Err(Error::Damaged { .. })));
    assert!(reader.get(Lsn::new(7).unwrap()).unwrap().is_some());
}

/// Found by simulation. The image: a closed log with a stale `live` that lost its manifest, and
/// with it the close.
#[test]
fn lost_manifest_and_stale_live_leave_the_end_unknown() {
    let (device, log, stale) = with_stale_live(9);
    log.close().unwrap();
    let open_ended = |device: &MemStorage| {
        let reader = LogReader::open_any_in(Arc::new(device.clone())).unwrap();
        let last = reader.read_from(Lsn::FIRST).unwrap().last().unwrap();
        let Err(Error::Damaged { damage, .. }) = last else { panic!("{last:?}") };
        damage.lost.map(|lost| (lost.from.get(), lost.to))
    };
    device.edit("live", |bytes| bytes.clone_from(&stale));
    device.remove_raw("manifest");
    assert_eq!(open_ended(&device), Some((10, None)));
    // Beside a running writer, `live` is trusted.
    let (device, _log, _) = with_stale_live(9);
    device.remove_raw("manifest");
    assert_eq!(open_ended(&device), None);
}

/// The image: a recovery rewrote records that nothing confirmed, and could not write `live`. The
/// disk then lost the old bytes, which only the page cache had.
#[test]
fn stale_live_leads_to_the_segment_rewritten_by_recovery() {
    let device = killed();
    let stale = device.bytes("live").unwrap();
    let place = |device: &MemStorage, name: &String| {
        let last = payload(4, 1, 20);
        device.bytes(name).unwrap().windows(20).position(|part| part == last)
    };
    let names = device.names();
    let log = open(&again(2), &device).unwrap();
    let left = device.kill();
    left.edit("live", |bytes| bytes.clone_from(&stale));
    let old = names.iter().find(|name| place(&left, name).is_some()).unwrap();
    let at = place(&left, old).unwrap();
    left.edit(old, |bytes| bytes[at - 56..].fill(0));
    assert_eq!(shown(&left, 4), 4);
    drop(log);
}

/// The image: a sync failed, and the writer continued with the records of that block in a new
/// segment, perhaps at the second attempt, but has not published it yet. Then the new segment is
/// lost.
#[test]
fn segment_lost_before_it_was_published_is_missed() {
    for failing in [1, 2] {
        let device = MemStorage::new();
        let log = open(&again(1), &device).unwrap();
        let append = |number: u64| log.append(&payload(number, 1, 50)).unwrap();
        (1..=3).for_each(|number| assert_eq!(append(number).get(), number));
        let told = device.bytes("live").unwrap();
        (0..failing).for_each(|nth| device.fail_sync(nth, |_| false));
        append(4);
        let left = device.kill();
        left.edit("live", |bytes| bytes.clone_from(&told));
        let _lock = left.lock_file("live").unwrap().unwrap();
        let names = left.names();
        let newest = names.iter().rfind(|name| name.contains(".seg")).unwrap();
        if failing == 2 {
            // The file of the first attempt could not be removed.
            left.copy_raw(newest, "000000000002.seg");
        }
        assert_eq!(shown(&left, 4), 4, "{failing}");
        left.remove_raw(newest);
        let found = read(&left, true).unwrap();
        assert_eq!(found.errors, 1, "{failing}: {found:?}");
        drop(log);
    }
}

/// The image: nothing names the newest segment, so a recovery rewrote all of it and removed it. The
/// recovery could not write `live`, which still names that segment.
#[test]
fn stale_live_that_names_a_rewritten_segment_is_no_damage() {
    for records in [2, 5] {
        let (device, log, _) = with_stale_live(records);
        let died = device.kill();
        drop(log);
        let names = died.names();
        let segments: Vec<_> = names.iter().filter(|name| name.contains(".seg")).collect();
        let [.., pred, _] = segments[..] else { panic!("{names:?}") };
        died.edit(pred, |bytes| bytes[3 * 512..4 * 512].fill(0));
        died.refuse_writes("live", true);
        let log = open(&again(2), &died).unwrap();
        assert!(names.iter().any(|name| !died.names().contains(name)), "one was removed");
        assert_eq!(shown(&died, records), records);
        drop(log);
    }
}

/// Returns how many records a separate reader shows, and checks that reading in order and by LSN
/// agree and find no damage.
fn shown(device: &MemStorage, last: u64) -> u64 {
    let found = read(device, false).unwrap();
    assert_eq!(found.errors, 0);
    let reader = LogReader::open_any_in(Arc::new(device.clone())).unwrap();
    for number in 1..=last {
        let got = reader.get(Lsn::new(number).unwrap()).unwrap();
        assert_eq!(got.as_ref(), found.records.get(&number), "record {number}");
    }
    found.count()
}

/// Found by corruption tests. The image: the writer died, and `live` is a copy of another log's,
/// from the same boot.
#[test]
fn live_file_of_another_log_is_ignored() {
    for layout in LAYOUTS {
        let logs = [1, 2].map(|seed| {
            let device = MemStorage::new();
            let log = open(&laid_out(of_any_size(seed), layout), &device).unwrap();
            let records = 3 * seed;
            for number in 1..=records {
                log.append(&payload_in(layout, (number, 1), 40)).unwrap();
            }
            device.kill()
        });
        let [foreign, died] = &logs;
        let word = foreign.bytes("live").unwrap();
        died.edit("live", |bytes| bytes.clone_from(&word));
        assert_eq!(shown(died, 6), 6, "{layout:?}");
        let log = open(&laid_out(of_any_size(3), layout), died).unwrap();
        assert_eq!(shown(died, 6), 6, "{layout:?}, beside a writer that wrote nothing yet");
        drop(log);
    }
}

/// Found by simulation. The image: `live` can be neither written nor removed. A truncation that
/// cannot be published to readers is refused.
#[test]
fn truncation_that_cannot_be_published_is_refused() {
    for (records, kept) in [(3, 1), (9, 2), (9, 8), (9, 0)] {
        let device = MemStorage::new();
        let mute = Mute::new(device.clone());
        let log: Bytes = again(1).open_in(Arc::new(mute.clone())).unwrap();
        let append = |number: u64| log.append(&payload(number, 1, 900)).unwrap().get();
        (1..records).for_each(|number| assert_eq!(append(number), number));
        mute.refuse(Refused::All);
        assert_eq!(append(records), records);
        let names = device.names();
        let refused = log.truncate_after(Lsn::new(kept)).unwrap_err();
        assert!(refused.to_string().contains("live"), "{refused}");
        assert_eq!((read_own(&log).count(), device.names()), (records, names));
        assert_eq!(shown(&device, records), records);
        assert_eq!(append(records + 1), records + 1);
        mute.refuse(Refused::Nothing);
        log.truncate_after(Lsn::new(kept)).unwrap();
        mute.refuse(Refused::All);
        assert_eq!(append(kept + 1), kept + 1);
        assert_eq!(shown(&device, kept + 1), kept + 1, "nothing of what was cut");
        log.close().unwrap();
        assert_eq!(shown(&device, kept + 1), kept + 1);
    }
}

/// Found by simulation. The image: a clean close, a truncation, a record, and another truncation
/// that died after it lowered `live`. The newest segment is lost, and the close names the segment
/// that the first truncation ended.
#[test]
fn close_before_a_truncation_shows_no_truncated_record() {
    let (device, log, _) = with_stale_live(3);
    let lowered = device.bytes("live").unwrap();
    log.append(&payload(4, 1, 50)).unwrap();
    log.append(&payload(5, 1, 50)).unwrap();
    log.close().unwrap();
    let log = open(&again(2), &device).unwrap();
    log.truncate_after(Lsn::new(4)).unwrap();
    log.append(&payload(5, 2, 60)).unwrap();
    let names = device.names();
    let newest = names.iter().rfind(|name| name.contains(".seg")).unwrap();
    let left = device.kill();
    left.edit("live", |bytes| bytes.clone_from(&lowered));
    left.remove_raw(newest);
    let found = read(&left, true).unwrap();
    assert_eq!((found.records.get(&5), found.errors), (None, 1), "{found:?}");
    drop(log);
}

/// The image: a writer acknowledged three records and was killed, and then the last batch lost a
/// bit. Its `live` proves that the record existed, so this is damage for a reader, `verify`, an
/// open, the plan of a repair and a salvage alike. After a reboot, `live` proves nothing.
#[test]
fn record_that_live_names_is_missed_by_all_alike() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let log = open(&laid_out(again(1), layout), &device).unwrap();
        (1..=3).for_each(|number| {
            log.append(&payload_in(layout, (number, 1), 50)).unwrap();
        });
        let left = device.kill();
        let (segment, end) = judge(&left).unwrap().tail_at.unwrap();
        let (names, end) = (left.names(), usize::try_from(end.0).unwrap());
        let of_segment = |name: &&String| SegmentId::from_any_name(name) == Some(segment);
        left.edit(names.iter().rfind(of_segment).unwrap(), |bytes| bytes[end - 12] ^= 1);
        let found = judge(&left).unwrap();
        assert_eq!(found.verdict, Verdict::Lost, "{layout:?}: {found:?}");
        assert_eq!(found.last_lsn, Lsn::new(2), "{layout:?}");
        let read_by_all = read(&left.kill(), true).unwrap();
        assert_eq!((read_by_all.records.len(), read_by_all.errors), (2, 1), "{layout:?}");
        let storage: Arc<dyn Storage> = Arc::new(left.kill());
        let plan = Maintenance::on(&storage).plan_truncation().unwrap();
        assert_eq!((plan.last, plan.damage.len()), (Lsn::new(2), 1), "{layout:?}: {plan:?}");
        for mode in [OpenMode::Standard, OpenMode::Strict] {
            let found = open(&laid_out(again(2), layout).mode(mode), &left);
            assert!(matches!(found, Err(Error::Damaged { .. })), "{layout:?}: {found:?}");
        }
        let salvaged = left.kill();
        let log = open(&laid_out(again(2), layout).mode(OpenMode::Salvage), &salvaged).unwrap();
        let next = log.append(&payload_in(layout, (4, 1), 50)).unwrap();
        assert_eq!(next, Lsn::new(4).unwrap(), "{layout:?}: the number of the lost record");
        log.close().unwrap();
        assert_eq!(judge(&salvaged).unwrap().verdict, Verdict::Lost, "{layout:?}: named for good");
        let rebooted = left.power_cut(|_| true);
        let found = judge(&rebooted).unwrap().verdict;
        assert!(found == Verdict::Unsure || found == Verdict::Torn, "{layout:?}: {found:?}");
        open(&laid_out(again(3), layout), &rebooted).unwrap();
    }
}

/// The image: `live` says more records than are left. An open refuses the log. A repair that cuts
/// it there reuses their LSNs: it publishes the end to readers first, or fails.
#[test]
fn end_is_published_before_lsns_of_lost_records_are_reused() {
    let device = MemStorage::new();
    let log = open(&again(1), &device).unwrap();
    for number in 1..=4 {
        log.append(&payload(number, 1, 50)).unwrap();
    }
    let died = device.kill();
    let at = 4 * 512 + usize::try_from(GEOMETRY.reach).unwrap() + 2 * (48 + 64);
    died.edit("000000000001.seg", |bytes| bytes[at..].fill(0));
    for mode in [OpenMode::Standard, OpenMode::Strict] {
        let found = open(&again(2).mode(mode), &died);
        assert!(matches!(found, Err(Error::Damaged { .. })), "{mode:?}: {found:?}");
    }
    let refused = died.kill();
    let mute = Mute::new(refused.clone());
    mute.refuse(Refused::All);
    let muted: Arc<dyn Storage> = Arc::new(mute);
    let error = Maintenance::on(&muted).truncate_damaged_tail().unwrap_err();
    assert!(error.to_string().contains("live"), "{error}");
    assert_eq!(refused.bytes("000000000001.seg"), died.bytes("000000000001.seg"));
    let device: Arc<dyn Storage> = Arc::new(died.clone());
    let cut = Maintenance::on(&device).truncate_damaged_tail().unwrap();
    assert_eq!((cut.last, cut.damage.len()), (Lsn::new(2), 1));
    let log = open(&again(2), &died).unwrap();
    assert_eq!(log.durable(), Lsn::new(2));
    assert_eq!(shown(&died, 2), 2);
    assert_eq!(log.append(&payload(3, 2, 70)).unwrap().get(), 3);
    assert_eq!(shown(&died, 3), 3);
    drop(log);
}

/// Found by simulation. The image: the writer has no `live`, as on a system without a boot id, and
/// it appends more between two calls of the reader.
#[test]
fn reader_of_a_writer_without_live_finds_no_damage() {
    // More small records fit in the segment. Large ones cause a rotation, which frees the space
    // after the last batch of the old segment.
    for (layout, size) in LAYOUTS.into_iter().flat_map(|layout| [(layout, 40), (layout, 960)]) {
        for what in 0..3 {
            for at in 0.. {
                let device = MemStorage::new();
                let log = open(&laid_out(again(1), layout), &device).unwrap();
                let append = move |number: u64| {
                    log.append(&payload_in(layout, (number, 1), size)).unwrap();
                };
                (1..=3).for_each(&append);
                device.remove_raw("live");
                let more = move || (4..=12).for_each(&append);
                let (hooked, hook) = Hooked::new(device.clone(), at, more);
                let hooked: Arc<dyn Storage> = Arc::new(hooked);
                let there = match what {
                    0 => {
                        let reader = LogReader::open_any_in(hooked).unwrap();
                        let found = Found::take(reader.read_from(Lsn::FIRST).unwrap()).unwrap();
                        assert_eq!(found.errors, 0, "{layout:?}, {size} bytes, look {at}");
                        found.count()
                    }
                    1 => {
                        let found = Maintenance::on(&hooked).verify().unwrap();
                        assert!(
                            found.damage.is_empty(),
                            "{layout:?}, {size} bytes, look {at}: {found:?}"
                        );
                        found.records
                    }
                    _ => {
                        let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
                        Maintenance::on(&hooked).back_up_to(&target).unwrap().last.unwrap().get()
                    }
                };
                assert!(there >= 3, "{there}");
                if hook.is_waiting() {
                    break;
                }
            }
        }
    }
}
