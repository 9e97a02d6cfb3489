//! Finds which part of a damaged record has changed, if the remaining bytes reveal it: in a batch,
//! the checksum of the whole body proves a guess.

use crate::binary::batch::{BatchHeader, BodyKind, Life};
use crate::binary::frame::{self, HEADER_SIZE, head_of};
use crate::checksum::{Crc, Salt};
use crate::ids::{Lsn, Offset};
use std::fmt;

/// The part of a record that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangedPart {
    /// The length before the payload; also the bit that continues an atomic set.
    Length,
    /// The payload.
    Payload,
    /// The checksum. The record itself is as it was written.
    Checksum,
    /// A line is not JSON.
    NotJson,
    /// The members of a line are not the ones that a line must have.
    Members,
    /// A value or a name in a line: it does not match the checksum.
    Value,
}

impl ChangedPart {
    /// Every part.
    pub const ALL: [Self; 6] =
        [Self::Length, Self::Payload, Self::Checksum, Self::NotJson, Self::Members, Self::Value];

    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Payload => "payload",
            Self::Checksum => "checksum",
            Self::NotJson => "not-json",
            Self::Members => "members",
            Self::Value => "value",
        }
    }
}

impl fmt::Display for ChangedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the length of a record has changed",
            Self::Payload => "the payload of a record has changed",
            Self::Checksum => "the checksum of a record has changed, its data has not",
            Self::NotJson => "a line is not JSON",
            Self::Members => "a line has not the members of a line",
            Self::Value => "a value or name in a line has changed",
        })
    }
}

/// The longest payload, in bytes, that is tried as the original one if the length may have changed.
const LENGTH_MAX: usize = 1 << 20;

/// Returns which part of the damaged record in `body` has changed. `at` is the offset of `header`,
/// which is intact. `None` if more than one part has changed, or the bytes do not reveal it.
#[must_use]
pub fn changed_part(
    body: &[u8],
    (header, at): (&BatchHeader, Offset),
    life: &Life,
) -> Option<ChangedPart> {
    if header.kind != BodyKind::Frames || life.is_encrypted {
        return None;
    }
    let (position, lsn) = first_invalid(body, header, &life.salt)?;
    let is_whole = |head: [u8; HEADER_SIZE]| {
        let mut guess = body.to_vec();
        if let Some(place) = guess.get_mut(position..).and_then(<[u8]>::first_chunk_mut) {
            *place = head;
        }
        header.matches(&guess, at, life)
    };
    let frame = Invalid { body, position, lsn, salt: &life.salt };
    if frame.with_its_checksum().is_some_and(is_whole) {
        return Some(ChangedPart::Checksum);
    }
    if frame.with_each_length().any(is_whole) {
        return Some(ChangedPart::Length);
    }
    frame.is_alone(header).then_some(ChangedPart::Payload)
}

/// The position of the first frame that is not valid, and its record.
fn first_invalid(body: &[u8], header: &BatchHeader, salt: &Salt) -> Option<(usize, Lsn)> {
    let (mut position, mut lsn) = (0, header.first);
    while lsn <= header.last() && frame::is_valid(body, position, lsn, salt) {
        (_, position) = frame::read(body, position, lsn)?;
        lsn = lsn.next();
    }
    (lsn <= header.last()).then_some((position, lsn))
}

/// A frame that is not valid.
struct Invalid<'a> {
    body: &'a [u8],
    position: usize,
    lsn: Lsn,
    salt: &'a Salt,
}

impl Invalid<'_> {
    /// The head with the checksum that its payload should have.
    fn with_its_checksum(&self) -> Option<[u8; HEADER_SIZE]> {
        let (found, _) = frame::read(self.body, self.position, self.lsn)?;
        let (word, _) = self.word_and_crc()?;
        let mut crc = Crc::new();
        crc.update(found.payload);
        Some(head_of(word, crc.value() ^ self.salt.frame(self.lsn, word)))
    }

    /// Heads with the lengths for which the stored checksum is right.
    fn with_each_length(&self) -> impl Iterator<Item = [u8; HEADER_SIZE]> {
        let stored = self.word_and_crc();
        let payload = self.body.get(self.position + HEADER_SIZE..).unwrap_or_default();
        let mut crc = Crc::new();
        let lengths = (0..=payload.len().min(LENGTH_MAX)).zip(0_u32..);
        lengths.flat_map(move |(length, word)| {
            if let Some(byte) = length.checked_sub(1).and_then(|last| payload.get(last..length)) {
                crc.update(byte);
            }
            let plain = crc.value();
            let right = |word: u32| {
                let (_, crc) = stored?;
                let fits = plain ^ self.salt.frame(self.lsn, word) == crc;
                fits.then(|| head_of(word, crc))
            };
            [right(word), right(word | frame::GOES_ON)].into_iter().flatten()
        })
    }

    /// Whether its length leads to the next frame, and all frames after it are valid.
    fn is_alone(&self, header: &BatchHeader) -> bool {
        let Some((_, mut position)) = frame::read(self.body, self.position, self.lsn) else {
            return false;
        };
        let mut lsn = self.lsn.next();
        while lsn <= header.last() {
            let Some((_, behind)) = frame::read(self.body, position, lsn) else { return false };
            if !frame::is_valid(self.body, position, lsn, self.salt) {
                return false;
            }
            (position, lsn) = (behind, lsn.next());
        }
        // The last frame ends with the body, but for the zeros that fill a block.
        self.body.get(position..).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }

    fn word_and_crc(&self) -> Option<(u32, u32)> {
        let head = self.body.get(self.position..)?.first_chunk::<HEADER_SIZE>()?;
        Some(frame::split(*head))
    }
}

#[cfg(test)]
mod tests;
