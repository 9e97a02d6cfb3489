//! *Design and Reliability of a User Space Write-Ahead Log in Rust*: runs the paper's listing and
//! its reliability experiments by name, each on a log of the paper's record.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::programs::wait_for_programs;
use common::sample::Sample;
use common::{Scratch, lsn};
use seawall::damage::ChangedPart::{self, Checksum, Length, Members, NotJson, Payload, Value};
use seawall::paper::{BinLogger, JSONLogger, Logger};
use seawall::verify::Verdict;
use seawall::{Codec, Error, Maintenance, MessagePack};
use seawall_io::Access;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Data {
    a: u32,
    b: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u32,
    comment: String,
    objects: Vec<Data>,
}

const COUNT: u32 = 5;
/// The record that is corrupted.
const HIT: u32 = 3;
const TEXT: &str = "000000000001.jsonl";
const SEGMENT: &str = "000000000001.seg";

fn record(id: u32) -> Record {
    let objects = (1..=3).map(|n| Data { a: id * n, b: id + n }).collect();
    Record { id, comment: format!("record {id}"), objects }
}

fn written<C: Codec<Record>>(name: &str) -> Scratch {
    let folder = Scratch::new(name);
    let logger: Logger<Record, C> = Logger::new(&folder.path);
    for id in 1..=COUNT {
        assert_eq!(logger.write(&record(id)).unwrap().get(), u64::from(id));
    }
    folder
}

/// The content of a file of the log.
fn content(folder: &Scratch, file: &str) -> Vec<u8> {
    let file = folder.storage().open(file, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Replaces the content of a file, as an outside program would.
fn put(folder: &Scratch, file: &str, bytes: &[u8]) {
    let file = folder.storage().open(file, Access::ReadWrite).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_at(bytes, 0).unwrap();
}

/// Returns a text in which only the line of record `HIT` is changed.
fn changed(text: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let text = std::str::from_utf8(text).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let hit = HIT as usize - 1;
    let line = change(&lines[hit]);
    assert_ne!(line, lines[hit], "the experiment changes something");
    lines[hit] = line;
    (lines.join("\n") + "\n").into_bytes()
}

fn edit_line(folder: &Scratch, change: impl Fn(&str) -> String) {
    put(folder, TEXT, &changed(&content(folder, TEXT), change));
}

fn replaced(line: &str, what: &str, by: &str) -> String {
    assert_eq!(line.matches(what).count(), 1, "{what} in {line}");
    line.replacen(what, by, 1)
}

/// Checks that every record is recovered and that the log continues.
fn is_read_in_full<C: Codec<Record, Item = Record>>(folder: &Scratch, what: &str) {
    let logger: Logger<Record, C> = Logger::new(&folder.path);
    let found: Result<Vec<_>, _> = logger.retrieve().unwrap().collect();
    let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found.iter().cloned().eq((1..=COUNT).map(record)), "{what}: {found:?}");
    assert_eq!(Maintenance::at(&folder.path).verify().unwrap().verdict, Verdict::Clean, "{what}");
    assert_eq!(logger.write(&record(COUNT + 1)).unwrap().get(), u64::from(COUNT + 1), "{what}");
}

/// Checks that recovery delivers the records before the corrupted one, reports that record and the
/// part that changed, and stops.
fn is_caught<C: Codec<Record, Item = Record>>(folder: &Scratch, part: ChangedPart, what: &str) {
    let logger: Logger<Record, C> = Logger::new(&folder.path);
    let refused = logger.write(&record(9)).unwrap_err();
    assert!(matches!(refused, Error::Damaged { .. }), "{what}: {refused}");
    let mut found = logger.retrieve().unwrap();
    for id in 1..HIT {
        assert_eq!(found.next().unwrap().unwrap(), record(id), "{what}");
    }
    match found.next() {
        Some(Err(Error::Damaged { damage, .. })) => {
            let lost = damage.lost.unwrap();
            assert_eq!(lost.from, lsn(u64::from(HIT)), "{what}: {damage}");
            assert_eq!(damage.changed, Some(part), "{what}: {damage}");
            assert!(damage.to_string().contains(&part.to_string()), "{damage}");
        }
        other => panic!("{what}: {other:?}"),
    }
    assert!(found.next().is_none(), "{what}");
    let judged = Maintenance::at(&folder.path).verify().unwrap();
    assert_eq!((judged.verdict, judged.records), (Verdict::Lost, u64::from(COUNT - 1)), "{what}");
    assert_eq!(judged.damage[0].changed, Some(part), "{what}");
}

/// The paper's listing, with its own names.
#[test]
fn listing_of_the_paper_runs() {
    #[derive(Deserialize, Serialize)]
    struct Record {
        id: u32,
    }
    let folder = Scratch::new("paper-listing");
    let logger: BinLogger<Record> = BinLogger::new(&folder.path);
    let record = Record { id: 42 };
    if let Err(e) = logger.write_data(&record) {
        panic!("Something went wrong: {e}");
    }
    let records = logger.retrieve_iterator().unwrap();
    let ids: Vec<u32> = records.map(|record| record.unwrap().id).collect();
    assert_eq!(ids, [42]);
}

#[test]
fn sets_of_one_two_and_four_records_are_one_write_each() {
    for size in [1, 2, 4] {
        let folder = Scratch::new(&format!("paper-sets-{size}"));
        let records: Vec<Record> = (1..=8).map(record).collect();
        let logger: BinLogger<Record> = BinLogger::new(&folder.path);
        let sets = records.chunks(size).map(|set| logger.write_set(set).unwrap());
        let ends: Vec<u64> = sets.map(|lsns| lsns.end().get()).collect();
        assert!(ends.iter().copied().eq((size as u64..=8).step_by(size)), "{ends:?}");
        let found: Vec<Record> = logger.retrieve().unwrap().map(Result::unwrap).collect();
        assert_eq!(found, records);
    }
}

/// `new` accepts a path where no log can be. The first call returns the error, and later calls try
/// again.
#[test]
fn open_error_is_returned_by_the_first_call() {
    let folder = Scratch::new("paper-held");
    let inner = folder.path.join("not/there");
    let logger: JSONLogger<Record> = JSONLogger::new(&inner);
    assert!(matches!(logger.write(&record(1)), Err(Error::Io { .. })));
    assert!(matches!(logger.retrieve().map(drop), Err(Error::Io { .. })));
    folder.storage().folder("not").unwrap();
    assert_eq!(logger.write(&record(1)).unwrap(), lsn(1));
}

#[test]
fn log_of_a_running_writer_can_be_retrieved() {
    let folder = Scratch::new("paper-busy");
    let first: BinLogger<Record> = BinLogger::new(&folder.path);
    first.write(&record(1)).unwrap();
    let second: BinLogger<Record> = BinLogger::new(&folder.path);
    assert!(matches!(second.write(&record(2)), Err(Error::Busy { .. })));
    let found: Vec<_> = second.retrieve().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, [record(1)]);
    drop(first);
    wait_for_programs();
    assert_eq!(second.write(&record(2)).unwrap(), lsn(2));
}

