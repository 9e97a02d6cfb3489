//! The readable log: which edits by people and tools it accepts, and that it keeps the promises of
//! every log.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{
    Bytes, LAYOUTS, Random, SEGMENT_MIN, judge, laid_out, lsn, open, read, read_own, tiny, within,
};
use seawall::damage::{AtomicSet, Corruption};
use seawall::format::{CodecId, Geometry};
use seawall::recovery::TailState;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, LogReader, Lsn, Maintenance, Options};
use seawall_format::{Salt, SegmentHeader, text};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const FIRST: &str = "000000000001.jsonl";
const LONG: Duration = Duration::from_secs(30);

/// Options of a readable log whose first segment holds all that a test writes.
fn roomy(seed: u64) -> Options {
    laid_out(tiny(seed), Layout::Text)
        .geometry(common::GEOMETRY, 8 * SEGMENT_MIN)
        .segment_size(8 * SEGMENT_MIN)
}

/// Options of a readable log with segments of a few lines.
fn narrow(seed: u64) -> Options {
    laid_out(tiny(seed), Layout::Text)
}

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn record(number: u64) -> Vec<u8> {
    format!(r#"{{"n":{number},"op":"buy","tags":["a","b"],"price":1.50}}"#).into_bytes()
}

/// A closed log, seen after a reboot: record 1, 2 and 3 as a set, 4, 5 to 8 as a set, and 9.
fn nine() -> MemStorage {
    let device = MemStorage::new();
    let log = open(&roomy(1), &device).unwrap();
    for set in [1..=1, 2..=3, 4..=4, 5..=8, 9..=9] {
        let set: Vec<_> = set.map(record).collect();
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    }
    log.close().unwrap();
    device.power_cut(|_| false)
}

/// The same log after a power cut instead of a close: nothing confirms the last batch.
fn nine_unconfirmed() -> MemStorage {
    let device = MemStorage::new();
    let log = open(&roomy(1), &device).unwrap();
    for set in [1..=1, 2..=3, 4..=4, 5..=8, 9..=9] {
        let set: Vec<_> = set.map(record).collect();
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    }
    device.power_cut(|_| false)
}

fn text_of(device: &MemStorage, file: &str) -> String {
    String::from_utf8(device.bytes(file).unwrap()).unwrap()
}

fn edit(device: &MemStorage, change: impl FnOnce(String) -> String) {
    let changed = change(text_of(device, FIRST));
    device.edit(FIRST, |bytes| *bytes = changed.into_bytes());
}

/// The start and end of each line, line break included.
fn lines(text: &str) -> Vec<(usize, usize)> {
    let mut at = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let start = at;
            at += line.len();
            (start, at)
        })
        .collect()
}

fn numbers(device: &MemStorage) -> Vec<u64> {
    read(device, true).unwrap().records.into_keys().collect()
}

/// The ranges of records that are reported as lost.
fn lost(device: &MemStorage) -> Vec<(u64, Option<u64>)> {
    let lost = judge(device).unwrap().damage.into_iter().filter_map(|damage| damage.lost);
    lost.map(|lost| (lost.from.get(), lost.to.map(Lsn::get))).collect()
}

#[test]
fn segment_has_a_head_and_a_text_with_one_line_per_record() {
    let device = nine();
    let files: Vec<_> = device.names().into_iter().filter(|name| name.starts_with('0')).collect();
    assert_eq!(files, ["000000000001.head", FIRST]);
    let text = text_of(&device, FIRST);
    assert_eq!(text.lines().count(), 9);
    for (number, line) in (1..).zip(text.lines()) {
        assert!(line.starts_with(&format!("{{\"lsn\":{number},\"confirmed\":")), "{line}");
        let data = String::from_utf8(record(number)).unwrap();
        assert!(line.ends_with(&format!(",\"data\":{data}}}")), "{line}");
        assert_eq!(line.contains("\"goes_on\":true"), [2, 5, 6, 7].contains(&number), "{line}");
        assert!(line.len() <= data.len() + text::ENVELOPE_MAX);
    }
    let found = judge(&device).unwrap();
    assert_eq!((found.verdict, found.records), (Verdict::Clean, 9));
    assert_eq!(
        (found.summary.layout, found.summary.codec),
        (Some(Layout::Text), Some(CodecId::Json))
    );
}

