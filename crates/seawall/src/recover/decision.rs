//! The recovery decision: the table of format.md section 7, and what an open does with a log.
//!
//! [`Evidence`] is what was found, [`Evidence::row`] the first row that matches, and
//! [`Evidence::decide`] what an open does then. Each row has a test named after it. A log that is
//! resumed continues as [`continuation`] decides. Nothing here reads or writes.

pub(crate) mod continuation;
#[cfg(test)]
mod tests;

use crate::base::options::OpenMode;
use crate::scan::catalog::ChainFault;
use seawall_format::{Lsn, tail};

/// A row of the recovery table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecoveryCase {
    NothingYet,
    ManifestUnreadable,
    HeaderUnreadable,
    Misplaced,
    TextMissing,
    OldestMissing,
    NewestMissing,
    ChainBroken,
    RangeLost,
    CutShort,
    Clean,
    BeyondWindow,
    HeaderTorn,
    BodyTorn,
    LineTorn,
    Otherwise,
}

/// The action that a row requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Damage,
    Clean,
    Torn,
    Ambiguous,
}

/// What an open does with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing was written yet: create the log.
    Create,
    /// Records are or may be lost: change nothing.
    Refuse(Refusal),
    /// Continue after the last record: see [`continuation`].
    Resume,
}

/// Why a log is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Damaged,
    Ambiguous,
}

/// State of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManifestState {
    Readable,
    /// It is not readable, and a segment holds a batch, mark or seal.
    Lost,
    /// It is not readable, and no segment holds anything: it was never written.
    Never,
}

/// State of the chain of segments, with its first fault in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainState {
    Whole,
    Gap(ChainFault),
    /// The newest segment is missing, so no record can follow.
    NewestMissing(ChainFault),
}

/// State of a log's files, as found.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) manifest: ManifestState,
    pub(crate) chain: ChainState,
    /// V, the end of the valid prefix.
    pub(crate) valid: Option<Lsn>,
    /// W, the highest LSN confirmed anywhere.
    pub(crate) confirmed: Option<Lsn>,
    /// Whether the newest file is as long as its header says.
    pub(crate) is_whole: bool,
    /// Whether any place is damaged, before or after V.
    pub(crate) has_damage: bool,
    /// Form of the bytes after the valid prefix; `None` if the scan did not reach its end.
    pub(crate) tail: Option<tail::Row>,
}

impl Evidence {
    /// The first row that matches.
    pub(crate) fn row(&self) -> RecoveryCase {
        match self {
            Self { manifest: ManifestState::Never, has_damage: false, .. } => {
                RecoveryCase::NothingYet
            }
            Self { manifest: ManifestState::Never | ManifestState::Lost, .. } => {
                RecoveryCase::ManifestUnreadable
            }
            Self { chain: ChainState::Gap(fault) | ChainState::NewestMissing(fault), .. } => {
                RecoveryCase::of(*fault)
            }
            Self { tail: None, .. } => RecoveryCase::RangeLost,
            Self { valid, confirmed, .. } if valid < confirmed => RecoveryCase::RangeLost,
            Self { is_whole: false, .. } => RecoveryCase::CutShort,
            Self { has_damage: true, .. } => RecoveryCase::RangeLost,
            Self { tail: Some(tail::Row::Clean), .. } => RecoveryCase::Clean,
            Self { tail: Some(tail::Row::BeyondWindow), .. } => RecoveryCase::BeyondWindow,
            Self { tail: Some(tail::Row::HeaderTorn), .. } => RecoveryCase::HeaderTorn,
            Self { tail: Some(tail::Row::BodyTorn), .. } => RecoveryCase::BodyTorn,
            Self { tail: Some(tail::Row::LineTorn), .. } => RecoveryCase::LineTorn,
            Self { tail: Some(tail::Row::Otherwise), .. } => RecoveryCase::Otherwise,
        }
    }

    /// What an open in this mode does.
    pub(crate) fn decide(&self, mode: OpenMode) -> Decision {
        match (self.row().action(), mode) {
            (Action::Create, _) => Decision::Create,
            (Action::Ambiguous, OpenMode::Strict) => Decision::Refuse(Refusal::Ambiguous),
            (Action::Clean | Action::Torn | Action::Ambiguous, _) => Decision::Resume,
            (Action::Damage, OpenMode::Salvage) if self.knows_both_ends() => Decision::Resume,
            (Action::Damage, _) => Decision::Refuse(Refusal::Damaged),
        }
    }

    /// Whether the oldest and newest segments are known, so that new records can follow.
    fn knows_both_ends(&self) -> bool {
        let has_newest = !matches!(self.chain, ChainState::NewestMissing(_));
        self.manifest == ManifestState::Readable && has_newest
    }
}

impl RecoveryCase {
    fn of(fault: ChainFault) -> Self {
        match fault {
            ChainFault::HeaderUnreadable => Self::HeaderUnreadable,
            ChainFault::Misplaced => Self::Misplaced,
            ChainFault::TextMissing => Self::TextMissing,
            ChainFault::OldestMissing => Self::OldestMissing,
            ChainFault::NewestMissing => Self::NewestMissing,
            ChainFault::ChainBroken => Self::ChainBroken,
        }
    }

    /// The action that this row requires.
    pub(crate) fn action(self) -> Action {
        match self {
            Self::NothingYet => Action::Create,
            Self::Clean => Action::Clean,
            Self::HeaderTorn | Self::BodyTorn | Self::LineTorn => Action::Torn,
            Self::BeyondWindow | Self::Otherwise => Action::Ambiguous,
            Self::ManifestUnreadable
            | Self::HeaderUnreadable
            | Self::Misplaced
            | Self::TextMissing
            | Self::OldestMissing
            | Self::NewestMissing
            | Self::ChainBroken
            | Self::RangeLost
            | Self::CutShort => Action::Damage,
        }
    }
}
