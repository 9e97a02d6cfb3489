//! The errors of a replay: one variant per action of the caller.

use crate::operation::TxId;
use crate::store::error::StoreError;
use seawall::Lsn;
use seawall::damage::Lost;
use seawall::format::LogId;
use std::{fmt, io};

/// Why a replay stopped. Changes applied until then stay applied and are not applied again.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log cannot be read or is damaged. See [`seawall::Error`].
    Log(seawall::Error),
    /// A repair of the log gave up records while a transaction was open that was committed later:
    /// any of them may belong to it. Nothing was applied. Replay a copy of the log that still has
    /// these records, or call [`Replay::skip_incomplete`](crate::Replay::skip_incomplete).
    Incomplete {
        /// The record of the commit.
        lsn: Lsn,
        /// The transaction.
        tx: TxId,
        /// The records that were given up since its begin.
        lost: Vec<Lost>,
    },
    /// The log holds the commit of a transaction that has no begin among the records that were
    /// read: it began before them, or the program that wrote the log has a bug.
    NeverBegan {
        /// The record of the commit.
        lsn: Lsn,
        /// The transaction.
        tx: TxId,
        /// The first record that the replay read.
        from: Lsn,
    },
    /// The store or a merge operator refused a change. With one partition, nothing of its
    /// transaction was applied. With more, other partitions may have applied their part.
    Apply {
        /// The record of the change.
        lsn: Lsn,
        /// A description of the change.
        change: String,
        /// The reason.
        why: String,
    },
    /// The store failed. The replay can be run again.
    Store {
        /// The action that failed.
        what: String,
        /// The store's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store failed to make its batches durable. If the device was full, the replay can be run
    /// again. Otherwise the store may have lost changes that it still shows: rebuild the store if
    /// it cannot be opened again, and do not prune the log before.
    Flush(Box<dyn std::error::Error + Send + Sync>),
    /// The log no longer has records that the store needs.
    Pruned {
        /// The first record that the store needs.
        needs: Lsn,
        /// The first record in the log.
        oldest: Lsn,
    },
    /// The store has applied more than the log holds. Either the store belongs to another log, or
    /// the end of the log was lost.
    Ahead {
        /// The last commit that the store has applied.
        applied: Lsn,
        /// The last record that was read, if there is one.
        last: Option<Lsn>,
    },
    /// The store was built from another log. Rebuild it: replay into an empty store, or load a dump
    /// of this log's state and replay the records after it.
    OtherLog {
        /// The log that the store belongs to.
        store: LogId,
        /// The log that was to be replayed.
        log: LogId,
    },
    /// The store has applied records that were truncated from the log, and other records have their
    /// LSNs now. Rebuild the store, as for [`OtherLog`](Self::OtherLog).
    OtherHistory {
        /// The last commit that the store has applied: another record has its number.
        applied: Lsn,
    },
    /// The log cannot prove that the store belongs to it. Rebuild the store, or accept it with
    /// [`Replay::adopt`](crate::Replay::adopt).
    Unproven {
        /// The last commit that the store has applied.
        applied: Option<Lsn>,
        /// Which proof is missing.
        why: String,
    },
    /// The store's watermarks contradict each other.
    Watermarks {
        /// The contradiction.
        why: String,
    },
    /// The scratch file for transactions that do not fit in memory failed.
    Spill(io::Error),
    /// A thread cannot be started. The replay can be run again.
    Thread(io::Error),
    /// An option has an invalid value.
    InvalidOption {
        /// The option and the reason.
        why: String,
    },
}

/// The maximum number of ranges of lost records in a message.
const RANGES_SHOWN: usize = 3;

/// The result of a replay.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Converts an error of the store during the action `what`.
    pub(crate) fn store(what: impl Into<String>) -> impl FnOnce(StoreError) -> Self {
        move |error| match error {
            StoreError::Refused { lsn, change, why } => Self::Apply { lsn, change, why },
            StoreError::Failed(source) => Self::Store { what: what.into(), source },
        }
    }

    /// Converts an error of the store's flush.
    pub(crate) fn flush(error: StoreError) -> Self {
        match error {
            StoreError::Failed(source) => Self::Flush(source),
            refused @ StoreError::Refused { .. } => Self::Flush(Box::new(refused)),
        }
    }

    /// Returns the record that the error is about.
    pub(crate) fn lsn(&self) -> Option<Lsn> {
        match self {
            Self::Apply { lsn, .. }
            | Self::NeverBegan { lsn, .. }
            | Self::Incomplete { lsn, .. } => Some(*lsn),
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
            Self::Incomplete { lsn, tx, lost } => incomplete_text(f, (*lsn, *tx), lost),
            Self::NeverBegan { lsn, tx, from } => write!(
                f,
                "LSN {lsn} belongs to transaction {tx}, which has no begin in the records from \
                 LSN {from} on"
            ),
            Self::Apply { lsn, change, why } => write!(f, "LSN {lsn}: {change}: {why}"),
            Self::Store { what, .. } => write!(f, "the store failed to {what}"),
            Self::Flush(_) => f.write_str("the store failed to make its batches durable"),
            Self::Pruned { needs, oldest } => write!(
                f,
                "the store needs the records from LSN {needs} on, but the log begins at LSN \
                 {oldest}"
            ),
            Self::Ahead { applied, last: Some(last) } => write!(
                f,
                "the store has applied LSN {applied}, but the log ends at LSN {last}: the store \
                 belongs to another log, or the end of the log was lost"
            ),
            Self::Ahead { applied, last: None } => {
                write!(
                    f,
                    "the store has applied LSN {applied}, but the log ends before it: the store \
                     belongs to another log, or the end of the log was lost"
                )
            }
            Self::OtherLog { store, log } => write!(
                f,
                "the store belongs to the log with id {store}, but this log has id {log}: rebuild \
                 the store from this log"
            ),
            Self::OtherHistory { applied } => write!(
                f,
                "the store has applied LSN {applied}, but the log has another record with that \
                 LSN: the log was truncated and has grown since, so the store has changes that the \
                 log lost; rebuild the store from this log"
            ),
            Self::Unproven { why, .. } => {
                write!(f, "cannot prove that the store belongs to this log: {why}")
            }
            Self::Watermarks { why } => {
                write!(f, "inconsistent watermarks in the store: {why}")
            }
            Self::Spill(_) => f.write_str(
                "cannot use the scratch file for transactions that do not fit in memory",
            ),
            Self::Thread(_) => f.write_str("cannot start a thread of the replay"),
            Self::InvalidOption { why } => f.write_str(why),
        }
    }
}

fn incomplete_text(
    f: &mut fmt::Formatter<'_>,
    (lsn, tx): (Lsn, TxId),
    lost: &[Lost],
) -> fmt::Result {
    write!(f, "LSN {lsn} commits transaction {tx}, but a repair of the log gave up ")?;
    for (number, lost) in lost.iter().enumerate().take(RANGES_SHOWN) {
        write!(f, "{}{lost}", if number > 0 { ", " } else { "" })?;
    }
    if lost.len() > RANGES_SHOWN {
        f.write_str(" and more")?;
    }
    f.write_str(" before it, so changes of the transaction may be missing")
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` already prints this error.
            Self::Log(error) => error.source(),
            Self::Store { source, .. } | Self::Flush(source) => Some(&**source),
            Self::Spill(error) | Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}
