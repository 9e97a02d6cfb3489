//! Properties of all importers: no panics, no invented entries, bounded memory, for split, damaged
//! and random streams. Each case is a seed; `SEAWALL_CASES` sets the number of cases.

use super::*;
use seawall_testkit::Dice;
use std::io::{self, Read};

/// A format: its name, a generator and writer of entries, and its reader.
struct Format {
    name: &'static str,
    draw: fn(&mut Random) -> Vec<u8>,
    write: fn(&[u8], &mut Vec<u8>),
    open: fn(Box<dyn Read>) -> Box<dyn Entries>,
}

const FORMATS: [Format; 4] = [
    Format {
        name: "cwal",
        draw: draw_bytes,
        write: cwal::write_binary,
        open: |input| Box::new(cwal::Binary::new(input)),
    },
    Format {
        name: "cwal-text",
        draw: draw_bytes,
        write: cwal::write_text,
        open: |input| Box::new(cwal::Text::new(input)),
    },
    Format {
        name: "msgpack",
        draw: |random| rmp_serde::to_vec_named(&draw_value(&mut random.0, 3)).unwrap(),
        write: msgpack::write,
        open: |input| Box::new(msgpack::Pairs::new(input)),
    },
    Format {
        name: "json",
        draw: |random| format!("[{}]", draw_value(&mut random.0, 3)).into_bytes(),
        write: json::write,
        open: |input| Box::new(json::Values::new(input)),
    },
];

/// The formats that have checksums.
fn checked() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|format| format.name != "json")
}

fn cases() -> u64 {
    let asked = std::env::var("SEAWALL_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(10_000)
}

/// Random numbers and bytes determined by a seed.
struct Random(Dice);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(u64::try_from(end).unwrap())).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.0.any().to_le_bytes()[0]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.byte()).collect()
    }

    /// At least one byte, and fewer than `end`.
    fn fewer_bytes(&mut self, end: usize) -> Vec<u8> {
        let length = 1 + self.below(end - 1);
        self.bytes(length)
    }
}

fn draw_bytes(random: &mut Random) -> Vec<u8> {
    let length = random.below(24);
    match random.below(8) {
        0 => vec![],
        1 => vec![0; length],
        2 | 3 => vec![b'a'; length],
        _ => random.bytes(length),
    }
}

