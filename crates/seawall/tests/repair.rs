//! Repair: whatever the damage, what is intact can be brought to a new log with its numbers, the
//! log's sound beginning can be kept, and the damaged log itself can go on; nothing wrong is ever
//! delivered, and nothing is given up without a word.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

mod common;

use common::images::{End, Fill, Image, NEWEST, NONE, batches, files, spoil, write, write_in};
use common::{
    Bytes, Found, GEOMETRY, LAYOUTS, Scratch, again, judge, laid_out, lsn, names, of_any_size,
    one_in, open, payload, payload_in, read, read_own, tiny,
};
use seawall::{
    Corruption, Damage, Error, Layout, LogReader, Lsn, OpenMode, Options, Raw, Rescued, Verdict,
    copy, cut_tail_in, diagnose_in, plan_cut_in, salvage, salvage_in,
};
use seawall_format::{Geometry, HEADER_SIZE, Live, Manifest, SegmentHeader};
use seawall_io::{MemStorage, Storage};
use std::collections::BTreeSet;
use std::sync::Arc;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

/// Salvages to a new device, which is a sound log then.
fn rescue(damaged: &MemStorage) -> seawall::Result<(MemStorage, Rescued)> {
    let before = damaged.steps();
    let target = MemStorage::new();
    let rescued = salvage_in(&storage(damaged), storage(&target))?;
    assert_eq!(damaged.steps(), before, "the source is only read");
    Ok((target, rescued))
}

/// Asserts that every record is what was written as its number.
fn are_as_written(image: &Image, found: &Found, what: &dyn Fn() -> String) {
    for (lsn, payload) in &found.records {
        let written = usize::try_from(*lsn - 1).ok().and_then(|index| image.records.get(index));
        assert!(Some(payload) == written, "{}: record {lsn} is another", what());
    }
}

/// The highest number that a record has, or had before it was lost.
fn highest_taken(found: &Found, damage: &[Damage]) -> u64 {
    let lost = damage.iter().filter_map(|damage| damage.lost.and_then(|lost| lost.to));
    found.records.keys().copied().chain(lost.map(Lsn::get)).max().unwrap_or(0)
}

/// All three ways out of damage, tried on copies.
fn try_all(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let skipping = read(damaged, true).unwrap_or_else(|error| panic!("{}: {error}", what()));
    salvage_keeps_what_is_intact(image, damaged, &skipping, what);
    // A writer goes by what is on disk, as if the machine had started anew.
    let rebooted = damaged.power_cut(|_| false);
    cut_keeps_the_beginning(image, &rebooted, what);
    the_log_goes_on(image, &rebooted, what);
}

fn salvage_keeps_what_is_intact(
    image: &Image,
    damaged: &MemStorage,
    skipping: &Found,
    what: &dyn Fn() -> String,
) {
    let (target, rescued) = match rescue(damaged) {
        Ok(done) => done,
        Err(Error::NotALog { .. }) => {
            assert!(skipping.records.is_empty(), "{}: nothing to salvage", what());
            return;
        }
        Err(error) => panic!("{}: {error}", what()),
    };
    // It says no less than a verification; more where a killed writer's word is known.
    let says = |known: &Damage| {
        rescued.damage.iter().any(|damage| {
            let same = (damage.segment, damage.cause) == (known.segment, known.cause);
            same || known.lost.zip(damage.lost).is_some_and(|(known, said)| said.from <= known.from)
        })
    };
    let known = diagnose_in(&storage(damaged)).unwrap().damage;
    assert!(known.iter().all(says), "{}: {known:#?}, {rescued:#?}", what());
    let target = target.power_cut(|_| false);
    let found = judge(&target).unwrap();
    assert_eq!(found.verdict, Verdict::Clean, "{}: {found:#?}", what());
    assert_eq!(
        (found.records, &found.given_up),
        (rescued.records, &rescued.given_up),
        "{}",
        what()
    );
    let kept = read(&target, false).unwrap();
    are_as_written(image, &kept, what);
    let here: BTreeSet<u64> = kept.records.keys().copied().collect();
    let given_up = |lsn| rescued.given_up.iter().any(|lost| names(lost, lsn));
    let missing = skipping.records.keys().filter(|lsn| !here.contains(lsn));
    let missing: Vec<_> = missing.copied().collect();
    assert_eq!(missing.len() as u64, rescued.broken_sets, "{}: {missing:?}", what());
    assert!(missing.iter().all(|lsn| given_up(*lsn)), "{}: {missing:?}", what());
    let last = here.iter().max().copied().unwrap_or(0);
    for lsn in 1..=last {
        assert!(here.contains(&lsn) != given_up(lsn), "{}: record {lsn}", what());
    }
    let log = open(&laid_out(of_any_size(3), image.layout), &target).unwrap();
    let next = log.append(b"\"after\"").unwrap().get();
    let highest = highest_taken(skipping, &rescued.damage);
    assert!(next > highest.max(last), "{}: number {next} was taken", what());
    assert_eq!(read_own(&log).count(), kept.count() + 1, "{}", what());
}

