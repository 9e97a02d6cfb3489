//! Repair from replicas: restored bytes are identical to the original ones, or nothing is restored.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::images::{End, Fill, Image, NEWEST, batches, files, headers, spoil, write, write_in};
use common::sample::Sample;
use common::{Bytes, LAYOUTS, Random, again, judge, laid_out, lsn, open, payload, read, read_own};
use seawall::damage::{Corruption, Damage, Lost};
use seawall::format::CodecId;
use seawall::repair::{DamageKind, Patch, RepairPlan, RepairSource};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Options};
use seawall_format::{Manifest, SegmentId};
use seawall_io::Storage;
use seawall_testkit::{CrashOutcome, MemStorage, Pending, What};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

const FIRST: &str = "000000000001.seg";
const MIDDLE: &str = "000000000002.seg";

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn mend(damaged: &MemStorage, replicas: &[&MemStorage]) -> seawall::Result<RepairPlan> {
    let replicas: Vec<_> = replicas.iter().map(|device| storage(device)).collect();
    common::maintenance(&storage(damaged)).replicas_on(&replicas).repair()
}

fn plan(damaged: &MemStorage, replicas: &[&MemStorage]) -> seawall::Result<RepairPlan> {
    let replicas: Vec<_> = replicas.iter().map(|device| storage(device)).collect();
    common::maintenance(&storage(damaged)).replicas_on(&replicas).plan_repair()
}

/// Every file of a log outside the quarantine, except the lock, with its content.
fn state(device: &MemStorage) -> Vec<(String, Vec<u8>)> {
    let names = files(device).into_iter().filter(|name| !name.starts_with("quarantine"));
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

/// The files in which two logs differ.
fn differing(one: &MemStorage, other: &MemStorage) -> Vec<String> {
    let (one, other) = (state(one), state(other));
    let is_in = |file: &(String, Vec<u8>), files: &[(String, Vec<u8>)]| {
        files.iter().any(|other| file == other || is_but_for_marks(file, other))
    };
    let mut names: Vec<_> = one.iter().filter(|file| !is_in(file, &other)).collect();
    names.extend(other.iter().filter(|file| !is_in(file, &one)));
    names.into_iter().map(|file| file.0.clone()).collect()
}

/// Whether two manifests differ only in that one has no mark of a clean close. A replica does not
/// prove that this log was closed.
fn is_but_for_marks(one: &(String, Vec<u8>), other: &(String, Vec<u8>)) -> bool {
    let without_marks = |file: &[u8]| {
        let mut bytes = file.to_vec();
        for slot in Manifest::decode_file(file).into_iter().flatten() {
            let place = slot.closing_place();
            let [start, end] = [place.start, place.end].map(|at| usize::try_from(at).unwrap());
            bytes.get_mut(start..end).unwrap_or_default().fill(0);
        }
        bytes
    };
    one.0 == "manifest"
        && other.0 == "manifest"
        && (without_marks(&one.1) == other.1 || one.1 == without_marks(&other.1))
}

/// The file with a segment's records, and the range of its second batch.
fn place(image: &Image, segment: u64) -> (String, Range<usize>) {
    let suffix = if image.layout == Layout::Text { "jsonl" } else { "seg" };
    let name = format!("{segment:012}.{suffix}");
    let (_, batches) = batches(&image.device, &name);
    (name, batches[1].0..batches[1].1)
}

/// A function that damages a device in one way.
type Harm = Box<dyn Fn(&MemStorage)>;

/// Every kind of damage in the middle of a log that damage.md lists, applied to one segment.
fn in_the_middle(image: &Image, segment: u64) -> Vec<(&'static str, Harm)> {
    let (file, place) = place(image, segment);
    let (start, end) = (place.start, place.end);
    let edit = |name: &'static str, change: fn(&mut [u8], Range<usize>)| -> (_, Harm) {
        let (file, place) = (file.clone(), place.clone());
        let harm = move |device: &MemStorage| {
            device.edit(&file, |bytes| change(bytes, place.clone()));
        };
        (name, Box::new(harm))
    };
    assert!(end - start > 60, "{start} {end}");
    let mut harms = vec![
        edit("a bit of a record", |bytes, at| bytes[at.start + 58] ^= 8),
        edit("a bit of a batch header", |bytes, at| bytes[at.start + 8] ^= 8),
        edit("bytes overwritten", |bytes, at| {
            spoil(&mut bytes[at.start + 56..at.start + 64], Fill::Garbage(1));
        }),
        edit("zeros", |bytes, at| bytes[at.start + 50..at.end].fill(0)),
        edit("a sector of zeros", |bytes, at| {
            let start = at.start / 512 * 512;
            let end = (start + 512).min(bytes.len());
            bytes[start.max(40)..end].fill(0);
        }),
        edit("garbage to the end", |bytes, at| {
            spoil(&mut bytes[at.start..], Fill::Garbage(2));
        }),
        edit("the length of a batch", |bytes, at| bytes[at.start + 4..at.start + 8].fill(0)),
        edit("the high length of a batch", |bytes, at| bytes[at.start + 7] ^= 8),
        edit("the length of a record", |bytes, at| bytes[at.start + 48..at.start + 52].fill(0)),
        edit("the high length of a record", |bytes, at| bytes[at.start + 51] ^= 64),
        edit("parts swapped", |bytes, at| {
            let middle = at.start + (at.end - at.start) / 2;
            let (one, other) = bytes.split_at_mut(middle);
            one[at.start..at.start + 24].swap_with_slice(&mut other[..24]);
        }),
        edit("a copy over the next", |bytes, at| {
            let size = (at.end - at.start).min(bytes.len() - at.end);
            bytes.copy_within(at.start..at.start + size, at.end);
        }),
    ];
    if image.layout == Layout::Binary {
        harms.push(edit("all records", |bytes, _| bytes[2560..].fill(0)));
    }
    harms
}