pub(crate) fn draw_value(dice: &mut Dice, depth: usize) -> serde_json::Value {
    let text = |dice: &mut Dice| {
        let marks = ["", "a", "\"", "\\", "{", "]", "\u{e9}", "\n", "base64", " "];
        (0..dice.below(4)).filter_map(|_| dice.pick(&marks)).copied().collect::<String>()
    };
    match dice.below(if depth == 0 { 6 } else { 8 }) {
        0 => serde_json::Value::Null,
        1 => dice.one_in(2).into(),
        2 => (dice.any() >> dice.below(64)).into(),
        3 => (dice.any() >> dice.below(64)).cast_signed().into(),
        4 => f64::from_bits(dice.any()).into(),
        5 => text(dice).into(),
        6 => (0..dice.below(4)).map(|_| draw_value(dice, depth - 1)).collect(),
        _ => (0..dice.below(4))
            .map(|_| (text(dice), draw_value(dice, depth - 1)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

/// A stream that returns its bytes in random pieces.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    random: Random,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = &self.bytes[self.at..];
        let most = left.len().min(buffer.len()).min(1 + self.random.below(40));
        buffer[..most].copy_from_slice(&left[..most]);
        self.at += most;
        Ok(most)
    }
}

/// The result of reading a stream.
#[derive(Debug, PartialEq)]
struct Found {
    entries: Vec<Vec<u8>>,
    damage: Option<Damage>,
    remarks: Vec<Remark>,
}

impl Found {
    /// The number of `entries`, less the empty ones at the end if the damage is ambiguous zeros.
    fn without_zeros(&self, entries: &[Vec<u8>]) -> usize {
        let in_doubt = self.damage.as_ref().is_some_and(|damage| damage.cause == ZEROS);
        let zeros = entries.iter().rev().take_while(|entry| in_doubt && entry.is_empty());
        entries.len() - zeros.count()
    }
}

fn read(format: &Format, bytes: &[u8], seed: u64) -> Found {
    let input = Pieces { bytes: bytes.to_vec(), at: 0, random: Random::new(seed) };
    let mut reader = (format.open)(Box::new(input));
    let mut entries = vec![];
    loop {
        match reader.next() {
            Ok(Some(entry)) => entries.push(entry.to_vec()),
            Ok(None) => return Found { entries, damage: None, remarks: reader.remarks() },
            Err(Stop::Damaged(damage)) => {
                return Found { entries, damage: Some(damage), remarks: reader.remarks() };
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A log with these entries, and the offset of each.
fn write(format: &Format, entries: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut starts) = (vec![], vec![]);
    for entry in entries {
        starts.push(bytes.len());
        (format.write)(entry, &mut bytes);
    }
    (bytes, starts)
}

fn draw(format: &Format, random: &mut Random) -> Vec<Vec<u8>> {
    (0..random.below(7)).map(|_| (format.draw)(random)).collect()
}

#[test]
fn every_entry_is_read_back_for_any_chunking() {
    for format in &FORMATS {
        for seed in 0..cases() {
            let random = &mut Random::new(seed);
            let entries = draw(format, random);
            let found = read(format, &write(format, &entries).0, seed);
            let case = format!("{} seed {seed}", format.name);
            assert_eq!((&found.entries, &found.damage), (&entries, &None), "{case}");
        }
    }
}

#[test]
fn every_flipped_bit_damages_only_its_entry() {
    for format in checked() {
        for seed in 0..20 {
            let random = &mut Random::new(seed);
            let entries = draw(format, random);
            let (bytes, starts) = write(format, &entries);
            for bit in 0..8 * bytes.len() {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let hit = starts.iter().filter(|start| **start <= bit / 8).count();
                let found = read(format, &flipped, seed);
                let case = format!("{} seed {seed} bit {bit}: {found:?}", format.name);
                let damage = found.damage.as_ref().expect(&case);
                let hit = found.without_zeros(&entries[..hit - 1]) + 1;
                assert_eq!(found.entries, entries[..hit - 1], "{case}");
                assert_eq!(damage.entry, u64::try_from(hit).unwrap(), "{case}");
                assert_eq!(damage.offset, u64::try_from(starts[hit - 1]).unwrap(), "{case}");
            }
        }
    }
}

#[test]
fn torn_end_damages_only_the_last_entry() {
    for format in &FORMATS {
        for seed in 0..50 {
            let random = &mut Random::new(seed);
            let entries = draw(format, random);
            let (bytes, starts) = write(format, &entries);
            for cut in 0..bytes.len() {
                let found = read(format, &bytes[..cut], seed);
                let begun = starts.iter().filter(|start| **start < cut).count();
                // A line without its newline is complete.
                let is_line = ["json", "cwal-text"].contains(&format.name);
                let is_end = |at: usize| starts.contains(&at) || at == bytes.len();
                let whole = is_end(cut) || is_line && is_end(cut + 1);
                let intact = if whole { begun } else { begun - 1 };
                let case = format!("{} seed {seed} cut {cut}: {found:?}", format.name);
                let intact = found.without_zeros(&entries[..intact]);
                assert_eq!(found.entries, entries[..intact], "{case}");
                assert_eq!(found.damage.is_none(), whole, "{case}");
            }
        }
    }
}

/// Damages a log in a typical way. Returns whether entries may be missing undetectably in its
/// middle.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> bool {
    let at = random.below(bytes.len() + 1);
    let to = at + random.below(bytes.len() + 1 - at);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => {
            let noise = random.bytes(to - at);
            bytes[at..to].copy_from_slice(&noise);
        }
        2 => {
            let noise = random.fewer_bytes(30);
            bytes.splice(at..at, noise);
        }
        3 => {
            bytes.drain(at..to);
            return true;
        }
        4 => {
            bytes.truncate(at);
            bytes.extend(vec![0; random.below(600)]);
        }
        _ => {
            let noise = random.fewer_bytes(300);
            bytes.extend(noise);
        }
    }
    false
}

/// Returns whether `found` is a prefix of the written entries, except for an undetectable gap.
fn is_prefix(found: &[Vec<u8>], written: &[Vec<u8>], gap: bool) -> bool {
    if written.starts_with(found) {
        return true;
    }
    gap && (0..written.len()).any(|from| {
        (from..=written.len()).any(|to| {
            let left = [&written[..from], &written[to..]].concat();
            left.starts_with(found)
        })
    })
}

#[test]
fn damaged_log_with_checksums_never_yields_a_wrong_entry() {
    for format in checked() {
        for seed in 0..cases() {
            let random = &mut Random::new(seed);
            let entries = draw(format, random);
            let mut bytes = write(format, &entries).0;
            let gap = damage(&mut bytes, random);
            let mut found = read(format, &bytes, seed);
            // A multiple of twelve zeros up to the end is reported as a remark.
            if let [Remark::ZerosAtEnd(empties)] = found.remarks[..] {
                let empties = usize::try_from(empties).unwrap();
                let sure = found.entries.len() - empties;
                assert!(found.entries.drain(sure..).all(|entry| entry.is_empty()));
            }
            let case = format!("{} seed {seed}: {found:?} of {entries:?}", format.name);
            assert!(is_prefix(&found.entries, &entries, gap), "{case}");
        }
    }
}

/// Trims the white space of JSON.
fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

/// JSON has no checksums, so a changed digit is accepted. Every returned entry must still be in the
/// stream, be valid, and precede the reported damage.
#[test]
fn damaged_json_never_yields_a_value_that_is_not_in_the_text() {
    let format = &FORMATS[3];
    for seed in 0..cases() {
        let random = &mut Random::new(seed);
        let mut bytes = write(format, &draw(format, random)).0;
        damage(&mut bytes, random);
        let found = read(format, &bytes, seed);
        let mut rest = &bytes[..];
        for entry in &found.entries {
            rest = trim(rest).strip_prefix(&entry[..]).expect("the text starts with the entry");
            json::check(entry).expect("the text is valid");
        }
        match found.damage {
            None => assert_eq!(trim(rest), b"", "seed {seed}"),
            Some(damage) => {
                let at = bytes.len() - trim(rest).len();
                assert_eq!(damage.offset, u64::try_from(at).unwrap(), "seed {seed}");
            }
        }
    }
}

#[test]
fn random_bytes_are_not_a_log() {
    for format in &FORMATS {
        for seed in 0..cases() {
            let random = &mut Random::new(seed);
            let bytes = random.fewer_bytes(64);
            let found = read(format, &bytes, seed);
            // A digit is valid JSON, and an empty file is a log without entries.
            assert!(
                format.name == "json" || found.entries.is_empty(),
                "{}: {bytes:?}",
                format.name
            );
        }
    }
}

/// A stream that ends long after a reader has seen that its entry is too large.
struct Endless {
    start: Vec<u8>,
    then: u8,
    at: usize,
    end: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at > self.end {
            return Ok(0);
        }
        buffer.fill(self.then);
        let start = self.start.get(self.at..).unwrap_or_default();
        let here = start.len().min(buffer.len());
        buffer[..here].copy_from_slice(&start[..here]);
        self.at += buffer.len();
        Ok(buffer.len())
    }
}

fn endless(format: &Format, start: &[u8], then: u8) -> &'static str {
    // A stream of many small values takes the most time.
    let end = if format.name == "msgpack" { 5 << 20 } else { ENTRY_MAX + (2 << 20) };
    let mut reader = (format.open)(Box::new(Endless { start: start.to_vec(), then, at: 0, end }));
    match reader.next() {
        Err(Stop::Damaged(damage)) => damage.cause,
        Err(Stop::TooLarge) => "too large",
        other => panic!("{}: {other:?}", format.name),
    }
}

#[test]
fn absurd_length_is_refused_without_allocating() {
    let [binary, text, pairs, values] = &FORMATS;
    let too_long = u64::try_from(ENTRY_MAX + 1).unwrap();
    for length in [u64::MAX, u64::MAX - 11, 1 << 63, 1 << 32, too_long] {
        assert_eq!(endless(binary, &length.to_le_bytes(), 1), LENGTH);
        assert_eq!(endless(text, format!("{length} ").as_bytes(), b'a'), LENGTH);
    }
    assert_eq!(endless(text, b"", b'9'), SYNTAX);
    for start in [
        &[0xdb, 0xff, 0xff, 0xff, 0xff][..],
        &[0xc6, 0xff, 0xff, 0xff, 0xff],
        &[0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
        &[0xc9, 0xff, 0xff, 0xff, 0xff],
        &[0xdf, 0x7f, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(endless(pairs, start, 0x91), LENGTH, "{start:?}");
    }
    // Nested arrays: the pending values exceed the limit long before the bytes do.
    assert_eq!(endless(pairs, b"", 0x9f), LENGTH);
    assert_eq!(endless(pairs, b"\x01", 0x91), LENGTH);
    // A value in JSON states no length that could be damaged.
    assert_eq!(endless(values, b"\"", b'a'), "too large");
    assert_eq!(endless(values, b"[x", b' '), SYNTAX);
}

/// A value of `MessagePack` that is larger than an entry may be, and plain bytes for the others.
fn too_large(format: &Format) -> Vec<u8> {
    let mut value = vec![b'a'; ENTRY_MAX + 1];
    if format.name == "msgpack" {
        let length = u32::try_from(ENTRY_MAX + 1 - 5).unwrap();
        value[0] = 0xc6;
        value[1..5].copy_from_slice(&length.swap_bytes().to_le_bytes());
    }
    value
}

/// The first entry of these bytes, and what reading stops with.
fn first_and_stop(format: &Format, bytes: &[u8]) -> (Vec<u8>, &'static str, u64) {
    let mut reader = (format.open)(Box::new(io::Cursor::new(bytes.to_vec())));
    let first = reader.next().unwrap().unwrap().to_vec();
    match reader.next().unwrap_err() {
        Stop::TooLarge => (first, "too large", reader.position()),
        Stop::Damaged(damage) => (first, damage.cause, damage.offset),
        other => panic!("{other:?}"),
    }
}

#[test]
fn intact_entry_that_is_too_large_is_not_damage() {
    for format in checked() {
        let small = [7];
        let mut bytes = vec![];
        (format.write)(&small, &mut bytes);
        let start = bytes.len();
        (format.write)(&too_large(format), &mut bytes);
        let at = u64::try_from(start).unwrap();
        let expected = |cause| (small.to_vec(), cause, at);
        assert_eq!(first_and_stop(format, &bytes), expected("too large"), "{}", format.name);
        bytes[start + 1000] ^= 1;
        assert_eq!(first_and_stop(format, &bytes), expected(LENGTH), "{}", format.name);
        bytes.truncate(start + 1000);
        assert_eq!(first_and_stop(format, &bytes), expected(LENGTH), "{}", format.name);
    }
}

#[test]
fn empty_entry_before_one_that_is_too_large_is_an_entry() {
    let (format, mut bytes) = (&FORMATS[0], vec![]);
    (format.write)(&[], &mut bytes);
    (format.write)(&too_large(format), &mut bytes);
    assert_eq!(first_and_stop(format, &bytes), (vec![], "too large", 12));
}

#[test]
fn length_past_the_end_of_the_file_is_a_torn_end() {
    for (format, start) in [
        (&FORMATS[0], &[0, 0, 0, 3, 0, 0, 0, 0, b'a'][..]),
        (&FORMATS[1], b"60000000 a"),
        (&FORMATS[2], &[0xdb, 3, 0, 0, 0, b'a']),
    ] {
        let damage = read(format, start, 1).damage.unwrap();
        assert_eq!((damage.cause, damage.entry, damage.offset), (CUT_SHORT, 1, 0));
    }
}

/// Overwrites the start of a log with a shorter one, like `rotate_log`.
fn rotate(format: &Format, old: &[&[u8]], new: &[&[u8]]) -> Found {
    let owned = |entries: &[&[u8]]| entries.iter().map(|entry| entry.to_vec()).collect::<Vec<_>>();
    let (mut bytes, new) = (write(format, &owned(old)).0, write(format, &owned(new)).0);
    bytes[..new.len()].copy_from_slice(&new);
    read(format, &bytes, 1)
}

#[test]
fn rest_of_an_overwritten_longer_cwal_log_is_damage_at_the_seam() {
    for (format, seam) in [(&FORMATS[0], 12 + 3), (&FORMATS[1], "3 new 000000000\n".len())] {
        let found = rotate(format, &[b"old and longer", b"older"], &[b"new"]);
        assert_eq!(found.entries, [b"new"]);
        let damage = found.damage.unwrap();
        assert_eq!(damage.entry, 2);
        assert!(damage.offset.abs_diff(u64::try_from(seam).unwrap()) <= 1, "{damage:?}");
    }
}

/// The format has no end marker and no sequence numbers, so old entries cannot be told from new
/// ones. `Seawall` does not have this problem; see `cwal_lessons.rs`.
#[test]
fn aligned_old_cwal_entries_are_indistinguishable_from_new_ones() {
    let found = rotate(&FORMATS[0], &[b"old", b"older"], &[b"new"]);
    assert_eq!(
        found,
        Found { entries: vec![b"new".into(), b"older".into()], damage: None, remarks: vec![] }
    );
}

#[test]
fn zeros_at_the_end_of_a_cwal_log_are_reported() {
    let format = &FORMATS[0];
    let log = write(format, &[b"first".to_vec()]).0;
    let with_zeros = |zeros: usize| read(format, &[log.clone(), vec![0; zeros]].concat(), 1);
    for zeros in [1, 11, 13, 20, 4096 - log.len()] {
        let found = with_zeros(zeros);
        assert_eq!(found.entries, [b"first"], "{zeros}");
        let damage = found.damage.unwrap();
        assert_eq!((damage.entry, damage.offset), (2, 17), "{zeros}");
        assert_eq!(damage.cause, if zeros < 12 { CUT_SHORT } else { ZEROS }, "{zeros}");
    }
    let found = with_zeros(24);
    assert_eq!((found.entries.len(), found.remarks), (3, vec![Remark::ZerosAtEnd(2)]));
}

#[test]
fn zeroed_sector_in_a_cwal_log_is_damage_not_empty_entries() {
    let format = &FORMATS[0];
    let entries = vec![vec![b'a'; 500], vec![b'b'; 2000], b"c".to_vec()];
    let mut bytes = write(format, &entries).0;
    bytes[512..1024].fill(0);
    let found = read(format, &bytes, 1);
    assert_eq!(found.entries, [vec![b'a'; 500]]);
    assert_eq!(found.damage.map(|damage| (damage.cause, damage.offset)), Some((ZEROS, 512)));
    // Empty entries that were written are returned.
    let mut entries = vec![vec![]; 100];
    entries.push(b"end".to_vec());
    let found = read(format, &write(format, &entries).0, 1);
    assert_eq!((found.entries, found.remarks), (entries, vec![]));
}

#[test]
fn truncated_number_at_the_end_of_a_json_stream_is_undetectable() {
    let found = read(&FORMATS[3], b"[1]\n12345"[..7].as_ref(), 1);
    assert_eq!((found.entries, found.damage), (vec![b"[1]".to_vec(), b"123".to_vec()], None));
}

#[test]
fn json_values_need_no_separator() {
    let found = read(&FORMATS[3], b" {\"a\":\"}\"}[1]\"x\\\"\"\"y\"1 2\ttrue[null]\r\n", 1);
    let expected = ["{\"a\":\"}\"}", "[1]", "\"x\\\"\"", "\"y\"", "1", "2", "true", "[null]"];
    assert_eq!(found.entries, expected.map(|text| text.as_bytes().to_vec()));
    assert_eq!(found.damage, None);
}

/// The failures that the paper injects by hand, with its results.
#[test]
fn failures_of_the_paper_are_detected_where_its_formats_allow() {
    let log = r#"{"id":1,"objects":[{"a":2}]} {"id":3,"objects":[]}"#;
    let entries = |text: &str| {
        let found = read(&FORMATS[3], text.as_bytes(), 1);
        (found.entries.len(), found.damage.is_some())
    };
    assert_eq!(entries(&log.replace(',', " ,\n\t")), (2, false), "white space");
    for symbol in ["{", "}", "[", "]"] {
        assert_eq!(entries(&log.replacen("} {", &format!("}} {symbol}{{"), 1)), (1, true));
    }
    assert_eq!(entries(&log.replace('3', "4")), (2, false), "JSON cannot tell");

    let record = rmp_serde::to_vec_named(&serde_json::json!({ "id": 3, "name": "x" })).unwrap();
    let mut pair = vec![];
    msgpack::write(&record, &mut pair);
    for byte in 0..pair.len() {
        for value in 0..=255 {
            let mut changed = pair.clone();
            changed[byte] = value;
            let found = read(&FORMATS[2], &changed, 1);
            assert_eq!(found.entries.is_empty(), value != pair[byte], "byte {byte} as {value}");
        }
    }
}

#[test]
fn checksum_is_read_in_every_serialized_form() {
    // The record of the paper's first figure.
    let record = b"\x82\xa7compact\xc3\xa6schema\x00";
    let number = rmp_serde::to_vec(&crc32(record)).unwrap();
    for head in [&b"\x81\xa8checksum"[..], b"\x91", b"", b"\xde\x00\x01\xd9\x08checksum"] {
        let found = read(&FORMATS[2], &[record, head, &number].concat(), 1);
        assert_eq!(found.entries, [record], "{head:?}");
    }
    for head in [&b"\x81\xa8checksun"[..], b"\x92\x01", b"\x82\xa8checksum"] {
        assert_eq!(read(&FORMATS[2], &[record, head, &number].concat(), 1).entries.len(), 0);
    }
}

#[test]
fn checksum_is_the_crc32_of_zip() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(b""), 0);
}