fn cut_keeps_the_beginning(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let device = damaged.kill();
    let plain = read(damaged, false).unwrap();
    let planned = plan_cut_in(&storage(&device)).ok();
    let done = match cut_tail_in(&storage(&device)) {
        Ok(done) => done,
        Err(Error::Damaged(damage)) => {
            let at_start = plain.records.is_empty() || damage.cause == Corruption::Manifest;
            assert!(at_start && planned.is_none(), "{}: {damage}", what());
            return;
        }
        Err(error) => panic!("{}: {error}", what()),
    };
    let device = device.power_cut(|_| false);
    let found = judge(&device).unwrap();
    assert_eq!(found.verdict, Verdict::Clean, "{}: {found:#?}", what());
    let log = open(&laid_out(again(3), image.layout), &device)
        .unwrap_or_else(|error| panic!("{}: {error}", what()));
    let kept = read_own(&log);
    assert!(kept.is_prefix(), "{}", what());
    are_as_written(image, &kept, what);
    // All but the beginning of a set whose end is lost.
    assert!(kept.count() + 2 >= plain.count(), "{}: {} of {}", what(), kept.count(), plain.count());
    assert_eq!(kept.records.keys().max().copied(), done.last.map(Lsn::get), "{}", what());
    let planned = planned.unwrap();
    assert_eq!((planned.last, planned.damage), (done.last, done.damage.clone()), "{}", what());
    if done.damage.is_empty() {
        assert!(plain.count() <= kept.count(), "{}: an open would have kept more", what());
    }
    let next = log.append(b"\"after\"").unwrap().get();
    assert_eq!(next, kept.count() + 1, "{}", what());
}

fn the_log_goes_on(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) {
    let skipping = read(damaged, true).unwrap();
    let device = damaged.kill();
    let log: Bytes = match open(&laid_out(again(3), image.layout).mode(OpenMode::Salvage), &device)
    {
        Ok(log) => log,
        Err(Error::Damaged(_)) => return,
        Err(error) => panic!("{}: {error}", what()),
    };
    let was_damaged = !log.recovery().damage.is_empty();
    let next = log.append(b"\"after\"").unwrap().get();
    let highest = highest_taken(&skipping, &judge(damaged).unwrap().damage);
    assert!(next > highest, "{}: number {next} was taken", what());
    log.close().unwrap();
    let device = device.power_cut(|_| false);
    let found = judge(&device).unwrap();
    let is_damaged = !found.damage.is_empty();
    assert!(was_damaged || !is_damaged, "{}: {found:#?}", what());
    let mut after = read(&device, true).unwrap();
    assert_eq!(after.records.remove(&next).as_deref(), Some(b"\"after\"".as_slice()), "{}", what());
    are_as_written(image, &after, what);
    let lost = |lsn: u64| {
        found.damage.iter().any(|damage| damage.lost.is_some_and(|lost| names(&lost, lsn)))
    };
    for lsn in skipping.records.keys() {
        assert!(after.records.contains_key(lsn), "{}: record {lsn} went", what());
    }
    for lsn in 1..next {
        assert!(after.records.contains_key(&lsn) || lost(lsn), "{}: record {lsn}", what());
    }
    // It opens again in the same way, and not without being asked to.
    assert!(!is_damaged || open(&laid_out(again(4), image.layout), &device).is_err(), "{}", what());
    let log = open(&laid_out(again(4), image.layout).mode(OpenMode::Salvage), &device).unwrap();
    assert_eq!(log.append(b"\"again\"").unwrap().get(), next + 1, "{}", what());
}