/// Every kind of damage to whole files.
fn of_whole_files(image: &Image) -> Vec<(&'static str, Harm)> {
    fn of(segment: u64) -> impl Fn(&MemStorage) -> Vec<String> {
        move |device| {
            let is_of = |name: &String| name.starts_with(&format!("{segment:012}."));
            files(device).into_iter().filter(is_of).collect()
        }
    }
    fn lose(segment: u64) -> Harm {
        Box::new(move |device| of(segment)(device).iter().for_each(|name| device.remove_raw(name)))
    }
    fn copy(from: u64, to: u64) -> Harm {
        Box::new(move |device| {
            for name in of(from)(device) {
                device.copy_raw(&name, &name.replace(&format!("{from:012}"), &format!("{to:012}")));
            }
        })
    }
    fn behead(segment: u64) -> Harm {
        Box::new(move |device| {
            let names = of(segment)(device);
            let head = names.iter().find(|name| !name.ends_with("jsonl")).unwrap();
            device.edit(head, |bytes| bytes[..192].fill(0));
        })
    }
    let stranger = write_other(image.layout);
    let foreign = move |device: &MemStorage| {
        for name in of(2)(&stranger) {
            let theirs = stranger.bytes(&name).unwrap();
            device.edit(&name, |bytes| *bytes = theirs);
        }
    };
    let slots = |slots: &'static [usize]| -> Harm {
        Box::new(move |device: &MemStorage| {
            device.edit("manifest", |bytes| slots.iter().for_each(|at| bytes[at + 40] ^= 1));
        })
    };
    let mut harms: Vec<(&'static str, Harm)> = vec![
        ("the oldest is missing", lose(1)),
        ("a middle one is missing", lose(2)),
        ("the newest is missing", lose(3)),
        ("two are missing", Box::new(|device| [2, 3].map(lose).iter().for_each(|at| at(device)))),
        (
            "all are missing",
            Box::new(|device| [1, 2, 3].map(lose).iter().for_each(|at| at(device))),
        ),
        ("a copy under the next name", copy(3, 4)),
        ("the header of a middle one", behead(2)),
        ("the header of the newest", behead(3)),
        ("the first slot", slots(&[0])),
        ("the second slot", slots(&[512])),
        ("both slots", slots(&[0, 512])),
        ("no manifest", Box::new(|device| device.remove_raw("manifest"))),
    ];
    if image.layout == Layout::Binary {
        harms.push(("a copy over the next", copy(1, 2)));
        harms.push(("a copy over the newest", copy(2, 3)));
        harms.push(("of another log", Box::new(foreign)));
        harms.push((
            "cut short",
            Box::new(|device| device.edit(NEWEST, |bytes| bytes.truncate(bytes.len() / 2))),
        ));
    } else {
        harms.push(("a lost text", Box::new(|device| device.remove_raw("000000000002.jsonl"))));
    }
    harms
}

/// Another log whose files have the same names.
fn write_other(layout: Layout) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&laid_out(again(7), layout), &device).unwrap();
    (1..=13).for_each(|number| {
        let payload = common::payload_in(layout, (number, 7), 300);
        log.append(&payload).unwrap();
    });
    log.close().unwrap();
    device
}

