//! Tests of sets of text lines: their fields, and scanning them in windows of any size.

use super::*;
use crate::binary::batch::{BodyKind, Spec};
use crate::binary::frame::Frames;
use crate::binary::step::Limit;
use crate::files::segment::SegmentHeader;
use crate::ids::{Epoch, LogId, Offset, SegmentId};
use crate::scan::Scanner;
use crate::text::line::Line;
use crate::types::{CodecId, Compression, Geometry, Layout, RecordType};

fn header() -> SegmentHeader {
    let geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
    SegmentHeader {
        geometry,
        log: LogId(3),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(9),
        base: Lsn::FIRST,
        carried: None,
        size: geometry.head_size(),
        pred: None,
        pred_chain: 0,
        layout: Layout::Text,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType::of(CodecId::Json),
        time_us: 0,
    }
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// Encodes one write: atomic sets of these records, numbered from `first`.
fn written(first: u64, sets: &[&[&str]]) -> Vec<u8> {
    let mut batch = vec![0; HEADER_SIZE];
    let mut count = 0;
    for set in sets {
        for (left, data) in (0..set.len()).rev().zip(*set) {
            frame::push_unbound(&mut batch, data.as_bytes(), left > 0);
            count += 1;
        }
    }
    let (first, confirmed) = (lsn(first), Lsn::new(first - 1));
    let spec = Spec { first, count, kind: BodyKind::Frames, confirmed, chain: 0, time_us: 7 };
    write(&batch, &spec, &Life::of(&header())).0
}

/// Scans `text` in windows of `size` bytes or more. Returns the sets found, and the scanner as it
/// stopped.
fn walked(text: &[u8], size: usize) -> (Vec<(u64, Vec<String>)>, Scanner) {
    let mut scanner = Scanner::new(&header(), 0, Limit::Open);
    let (mut start, mut length, mut found) = (0, 0, vec![]);
    for _ in 0..10_000 {
        let end = (start + length).min(text.len());
        let window = Window { start: Offset(to_u64(start)), bytes: &text[start..end] };
        match scanner.step(window) {
            Step::Need { offset, length: least } => {
                start = usize::try_from(offset.0).unwrap();
                length = size.max(usize::try_from(least).unwrap());
                if start + length > text.len() {
                    scanner.ends_at(Offset(to_u64(text.len())));
                }
            }
            Step::Batch(batch) => {
                let frames = Frames::new(&batch.body, batch.header.first, batch.header.count);
                let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
                let records = frames.map(|frame| text(frame.payload)).collect();
                found.push((batch.header.first.get(), records));
            }
            Step::Stopped(..) | Step::Refused(_) | Step::Finished => return (found, scanner),
        }
    }
    panic!("the walk ends");
}

fn example() -> Vec<u8> {
    let long = format!("\"{}\"", "x".repeat(700));
    [written(1, &[&["1"], &["[2]", "{\"a\":3}"]]), written(4, &[&[&long], &["5"]])].concat()
}

#[test]
fn sets_are_read_back_with_any_window_size() {
    let text = example();
    for size in [1, 100, 512, 700, 4096] {
        let (found, scanner) = walked(&text, size);
        let counts: Vec<_> = found.iter().map(|(first, set)| (*first, set.len())).collect();
        assert_eq!(counts, [(1, 1), (2, 2), (4, 1), (5, 1)], "windows of {size}");
        assert_eq!(found[1].1, ["[2]", "{\"a\":3}"]);
        assert_eq!((scanner.offset().0, scanner.is_exact()), (to_u64(text.len()), true));
    }
}

#[test]
fn record_has_the_same_line_with_and_without_a_sum() {
    let long = format!("[\"{}\"]", "x".repeat(3000));
    let records = ["1", "\"\"", r#"{"b":1.50,"a":"\u00e9\\"}"#, "{\"\u{e9}\":[true]}", &long];
    let texts = [false, true].map(|is_summed| {
        let mut batch = vec![0; HEADER_SIZE];
        for record in records {
            let mut payload = record.as_bytes().to_vec();
            assert!(!is_summed || add_sum(&mut payload), "{record}");
            assert_eq!(without_sum(&payload), record.as_bytes());
            frame::push_without_crc(&mut batch, &payload, record == "\"\"");
        }
        let (first, confirmed) = (lsn(9), Lsn::new(2));
        let spec =
            Spec { first, count: 5, kind: BodyKind::Frames, confirmed, chain: 0, time_us: 7 };
        write(&batch, &spec, &Life::of(&header()))
    });
    assert_eq!(texts[0], texts[1]);
    let lines = texts[0].0.split_inclusive(|byte| *byte == b'\n');
    for (line, record) in lines.zip(records) {
        let Found::Line(found) = read(line, &header().salt()) else { panic!("{line:?}") };
        assert_eq!((found.line.content, found.is_exact), (Content::Data(record), true));
    }
    for refused in ["{\"a\":1,\"a\":1}", "[1,\n2]", " 1", ""] {
        assert!(!add_sum(&mut refused.as_bytes().to_vec()), "{refused}");
    }
    assert!(!add_sum(&mut b"\"\xff\"".to_vec()), "not UTF-8");
}

#[test]
fn set_truncated_at_any_byte_is_incomplete_with_its_lines() {
    let text = example();
    let ends: Vec<_> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    for cut in (0..text.len()).step_by(crate::fields::sizes::EVERY) {
        let (found, scanner) = walked(&text[..cut], 512);
        let lines = ends.iter().filter(|end| **end <= cut).count();
        let sets = [0, 1, 1, 2, 3, 4];
        assert_eq!(found.len(), sets[lines], "cut at {cut}");
        assert_eq!(scanner.part().is_some(), lines == 2, "cut at {cut}");
    }
}

#[test]
fn line_out_of_sequence_stops_the_scan() {
    let text = [written(1, &[&["1"]]), written(3, &[&["3"]])].concat();
    let mut scanner = Scanner::new(&header(), 0, Limit::Open);
    scanner.ends_at(Offset(to_u64(text.len())));
    let window = Window { start: Offset(0), bytes: &text };
    assert!(matches!(scanner.step(window), Step::Batch(_)));
    let Step::Stopped(Cause::Order, Some(line)) = scanner.step(window) else { panic!() };
    assert_eq!((line.first, line.confirmed()), (lsn(3), Lsn::new(2)));
}

#[test]
fn endless_line_requests_at_most_one_line() {
    let text =
        [b"{\"lsn\":1,\"data\":[".to_vec(), b"0,".repeat((1 << 20) / crate::fields::sizes::EVERY)]
            .concat();
    let mut scanner = Scanner::new(&header(), 0, Limit::Open);
    let mut most = 0;
    let mut size = 0;
    while let Step::Need { length, .. } =
        scanner.step(Window { start: Offset(0), bytes: &text[..size] })
    {
        size = usize::try_from(length).unwrap();
        most = most.max(length);
    }
    assert!(most <= 2 * line_max(&Life::of(&header())), "{most}");
}

#[test]
fn lines_begin_after_line_breaks_and_at_the_start() {
    let text = b"{\"lsn\":1}\n {\"lsn\":2}\n{\"lsn\":3}{\"lsn\":4}\n{\"ls";
    assert_eq!(starts(text, true).collect::<Vec<_>>(), [0, 21]);
    assert_eq!(starts(text, false).collect::<Vec<_>>(), [21]);
}

fn life() -> Life {
    Life::of(&header())
}

/// Encodes lines as the writer does, numbered from 1.
fn text_of(contents: &[(Content<'_>, bool)]) -> Vec<u8> {
    let mut text = vec![];
    for (number, (content, goes_on)) in (1..).zip(contents) {
        let confirmed = Lsn::new(number / 2);
        let (lsn, time_us) = (lsn(number), 10 * number);
        Line { lsn, confirmed, time_us, goes_on: *goes_on, content: *content }
            .push(&mut text, &life().salt);
    }
    text
}

/// Scans one step of a whole text. Returns the scanner and the result of the step.
fn first_step(text: &[u8]) -> (Scanner, Step<'_>) {
    let mut scanner = Scanner::new(&header(), 0, Limit::Open);
    scanner.ends_at(Offset(to_u64(text.len())));
    let step = scanner.step(Window { start: Offset(0), bytes: text });
    (scanner, step)
}

#[test]
fn set_has_the_fields_of_a_batch() {
    let text = text_of(&[(Content::Data("1"), true), (Content::Data("[2]"), false)]);
    let (scanner, Step::Batch(batch)) = first_step(&text) else { panic!() };
    let header = batch.header;
    assert_eq!((header.first, header.last(), header.confirmed()), (lsn(1), lsn(2), None));
    assert_eq!((header.time_us, header.is_void()), (10, false));
    assert_eq!(u64::from(header.body_length), to_u64(batch.body.len()));
    assert_eq!((batch.offset.0, batch.end.0), (0, to_u64(text.len())));
    assert!(frame::is_valid(&batch.body, 0, lsn(1), &life().salt));
    assert!(frame::is_valid(&batch.body, 16, lsn(2), &life().salt));
    // The next batch names this chain value: the checksum of the last line, and its LSN.
    let last = text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap();
    let Found::Line(found) = read(last, &life().salt) else { panic!() };
    let chain = u64::from(found.crc) | 2 << 32;
    assert_eq!((scanner.chain(), found.line.chain_value(found.crc)), (chain, chain));
    assert_eq!(header_at(last, &life()).unwrap().confirmed(), Lsn::new(1));
}

#[test]
fn given_up_lsns_are_in_a_separate_line() {
    let text = text_of(&[(Content::Void(5), false)]);
    let (scanner, Step::Batch(batch)) = first_step(&text) else { panic!() };
    assert!(batch.header.is_void() && batch.body.is_empty());
    let (count, last) = (batch.header.count, batch.header.last());
    assert_eq!((count, last, scanner.next_lsn()), (5, lsn(5), lsn(6)));
    for wrong in [
        &[(Content::Void(5), true), (Content::Data("1"), false)][..],
        &[(Content::Data("1"), true), (Content::Void(5), false)],
    ] {
        let text = text_of(wrong);
        let (_, step) = first_step(&text);
        assert!(matches!(step, Step::Stopped(Cause::Line, Some(_))), "{wrong:?}");
    }
}

#[test]
fn set_larger_than_any_batch_is_invalid() {
    // The limit of 1024 bytes counts a header of 48, and for each record a frame header of 8.
    let data = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
    for (second, fits) in [(456, true), (457, false)] {
        let (one, two) = (data(504), data(second));
        let text = text_of(&[(Content::Data(&one), true), (Content::Data(&two), false)]);
        assert_eq!(matches!(first_step(&text).1, Step::Batch(_)), fits, "{second} bytes");
    }
}

#[test]
fn value_in_several_lines_is_written_in_one() {
    assert_eq!(in_one_line("[1,\n\r2]"), "[1,  2]");
    let mut batch = vec![0; HEADER_SIZE];
    frame::push_unbound(&mut batch, b"[1,\n2]", false);
    let spec = Spec {
        first: lsn(1),
        count: 1,
        kind: BodyKind::Frames,
        confirmed: None,
        chain: 0,
        time_us: 7,
    };
    let (text, chain) = write(&batch, &spec, &life());
    assert_eq!(text.iter().position(|byte| *byte == b'\n'), Some(text.len() - 1));
    let (scanner, Step::Batch(_)) = first_step(&text) else { panic!() };
    assert_eq!((scanner.chain(), scanner.is_exact()), (chain, true));
}

#[test]
fn edited_line_is_valid_and_known_to_be_edited() {
    let text = text_of(&[(Content::Data("1"), false), (Content::Data("2"), false)]);
    let edited = String::from_utf8(text.clone()).unwrap().replacen(",\"data\"", ", \"data\"", 1);
    let (found, scanner) = walked(edited.as_bytes(), 4096);
    assert_eq!((found.len(), scanner.is_exact()), (2, false), "though the last line is exact");
    let (found, scanner) = walked(&text, 4096);
    assert_eq!((found.len(), scanner.is_exact()), (2, true));
}

#[test]
fn line_is_within_its_bounds() {
    assert_eq!(line_max(&life()), 2 * (1024 + 160));
    assert_eq!(write_max(&life()), 16 * 1024);
    let digits = [(Content::Data("1"), false)];
    assert!(to_u64(text_of(&digits).len()) <= 161, "what `SET_FACTOR` counts with");
}

#[test]
fn line_is_complete_with_its_line_break() {
    let text = text_of(&[(Content::Data("1"), false), (Content::Data("2"), false)]);
    let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in 0..text.len() {
        let mut scanner = Scanner::new(&header(), 0, Limit::Open);
        match scanner.step(Window { start: Offset(0), bytes: &text[..length] }) {
            Step::Batch(batch) if length >= first => assert_eq!(batch.end.0, to_u64(first)),
            Step::Need { offset: Offset(0), length: more } if length < first => {
                assert!(more > to_u64(length), "{more} of {length}");
            }
            other => panic!("{length} bytes: {other:?}"),
        }
    }
}

#[test]
fn line_overhead_is_within_its_bound() {
    for (first, is_void) in [(1, false), (u64::MAX - 4, false), (u64::MAX - 4, true)] {
        let mut batch = vec![0; HEADER_SIZE];
        for goes_on in [true, false] {
            frame::push_unbound(&mut batch, b"12345678", goes_on);
        }
        let (first, confirmed, time_us) = (lsn(first), Lsn::new(first - 1), u64::MAX);
        let kind = if is_void { BodyKind::Void } else { BodyKind::Frames };
        let count = if is_void { 3 } else { 2 };
        let spec = Spec { first, count, kind, confirmed, chain: 0, time_us };
        let (text, _) = write(&batch, &spec, &life());
        assert!(to_u64(text.len()) <= 2 * (16 + LINE_OVERHEAD_MAX), "{}", text.len());
        let longest = text.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
        assert!(to_u64(longest) < 16 + LINE_OVERHEAD_MAX, "{longest}");
    }
}
