//! Logs and stores to compare with, each used as its own documentation recommends.

use crate::payload::Check;
use std::error::Error;
use std::path::Path;

/// An error of a peer.
pub(crate) type Trouble = Box<dyn Error + Send + Sync>;
/// The result of an operation of a peer.
pub(crate) type Done<T = ()> = Result<T, Trouble>;

/// The condition for an append to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The record is durable.
    Synced,
    /// The peer has accepted the record, which need not be durable yet.
    Buffered,
}

/// Where and how a peer is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// A folder of its own, which does not exist before the peer is first opened.
    pub(crate) folder: &'a Path,
    pub(crate) level: Level,
    /// Number of threads; they are numbered from 0.
    pub(crate) threads: usize,
    /// Bytes in a record.
    pub(crate) size: usize,
    /// Number of records that are read back. With 0, the peer may drop old records.
    pub(crate) kept: usize,
}

/// An open log or store that accepts records.
pub(crate) trait Peer: Send + Sync {
    /// Appends one record on behalf of `thread`.
    fn append(&self, thread: usize, record: &[u8]) -> Done;

    /// Appends records as one set on behalf of thread 0. They are durable when this returns.
    fn append_set(&self, records: &[&[u8]]) -> Done;

    /// Called between measurements. Makes everything durable and waits for background work, so that
    /// it does not slow the other logs.
    fn settle(&self) -> Done {
        Ok(())
    }

    /// Closes the peer as a program would.
    fn close(self: Box<Self>) -> Done {
        Ok(())
    }
}

/// Reads the records of a log or store in order.
pub(crate) trait Reader {
    /// Prepares for reading; this is not measured. Returns the number of the next record: 0, unless
    /// the reader can only continue where it stopped.
    fn rewind(&mut self) -> Done<u64> {
        Ok(0)
    }

    /// Delivers the records in sequence, until `check` wants no more.
    fn read(&mut self, check: &mut Check) -> Done;
}

/// The task of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// Each record is durable when its append returns.
    Synced,
    /// Sets of records are appended, each durable when the call returns.
    Batches,
    /// An append returns without waiting for the device.
    Buffered,
    /// All records are read back.
    Read,
}

/// A log or store to compare, and how it is used.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Its crate and version, as text.
    pub(crate) what: &'static str,
    /// How the benchmark uses it.
    pub(crate) how: &'static str,
    /// What it does better than Seawall.
    pub(crate) better: &'static str,
    /// The disciplines that are not measured, each with the reason.
    pub(crate) lacks: &'static [(Discipline, &'static str)],
    pub(crate) open: fn(&Place<'_>) -> Done<Box<dyn Peer>>,
    pub(crate) reader: fn(&Place<'_>) -> Done<Box<dyn Reader>>,
}

impl Kind {
    /// The reason why `discipline` is not measured, if it is not.
    pub(crate) fn lack(&self, discipline: Discipline) -> Option<&'static str> {
        self.lacks.iter().find(|(lacking, _)| *lacking == discipline).map(|(_, why)| *why)
    }
}