#[test]
fn every_kind_of_damage_is_restored_bit_for_bit() {
    let mut mended = 0;
    for (layout, end) in LAYOUTS
        .iter()
        .flat_map(|layout| [End::Closed, End::Confirmed, End::PowerCut].map(|end| (*layout, end)))
    {
        let image = write_in(end, layout);
        let replica = image.device.kill();
        let mut harms = in_the_middle(&image, 1);
        harms.extend(in_the_middle(&image, 2));
        harms.extend(of_whole_files(&image));
        for (name, harm) in harms {
            let what = || format!("{name} in {layout:?}, {end:?}");
            let damaged = image.device.kill();
            harm(&damaged);
            if differing(&damaged, &image.device).is_empty() {
                // The text ends there, so nothing changed.
                continue;
            }
            let found = common::maintenance(&storage(&damaged)).diagnose().unwrap();
            let is_slot = name.ends_with(" slot");
            let is_named = !found.damage.is_empty() || !found.orphans.is_empty();
            assert!(is_named || is_slot, "{}", what());
            let planned = plan(&damaged, &[&replica]).unwrap();
            let untouched = damaged.kill();
            let done = mend(&damaged, &[&replica]).unwrap();
            assert_eq!(planned.patches, done.patches, "{}", what());
            assert!(done.after.damage.is_empty(), "{}: {:#?}", what(), done.after.damage);
            let left = damaged.power_cut(|_| false);
            assert_eq!(differing(&left, &image.device), Vec::<String>::new(), "{}", what());
            assert_eq!(judge(&left).unwrap().damage, vec![], "{}", what());
            // The journal keeps the bytes as they were before the repair.
            let file = done.quarantine.iter().find(|name| name.ends_with("-mend.done"));
            let journal = file.map_or(vec![], |file| left.bytes(file).unwrap());
            assert!(file.is_some() || !done.orphan_files.is_empty(), "{}", what());
            for patch in done.patches.iter().filter(|patch| !patch.old.is_empty()) {
                let is_kept = journal.windows(patch.old.len()).any(|part| part == patch.old);
                assert!(is_kept, "{}: {patch:?}", what());
                let at = usize::try_from(patch.offset).unwrap();
                let was = &untouched.bytes(&patch.file).unwrap()[at..];
                assert_eq!(was[..patch.old.len()], patch.old, "{}", what());
            }
            mended += 1;
        }
    }
    assert!(mended > 200, "{mended}");
}

/// Devices that a crash may leave: unsynced writes all kept, all lost, or chosen at random, with
/// torn sectors too.
fn lefts(device: &MemStorage, seed: u64) -> Vec<(String, MemStorage)> {
    let mut left = vec![
        ("killed".to_owned(), device.kill()),
        ("nothing landed".to_owned(), device.power_cut(|_| false)),
        ("all landed".to_owned(), device.power_cut(|_| true)),
        ("names alone".to_owned(), device.power_cut(|item| item.what == What::Directory)),
        ("lengths alone".to_owned(), {
            device.power_cut(|item| !matches!(item.what, What::Sector(_)))
        }),
    ];
    for lot in 0..4 {
        let mut random = Random::new(seed * 4 + lot);
        let land = |_: &Pending| match random.below(4) {
            0 => CrashOutcome::Lost,
            1 => CrashOutcome::Whole,
            2 => CrashOutcome::First(usize::try_from(random.below(512)).unwrap()),
            _ => CrashOutcome::Behind(usize::try_from(random.below(512)).unwrap()),
        };
        left.push((format!("lot {lot} of seed {seed}"), device.power_cut(land)));
    }
    left
}

/// Checks that an interrupted repair did no harm, and that the next repair completes it.
fn is_harmless(
    image: &Image,
    (damaged, left): (&MemStorage, &MemStorage),
    what: &dyn Fn() -> String,
) {
    let before = read(damaged, true).unwrap();
    let now = read(left, true).unwrap();
    for (lsn, payload) in &before.records {
        assert!(now.records.get(lsn) == Some(payload), "{}: record {lsn} is lost", what());
    }
    // No byte changes before a complete journal, under its final name, keeps the old bytes.
    let changed = differing(damaged, left);
    // An orphan file is kept whole instead of in the journal.
    let is_of_log =
        |name: &String| !name.starts_with("spare-") && !name.starts_with("000000000004");
    if changed.iter().any(is_of_log) {
        let is_done = left.names().iter().any(|name| name.ends_with("-mend.done"));
        let is_kept = is_done || plan(left, &[]).unwrap().unfinished.is_some();
        assert!(is_kept, "{}: {changed:?} changed, and there is no journal", what());
    }
    let all = image.records.len();
    // An open before the next repair finds damage or every record, never a shorter sound log.
    let between = left.kill();
    if let Ok(log) = open(&laid_out(again(9), image.layout), &between) {
        assert_eq!(read_own(&log).records.len(), all, "{}: the end is hidden", what());
        log.append(b"\"after\"").unwrap();
        log.close().unwrap();
        mend(&between, &[&image.device.kill()]).unwrap();
        let log = open(&laid_out(again(10), image.layout), &between).unwrap();
        assert_eq!(read_own(&log).records.len(), all + 1, "{}: an append is undone", what());
    }
    // Without the replica, a complete journal is enough to finish the repair.
    let alone = left.kill();
    let is_whole = plan(&alone, &[]).unwrap().unfinished.is_some();
    let finished = mend(&alone, &[]).unwrap();
    if is_whole {
        assert!(finished.after.damage.is_empty(), "{}: {:#?}", what(), finished.after.damage);
        assert_eq!(differing(&alone, &image.device), Vec::<String>::new(), "{}", what());
    }
    // With the replica, the next repair always finishes.
    let again = left.kill();
    let done = mend(&again, &[&image.device.kill()]).unwrap();
    assert!(done.after.damage.is_empty(), "{}: {:#?}", what(), done.after.damage);
    let end = again.power_cut(|_| false);
    let mut differing = differing(&end, &image.device);
    // A text without a head is ignored: the interrupted repair had removed the orphan's head.
    differing.retain(|name| name != "000000000004.jsonl");
    assert_eq!(differing, Vec::<String>::new(), "{}", what());
    assert_eq!(plan(&again, &[]).unwrap().unfinished, None, "{}", what());
}

