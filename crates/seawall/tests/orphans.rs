//! Orphan files: a file with the name of a segment that never was one costs no record if a clean
//! close proves that the log ends before it. Otherwise it is damage.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::watched::{Call, Watch, Watched};
use common::{Bytes, LAYOUTS, Scratch, again, judge, laid_out, open, payload_in, read, tiny};
use seawall::format::SegmentId;
use seawall::verify::{OrphanKind, Verdict};
use seawall::{Error, Layout, Lsn, Maintenance, OpenMode};
use seawall_io::{PosixStorage, Storage};
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The highest segment number, which no log reaches.
const HUGE: u64 = u64::MAX;

fn append(log: &Bytes, layout: Layout, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        log.append(&payload_in(layout, (number, 1), 300)).unwrap();
    }
}

/// A log of twelve records in several segments, closed.
fn closed(layout: Layout, seed: u64) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&laid_out(tiny(seed), layout), &device).unwrap();
    append(&log, layout, 1..=12);
    log.close().unwrap();
    device
}

fn again_in(layout: Layout) -> seawall::Options {
    laid_out(again(2), layout)
}

/// The name of the file with the header of a segment.
fn head(layout: Layout, id: u64) -> String {
    let id = SegmentId::new(id).unwrap();
    if layout == Layout::Text { id.head_name() } else { id.file_name() }
}

fn newest(device: &MemStorage) -> u64 {
    let ids = device.names().into_iter().filter_map(|name| SegmentId::from_file_name(&name));
    ids.max().unwrap().get()
}

fn make(device: &MemStorage, name: &str, bytes: &[u8]) {
    let file = device.create(name).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    device.sync_dir().unwrap();
}

/// Copies all files of a segment to another segment number, perhaps in another log.
fn copy_files((from, to): (&MemStorage, &MemStorage), (segment, number): (u64, u64)) {
    for name in from.names() {
        let id = SegmentId::from_any_name(&name).map(SegmentId::get);
        if id == Some(segment) && !name.ends_with(".parity") {
            let new = name.replace(&format!("{segment:012}"), &format!("{number:012}"));
            make(to, &new, &from.bytes(&name).unwrap());
        }
    }
}

