//! What can go wrong, one variant for each act of the caller.

use seawall_format::{Lsn, Offset, Refused, SegmentId};
use seawall_io::into_parts;
use std::sync::Arc;
use std::{fmt, io};

/// Why a log operation failed.
///
/// Each variant calls for a different act: retry, reopen, repair, or fix the calling code.
///
/// `{}` is what this error says itself, and its causes are its [`source`](std::error::Error)s;
/// `{:#}` is all of that in one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device refused the operation. Nothing was acknowledged and the log is as it was: retry.
    Io {
        /// What was being done, and to which file, as in `open app.wal/live`.
        what: String,
        /// The machine's own error, with its number.
        source: io::Error,
    },
    /// Another process, or another handle in this one, writes this log.
    Busy {
        /// The log.
        place: String,
    },
    /// There is no log at this place, and what is there is left alone.
    NotALog {
        /// The place.
        place: String,
        /// What was found instead.
        found: String,
    },
    /// A sound log that this program does not know how to read: see [`Refused`].
    Unsupported {
        /// The file that says so.
        place: String,
        /// What it says.
        refused: Refused,
    },
    /// The log was created with other options than it is opened with.
    Mismatch {
        /// Which option.
        what: &'static str,
        /// What the log has.
        has: String,
        /// What was asked for.
        requested: String,
    },
    /// An option has a value that no log can have.
    InvalidOption {
        /// Which, and why.
        why: String,
    },
    /// Stored bytes are not what was written; says which records are lost and where.
    Damaged(Box<Damage>),
    /// Opened with [`OpenMode::Strict`](crate::OpenMode), and the end of the log could be a write
    /// that nobody was promised, or damage. Opening otherwise cuts it off and keeps a copy.
    Ambiguous {
        /// The segment.
        segment: SegmentId,
        /// Where its valid part ends.
        offset: Offset,
    },
    /// The record or atomic set is larger than the largest batch. The log was not changed.
    TooLarge {
        /// The size of what was refused, in bytes.
        size: usize,
        /// The largest size that fits, in bytes.
        max: usize,
    },
    /// There is no room on the device for another segment. The record has no number and the log is
    /// as it was: it can be read and closed, and goes on when there is room.
    DiskFull {
        /// What the device said.
        source: io::Error,
    },
    /// The record could not be turned into bytes. The log was not changed.
    Encode {
        /// The error of the codec.
        source: CodecError,
    },
    /// Sound bytes that are no record of this type.
    Decode {
        /// The record.
        lsn: Lsn,
        /// The error of the codec.
        source: CodecError,
    },
    /// A write or sync failed, and writing has ended: whether the records that were under way
    /// survived is known only after reopening.
    Poisoned {
        /// The first failure.
        cause: Arc<str>,
    },
    /// The start of what was asked for is gone: the log was truncated there. To a follower at
    /// just this record it says that what it read before may be something else by now, and that
    /// the segments which could tell are gone.
    Pruned {
        /// The first record that is left, or the next one in an empty log.
        oldest: Lsn,
    },
    /// Records that were read were truncated away since: what follows has their numbers anew.
    Rewound {
        /// The number that the next record has.
        next: Lsn,
    },
    /// A follower was to begin at a record that comes later than the next one. A program that kept
    /// this number has seen records which this log does not have: the log was truncated, restored
    /// from a backup, or is another one.
    BeyondEnd {
        /// Where the follower was to begin.
        from: Lsn,
        /// The number that the next record has.
        next: Lsn,
    },
    /// Records that are intact, and that a crash could still remove: nothing on the device confirms
    /// them, and the sync by which a reader makes sure failed. Opening the log settles what becomes
    /// of them.
    Unconfirmed {
        /// The first of them.
        from: Lsn,
        /// The last one.
        to: Option<Lsn>,
        /// What the device said.
        source: io::Error,
    },
    /// The log was closed by this handle's [`close`](crate::Log::close).
    Closed,
    /// The hook of [`Options::on_failover`](crate::Options::on_failover) called the log that it is
    /// the hook of. There it may look at the log, but not write or wait.
    Reentrant,
    /// This process is a child that `fork` made of the one that opened the log: its copy of the
    /// handle does nothing. Drop it; to write here, open the log anew when the parent has closed
    /// it.
    Forked {
        /// The process that opened it.
        opened_in: u32,
    },
}

