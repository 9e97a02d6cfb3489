//! Every bit flip, every truncation and every lost or misplaced file of a small log: each
//! acknowledged record is delivered as written, or reported as lost.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use std::ops::Range;

use common::images::{
    End, Fill, Image, NEWEST, NEWEST_HEAD, NEWEST_TEXT, NONE, batches, count, files, spoil, write,
    write_in,
};
use common::sample::Sample;
use common::{
    Found, GEOMETRY, again, judge, laid_out, lsn, names, open, payload, read, read_own, tiny,
};
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Layout, Lsn};
use seawall_testkit::MemStorage;

const ENDS: [End; 4] = [End::Closed, End::Confirmed, End::PowerCut, End::Killed];

/// The contents of all files. A reader may sync files, but changes none.
fn contents(device: &MemStorage) -> Vec<(String, Option<Vec<u8>>)> {
    device.names().into_iter().map(|name| (name.clone(), device.bytes(&name))).collect()
}

/// Reads a damaged log in every way, and compares with what was written.
///
/// Records in the window may be missing if the verdict is ambiguous.
fn look(image: &Image, damaged: &MemStorage, what: &dyn Fn() -> String) -> Verification {
    let before = contents(damaged);
    let found = judge(damaged).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let plain = read(damaged, false).unwrap_or_else(|error| panic!("{}: {error}", what()));
    let skipping = read(damaged, true).unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert!(contents(damaged) == before, "{}: readers change nothing", what());
    let context = || format!("{}: {found:#?}\n{:?}", what(), skipping.records.keys());
    for reading in [&plain, &skipping] {
        for (lsn, payload) in &reading.records {
            let written = usize::try_from(*lsn).ok().and_then(|lsn| image.records.get(lsn - 1));
            assert!(
                Some(payload) == written,
                "record {lsn} is not what was written: {}",
                context()
            );
        }
    }
    let keys = || skipping.records.keys().copied();
    if image.end != End::Killed {
        // After a kill the reader knows more: a record that is durable according to `live` is not
        // torn.
        let number = |lsn: Option<Lsn>| lsn.map(Lsn::get);
        let seen = (found.records, number(found.first_lsn), number(found.last_lsn));
        let delivered = (skipping.count(), keys().min(), keys().max());
        assert_eq!(seen, delivered, "verify and the reader agree: {}", context());
        assert_eq!(plain.errors > 0, !found.damage.is_empty(), "{}", context());
    }
    let stop = plain.count();
    assert!(plain.is_prefix(), "{}", context());
    assert!(keys().take(plain.records.len()).eq(1..=stop), "{}", context());
    for lsn in 1..=count(&image.records) {
        if skipping.records.contains_key(&lsn) {
            continue;
        }
        let named = found.verdict == Verdict::Lost
            && found.damage.iter().filter_map(|damage| damage.lost).any(|lost| names(&lost, lsn));
        let told = skipping.lost.iter().any(|lost| names(lost, lsn));
        let unsure = is_unsure(image, &found) && lsn >= image.window;
        assert!((named && told) || unsure, "record {lsn} is silently missing: {}", context());
    }
    reopen(image, damaged, &found, what);
    found
}

/// Whether the verdict admits that records in the window may be missing. A line with a zero byte in
/// it looks torn, and one flip turns a blank into a zero byte.
fn is_unsure(image: &Image, found: &Verification) -> bool {
    let is_text = image.layout == Layout::Text;
    found.verdict == Verdict::Unsure || (is_text && found.verdict == Verdict::Torn)
}

/// Opens a damaged log: the open is refused, or every acknowledged record is there.
fn reopen(image: &Image, damaged: &MemStorage, found: &Verification, what: &dyn Fn() -> String) {
    let device = damaged.kill();
    let log = match open(&laid_out(again(2), image.layout), &device) {
        Ok(log) => log,
        Err(Error::Damaged { .. }) => {
            assert!(!found.damage.is_empty(), "{}: sound, and refused", what());
            return;
        }
        Err(error) => panic!("{}: {error}", what()),
    };
    let sound = matches!(found.verdict, Verdict::Clean | Verdict::Torn | Verdict::Unsure);
    assert!(sound, "{}: opened in spite of {found:#?}", what());
    let records = read_own(&log);
    assert!(records.is_prefix(), "{}", what());
    let missing = (records.count() + 1)..=count(&image.records);
    for lsn in missing {
        let excused = is_unsure(image, found) && lsn >= image.window;
        assert!(excused, "{}: record {lsn} was cut off", what());
    }
    for (lsn, payload) in records.records {
        let index = usize::try_from(lsn - 1).unwrap();
        assert!(image.records[index] == payload, "{}: record {lsn}", what());
    }
}