#[test]
fn repair_interrupted_by_a_crash_is_completed_by_the_next_one() {
    let (mut crashes, mut sample) = (0, Sample::one_in(15));
    for layout in LAYOUTS {
        for end in [End::Closed, End::PowerCut] {
            let image = write_in(end, layout);
            let mut harms = in_the_middle(&image, 1);
            harms.retain(|(name, _)| ["garbage to the end", "zeros"].contains(name));
            harms.extend(of_whole_files(&image));
            for (name, harm) in harms {
                let damaged = image.device.kill();
                harm(&damaged);
                let (whole, before) = (damaged.kill(), damaged.steps());
                mend(&whole, &[&image.device.kill()]).unwrap();
                for stop in (0..=whole.steps() - before).filter(|_| sample.takes_next()) {
                    let device = damaged.kill();
                    device.stop_after(before + stop);
                    let _ = mend(&device, &[&image.device.kill()]);
                    for (how, left) in lefts(&device, stop) {
                        let what = || {
                            format!("{name} in {layout:?}, {end:?}, stopped after {stop}, {how}")
                        };
                        is_harmless(&image, (&damaged, &left), &what);
                        crashes += 1;
                    }
                }
            }
        }
    }
    assert!(crashes > sample.least(3000), "{crashes}");
    println!("{crashes} crashes");
}

#[test]
fn repair_interrupted_by_an_error_is_completed_by_the_next_one() {
    let image = write(End::Closed);
    let replica = image.device.kill();
    for (name, harm) in of_whole_files(&image).into_iter().chain(in_the_middle(&image, 1)) {
        let damaged = image.device.kill();
        harm(&damaged);
        // After a failed sync of a removal, the cache forgets the removal and the file comes back.
        for nth in (0..).take_while(|_| !name.contains("next name")) {
            let device = damaged.kill();
            device.fail_sync(nth, |_| false);
            let what = || format!("{name}, sync {nth}");
            match mend(&device, &[&replica]) {
                Err(Error::Io { .. }) => {}
                // The repair has no sync `nth`.
                Ok(_) => break,
                other => panic!("{}: {other:?}", what()),
            }
            let again = device.kill();
            mend(&again, &[&replica]).unwrap();
            let left = again.power_cut(|_| false);
            assert_eq!(differing(&left, &image.device), Vec::<String>::new(), "{}", what());
            assert!(nth < 20, "{}", what());
        }
    }
    let damaged = image.device.kill();
    damaged.edit(FIRST, |bytes| bytes[2600] ^= 1);
    damaged.refuse_writes(FIRST, true);
    let steps = damaged.steps();
    let error = mend(&damaged, &[&replica]).unwrap_err().to_string();
    assert!(error.contains(FIRST) && error.contains("quarantine"), "{error}");
    // The steps are the folder, the journal and its name, and one attempt.
    assert!(damaged.steps() - steps < 12, "{}", damaged.steps() - steps);
    damaged.refuse_writes(FIRST, false);
    mend(&damaged, &[&replica]).unwrap();
    assert_eq!(differing(&damaged, &image.device), Vec::<String>::new());
}

#[test]
fn log_in_use_and_replica_of_another_log_are_refused() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    damaged.remove_raw(MIDDLE);
    let before = state(&damaged);
    let other = write_other(Layout::Binary);
    let error = mend(&damaged, &[&other]).unwrap_err();
    assert!(matches!(error, Error::Mismatch { what: "the id", .. }), "{error}");
    assert_eq!(state(&damaged), before);
    let lock = damaged.lock("lock").unwrap().unwrap();
    let replica = image.device.kill();
    assert!(matches!(mend(&damaged, &[&replica]), Err(Error::Busy { .. })));
    assert!(matches!(plan(&damaged, &[&replica]), Err(Error::Busy { .. })));
    drop(lock);
    mend(&damaged, &[&replica]).unwrap();
    assert_eq!(state(&damaged), state(&image.device));
}

/// The newest segment has the name of the one before it, and the replica ends before it. The file
/// is the only copy of its records, so the replica's older segment must not replace it.
#[test]
fn older_replica_does_not_replace_the_only_copy_of_a_renamed_segment() {
    let refused = |layouts: &[Layout]| {
        for &layout in layouts {
            let image = write_in(End::Closed, layout);
            let ids: Vec<_> = headers(&image.device).iter().map(|header| header.id).collect();
            let [.., wanted, newest] = ids[..] else { panic!("{ids:?}") };
            let names = |id: SegmentId| [id.file_name(), id.text_name(), id.head_name()];
            let (damaged, replica) = (image.device.kill(), image.device.kill());
            for (name, other) in names(newest).iter().zip(&names(wanted)) {
                if damaged.bytes(name).is_some() {
                    damaged.copy_raw(name, other);
                    damaged.remove_raw(name);
                    replica.remove_raw(name);
                }
            }
            let before = state(&damaged);
            let plan = mend(&damaged, &[&replica]).unwrap();
            assert!(plan.is_empty(), "{layout:?}: {:?}", plan.patches);
            assert_eq!(state(&damaged), before, "{layout:?}");
        }
    };
    refused(&LAYOUTS);
    common::encrypted(|| refused(&[Layout::Binary]));
}