#[test]
fn readable_log_continues_in_place_and_refuses_another_layout() {
    let device = nine();
    let other = open(&roomy(2).layout(Layout::Binary), &device).map(drop);
    assert!(matches!(other, Err(Error::Mismatch { what: "layout", .. })), "{other:?}");
    let before = text_of(&device, FIRST);
    for life in 2..5 {
        let log = open(&roomy(life << 32).layout(Layout::Text), &device).unwrap();
        log.append(&record(8 + life)).unwrap();
        log.close().unwrap();
    }
    let after = text_of(&device, FIRST);
    assert!(after.starts_with(&before), "what was written stays");
    assert_eq!((after.lines().count(), judge(&device).unwrap().records), (12, 12));
}

#[test]
fn invalid_json_is_refused_and_takes_no_lsn() {
    let device = MemStorage::new();
    let not_json = open(&roomy(1).codec(CodecId::Raw), &device).map(drop);
    assert!(matches!(not_json, Err(Error::InvalidOption { .. })), "{not_json:?}");
    let log = open(&roomy(1), &device).unwrap();
    let deep = "[".repeat(128) + &"]".repeat(128);
    for bad in ["", "nul", "1 2", "{\"a\":1,\"a\":2}", "[1,\n2]", deep.as_str()] {
        let refused = log.append(bad.as_bytes());
        assert!(matches!(refused, Err(Error::Encode { .. })), "{bad}: {refused:?}");
        let set = log.append_batch([b"1".as_slice(), bad.as_bytes()]);
        assert!(matches!(set, Err(Error::Encode { .. })), "{bad}: {set:?}");
    }
    assert!(matches!(log.append(b"\"\xff\""), Err(Error::Encode { .. })));
    assert_eq!(log.append(b"1e999").unwrap().get(), 1);
}

/// A crash may leave any prefix of the last write, with or without zeros up to the end of the file.
/// Atomic sets are kept whole or not at all.
#[test]
fn text_truncated_anywhere_keeps_whole_sets_and_is_at_most_torn() {
    let whole = nine_unconfirmed();
    let text = text_of(&whole, FIRST);
    let ends: Vec<usize> = lines(&text).iter().map(|(_, end)| *end).collect();
    // A line says what is confirmed. The last writes are the set of 5 to 8, then record 9.
    let last_set = ends[3];
    for cut in last_set..text.len() {
        for filled in [false, true] {
            let device = whole.kill();
            device.edit(FIRST, |bytes| {
                bytes[cut..].fill(0);
                bytes.truncate(if filled { text.len() } else { cut });
            });
            // The line break of the last line may be missing.
            let whole_lines = ends.iter().filter(|end| **end <= cut + 1).count() as u64;
            let expected = if whole_lines >= 8 { whole_lines } else { 4 };
            let what = format!("cut at {cut}, filled: {filled}");
            let found = judge(&device).unwrap();
            let clean = ends.contains(&cut) && (whole_lines == expected);
            let torn = matches!(found.verdict, Verdict::Torn);
            assert!(found.damage.is_empty() && (torn || found.verdict == Verdict::Clean), "{what}");
            assert!(torn || clean || whole_lines == expected, "{what}: {found:#?}");
            assert_eq!(found.records, expected, "{what}");
            let before = device.bytes(FIRST).unwrap();
            let log = open(&roomy(3), &device).unwrap();
            assert_eq!(read_own(&log).count(), expected, "{what}");
            assert_eq!(log.append(&record(expected + 1)).unwrap().get(), expected + 1, "{what}");
            log.close().unwrap();
            // Nothing confirms the end, so its records are rewritten to a new segment.
            assert_eq!(device.bytes(FIRST).unwrap(), before, "{what}: nothing is written over");
            assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{what}");
            assert_eq!(numbers(&device), (1..=expected + 1).collect::<Vec<_>>(), "{what}");
        }
    }
}