pub(crate) fn every_flip(end: End, layout: Layout) {
    let image = write_in(end, layout);
    let mut seen = [0; 5];
    // The files in which a confirmation or a kill differs from a close or a power cut.
    let newest = |others: &[&str]| {
        let newest: &[&str] =
            if layout == Layout::Text { &[NEWEST_HEAD, NEWEST_TEXT] } else { &[NEWEST] };
        newest.iter().chain(others).map(|name| (*name).to_owned()).collect()
    };
    let (files, least) = match end {
        End::Closed | End::PowerCut => (files(&image.device), 100_000),
        End::Confirmed => (newest(&[]), 40_000),
        End::Killed => (newest(&["live"]), 40_000),
    };
    // Lines take longer to check.
    let mut sample = Sample::one_in(if layout == Layout::Text { 120 } else { 20 });
    for file in files {
        let bytes = image.device.bytes(&file).unwrap();
        // Heads have the same blocks as any segment, mostly zeros.
        let step = if file.contains(".head") { 5 } else { 1 };
        let flips = (0..bytes.len()).step_by(step).flat_map(|at| (0..8).map(move |bit| (at, bit)));
        for (at, bit) in flips.filter(|_| sample.takes_next()) {
            let damaged = image.device.kill();
            damaged.edit(&file, |bytes| bytes[at] ^= 1 << bit);
            let found =
                look(&image, &damaged, &|| format!("{end:?} {layout:?}, {file}, {at}, bit {bit}"));
            tally(&mut seen, &found);
        }
    }
    println!("{end:?} {layout:?}: flips judged clean, torn, unsure, correctable, lost: {seen:?}");
    let least = if layout == Layout::Text { least / 3 } else { least };
    assert!(seen.iter().sum::<u64>() > sample.least(least), "{seen:?}");
}

fn tally(seen: &mut [u64; 5], found: &Verification) {
    let verdicts =
        [Verdict::Clean, Verdict::Torn, Verdict::Unsure, Verdict::Correctable, Verdict::Lost];
    seen[verdicts.iter().position(|verdict| *verdict == found.verdict).unwrap()] += 1;
}

pub(crate) fn every_cut(end: End, layout: Layout) {
    let image = Image { window: NONE, ..write_in(end, layout) };
    let (mut seen, mut sample) = ([0; 5], Sample::one_in(40));
    for file in files(&image.device) {
        let length = image.device.bytes(&file).unwrap().len();
        for length in (0..length).filter(|_| sample.takes_next()) {
            let damaged = image.device.kill();
            damaged.edit(&file, |bytes| bytes.truncate(length));
            let found =
                look(&image, &damaged, &|| format!("{end:?} {layout:?}, {file} cut to {length}"));
            tally(&mut seen, &found);
        }
    }
    println!("{end:?} {layout:?}: cuts judged clean, torn, unsure, correctable, lost: {seen:?}");
    let least = if layout == Layout::Text { 11_000 } else { 13_000 };
    assert!(seen.iter().sum::<u64>() > sample.least(least), "{seen:?}");
}

pub(crate) fn every_file(end: End, layout: Layout) {
    let image = Image { window: NONE, ..write_in(end, layout) };
    let files = files(&image.device);
    for file in &files {
        let damaged = image.device.kill();
        damaged.remove_raw(file);
        look(&image, &damaged, &|| format!("{end:?} {layout:?}, {file} lost"));
        for other in files.iter().filter(|other| other != &file) {
            let damaged = image.device.kill();
            damaged.copy_raw(other, file);
            look(&image, &damaged, &|| format!("{end:?} {layout:?}, {other} copied over {file}"));
        }
        let damaged = image.device.kill();
        damaged.edit(file, |bytes| bytes.extend([0; 512]));
        look(&image, &damaged, &|| format!("{end:?} {layout:?}, {file} grown"));
        let damaged = image.device.kill();
        damaged.edit(file, |bytes| bytes.fill(0));
        look(&image, &damaged, &|| format!("{end:?} {layout:?}, {file} zeroed"));
    }
}

