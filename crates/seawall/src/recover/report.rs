//! What an open found: the public report of a recovery.

use crate::base::error::{Damage, Lost};
use crate::files::overlay::Patch;
use seawall_format::{Lsn, tail};

/// How a log was found when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Whether the log was created by this open.
    pub created: bool,
    /// What its end looked like.
    pub tail: TailState,
    /// The first record.
    pub first: Option<Lsn>,
    /// The last record; everything up to here is durable now.
    pub last: Option<Lsn>,
    /// The last record that something on disk confirmed; those behind it were written anew.
    pub confirmed: Option<Lsn>,
    /// How many bytes behind the last record were cut off.
    pub cut_bytes: u64,
    /// Where those bytes are kept, in the log's directory.
    pub quarantine: Option<String>,
    /// What is damaged and stays so, after an open with
    /// [`OpenMode::Salvage`](crate::OpenMode::Salvage).
    pub damage: Vec<Damage>,
    /// What is damaged and was put right from parity, here and by each reader; on the device it
    /// stays so until a repair. What it stands in gets nothing more.
    pub mended: Vec<Patch>,
    /// Records behind the newest checkpoint that a repair gave up: reading passes over them.
    pub given_up: Vec<Lost>,
    /// What could not be done, though the log is sound: to be shown to a person.
    pub warnings: Vec<String>,
}

/// What the end of a log looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailState {
    /// It ends with its last record.
    Clean,
    /// A write was under way that nobody was promised: the ordinary trace of a crash.
    Torn,
    /// A write under way and damage would look the same. A `Synced` record in the last 64 KiB that
    /// nothing confirmed yet may be missing.
    Ambiguous,
}

impl TailState {
    /// A word for it, stable for scripts.
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
