//! The two log formats of `CWal`, <https://github.com/sjay05/cwal>.
//!
//! ```text
//! binary   byte  size  field     value
//!             0     8  length    little-endian
//!             8     n  data
//!         8 + n     4  checksum  CRC-32 (IEEE) of the data alone, little-endian
//!
//! text     length, a space, data, a space, checksum, a newline; both numbers in decimal digits
//! ```
//!
//! Entries have no sequence number, and a log has no end marker. When a shorter log is written over
//! a longer one, the rest of the longer one follows: an old entry that happens to begin exactly
//! where the shorter log ends looks like a new one. `docs/adr/0006-foreign-logs.md` lists the other
//! limits.

use crate::checksum::{Crc32, crc32};
use crate::entries::{
    CHECKSUM, CUT_SHORT, ENTRY_MAX, Entries, LENGTH, Remark, SYNTAX, Stop, ZEROS,
};
use crate::feed::Feed;
use std::io::{self, Read};

const HEADER: usize = 8;
const CHECKSUM_SIZE: usize = 4;
/// The maximum number of digits of a 64-bit number.
const DIGITS_MAX: usize = 20;
/// No file system stores a file of this length, so a larger length is damage.
const FILE_MAX: u64 = 1 << 44;

/// Appends an entry in the binary format.
///
/// # Panics
///
/// Never: a length in memory fits into 64 bits.
pub fn write_binary(data: &[u8], out: &mut Vec<u8>) {
    let length = u64::try_from(data.len()).expect("it is in memory");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(&crc32(data).to_le_bytes());
}

/// Appends an entry in the text format.
pub fn write_text(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{} ", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(format!(" {}\n", crc32(data)).as_bytes());
}

/// Reads the binary format.
///
/// The checksum of empty data is 0, so an empty entry is twelve zeros, just like bytes that a file
/// system never wrote, or zeros inside an entry whose length is corrupt. Zeros count as empty
/// entries if a valid entry follows or if they fill the file exactly to its end; in the latter case
/// [`Entries::remarks`] reports them.
#[derive(Debug)]
pub struct Binary<R> {
    feed: Feed<R>,
    /// The size in the stream of the entry returned last, in bytes.
    lent: usize,
    /// Empty entries that were found and not returned yet.
    empties: u64,
    /// The number of empty entries at the end.
    at_end: u64,
}

const EMPTY: [u8; HEADER + CHECKSUM_SIZE] = [0; HEADER + CHECKSUM_SIZE];

impl<R: Read> Binary<R> {
    /// Reads entries from the start of `input`.
    pub fn new(input: R) -> Self {
        Self { feed: Feed::new(input), lent: 0, empties: 0, at_end: 0 }
    }