#[test]
fn flipped_bit_in_a_closed_log_is_always_detected() {
    every_flip(End::Closed, Layout::Binary);
}

#[test]
fn flipped_bit_in_a_confirmed_log_is_always_detected() {
    every_flip(End::Confirmed, Layout::Binary);
}

#[test]
fn flipped_bit_after_a_power_cut_hides_at_most_the_last_batch() {
    every_flip(End::PowerCut, Layout::Binary);
}

#[test]
fn flipped_bit_after_a_kill_hides_at_most_the_last_batch() {
    every_flip(End::Killed, Layout::Binary);
}

#[test]
fn truncated_file_is_always_detected() {
    for end in ENDS {
        every_cut(end, Layout::Binary);
    }
}

#[test]
fn lost_or_misplaced_file_is_always_detected() {
    for end in ENDS {
        every_file(end, Layout::Binary);
    }
}

/// Returns the last confirmed record of the newest segment, according to the headers that a run of
/// damage left intact. Only later records may be hidden.
fn window_of(batches: &(u64, Vec<(usize, usize, u64)>), run: &Range<usize>) -> u64 {
    let (mut confirmed, mut last) = (batches.0 - 1, batches.0 - 1);
    for (at, _, last_here) in &batches.1 {
        let header_is_intact = *at + 48 <= run.start || *at >= run.end;
        if header_is_intact {
            confirmed = last;
        }
        last = *last_here;
    }
    confirmed
}

/// Every run of damage up to REACH. As [`look`], but a run may also look like a torn write.
pub(crate) fn every_run(end: End, layout: Layout) {
    let image = write_in(end, layout);
    let reach = usize::try_from(GEOMETRY.reach).unwrap();
    let newest = if layout == Layout::Text { NEWEST_TEXT } else { NEWEST };
    let batches = batches(&image.device, newest);
    let (mut hidden, mut sample) = (0, Sample::one_in(16));
    for file in files(&image.device) {
        let length = image.device.bytes(&file).unwrap().len();
        for (start, size) in
            (0..length).step_by(64).flat_map(|at| [(at, 64), (at, 200), (at, reach)])
        {
            let run = start..(start + size).min(length);
            let fills = [Fill::Zeros, Fill::Garbage(1), Fill::Garbage(2)];
            for fill in fills.into_iter().filter(|_| sample.takes_next()) {
                let damaged = image.device.kill();
                damaged.edit(&file, |bytes| spoil(&mut bytes[run.clone()], fill));
                let what = || format!("{end:?} {layout:?}, {file}, {run:?}, {fill:?}");
                let in_window = file == newest && image.window < NONE;
                let first = if in_window { window_of(&batches, &run) + 1 } else { NONE };
                hidden += u64::from(look_at_run(&image, &damaged, first, &what));
            }
        }
    }
    println!("{end:?} {layout:?}: {hidden} runs hid records of the window");
}

/// Returns whether a run of damage hid a record: only from `first` on, and never under a clean
/// verdict.
fn look_at_run(image: &Image, damaged: &MemStorage, first: u64, what: &dyn Fn() -> String) -> bool {
    let found = judge(damaged).unwrap();
    let delivered: Found = read(damaged, true).unwrap();
    let missing: Vec<u64> =
        (1..=count(&image.records)).filter(|lsn| !delivered.records.contains_key(lsn)).collect();
    let is_named = |lsn: &u64| {
        found.damage.iter().filter_map(|damage| damage.lost).any(|lost| names(&lost, *lsn))
    };
    let silent: Vec<u64> = missing.iter().copied().filter(|lsn| !is_named(lsn)).collect();
    let doubtful = matches!(found.verdict, Verdict::Torn | Verdict::Unsure);
    let excused = |lsn: &u64| *lsn >= first && doubtful;
    assert!(silent.iter().all(excused), "{}: {silent:?} silently missing: {found:#?}", what());
    assert!(silent.len() == missing.len() || found.verdict == Verdict::Lost, "{}", what());
    let device = damaged.kill();
    match open(&laid_out(again(2), image.layout), &device) {
        Ok(log) => {
            let last = read_own(&log).count();
            let kept = count(&image.records).min(first.saturating_sub(1));
            assert!(last >= kept, "{}: cut to {last}", what());
        }
        Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{}: {error}", what()),
    }
    !silent.is_empty()
}