#[test]
fn records_are_retrieved_after_the_log_was_renamed() {
    let folder = Scratch::new("paper-renamed");
    let storage = folder.storage();
    let logger: BinLogger<Record> = Logger::new(folder.path.join("log"));
    logger.write(&record(1)).unwrap();
    storage.rename("log", "moved").unwrap();
    logger.write(&record(2)).unwrap();
    let other: BinLogger<Record> = Logger::new(folder.path.join("log"));
    other.write(&record(9)).unwrap();
    let found: Vec<_> = logger.retrieve().unwrap().map(|record| record.unwrap().id).collect();
    assert_eq!(found, [1, 2]);
}

/// Also checks a log that another logger has open.
fn is_retrieved_since_the_checkpoint<C: Codec<Record, Item = Record>>(name: &str) {
    let folder = written::<C>(name);
    let logger: Logger<Record, C> = Logger::new(&folder.path);
    let ids = |logger: &Logger<Record, C>| -> Vec<u32> {
        let found = logger.retrieve_since_checkpoint().unwrap();
        found.map(|record| record.unwrap().id).collect()
    };
    assert_eq!(ids(&logger), [1, 2, 3, 4, 5], "without a checkpoint, from the first record on");
    logger.checkpoint(lsn(4)).unwrap();
    assert_eq!(ids(&logger), [4, 5]);
    assert_eq!(ids(&Logger::new(&folder.path)), [4, 5]);
    assert_eq!(logger.retrieve().unwrap().count(), 5, "all records are still there");
    logger.checkpoint(lsn(6)).unwrap();
    assert_eq!(ids(&logger), [] as [u32; 0]);
    logger.write(&record(6)).unwrap();
    drop(logger);
    assert_eq!(ids(&Logger::new(&folder.path)), [6]);
    let refused = Logger::<Record, C>::new(&folder.path).checkpoint(lsn(8)).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { .. }), "{refused}");
}

#[test]
fn records_since_the_last_checkpoint_are_retrieved() {
    is_retrieved_since_the_checkpoint::<seawall::Json>("paper-since-json");
    is_retrieved_since_the_checkpoint::<MessagePack>("paper-since-binary");
}

