//! Report of a recovery, for the caller of open.

use crate::base::error::{Damage, Lost};
use crate::files::overlay::Patch;
use seawall_format::{Lsn, tail};

/// State of a log when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether this open created the log.
    pub created: bool,
    /// State of the log's end.
    pub tail: TailState,
    /// The first record.
    pub first: Option<Lsn>,
    /// The last record; everything up to it is durable now.
    pub last: Option<Lsn>,
    /// The last record that the files confirmed; later ones were rewritten.
    pub confirmed: Option<Lsn>,
    /// Number of bytes truncated after the last record.
    pub cut_bytes: u64,
    /// The quarantine file, in the log's directory, that holds those bytes.
    pub quarantine: Option<String>,
    /// Damage that remains, after an open with [`OpenMode::Salvage`](crate::OpenMode::Salvage).
    pub damage: Vec<Damage>,
    /// Damage repaired from parity in memory, by this open and by each reader; the files stay
    /// damaged until a repair. Nothing more is appended to the segments concerned.
    pub mended: Vec<Patch>,
    /// Records after the newest checkpoint that a repair gave up; readers skip them.
    pub given_up: Vec<Lost>,
    /// Problems that do not affect the records; show them to an operator.
    pub warnings: Vec<String>,
}

/// State of the end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailState {
    /// The log ends with its last record.
    #[default]
    Clean,
    /// An unacknowledged write was in progress: the usual trace of a crash.
    Torn,
    /// A torn write or damage; both look the same. A `Synced` record in the last 64 KiB that was
    /// not confirmed yet may be missing.
    Ambiguous,
}

impl TailState {
    /// Stable name, for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Torn => "torn",
            Self::Ambiguous => "unsure",
        }
    }

    pub(crate) fn of(row: tail::Row) -> Self {
        match row.verdict() {
            tail::Verdict::Clean => Self::Clean,
            tail::Verdict::Torn => Self::Torn,
            tail::Verdict::Ambiguous => Self::Ambiguous,
        }
    }
}