/// Records that are damaged in the replica too stay damaged, and are reported.
#[test]
fn missing_records_of_a_replica_are_named_and_two_replicas_combine() {
    for layout in LAYOUTS {
        let image = write_in(End::Closed, layout);
        let (file, second) = place(&image, 1);
        let (_, all) = batches(&image.device, &file);
        let damaged = image.device.kill();
        damaged.edit(&file, |bytes| spoil(&mut bytes[all[0].0..second.end], Fill::Garbage(3)));
        let replicas = [all[0].0 + 60, second.start + 60].map(|at| {
            let replica = image.device.kill();
            replica.edit(&file, |bytes| bytes[at] ^= 4);
            replica
        });
        for (replica, lost) in replicas.iter().zip([1, 2]) {
            let half = damaged.kill();
            let done = mend(&half, &[replica]).unwrap();
            let named = |lsn: u64| {
                let mut lost = done.after.damage.iter().filter_map(|damage| damage.lost);
                lost.any(|lost| common::names(&lost, lsn))
            };
            assert!(named(lost), "{layout:?}, {lost}: {:#?}", done.after.damage);
            let there = read(&half, true).unwrap();
            assert!(there.records.iter().all(|(lsn, payload)| {
                image.records[usize::try_from(*lsn).unwrap() - 1] == *payload
            }));
            // The other batch is restored.
            let sound = if lost == 1 { 2..=4 } else { 1..=1 };
            for lsn in sound {
                let damage = &done.after.damage;
                assert!(there.records.contains_key(&lsn), "{layout:?}, {lost}: {damage:#?}");
            }
        }
        let [one, other] = &replicas;
        let done = mend(&damaged, &[one, other]).unwrap();
        assert_eq!(done.after.verdict, Verdict::Clean, "{layout:?}: {:#?}", done.after.damage);
        assert_eq!(state(&damaged), state(&image.device));
    }
}

fn append_all(log: &Bytes, numbers: RangeInclusive<u64>, life: u64) {
    for number in numbers {
        assert_eq!(log.append(&payload(number, life, 40)).unwrap(), lsn(number));
    }
}

/// A copy was opened and written to. From there on its records differ, although each is sound and
/// belongs to the same log.
#[test]
fn records_of_another_history_are_not_used() {
    let device = MemStorage::new();
    let log = open(&common::of_any_size(1).segment_size(24 * 512), &device).unwrap();
    append_all(&log, 1..=4, 1);
    log.close().unwrap();
    let grown = |seed: u64| {
        let device = device.kill();
        let log = open(&common::of_any_size(seed).segment_size(24 * 512), &device).unwrap();
        append_all(&log, 5..=9, seed);
        log.close().unwrap();
        device
    };
    let (ours, theirs) = (grown(2), grown(3));
    let (base, all) = batches(&ours, FIRST);
    assert_eq!((base, all.len(), batches(&theirs, FIRST).1.len()), (1, 9, 9));
    for damaged in [5..6, 5..7, 6..8] {
        let device = ours.kill();
        let bytes = all[damaged.start].0..all[damaged.end - 1].1;
        device.edit(FIRST, |file| file[bytes.clone()].fill(0));
        let before = state(&device);
        let done = mend(&device, &[&theirs]).unwrap();
        assert!(done.is_empty(), "{damaged:?}: {:?}", done.patches);
        assert_eq!(state(&device), before, "{damaged:?}");
        // A sound replica with the same history is used.
        mend(&device, &[&theirs, &ours.kill()]).unwrap();
        assert_eq!(state(&device), state(&ours), "{damaged:?}");
    }
}

/// Repairs a backup from the log that continued after it. Only records that something in the backup
/// confirms are restored, and the backup does not become the newer log.
#[test]
fn replica_records_after_the_end_are_not_used() {
    for is_confirmed in [true, false] {
        let device = MemStorage::new();
        let log = open(&common::of_any_size(1).segment_size(24 * 512), &device).unwrap();
        append_all(&log, 1..=5, 1);
        if is_confirmed {
            log.confirm().unwrap();
        }
        log.close().unwrap();
        let newer = device.kill();
        let log = open(&common::of_any_size(2).segment_size(24 * 512), &newer).unwrap();
        append_all(&log, 6..=9, 1);
        log.close().unwrap();
        let (_, all) = batches(&device, FIRST);
        for first in [2, 4] {
            let damaged = device.kill();
            damaged.edit(FIRST, |bytes| bytes[all[first].0..].fill(0));
            let was = state(&damaged);
            let done = mend(&damaged, &[&newer]).unwrap();
            let end = (done.after.verdict, done.after.last_lsn);
            if is_confirmed {
                assert_eq!(end, (Verdict::Clean, Some(lsn(5))));
                assert_eq!((done.beyond, done.end_by_replica), (Some(lsn(9)), None));
                assert_eq!(state(&damaged), state(&device));
            } else {
                // Nothing in the backup confirms that the replica's records are the same.
                let from = lsn(u64::try_from(first).unwrap() + 1);
                assert_eq!(end, (Verdict::Lost, from.previous()));
                assert_eq!(done.refused, [Lost::new(from, Some(lsn(9)))]);
                assert!(done.is_empty() && state(&damaged) == was);
            }
        }
    }
}

