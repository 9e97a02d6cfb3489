//! Walks the lines of a text and returns each atomic set as an equivalent batch. format.md section
//! 9.3.

use crate::binary::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life};
use crate::binary::frame;
use crate::binary::step::{Batch, Body, Cause, Part, Progress, Step, Window};
use crate::ids::{Lsn, to_u64};
use crate::text::canonical::Sum;
use crate::text::line::{Content, Found, LINE_START, Pen, Read, chain_value, read, sum_of_data};
use std::borrow::Cow;

/// The lines of one set, and of one write, take at most this many times the largest batch. A record
/// of one byte takes 16 bytes in a frame, at most 161 in a line.
const SET_FACTOR: u64 = 16;

/// Bytes that the first step at a place requests.
const LEAST: u64 = 512;

/// Finds set after set.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineCursor {
    /// The available lines of the set that the scan could not complete.
    pub(crate) part: Option<Part>,
    /// Whether any line so far differs from how the writer writes it.
    pub(crate) is_rewritten: bool,
    /// Memory for the next set.
    pub(crate) spare: Vec<u8>,
}

impl LineCursor {
    /// Looks at the next set.
    pub(crate) fn step<'a>(&mut self, progress: &mut Progress, window: Window<'a>) -> Step<'a> {
        let offset = progress.at;
        self.part = None;
        let Some(bytes) = window.range(offset, window.end().0.saturating_sub(offset.0)) else {
            return Step::Need { offset, length: LEAST };
        };
        let sees_end = progress.end.is_some_and(|end| window.end().0 >= end);
        let mut set = Set::new(progress.next, std::mem::take(&mut self.spare));
        let (cause, header) = loop {
            let rest = bytes.get(set.size..).unwrap_or_default();
            let found = read(rest, &progress.life.salt);
            let more = match found {
                Found::Unfinished => true,
                // Its line break may still follow.
                Found::Line(line) => line.end == rest.len() && !rest.ends_with(b"\n"),
                Found::Invalid => false,
            };
            let is_long = to_u64(rest.len()) >= line_max(&progress.life)
                || to_u64(bytes.len()) >= write_max(&progress.life);
            if more && !sees_end && !is_long {
                return Step::Need { offset, length: LEAST.max(2 * to_u64(bytes.len())) };
            }
            let Found::Line(line) = found else { break (Cause::Line, None) };
            match set.take(&line, progress.life.batch_max) {
                Taken::Open => {}
                Taken::Whole => return Step::Batch(self.finish(progress, set)),
                Taken::Refused(cause) => break (cause, header_of(&line)),
            }
        };
        if set.count > 0 {
            let (end, confirmed) = (offset.plus(to_u64(set.size)), set.confirmed);
            let (_, frames) = set.bytes.split_at_mut(HEADER_SIZE);
            frame::bind(frames, &progress.life.salt, set.first, set.count);
            self.part = Some(Part { bytes: set.bytes, end, confirmed });
        }
        Step::Stopped(cause, header)
    }

    /// Continues after a whole set.
    fn finish(&mut self, progress: &mut Progress, mut set: Set) -> Batch<'static> {
        let (_, body) = set.bytes.split_at_mut(HEADER_SIZE);
        frame::bind(body, &progress.life.salt, set.first, set.count);
        let header = BatchHeader {
            header_crc: set.crc,
            body_length: u32::try_from(body.len()).expect("at most 64 MiB"),
            kind: if set.is_void { BodyKind::Void } else { BodyKind::Frames },
            first: set.first,
            count: set.count,
            behind: set.behind,
            body_crc: low_half(set.last_line),
            chain: progress.chain,
            time_us: set.time_us,
        };
        let body = Body::Made(set.bytes);
        let (offset, end) = (progress.at, progress.at.plus(to_u64(set.size)));
        (progress.at, progress.next, progress.chain) =
            (end, header.last().next(), header.chain_value());
        self.is_rewritten |= !set.is_exact;
        Batch { offset, header, body, end }
    }
}

