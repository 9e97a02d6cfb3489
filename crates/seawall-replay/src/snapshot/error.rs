//! What can go wrong with dumps, one variant for each act of the caller.

use seawall::Lsn;
use seawall::format::LogId;
use std::{fmt, io};

/// Why a state was not brought back, or not dumped.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The log could not be read or changed, or is damaged: see [`seawall::Error`].
    Log(seawall::Error),
    /// The device refused. The dumps that there were are as they were; the call may be repeated.
    Io {
        /// What was being done, and to what.
        what: String,
        /// What the device said.
        source: io::Error,
    },
    /// The directory is that of a log: dumps lie beside one.
    HoldsALog {
        /// The directory.
        place: String,
    },
    /// A name or a number that no dump can have.
    InvalidOption {
        /// Which, and why.
        why: String,
    },
    /// The newest dump is one of another state, or of another form of it.
    Mismatch {
        /// Up to which record it holds.
        dump: Lsn,
        /// `type name` or `schema`.
        what: &'static str,
        /// What the dump has.
        has: String,
        /// What was asked for.
        asked: String,
    },
    /// A sound dump by a version that this program does not know.
    Unsupported {
        /// Up to which record it holds.
        dump: Lsn,
        /// What it says.
        found: String,
    },
    /// A sound dump that is no such state: a change of the type that its schema number, or
    /// `#[serde(default)]`, should have told of.
    Decode {
        /// Up to which record it holds.
        dump: Lsn,
        /// What the decoder says.
        why: String,
    },
    /// The state has no bytes, or none that it could be read back from. Nothing was changed.
    Encode {
        /// What the codec says.
        why: String,
    },
    /// A dump is one of another log; or the log is not the one that the state was restored from.
    OtherLog {
        /// Up to which record it holds.
        dump: Lsn,
        /// The log that it is of.
        of: LogId,
        /// The one that was given.
        log: LogId,
    },
    /// A dump holds more than the log: it is the dump of another log, or the log lost its end, or
    /// its end was cut off on purpose; then
    /// [`Snapshots::truncate_after`](crate::Snapshots::truncate_after) helps.
    Ahead {
        /// Up to which record it holds.
        dump: Lsn,
        /// The last record of the log.
        last: Option<Lsn>,
    },
    /// No dump counts, and the log does not begin with its first record: there is no state.
    NothingLeft {
        /// The first record that the log has.
        oldest: Lsn,
        /// What became of the dumps.
        passed_over: Vec<PassedOver>,
    },
    /// The program could not apply a record of the tail.
    Apply {
        /// The record.
        lsn: Lsn,
        /// Why not.
        why: String,
    },
    /// The state to be dumped is older than the newest dump.
    Behind {
        /// Up to which record it holds.
        lsn: Lsn,
        /// Up to which the newest dump does.
        newest: Lsn,
    },
    /// The log was cut before the newest dump since that was taken, or what stood behind it was
    /// given up by another checkpoint: restore anew.
    Disowned {
        /// The newest dump.
        dump: Lsn,
    },
    /// A dump failed halfway before, and what the device holds is not known: restore anew.
    Unfinished,
}

/// A dump that was not used to bring back the state, though it was the newest one.
#[derive(Debug)]
#[non_exhaustive]
pub struct PassedOver {
    /// Up to which record it holds, as its name says.
    pub dump: Lsn,
    /// Why.
    pub reason: Reason,
}

/// Why a dump was passed over.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Its bytes are not what was written.
    Damaged {
        /// Which check caught it.
        why: String,
    },
    /// The device could not read it.
    Unread(io::Error),
    /// The log has no checkpoint behind it: the program died before it was noted, or the log was
    /// cut, and what the dump holds may be in it no more.
    Unmarked {
        /// Where the log's newest checkpoint stands.
        checkpoint: Lsn,
    },
    /// The log has another record with its number: it was truncated before the dump, and has grown
    /// since.
    OtherHistory,
    /// The log no longer has the record behind it.
    Pruned {
        /// The first that it has.
        oldest: Lsn,
    },
}

impl SnapshotError {
    /// The failure of the device while `what` was being done.
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
                write!(f, "{place}: it is the directory of a log, and dumps lie beside one")
            }
            Self::InvalidOption { why } => f.write_str(why),
            Self::Mismatch { dump, what, has, asked } => {
                write!(f, "the dump at LSN {dump} has {what} {has}, and {asked} was asked for")
            }
            Self::Unsupported { dump, found } => write!(f, "the dump at LSN {dump}: {found}"),
            Self::Decode { dump, why } => {
                write!(f, "the dump at LSN {dump} is sound, and not of this type: {why}")
            }
            Self::Encode { why } => write!(f, "the state cannot be dumped: {why}"),
            Self::OtherLog { dump, of, log } => write!(
                f,
                "the dump at LSN {dump} belongs to the log with id {of}, and this one has id \
                 {log}: give that log, or the dumps of this one"
            ),
            Self::Ahead { dump, last } => {
                write!(f, "the dump at LSN {dump} is ahead of the log, which ")?;
                match last {
                    Some(last) => write!(f, "ends at {last}")?,
                    None => f.write_str("holds nothing")?,
                }
                f.write_str(
                    ": it is the dump of another log, or the log lost its end, or was cut on \
                     purpose",
                )
            }
            Self::NothingLeft { oldest, passed_over } => {
                write!(f, "the log begins at LSN {oldest}, and ")?;
                if passed_over.is_empty() {
                    return f.write_str("there is no dump of what was before");
                }
                f.write_str("no dump of what was before can be used")?;
                passed_over.iter().try_for_each(|passed| write!(f, "; {passed}"))
            }
            Self::Apply { lsn, why } => write!(f, "LSN {lsn}: {why}"),
            Self::Behind { lsn, newest } => {
                write!(f, "a dump at LSN {lsn}, and there is one at {newest} already")
            }
            Self::Disowned { dump } => write!(
                f,
                "the log's checkpoints no longer reach the dump at LSN {dump}: it was cut, and the \
                 state is to be restored anew"
            ),
            Self::Unfinished => {
                f.write_str("a dump failed halfway: the state is to be restored anew")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // It says itself what this error says.
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
                "the log's newest checkpoint stands at LSN {checkpoint}: nobody noted one behind \
                 the dump, or the log was cut since"
            ),
            Self::OtherHistory => f.write_str(
                "the log has another record with its number: it was truncated before that, and the \
                 dump holds records that it gave up",
            ),
            Self::Pruned { oldest } => write!(f, "the log begins at LSN {oldest}, behind it"),
        }
    }
}
