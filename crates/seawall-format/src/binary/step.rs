//! The input and the results of a scanner.

use crate::binary::batch::{BatchHeader, HEADER_SIZE, Life};
use crate::ids::{Lsn, Offset};
use crate::refused::Refused;
use std::ops::Deref;

/// A stretch of a segment file, as far as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Where in the file it begins.
    pub start: Offset,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// `length` bytes at `offset`, if the window has them.
    #[must_use]
    pub fn range(&self, offset: Offset, length: u64) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.0.checked_sub(self.start.0)?).ok()?;
        let length = usize::try_from(length).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.start.plus(u64::try_from(self.bytes.len()).expect("fits in 64 bits"))
    }
}

/// A valid batch with the bytes of its frames, or a valid set of lines as an equivalent batch.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// Its offset in the segment.
    pub offset: Offset,
    /// Its header.
    pub header: BatchHeader,
    /// Its frames, checked.
    pub body: Body<'a>,
    /// Where it ends in its segment.
    pub end: Offset,
}

/// The frames of a batch.
#[derive(Clone, Debug)]
pub enum Body<'a> {
    /// As stored in the window.
    InPlace(&'a [u8]),
    /// Built from a set of lines, after space for the header of a batch.
    Made(Vec<u8>),
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::InPlace(frames) => frames,
            Self::Made(bytes) => bytes.get(HEADER_SIZE..).unwrap_or_default(),
        }
    }
}

/// Why the bytes at some place are not the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// There is no valid batch header.
    Header,
    /// There is no valid line of a set.
    Line,
    /// A valid header that does not continue the batch before: one is missing, or out of place.
    Order,
    /// The batch would reach beyond the end of the file.
    Extent,
    /// The header is valid and the frames are not what was written.
    Body,
}

/// What one step found.
#[derive(Debug)]
pub enum Step<'a> {
    /// The caller must show these bytes of the file, and call again.
    Need {
        /// Offset of the first byte.
        offset: Offset,
        /// The fewest bytes to show. They lie within the file, except that a text may end earlier:
        /// then the caller must call [`Scanner::ends_at`](crate::scan::Scanner::ends_at).
        length: u64,
    },
    /// The next batch; the scanner is past it.
    Batch(Batch<'a>),
    /// The scanner is at bytes that are not a valid batch, and stays there.
    Stopped(Cause, Option<BatchHeader>),
    /// The next batch was written by a newer program, and its content is unknown.
    Refused(Refused),
    /// All records that count in this segment were found.
    Finished,
}

/// The location of a valid batch, with what a scan needs to begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its place in the segment.
    pub offset: Offset,
    /// Its first record.
    pub first: Lsn,
    /// The chain value of the batch before.
    pub chain: u64,
}

/// The records of a segment that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All of them: this is the newest segment.
    Open,
    /// Those up to this record, because a successor or `live` says so; `None`: none of them.
    At(Option<Lsn>),
}

impl Limit {
    /// Whether record `next` is one too many.
    #[must_use]
    pub fn excludes(self, next: Lsn) -> bool {
        matches!(self, Self::At(last) if Some(next) > last)
    }
}

/// The valid lines of an incomplete set.
#[derive(Clone, Debug)]
pub struct Part {
    /// Space for the header of a batch, then the bound frames of the lines.
    pub bytes: Vec<u8>,
    /// P, the end of the last line.
    pub end: Offset,
    /// The highest record that one of the lines confirms.
    pub confirmed: Option<Lsn>,
}

/// How far a scan has come in its segment.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) life: Life,
    /// End of the part of the file that may hold batches; in a text, `None` until its end was seen.
    pub(crate) end: Option<u64>,
    pub(crate) at: Offset,
    pub(crate) next: Lsn,
    pub(crate) chain: u64,
}

impl Progress {
    /// Continues after the batch of `header`.
    pub(crate) fn pass(&mut self, header: &BatchHeader) {
        self.at = self.at.plus(header.size());
        self.next = header.last().next();
        self.chain = header.chain_value();
    }
}
