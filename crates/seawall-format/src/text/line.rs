//! Lines of the readable layout: one JSON object a record. format.md section 9.

use crate::checksum::{Salt, crc32c, crc32c_joined, crc32c_with};
use crate::ids::{Lsn, lsn_or_zero};
use crate::text::canonical;
use crate::text::canonical::{DEPTH_MAX, Form, Members, Sum};
use crate::time;
use serde_json::value::RawValue;

/// How every line begins that the writer wrote.
pub const LINE_START: &[u8] = LSN.as_bytes();

/// Bound into each checksum, so that no frame's checksum is accepted as a line's.
const LINE_DOMAIN: u32 = 0x656E_696C;

/// The maximum size of a line minus its data, in bytes.
pub const ENVELOPE_MAX: usize = 160;

/// One line: a record, or records that were given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The record, or the first of those given up.
    pub lsn: Lsn,
    /// The highest record known durable when the line was written.
    pub confirmed: Option<Lsn>,
    /// Microseconds since 1970; informational, 0 if it is not known.
    pub time_us: u64,
    /// Whether the atomic set continues with the next record.
    pub goes_on: bool,
    /// What the line holds.
    pub content: Content<'a>,
}

/// What a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The record: one JSON value, verbatim.
    Data(&'a str),
    /// How many records from this one on are lost; a repair gave them up.
    Void(u32),
}

/// What a text holds at an offset.
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
    /// The checksum that the line states.
    pub crc: u32,
    /// The position after its value, and after a line break that follows immediately.
    pub end: usize,
    /// Whether these are exactly the bytes that the writer writes.
    pub is_exact: bool,
}

impl Line<'_> {
    /// The last record that the line covers.
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
        chain_value(self.lsn, crc)
    }

    /// Appends the line as the writer writes it, bound to the life of its file; gives its checksum.
    ///
    /// # Panics
    ///
    /// If the data is not a JSON value that [`is_valid_data`] accepts: callers check it where
    /// records enter the log.
    pub fn push(&self, out: &mut Vec<u8>, salt: &Salt) -> u32 {
        let (pen, place) = (Pen::new(self.confirmed, self.time_us, salt), (self.lsn, self.goes_on));
        match self.content {
            Content::Data(data) => pen.push_unsummed(out, place, data),
            Content::Void(count) => pen.push_void(out, place, count),
        }
    }
}

/// The value that a successor names if the line of this record is the last one before it.
pub(crate) fn chain_value(lsn: Lsn, crc: u32) -> u64 {
    u64::from(crc) | lsn.get() << 32
}

/// Writes the lines of one write and keeps what they have in common.
pub(crate) struct Pen<'s> {
    /// The members between `lsn` and `crc`, without `goes_on`.
    common: String,
    /// The checksum of a line's canonical form up to its data.
    before_data: u32,
    /// The end of the canonical form of a line with data, after its `lsn`.
    end: Vec<u8>,
    confirmed: String,
    time: Option<String>,
    salt: &'s Salt,
}

impl<'s> Pen<'s> {
    pub(crate) fn new(confirmed: Option<Lsn>, time_us: u64, salt: &'s Salt) -> Self {
        let confirmed = lsn_or_zero(confirmed).to_string();
        let time = time::to_text(time_us);
        let mut common = [CONFIRMED, &confirmed].concat();
        common.extend(time.iter().flat_map(|time| [TIME, time, "\""]));
        let before_data = Form::with_empty(|form| {
            form.mark(b'{');
            form.name(b"confirmed")?;
            form.digits(&confirmed);
            form.name(b"data")?;
            Some(crc32c(form.bytes()))
        });
        let end = Form::with_empty(|form| {
            if let Some(time) = &time {
                form.name(b"time")?;
                form.string(time.as_bytes())?;
            }
            form.mark(b'}');
            Some(form.bytes().to_vec())
        });
        let short = "its strings are short";
        let (before_data, end) = (before_data.expect(short), end.expect(short));
        Self { common, before_data, end, confirmed, time, salt }
    }

    /// Appends the line of lost records, the first of them at `place`; gives its checksum.
    pub(crate) fn push_void(
        &self,
        out: &mut Vec<u8>,
        (lsn, goes_on): (Lsn, bool),
        count: u32,
    ) -> u32 {
        let (number, time) = (lsn.to_string(), self.time.as_deref());
        let (confirmed, value) = (&self.confirmed, &count.to_string());
        let said = Said { lsn: &number, confirmed, time, goes_on, is_void: true, value };
        let found = said.checksum(self.salt.frame(lsn, LINE_DOMAIN));
        let (crc, _) = found.expect("a number has a canonical form");
        self.push_text(out, (&number, goes_on, crc), (VOID, value.as_bytes()));
        crc
    }

