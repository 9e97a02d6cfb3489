//! The binary log format of Pereira and others: each record as `MessagePack`, followed by its
//! checksum, also as `MessagePack`.
//!
//! ```text
//! record    any MessagePack value
//! checksum  {"checksum": n}, n the CRC-32 (IEEE) of the record's bytes
//! ```
//!
//! The paper describes pairs, CRC-32, and a checksum with an identifier; the map with the name
//! `checksum` is an assumption. A checksum in an array of one element, or as a plain number, is
//! accepted as well.

use crate::checksum::{Crc32, crc32};
use crate::entries::{CHECKSUM, CUT_SHORT, ENTRY_MAX, Entries, LENGTH, SYNTAX, Stop};
use crate::feed::Feed;
use crate::pack::{Scan, Step, Token, extent, token};
use serde::Serialize;
use std::io::Read;

/// The maximum size of an encoded checksum, in bytes: a map with a long header, the name, and a
/// 64-bit number.
const CHECKSUM_MAX: usize = 32;

/// The maximum size of the header of a value, in bytes.
const HEADER_MAX: usize = 9;

/// The value that follows a record.
#[derive(Debug, Serialize)]
struct Checksum {
    checksum: u32,
}

/// Appends a record and its checksum.
///
/// # Panics
///
/// Never: writing a number to memory cannot fail.
pub fn write(record: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(record);
    let checksum = Checksum { checksum: crc32(record) };
    rmp_serde::encode::write_named(out, &checksum).expect("a number can be written to memory");
}

/// Reads records and verifies their checksums.
#[derive(Debug)]
pub struct Pairs<R> {
    feed: Feed<R>,
    lent: usize,
}

impl<R: Read> Pairs<R> {
    /// Reads records from the start of `input`.
    pub fn new(input: R) -> Self {
        Self { feed: Feed::new(input), lent: 0 }
    }

    /// Returns the length of the value at `start`, at most `max` bytes.
    fn look(&mut self, start: usize, max: usize, what: &str) -> Result<usize, Stop> {
        let mut scan = Scan::new(max);
        loop {
            let wanted = match scan.step(self.feed.rest().get(start..).unwrap_or_default()) {
                Step::Ends(length) => return Ok(length),
                Step::More(wanted) => wanted,
                Step::TooLong => {
                    let why = format!("{what} of more than {max} bytes");
                    return Err(self.feed.damaged(LENGTH, why));
                }
                Step::Wrong(at) => {
                    let why = format!("no MessagePack value begins at byte {at} of {what}");
                    return Err(self.feed.damaged(SYNTAX, why));
                }
            };
            if !self.feed.need(start + wanted)? {
                return Err(self.feed.damaged(CUT_SHORT, format!("the file ends within {what}")));
            }
        }
    }
}

impl<R: Read> Pairs<R> {
    /// Reads through a record that is too large for memory. Returns `otherwise` unless its checksum
    /// matches.
    fn examine(&mut self, otherwise: Stop) -> Result<Stop, Stop> {
        self.feed.hold();
        let (mut found, mut left) = (Crc32::new(), 1_u64);
        while left > 0 {
            self.feed.need(HEADER_MAX)?;
            let Some((length, items)) = extent(self.feed.rest()) else { return Ok(otherwise) };
            if !self.feed.stream(length, |part| found.update(part))? {
                return Ok(otherwise);
            }
            left = (left - 1).saturating_add(items);
        }
        let is_intact = self
            .look(0, CHECKSUM_MAX, "a checksum")
            .is_ok_and(|length| checksum(self.feed.part(0, length)) == Some(found.value()));
        Ok(if is_intact { Stop::TooLarge } else { otherwise })
    }
}

impl<R: Read> Entries for Pairs<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Stop> {
        self.feed.pass(std::mem::take(&mut self.lent));
        if !self.feed.need(1)? {
            return Ok(None);
        }
        let length = match self.look(0, ENTRY_MAX, "a record") {
            Err(Stop::Damaged(damage)) if damage.cause == LENGTH => {
                return Err(self.examine(Stop::Damaged(damage))?);
            }
            length => length?,
        };
        let behind = self.look(length, CHECKSUM_MAX, "a checksum")?;
        let Some(stored) = checksum(self.feed.part(length, behind)) else {
            return Err(self.feed.damaged(SYNTAX, "no checksum after the record"));
        };
        let found = crc32(self.feed.part(0, length));
        if u64::from(found) != stored {
            let why = format!("the checksum of the record is {found}, but {stored} is stored");
            return Err(self.feed.damaged(CHECKSUM, why));
        }
        self.lent = length + behind;
        self.feed.deliver();
        Ok(Some(self.feed.part(0, length)))
    }

    fn position(&self) -> u64 {
        self.feed.position()
    }
}

/// Parses a checksum in any accepted encoding.
fn checksum(bytes: &[u8]) -> Option<u64> {
    let number = match token(bytes)? {
        (Token::Map(1), rest) => {
            let (name, rest) = token(rest)?;
            if name != Token::Text(b"checksum") {
                return None;
            }
            rest
        }
        (Token::Array(1), rest) => rest,
        _ => bytes,
    };
    match token(number)? {
        (Token::Unsigned(number), []) => Some(number),
        _ => None,
    }
}
