//! Repair from a copy that was written to later. Its newer records are intact, and have the same
//! log, segment and numbers, but other bytes. None of them is taken for a record of this log.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::images::{batches, files};
use common::{
    Bytes, LAYOUTS, judge, laid_out, lsn, names, of_any_size, open, payload_in, read, reader,
};
use seawall::damage::Lost;
use seawall::repair::{Patch, RepairPlan};
use seawall::{Error, Layout, Lsn, Maintenance};
use seawall_format::{Offset, SegmentHeader};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn mend(damaged: &MemStorage, replicas: &[&MemStorage]) -> RepairPlan {
    let replicas: Vec<_> = replicas.iter().map(|device| storage(device)).collect();
    Maintenance::on(&storage(damaged)).replicas_on(&replicas).repair().unwrap()
}

/// The files of a log, without quarantine, and their contents.
fn state(device: &MemStorage) -> Vec<(String, Vec<u8>)> {
    let names = files(device).into_iter().filter(|name| !name.starts_with("quarantine"));
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

/// Two logs with the same beginning, each continued separately in the same segment.
struct Fork {
    layout: Layout,
    ours: MemStorage,
    theirs: MemStorage,
    records: BTreeMap<u64, Vec<u8>>,
}

const SHARED: u64 = 5;

fn write(device: &MemStorage, (layout, seed): (Layout, u64), numbers: RangeInclusive<u64>) {
    let options = laid_out(of_any_size(seed).segment_size(24 * 512), layout);
    let log: Bytes = open(&options, device).unwrap();
    for number in numbers {
        let record = payload_in(layout, (number, seed), 60);
        assert_eq!(log.append(&record).unwrap(), lsn(number));
    }
    log.close().unwrap();
}

fn file_in(layout: Layout) -> &'static str {
    if layout == Layout::Text { "000000000001.jsonl" } else { "000000000001.seg" }
}

impl Fork {
    /// `ours` and `theirs` are the last records of each log.
    fn new(layout: Layout, ours: u64, theirs: u64) -> Self {
        let shared = MemStorage::new();
        write(&shared, (layout, 1), 1..=SHARED);
        let grown = |seed, last| {
            let device = shared.kill();
            write(&device, (layout, seed), SHARED + 1..=last);
            device
        };
        let all = 1..=ours;
        let seed = |number| if number > SHARED { 2 } else { 1 };
        let records = all.map(|number| (number, payload_in(layout, (number, seed(number)), 60)));
        Self { layout, ours: grown(2, ours), theirs: grown(3, theirs), records: records.collect() }
    }

    fn file(&self) -> &'static str {
        file_in(self.layout)
    }

    /// The start and end of the batch or line of a record.
    fn place(&self, record: u64) -> (usize, usize) {
        let (_, all) = batches(&self.ours, self.file());
        let (start, end, _) = all.into_iter().find(|batch| batch.2 == record).unwrap();
        (start, end)
    }

    /// Returns our log with damage to the batch of one record.
    fn spoilt(&self, record: u64, harm: Harm) -> MemStorage {
        let device = self.ours.kill();
        let (start, end) = self.place(record);
        device.edit(self.file(), |bytes| harm.1(&mut bytes[start..end]));
        device
    }

    /// Checks that all records shown are as written, and that all others are reported as lost.
    #[track_caller]
    fn holds(&self, device: &MemStorage, what: &str) -> BTreeMap<u64, Vec<u8>> {
        let found = read(device, true).unwrap();
        for (number, record) in &found.records {
            assert_eq!(self.records.get(number), Some(record), "{what}: record {number}");
        }
        let damage = judge(device).unwrap().damage;
        let lost: Vec<Lost> = damage.iter().filter_map(|damage| damage.lost).collect();
        for number in self.records.keys().filter(|number| !found.records.contains_key(*number)) {
            let is_named = lost.iter().any(|lost| names(lost, *number));
            assert!(is_named, "{what}: record {number} is lost and not named: {damage:#?}");
        }
        found.records
    }
}