    /// Appends the line of a record at `place`; gives its checksum. Panics as [`Line::push`] does.
    pub(crate) fn push_unsummed(&self, out: &mut Vec<u8>, place: (Lsn, bool), data: &str) -> u32 {
        let sum = canonical::sum(data, DEPTH_MAX - 1).expect("the data is one JSON value");
        self.push_data(out, place, (data.as_bytes(), sum))
    }

    /// Appends the line of a record whose canonical form was summed before; returns its checksum.
    pub(crate) fn push_data(
        &self,
        out: &mut Vec<u8>,
        (lsn, goes_on): (Lsn, bool),
        (data, sum): (&[u8], Sum),
    ) -> u32 {
        let number = lsn.to_string();
        let so_far = crc32c_joined(self.before_data, (sum.crc, sum.length));
        let crc = Form::with_empty(|form| {
            if goes_on {
                form.name(b"goes_on")?;
                form.mark(b't');
            }
            form.name(b"lsn")?;
            form.digits(&number);
            form.append(&self.end);
            Some(crc32c_with(so_far, form.bytes()) ^ self.salt.frame(lsn, LINE_DOMAIN))
        });
        let crc = crc.expect("its strings are short");
        self.push_text(out, (&number, goes_on, crc), (DATA, data));
        crc
    }

    fn push_text(
        &self,
        out: &mut Vec<u8>,
        (lsn, goes_on, crc): (&str, bool, u32),
        (name, value): (&str, &[u8]),
    ) {
        let mut add = |text: &[u8]| out.extend_from_slice(text);
        add(LSN.as_bytes());
        add(lsn.as_bytes());
        add(self.common.as_bytes());
        if goes_on {
            add(GOES_ON.as_bytes());
        }
        add(CRC.as_bytes());
        add(&hex(crc));
        add(name.as_bytes());
        add(value);
        add(END.as_bytes());
    }
}

/// The members of a line except its checksum, as the writer writes them.
struct Said<'a> {
    lsn: &'a str,
    confirmed: &'a str,
    time: Option<&'a str>,
    goes_on: bool,
    is_void: bool,
    /// Text that begins with what the line holds; more may follow.
    value: &'a str,
}

const LSN: &str = "{\"lsn\":";
const CONFIRMED: &str = ",\"confirmed\":";
const TIME: &str = ",\"time\":\"";
const GOES_ON: &str = ",\"goes_on\":true";
const CRC: &str = ",\"crc\":\"";
const DATA: &str = "\",\"data\":";
const VOID: &str = "\",\"void\":";
const END: &str = "}\n";

impl Said<'_> {
    /// The checksum that the line has, bound to its place, and the length of its value.
    fn checksum(&self, bound: u32) -> Option<(u32, usize)> {
        Form::with_empty(|form| {
            let mut length = 0;
            form.mark(b'{');
            form.name(b"confirmed")?;
            form.digits(self.confirmed);
            if !self.is_void {
                form.name(b"data")?;
                length = form.value(self.value, DEPTH_MAX - 1)?;
            }
            if self.goes_on {
                form.name(b"goes_on")?;
                form.mark(b't');
            }
            form.name(b"lsn")?;
            form.digits(self.lsn);
            if let Some(time) = self.time {
                form.name(b"time")?;
                form.string(time.as_bytes())?;
            }
            if self.is_void {
                form.name(b"void")?;
                length = form.value(self.value, DEPTH_MAX - 1)?;
            }
            form.mark(b'}');
            Some((crc32c(form.bytes()) ^ bound, length))
        })
    }
}

/// Eight lower-case hexadecimal digits.
pub(crate) fn hex(crc: u32) -> [u8; 8] {
    let digit = |at: usize| {
        let digit = u8::try_from(crc >> (28 - 4 * at) & 15).expect("four bits");
        if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }
    };
    std::array::from_fn(digit)
}

/// Whether `data` can be a record of a readable log: one JSON value in one line, no name twice in
/// an object, not nested deeper than 127.
#[must_use]
pub fn is_valid_data(data: &str) -> bool {
    sum_of_data(data).is_some()
}

/// The sum of a record, if it can be one of a readable log.
pub(crate) fn sum_of_data(data: &str) -> Option<Sum> {
    let one_line = memchr::memchr2(b'\n', b'\r', data.as_bytes()).is_none();
    // The value is inside an object, which is one level deeper.
    canonical::sum(data, DEPTH_MAX - 1).filter(|_| one_line)
}