/// The device refuses each block of each segment: an error, no damage, to those who did not ask to
/// go on, and a name to those who did.
#[test]
fn what_the_device_cannot_read_is_no_damage_and_hides_no_end() {
    for end in [End::Closed, End::PowerCut] {
        let image = write(end);
        for file in files(&image.device).into_iter().filter(|file| file.contains("seg")) {
            let length = image.device.bytes(&file).unwrap().len();
            for start in (0..length).step_by(512) {
                let device = image.device.kill();
                device.fail_read(&file, start..start + 512);
                let what = || format!("{end:?}, {file}, block at {start}");
                let error = open(&again(3), &device).map(drop);
                assert!(!matches!(error, Err(Error::Damaged(_))), "{}: {error:?}", what());
                let verdict = judge(&device);
                assert!(!matches!(&verdict, Ok(found) if !found.damage.is_empty()), "{}", what());
                if start < 4 * 512 {
                    // Header, marks and seal: nothing is known of such a segment.
                    continue;
                }
                read_around(&image, &device, &what);
                // Behind the last record, too: nobody knows that it was the last.
                let is_data = start >= 4 * 512 + 512;
                let damage = diagnose_in(&storage(&device)).unwrap().damage;
                let is_named = !damage.is_empty();
                assert!(is_named || file != NEWEST || !is_data, "{}", what());
            }
        }
    }
}

fn read_around(image: &Image, device: &MemStorage, what: &dyn Fn() -> String) {
    let found = diagnose_in(&storage(device)).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let skipping = read(device, true).unwrap_or_else(|error| panic!("{}: {error}", what()));
    are_as_written(image, &skipping, what);
    let all = image.records.len() as u64;
    for lsn in 1..=all {
        let lost = found.damage.iter().any(|damage| {
            damage.cause == Corruption::Unreadable
                && damage.lost.is_some_and(|lost| names(&lost, lsn))
        });
        assert!(skipping.records.contains_key(&lsn) != lost, "{}: record {lsn}", what());
    }
    let (target, rescued) = rescue(device).unwrap();
    assert_eq!(rescued.records + rescued.broken_sets, skipping.count(), "{}", what());
    are_as_written(image, &read(&target, false).unwrap(), what);
}

const ENDS: [End; 4] = [End::Closed, End::Confirmed, End::PowerCut, End::Killed];

/// Every way for a log to end, in both layouts.
fn images() -> impl Iterator<Item = Image> {
    LAYOUTS.into_iter().flat_map(|layout| ENDS.map(|end| write_in(end, layout)))
}

#[test]
fn whatever_bit_flips_there_are_three_ways_out() {
    let mut tried = 0;
    for image in images() {
        let end = (image.end, image.layout);
        for file in files(&image.device) {
            let length = image.device.bytes(&file).unwrap().len();
            // One bit of every fifth byte, each time another one.
            let thin = if image.layout == Layout::Text { one_in(4) } else { 1 };
            for at in (0..length).step_by(5 * usize::try_from(thin).unwrap()) {
                let damaged = image.device.kill();
                damaged.edit(&file, |bytes| bytes[at] ^= 1 << (at % 8));
                try_all(&image, &damaged, &|| format!("{end:?}, {file}, byte {at}"));
                tried += 1;
            }
        }
    }
    assert!(tried > 6_000, "{tried}");
}