// JSON: the six corruptions of section V.A.

/// Paper: no effect. Here: none.
#[test]
fn json_1_adding_or_removing_spaces_newlines_and_tabs_changes_nothing() {
    for (name, space) in [("space", " "), ("newline", "\n"), ("tab", "\t"), ("many", " \n\t ")] {
        let folder = written::<seawall::Json>(&format!("paper-white-{name}"));
        edit_line(&folder, |line| {
            let mut inside = false;
            let spread = line.chars().map(|c| {
                inside ^= c == '"';
                let structural = !inside && ",:{}[]".contains(c);
                if structural { format!("{c}{space}") } else { c.to_string() }
            });
            // Keeps the line's first bytes: a reader resyncs by them after damage.
            let spread: String = spread.collect();
            let end = spread.find("lsn").unwrap();
            spread.get(end - 1..).map(|rest| format!("{{{rest}")).unwrap()
        });
        is_read_in_full::<seawall::Json>(&folder, name);
    }
}

/// Paper: fails at that point. Here: reported, wherever in the record it is.
#[test]
fn json_2_loose_structural_symbols_are_caught() {
    let folder = written::<seawall::Json>("paper-symbol");
    let text = content(&folder, TEXT);
    let line = std::str::from_utf8(&text).unwrap().lines().nth(HIT as usize - 1).unwrap();
    let length = line.len();
    for (at, symbol) in (0..length).flat_map(|at| ["{", "}", "[", "]"].map(|symbol| (at, symbol))) {
        let add = |line: &str| format!("{}{symbol}{}", &line[..at], &line[at..]);
        put(&folder, TEXT, &changed(&text, add));
        if add(line).starts_with(line) {
            // The record ends as before, and the symbol follows it.
            is_caught_between(&folder);
        } else {
            let part = part_of(line, &add(line));
            is_caught::<seawall::Json>(&folder, part, &format!("{symbol} at {at}"));
        }
    }
    for at in 0..length {
        if "{}[]".contains(&line[at..=at]) {
            let less = |line: &str| format!("{}{}", &line[..at], &line[at + 1..]);
            put(&folder, TEXT, &changed(&text, less));
            is_caught::<seawall::Json>(&folder, NotJson, &format!("byte {at} removed"));
        }
    }
}

/// The part of a line that an edit changed. A symbol within a string leaves the line valid JSON.
fn part_of(line: &str, edited: &str) -> ChangedPart {
    let read = |text| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
    let (before, Ok(after)) = (read(line).unwrap(), read(edited)) else { return NotJson };
    match () {
        () if !before.keys().eq(after.keys()) => Members,
        () if before["crc"] != after["crc"] => Checksum,
        () => Value,
    }
}

/// Checks that reading stops at a loose symbol after a record, and that no record is lost.
fn is_caught_between(folder: &Scratch) {
    let mut found = JSONLogger::<Record>::new(&folder.path).retrieve().unwrap();
    for id in 1..=HIT {
        assert_eq!(found.next().unwrap().unwrap(), record(id));
    }
    assert!(
        matches!(found.next(), Some(Err(Error::Damaged { damage, .. })) if damage.lost.is_none())
    );
    assert!(found.next().is_none());
    let judged = Maintenance::at(&folder.path).verify().unwrap();
    assert_eq!((judged.verdict, judged.records), (Verdict::Correctable, u64::from(COUNT)));
}

/// Paper: an added field changes nothing, a removed or renamed one fails. Here: all are caught.
#[test]
fn json_3_added_removed_and_renamed_fields_are_caught() {
    for (what, by) in [
        ("\"id\":3,", "\"id\":3,\"new\":1,"),
        ("\"comment\":\"record 3\",", ""),
        ("\"comment\":", "\"remark\":"),
        ("\"id\":3,", "\"id\":3,\"id\":3,"),
    ] {
        let folder = written::<seawall::Json>("paper-fields");
        edit_line(&folder, |line| replaced(line, what, by));
        is_caught::<seawall::Json>(&folder, Value, by);
    }
}

/// Paper: no effect. Here: none.
#[test]
fn json_4_another_order_of_fields_changes_nothing() {
    let folder = written::<seawall::Json>("paper-order");
    edit_line(&folder, |line| {
        let line = replaced(
            line,
            "\"id\":3,\"comment\":\"record 3\",",
            "\"comment\":\"record 3\",\"id\":3,",
        );
        replaced(&line, "{\"a\":3,\"b\":4}", "{\"b\":4,\"a\":3}")
    });
    is_read_in_full::<seawall::Json>(&folder, "fields");
}

