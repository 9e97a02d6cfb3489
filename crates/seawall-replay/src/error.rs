//! What can go wrong, one variant for each act of the caller.

use crate::operation::TxId;
use crate::store::error::StoreError;
use seawall::Lsn;
use seawall::format::LogId;
use std::{fmt, io};

/// Why a replay stopped. What was applied until then stays applied, and is not applied again.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log could not be read, or is damaged: see [`seawall::Error`].
    Log(seawall::Error),
    /// The log holds a change or a commit of a transaction that never began in it: the program
    /// that logged has a bug, or what stood before was given up.
    NeverBegan {
        /// The record.
        lsn: Lsn,
        /// Its transaction.
        tx: TxId,
        /// Where the replay began to read.
        from: Lsn,
    },
    /// The store did not take a change, or an operator refused it. Nothing of its transaction was
    /// applied.
    Apply {
        /// The record.
        lsn: Lsn,
        /// What it asks for.
        change: String,
        /// Why not.
        why: String,
    },
    /// The store failed, whatever it was given. The replay may be started again.
    Store {
        /// What was being done.
        what: String,
        /// What the store said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What the store still needs was given up in the log.
    Pruned {
        /// The first record that the store needs.
        needs: Lsn,
        /// The first that is left.
        oldest: Lsn,
    },
    /// The store has applied more than the log holds: it belongs to another log, or the log lost
    /// its end.
    Ahead {
        /// The last commit that the store has applied.
        applied: Lsn,
        /// The last record that was read, if there is one.
        last: Option<Lsn>,
    },
    /// The store was brought back from another log. It is to be made anew: from nothing, or from a
    /// dump of this log's state and the records behind it.
    OtherLog {
        /// The log that the store belongs to.
        store: LogId,
        /// The one that was to be replayed.
        log: LogId,
    },
    /// The store has applied records that the log gave up by a truncation; others have their
    /// numbers now. It is to be made anew, as for [`OtherLog`](Self::OtherLog).
    OtherHistory {
        /// The last commit that the store has applied: another record has its number.
        applied: Lsn,
    },
    /// Whether the store belongs to the log cannot be told. It is to be made anew, or vouched for
    /// by [`Replay::adopt`](crate::Replay::adopt).
    Unproven {
        /// The last commit that the store has applied.
        applied: Option<Lsn>,
        /// What is missing.
        why: String,
    },
    /// What the store says about itself does not hold together.
    Watermarks {
        /// What is wrong with it.
        why: String,
    },
    /// The file for what does not fit in memory failed.
    Spill(io::Error),
    /// An option has a value that cannot be.
    InvalidOption {
        /// Which, and why.
        why: String,
    },
}

/// The result of a replay.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The failure of a store while `what` was being done.
    pub(crate) fn store(what: impl Into<String>) -> impl FnOnce(StoreError) -> Self {
        move |error| match error {
            StoreError::Refused { lsn, change, why } => Self::Apply { lsn, change, why },
            StoreError::Failed(source) => Self::Store { what: what.into(), source },
        }
    }

    /// The record it concerns.
    pub(crate) fn lsn(&self) -> Option<Lsn> {
        match self {
            Self::Apply { lsn, .. } | Self::NeverBegan { lsn, .. } => Some(*lsn),
            _ => None,
        }
    }
}

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
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
            Self::Log(error) => write!(f, "{error}"),
            Self::NeverBegan { lsn, tx, from } => write!(
                f,
                "LSN {lsn} belongs to transaction {tx}, which did not begin in the records from \
                 {from} on"
            ),
            Self::Apply { lsn, change, why } => write!(f, "LSN {lsn}: {change}: {why}"),
            Self::Store { what, .. } => write!(f, "the store failed to {what}"),
            Self::Pruned { needs, oldest } => write!(
                f,
                "the store needs the records from LSN {needs} on, and the log begins at {oldest}"
            ),
            Self::Ahead { applied, last: Some(last) } => write!(
                f,
                "the store has applied LSN {applied}, and the log ends at {last}: it is the store \
                 of another log, or the log lost its end"
            ),
            Self::Ahead { applied, last: None } => {
                write!(
                    f,
                    "the store has applied LSN {applied}, and the log ends before that: it is the \
                     store of another log, or the log lost its end"
                )
            }
            Self::OtherLog { store, log } => write!(
                f,
                "the store belongs to the log with id {store}, and this one has id {log}: make the \
                 store again from this log"
            ),
            Self::OtherHistory { applied } => write!(
                f,
                "the store has applied LSN {applied}, and the log has another record with that \
                 number: it was truncated and has grown since, so the store has changes that the \
                 log gave up; make the store again from this log"
            ),
            Self::Unproven { why, .. } => {
                write!(f, "whether the store belongs to this log cannot be told: {why}")
            }
            Self::Watermarks { why } => {
                write!(f, "how far the store is cannot be known: {why}")
            }
            Self::Spill(_) => f.write_str("the file for what does not fit in memory"),
            Self::InvalidOption { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // It says itself what this error says.
            Self::Log(error) => error.source(),
            Self::Store { source, .. } => Some(&**source),
            Self::Spill(error) => Some(error),
            _ => None,
        }
    }
}