/// Lines that follow each other, from the first of a set on.
struct Set {
    first: Lsn,
    count: u32,
    is_void: bool,
    is_exact: bool,
    /// The checksum of the last line, whose record is `last_line`.
    crc: u32,
    last_line: u64,
    behind: u32,
    confirmed: Option<Lsn>,
    time_us: u64,
    /// Room for a header, then unbound frames.
    bytes: Vec<u8>,
    /// The bytes of the text that were read.
    size: usize,
}

impl Set {
    /// Returns an empty set that reuses this memory.
    fn new(first: Lsn, mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(HEADER_SIZE, 0);
        Self {
            first,
            count: 0,
            is_void: false,
            is_exact: true,
            crc: 0,
            last_line: 0,
            behind: 0,
            confirmed: None,
            time_us: 0,
            bytes,
            size: 0,
        }
    }
}

/// The result of adding a line to a set.
enum Taken {
    /// The line was added, and the set continues.
    Open,
    /// The line was added, and ends the set.
    Whole,
    /// The line does not belong to the set.
    Refused(Cause),
}

impl Set {
    fn take(&mut self, found: &Read<'_>, batch_max: u32) -> Taken {
        let line = &found.line;
        if line.lsn != self.first.plus(u64::from(self.count)) {
            return Taken::Refused(Cause::Order);
        }
        let Some(header) = header_of(found) else { return Taken::Refused(Cause::Line) };
        match line.content {
            Content::Void(_) if self.count > 0 || line.goes_on => {
                return Taken::Refused(Cause::Line);
            }
            Content::Void(_) => self.is_void = true,
            Content::Data(data) => {
                let size = self.bytes.len() + frame::size_on_disk(data.len());
                if to_u64(size) > u64::from(batch_max) {
                    return Taken::Refused(Cause::Line);
                }
                frame::push_unbound(&mut self.bytes, data.as_bytes(), line.goes_on);
            }
        }
        if self.count == 0 {
            (self.behind, self.time_us) = (header.behind, line.time_us);
        }
        self.confirmed = self.confirmed.max(line.confirmed);
        (self.crc, self.last_line) = (found.crc, line.lsn.get());
        self.count += header.count;
        self.size += found.end;
        self.is_exact &= found.is_exact;
        if line.goes_on { Taken::Open } else { Taken::Whole }
    }
}

/// The header of a batch that is equivalent to this line alone.
fn header_of(found: &Read<'_>) -> Option<BatchHeader> {
    let line = &found.line;
    let (kind, count) = match line.content {
        Content::Void(count) => (BodyKind::Void, count),
        Content::Data(_) => (BodyKind::Frames, 1),
    };
    line.lsn.get().checked_add(u64::from(count))?;
    let behind = line.lsn.get() - 1 - crate::ids::lsn_or_zero(line.confirmed);
    Some(BatchHeader {
        header_crc: found.crc,
        body_length: 0,
        kind,
        first: line.lsn,
        count,
        behind: u32::try_from(behind).ok()?,
        body_crc: low_half(line.lsn.get()),
        chain: 0,
        time_us: line.time_us,
    })
}

/// Whether `data` can be a record of a readable log: one JSON value in one line, no name twice in
/// an object, not nested deeper than 127.
pub use crate::text::line::is_valid_data;

/// Bytes from which the beginning of a line is recognised.
pub const START_SIZE: usize = LINE_START.len();

/// The line at the beginning of `bytes`, if it is valid, as the header of a batch.
#[must_use]
pub fn header_at(bytes: &[u8], life: &Life) -> Option<BatchHeader> {
    match read(bytes, &life.salt) {
        Found::Line(found) => header_of(&found),
        Found::Unfinished | Found::Invalid => None,
    }
}