#[test]
fn damaged_run_in_a_closed_or_confirmed_log_is_always_detected() {
    every_run(End::Closed, Layout::Binary);
    every_run(End::Confirmed, Layout::Binary);
}

#[test]
fn damaged_run_after_a_crash_hides_only_unconfirmed_records() {
    every_run(End::PowerCut, Layout::Binary);
    every_run(End::Killed, Layout::Binary);
}

#[test]
fn other_files_in_the_directory_do_not_change_the_end_of_the_log() {
    let image = write(End::Closed);
    let device = image.device.kill();
    device.copy_raw(NEWEST, "spare-4.tmp");
    let found = look(&image, &device, &|| "a temporary file".to_owned());
    assert_eq!(found.verdict, Verdict::Clean);
}

/// The image: a disk overwrote the frame of one record with that of another record of the batch.
#[test]
fn record_at_the_place_of_another_is_not_mistaken_for_it() {
    let image = write(End::Closed);
    // Records 7, 8 and 9 are a set of three times 200 bytes, in frames of 208. Two of them
    // continue.
    let (_, batches) = batches(&image.device, "000000000002.seg");
    let frames = batches[2].0 + 48;
    for (from, to) in [(0, 208), (208, 0)] {
        let damaged = image.device.kill();
        damaged.edit("000000000002.seg", |bytes| {
            bytes.copy_within(frames + from..frames + from + 208, frames + to);
        });
        let found = look(&image, &damaged, &|| format!("frame at {from} copied to {to}"));
        assert_eq!(found.verdict, Verdict::Lost);
        assert_eq!(found.records, count(&image.records) - 1, "the others are intact");
    }
}

/// The image: one slot of another log's manifest replaced ours, by a disk error, or a user copied
/// the whole file. The other log begins with record 5.
#[test]
fn manifest_of_another_log_hides_no_record() {
    let image = write(End::Closed);
    let other = MemStorage::new();
    let log = open(&tiny(99), &other).unwrap();
    for number in 1..=20 {
        log.append(&payload(number, 9, 300)).unwrap();
    }
    let oldest = log.truncate_before(lsn(9)).unwrap();
    log.close().unwrap();
    assert!(oldest > lsn(1), "{oldest}");
    let theirs = other.bytes("manifest").unwrap();
    for slot in [0..512, 512..1024] {
        let damaged = image.device.kill();
        damaged
            .edit("manifest", |bytes| bytes[slot.clone()].copy_from_slice(&theirs[slot.clone()]));
        let found = look(&image, &damaged, &|| format!("slot {slot:?} of another log"));
        assert_eq!(found.verdict, Verdict::Clean, "the other slot is ours: {found:#?}");
    }
    let damaged = image.device.kill();
    damaged.edit("manifest", |bytes| bytes.clone_from(&theirs));
    let found = look(&image, &damaged, &|| "the manifest of another log".to_owned());
    assert_eq!(found.verdict, Verdict::Lost, "segments and manifest are of different logs");
}

#[test]
fn zeros_after_a_predecessor_may_be_truncated() {
    let image = write(End::Closed);
    for file in ["000000000001.seg", "000000000002.seg"] {
        let (_, batches) = batches(&image.device, file);
        let damaged = image.device.kill();
        damaged.edit(file, |bytes| bytes.truncate(batches.last().unwrap().1));
        let found = look(&image, &damaged, &|| format!("{file} cut behind its last batch"));
        assert_eq!(found.verdict, Verdict::Clean);
    }
}

#[test]
fn flipped_bit_in_a_readable_log_is_always_detected() {
    for end in ENDS {
        every_flip(end, Layout::Text);
    }
}

/// A text ends at the end of a line, so missing lines show only if something else refers to them.
#[test]
fn truncated_file_of_a_readable_log_is_always_detected() {
    every_cut(End::Closed, Layout::Text);
    every_cut(End::Confirmed, Layout::Text);
}

#[test]
fn lost_or_misplaced_file_of_a_readable_log_is_always_detected() {
    every_file(End::Closed, Layout::Text);
    every_file(End::Confirmed, Layout::Text);
}

#[test]
fn damaged_run_in_a_readable_log_hides_only_unconfirmed_records() {
    for end in ENDS {
        every_run(end, Layout::Text);
    }
}
