//! How far a replay has come.

use seawall::Lsn;

/// What a replay does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It reads to learn what became of each transaction.
    Plan,
    /// It applies.
    Apply,
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does at the moment.
    pub phase: Phase,
    /// The record that was read last.
    pub at: Lsn,
    /// The last one that is to be read; not known while planning.
    pub last: Option<Lsn>,
    /// Records read so far in this phase.
    pub records: u64,
}