/// Paper: fails at that point. Here: reported.
#[test]
fn json_5_an_empty_object_is_caught() {
    let folder = written::<seawall::Json>("paper-empty-data");
    edit_line(&folder, |line| {
        let at = line.find("\"data\":").unwrap() + 7;
        format!("{}{{}}}}", &line[..at])
    });
    is_caught::<seawall::Json>(&folder, Value, "as the record");
    let folder = written::<seawall::Json>("paper-empty-line");
    edit_line(&folder, |_| "{}".to_owned());
    is_caught::<seawall::Json>(&folder, Members, "as the line");
}

/// Paper: **not caught** if the value is of the same type. Here: caught, of any type.
#[test]
fn json_6_changed_values_are_caught() {
    for (what, by) in [
        ("\"id\":3", "\"id\":4"),
        ("record 3", "record 8"),
        ("{\"a\":3,", "{\"a\":30,"),
        ("\"id\":3", "\"id\":\"3\""),
        ("\"id\":3", "\"id\":null"),
        ("\"id\":3", "\"id\":3.0"),
    ] {
        let folder = written::<seawall::Json>("paper-value");
        edit_line(&folder, |line| replaced(line, what, by));
        is_caught::<seawall::Json>(&folder, Value, by);
    }
}

/// The paper's readable log has no checksum. Here the checksum itself can be what changed.
#[test]
fn json_changed_checksum_is_told_from_a_changed_record() {
    let crc = |line: &str| line.find("\"crc\":\"").unwrap() + 7;
    let digit = |line: &str| {
        let (before, after) = line.split_at(crc(line));
        let other = if after.starts_with('0') { "1" } else { "0" };
        [before, other, &after[1..]].concat()
    };
    let cut = |line: &str| [&line[..crc(line)], &line[crc(line) + 1..]].concat();
    let name = |line: &str| replaced(line, "\"crc\"", "\"sum\"");
    let caught = |change: &dyn Fn(&str) -> String, part, what| {
        let folder = written::<seawall::Json>(&format!("paper-crc-{what}"));
        edit_line(&folder, change);
        is_caught::<seawall::Json>(&folder, part, what);
    };
    caught(&digit, Checksum, "digit");
    caught(&cut, Checksum, "cut");
    caught(&name, Members, "name");
}

// MessagePack: the five corruptions of section V.A. Paper: all caught. Here: all caught and
// reported.

/// The offset and length of the payload of record `HIT`.
fn payload(bytes: &[u8]) -> (usize, usize) {
    let mut payload = vec![];
    MessagePack::encode(&record(HIT), &mut payload).unwrap();
    let at = bytes.windows(payload.len()).position(|window| window == payload).unwrap();
    (at, payload.len())
}

/// Checks that each flipped bit in a part of record `HIT` is caught. `part` maps the payload's
/// offset and length to those of the part.
fn each_bit_is_caught(
    name: &str,
    changed: ChangedPart,
    part: impl Fn(usize, usize) -> (usize, usize),
) {
    let folder = written::<MessagePack>(&format!("paper-{name}"));
    let whole = content(&folder, SEGMENT);
    let (at, length) = payload(&whole);
    let (start, count) = part(at, length);
    let mut sample = Sample::one_in(if count > 8 { 8 } else { 1 });
    let bits = (start..start + count).flat_map(|byte| (0..8).map(move |bit| (byte, bit)));
    for bit in bits.filter(|_| sample.takes_next()) {
        let mut bytes = whole.clone();
        bytes[bit.0] ^= 1 << bit.1;
        put(&folder, SEGMENT, &bytes);
        is_caught::<MessagePack>(&folder, changed, &format!("{name}, {bit:?}"));
    }
}

#[test]
fn binary_1_a_changed_identifier_of_an_object_is_caught() {
    each_bit_is_caught("object-identifier", Payload, |at, _| (at, 1));
}

#[test]
fn binary_2_a_changed_identifier_of_a_field_is_caught() {
    // A length byte, then `id`.
    each_bit_is_caught("field-identifier", Payload, |at, _| (at + 1, 3));
}

#[test]
fn binary_3_a_changed_value_of_a_field_is_caught() {
    each_bit_is_caught("field-value", Payload, |at, length| (at + 4, length - 4));
}

/// In the paper's log an identifier before the checksum tells it from a record. Here its
/// counterpart is the first word of the frame's header.
#[test]
fn binary_4_a_changed_identifier_of_the_checksum_is_caught() {
    each_bit_is_caught("checksum-identifier", Length, |at, _| (at - 8, 4));
}

#[test]
fn binary_5_a_changed_checksum_is_caught() {
    each_bit_is_caught("checksum-value", Checksum, |at, _| (at - 4, 4));
}
