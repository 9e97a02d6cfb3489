//! The error type of the log: one variant per action of the caller.

use seawall_format::{Lsn, Offset, Refused, SegmentId};
use seawall_io::into_parts;
use std::sync::Arc;
use std::{fmt, io};

/// Why a log operation failed.
///
/// Each variant calls for a different action: retry, reopen, repair, or fix the calling code.
///
/// `{}` prints this error without its causes, which [`source`](std::error::Error) returns; `{:#}`
/// prints both on one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device refused the operation. Nothing was acknowledged and the log is unchanged: retry.
    Io {
        /// The operation and the file, for example `open app.wal/live`.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process, or another handle in this process, has the log open for writing.
    Busy {
        /// The log.
        place: String,
    },
    /// The path exists and is not a log. Its contents are left unchanged.
    NotALog {
        /// The path.
        place: String,
        /// The reason why this is not a log.
        found: String,
    },
    /// A valid log that this version cannot read: see [`Refused`].
    Unsupported {
        /// The file that cannot be read.
        place: String,
        /// The unknown version or feature.
        refused: Refused,
    },
    /// The options differ from those that the log was created with.
    Mismatch {
        /// Which option.
        what: &'static str,
        /// The value stored in the log.
        has: String,
        /// The requested value.
        requested: String,
    },
    /// An option has an invalid value.
    InvalidOption {
        /// Which option, and why it is invalid.
        why: String,
    },
    /// Stored bytes differ from what was written. Names the place and the lost records.
    Damaged(Box<Damage>),
    /// The end of the log is an unacknowledged torn write or damage, and the log was opened with
    /// [`OpenMode::Strict`](crate::OpenMode). The other modes remove the end and keep a copy.
    Ambiguous {
        /// The segment.
        segment: SegmentId,
        /// The offset after its last valid batch.
        offset: Offset,
    },
    /// The record or atomic set is larger than the largest batch. The log was not changed.
    TooLarge {
        /// The size of the refused record or set in bytes.
        size: usize,
        /// The largest accepted size in bytes.
        max: usize,
    },
    /// The device has no space for another segment. The record was not appended and the log is
    /// unchanged: it can be read and closed, and appends succeed again once there is space.
    DiskFull {
        /// The error of the device.
        source: io::Error,
    },
    /// The codec cannot encode the record. The log is unchanged.
    Encode {
        /// The error of the codec.
        source: CodecError,
    },
    /// The bytes are intact, but the codec cannot decode them as a record of this type.
    Decode {
        /// The record.
        lsn: Lsn,
        /// The error of the codec.
        source: CodecError,
    },
    /// A write or sync failed and this handle writes no more. Reopen the log to learn whether the
    /// records in flight survived.
    Poisoned {
        /// The first failure.
        cause: Arc<str>,
    },
    /// The requested records were removed from the start of the log. If a follower is positioned
    /// exactly at `oldest`, its earlier records may have been truncated and their LSNs reused, and
    /// the segments that could tell are gone.
    Pruned {
        /// The first remaining record, or the next one of an empty log.
        oldest: Lsn,
    },
    /// Records that were read have been truncated since. Their LSNs are reused for other records.
    Rewound {
        /// The number that the next record has.
        next: Lsn,
    },
    /// A follower was created at a position past the next record. If the program stored this
    /// position, it has seen records that the log does not have: the log was truncated, restored
    /// from a backup, or is a different one.
    BeyondEnd {
        /// The requested position.
        from: Lsn,
        /// The number that the next record has.
        next: Lsn,
    },
    /// These records are intact, but a crash could still remove them: nothing on the device
    /// confirms that they are durable, and the reader's own sync failed. Opening the log for append
    /// decides whether they remain.
    Unconfirmed {
        /// The first of them.
        from: Lsn,
        /// The last of them.
        to: Option<Lsn>,
        /// The error of the device.
        source: io::Error,
    },
    /// The log was closed by this handle's [`close`](crate::Log::close).
    Closed,
    /// The hook of [`Options::on_failover`](crate::Options::on_failover) tried to write to its log
    /// or to wait for it. Inside the hook only reads are allowed.
    Reentrant,
    /// This process was forked from the one that opened the log, and its copy of the handle is
    /// unusable. Drop it; to write here, open the log again after the parent has closed it.
    Forked {
        /// The id of the process that opened the log.
        opened_in: u32,
    },
}

/// Why a codec cannot encode or decode a record: any error, or a text.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// The action open to the caller of a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The log is unchanged. The same call can succeed later: when the device works again, has
    /// space, or the other writer has exited.
    Retry,
    /// This handle cannot write any more. Open the log again to see which records survived.
    Reopen,
    /// Stored bytes are damaged, or a crash may have left them unfinished. See
    /// [`Maintenance`](crate::Maintenance).
    Repair,
    /// The call does not fit the log or its state: other options, a position that does not exist,
    /// a record that has no encoding.
    Usage,
}

fn is_wrong_path(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, NotADirectory, NotFound, PermissionDenied};
    [NotFound, PermissionDenied, AlreadyExists, NotADirectory].contains(&error.kind())
}

/// The result of a log operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error; `what` names the operation, unless the error already does.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (known, source) = into_parts(error);
            Self::Io { what: known.unwrap_or_else(|| what.into()), source }
        }
    }

    /// Like `io`, but `what` comes first and the failed step follows in parentheses.
    pub(crate) fn io_in(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (step, source) = into_parts(error);
            let what = what.into();
            Self::Io { what: step.map_or(what.clone(), |step| format!("{what} ({step})")), source }
        }
    }

    /// Returns the action open to the caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{ErrorKind, Log, Options};
    ///
    /// let missing = std::env::temp_dir().join("seawall-doc-no-such-log");
    /// let error = Options::new().create(false).open::<u32, seawall::Json>(missing).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Usage);
    /// assert!(!error.is_retryable());
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            // A path that is missing, forbidden or taken stays so until the caller acts.
            Self::Io { source, .. } if is_wrong_path(source) => ErrorKind::Usage,
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

    /// Returns whether the same call can succeed later without any other action.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Retry
    }

    /// The cause that later `Poisoned` errors of the log report.
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

/// One place where stored bytes differ from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Where the bytes found there belong, if they come from this log.
    pub origin: Option<Origin>,
}

/// The place in the log that misplaced bytes were written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The segment.
    pub segment: SegmentId,
    /// The offset in its file.
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
    /// Appends this range to `runs`, merged with the last one if it continues it.
    pub(crate) fn join(self, runs: &mut Vec<Self>) {
        match runs.last_mut().filter(|run| run.to.map(Lsn::next) == Some(self.from)) {
            Some(run) => run.to = self.to,
            None => runs.push(self),
        }
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
    /// A repair gave up lost records here. The log itself is valid again.
    GivenUp,
}

impl Corruption {
    /// A stable name for scripts.
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

/// Damage for a whole segment that is missing or unreadable.
pub(crate) fn missing_segment(segment: SegmentId, cause: Corruption, lost: Option<Lost>) -> Damage {
    let (segment, offset) = (Some(segment), Offset(0));
    Damage { segment, offset, bytes: 0, lost, cause, origin: None }
}

/// Whether the device failed to read existing bytes.
pub(crate) fn is_read_error(error: &Error) -> bool {
    let not = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    matches!(error, Error::Io { source, .. } if !not.contains(&source.kind()))
}
