//! Tests of single text lines: as written, edited, torn and forged.

use super::*;
use crate::ids::{Epoch, LogId};

const SALT: Salt = Salt::new(LogId(3), Epoch(9));

fn line(data: &str) -> Line<'_> {
    let (lsn, confirmed) = (Lsn::new(17).unwrap(), Lsn::new(16));
    let time_us = 1_763_700_000_123_456;
    Line { lsn, confirmed, time_us, goes_on: false, content: Content::Data(data) }
}

fn text(line: &Line<'_>) -> String {
    let mut out = vec![];
    line.push(&mut out, &SALT);
    String::from_utf8(out).unwrap()
}

/// Reads `text`, which must be line 17 with `data` if it is valid. Returns whether it is exactly as
/// the writer wrote it, or `None` if it is not a valid line.
fn found(text: &str, data: &str) -> Option<bool> {
    match read(text.as_bytes(), &SALT) {
        Found::Line(found) => {
            assert_eq!(found.line, line(data), "{text}");
            Some(found.is_exact)
        }
        _ => None,
    }
}

const DATA: &str = r#"{"id":7,"op":"buy","tags":["a","b"],"price":1.50}"#;

#[test]
fn line_is_readable_and_read_back() {
    let text = text(&line(DATA));
    let start = "{\"lsn\":17,\"confirmed\":16,\"time\":\"2025-11-21T04:40:00.123456Z\",\"crc\":\"";
    assert!(text.starts_with(start), "{text}");
    assert!(text.ends_with(&format!("\",\"data\":{DATA}}}\n")), "{text}");
    assert_eq!(found(&text, DATA), Some(true));
    assert!(text.len() <= DATA.len() + ENVELOPE_MAX);
}

#[test]
fn white_space_line_breaks_and_order_may_change_anywhere() {
    let text = text(&line(DATA));
    let data = r#"{ "price":1.50,"id":7, "tags":["a",
        "b"], "op":"b\u0075y" }"#;
    let members = text.trim_end().trim_start_matches('{').replace(DATA, data);
    let spread = format!("  {{\n{members}\n\n");
    assert_eq!(found(&spread, data), Some(false), "{spread}");
    let (envelope, rest) = members.split_once(",\"crc\"").unwrap();
    let turned = format!("{{\"crc\"{},{envelope}}}", rest.trim_end_matches('}').to_owned() + "}");
    assert_eq!(found(&turned, data), Some(false), "{turned}");
}

