//! What is measured: a log or a store that keeps records, as its own documents say it is best used.

use crate::payload::Check;
use std::error::Error;
use std::path::Path;

/// Whatever a peer says went wrong.
pub(crate) type Trouble = Box<dyn Error + Send + Sync>;
/// What comes of something that a peer does.
pub(crate) type Done<T = ()> = Result<T, Trouble>;

/// What an append waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The record is durable.
    Synced,
    /// The peer has it.
    Buffered,
}

/// Where a peer works, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// A folder of its own; not there before the first opening.
    pub(crate) folder: &'a Path,
    pub(crate) level: Level,
    /// Threads are numbered from 0 on.
    pub(crate) threads: usize,
    /// Bytes in a record.
    pub(crate) size: usize,
    /// How many records are kept to be read; 0: it need not keep what it has done with.
    pub(crate) kept: usize,
}

/// Something that records are written to.
pub(crate) trait Peer: Send + Sync {
    /// Writes one record, of that thread.
    fn append(&self, thread: usize, record: &[u8]) -> Done;

    /// Writes records as one, of thread 0; they are durable when it returns.
    fn append_set(&self, records: &[&[u8]]) -> Done;

    /// Between measured times: makes durable what is not, and waits for work in the background, so
    /// that no other log pays for it.
    fn settle(&self) -> Done {
        Ok(())
    }

    /// Ends it as a program would.
    fn close(self: Box<Self>) -> Done {
        Ok(())
    }
}

/// Something that records are read from, the first one first.
pub(crate) trait Reader {
    /// Gets ready to read; not measured. The record that comes next: the first one is 0, unless
    /// it can only go on where it stopped.
    fn rewind(&mut self) -> Done<u64> {
        Ok(0)
    }

    /// Hands over one record after the other, until no more are wanted.
    fn read(&mut self, check: &mut Check) -> Done;
}

/// What a peer is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discipline {
    /// Each record is durable when its append returns.
    Synced,
    /// Sets of records, each durable.
    Batches,
    /// An append returns at once.
    Buffered,
    /// All of it is read back.
    Read,
}

/// A kind of peer.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Crate and version, for people.
    pub(crate) what: &'static str,
    /// How it is used here.
    pub(crate) how: &'static str,
    /// What it does better than Seawall.
    pub(crate) better: &'static str,
    /// What it is not asked to do, and why.
    pub(crate) lacks: &'static [(Discipline, &'static str)],
    pub(crate) open: fn(&Place<'_>) -> Done<Box<dyn Peer>>,
    pub(crate) reader: fn(&Place<'_>) -> Done<Box<dyn Reader>>,
}

impl Kind {
    /// Why it is left out there, if it is.
    pub(crate) fn lack(&self, discipline: Discipline) -> Option<&'static str> {
        self.lacks.iter().find(|(lacking, _)| *lacking == discipline).map(|(_, why)| *why)
    }
}