/// A later copy from the same session shares the whole history, but its records after the end of
/// this log are not used either.
#[test]
fn records_after_the_end_of_a_later_copy_are_not_used() {
    let device = MemStorage::new();
    let log = open(&common::of_any_size(1).segment_size(24 * 512), &device).unwrap();
    append_all(&log, 1..=5, 1);
    log.confirm().unwrap();
    let ours = device.kill();
    append_all(&log, 6..=9, 1);
    let newer = device.kill();
    drop(log);
    let (_, all) = batches(&ours, FIRST);
    for first in [2, 4] {
        let damaged = ours.kill();
        damaged.edit(FIRST, |bytes| bytes[all[first].0..].fill(0));
        let done = mend(&damaged, &[&newer]).unwrap();
        assert_eq!((done.after.damage.len(), done.after.last_lsn), (0, Some(lsn(5))), "{first}");
        assert_eq!((done.beyond, done.end_by_replica), (Some(lsn(9)), None), "{first}");
        assert_eq!(state(&damaged), state(&ours), "{first}");
    }
}

/// Only the sound parts of a replica that is damaged too are used.
#[test]
fn damaged_bytes_of_a_replica_are_not_used() {
    let image = write(End::Closed);
    let (_, all) = batches(&image.device, FIRST);
    let (one, other) = (all[0].0..all[0].1, all[1].0..all[1].1);
    let damaged = image.device.kill();
    damaged.edit(FIRST, |bytes| bytes[one.start..other.end].fill(0));
    let replica = image.device.kill();
    replica.edit(FIRST, |bytes| bytes[other.end - 30..other.end].fill(b'#'));
    mend(&damaged, &[&replica]).unwrap();
    let expected = image.device.kill();
    expected.edit(FIRST, |bytes| bytes[other.clone()].fill(0));
    assert_eq!(state(&damaged), state(&expected));
    mend(&damaged, &[&image.device.kill()]).unwrap();
    assert_eq!(state(&damaged), state(&image.device));
}

/// If the newest file is lost, only the replica shows where the log ended, and the repair reports
/// that.
#[test]
fn end_known_only_from_a_replica_is_reported() {
    let image = write(End::PowerCut);
    let damaged = image.device.kill();
    damaged.remove_raw(NEWEST);
    let done = mend(&damaged, &[&image.device.kill()]).unwrap();
    assert_eq!((done.after.verdict, done.end_by_replica), (Verdict::Clean, Some(lsn(13))));
    let damaged = image.device.kill();
    damaged.remove_raw(MIDDLE);
    assert_eq!(mend(&damaged, &[&image.device.kill()]).unwrap().end_by_replica, None);
}

/// A replica may be damaged at the same place, or share its files with the log by hard links.
#[test]
fn records_that_a_replica_lost_too_are_not_called_refused() {
    let image = write(End::Closed);
    let (_, all) = batches(&image.device, FIRST);
    let damaged = image.device.kill();
    damaged.edit(FIRST, |bytes| bytes[all[1].1 - 8] ^= 1);
    let plan = plan(&damaged, &[&damaged.kill()]).unwrap();
    assert!(plan.after.damage.iter().any(|damage| damage.lost.is_some()), "{:?}", plan.after);
    assert_eq!(plan.refused, []);
}

/// A new log from a salvage is clean, so only the report of the salvage can say this.
#[test]
fn salvage_reports_the_end_that_only_a_replica_knows() {
    let image = write(End::PowerCut);
    let replica = storage(&image.device.kill());
    let end = |lost: &[&str]| {
        let damaged = image.device.kill();
        for name in lost {
            damaged.remove_raw(name);
        }
        let mut maintenance = common::maintenance(&storage(&damaged)).replicas_on([&replica]);
        let saved = maintenance.salvage_to(storage(&MemStorage::new())).unwrap();
        let done = maintenance.repair().unwrap();
        assert_eq!(saved.records, done.after.records, "{lost:?}");
        assert_eq!((&saved.unproven, &saved.refused), (&done.unproven, &done.refused), "{lost:?}");
        assert_eq!((saved.end_by_replica, saved.beyond), (done.end_by_replica, done.beyond));
        saved.end_by_replica
    };
    assert_eq!(end(&[NEWEST]), Some(lsn(13)));
    assert_eq!(end(&[MIDDLE, NEWEST]), Some(lsn(13)));
    assert_eq!(end(&[MIDDLE]), None);
}

