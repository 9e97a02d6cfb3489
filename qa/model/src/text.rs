//! The readable log: one line per record in a growing file; checksums bind epoch and LSN.

use crate::format::{digest, salt, zero, Header};
use crate::inspect::Verdict;
use crate::rules::Rules;
use crate::scan::Scan;

/// The maximum size of a line, in bytes.
pub const LINE: usize = 64;

fn check(epoch: u16, lsn: u16, confirmed: u16, goes_on: bool, data: &str) -> u64 {
    let mut bytes = data.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    digest(salt(epoch, lsn as usize) ^ (confirmed as u64) << 40 ^ (goes_on as u64) << 60, &bytes)
}

/// Encodes the line of one record. Also returns the digest that a successor names.
pub fn encode(epoch: u16, lsn: u16, confirmed: u16, goes_on: bool, value: u64) -> (Vec<u8>, u64) {
    // Every third value is long, so that a line spans sectors.
    let data = if value.is_multiple_of(3) {
        format!("{value}.00000000000000")
    } else {
        format!("{value}")
    };
    let sum = check(epoch, lsn, confirmed, goes_on, &data);
    let set = if goes_on { "+" } else { "" };
    (format!("{{\"lsn\":{lsn},{confirmed},{sum:016x}{set},{data}}}\n").into_bytes(), sum >> 16)
}

struct Line {
    lsn: u16,
    confirmed: u16,
    goes_on: bool,
    value: u64,
    digest: u64,
    end: usize,
}

fn decode(file: &[u8], at: usize, epoch: u16) -> Option<Line> {
    let rest = file.get(at..)?;
    let end = rest.iter().take(LINE).position(|b| *b == b'\n')?;
    let body =
        std::str::from_utf8(&rest[..end]).ok()?.strip_prefix("{\"lsn\":")?.strip_suffix('}')?;
    let mut fields = body.split(',');
    let (lsn, confirmed) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let (sum, data) = (fields.next()?, fields.next()?);
    let goes_on = sum.ends_with('+');
    let want = check(epoch, lsn, confirmed, goes_on, data);
    if u64::from_str_radix(sum.trim_end_matches('+'), 16).ok()? != want {
        return None;
    }
    let value = data.split('.').next()?.parse().ok()?;
    Some(Line { lsn, confirmed, goes_on, value, digest: want >> 16, end: at + end + 1 })
}

pub fn scan(file: &[u8], h: Header, r: &Rules, out: &mut Scan) {
    while let Some(line) = decode(file, out.end, h.epoch) {
        if line.lsn as usize != h.base as usize + out.records.len() {
            break;
        }
        out.records.push((line.value, line.digest));
        out.end = line.end;
        out.digest = line.digest;
        out.confirmed = out.confirmed.max(line.confirmed as usize);
        out.ends.push((line.lsn, line.end));
        out.open_set = line.goes_on;
        if !line.goes_on {
            (out.whole, out.whole_end) = (out.records.len(), out.end);
        }
    }
    if r.whole_scan {
        for at in out.end..file.len() {
            if let Some(line) = decode(file, at, h.epoch) {
                out.confirmed = out.confirmed.max(line.confirmed as usize);
            }
        }
    }
}

/// Judges the bytes after V: a half-written line lacks its end or contains a zero byte.
pub fn classify(file: &[u8], p: usize, largest: usize) -> Verdict {
    if zero(file, p, file.len()) {
        return Verdict::Clean;
    }
    if !zero(file, p + largest, file.len()) {
        return Verdict::Ambiguous;
    }
    let line = file[p..].split(|b| *b == b'\n').next().expect("not empty");
    if p + line.len() == file.len() || line.contains(&0) {
        Verdict::Torn
    } else {
        Verdict::Ambiguous
    }
}