type Stray = (&'static str, OrphanKind, Box<dyn Fn(&MemStorage, u64)>);

/// Orphan files that may appear in a log's directory under the name of a segment.
fn strays(layout: Layout) -> Vec<Stray> {
    let foreign = closed(layout, 99);
    let first = SegmentId::FIRST;
    vec![
        (
            "an empty file",
            OrphanKind::Empty,
            Box::new(move |log, id| {
                make(log, &head(layout, id), b"");
            }),
        ),
        (
            "zeros",
            OrphanKind::Empty,
            Box::new(move |log, id| {
                make(log, &head(layout, id), &[0; 300_000]);
            }),
        ),
        ("a copy", OrphanKind::Copy(first), Box::new(|log, id| copy_files((log, log), (1, id)))),
        (
            "of another log",
            OrphanKind::Foreign,
            Box::new(move |log, id| {
                copy_files((&foreign, log), (1, id));
            }),
        ),
    ]
}

#[test]
fn orphan_after_a_closed_log_is_reported_and_costs_nothing() {
    for layout in LAYOUTS {
        for (what, kind, put) in strays(layout) {
            let sound = closed(layout, 1);
            for id in [newest(&sound) + 1, 99, HUGE] {
                let what = format!("{what} as {id} in {layout:?}");
                let device = sound.kill();
                put(&device, id);
                let found = judge(&device).unwrap();
                let orphans: Vec<_> =
                    found.orphans.iter().map(|one| (one.segment.get(), one.kind)).collect();
                assert_eq!((found.verdict, found.records), (Verdict::Clean, 12), "{what}");
                assert_eq!(orphans, [(id, kind)], "{what}");
                assert_eq!((read(&device, false).unwrap().count(), found.damage), (12, vec![]));
                let orphan = found.orphans.into_iter().next().unwrap();
                let bytes: Vec<_> = orphan.files.iter().map(|file| device.bytes(file)).collect();

                let log = open(&again_in(layout), &device).unwrap();
                let warnings = &log.recovery().warnings;
                assert!(warnings.iter().any(|told| told.contains(&head(layout, id))), "{what}");
                append(&log, layout, 13..=30);
                let left = device.power_cut(|_| false);
                drop(log);
                assert_eq!(read(&left, false).unwrap().count(), 30, "{what}");
                assert_eq!(judge(&left).unwrap().orphans, vec![], "{what}");
                for (file, bytes) in orphan.files.iter().zip(bytes) {
                    let is_it = |name: &String| {
                        name.starts_with("quarantine/") && name.ends_with(file.as_str())
                    };
                    let kept = left.names().into_iter().find(is_it);
                    assert_eq!(kept.and_then(|kept| left.bytes(&kept)), bytes, "{what}");
                }
            }
        }
    }
}

#[test]
fn repair_quarantines_an_orphan_and_copy_omits_it() {
    for layout in LAYOUTS {
        for (what, _, put) in strays(layout) {
            let device = closed(layout, 1);
            put(&device, 99);
            let log: Arc<dyn Storage> = Arc::new(device.clone());
            let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
            Maintenance::on(&log).back_up_to(&target).unwrap();
            let copied = Maintenance::on(&target).verify().unwrap();
            assert_eq!((copied.records, copied.orphans), (12, vec![]), "{what}");
            assert!(!target.list().unwrap().contains(&head(layout, 99)), "{what}");
            let done = Maintenance::on(&log).repair().unwrap();
            let orphans = done.before.orphans.iter().flat_map(|orphan| orphan.files.clone());
            assert_eq!(done.orphan_files, orphans.collect::<Vec<_>>(), "{what}");
            assert_eq!((done.after.verdict, done.after.records), (Verdict::Clean, 12), "{what}");
            assert_eq!(judge(&device).unwrap().orphans, vec![], "{what}");
        }
    }
}

/// The images: the same files after a log that continues, or may have continued, after its last
/// clean close.
#[test]
fn file_that_may_have_been_a_segment_is_damage() {
    for layout in LAYOUTS {
        for (what, _, put) in strays(layout) {
            for (state, device) in doubtful(layout) {
                let what = format!("{what}, {state}, {layout:?}");
                let before = judge(&device).unwrap();
                put(&device, 99);
                let found = judge(&device).unwrap();
                assert_eq!((found.verdict, found.orphans), (Verdict::Lost, vec![]), "{what}");
                let lost = found.damage.last().and_then(|damage| damage.lost).unwrap();
                assert!(lost.to.is_none() && Some(lost.from.previous()) <= Some(before.last_lsn));
                let refused = open(&again_in(layout), &device);
                assert!(matches!(refused, Err(Error::Damaged { .. })), "{what}: {refused:?}");
                assert!(device.names().contains(&head(layout, 99)), "{what}");
            }
        }
    }
}

/// Logs without a clean close, or whose newest segment changed after it.
fn doubtful(layout: Layout) -> Vec<(&'static str, MemStorage)> {
    let never = MemStorage::new();
    let log = open(&laid_out(tiny(1), layout), &never).unwrap();
    append(&log, layout, 1..=3);
    let never = never.kill();
    drop(log);
    let grown = closed(layout, 1);
    let log = open(&again_in(layout), &grown).unwrap();
    append(&log, layout, 13..=13);
    let grown = grown.kill();
    drop(log);
    let sealed = closed(layout, 1);
    let name = head(layout, newest(&sealed));
    // A torn seal may have named a segment.
    sealed.edit(&name, |bytes| drop(bytes.splice(3 * 512 + 20..3 * 512 + 21, [1])));
    let headless = closed(layout, 1);
    let gone = newest(&headless);
    for name in headless.names() {
        if SegmentId::from_any_name(&name).map(SegmentId::get) == Some(gone) {
            headless.remove_raw(&name);
        }
    }
    let torn = closed(layout, 1);
    let data = torn
        .names()
        .into_iter()
        .filter(|name| SegmentId::from_any_name(name).map(SegmentId::get) == Some(newest(&torn)));
    let data = data.max().unwrap();
    torn.edit(&data, |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 24;
        bytes.resize(bytes.len().max(end + 8), 0);
        bytes.splice(end..=end, [7]);
    });
    vec![
        ("never closed", never),
        ("gone on since", grown),
        ("a torn seal", sealed),
        ("the newest is missing", headless),
        ("bytes behind the end", torn),
    ]
}

#[test]
fn file_with_its_own_records_is_not_an_orphan() {
    for layout in LAYOUTS {
        type Put = fn(&MemStorage, Layout);
        let puts: [(&str, Put); 4] = [
            ("one byte", |log, layout| {
                let mut bytes = vec![0; 100_000];
                bytes[99_999] = 1;
                make(log, &head(layout, 99), &bytes);
            }),
            ("parity beside it", |log, layout| {
                make(log, &head(layout, 99), b"");
                make(log, "000000000099.parity", b"SEAWALLP");
            }),
            ("a text beside it", |log, _| {
                make(log, "000000000099.head", b"");
                make(log, "000000000099.jsonl", b"{\"lsn\":13}\n");
            }),
            ("a number beside an orphan", |log, layout| {
                make(log, &head(layout, 98), b"something");
                make(log, &head(layout, 99), b"");
            }),
        ];
        for (what, put) in puts {
            let device = closed(layout, 1);
            put(&device, layout);
            let found = judge(&device).unwrap();
            assert_eq!((found.verdict, found.orphans), (Verdict::Lost, vec![]), "{what}");
        }
    }
}