/// Why a codec cannot encode or decode a record: any error, or a text.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// What the caller of a failed operation can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The log is as it was. The same call can succeed later: when the device answers again, has
    /// space, or another writer is gone.
    Retry,
    /// This handle writes no more. Open the log again to see which records survived.
    Reopen,
    /// Stored bytes are damaged, or a crash may have left them unfinished. See
    /// [`Maintenance`](crate::Maintenance).
    Repair,
    /// The call does not fit the log or its state: other options, a position that does not exist,
    /// a record that has no encoding.
    Usage,
}

/// The result of a log operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the machine; `what` was being done, if the error does not say it itself.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (known, source) = into_parts(error);
            Self::Io { what: known.unwrap_or_else(|| what.into()), source }
        }
    }

    /// The same where `what` tells more than the step that failed.
    pub(crate) fn io_in(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (step, source) = into_parts(error);
            let what = what.into();
            Self::Io { what: step.map_or(what.clone(), |step| format!("{what} ({step})")), source }
        }
    }

    /// What the caller can do about it.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{ErrorKind, Log, Options};
    ///
    /// let missing = std::env::temp_dir().join("seawall-doc-no-such-log");
    /// let error = Options::new().create(false).open::<u32, seawall::Json>(missing).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Retry);
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } | Self::Busy { .. } | Self::DiskFull { .. } => ErrorKind::Retry,
            Self::Poisoned { .. } | Self::Closed | Self::Forked { .. } => ErrorKind::Reopen,
            Self::Damaged(_) | Self::Ambiguous { .. } | Self::Unconfirmed { .. } => {
                ErrorKind::Repair
            }
            Self::NotALog { .. }
            | Self::Unsupported { .. }
            | Self::Mismatch { .. }
            | Self::InvalidOption { .. }
            | Self::TooLarge { .. }
            | Self::Encode { .. }
            | Self::Decode { .. }
            | Self::Pruned { .. }
            | Self::Rewound { .. }
            | Self::BeyondEnd { .. }
            | Self::Reentrant => ErrorKind::Usage,
        }
    }

    /// Whether the same call can succeed later without any other action.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Retry
    }

    /// What ended a log, for all who come later.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Poisoned { cause } => cause.to_string(),
            other => format!("{other:#}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own_text(f)?;
        if f.alternate() {
            let first = std::error::Error::source(self);
            for cause in std::iter::successors(first, |error| error.source()) {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl Error {
    fn own_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, .. } => write!(f, "cannot {what}"),
            Self::Busy { place } => write!(f, "{place}: another writer holds this log"),
            Self::NotALog { place, found } => write!(f, "{place}: not a Seawall log: {found}"),
            Self::Unsupported { place, .. } => write!(f, "cannot read {place}"),
            Self::Mismatch { what, has, requested } => {
                write!(f, "{what} mismatch: the log has {has}, but {requested} was requested")
            }
            Self::InvalidOption { why } => f.write_str(why),
            Self::Damaged(damage) => write!(f, "{damage}"),
            Self::Ambiguous { segment, offset } => write!(
                f,
                "segment {segment}, offset {offset}: ambiguous end: an unacknowledged torn write, \
                 or damage"
            ),
            Self::TooLarge { size, max } => {
                write!(f, "record or atomic set of {size} bytes exceeds the maximum of {max}")
            }
            Self::DiskFull { .. } => f.write_str("no space for another segment"),
            Self::Encode { .. } => f.write_str("cannot encode the record"),
            Self::Decode { lsn, .. } => write!(f, "cannot decode record {lsn}"),
            Self::Poisoned { cause } => {
                write!(f, "poisoned by a failure: {cause}; reopen the log to recover")
            }
            Self::Pruned { oldest } => {
                write!(f, "earlier records were truncated; the log begins at record {oldest}")
            }
            Self::Rewound { next } => {
                write!(f, "records that were read have been truncated; the next record is {next}")
            }
            Self::BeyondEnd { from, next } => {
                write!(f, "position {from} is beyond the end of the log; the next record is {next}")
            }
            Self::Unconfirmed { from, to, .. } => {
                let lost = Lost { from: *from, to: *to };
                write!(f, "not confirmed as durable, and the sync failed: {lost}")
            }
            Self::Closed => f.write_str("the log is closed"),
            Self::Reentrant => {
                f.write_str("a failover hook must not write to its log or wait for it")
            }
            Self::Forked { opened_in } => write!(
                f,
                "the log was opened by process {opened_in}; a forked child must open it again"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. }
            | Self::DiskFull { source }
            | Self::Unconfirmed { source, .. } => Some(source),
            Self::Encode { source } | Self::Decode { source, .. } => Some(&**source),
            Self::Unsupported { refused, .. } => Some(refused),
            _ => None,
        }
    }
}