#[test]
fn damage_is_described_by_field_and_record() {
    let image = write(End::Closed);
    let replica = image.device.kill();
    let (_, all) = batches(&image.device, FIRST);
    let (begin, end, _) = all[0];
    let told = |change: &dyn Fn(&mut Vec<u8>), file: &str| -> Vec<String> {
        let damaged = image.device.kill();
        damaged.edit(file, change);
        let plan = plan(&damaged, &[&replica]).unwrap();
        plan.changes.iter().map(ToString::to_string).collect()
    };
    let flip = |at: usize| move |bytes: &mut Vec<u8>| bytes[at] ^= 8;
    let at = begin + 48 + 8 + 17;
    let payload = format!("bit 3 of byte {at:#x}: record 1, payload byte 17");
    assert_eq!(told(&flip(at), FIRST), [payload]);
    let at = begin + 9;
    let header = format!("bit 3 of byte {at:#x}: the batch of record 1, field \"first\"");
    assert_eq!(told(&flip(at), FIRST), [header]);
    let at = begin + 50;
    let length = format!("bit 3 of byte {at:#x}: record 1, field \"length\"");
    assert_eq!(told(&flip(at), FIRST), [length]);
    let segment = "bit 3 of byte 0x39: the segment's header, field \"base\"";
    assert_eq!(told(&flip(57), FIRST), [segment]);
    let slot = "bit 3 of byte 0x41: the manifest, slot A, field \"oldest base\"";
    assert_eq!(told(&flip(65), "manifest"), [slot]);
    let zeros = told(&|bytes| bytes[end - 40..end - 8].fill(0), FIRST);
    assert_eq!(zeros.len(), 1);
    assert!(zeros[0].starts_with("32 bytes of zeros from byte "), "{zeros:?}");
    let damaged = image.device.kill();
    damaged.remove_raw(MIDDLE);
    let plan = plan(&damaged, &[&replica]).unwrap();
    assert_eq!(plan.changes[0].was, DamageKind::Missing);
}

#[test]
fn described_bytes_name_their_record_or_those_of_their_batch() {
    let image = write(End::Closed);
    let bytes = image.device.bytes(FIRST).unwrap();
    let (_, all) = batches(&image.device, FIRST);
    let ((one, ..), (three, _, last)) = (all[0], all[1]);
    assert_eq!(last, 4, "a batch of one record, and one of three");
    let maintenance = common::maintenance(&storage(&image.device));
    let owner = |at: usize| {
        let change = (vec![bytes[at] ^ 1], vec![bytes[at]]);
        let patch = Patch::new(FIRST, u64::try_from(at).unwrap(), change, RepairSource::Parity);
        let found = maintenance.describe(&[patch]).unwrap();
        (found[0].record, found[0].records)
    };
    let batch = Some((lsn(2), lsn(4)));
    assert_eq!(owner(three + 9), (None, batch), "its header");
    assert_eq!(owner(three + 48), (Some(lsn(2)), batch));
    assert_eq!(owner(three + 48 + 8 + 80 + 8), (Some(lsn(3)), batch));
    assert_eq!(owner(one + 9), (Some(lsn(1)), Some((lsn(1), lsn(1)))));
    assert_eq!(owner(57), (None, None), "the segment's header");
}

/// A block that cannot be read may still be writable, so the repair rewrites the page.
#[test]
fn repair_plan_skips_unreadable_blocks() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    let (file, place) = place(&image, 1);
    damaged.fail_read(&file, place);
    assert_eq!(common::maintenance(&storage(&damaged)).diagnose().unwrap().verdict, Verdict::Lost);
    let plan = plan(&damaged, &[&image.device.kill()]).unwrap();
    assert_eq!(plan.after.verdict, Verdict::Clean, "{:#?}", plan.after.damage);
    let view = plan.view(&storage(&damaged));
    assert_eq!(common::maintenance(&view).verify().unwrap().records, 13);
}

#[test]
fn repair_plan_skips_unreadable_blocks_of_a_log_without_a_manifest() {
    let device = MemStorage::new();
    let log = open(&common::tiny(1), &device).unwrap();
    for number in 1..=2 {
        log.append(&payload(number, 1, 300)).unwrap();
    }
    log.close().unwrap();
    for block in [5, 6] {
        let damaged = device.kill();
        damaged.remove_raw("manifest");
        damaged.fail_read(FIRST, block * 512..(block + 1) * 512);
        let alone = plan(&damaged, &[]).unwrap();
        assert_eq!(alone.before.verdict, Verdict::Lost, "block {block}");
        let is_unreadable = |damage: &Damage| damage.cause == Corruption::Unreadable;
        assert!(alone.before.damage.iter().any(is_unreadable), "block {block}");
        // Nothing proves what the block held, so the replica restores the manifest only.
        let plan = plan(&damaged, &[&device.kill()]).unwrap();
        assert!(plan.after.damage.iter().all(is_unreadable), "block {block}");
        let files: Vec<_> = plan.patches.iter().map(|patch| patch.file.as_str()).collect();
        assert_eq!(files, ["manifest"], "block {block}");
    }
}