#[test]
fn whatever_run_is_spoilt_there_are_three_ways_out() {
    let reach = usize::try_from(GEOMETRY.reach).unwrap();
    for image in images() {
        let end = (image.end, image.layout);
        for file in files(&image.device) {
            let length = image.device.bytes(&file).unwrap().len();
            for (start, size) in (0..length)
                .step_by(128)
                .flat_map(|at| [(at, 64), (at, 200), (at, reach), (at, 2000)])
            {
                let run = start..(start + size).min(length);
                for fill in [Fill::Zeros, Fill::Garbage(1)] {
                    let damaged = image.device.kill();
                    damaged.edit(&file, |bytes| spoil(&mut bytes[run.clone()], fill));
                    try_all(&image, &damaged, &|| format!("{end:?}, {file}, {run:?}, {fill:?}"));
                }
            }
        }
    }
}

#[test]
fn whatever_is_cut_lost_or_misplaced_there_are_three_ways_out() {
    for image in images() {
        let end = (image.end, image.layout);
        let files = files(&image.device);
        for file in &files {
            let length = image.device.bytes(file).unwrap().len();
            for length in (0..length).step_by(96) {
                let damaged = image.device.kill();
                damaged.edit(file, |bytes| bytes.truncate(length));
                try_all(&image, &damaged, &|| format!("{end:?}, {file} cut to {length}"));
            }
            let damaged = image.device.kill();
            damaged.remove_raw(file);
            try_all(&image, &damaged, &|| format!("{end:?}, {file} lost"));
            for other in files.iter().filter(|other| other != &file) {
                let damaged = image.device.kill();
                damaged.copy_raw(other, file);
                try_all(&image, &damaged, &|| format!("{end:?}, {other} copied over {file}"));
            }
        }
    }
}

/// A log with one payload byte of its second batch of three changed, in the first segment.
fn with_a_hole() -> (Image, MemStorage) {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    let (_, batches) = batches(&damaged, "000000000001.seg");
    let record_3 = batches[1].0 + 48 + 88 + 20;
    damaged.edit("000000000001.seg", |bytes| bytes[record_3] ^= 1);
    (image, damaged)
}

