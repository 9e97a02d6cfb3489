//! File names removed or taken while a log is open: there is still only one writer, and no record
//! is acknowledged in a file that cannot be opened again.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::programs::{output, wait_for_programs};
use common::{Bytes, Scratch, again, payload, tiny};
use seawall::{Error, Layout, Level};
use seawall_format::{HEADER_SIZE, SegmentHeader};
use seawall_io::{PosixStorage, Storage};
use seawall_testkit::MemStorage;

/// The newest segment of a new log.
const TAIL: &str = "000000000001.seg";

fn posix(scratch: &Scratch) -> PosixStorage {
    PosixStorage::open(&scratch.log()).unwrap()
}

fn append_all(log: &Bytes, numbers: std::ops::RangeInclusive<u64>) -> Result<(), Error> {
    numbers.into_iter().try_for_each(|number| log.append(&payload(number, 1, 150)).map(drop))
}

/// Returns the errors that end a log after a name was taken: that of `act` and that of the close.
fn end_of(log: Bytes, act: impl FnOnce(&Bytes) -> Result<(), Error>) -> [String; 2] {
    let ended = act(&log).unwrap_err();
    let later = log.append(b"7").unwrap_err();
    assert!(matches!(later, Error::Poisoned { .. }), "{later}");
    [said(&ended), said(&log.close().unwrap_err())]
}

