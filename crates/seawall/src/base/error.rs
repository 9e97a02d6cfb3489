//! The error type of the log: one variant per action of the caller.

mod damage;
mod display;
pub(crate) mod kind;
pub(crate) mod log_path;

pub(crate) use damage::missing_segment;
pub use damage::{Corruption, Damage, Lost, Origin};

use seawall_format::encryption::KeyError;
use seawall_format::{Lsn, Offset, Refused, SegmentId};
use seawall_io::into_parts;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a log operation failed.
///
/// Each variant calls for a different action: retry, reopen, repair, or fix the calling code.
///
/// `{}` names the log and prints this error without its causes, which
/// [`source`](std::error::Error) returns; `{:#}` prints both on one line. In each variant `log` is
/// the log's path, or its name in another kind of storage, as [`log`](Error::log) returns it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The device refused the operation. Nothing was acknowledged and the log is unchanged:
    /// [`kind`](Error::kind) tells whether to retry, or what has to change first.
    Io {
        /// The log.
        log: Option<PathBuf>,
        /// The operation and the file, for example `open app.wal/live`.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process, or another handle in this process, has the log open for writing.
    Busy {
        /// The log.
        log: Option<PathBuf>,
    },
    /// The path exists and is not a log. Its contents are left unchanged.
    #[non_exhaustive]
    NotALog {
        /// The log.
        log: Option<PathBuf>,
        /// The reason why this is not a log.
        found: String,
    },
    /// A valid log that this version cannot read: see [`Refused`].
    #[non_exhaustive]
    Unsupported {
        /// The log.
        log: Option<PathBuf>,
        /// The file that cannot be read.
        place: String,
        /// The unknown version or feature.
        refused: Refused,
    },
    /// The log is encrypted and cannot be used without its key or with this one, or stored bytes
    /// were not written by a holder of the key: see [`KeyError`]. Nothing was changed.
    #[non_exhaustive]
    Key {
        /// The log.
        log: Option<PathBuf>,
        /// The file, where one is the cause.
        place: Option<String>,
        /// What is wrong with the key, or with the bytes.
        source: KeyError,
    },
    /// The options differ from those that the log was created with.
    #[non_exhaustive]
    Mismatch {
        /// The log.
        log: Option<PathBuf>,
        /// Which option.
        what: &'static str,
        /// The value stored in the log.
        has: String,
        /// The requested value.
        requested: String,
    },
    /// An option has an invalid value.
    InvalidOption {
        /// The log.
        log: Option<PathBuf>,
        /// Which option, and why it is invalid.
        why: String,
    },
    /// Stored bytes differ from what was written.
    #[non_exhaustive]
    Damaged {
        /// The log.
        log: Option<PathBuf>,
        /// The place and the lost records.
        damage: Box<Damage>,
    },
    /// The end of the log is an unacknowledged torn write or damage, and the log was opened with
    /// [`OpenMode::Strict`](crate::OpenMode). The other modes remove the end and keep a copy.
    #[non_exhaustive]
    Ambiguous {
        /// The log.
        log: Option<PathBuf>,
        /// The segment.
        segment: SegmentId,
        /// The offset after its last valid batch.
        offset: Offset,
    },
    /// The record or atomic set is larger than the largest batch. The log was not changed.
    #[non_exhaustive]
    TooLarge {
        /// The log.
        log: Option<PathBuf>,
        /// The size of the refused record or set in bytes.
        size: usize,
        /// The largest accepted size in bytes.
        max: usize,
    },
    /// The device has no space for another segment. The record was not appended and the log is
    /// unchanged: it can be read and closed, and appends succeed again once there is space.
    #[non_exhaustive]
    DiskFull {
        /// The log.
        log: Option<PathBuf>,
        /// The error of the device.
        source: io::Error,
    },
    /// The codec cannot encode the record. The log is unchanged.
    #[non_exhaustive]
    Encode {
        /// The log.
        log: Option<PathBuf>,
        /// The error of the codec.
        source: CodecError,
    },
    /// The bytes are intact, but the codec cannot decode them as a record of this type.
    #[non_exhaustive]
    Decode {
        /// The log.
        log: Option<PathBuf>,
        /// The record.
        lsn: Lsn,
        /// The error of the codec.
        source: CodecError,
    },
    /// A write or sync failed and this handle writes no more. Reopen the log to learn whether the
    /// records in flight survived.
    #[non_exhaustive]
    Poisoned {
        /// The log.
        log: Option<PathBuf>,
        /// The first failure.
        cause: Arc<str>,
    },
    /// The requested records were removed from the start of the log. If a follower is positioned
    /// exactly at `oldest`, its earlier records may have been truncated and their LSNs reused, and
    /// the segments that could tell are gone.
    #[non_exhaustive]
    Pruned {
        /// The log.
        log: Option<PathBuf>,
        /// The first remaining record, or the next one of an empty log.
        oldest: Lsn,
    },
    /// Records that were read have been truncated since. Their LSNs are reused for other records.
    #[non_exhaustive]
    Rewound {
        /// The log.
        log: Option<PathBuf>,
        /// The LSN of the next record.
        next: Lsn,
    },
    /// A follower was created at a position past the next record. If the program stored this
    /// position, it has seen records that the log does not have: the log was truncated, restored
    /// from a backup, or is a different one.
    #[non_exhaustive]
    BeyondEnd {
        /// The log.
        log: Option<PathBuf>,
        /// The requested position.
        from: Lsn,
        /// The LSN of the next record.
        next: Lsn,
    },
    /// These records are intact, but a crash could still remove them: nothing on the device
    /// confirms that they are durable, and the reader's own sync failed. Opening the log for append
    /// decides whether they remain.
    #[non_exhaustive]
    Unconfirmed {
        /// The log.
        log: Option<PathBuf>,
        /// The first of them.
        from: Lsn,
        /// The last of them.
        to: Option<Lsn>,
        /// The error of the device.
        source: io::Error,
    },
    /// [`Log::try_submit`](crate::Log::try_submit) would have to wait: for the device to write the
    /// open batch, for space in a new segment, or for a checkpoint or truncation. The record was
    /// not appended: retry.
    #[non_exhaustive]
    WouldBlock {
        /// The log.
        log: Option<PathBuf>,
    },
    /// The log was closed by this handle's [`close`](crate::Log::close).
    #[non_exhaustive]
    Closed {
        /// The log.
        log: Option<PathBuf>,
    },
    /// The hook of [`Options::on_failover`](crate::Options::on_failover) tried to write to its log
    /// or to wait for it. Inside the hook only reads are allowed.
    #[non_exhaustive]
    Reentrant {
        /// The log.
        log: Option<PathBuf>,
    },
    /// This process was forked from the one that opened the log, and its copy of the handle is
    /// unusable. Drop it; to write here, open the log again after the parent has closed it.
    #[non_exhaustive]
    Forked {
        /// The log.
        log: Option<PathBuf>,
        /// The id of the process that opened the log.
        opened_in: u32,
    },
}