/// Changes the batch that begins here. It stays valid.
fn change_time(device: &MemStorage, start: usize) {
    device.edit(file_in(Layout::Binary), |bytes| {
        let header = SegmentHeader::decode(bytes).unwrap();
        bytes[start + 40] ^= 1;
        let crc = header.salt().checksum(Offset(start as u64), &bytes[start + 4..start + 48]);
        bytes[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    });
}

/// The same for a reader that waited at the end of that segment, before the next one was there.
#[test]
fn follower_stops_where_a_new_segment_does_not_follow_the_batch_before_it() {
    let (device, later) = (MemStorage::new(), MemStorage::new());
    write(&later, (Layout::Binary, 1), 1..=200);
    let (start, _, last) = *batches(&later, file_in(Layout::Binary)).1.last().unwrap();
    write(&device, (Layout::Binary, 1), 1..=last);
    for device in [&device, &later] {
        change_time(device, start);
    }
    let mut follower = reader(storage(&device)).unwrap().follow(Lsn::FIRST).unwrap();
    for number in 1..=last {
        assert_eq!(follower.next_within(Duration::ZERO).unwrap().unwrap().0, lsn(number));
    }
    assert!(follower.next_within(Duration::ZERO).unwrap().is_none());
    for (name, bytes) in state(&later) {
        if device.bytes(&name).is_none() {
            device.create(&name).unwrap();
        }
        device.edit(&name, |old| *old = bytes);
    }
    let error = follower.next_within(Duration::ZERO).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { damage, .. }
        if damage.lost.is_some_and(|lost| names(&lost, last))),
        "{error:?}"
    );
}

/// The last batch of a segment is valid, but not the one that the next segment follows.
#[test]
fn readers_stop_where_a_segment_does_not_follow_the_batch_before_it() {
    let device = MemStorage::new();
    write(&device, (Layout::Binary, 1), 1..=200);
    let file = file_in(Layout::Binary);
    let (start, _, last) = *batches(&device, file).1.last().unwrap();
    change_time(&device, start);
    let damage = judge(&device).unwrap().damage;
    let named: Vec<_> = damage.iter().filter_map(|damage| damage.lost).collect();
    assert!(matches!(named[..], [one] if names(&one, last)), "{damage:#?}");
    let records = |skips: bool| {
        let reader = reader(storage(&device)).unwrap().skip_damaged(skips);
        reader.read_from(Lsn::FIRST).unwrap().collect::<Vec<_>>()
    };
    let found = records(false);
    assert_eq!(found.len() as u64, last + 1);
    assert!(found.last().unwrap().is_err());
    let (shown, failed): (Vec<_>, Vec<_>) = records(true).into_iter().partition(Result::is_ok);
    assert_eq!((shown.len(), failed.len()), (200, 1));
}

