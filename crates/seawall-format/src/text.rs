//! Lines of the readable layout: one JSON object a record. FORMAT.md section 9.

use crate::canonical::{self, DEPTH_MAX, Members};
use crate::salt::crc32c;
use crate::{Lsn, Salt, lsn_or_zero, time};
use serde_json::value::RawValue;
use std::io::Write;

/// How every line begins that the writer wrote.
pub const LINE_START: &[u8] = b"{\"lsn\":";

/// Bound into each checksum, so that no frame's passes for a line's.
const LINE_DOMAIN: u32 = 0x656E_696C;

/// Bytes that a line takes beside its data, at most.
pub const ENVELOPE_MAX: usize = 160;

/// One record, or records that were given up, as a line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The record, or the first of those given up.
    pub lsn: Lsn,
    /// The highest record known durable when the line was written.
    pub confirmed: Option<Lsn>,
    /// Microseconds since 1970; informational, 0 if it is not known.
    pub time_us: u64,
    /// Whether the atomic set goes on with the next record.
    pub goes_on: bool,
    /// What the line holds.
    pub content: Content<'a>,
}

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The record: one JSON value, verbatim.
    Data(&'a str),
    /// So many records from this one on are lost, and a repair gave them up.
    Void(u32),
}

/// What stands at a place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A valid line.
    Line(Read<'a>),
    /// Nothing but white space, or the beginning of a value: more may follow.
    Unfinished,
    /// Something else.
    Invalid,
}

/// A valid line, and how it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// The line.
    pub line: Line<'a>,
    /// Its checksum as it stands there.
    pub crc: u32,
    /// The position behind its value, and behind a line break that follows at once.
    pub end: usize,
    /// Whether these are exactly the bytes that the writer writes.
    pub is_exact: bool,
}

impl Line<'_> {
    /// The last record that the line speaks of.
    #[must_use]
    pub fn last(&self) -> Lsn {
        match self.content {
            Content::Void(count) if count > 1 => self.lsn.plus(u64::from(count) - 1),
            _ => self.lsn,
        }
    }

    /// The value that a successor names if this is the last line before it.
    #[must_use]
    pub fn chain_value(&self, crc: u32) -> u64 {
        u64::from(crc) | self.lsn.get() << 32
    }

    /// Appends the line as the writer writes it, bound to the life of its file; gives its checksum.
    ///
    /// # Panics
    ///
    /// If the data is no JSON value that [`is_valid_data`] accepts: callers check it where records
    /// enter the log.
    pub fn push(&self, out: &mut Vec<u8>, salt: &Salt) -> u32 {
        let (start, lsn) = (out.len(), self.lsn);
        let time = time::to_text(self.time_us);
        let time = time.map_or_else(String::new, |time| format!(",\"time\":\"{time}\""));
        let goes_on = if self.goes_on { ",\"goes_on\":true" } else { "" };
        let confirmed = lsn_or_zero(self.confirmed);
        let envelope = format!("\"lsn\":{lsn},\"confirmed\":{confirmed}{time}{goes_on}");
        let content = match self.content {
            Content::Data(data) => format!("\"data\":{data}"),
            Content::Void(count) => format!("\"void\":{count}"),
        };
        let unsigned = format!("{{{envelope},{content}}}");
        let members = canonical::members(&unsigned).expect("the data is a JSON value");
        let crc = checksum(&members, lsn, salt).expect("the data has a canonical form");
        let written = writeln!(out, "{{{envelope},\"crc\":\"{crc:08x}\",{content}}}");
        written.expect("memory takes all");
        assert!(out.get(start..).is_some_and(|line| line.starts_with(LINE_START)));
        crc
    }
}

/// Whether `data` can be a record of a readable log: one JSON value in one line, no name twice in
/// an object, not nested deeper than 127.
#[must_use]
pub fn is_valid_data(data: &str) -> bool {
    let one_line = !data.bytes().any(|byte| byte == b'\n' || byte == b'\r');
    // It stands in an object, which is one deeper.
    one_line && canonical::is_value(data, DEPTH_MAX - 1)
}

/// The value at the beginning of `bytes`, judged as a line of the file with this life.
#[must_use]
pub fn read<'a>(bytes: &'a [u8], salt: &Salt) -> Found<'a> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<&RawValue>();
    let value = match values.next() {
        None => return Found::Unfinished,
        Some(Err(error)) if ends_at(bytes, &error) => return Found::Unfinished,
        Some(Err(_)) => return Found::Invalid,
        Some(Ok(value)) => value,
    };
    let behind = values.byte_offset();
    let end = if bytes.get(behind) == Some(&b'\n') { behind + 1 } else { behind };
    let Some((line, crc)) = judge(value.get(), salt) else { return Found::Invalid };
    let mut exact = vec![];
    line.push(&mut exact, salt);
    let is_exact = bytes.get(..end) == Some(exact.as_slice());
    Found::Line(Read { line, crc, end, is_exact })
}

/// Whether the parser could go no further because there is no more.
fn ends_at(bytes: &[u8], error: &serde_json::Error) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.by_ref().take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    error.is_eof() || before + error.column() >= bytes.len()
}

