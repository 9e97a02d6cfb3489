//! The progress of a replay.

use seawall::Lsn;

/// The phase of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads the log to learn the outcome of each transaction.
    Plan,
    /// Applies committed transactions.
    Apply,
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The last record read.
    pub at: Lsn,
    /// The last record that will be read; `None` while planning.
    pub last: Option<Lsn>,
    /// Records read so far in this phase.
    pub records: u64,
}