/// A kind of damage to the bytes of a batch or line.
type Harm = (&'static str, fn(&mut [u8]));

/// A batch has 48 bytes of header, a line some 90 bytes before the value.
const HARMS: [Harm; 6] = [
    ("four bytes of the payload", |bytes| {
        let at = bytes.len() - 30;
        bytes[at..at + 4].copy_from_slice(b"XXXX");
    }),
    ("the first field", |bytes| bytes[8] ^= 1),
    ("the checksums", |bytes| bytes[..28].fill(b'#')),
    ("the first half", |bytes| {
        let half = bytes.len() / 2;
        bytes[..half].fill(b'#');
    }),
    ("the second half", |bytes| {
        let half = bytes.len() / 2;
        bytes[half..].fill(b'#');
    }),
    ("all of it", |bytes| bytes.fill(0)),
];

#[test]
fn record_of_a_diverged_copy_never_replaces_a_lost_one() {
    for layout in LAYOUTS {
        // The damaged record is the last one, or others follow. The copy is as long, longer, or
        // shorter.
        for (ours, theirs) in [(6, 6), (9, 9), (6, 9), (9, 6)] {
            let fork = Fork::new(layout, ours, theirs);
            for harm in HARMS {
                let what = format!("{} in {layout:?}, {ours} and {theirs}", harm.0);
                let device = fork.spoilt(SHARED + 1, harm);
                let before = fork.holds(&device, &what);
                let (was, damage) = (state(&device), judge(&device).unwrap().damage);
                let done = mend(&device, &[&fork.theirs]);
                assert_eq!(fork.holds(&device, &what), before, "{what}");
                assert_eq!(done.after.damage, done.before.damage, "{what}");
                assert!(done.is_empty() && state(&device) == was, "{what}: {:?}", done.patches);
                assert_eq!(judge(&device).unwrap().damage, damage, "{what}");
                // A copy from the same moment has the records.
                mend(&device, &[&fork.theirs, &fork.ours.kill()]);
                assert!(state(&device) == state(&fork.ours), "{what}");
            }
        }
    }
}

/// Records written before the logs diverged are restored, and nothing else is.
#[test]
fn records_from_before_the_copy_are_restored() {
    for layout in LAYOUTS {
        let fork = Fork::new(layout, 9, 9);
        for harm in HARMS {
            let what = format!("{} in {layout:?}", harm.0);
            // The bytes after the damage are the same in both logs.
            let device = fork.spoilt(3, harm);
            mend(&device, &[&fork.theirs]);
            assert!(state(&device) == state(&fork.ours), "{what}");
            // Damage in two places. The copy has the data of one of them.
            let one = fork.spoilt(7, harm);
            let left = fork.holds(&one, &what);
            let device = fork.spoilt(3, harm);
            let (start, end) = fork.place(7);
            device.edit(fork.file(), |bytes| harm.1(&mut bytes[start..end]));
            let done = mend(&device, &[&fork.theirs]);
            assert_eq!(fork.holds(&device, &what), left, "{what}");
            assert_eq!(done.after.verdict, judge(&one).unwrap().verdict, "{what}");
        }
    }
}

/// A kind of damage to whole files, usually those of a segment.
type FileHarm = (&'static str, fn(&MemStorage, &Fork, u64));

const FILE_HARMS: [FileHarm; 5] = [
    ("the header", |device, fork, segment| {
        let suffix = if fork.layout == Layout::Text { "head" } else { "seg" };
        device.edit(&format!("{segment:012}.{suffix}"), |bytes| bytes[..192].fill(0));
    }),
    ("the header and the records", |device, fork, segment| {
        let suffix = if fork.layout == Layout::Text { "head" } else { "seg" };
        device.edit(&format!("{segment:012}.{suffix}"), |bytes| {
            bytes[..192].fill(0);
            bytes[4 * 512..].fill(0x55);
        });
    }),
    ("all of it", |device, _, segment| {
        for name in files(device) {
            if name.starts_with(&format!("{segment:012}.")) {
                device.remove_raw(&name);
            }
        }
    }),
    ("half of it", |device, fork, segment| {
        let suffix = if fork.layout == Layout::Text { "jsonl" } else { "seg" };
        device.edit(&format!("{segment:012}.{suffix}"), |bytes| {
            let at = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            bytes.truncate(at - 200);
        });
    }),
    ("the manifest", |device, _, _| {
        device.edit("manifest", |bytes| [0, 512].iter().for_each(|at| bytes[at + 40] ^= 1));
    }),
];

/// Both logs continued in another segment, too. The copy's segment has another epoch, and does not
/// replace the lost one.
#[test]
fn segment_of_a_diverged_copy_never_replaces_a_lost_one() {
    for layout in LAYOUTS {
        for (ours, theirs) in [(7, 7), (20, 20), (7, 20), (20, 7)] {
            let fork = Fork::new(layout, ours, theirs);
            let count = files(&fork.ours).iter().filter(|name| name.starts_with("0000")).count();
            let count = if layout == Layout::Text { count / 2 } else { count };
            for (segment, harm) in
                (1..=count).flat_map(|segment| FILE_HARMS.map(|harm| (segment, harm)))
            {
                let segment = u64::try_from(segment).unwrap();
                let what = format!("{} of {segment} in {layout:?}, {ours} and {theirs}", harm.0);
                let device = fork.ours.kill();
                harm.1(&device, &fork, segment);
                let before = fork.holds(&device, &what);
                let intact = device.kill();
                let done = mend(&device, &[&fork.theirs]);
                let found = read(&device, true).unwrap();
                for (number, record) in &before {
                    assert_eq!(found.records.get(number), Some(record), "{what}: {number}");
                }
                for (number, record) in &found.records {
                    let is_named = done.unproven.iter().any(|lost| names(lost, *number));
                    let is_ours = fork.records.get(number) == Some(record);
                    assert!(is_ours || is_named, "{what}: record {number} is another");
                }
                let whole = device.kill();
                if done.unproven.is_empty() {
                    fork.holds(&device, &what);
                    mend(&whole, &[&fork.ours.kill()]);
                    fork.holds(&whole, &what);
                }
                // A copy from the same moment takes precedence, in any order.
                mend(&intact, &[&fork.theirs, &fork.ours.kill()]);
                assert_eq!(fork.holds(&intact, &what).len(), fork.records.len(), "{what}");
            }
        }
    }
}

/// Both logs filled the first segment before they diverged, so the second segment of either
/// continues it. Nothing is left of this log's own second segment, and neither a seal nor the
/// manifest names it.
#[test]
fn segment_that_no_local_file_names_is_not_used() {
    for layout in LAYOUTS {
        let second = if layout == Layout::Text { "000000000002.head" } else { "000000000002.seg" };
        let is_full = |last: &u64| {
            let device = MemStorage::new();
            write(&device, (layout, 1), 1..=*last);
            files(&device).iter().any(|name| name == second)
        };
        let next = (1..200).find(is_full).unwrap();
        let shared = MemStorage::new();
        write(&shared, (layout, 1), 1..=next - 1);
        // Neither log was closed, which would name the second segment.
        let grown = |seed| {
            let device = shared.kill();
            let options = laid_out(of_any_size(seed).segment_size(24 * 512), layout);
            let log: Bytes = open(&options, &device).unwrap();
            for number in next..=next + 2 {
                log.append(&payload_in(layout, (number, seed), 60)).unwrap();
            }
            let killed = device.kill();
            drop(log);
            killed
        };
        let seed = |number| if number < next { 1 } else { 2 };
        let record = |number| (number, payload_in(layout, (number, seed(number)), 60));
        let records = (1..=next + 2).map(record).collect();
        let fork = Fork { layout, ours: grown(2), theirs: grown(3), records };
        let device = fork.ours.kill();
        for name in files(&device) {
            if name.starts_with("000000000002.") {
                device.edit(&name, |bytes| bytes.fill(0x55));
            }
        }
        device.edit(&second.replace('2', "1"), |bytes| bytes[3 * 512..4 * 512].fill(0x55));
        let what = format!("{layout:?}");
        let before = fork.holds(&device, &what);
        assert_eq!(before.len(), fork.records.len() - 3, "{what}");
        let done = mend(&device, &[&fork.theirs]);
        assert_eq!(fork.holds(&device, &what), before, "{what}");
        let is_of_second = |patch: &Patch| patch.file.starts_with("000000000002.");
        assert!(!done.patches.iter().any(is_of_second), "{what}: {:?}", done.patches);
    }
}

/// The copy's parity describes other bytes in the same blocks. An intact header shows that those
/// are not of this log, even if nothing else of the batch is left.
#[test]
fn parity_of_a_diverged_copy_never_overrides_an_intact_header() {
    let shared = MemStorage::new();
    let write = |device: &MemStorage, seed: u64, numbers: RangeInclusive<u64>| {
        let options = of_any_size(seed).segment_size(24 * 512);
        let log: Bytes = open(&options.parity(Some("4+2".parse().unwrap())), device).unwrap();
        for number in numbers {
            log.append(&payload_in(Layout::Binary, (number, seed), 60)).unwrap();
        }
        log.close().unwrap();
    };
    write(&shared, 1, 1..=SHARED);
    let (device, theirs) = (shared.kill(), shared.kill());
    write(&device, 2, SHARED + 1..=SHARED + 1);
    write(&theirs, 3, SHARED + 1..=SHARED + 1);
    let file = "000000000001.seg";
    let place = batches(&device, file).1[usize::try_from(SHARED).unwrap()];
    assert_eq!(place, batches(&theirs, file).1[usize::try_from(SHARED).unwrap()]);
    for name in files(&theirs).iter().filter(|name| name.ends_with(".parity")) {
        device.edit(name, |bytes| bytes.clone_from(&theirs.bytes(name).unwrap()));
    }
    device.edit(file, |bytes| bytes[place.1 - 30..place.1 - 20].fill(b'#'));
    let was = state(&device);
    let found = read(&device, true).unwrap();
    assert_eq!((found.count(), found.errors), (SHARED, 1), "{found:?}");
    let done = mend(&device, &[]);
    assert!(done.is_empty() && state(&device) == was, "{:?}", done.patches);
}