/// The line that this object is, if it is a valid one.
fn judge<'a>(object: &'a str, salt: &Salt) -> Option<(Line<'a>, u32)> {
    let mut members = canonical::members(object)?;
    let stated: String = parsed(members.remove("crc")?)?;
    let number = |name: &str| members.get(name).copied().and_then(parsed::<u64>);
    let lsn = Lsn::new(number("lsn")?)?;
    let crc = checksum(&members, lsn, salt)?;
    // Not parsed: `+9f0c2a7` would be a number, too.
    if stated != format!("{crc:08x}") {
        return None;
    }
    let confirmed = number("confirmed").filter(|confirmed| *confirmed < lsn.get())?;
    let time = members.get("time").copied().and_then(parsed::<String>);
    let goes_on = members.get("goes_on").is_some_and(|mark| mark.get() == "true");
    let content = match (members.get("data"), members.get("void")) {
        (Some(data), None) => Content::Data(data.get()),
        (None, Some(count)) => Content::Void(parsed(count).filter(|count| *count > 0)?),
        _ => return None,
    };
    let known = ["lsn", "confirmed", "time", "goes_on", "data", "void"];
    if members.keys().any(|name| !known.contains(&name.as_ref())) {
        return None;
    }
    let time_us = time.and_then(|time| time::from_text(&time)).unwrap_or(0);
    Some((Line { lsn, confirmed: Lsn::new(confirmed), time_us, goes_on, content }, crc))
}

fn parsed<'a, T: serde::Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// The checksum of an envelope without its own member, bound to the life and the record.
fn checksum(members: &Members<'_>, lsn: Lsn, salt: &Salt) -> Option<u32> {
    let mut form = vec![];
    canonical::push_members(&mut form, members, DEPTH_MAX)?;
    Some(crc32c(&form) ^ salt.frame(lsn, LINE_DOMAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epoch, LogId};

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

    /// Whether these bytes are line 17 with this data, and exactly as it was written.
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
    fn a_line_reads_as_a_person_expects_and_comes_back() {
        let text = text(&line(DATA));
        let start =
            "{\"lsn\":17,\"confirmed\":16,\"time\":\"2025-11-21T04:40:00.123456Z\",\"crc\":\"";
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
        let turned =
            format!("{{\"crc\"{},{envelope}}}", rest.trim_end_matches('}').to_owned() + "}");
        assert_eq!(found(&turned, data), Some(false), "{turned}");
    }

    #[test]
    fn what_was_added_removed_renamed_or_changed_is_caught() {
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
    fn every_flipped_bit_is_caught_or_changes_nothing() {
        let good = text(&line(DATA)).into_bytes();
        for bit in (0..(good.len() - 1) * 8).step_by(crate::EVERY) {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Found::Line(found) = read(&bytes, &SALT) {
                panic!("bit {bit}: {found:?}");
            }
        }
    }

    #[test]
    fn a_line_of_another_life_or_place_is_invalid() {
        let text = text(&line(DATA));
        let other = Salt::new(LogId(3), Epoch(8));
        assert_eq!(read(text.as_bytes(), &other), Found::Invalid);
    }

    #[test]
    fn a_line_that_is_being_written_is_unfinished() {
        let text = text(&line(DATA));
        for length in (0..text.len() - 1).step_by(crate::EVERY) {
            assert_eq!(read(&text.as_bytes()[..length], &SALT), Found::Unfinished, "{length}");
        }
        let Found::Line(found) = read(&text.as_bytes()[..text.len() - 1], &SALT) else {
            panic!("the value is whole");
        };
        assert!(!found.is_exact, "its line break is missing");
    }

    #[test]
    fn sets_and_records_that_were_given_up_come_back() {
        for (goes_on, content) in [(true, Content::Data("[]")), (false, Content::Void(3))] {
            let line = Line { goes_on, content, ..line("") };
            let text = text(&line);
            let Found::Line(found) = read(text.as_bytes(), &SALT) else { panic!("{text}") };
            assert_eq!((found.line, found.is_exact), (line, true));
        }
        assert_eq!(Line { content: Content::Void(3), ..line("") }.last().get(), 19);
    }

    #[test]
    fn what_is_no_record_of_a_readable_log_is_known_before_it_is_written() {
        for good in ["1", "null", "\"a\\nb\"", "{}", "[1, 2]", DATA, "1e999"] {
            assert!(is_valid_data(good), "{good}");
            assert_eq!(found(&text(&line(good)), good), Some(true), "{good}");
        }
        for bad in ["", "{", "1 2", "nul", "{\"a\":1,\"a\":2}", "[1,\n2]", " ", "1,2", "NaN"] {
            assert!(!is_valid_data(bad), "{bad}");
        }
    }

    #[test]
    fn hostile_text_is_invalid_and_costs_no_time() {
        let deep = "[".repeat((1 << 20) / crate::EVERY);
        assert_eq!(read(deep.as_bytes(), &SALT), Found::Unfinished);
        let deep = "[".repeat((1 << 16) / crate::EVERY) + &"]".repeat((1 << 16) / crate::EVERY);
        assert_eq!(read(deep.as_bytes(), &SALT), Found::Invalid);
        assert_eq!(read(b"\0\0\0", &SALT), Found::Invalid);
        assert_eq!(read(b"{\"lsn\":17}", &SALT), Found::Invalid);
        assert_eq!(read(b"\xff\xfe", &SALT), Found::Invalid);
    }
}