/// One damaged byte of a line is reported with record, segment and offset; the other records are
/// read.
#[test]
fn damaged_byte_is_named_and_the_other_records_are_read() {
    let sound = nine();
    let text = text_of(&sound, FIRST);
    for (number, (start, end)) in (1_u64..).zip(lines(&text)) {
        for at in (start..end - 1).step_by(7) {
            let device = sound.kill();
            device.edit(FIRST, |bytes| bytes[at] ^= 1);
            let what = format!("line {number}, byte {at}");
            let found = judge(&device).unwrap();
            assert_eq!(found.verdict, Verdict::Lost, "{what}");
            let named = &found.damage[0];
            assert_eq!(named.segment.unwrap().get(), 1, "{what}");
            assert_eq!(named.offset.0, start as u64, "{what}");
            assert_eq!(named.cause, Corruption::Line, "{what}");
            let to = if number == 9 { None } else { Some(number) };
            assert_eq!(lost(&device), [(number, to)], "{what}");
            let others: Vec<u64> = (1..=9).filter(|other| *other != number).collect();
            assert_eq!(numbers(&device), others, "{what}");
            let kept = read(&device, false).unwrap();
            assert!(kept.count() < number, "{what}: reading stops there");
            let refused = open(&roomy(3), &device).map(drop);
            assert!(matches!(refused, Err(Error::Damaged { .. })), "{what}: {refused:?}");
        }
    }
}

