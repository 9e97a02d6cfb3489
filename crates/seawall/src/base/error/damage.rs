//! Damage to stored bytes: where it is, what it destroyed, and which check found it.

use seawall_format::{ChangedPart, Lsn, Offset, SegmentId};
use std::fmt;

/// One place where stored bytes differ from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The segment; `None` for the manifest.
    pub segment: Option<SegmentId>,
    /// Offset of the first damaged byte in the file.
    pub offset: Offset,
    /// How many bytes cannot be trusted; 0 for a missing file, and for records given up by a
    /// repair.
    pub bytes: u64,
    /// The records that cannot be read; `None` if all of them can.
    pub lost: Option<Lost>,
    /// Which check failed.
    pub cause: Corruption,
    /// Which part of the lost record has changed; `None` if the bytes do not tell.
    pub changed: Option<ChangedPart>,
    /// Where the bytes found there belong, if they come from this log.
    pub origin: Option<Origin>,
}

impl Damage {
    /// Damage at the start of the manifest that lost nothing: set the other fields as needed.
    #[must_use]
    pub fn new(cause: Corruption) -> Self {
        let (segment, offset) = (None, Offset(0));
        Self { segment, offset, bytes: 0, lost: None, cause, changed: None, origin: None }
    }

    /// Describes for people which part has changed, or else which check failed.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.changed {
            Some(part) => part.to_string(),
            None => self.cause.to_string(),
        }
    }
}

/// The place in the log that misplaced bytes were written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The segment.
    pub segment: SegmentId,
    /// The offset in its file.
    pub offset: Offset,
}

/// A range of lost records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The first.
    pub from: Lsn,
    /// The last; `None` where the end is unknown.
    pub to: Option<Lsn>,
}

impl Lost {
    /// The records `from` to `to`; to an unknown end if `to` is `None`.
    #[must_use]
    pub fn new(from: Lsn, to: Option<Lsn>) -> Self {
        Self { from, to }
    }

    /// Appends this range to `runs`, merged with the last one if it continues it.
    pub(crate) fn join(self, runs: &mut Vec<Self>) {
        match runs.last_mut().filter(|run| run.to.map(Lsn::next) == Some(self.from)) {
            Some(run) => run.to = self.to,
            None => runs.push(self),
        }
    }

    /// The records in both ranges.
    pub(crate) fn common(self, other: Self) -> Option<Self> {
        let from = self.from.max(other.from);
        let to = match (self.to, other.to) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        to.is_none_or(|to| from <= to).then_some(Self { from, to })
    }

    /// Whether the range contains this record.
    pub(crate) fn names(&self, lsn: Lsn) -> bool {
        self.from <= lsn && self.to.is_none_or(|to| to >= lsn)
    }
}

/// Which check found the damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// Records fail their checksum.
    Body,
    /// A compressed batch is as it was written, and cannot be decoded.
    Encoding,
    /// The header of a batch is unreadable.
    Header,
    /// Two valid batches are not consecutive: one is missing or misplaced.
    Order,
    /// The file ends before it should.
    CutShort,
    /// The header of a segment is unreadable.
    SegmentHeader,
    /// The bytes belong to another place, which does not contain them.
    Misplaced,
    /// The bytes are a copy of another place.
    Duplicated,
    /// The bytes belong to another segment or another log.
    ForeignEpoch,
    /// The device cannot read the bytes: they are unknown, not wrong.
    Unreadable,
    /// A line fails its checksum or is not a line of a log.
    Line,
    /// The head file of a segment exists, but its text file is missing.
    TextMissing,
    /// A segment is missing.
    SegmentMissing,
    /// Another file has replaced a segment.
    SegmentReplaced,
    /// No slot of the manifest is readable.
    Manifest,
    /// No readable slot of the file `keys` has the key of an encrypted record.
    Keys,
    /// A repair gave up lost records here. The log itself is valid again.
    GivenUp,
}

impl Corruption {
    pub(crate) const ALL: [Self; 17] = [
        Self::Body,
        Self::Encoding,
        Self::Header,
        Self::Order,
        Self::CutShort,
        Self::SegmentHeader,
        Self::Misplaced,
        Self::Duplicated,
        Self::ForeignEpoch,
        Self::Unreadable,
        Self::Line,
        Self::TextMissing,
        Self::SegmentMissing,
        Self::SegmentReplaced,
        Self::Manifest,
        Self::Keys,
        Self::GivenUp,
    ];

    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Encoding => "encoding",
            Self::Header => "header",
            Self::Order => "order",
            Self::CutShort => "cut-short",
            Self::SegmentHeader => "segment-header",
            Self::Misplaced => "misplaced",
            Self::Duplicated => "duplicated",
            Self::ForeignEpoch => "foreign-epoch",
            Self::Unreadable => "unreadable",
            Self::Line => "line",
            Self::TextMissing => "text-missing",
            Self::SegmentMissing => "segment-missing",
            Self::SegmentReplaced => "segment-replaced",
            Self::Manifest => "manifest",
            Self::Keys => "keys",
            Self::GivenUp => "given-up",
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Body => "records fail their checksum",
            Self::Encoding => "a compressed batch cannot be decoded",
            Self::Header => "the header of a batch is unreadable",
            Self::Order => "batches do not continue each other",
            Self::CutShort => "the file ends before it should",
            Self::SegmentHeader => "the segment's header is unreadable",
            Self::Misplaced => "these bytes belong elsewhere",
            Self::Duplicated => "a copy of another place",
            Self::ForeignEpoch => "these bytes belong to another segment or log",
            Self::Unreadable => "the device cannot read it",
            Self::Line => "a line fails its checksum, or is not a line of a log",
            Self::TextMissing => "the text of a segment is missing",
            Self::SegmentMissing => "the segment is missing",
            Self::SegmentReplaced => "another file has replaced the segment",
            Self::Manifest => "no slot of the manifest is readable",
            Self::Keys => "no readable slot of the file keys has the key",
            Self::GivenUp => "records lost here were given up by a repair",
        })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(segment) = self.segment {
            write!(f, "segment {segment}, offset {}: ", self.offset)?;
        }
        f.write_str(&self.reason())?;
        if let Some(Origin { segment, offset }) = self.origin {
            write!(f, " (segment {segment}, offset {offset})")?;
        }
        match self.lost {
            Some(lost) => write!(f, "; lost: {lost}"),
            None => f.write_str("; no record is lost"),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) if to == self.from => write!(f, "record {}", self.from),
            Some(to) => write!(f, "records {} to {to}", self.from),
            None => write!(f, "records from {} on", self.from),
        }
    }
}

/// Damage for a whole segment that is missing or unreadable.
pub(crate) fn missing_segment(segment: SegmentId, cause: Corruption, lost: Option<Lost>) -> Damage {
    let (segment, offset) = (Some(segment), Offset(0));
    Damage { segment, offset, lost, ..Damage::new(cause) }
}