/// The image: after a clean close, the log was opened again, the device refused every write to the
/// newest segment, its seal included, and the two segments with later records lost their content.
#[test]
fn orphans_after_an_open_leave_the_end_ambiguous() {
    for layout in LAYOUTS {
        for is_cut_to_nothing in [false, true] {
            let device = closed(layout, 1);
            let last = newest(&device);
            let log = open(&again_in(layout), &device).unwrap();
            for name in files_of(&device, last) {
                device.refuse_writes(&name, true);
            }
            append(&log, layout, 13..=14);
            let left = device.power_cut(|_| false);
            drop(log);
            assert_eq!(judge(&left).unwrap().last_lsn, Lsn::new(14), "{layout:?}");
            let above = last + 1..=newest(&left);
            for name in above.flat_map(|id| files_of(&left, id)) {
                left.edit(&name, |bytes| {
                    bytes.fill(0);
                    bytes.truncate(if is_cut_to_nothing { 0 } else { usize::MAX });
                });
            }
            let found = judge(&left).unwrap();
            assert_eq!((found.verdict, found.records), (Verdict::Unsure, 12), "{layout:?}");
            assert!(found.orphans.iter().all(|one| one.kind == OrphanKind::Empty), "{layout:?}");
            let strict = again_in(layout).mode(OpenMode::Strict);
            let refused = open(&strict, &left);
            assert!(matches!(refused, Err(Error::Ambiguous { .. })), "{layout:?}: {refused:?}");
        }
    }
}

/// The names of a segment's files.
/// Counts the bytes that are read.
#[derive(Debug, Default)]
struct BytesRead(AtomicUsize);

impl Watch for BytesRead {
    fn before(&self, _: Call) {}

    fn was_read(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn hole_of_an_orphan_is_not_read() {
    let scratch = Scratch::new("orphan-hole");
    let device = scratch.storage();
    let log: Bytes = laid_out(tiny(1), Layout::Binary).open_in(device.clone()).unwrap();
    append(&log, Layout::Binary, 1..=12);
    log.close().unwrap();
    let file = device.create(&head(Layout::Binary, 99)).unwrap();
    file.set_len(256 << 20).unwrap();
    if file.next_written(0).unwrap().is_some() {
        return; // This file system does not tell.
    }
    let (watched, read) =
        Watched::by(BytesRead::default(), PosixStorage::open(&scratch.path).unwrap());
    let watched: Arc<dyn Storage> = Arc::new(watched);
    let found = Maintenance::on(&watched).verify().unwrap();
    assert_eq!((found.verdict, found.orphans.len()), (Verdict::Clean, 1), "{found:?}");
    let read = read.0.load(Ordering::Relaxed);
    assert!(read < 16 << 20, "{read} bytes");
    // A byte after the hole is found.
    file.write_at(b"x", (256 << 20) - 1).unwrap();
    assert_ne!(Maintenance::on(&watched).verify().unwrap().verdict, Verdict::Clean);
}

fn files_of(device: &MemStorage, segment: u64) -> Vec<String> {
    let is_its =
        |name: &String| SegmentId::from_any_name(name).map(SegmentId::get) == Some(segment);
    device.names().into_iter().filter(is_its).collect()
}

/// The image: a segment was renamed, and exists under no other name.
#[test]
fn renamed_segment_is_damage_that_names_it() {
    let device = closed(Layout::Binary, 1);
    device.copy_raw("000000000002.seg", "000000000099.seg");
    device.remove_raw("000000000002.seg");
    let found = judge(&device).unwrap();
    assert_eq!((found.verdict, found.orphans), (Verdict::Lost, vec![]));
    let origin = found.damage.last().and_then(|damage| damage.origin).unwrap();
    assert_eq!(origin.segment.get(), 2);
}

/// `live` names a segment that is not there.
#[test]
fn orphan_with_the_number_in_live_is_damage() {
    let device = closed(Layout::Binary, 1);
    let next = newest(&device) + 1;
    let later = device.kill();
    let log = open(&again(2), &later).unwrap();
    append(&log, Layout::Binary, 13..=30);
    let told = later.bytes("live").unwrap();
    drop(log);
    device.remove_raw("live");
    make(&device, "live", &told);
    make(&device, &head(Layout::Binary, next), b"");
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Lost);
    assert_eq!(read(&device, false).unwrap().errors, 1);
    assert!(matches!(open(&again(3), &device), Err(Error::Damaged { .. })));
}

#[test]
fn writer_and_readers_ignore_a_file_that_appears_later() {
    for layout in LAYOUTS {
        for (what, _, put) in strays(layout) {
            let device = closed(layout, 1);
            let log = open(&again_in(layout), &device).unwrap();
            append(&log, layout, 13..=13);
            // The next segment number, and the highest possible one.
            put(&device, newest(&device) + 1);
            put(&device, HUGE);
            assert_eq!(read(&device, false).unwrap().count(), 13, "{what}");
            assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{what}");
            append(&log, layout, 14..=40);
            assert_eq!(read(&device, false).unwrap().count(), 40, "{what}");
            log.close().unwrap();
            assert_eq!(judge(&device).unwrap().last_lsn, Lsn::new(40), "{what}");
        }
    }
}