/// Reads the value at the beginning of `bytes` as a line of the file with this salt.
#[must_use]
pub fn read<'a>(bytes: &'a [u8], salt: &Salt) -> Found<'a> {
    match read_written(bytes, salt) {
        Some(found) => Found::Line(found),
        None => read_any(bytes, salt),
    }
}

/// Reads a line that is valid, whole and exactly as the writer writes it, like almost every line.
/// The result is that of [`read_any`], in a tenth of the time.
fn read_written<'a>(bytes: &'a [u8], salt: &Salt) -> Option<Read<'a>> {
    let end = memchr::memchr(b'\n', bytes)? + 1;
    let rest = std::str::from_utf8(bytes.get(..end)?).ok()?.strip_prefix(LSN)?;
    let (lsn_text, lsn, rest) = number(rest)?;
    let (confirmed_text, confirmed, rest) = number(rest.strip_prefix(CONFIRMED)?)?;
    let (time, rest) = match rest.strip_prefix(TIME) {
        Some(rest) => rest.split_once('"').map(|(time, rest)| (Some(time), rest))?,
        None => (None, rest),
    };
    let time_us = time.map_or(Some(0), time::from_text)?;
    let (goes_on, rest) = match rest.strip_prefix(GOES_ON) {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (stated, rest) = rest.strip_prefix(CRC)?.split_at_checked(8)?;
    let (is_void, value) = match rest.strip_prefix(DATA) {
        Some(value) => (false, value),
        None => (true, rest.strip_prefix(VOID)?),
    };
    let said = Said { lsn: lsn_text, confirmed: confirmed_text, time, goes_on, is_void, value };
    let lsn = Lsn::new(lsn).filter(|lsn| confirmed < lsn.get())?;
    let (crc, length) = said.checksum(salt.frame(lsn, LINE_DOMAIN))?;
    let (value, behind) = value.split_at_checked(length)?;
    if stated.as_bytes() != hex(crc) || behind != END {
        return None;
    }
    let content = if is_void {
        let (_, count, behind) = number(value)?;
        let count = u32::try_from(count).ok().filter(|count| *count > 0 && behind.is_empty());
        Content::Void(count?)
    } else {
        Content::Data(value)
    };
    let line = Line { lsn, confirmed: Lsn::new(confirmed), time_us, goes_on, content };
    Some(Read { line, crc, end, is_exact: true })
}

/// The number at the beginning of `text`, as the writer writes it, and what follows.
fn number(text: &str) -> Option<(&str, u64, &str)> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let length = text.bytes().take_while(is_digit).count();
    let (digits, behind) = text.split_at_checked(length)?;
    let is_written = digits.len() == 1 || !digits.starts_with('0');
    is_written.then_some((digits, digits.parse().ok()?, behind))
}

/// Reads any line, written by this crate or edited.
fn read_any<'a>(bytes: &'a [u8], salt: &Salt) -> Found<'a> {
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

/// Whether the parser failed only because `bytes` ended.
fn ends_at(bytes: &[u8], error: &serde_json::Error) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.by_ref().take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    error.is_eof() || before + error.column() >= bytes.len()
}

/// The members that a line can have besides its checksum.
pub(crate) const MEMBERS: [&str; 6] = ["lsn", "confirmed", "time", "goes_on", "data", "void"];

/// Returns the line in this object and its checksum, if it is a valid line.
fn judge<'a>(object: &'a str, salt: &Salt) -> Option<(Line<'a>, u32)> {
    let mut members = canonical::members(object)?;
    let stated: String = parsed(members.remove("crc")?)?;
    let number = |name: &str| members.get(name).copied().and_then(parsed::<u64>);
    let lsn = Lsn::new(number("lsn")?)?;
    let crc = checksum(&members, lsn, salt)?;
    // Compared as text: `+9f0c2a7` would be a number, too.
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
    if members.keys().any(|name| !MEMBERS.contains(&name.as_ref())) {
        return None;
    }
    let time_us = time.and_then(|time| time::from_text(&time)).unwrap_or(0);
    Some((Line { lsn, confirmed: Lsn::new(confirmed), time_us, goes_on, content }, crc))
}

pub(crate) fn parsed<'a, T: serde::Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

/// The checksum of an envelope without its own member, bound to the life and the record.
pub(crate) fn checksum(members: &Members<'_>, lsn: Lsn, salt: &Salt) -> Option<u32> {
    Form::with_empty(|form| {
        form.mark(b'{');
        for (name, value) in members {
            form.string(name.as_bytes())?;
            form.value(value.get(), DEPTH_MAX - 1)?;
        }
        form.mark(b'}');
        Some(crc32c(form.bytes()) ^ salt.frame(lsn, LINE_DOMAIN))
    })
}

#[cfg(test)]
mod tests;