#[test]
fn added_removed_renamed_and_changed_fields_are_detected() {
    let text = text(&line(DATA));
    for (from, to) in [
        ("\"id\":7", "\"id\":8"),
        ("\"id\":7,", ""),
        ("\"id\":7", "\"id\":7,\"more\":1"),
        ("\"id\"", "\"ID\""),
        ("1.50", "1.5"),
        ("[\"a\",\"b\"]", "[\"b\",\"a\"]"),
        ("\"buy\"", "\"sell\""),
        (DATA, "{}"),
        ("\"lsn\":17", "\"lsn\":18"),
        ("\"confirmed\":16", "\"confirmed\":15"),
        (".123456Z", ".123457Z"),
        ("\"data\"", "\"more\":1,\"data\""),
        ("\"data\"", "\"goes_on\":true,\"data\""),
        ("\"data\"", "\"data\":1,\"data\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        assert_eq!(read(changed.as_bytes(), &SALT), Found::Invalid, "{changed}");
    }
}

#[test]
fn every_flipped_bit_is_detected_or_harmless() {
    let good = text(&line(DATA)).into_bytes();
    for bit in (0..(good.len() - 1) * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Found::Line(found) = read(&bytes, &SALT) {
            panic!("bit {bit}: {found:?}");
        }
    }
}

#[test]
fn line_of_another_epoch_or_lsn_is_invalid() {
    let text = text(&line(DATA));
    let other = Salt::new(LogId(3), Epoch(8));
    assert_eq!(read(text.as_bytes(), &other), Found::Invalid);
}

#[test]
fn line_in_progress_is_unfinished() {
    let text = text(&line(DATA));
    for length in (0..text.len() - 1).step_by(crate::fields::sizes::EVERY) {
        assert_eq!(read(&text.as_bytes()[..length], &SALT), Found::Unfinished, "{length}");
    }
    let Found::Line(found) = read(&text.as_bytes()[..text.len() - 1], &SALT) else {
        panic!("the value is whole");
    };
    assert!(!found.is_exact, "its line break is missing");
}

#[test]
fn sets_and_given_up_records_are_read_back() {
    for (goes_on, content) in [(true, Content::Data("[]")), (false, Content::Void(3))] {
        let line = Line { goes_on, content, ..line("") };
        let text = text(&line);
        let Found::Line(found) = read(text.as_bytes(), &SALT) else { panic!("{text}") };
        assert_eq!((found.line, found.is_exact), (line, true));
    }
    assert_eq!(Line { content: Content::Void(3), ..line("") }.last().get(), 19);
}

#[test]
fn unsuitable_record_is_detected_before_it_is_written() {
    for good in ["1", "null", "\"a\\nb\"", "{}", "[1, 2]", DATA, "1e999"] {
        assert!(is_valid_data(good), "{good}");
        assert_eq!(found(&text(&line(good)), good), Some(true), "{good}");
    }
    for bad in ["", "{", "1 2", "nul", "{\"a\":1,\"a\":2}", "[1,\n2]", " ", "1,2", "NaN"] {
        assert!(!is_valid_data(bad), "{bad}");
    }
}

/// Returns the line with the correct checksum for its current members, or `None` if it has no
/// readable members.
fn signed(text: &str) -> Option<String> {
    let object = &text[..=text.rfind('}')?];
    let mut members = canonical::members(object)?;
    let stated = members.remove("crc")?;
    let lsn = Lsn::new(members.get("lsn").copied().and_then(parsed)?)?;
    let crc = checksum(&members, lsn, &SALT)?;
    Some(text.replacen(stated.get(), &format!("\"{crc:08x}\""), 1))
}

/// Replacements in a line as written: the text to find, and the text to put there.
const CHANGES: &[(&str, &str)] = &[
    ("", ""),
    ("17,", "017,"),
    ("17,", "1.7e1,"),
    ("17,", "0,"),
    ("17,", "+17,"),
    ("17,", "18446744073709551615,"),
    ("17,", "18446744073709551616,"),
    ("16,", "0,"),
    ("16,", "016,"),
    ("16,", "-1,"),
    ("16,", "17,"),
    ("16,", "\"16\","),
    ("04:40", "4:40"),
    ("2025", "1969"),
    ("2025-11-21", "1970-01-01"),
    ("2025-11-21T04:40:00.123456", "1970-01-01T00:00:00.000000"),
    ("2025", "12025"),
    ("2025", "02025"),
    ("Z", "\\u005a"),
    ("Z", ""),
    ("\"time\"", "\"t\\u0069me\""),
    ("\"time\":\"", "\"time\":\"\",\"goes_on\":\""),
    (",\"crc\"", ",\"goes_on\":true,\"crc\""),
    (",\"crc\"", ",\"goes_on\":false,\"crc\""),
    (",\"crc\"", ", \"crc\""),
    (",\"crc\"", ",\"more\":1,\"crc\""),
    (",\"confirmed\"", ",\"goes_on\":true,\"confirmed\""),
    ("\"crc\":\"", "\"crc\":\" "),
    ("\"data\":", "\"data\": "),
    ("\"data\":", "\"void\":"),
    ("\"data\":", "\"void\":0"),
    ("\"data\":", "\"void\":1,\"data\":"),
    ("\"data\":", "\"data\":1,\"data\":"),
    ("\"data\":", "\"data\":["),
    ("1}", "1.0}"),
    ("1}", "1e2}"),
    ("}\n", "]}\n"),
    ("}\n", "}"),
    ("}\n", "}}\n"),
    ("}\n", " }\n"),
    ("}\n", "} \n"),
    ("}\n", "}\r\n"),
    ("}\n", "}\n{\"lsn\":"),
    ("}\n", ",\"goes_on\":true}\n"),
    ("}\n", ",\"void\":1}\n"),
];

const CONTENTS: &[Content<'_>] = &[
    Content::Data(DATA),
    Content::Data("7"),
    Content::Data("\"\u{e9}\\n\""),
    Content::Data("[1, {\"b\":[],\"a\":\"\\\"\"}]"),
    Content::Data("[1,\n2]"),
    Content::Void(1),
    Content::Void(u32::MAX),
];

/// Reads the bytes with the parser and with the fast path, and checks that they agree. Returns
/// whether the parser found a valid line, and whether the fast path did.
fn both_ways(bytes: &[u8]) -> (bool, bool) {
    let (quick, plain) = (read_written(bytes, &SALT), read_any(bytes, &SALT));
    let text = String::from_utf8_lossy(bytes);
    if let Some(found) = quick {
        assert_eq!(Found::Line(found), plain, "{text}");
    } else if let Found::Line(found) = plain {
        // The fast path may miss only edited lines and values that span several lines.
        let is_spread = bytes[..found.end - 1].contains(&b'\n');
        assert!(!found.is_exact || is_spread, "{text}");
    }
    (matches!(plain, Found::Line(_)), quick.is_some())
}

#[test]
#[cfg_attr(miri, ignore = "some 100,000 lines: hours there")]
fn fast_path_and_parser_agree_on_every_line() {
    let (mut valid, mut at_once) = (0, 0);
    for content in CONTENTS {
        for (goes_on, time_us) in [(true, 0), (false, 1_763_700_000_123_456), (true, u64::MAX)] {
            let good = text(&Line { goes_on, time_us, content: *content, ..line("") });
            for (one, two) in
                CHANGES.iter().flat_map(|one| CHANGES.iter().map(move |two| (one, two)))
            {
                let changed = good.replacen(one.0, one.1, 1).replacen(two.0, two.1, 1);
                for text in [Some(changed.clone()), signed(&changed)].into_iter().flatten() {
                    let (is_valid, is_at_once) = both_ways(text.as_bytes());
                    (valid, at_once) =
                        (valid + u32::from(is_valid), at_once + u32::from(is_at_once));
                }
            }
            for at in 0..good.len() {
                for bit in 0..8 {
                    let mut bytes = good.clone().into_bytes();
                    bytes[at] ^= 1 << bit;
                    both_ways(&bytes);
                    if let Some(text) = std::str::from_utf8(&bytes).ok().and_then(signed) {
                        both_ways(text.as_bytes());
                    }
                }
            }
        }
    }
    assert!(valid > 3000 && at_once > 1000 && valid > at_once, "{valid}, {at_once}");
}

/// Returns a line with a correct checksum although its numbers or its depth may be invalid.
fn forged(lsn: &str, confirmed: &str, data: &str) -> String {
    let crc = Form::with_empty(|form| {
        form.mark(b'{');
        form.string(b"confirmed").unwrap();
        form.digits(confirmed);
        form.string(b"data").unwrap();
        form.value(data, usize::MAX).unwrap();
        form.string(b"lsn").unwrap();
        form.digits(lsn);
        form.mark(b'}');
        crc32c(form.bytes()) ^ SALT.frame(Lsn::new(17).unwrap(), LINE_DOMAIN)
    });
    let envelope = format!("\"lsn\":{lsn},\"confirmed\":{confirmed},\"crc\":\"{crc:08x}\"");
    format!("{{{envelope},\"data\":{data}}}\n")
}

#[test]
fn invalid_line_is_refused_despite_its_checksum() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let objects = |depth: usize| "{\"\":".repeat(depth) + "1" + &"}".repeat(depth);
    for (lsn, confirmed, data, is_valid) in [
        ("17", "16", "1", true),
        ("017", "16", "1", false),
        ("17", "016", "1", false),
        ("17", "00", "1", false),
        ("17", "17", "1", false),
        ("17", "16", &deep(127), true),
        ("17", "16", &deep(128), false),
        ("17", "16", &objects(127), true),
        ("17", "16", &objects(128), false),
    ] {
        let text = forged(lsn, confirmed, data);
        assert_eq!(both_ways(text.as_bytes()), (is_valid, is_valid), "{text}");
    }
}

#[test]
fn hostile_text_is_invalid_and_cheap() {
    let deep = "[".repeat((1 << 20) / crate::fields::sizes::EVERY);
    assert_eq!(read(deep.as_bytes(), &SALT), Found::Unfinished);
    let deep = "[".repeat((1 << 16) / crate::fields::sizes::EVERY)
        + &"]".repeat((1 << 16) / crate::fields::sizes::EVERY);
    assert_eq!(read(deep.as_bytes(), &SALT), Found::Invalid);
    assert_eq!(read(b"\0\0\0", &SALT), Found::Invalid);
    assert_eq!(read(b"{\"lsn\":17}", &SALT), Found::Invalid);
    assert_eq!(read(b"\xff\xfe", &SALT), Found::Invalid);
}