#[test]
fn a_crash_at_any_step_of_a_cut_loses_nothing_that_is_kept() {
    let (image, damaged) = with_a_hole();
    let whole = damaged.kill();
    let before = whole.steps();
    let last = cut_tail_in(&storage(&whole)).unwrap().last;
    let steps = whole.steps() - before;
    assert!(steps > 20, "{steps}");
    for stop in 0..=steps {
        let device = damaged.kill();
        device.stop_after(before + stop);
        let _ = cut_tail_in(&storage(&device));
        for left in [device.power_cut(|_| false), device.power_cut(|_| true), device.kill()] {
            let what = || format!("stopped after {stop} of {steps} steps");
            // Damaged as before, or repaired: never sound and shorter.
            if open(&again(9), &left.kill()).is_err() {
                assert_eq!(judge(&left).unwrap().verdict, Verdict::Lost, "{}", what());
            }
            let done = cut_tail_in(&storage(&left)).unwrap();
            assert_eq!(done.last, last, "{}", what());
            let log = open(&again(9), &left).unwrap();
            let kept = read_own(&log);
            assert_eq!(kept.records.keys().max().copied(), last.map(Lsn::get));
            are_as_written(&image, &kept, &what);
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_salvage_leaves_no_log_that_looks_whole_and_is_not() {
    let (image, damaged) = with_a_hole();
    let (whole, rescued) = rescue(&damaged).unwrap();
    let steps = whole.steps();
    for stop in 0..=steps {
        let target = MemStorage::new();
        target.stop_after(stop);
        let done = salvage_in(&storage(&damaged), storage(&target));
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

#[test]
fn what_leaves_the_log_is_kept_in_quarantine() {
    let (_, damaged) = with_a_hole();
    let device = damaged.kill();
    let files = ["000000000001.seg", "000000000002.seg", NEWEST];
    let before = files.map(|file| device.bytes(file));
    let done = cut_tail_in(&storage(&device)).unwrap();
    // The first one, too: what stands behind its damage leaves with its next prune.
    let kept: Vec<_> = done.quarantine.iter().map(|file| device.bytes(file)).collect();
    assert_eq!(kept, before, "{:?}", done.quarantine);
    assert_eq!((device.bytes(files[1]), device.bytes(files[2])), (None, None));
}

/// A reader that lives must not be told to undo what the repair is about to write again.
#[test]
fn a_cut_tells_readers_of_nothing_that_stays() {
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
    assert_eq!(cut_tail_in(&storage(&whole)).unwrap().last.map(Lsn::get), Some(3));
    for stop in 0..=whole.steps() - before {
        let left = damaged.kill();
        left.stop_after(before + stop);
        let _ = cut_tail_in(&storage(&left));
        let live = Live::decode(&left.bytes("live").unwrap()).unwrap();
        assert!(live.durable >= Lsn::new(3), "step {stop}: {live:?}");
    }
}

/// Without manifest and first segment nobody knows how the log began: no number is given anew.
#[test]
fn a_salvage_names_the_beginning_that_is_lost_with_the_manifest() {
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
fn half_of_an_atomic_set_is_given_up_with_the_other_half() {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    // Records 2 to 4 are a set; the last of them is hit.
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

/// Left: a salvaged log whose records 2 to 4 are void batches; then its writer, and a machine that
/// started anew.
#[test]
fn a_record_that_was_given_up_is_not_got_and_its_neighbours_are() {
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
            let Err(Error::Damaged(damage)) = found else { panic!("way {way}: {found:?}") };
            assert_eq!(damage.cause, Corruption::GivenUp, "way {way}: {damage}");
            let lost = damage.lost.unwrap();
            let named = lost.from.get()..=lost.to.unwrap().get();
            assert!(named.contains(&number) && (2..=4).contains(named.end()), "{damage}");
        }
        assert!(matches!(get(lsn(14)), Ok(None)), "way {way}");
    }
}

/// The image: a run of a text moved on a little, so that something stands between the lines of a
/// set that is no line, and the last line of the set is spoilt.
#[test]
fn a_set_of_lines_with_damage_in_its_midst_is_not_carried_in_halves() {
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
    // What is intact of the set is given up with the rest of it.
    let carried = read(&target, false).unwrap().records;
    assert!(rescued.broken_sets > 0, "{rescued:#?}");
    assert!(carried.iter().all(|(lsn, _)| !(2..=4).contains(lsn)), "{rescued:#?}");
    try_all(&image, &damaged, &|| "damage in the midst of a set of lines".to_owned());
}

/// Found by simulation. The image: a set of three records of which a cut left one, and behind that
/// one the batch is spoilt.
#[test]
fn a_set_that_a_cut_shortened_is_salvaged_from_a_spoilt_batch() {
    for layout in LAYOUTS {
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
        cut_tail_in(&storage(&damaged)).unwrap();
        assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Clean);
        assert_eq!(read(&damaged, false).unwrap().count(), 1);
    }
}

/// Found by simulation. The image: a log that was emptied three times, then a record and a
/// checkpoint at it; the segment is lost in which the first cut went on.
#[test]
fn a_repair_that_cuts_before_a_gap_below_the_checkpoint_shows_nothing_that_was_cut() {
    for layout in LAYOUTS {
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
        let cut = cut_tail_in(&storage(&damaged)).unwrap();
        assert_eq!((cut.last, cut.intact_behind), (None, 1));
        assert_eq!(read(&damaged, true).unwrap().count(), 0);
        assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Clean);
    }
}

/// The image: of a log of many years the oldest segment is lost, and with it more records than 32
/// bits can count; the newest holds none yet. Or a number is forged that no log reaches.
#[test]
fn more_records_than_32_bits_can_count_are_given_up_and_no_number_is_too_high_to_refuse() {
    for (lost, is_rescued) in [(10_000_000_000, true), (1 << 62, false)] {
        let device = MemStorage::new();
        open(&tiny(1), &device).unwrap().close().unwrap();
        let (first, second) = ("000000000001.seg", "000000000002.seg");
        device.copy_raw(first, second);
        device.edit(second, |bytes| {
            let header = SegmentHeader::decode(bytes).unwrap();
            let header = SegmentHeader {
                id: header.id.next(),
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
            Err(Error::Damaged(_)) => assert!(!is_rescued),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Records 2, 3 and 4 and the set of 5 and 6 share a batch, as those of many threads do: a hit one
/// takes none with it but the beginning of its set.
#[test]
fn in_a_batch_of_many_appends_each_stands_for_itself() {
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
        let kept = cut_tail_in(&storage(&damaged)).unwrap().last.map(Lsn::get);
        assert_eq!(kept, Some(first - 1), "{}", what());
    }
}

#[test]
fn a_log_in_use_is_not_repaired() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    log.append(b"one").unwrap();
    let target = storage(&MemStorage::new());
    let busy = |error: Option<Error>| matches!(error, Some(Error::Busy { .. }));
    assert!(busy(salvage_in(&storage(&device), target).err()));
    assert!(busy(cut_tail_in(&storage(&device)).err()));
    assert!(busy(diagnose_in(&storage(&device)).err()));
}

#[test]
fn what_stands_in_the_wrong_place_is_named_by_where_it_belongs() {
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
    let foreign = bytes("000000000002.seg", second[0]);
    let from = second[0].0 as u64;
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

/// Half a log inside the log that it is rescued from would be in the way of both.
#[test]
fn nothing_is_made_inside_the_log_that_is_read() {
    let folder = Scratch::new("inside");
    let log: Bytes = Options::new().open(&folder.path).unwrap();
    log.append(b"one").unwrap();
    log.close().unwrap();
    let inside = folder.path.join("new");
    assert!(matches!(salvage(&folder.path, &inside), Err(Error::InvalidOption { .. })));
    assert!(matches!(copy(&folder.path, &inside), Err(Error::InvalidOption { .. })));
    assert!(!inside.exists());
}

/// The writer could not write `live` any more, went on, and was killed.
#[test]
fn a_salvage_goes_on_where_the_word_of_a_killed_writer_ends() {
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

/// Left: the headers of two batches side by side are spoilt, and all records are intact. Found by
/// reading: a cut put them into one batch, larger than any, and panicked.
#[test]
fn intact_records_of_two_batches_side_by_side_are_kept_by_a_cut() {
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
        assert_eq!(cut_tail_in(&storage(&device)).unwrap().last, Some(lsn(3)), "{size}");
        let left = device.power_cut(|_| false);
        assert_eq!(judge(&left).unwrap().verdict, Verdict::Clean, "{size}");
        let kept = read(&left, false).unwrap().records;
        let written = |number| (number, payload(number, 1, size));
        assert!(kept.into_iter().eq((1..=3).map(written)), "{size}");
    }
}

/// Left: a manifest that was forged, sound in itself, of a log with smaller batches than its
/// segments have.
#[test]
fn batches_larger_than_the_manifest_says_are_refused_or_given_up_and_panic_nobody() {
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
        let cut = cut_tail_in(&storage(&left.kill()));
        assert!(fits == cut.is_ok(), "{size}: {cut:?}");
        let opened = Options::new().open_in::<[u8], Raw>(storage(&left));
        assert!(fits == opened.is_ok(), "{size}: {opened:?}");
    }
}
