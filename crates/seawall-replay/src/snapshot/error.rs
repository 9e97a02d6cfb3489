//! The errors of dumps: one variant per action of the caller.

use seawall::Lsn;
use seawall::format::LogId;
use std::{fmt, io};

/// Why a state was not restored or not dumped.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The log cannot be read or changed, or is damaged. See [`seawall::Error`].
    Log(seawall::Error),
    /// The device failed. Existing dumps are unchanged, and the call can be repeated.
    Io {
        /// The action that failed, and its file.
        what: String,
        /// The device's error.
        source: io::Error,
    },
    /// The directory holds a log. Dumps need a directory of their own.
    HoldsALog {
        /// The directory.
        place: String,
    },
    /// A name or schema number is invalid.
    InvalidOption {
        /// The option and the reason.
        why: String,
    },
    /// The newest dump has another type name or schema number.
    Mismatch {
        /// The LSN of the dump.
        dump: Lsn,
        /// `type name` or `schema`.
        what: &'static str,
        /// The value in the dump.
        has: String,
        /// The value that was requested.
        asked: String,
    },
    /// The dump is intact, but its version or codec is not supported.
    Unsupported {
        /// The LSN of the dump.
        dump: Lsn,
        /// The version or codec found.
        found: String,
    },
    /// The dump is intact, but does not decode as this type. The type has changed without a new
    /// schema number and without `#[serde(default)]`.
    Decode {
        /// The LSN of the dump.
        dump: Lsn,
        /// The decoder's message.
        why: String,
    },
    /// The state cannot be encoded, or what was encoded does not decode. Nothing has changed.
    Encode {
        /// The codec's message.
        why: String,
    },
    /// A dump belongs to another log, or the log is not the one that the state was restored from.
    OtherLog {
        /// The LSN of the dump.
        dump: Lsn,
        /// The log that the dump belongs to.
        of: LogId,
        /// The log that was passed.
        log: LogId,
    },
    /// A dump holds more than the log. Either it belongs to another log, or the end of the log was
    /// lost, or the log was truncated. After a truncation, call
    /// [`Snapshots::truncate_after`](crate::Snapshots::truncate_after).
    Ahead {
        /// The LSN of the dump.
        dump: Lsn,
        /// The last record of the log.
        last: Option<Lsn>,
    },
    /// No dump is valid, and the log's first records were pruned. There is no state to restore.
    NothingLeft {
        /// The first record in the log.
        oldest: Lsn,
        /// The dumps that were not used.
        passed_over: Vec<PassedOver>,
    },
    /// The program refused a record after the dump.
    Apply {
        /// The record.
        lsn: Lsn,
        /// The program's message.
        why: String,
    },
    /// The state to be dumped is older than the newest dump.
    Behind {
        /// The LSN of the state.
        lsn: Lsn,
        /// The LSN of the newest dump.
        newest: Lsn,
    },
    /// Since the newest dump, the log was truncated to before it, or another checkpoint replaced
    /// the dump's. Restore the state again.
    Disowned {
        /// The LSN of the newest dump.
        dump: Lsn,
    },
    /// An earlier dump failed halfway, so the content of the device is unknown. Restore the state
    /// again.
    Unfinished,
}

/// A newer dump that was not used to restore the state.
#[derive(Debug)]
#[non_exhaustive]
pub struct PassedOver {
    /// The LSN of the dump, from its file name.
    pub dump: Lsn,
    /// The reason.
    pub reason: Reason,
}

/// Why a dump was not used.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes differ from what was written.
    Damaged {
        /// The check that failed.
        why: String,
    },
    /// The device could not read it.
    Unread(io::Error),
    /// The log has no checkpoint at or after the dump. Either the program crashed before it wrote
    /// one, or the log was truncated and may no longer have the dump's records.
    Unmarked {
        /// The log's newest checkpoint.
        checkpoint: Lsn,
    },
    /// The log has another record with the dump's LSN: it was truncated to before the dump, and has
    /// grown since.
    OtherHistory,
    /// The record that follows the dump was pruned.
    Pruned {
        /// The first record in the log.
        oldest: Lsn,
    },
}

impl SnapshotError {
    /// Converts an error of the device during the action `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let (known, source) = seawall_io::into_parts(error);
            Self::Io { what: known.unwrap_or_else(|| what.into()), source }
        }
    }
}

impl From<seawall::Error> for SnapshotError {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}

impl fmt::Display for SnapshotError {
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

impl SnapshotError {
    fn own_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "{error}"),
            Self::Io { what, .. } => write!(f, "cannot {what}"),
            Self::HoldsALog { place } => {
                write!(f, "{place}: this directory holds a log; use another directory for dumps")
            }
            Self::InvalidOption { why } => f.write_str(why),
            Self::Mismatch { dump, what, has, asked } => {
                write!(f, "the dump at LSN {dump} has {what} {has}, but {asked} was requested")
            }
            Self::Unsupported { dump, found } => write!(f, "the dump at LSN {dump}: {found}"),
            Self::Decode { dump, why } => {
                write!(
                    f,
                    "the dump at LSN {dump} is intact, but does not decode as this type: {why}"
                )
            }
            Self::Encode { why } => write!(f, "the state cannot be dumped: {why}"),
            Self::OtherLog { dump, of, log } => write!(
                f,
                "the dump at LSN {dump} belongs to the log with id {of}, but this log has id \
                 {log}: open that log, or use the dumps of this one"
            ),
            Self::Ahead { dump, last } => {
                write!(f, "the dump at LSN {dump} is ahead of the log, which ")?;
                match last {
                    Some(last) => write!(f, "ends at LSN {last}")?,
                    None => f.write_str("is empty")?,
                }
                f.write_str(
                    ": the dump belongs to another log, or the end of the log was lost, or the log \
                     was truncated",
                )
            }
            Self::NothingLeft { oldest, passed_over } => {
                write!(f, "the log begins at LSN {oldest}, but ")?;
                if passed_over.is_empty() {
                    return f.write_str("there is no dump of the records before it");
                }
                f.write_str("no dump of the records before it can be used")?;
                passed_over.iter().try_for_each(|passed| write!(f, "; {passed}"))
            }
            Self::Apply { lsn, why } => write!(f, "LSN {lsn}: {why}"),
            Self::Behind { lsn, newest } => {
                write!(f, "cannot dump LSN {lsn}: there is already a dump at LSN {newest}")
            }
            Self::Disowned { dump } => write!(
                f,
                "the log has no checkpoint at or after the dump at LSN {dump}: the log was \
                 truncated; restore the state again"
            ),
            Self::Unfinished => {
                f.write_str("an earlier dump failed halfway: restore the state again")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` already prints this error.
            Self::Log(error) => error.source(),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the dump at LSN {}: {}", self.dump, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { why } => f.write_str(why),
            Self::Unread(error) => write!(f, "it cannot be read: {error}"),
            Self::Unmarked { checkpoint } => write!(
                f,
                "the log's newest checkpoint is at LSN {checkpoint}, before the dump: the dump was \
                 not completed, or the log was truncated since"
            ),
            Self::OtherHistory => f.write_str(
                "the log has another record with its LSN: the log was truncated to before it, and \
                 the dump holds records that the log lost",
            ),
            Self::Pruned { oldest } => write!(f, "the log begins at LSN {oldest}, after it"),
        }
    }
}