/// The image: a text without a manifest, whose first part is lost.
#[test]
fn log_without_a_manifest_is_not_created_again_over_later_records() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let options = || {
            let options = Options::new().preallocate(false).segment_size(1 << 20).idle_mark(None);
            if layout == Layout::Text {
                options.codec(CodecId::Json).layout(layout)
            } else {
                options
            }
        };
        let log = open(&options(), &device).unwrap();
        for number in 1..=800 {
            log.append(&common::payload_in(layout, (number, 1), 900)).unwrap();
        }
        let left = device.power_cut(|_| true);
        drop(log);
        left.remove_raw("manifest");
        let text = SegmentId::FIRST.text_name();
        let (file, start) =
            if layout == Layout::Text { (text.as_str(), 0) } else { (FIRST, 4 * 4096 + 65_536) };
        left.edit(file, |bytes| bytes[start..start + 600_000].fill(0));
        assert_eq!(judge(&left).unwrap().verdict, Verdict::Lost, "{layout:?}");
        let refused = open(&options(), &left).map(drop);
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{layout:?}: {refused:?}");
    }
}

/// The device refuses one slot of the manifest, or `live`. The other slot tells everything.
#[test]
fn unreadable_slot_of_the_manifest_or_live_stops_no_command() {
    let options = || Options::new().preallocate(false).segment_size(1 << 20);
    let device = MemStorage::new();
    let log = open(&options(), &device).unwrap();
    for number in 1..=3 {
        log.append(&payload(number, 1, 300)).unwrap();
    }
    log.close().unwrap();
    for (file, place) in [("manifest", 0..4096), ("manifest", 4096..8192), ("live", 0..64)] {
        let damaged = device.kill();
        damaged.fail_read(file, place.clone());
        let what = format!("{file} {place:?}");
        let found = judge(&damaged).unwrap();
        assert_eq!((found.verdict, found.records), (Verdict::Clean, 3), "{what}");
        assert_eq!(read(&damaged, false).unwrap().records.len(), 3, "{what}");
        assert_eq!(plan(&damaged, &[]).unwrap().after.records, 3, "{what}");
        let copy: Arc<dyn Storage> = Arc::new(MemStorage::new());
        let report = common::maintenance(&storage(&damaged)).salvage_to(copy).unwrap();
        assert_eq!(report.records, 3, "{what}");
        assert_eq!(open(&options(), &damaged).unwrap().append(b"more").unwrap(), lsn(4), "{what}");
    }
}

#[test]
fn described_bytes_name_authenticators_and_the_mark_of_a_clean_close() {
    common::encrypted(|| {
        let image = write(End::Closed);
        let place = |file: &str, at: usize| {
            let bytes = image.device.bytes(file).unwrap();
            let change = (vec![bytes[at] ^ 1], vec![bytes[at]]);
            let patch = Patch::new(file, u64::try_from(at).unwrap(), change, RepairSource::Replica);
            let found = common::maintenance(&storage(&image.device)).describe(&[patch]).unwrap();
            found[0].place.clone()
        };
        for (file, at, said) in [
            ("manifest", 250, "the manifest, slot A, padding"),
            ("manifest", 512 + 260, "the manifest, slot B, its authenticator, field \"magic\""),
            ("manifest", 304, "the manifest, slot A, the mark of a clean close, field \"crc\""),
            (FIRST, 288, "the segment's header, its authenticator, field \"code\""),
            (FIRST, 304, "before the records"),
            (FIRST, 2560 + 60, "the encrypted batch of records 1 to 1"),
        ] {
            assert_eq!(place(file, at), said);
        }
    });
}

/// A journal that was put next to a log that has since continued undoes nothing.
#[test]
fn journal_that_does_not_match_changes_nothing() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    damaged.edit(FIRST, |bytes| bytes[2650] ^= 1);
    let (whole, before) = (damaged.kill(), damaged.steps());
    mend(&whole, &[&image.device.kill()]).unwrap();
    // Interrupted after the journal is complete, before the first byte is repaired.
    let steps = whole.steps() - before;
    let left = (0..steps)
        .map(|stop| {
            let device = damaged.kill();
            device.stop_after(before + stop);
            let _ = mend(&device, &[&image.device.kill()]);
            device.power_cut(|_| false)
        })
        .find(|left| plan(left, &[]).unwrap().unfinished.is_some())
        .unwrap();
    for at in [2650, 2651] {
        let other = left.kill();
        other.edit(FIRST, |bytes| bytes[at] ^= 0x40);
        let now = state(&other);
        mend(&other, &[]).unwrap();
        let is_outside = at != 2650;
        assert_eq!(state(&other) != now, is_outside, "byte {at}");
        assert_eq!(plan(&other, &[]).unwrap().unfinished, None);
    }
    // If any byte of the journal is damaged, none of it is applied.
    let name = plan(&left, &[]).unwrap().unfinished.unwrap();
    for at in 0..left.bytes(&name).unwrap().len() {
        let other = left.kill();
        other.edit(&name, |bytes| bytes[at] ^= 1);
        let now = state(&other);
        mend(&other, &[]).unwrap();
        assert_eq!(state(&other), now, "byte {at} of the journal");
    }
}
