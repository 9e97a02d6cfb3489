//! Fuzz targets for the readable layout: lines, sets of lines, and edits by people.

use super::bytes::segment_header;
use super::scan::walk;
use crate::fixup;
use crate::sample::{Encoding, End, Kind, Past, Sample, Scale};
use seawall::Layout;
use seawall_format::SegmentHeader;
use seawall_format::batch::Life;
use seawall_format::lines::{header_at, is_valid_data, starts};
use seawall_format::tail::classify_text;
use seawall_format::text::{Found, Line, read};

pub(super) fn line(data: &[u8]) {
    let salt = segment_header(Layout::Text).salt();
    check_line(data);
    check_line(&fixup::text(data, &salt));
    if let Ok(text) = std::str::from_utf8(data)
        && is_valid_data(text)
    {
        let line = format!("{{\"lsn\":7,\"confirmed\":6,\"data\":{text}}}\n");
        let fixed = fixup::text(line.as_bytes(), &salt);
        let Found::Line(found) = read(&fixed, &salt) else { panic!("a record has a line: {text}") };
        assert!(found.is_exact && found.end == fixed.len(), "{text}");
    }
}

fn check_line(data: &[u8]) {
    let header = segment_header(Layout::Text);
    let salt = header.salt();
    let _ = classify_text(data, false, false);
    let Found::Line(found) = read(data, &salt) else { return };
    let line = found.line;
    assert!(found.end <= data.len() && line.confirmed < Some(line.lsn) && line.last() >= line.lsn);
    let _ = header_at(data, &Life::of(&header));
    let mut written = vec![];
    let crc = line.push(&mut written, &salt);
    assert_eq!(found.is_exact, data[..found.end] == written, "what the writer writes");
    let Found::Line(again) = read(&written, &salt) else { panic!("{written:?}") };
    assert_eq!((again.line, again.crc), (line, crc));
    // The checksum covers only the text of the time: an invalid time is possible, and unknown.
    assert!(crc == found.crc || line.time_us == 0 || !found.is_exact);
    spread(&line, found.crc, &data[..found.end]);
}

/// Checks that white space between the tokens of a line changes nothing.
fn spread(line: &Line<'_>, crc: u32, bytes: &[u8]) {
    let (mut spread, mut in_text, mut escaped) = (vec![b' '], false, false);
    for byte in bytes {
        let is_mark = !in_text && b"{}[],:".contains(byte);
        if is_mark {
            spread.extend(b"\n ");
        }
        spread.push(*byte);
        if is_mark {
            spread.push(b'\t');
        }
        in_text ^= *byte == b'"' && !escaped;
        escaped = in_text && *byte == b'\\' && !escaped;
    }
    let salt = segment_header(Layout::Text).salt();
    let Found::Line(found) = read(&spread, &salt) else { panic!("spread out: {spread:?}") };
    assert_eq!((found.line.lsn, found.crc, found.is_exact), (line.lsn, crc, false));
}

pub(super) fn text(data: &[u8]) {
    let header = segment_header(Layout::Text);
    let data = &data[..data.len().min(1 << 14)];
    check_text(&header, data);
    check_text(&header, &fixup::text(data, &header.salt()));
}

fn check_text(header: &SegmentHeader, data: &[u8]) {
    let (whole, scanner) = walk(header, (0, data), 1 << 20);
    for size in [1, 700] {
        assert_eq!(walk(header, (0, data), size).0, whole, "in windows of {size}");
    }
    assert!(scanner.part().is_none_or(|part| part.end >= scanner.offset()));
    for at in starts(data, true) {
        assert!(at == 0 || data[at - 1] == b'\n');
        let _ = header_at(&data[at..], scanner.life());
    }
}

/// Returns the lines of logs as a writer wrote them, with checksums for the header of these
/// targets.
fn written() -> Vec<Vec<u8>> {
    let kind = |past| Kind {
        layout: Layout::Text,
        end: End::Closed,
        scale: Scale::Tiny,
        past,
        encoding: Encoding::Plain,
        seed: 1,
    };
    let samples = [Past::Plain, Past::Eventful].map(|past| Sample::make(kind(past)));
    let files = samples.iter().flat_map(|sample| &sample.files);
    let salt = segment_header(Layout::Text).salt();
    let texts = files.filter(|(name, _)| name.contains(".jsonl"));
    texts.map(|(_, bytes)| fixup::text(bytes, &salt)).collect()
}

pub(super) fn texts() -> Vec<Vec<u8>> {
    let salt = segment_header(Layout::Text).salt();
    let set = b"{\"lsn\":1,\"confirmed\":0,\"goes_on\":true,\"data\":{\"a\":[1,2.50,null]}}\n\
        {\"lsn\":2,\"confirmed\":0,\"data\":\"\\u00e9 \\\"x\\\"\"}\n{\"lsn\":3,\"void\":4}\n\
        {\"lsn\":7,\"confirmed\":6,\"time\":\"2025-11-21T04:40:00.123456Z\",\"data\":-1e9}\n";
    let mut found = vec![fixup::text(set, &salt)];
    found.extend(written());
    found
}

pub(super) fn some_lines() -> Vec<Vec<u8>> {
    let texts = texts();
    let lines = texts.iter().flat_map(|text| text.split_inclusive(|byte| *byte == b'\n'));
    let mut found: Vec<_> =
        lines.filter(|line| line.len() < 400).take(10).map(<[u8]>::to_vec).collect();
    found.push(b"{\"a\":[true,false,null,1.5e-7],\"b\":{\"c\":\"\\ud834\\udd1e\"}}".to_vec());
    found
}