/// The messages of an error and of its causes.
fn said(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn assert_names(said: &[String; 2], cause: &str) {
    for text in said {
        assert!(text.contains(cause), "{text:?} does not say {cause:?}");
    }
}

#[test]
fn second_writer_is_refused_after_the_lock_file_was_removed() {
    let scratch = Scratch::new("names-lock");
    let first: Bytes = tiny(1).open(scratch.log()).unwrap();
    append_all(&first, 1..=5).unwrap();
    posix(&scratch).remove("lock").unwrap();
    let second: Result<Bytes, Error> = again(2).open(scratch.log());
    assert!(matches!(second, Err(Error::Busy { .. })), "{second:?}");
    assert!(posix(&scratch).is_locked("lock").unwrap(), "a reader takes the log for abandoned");
    assert!(posix(&scratch).list().unwrap().iter().all(|name| name != "lock"), "it was made");
    drop(first);
    let third: Bytes = again(3).open(scratch.log()).unwrap();
    assert_eq!(third.durable().unwrap().get(), 5);
}

#[test]
fn removed_or_replaced_lock_file_stops_the_log() {
    for replaced in [false, true] {
        for (what, act) in acts() {
            let scratch = Scratch::new(&format!("names-lock-{replaced}-{what}"));
            let log: Bytes = tiny(1).open(scratch.log()).unwrap();
            append_all(&log, 1..=20).unwrap();
            let storage = posix(&scratch);
            storage.remove("lock").unwrap();
            if replaced {
                storage.create("lock").unwrap();
            }
            let how = if replaced { "replaced" } else { "removed" };
            let said = end_of(log, act);
            assert_names(&said, &format!("lock was {how} while the log was open"));
        }
    }
}

type Act = fn(&Bytes) -> Result<(), Error>;

/// Every call that writes evidence, or that uses a file by its name.
fn acts() -> [(&'static str, Act); 5] {
    [
        ("mark", |log| log.confirm().map(drop)),
        ("rotation", |log| append_all(log, 21..=60)),
        ("checkpoint", |log| log.checkpoint(common::lsn(3))),
        ("prune", |log| log.truncate_before(common::lsn(15)).map(drop)),
        ("truncation", |log| log.truncate_after(Some(common::lsn(2)))),
    ]
}

#[test]
fn close_reports_a_removed_lock_file() {
    let scratch = Scratch::new("names-close");
    let log: Bytes = tiny(1).open(scratch.log()).unwrap();
    append_all(&log, 1..=3).unwrap();
    posix(&scratch).remove("lock").unwrap();
    let said = said(&log.close().unwrap_err());
    assert!(said.contains("lock was removed while the log was open"), "{said}");
    let log: Bytes = again(2).open(scratch.log()).unwrap();
    assert_eq!(log.durable().unwrap().get(), 3);
}

#[test]
fn nothing_is_acknowledged_in_a_removed_segment() {
    let scratch = Scratch::new("names-tail");
    let log: Bytes = tiny(1).open(scratch.log()).unwrap();
    append_all(&log, 1..=3).unwrap();
    posix(&scratch).remove(TAIL).unwrap();
    let said = end_of(log, |log| append_all(log, 4..=4));
    assert_names(&said, "000000000001.seg was removed while the log was open");
}

#[test]
fn nothing_is_acknowledged_in_a_removed_text() {
    for name in ["000000000001.jsonl", "000000000001.head"] {
        let device = MemStorage::new();
        let log: Bytes = common::open(&common::laid_out(tiny(1), Layout::Text), &device).unwrap();
        log.append(b"1").unwrap();
        device.remove(name).unwrap();
        let said = end_of(log, |log| log.append(b"2").map(drop));
        assert_names(&said, &format!("{name} was removed while the log was open"));
    }
}

#[test]
fn confirm_and_close_detect_a_removed_segment() {
    for close in [false, true] {
        let device = MemStorage::new();
        let log: Bytes = common::open(&tiny(1).level(Level::Synced), &device).unwrap();
        append_all(&log, 1..=3).unwrap();
        device.remove(TAIL).unwrap();
        let ended = if close { log.close() } else { log.confirm().map(drop) };
        let said = said(&ended.unwrap_err());
        assert!(said.contains(&format!("{TAIL} was removed while the log was open")), "{said}");
    }
}

#[test]
fn nothing_is_acknowledged_in_a_removed_directory() {
    for (what, act) in acts() {
        let scratch = Scratch::new(&format!("names-directory-{what}"));
        let log: Bytes = tiny(1).open(scratch.log()).unwrap();
        append_all(&log, 1..=20).unwrap();
        scratch.remove_log();
        let said = end_of(log, act);
        assert_names(&said, "was removed while the log was open");
    }
}

#[test]
fn log_in_a_renamed_directory_continues() {
    let scratch = Scratch::new("names-moved");
    let log: Bytes = tiny(1).open(scratch.log()).unwrap();
    let moved = scratch.move_log();
    append_all(&log, 1..=40).unwrap();
    log.confirm().unwrap();
    let second: Result<Bytes, Error> = again(2).open(&moved);
    assert!(matches!(second, Err(Error::Busy { .. })), "{second:?}");
    log.close().unwrap();
    wait_for_programs();
    let log: Bytes = again(3).open(&moved).unwrap();
    assert_eq!(log.durable().unwrap().get(), 40);
}

/// Directories or other files may already have the names of preallocated files.
#[test]
fn existing_name_for_a_preallocated_file_is_skipped() {
    let device = MemStorage::new();
    for number in 1..=30 {
        device.folder(&format!("spare-{number}.tmp")).unwrap();
    }
    let options = tiny(1);
    let log: Bytes = common::open(&options, &device).unwrap();
    append_all(&log, 1..=60).unwrap();
    assert!(log.stats().rolls > 2);
    log.close().unwrap();
    let log: Bytes = common::open(&again(2), &device).unwrap();
    assert_eq!(log.durable().unwrap().get(), 60);
}

/// An orphan file gets the name of the next segment after the log was opened.
#[test]
fn rotation_never_replaces_a_segment() {
    let device = MemStorage::new();
    let log: Bytes = common::open(&tiny(1), &device).unwrap();
    append_all(&log, 1..=3).unwrap();
    device.create("000000000002.seg").unwrap().write_at(b"of another", 0).unwrap();
    append_all(&log, 4..=60).unwrap();
    assert_eq!(device.bytes("000000000002.seg").unwrap(), b"of another");
    log.close().unwrap();
}

/// The image: the only segment of the log has the highest possible number.
#[test]
fn log_with_the_highest_segment_number_creates_no_other_segment() {
    let device = MemStorage::new();
    common::open(&tiny(1), &device).unwrap().close().unwrap();
    let name = format!("{}.seg", u64::MAX);
    device.copy_raw(TAIL, &name);
    device.edit(&name, |bytes| {
        let id = seawall::format::SegmentId::new(u64::MAX).unwrap();
        let header = SegmentHeader { id, ..SegmentHeader::decode(bytes).unwrap() };
        bytes.splice(..HEADER_SIZE, header.encode());
    });
    device.remove_raw(TAIL);
    device.remove_raw("manifest");
    let opened = common::open(&common::of_any_size(9), &device);
    let ended = match opened {
        Ok(log) => append_all(&log, 1..=60).unwrap_err(),
        Err(error) => error,
    };
    assert!(said(&ended).contains("all segment ids are used"), "{ended}");
    let left = device.bytes(&name).unwrap();
    assert_eq!(SegmentHeader::decode(&left).unwrap().id.get(), u64::MAX);
    let names: Vec<String> =
        device.names().into_iter().filter(|name| name.contains(".seg")).collect();
    assert_eq!(names, [name]);
}

/// Set in the child process, which uses up its file descriptors.
const CHILD: &str = "SEAWALL_TEST_DESCRIPTORS";

/// A failover creates its file in the same way as a rotation.
#[test]
fn log_rotates_when_no_descriptor_is_left() {
    if let Ok(layout) = std::env::var(CHILD) {
        let layout = if layout == "text" { Layout::Text } else { Layout::Binary };
        return rotate_without_descriptors(layout);
    }
    for layout in ["binary", "text"] {
        let this = std::env::current_exe().unwrap();
        let test = "names::log_rotates_when_no_descriptor_is_left";
        // The limit applies only to the child process, not to other tests.
        let line = format!("ulimit -n 64 && exec '{}' --exact {test} --nocapture", this.display());
        let mut shell = std::process::Command::new("sh");
        let ran = output(shell.arg("-c").arg(line).env(CHILD, layout)).unwrap();
        assert!(ran.status.success(), "{layout}: {ran:?}");
    }
}

fn rotate_without_descriptors(layout: Layout) {
    let scratch = Scratch::new("names-descriptors");
    let log: Bytes = common::laid_out(tiny(1), layout).open(scratch.log()).unwrap();
    let append = |number| log.append(&common::payload_in(layout, (number, 1), 150)).map(drop);
    for _ in 0..3 {
        let mut used_up = vec![];
        while let Ok(one) = PosixStorage::open(&scratch.path) {
            used_up.push(one);
        }
        assert!((20..64).contains(&used_up.len()), "{}", used_up.len());
        let before = log.stats().rolls;
        while log.stats().rolls == before {
            append(1).unwrap();
        }
        drop(used_up);
        // Once descriptors are available, the log reserves some again.
        while log.stats().rolls == before + 1 {
            append(2).unwrap();
        }
    }
    let last = log.durable();
    log.close().unwrap();
    let log: Bytes = common::laid_out(again(2), layout).open(scratch.log()).unwrap();
    assert_eq!(log.durable(), last);
}