/// The third line of the set of four is damaged. The other lines are read, and marked.
#[test]
fn rest_of_a_damaged_set_is_marked() {
    let device = nine();
    let (start, _) = lines(&text_of(&device, FIRST))[6];
    device.edit(FIRST, |bytes| bytes[start + 12] ^= 1);
    let reader = LogReader::open_any_in(storage(&device)).unwrap().skip_damaged(true);
    let mut cursor = reader.cursor(Lsn::FIRST).unwrap();
    let mut marks = vec![];
    for _ in 0..20 {
        match cursor.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => marks.push((record.lsn.get(), record.set)),
            Err(Error::Damaged { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    let whole = |number| (number, AtomicSet::Whole);
    let set = [(5, AtomicSet::Broken), (6, AtomicSet::Broken), (8, AtomicSet::Unknown)];
    let expected: Vec<_> = (1..=4).map(whole).chain(set).chain([whole(9)]).collect();
    assert_eq!(marks, expected);
    let target = MemStorage::new();
    let rescued = Maintenance::on(&storage(&device)).salvage_to(storage(&target)).unwrap();
    assert_eq!((rescued.records, rescued.broken_sets), (6, 2));
    assert_eq!(numbers(&target), [1, 2, 3, 4, 8, 9].to_vec());
    let texts = target.names().into_iter().filter(|name| name.ends_with("jsonl"));
    let text: String = texts.map(|name| text_of(&target, &name)).collect();
    let void: Vec<_> = text.lines().filter(|line| line.contains("\"void\":")).collect();
    assert_eq!(void.len(), 2, "5 and 6 are given up, then 7: {text}");
}

/// An edit of a text.
type Change<'a> = &'a dyn Fn(String) -> String;

/// Reformats a text as `jq` and an editor may.
#[test]
fn reformatted_text_stays_valid_and_is_never_overwritten() {
    let spread =
        |text: String| text.replace(",\"data\":{", ",\n  \"data\": {\n    ").replace("}}", "} }");
    let turned = |text: String| {
        let turn = |line: &str| {
            let (envelope, data) = line.split_once(",\"data\":").unwrap();
            let (data, envelope) =
                (data.strip_suffix('}').unwrap(), envelope.strip_prefix('{').unwrap());
            format!("{{\"data\":{data},{envelope}}}\n")
        };
        text.lines().map(turn).collect::<String>()
    };
    let changes: [(&str, bool, Change<'_>); 6] = [
        ("spread", false, &spread),
        ("turned", false, &turned),
        ("carriage returns", false, &|text| text.replace('\n', "\r\n")),
        ("escaped", true, &|text| text.replace("buy", "b\\u0075y")),
        ("members turned", true, &|text| {
            text.replace(
                "\"tags\":[\"a\",\"b\"],\"price\":1.50",
                "\"price\":1.50,\"tags\":[\"a\",\"b\"]",
            )
        }),
        ("no last line break", false, &|text| text.trim_end().to_owned()),
    ];
    for (what, is_one_line, change) in changes {
        let device = nine();
        edit(&device, change);
        let edited = device.bytes(FIRST).unwrap();
        let found = judge(&device).unwrap();
        assert_eq!((found.verdict, found.records), (Verdict::Clean, 9), "{what}: {found:#?}");
        let target = MemStorage::new();
        Maintenance::on(&storage(&device)).salvage_to(storage(&target)).unwrap();
        let names = target.names().into_iter().filter(|name| name.contains("jsonl"));
        let texts: String = names.map(|name| text_of(&target, &name)).collect();
        let in_one_line = |line: &str| line.starts_with("{\"lsn\":") && line.ends_with("}}");
        assert!(texts.lines().count() == 9 && texts.lines().all(in_one_line), "{what}: {texts}");
        let log = open(&roomy(3), &device).unwrap();
        assert_eq!(log.append(&record(10)).unwrap().get(), 10, "{what}");
        log.close().unwrap();
        let after = device.bytes(FIRST).unwrap();
        if is_one_line {
            // The writer appended its record to the edited text.
            assert!(after.starts_with(&edited), "{what}: stays as it was left");
        } else {
            assert_eq!(after, edited, "{what}: stays as it was left");
            assert!(device.bytes("000000000002.jsonl").is_some(), "{what}: a new segment");
        }
        assert_eq!(numbers(&device), (1..=10).collect::<Vec<_>>(), "{what}");
        assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{what}");
    }
}

#[test]
fn edited_value_is_detected() {
    let changes: [(&str, &str, &str); 8] = [
        ("a value", "\"n\":4", "\"n\":5"),
        ("a name", "\"n\":4", "\"N\":4"),
        ("a new member", "\"n\":4", "\"n\":4,\"m\":1"),
        ("a member less", "\"n\":4,", ""),
        (
            "a number written otherwise",
            "{\"n\":4,\"op\":\"buy\",\"tags\":[\"a\",\"b\"],\"price\":1.50",
            "{\"n\":4,\"op\":\"buy\",\"tags\":[\"a\",\"b\"],\"price\":1.5",
        ),
        ("its number", "{\"lsn\":4,", "{\"lsn\":5,"),
        ("what it confirms", "\"lsn\":4,\"confirmed\":3", "\"lsn\":4,\"confirmed\":2"),
        ("the envelope", "{\"lsn\":4,", "{\"lsn\":4,\"by\":\"me\","),
    ];
    for (what, from, to) in changes {
        let device = nine();
        edit(&device, |text| {
            assert!(text.contains(from), "{what}");
            text.replacen(from, to, 1)
        });
        assert_eq!(lost(&device), [(4, Some(4))], "{what}");
        assert_eq!(numbers(&device), [1, 2, 3, 5, 6, 7, 8, 9], "{what}");
    }
    let device = nine();
    edit(&device, |text| {
        text.split_inclusive('\n').filter(|line| !line.contains("\"lsn\":4,")).collect()
    });
    assert_eq!(lost(&device), [(4, Some(4))], "a line taken out");
    let device = nine();
    edit(&device, |text| {
        text.split_inclusive('\n').filter(|line| !line.contains("\"lsn\":9,")).collect()
    });
    assert_eq!(lost(&device), [(9, None)], "the last line taken out");
    let device = nine();
    edit(&device, |text| {
        let line = text.lines().nth(3).unwrap().to_owned();
        text.replace(&line, &format!("{line}\n{line}"))
    });
    assert_eq!(numbers(&device), (1..=9).collect::<Vec<_>>(), "a line twice");
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Correctable, "a line twice is told of");
}

/// Both layouts run the same appends, truncations, checkpoints and reopens.
#[test]
fn both_layouts_give_the_same_answers() {
    let mut answers = LAYOUTS.map(|layout| {
        let device = MemStorage::new();
        let mut random = Random::new(9);
        let mut told = vec![];
        let mut next = 1;
        for life in 1..=6 {
            let options = tiny(life).geometry(common::GEOMETRY, SEGMENT_MIN).codec(CodecId::Json);
            let log: Bytes = options.layout(layout).open_in(storage(&device)).unwrap();
            for _ in 0..12 {
                let count = 1 + random.below(4);
                let set: Vec<_> = (next..next + count).map(record).collect();
                log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
                next += count;
            }
            if life == 2 {
                log.checkpoint(lsn(next - 5)).unwrap();
                log.truncate_after(Some(lsn(next - 4))).unwrap();
                next -= 3;
            }
            if life == 4 {
                log.truncate_after(Some(lsn(next - 20))).unwrap();
                next -= 19;
            }
            told.push(format!("{:?}", log.get(lsn(next - 1)).unwrap()));
            told.push(format!("{:?}", log.get(lsn(next)).unwrap()));
            if life % 2 == 0 { log.close().unwrap() } else { drop(log) }
        }
        let found = judge(&device).unwrap();
        told.push(format!("{} {:?} {:?}", found.records, found.verdict, found.last_lsn));
        told.push(format!("{:?}", read(&device, false).unwrap().records));
        told
    });
    let [binary, text] = &mut answers;
    assert_eq!(binary, text);
}

#[test]
fn every_record_can_be_read_in_any_order_and_around_damage() {
    let device = MemStorage::new();
    let log = open(&narrow(1), &device).unwrap();
    for number in 1..=200 {
        log.append(&record(number)).unwrap();
    }
    for number in Random::new(4).take(400).map(|number| number % 200 + 1) {
        assert_eq!(log.get(lsn(number)).unwrap(), Some(record(number)));
    }
    assert_eq!(log.get(lsn(201)).unwrap(), None);
    log.close().unwrap();
    let file = "000000000002.jsonl";
    let (start, _) = lines(&text_of(&device, file))[2];
    let hit: u64 = text_of(&device, file)[start + 7..].split(',').next().unwrap().parse().unwrap();
    device.edit(file, |bytes| bytes[start + 40] ^= 1);
    let reader = LogReader::open_any_in(storage(&device)).unwrap();
    for number in 1..=200 {
        match reader.get(lsn(number)) {
            Ok(found) => assert_eq!((found, number == hit), (Some(record(number)), false)),
            Err(Error::Damaged { damage, .. }) => {
                assert_eq!(number, hit, "{damage}");
                assert_eq!(damage.lost.unwrap().from.get(), hit);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// A follower and backups run beside a writer that rotates, writes marks and prunes.
#[test]
fn followers_and_copies_of_a_running_writer_see_each_record_once() {
    const RECORDS: u64 = 1_500;
    let device = MemStorage::new();
    drop(open(&narrow(1), &device).unwrap());
    let (done, position) = (AtomicBool::new(false), AtomicU64::new(1));
    let reader = LogReader::open_any_in(storage(&device)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for life in 0..3 {
                let log = open(&narrow(2 + life), &device).unwrap();
                for number in 1..=RECORDS / 3 {
                    log.append(&record(life * RECORDS / 3 + number)).unwrap();
                    match number % 100 {
                        0 => {
                            // Waits for the follower, so that something can be pruned.
                            let written = life * RECORDS / 3 + number;
                            while position.load(Ordering::SeqCst) + 80 < written {
                                std::thread::yield_now();
                            }
                            let read = Lsn::new(position.load(Ordering::SeqCst)).unwrap();
                            log.truncate_before(read).unwrap();
                        }
                        50 => drop(log.confirm().unwrap()),
                        _ => {}
                    }
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            let mut copies = 0;
            while !done.load(Ordering::SeqCst) || copies == 0 {
                let target = MemStorage::new();
                let acknowledged = position.load(Ordering::SeqCst) - 1;
                match Maintenance::on(&storage(&device)).back_up_to(&storage(&target)) {
                    Ok(_) => {}
                    Err(Error::Io { .. }) if !done.load(Ordering::SeqCst) => continue,
                    Err(other) => panic!("{other}"),
                }
                let found = Maintenance::on(&storage(&target)).verify().unwrap();
                assert_eq!(found.verdict, Verdict::Clean, "{found:#?}");
                assert!(found.last_lsn.map_or(0, Lsn::get) >= acknowledged);
                copies += 1;
            }
        });
        let mut follower = reader.follow(Lsn::FIRST).unwrap();
        let _end = StoreAtEnd(&position, RECORDS + 1);
        for number in 1..=RECORDS {
            let (found, bytes) = follower.next_within(LONG).unwrap().expect("it comes in time");
            assert_eq!((found.get(), bytes), (number, record(number)));
            position.store(number + 1, Ordering::SeqCst);
        }
    });
    assert!(reader.oldest().unwrap() > Lsn::FIRST, "something was pruned");
    let log = open(&narrow(9), &device).unwrap();
    assert_eq!(log.recovery().tail, TailState::Clean);
}

/// Stores a position when its scope ends, even by a panic, so that no thread waits for it forever.
struct StoreAtEnd<'a>(&'a AtomicU64, u64);

impl Drop for StoreAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::SeqCst);
    }
}

/// Between two reads the text grows by more than one read returns, so a line is cut off where the
/// read ends and not where the file ends.
#[test]
fn follower_continues_in_a_text_that_grew_by_megabytes() {
    let device = MemStorage::new();
    let options = Options::new().codec(CodecId::Json).layout(Layout::Text).idle_mark(None);
    let options = options.geometry(Geometry::DEFAULT, 16 << 20);
    let log: Bytes = options.open_in(storage(&device)).unwrap();
    let record = |number: u64| format!("[{number},\"{}\"]", "x".repeat(30_000)).into_bytes();
    log.append(&record(1)).unwrap();
    let mut follower =
        LogReader::open_any_in(storage(&device)).unwrap().follow(Lsn::FIRST).unwrap();
    assert_eq!(follower.next_within(LONG).unwrap(), Some((lsn(1), record(1))));
    assert_eq!(follower.next_within(Duration::ZERO).unwrap(), None);
    let records: Vec<_> = (2..=100).map(record).collect();
    for set in records.chunks(33) {
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    }
    for number in 2..=100 {
        let found = follower.next_within(LONG).unwrap();
        assert_eq!(found, Some((lsn(number), record(number))), "record {number}");
    }
}

/// The image: the process died at some step of a prune or a truncation, so a text may exist without
/// its head, or a head without its text.
#[test]
fn a_crash_in_a_prune_or_a_cut_leaves_the_log_before_it_or_after_it() {
    for cut in [false, true] {
        let device = MemStorage::new();
        let log = open(&narrow(1), &device).unwrap();
        for number in 1..=60 {
            log.append(&record(number)).unwrap();
        }
        log.close().unwrap();
        let change = |device: &MemStorage| {
            let log = open(&narrow(2), device)?;
            if cut {
                log.truncate_after(Some(lsn(30)))
            } else {
                log.truncate_before(lsn(40)).map(drop)
            }
        };
        let whole = device.kill();
        let before = whole.steps();
        change(&whole).unwrap();
        for stop in before..=whole.steps() {
            let dying = device.kill();
            dying.stop_after(stop);
            let _ = change(&dying);
            for left in [dying.kill(), dying.power_cut(|_| false), dying.power_cut(|_| true)] {
                let what = format!("cut: {cut}, step {stop}");
                let found = judge(&left).unwrap();
                assert_eq!(found.verdict, Verdict::Clean, "{what}: {found:#?}");
                let log = open(&narrow(3), &left).unwrap();
                let oldest = LogReader::open_any_in(storage(&left)).unwrap().oldest().unwrap();
                let last = log.recovery().last.unwrap().get();
                assert!(last == 60 || (cut && last == 30), "{what}: ends with {last}");
                assert!(oldest <= lsn(40), "{what}: begins with {oldest}");
                let kept = log.read_from(oldest).unwrap().map(|entry| entry.unwrap().0.get());
                assert!(kept.eq(oldest.get()..=last), "{what}");
                log.append(&record(last + 1)).unwrap();
                log.truncate_before(lsn(last)).unwrap();
                log.close().unwrap();
                let names = left.names();
                let texts = names.iter().filter_map(|name| name.strip_suffix(".jsonl"));
                for text in texts {
                    let head = format!("{text}.head");
                    assert!(names.contains(&head), "{what}: {text} is left without a head");
                }
            }
        }
    }
}

/// Each write extends the text. A full disk ends the log with an error, and the acknowledged
/// records are there once the disk has space again.
#[test]
fn full_disk_without_space_reservation_loses_no_acknowledged_record() {
    let device = MemStorage::new();
    device.reserve_nothing();
    let log = open(&roomy(1), &device).unwrap();
    log.append(&record(1)).unwrap();
    let used: usize =
        device.names().iter().filter_map(|name| device.bytes(name)).map(|b| b.len()).sum();
    device.limit(used as u64 + 5_000);
    let mut acknowledged = 1;
    while let Ok(lsn) = log.append(&record(acknowledged + 1)) {
        acknowledged = lsn.get();
    }
    assert!(acknowledged > 5, "{acknowledged}");
    drop(log);
    device.limit(1 << 30);
    let log = open(&roomy(2), &device).unwrap();
    let kept = read_own(&log);
    assert!(kept.is_prefix() && kept.count() >= acknowledged);
    log.append(&record(kept.count() + 1)).unwrap();
}

#[test]
fn failed_write_that_spoils_its_block_loses_nothing() {
    for level in [Level::Synced, Level::Confirmed] {
        for nth in 7..60 {
            let device = MemStorage::new();
            device.spoil_sync(nth, 512);
            let Ok(log) = open(&narrow(1).level(level), &device) else { continue };
            let mut acknowledged = 0;
            for number in 1..=20 {
                match log.append(&record(number)) {
                    Ok(lsn) => acknowledged = lsn.get(),
                    Err(_) => break,
                }
            }
            drop(log);
            let left = device.power_cut(|_| false);
            let log = open(&narrow(2), &left).unwrap_or_else(|error| panic!("sync {nth}: {error}"));
            let kept = read_own(&log);
            assert!(kept.is_prefix() && kept.count() >= acknowledged, "{level:?}, sync {nth}");
        }
    }
}

/// A log with only a text left, or a head without its text, is not an empty log.
#[test]
fn remains_of_a_log_do_not_count_as_an_empty_one() {
    let device = nine();
    device.remove_raw(FIRST);
    let found = judge(&device).unwrap();
    assert_eq!(found.damage[0].cause, Corruption::TextMissing, "{found:#?}");
    assert!(matches!(open(&roomy(2), &device).map(drop), Err(Error::Damaged { .. })));
    let device = nine();
    device.remove_raw("000000000001.head");
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Lost);
    device.remove_raw("manifest");
    let alone = open(&roomy(2), &device).map(drop);
    assert!(matches!(alone, Err(Error::NotALog { .. } | Error::Damaged { .. })), "{alone:?}");
    assert!(device.bytes(FIRST).is_some(), "the text stays");
}

/// Found by simulation, where one read was wrong and the next right. The image: a valid line with
/// the next record's number that holds more than a batch can.
#[test]
fn line_too_large_for_any_set_is_reported_as_lost() {
    let device = nine();
    let head = device.bytes("000000000001.head").unwrap();
    let header = SegmentHeader::decode(&head).unwrap();
    let data = format!("\"{}\"", "x".repeat(1200));
    let line = text::Line {
        lsn: lsn(4),
        confirmed: Lsn::new(3),
        time_us: 0,
        goes_on: false,
        content: text::Content::Data(&data),
    };
    let mut bytes = vec![];
    line.push(&mut bytes, &Salt::new(header.log, header.epoch));
    edit(&device, |text| {
        let (start, end) = lines(&text)[3];
        format!("{}{}{}", &text[..start], String::from_utf8(bytes).unwrap(), &text[end..])
    });
    let looked = within(30, move || (lost(&device), numbers(&device)));
    assert_eq!(looked, (vec![(4, Some(4))], vec![1, 2, 3, 5, 6, 7, 8, 9]));
}

#[test]
fn stats_count_the_bytes_that_were_written() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let options = laid_out(tiny(1), layout)
            .geometry(common::GEOMETRY, 8 * SEGMENT_MIN)
            .segment_size(8 * SEGMENT_MIN);
        let log = open(&options, &device).unwrap();
        let name = if layout == Layout::Text { FIRST } else { "000000000001.seg" };
        let end = || {
            let bytes = device.bytes(name).unwrap();
            bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
        };
        log.append(&record(1)).unwrap();
        let (before, began) = (log.stats().bytes, end());
        for number in 2..=9 {
            log.append(&record(number)).unwrap();
        }
        let counted = usize::try_from(log.stats().bytes - before).unwrap();
        // A record of a batch is padded with up to 7 zeros.
        let written = end() - began;
        assert!(counted.abs_diff(written) < 8, "{layout:?}: {counted} of {written} bytes");
    }
}