    /// Counts the zeros that can be empty entries.
    fn count_empties(&mut self) -> Result<(), Stop> {
        let start = self.feed.position();
        while self.feed.need(EMPTY.len())? && self.feed.rest().starts_with(&EMPTY) {
            self.feed.pass(EMPTY.len());
            self.empties += 1;
        }
        if self.empties == 0 {
            return Ok(());
        }
        match self.look() {
            // The zeros are entries; the next call returns the one after them, or says that it is
            // too large.
            Ok(Some(_)) | Err(Stop::TooLarge) => Ok(()),
            Ok(None) => {
                self.at_end = self.empties;
                Ok(())
            }
            Err(Stop::Damaged(_)) => {
                let zeros = self.feed.position() - start;
                let why = format!("{zeros} zeros without a valid entry after them");
                Err(self.feed.damaged_at(start, ZEROS, why))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the data length of the next entry; `None` at the end.
    fn look(&mut self) -> Result<Option<usize>, Stop> {
        if self.feed.is_held() {
            return Err(Stop::TooLarge);
        }
        if !self.feed.need(1)? {
            return Ok(None);
        }
        if !self.feed.need(HEADER)? {
            let why = format!("the file ends {} bytes into a length", self.feed.rest().len());
            return Err(self.feed.damaged(CUT_SHORT, why));
        }
        let claimed = little_endian(self.feed.part(0, HEADER));
        let Some(length) = in_memory(claimed) else {
            return Err(examine(&mut self.feed, claimed, HEADER, |feed| {
                let is_whole = feed.need(CHECKSUM_SIZE)?;
                Ok(is_whole.then(|| little_endian(feed.part(0, CHECKSUM_SIZE))))
            })?);
        };
        if !self.feed.need(HEADER + length + CHECKSUM_SIZE)? {
            return Err(too_little(&self.feed, claimed, HEADER));
        }
        let stored = little_endian(self.feed.part(HEADER + length, CHECKSUM_SIZE));
        compare(&self.feed, self.feed.part(HEADER, length), stored)?;
        Ok(Some(length))
    }
}

impl<R: Read> Entries for Binary<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Stop> {
        self.feed.pass(std::mem::take(&mut self.lent));
        if self.empties == 0 && !self.feed.is_held() {
            self.count_empties()?;
        }
        if self.empties > 0 {
            self.empties -= 1;
            self.feed.deliver();
            return Ok(Some(&[]));
        }
        let Some(length) = self.look()? else { return Ok(None) };
        self.lent = HEADER + length + CHECKSUM_SIZE;
        self.feed.deliver();
        Ok(Some(self.feed.part(HEADER, length)))
    }

    fn position(&self) -> u64 {
        self.feed.position()
    }

    fn remarks(&self) -> Vec<Remark> {
        if self.at_end > 0 { vec![Remark::ZerosAtEnd(self.at_end)] } else { vec![] }
    }
}

/// Reads the text format, exactly as `CWal` writes it: one space, one newline, no sign and no
/// leading zeros. The newline of the last entry may be missing.
#[derive(Debug)]
pub struct Text<R> {
    feed: Feed<R>,
    lent: usize,
}

impl<R: Read> Text<R> {
    /// Reads entries from the start of `input`.
    pub fn new(input: R) -> Self {
        Self { feed: Feed::new(input), lent: 0 }
    }

    /// Returns the start of the data of the next entry, the data length, and the entry length.
    fn look(&mut self) -> Result<Option<(usize, usize, usize)>, Stop> {
        if !self.feed.need(1)? {
            return Ok(None);
        }
        let whole = self.feed.need(DIGITS_MAX + 1)?;
        let Some((claimed, digits)) = number(self.feed.rest()) else {
            return Err(self.feed.damaged(SYNTAX, "no length in decimal digits here"));
        };
        match self.feed.rest().get(digits) {
            Some(b' ') => {}
            None if !whole => {
                return Err(self.feed.damaged(CUT_SHORT, "the file ends within a length"));
            }
            _ => return Err(self.feed.damaged(SYNTAX, "no space after the length")),
        }
        let start = digits + 1;
        let Some(length) = in_memory(claimed) else {
            return Err(examine(&mut self.feed, claimed, start, checksum_after)?);
        };
        if !self.feed.need(start + length + 1)? {
            return Err(too_little(&self.feed, claimed, start));
        }
        let behind = self.look_behind(start, length)?;
        Ok(Some((start, length, start + length + behind)))
    }

    /// Returns the length of the part after the data.
    fn look_behind(&mut self, start: usize, length: usize) -> Result<usize, Stop> {
        let end = start + length;
        let whole = self.feed.need(end + 1 + DIGITS_MAX + 1)?;
        let tail = self.feed.rest().get(end..).unwrap_or_default();
        let Some(tail) = tail.strip_prefix(b" ") else {
            return Err(self.feed.damaged(SYNTAX, "no space after the data"));
        };
        if tail.is_empty() {
            return Err(self.feed.damaged(CUT_SHORT, "the file ends before the checksum"));
        }
        let Some((stored, digits)) = number(tail) else {
            let why = "no checksum in decimal digits after the data";
            return Err(self.feed.damaged(SYNTAX, why));
        };
        let data = self.feed.part(start, length);
        match tail.get(digits) {
            Some(b'\n') => compare(&self.feed, data, stored).map(|()| 1 + digits + 1),
            None if !whole && u64::from(crc32(data)) == stored => Ok(1 + digits),
            None if !whole => {
                Err(self.feed.damaged(CUT_SHORT, "the file ends within the checksum"))
            }
            _ => Err(self.feed.damaged(SYNTAX, "no newline after the checksum")),
        }
    }
}

impl<R: Read> Entries for Text<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Stop> {
        self.feed.pass(std::mem::take(&mut self.lent));
        let Some((start, length, whole)) = self.look()? else { return Ok(None) };
        self.lent = whole;
        self.feed.deliver();
        Ok(Some(self.feed.part(start, length)))
    }

    fn position(&self) -> u64 {
        self.feed.position()
    }
}

/// The length of the data of an entry, unless it is too large for memory.
fn in_memory(claimed: u64) -> Option<usize> {
    usize::try_from(claimed).ok().filter(|length| *length <= ENTRY_MAX)
}

/// Reads through an entry of `claimed` bytes after `start`. Returns that it is too large, or that
/// its length is damaged: no data of this length has the checksum that `stored` reads after it.
fn examine<R: Read>(
    feed: &mut Feed<R>,
    claimed: u64,
    start: usize,
    stored: impl FnOnce(&mut Feed<R>) -> io::Result<Option<u64>>,
) -> io::Result<Stop> {
    feed.hold();
    let mut found = Crc32::new();
    if claimed <= FILE_MAX {
        feed.pass(start);
        let is_there = feed.stream(claimed, |part| found.update(part))?;
        if is_there && stored(feed)? == Some(found.value()) {
            return Ok(Stop::TooLarge);
        }
    }
    let why = format!("a length of {claimed} bytes, and no intact entry of that length");
    Ok(feed.damaged(LENGTH, why))
}

/// The checksum in the text after the data.
fn checksum_after<R: Read>(feed: &mut Feed<R>) -> io::Result<Option<u64>> {
    let is_whole = feed.need(1 + DIGITS_MAX + 1)?;
    let Some(tail) = feed.rest().strip_prefix(b" ") else { return Ok(None) };
    let Some((stored, digits)) = number(tail) else { return Ok(None) };
    let ends = tail.get(digits).map_or(!is_whole, |byte| *byte == b'\n');
    Ok(ends.then_some(stored))
}

fn too_little<R: Read>(feed: &Feed<R>, claimed: u64, header: usize) -> Stop {
    let left = feed.rest().len().saturating_sub(header);
    let why = format!("a length of {claimed} bytes, but the file ends after {left} bytes");
    feed.damaged(CUT_SHORT, why)
}

fn compare<R: Read>(feed: &Feed<R>, data: &[u8], stored: u64) -> Result<(), Stop> {
    let found = crc32(data);
    if u64::from(found) == stored {
        return Ok(());
    }
    let why = format!("the checksum of the data is {found}, but {stored} is stored");
    Err(feed.damaged(CHECKSUM, why))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Parses a printed number; returns its value and number of digits.
fn number(text: &[u8]) -> Option<(u64, usize)> {
    let digits = text.iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    let shown = std::str::from_utf8(text.get(..digits)?).ok()?;
    let number: u64 = shown.parse().ok()?;
    (digits == 1 || !shown.starts_with('0')).then_some((number, digits))
}