/// Why a codec cannot encode or decode a record: any error, or a text.
pub type CodecError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a log operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error; `what` names the operation, unless the error already does.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (known, source) = into_parts(error);
            Self::Io { log: None, what: known.unwrap_or_else(|| what.into()), source }
        }
    }

    /// Like `io`, but `what` comes first and the failed step follows in parentheses.
    pub(crate) fn io_in(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (step, source) = into_parts(error);
            let what = what.into();
            let what = step.map_or(what.clone(), |step| format!("{what} ({step})"));
            Self::Io { log: None, what, source }
        }
    }

    /// An [`Error::Key`]; `place` is the file, if one is the cause.
    pub(crate) fn key(place: impl Into<Option<String>>) -> impl FnOnce(KeyError) -> Self {
        let place = place.into();
        move |source| Self::Key { log: None, place, source }
    }

    /// An [`Error::Unsupported`], or an [`Error::Key`] if a part of the file is not encrypted.
    pub(crate) fn refused(place: String) -> impl FnOnce(Refused) -> Self {
        move |refused| match refused {
            Refused::NotEncrypted => Self::key(place)(KeyError::Forged),
            refused => Self::Unsupported { log: None, place, refused },
        }
    }

    /// An [`Error::Damaged`] for this place.
    #[must_use]
    pub fn damaged(damage: Damage) -> Self {
        Self::Damaged { log: None, damage: Box::new(damage) }
    }

    /// An [`Error::Pruned`] of a log that begins at `oldest`.
    #[must_use]
    pub fn pruned(oldest: Lsn) -> Self {
        Self::Pruned { log: None, oldest }
    }

    /// An [`Error::Rewound`] of a log whose next record is `next`.
    #[must_use]
    pub fn rewound(next: Lsn) -> Self {
        Self::Rewound { log: None, next }
    }

    /// An [`Error::Decode`] of the record at `lsn`.
    #[must_use]
    pub fn decode(lsn: Lsn, source: CodecError) -> Self {
        Self::Decode { log: None, lsn, source }
    }

    /// The cause that later `Poisoned` errors of the log report.
    pub(crate) fn cause(&self) -> String {
        match self {
            Self::Poisoned { cause, .. } => cause.to_string(),
            other => format!("{:#}", other.without_log()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. }
            | Self::DiskFull { source, .. }
            | Self::Unconfirmed { source, .. } => Some(source),
            Self::Encode { source, .. } | Self::Decode { source, .. } => Some(&**source),
            Self::Unsupported { refused, .. } => Some(refused),
            Self::Key { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Whether the device failed to read existing bytes. A log that changed meanwhile is busy.
pub(crate) fn is_read_error(error: &Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, ResourceBusy};
    let not = [NotFound, PermissionDenied, ResourceBusy];
    matches!(error, Error::Io { source, .. } if !not.contains(&source.kind()))
}

#[cfg(test)]
mod tests;