/// Positions in `bytes` where lines begin, as the writer writes them. With `at_start`, a line may
/// begin with the first byte.
pub fn starts(bytes: &[u8], at_start: bool) -> impl Iterator<Item = usize> + '_ {
    let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let places = at_start.then_some(0).into_iter().chain(breaks);
    places.filter(|at| bytes.get(*at..).is_some_and(|line| line.starts_with(LINE_START)))
}

/// The longest line in bytes: twice what the writer writes, so that people may reformat it.
#[must_use]
pub fn line_max(life: &Life) -> u64 {
    2 * (u64::from(life.batch_max) + to_u64(crate::text::line::ENVELOPE_MAX))
}

/// The most bytes that the lines of one set, or those of one write, take.
#[must_use]
pub fn write_max(life: &Life) -> u64 {
    SET_FACTOR * u64::from(life.batch_max)
}

/// The maximum size of a line minus the frame of its record, in bytes.
pub const LINE_OVERHEAD_MAX: u64 = 160;
const _: () = assert!(crate::text::line::ENVELOPE_MAX == 160, "the same as another type");

/// Bytes that [`add_sum`] adds.
const SUM_SIZE: usize = 9;

/// Adds the sum of its canonical form, which [`write()`] needs, to a record. Returns `false` if a
/// readable log cannot hold the record; see [`is_valid_data`].
#[must_use]
pub fn add_sum(data: &mut Vec<u8>) -> bool {
    let Some(sum) = str::from_utf8(data).ok().and_then(sum_of_data) else { return false };
    data.extend_from_slice(&sum.crc.to_le_bytes());
    data.extend_from_slice(&sum.length.to_le_bytes());
    // No JSON text ends like this.
    data.push(0);
    true
}

/// Splits a payload into the record and the sum that [`add_sum`] added, if any.
fn split_sum(payload: &[u8]) -> (&[u8], Option<Sum>) {
    match payload.split_last_chunk::<SUM_SIZE>() {
        Some((data, [a, b, c, d, length @ .., 0])) => {
            let (crc, length) = (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes(*length));
            (data, Some(Sum { crc, length }))
        }
        _ => (payload, None),
    }
}

/// Returns a record without the sum that [`add_sum`] added.
#[must_use]
pub fn without_sum(payload: &[u8]) -> &[u8] {
    split_sum(payload).0
}

/// Writes a batch as lines of a text, and returns its chain value, too. `batch` is space for a
/// header, then frames. Records may have a sum; see [`add_sum`].
///
/// # Panics
///
/// If a record is not a JSON value: callers check it where records enter the log.
#[must_use]
pub fn write(batch: &[u8], spec: &crate::binary::batch::Spec, life: &Life) -> (Vec<u8>, u64) {
    let frames = batch.get(HEADER_SIZE..).unwrap_or_default();
    let (mut text, mut chain) = (Vec::with_capacity(2 * batch.len()), spec.chain);
    let pen = Pen::new(spec.confirmed, spec.time_us, &life.salt);
    if spec.kind == BodyKind::Void {
        let crc = pen.push_void(&mut text, (spec.first, false), spec.count);
        chain = chain_value(spec.first, crc);
    } else {
        for record in frame::Frames::new(frames, spec.first, spec.count) {
            let place = (record.lsn, record.goes_on);
            let crc = match split_sum(record.payload) {
                (data, Some(sum)) => pen.push_data(&mut text, place, (data, sum)),
                (data, None) => {
                    let data = str::from_utf8(data).expect("checked where it entered");
                    pen.push_unsummed(&mut text, place, &in_one_line(data))
                }
            };
            chain = chain_value(record.lsn, crc);
        }
    }
    (text, chain)
}

/// Joins a JSON value that was edited to span several lines: a blank can replace a line break
/// between its parts, and a string contains no line break.
fn in_one_line(data: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', data.as_bytes()) {
        Some(_) => data.replace(['\n', '\r'], " ").into(),
        None => data.into(),
    }
}

fn low_half(number: u64) -> u32 {
    u32::try_from(number & 0xFFFF_FFFF).expect("32 bits are left")
}

#[cfg(test)]
mod tests;