/// One place where stored bytes are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment; `None` if the manifest is meant.
    pub segment: Option<SegmentId>,
    /// Where in the file it starts.
    pub offset: Offset,
    /// How many bytes cannot be trusted; 0 for a missing file, and where a repair gave records up.
    pub bytes: u64,
    /// The records that cannot be read; `None` if all of them can.
    pub lost: Option<Lost>,
    /// Which check caught it.
    pub cause: Corruption,
    /// Where the bytes that stand there belong, if they are of this log.
    pub origin: Option<Origin>,
}

/// A place in the log that bytes were written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The segment.
    pub segment: SegmentId,
    /// Where in its file.
    pub offset: Offset,
}

/// A range of lost records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first.
    pub from: Lsn,
    /// The last; `None` where the end is unknown.
    pub to: Option<Lsn>,
}

impl Lost {
    /// Takes its place behind `runs`, in one with the last of them if it continues that.
    pub(crate) fn join(self, runs: &mut Vec<Self>) {
        match runs.last_mut().filter(|run| run.to.map(Lsn::next) == Some(self.from)) {
            Some(run) => run.to = self.to,
            None => runs.push(self),
        }
    }

    /// Whether this record is one of them.
    pub(crate) fn names(&self, lsn: Lsn) -> bool {
        self.from <= lsn && self.to.is_none_or(|to| to >= lsn)
    }
}

/// Which check caught damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// Records fail their checksum.
    Body,
    /// The header of a batch is unreadable.
    Header,
    /// Sound batches that do not continue each other: one is missing or misplaced.
    Order,
    /// The file ends before it should.
    CutShort,
    /// The header of a segment is unreadable.
    SegmentHeader,
    /// What stands here was written for another place, and is not there.
    Misplaced,
    /// A copy of what stands in another place, too.
    Duplicated,
    /// What stands here was written for another life: another segment, or another log.
    ForeignEpoch,
    /// The device refuses the bytes: they are unknown, not wrong.
    Unreadable,
    /// No line of the log stands here: what was written was changed.
    Line,
    /// The head of a segment is there, and the text with its records is not.
    TextMissing,
    /// A segment is missing.
    SegmentMissing,
    /// Another file stands where a segment was.
    SegmentReplaced,
    /// No slot of the manifest is readable.
    Manifest,
    /// The records were lost, and a repair gave them up: nothing is wrong with the log any more.
    GivenUp,
}

impl Corruption {
    /// A word for it, stable for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
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
            Self::GivenUp => "given-up",
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Body => "records fail their checksum",
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
            Self::GivenUp => "records lost here were given up by a repair",
        })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(segment) = self.segment {
            write!(f, "segment {segment}, offset {}: ", self.offset)?;
        }
        self.cause.fmt(f)?;
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

/// A whole segment that cannot be read.
pub(crate) fn missing_segment(segment: SegmentId, cause: Corruption, lost: Option<Lost>) -> Damage {
    let (segment, offset) = (Some(segment), Offset(0));
    Damage { segment, offset, bytes: 0, lost, cause, origin: None }
}

/// Whether the device said that it cannot give these bytes.
pub(crate) fn is_read_error(error: &Error) -> bool {
    let not = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    matches!(error, Error::Io { source, .. } if !not.contains(&source.kind()))
}
