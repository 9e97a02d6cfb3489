//! What an open concludes from what it finds: the decision table of format.md section 7.
//!
//! [`Facts`] is what was found, [`Facts::row`] the first row that matches, and each row has one
//! test named after it. Nothing here reads or writes.

use crate::scan::catalog::ChainFault;
use seawall_format::{Lsn, tail};

/// A row of the recovery table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
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

/// What a row says is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Create,
    Damage,
    Clean,
    Torn,
    CannotTell,
}

/// What was found in the directory of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) manifest_is_readable: bool,
    /// Whether a segment holds a batch, mark or seal; asked only without a manifest.
    pub(crate) holds_something: bool,
    /// What is wrong with the chain of segments: the first row of the table that says so.
    pub(crate) chain: Option<ChainFault>,
    /// V, the end of the valid prefix.
    pub(crate) valid: Option<Lsn>,
    /// W, the highest record confirmed anywhere.
    pub(crate) confirmed: Option<Lsn>,
    /// Whether the newest file is as long as its header says.
    pub(crate) is_whole: bool,
    /// What lies behind the valid prefix; `None` where the walk did not reach it.
    pub(crate) tail: Option<tail::Row>,
}

impl Facts {
    /// The first row that matches.
    pub(crate) fn row(&self) -> Row {
        match self {
            Self { manifest_is_readable: false, holds_something: false, .. } => Row::NothingYet,
            Self { manifest_is_readable: false, .. } => Row::ManifestUnreadable,
            Self { chain: Some(fault), .. } => Row::of(*fault),
            Self { tail: None, .. } => Row::RangeLost,
            Self { valid, confirmed, .. } if valid < confirmed => Row::RangeLost,
            Self { is_whole: false, .. } => Row::CutShort,
            Self { tail: Some(tail::Row::Clean), .. } => Row::Clean,
            Self { tail: Some(tail::Row::BeyondWindow), .. } => Row::BeyondWindow,
            Self { tail: Some(tail::Row::HeaderTorn), .. } => Row::HeaderTorn,
            Self { tail: Some(tail::Row::BodyTorn), .. } => Row::BodyTorn,
            Self { tail: Some(tail::Row::LineTorn), .. } => Row::LineTorn,
            Self { tail: Some(tail::Row::Otherwise), .. } => Row::Otherwise,
        }
    }
}

impl Row {
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

    /// What this row says is to be done.
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::NothingYet => Verdict::Create,
            Self::Clean => Verdict::Clean,
            Self::HeaderTorn | Self::BodyTorn | Self::LineTorn => Verdict::Torn,
            Self::BeyondWindow | Self::Otherwise => Verdict::CannotTell,
            Self::ManifestUnreadable
            | Self::HeaderUnreadable
            | Self::Misplaced
            | Self::TextMissing
            | Self::OldestMissing
            | Self::NewestMissing
            | Self::ChainBroken
            | Self::RangeLost
            | Self::CutShort => Verdict::Damage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of nine records, all confirmed, that ends with its last record.
    fn sound() -> Facts {
        Facts {
            manifest_is_readable: true,
            holds_something: true,
            chain: None,
            valid: Lsn::new(9),
            confirmed: Lsn::new(9),
            is_whole: true,
            tail: Some(tail::Row::Clean),
        }
    }

    fn found(facts: &Facts) -> (Row, Verdict) {
        (facts.row(), facts.row().verdict())
    }

    #[test]
    fn nothing_yet_is_created() {
        let facts =
            Facts { manifest_is_readable: false, holds_something: false, ..Facts::default() };
        assert_eq!(found(&facts), (Row::NothingYet, Verdict::Create));
    }

    #[test]
    fn manifest_unreadable_is_damage() {
        let facts = Facts { manifest_is_readable: false, ..sound() };
        assert_eq!(found(&facts), (Row::ManifestUnreadable, Verdict::Damage));
    }

    /// What a log with that trouble in its chain is called, sound otherwise.
    fn in_chain(fault: ChainFault) -> (Row, Verdict) {
        found(&Facts { chain: Some(fault), ..sound() })
    }

    #[test]
    fn header_unreadable_is_damage() {
        assert_eq!(
            in_chain(ChainFault::HeaderUnreadable),
            (Row::HeaderUnreadable, Verdict::Damage)
        );
    }

    #[test]
    fn misplaced_is_damage() {
        assert_eq!(in_chain(ChainFault::Misplaced), (Row::Misplaced, Verdict::Damage));
    }

    #[test]
    fn text_missing_is_damage() {
        assert_eq!(in_chain(ChainFault::TextMissing), (Row::TextMissing, Verdict::Damage));
    }

    #[test]
    fn oldest_missing_is_damage() {
        assert_eq!(in_chain(ChainFault::OldestMissing), (Row::OldestMissing, Verdict::Damage));
    }

    #[test]
    fn newest_missing_is_damage() {
        assert_eq!(in_chain(ChainFault::NewestMissing), (Row::NewestMissing, Verdict::Damage));
    }

    #[test]
    fn chain_broken_is_damage() {
        assert_eq!(in_chain(ChainFault::ChainBroken), (Row::ChainBroken, Verdict::Damage));
    }

    #[test]
    fn range_lost_is_damage() {
        let facts = Facts { valid: Lsn::new(8), ..sound() };
        assert_eq!(found(&facts), (Row::RangeLost, Verdict::Damage));
        let facts = Facts { tail: None, ..sound() };
        assert_eq!(found(&facts), (Row::RangeLost, Verdict::Damage));
    }

    #[test]
    fn cut_short_is_damage() {
        let facts = Facts { is_whole: false, ..sound() };
        assert_eq!(found(&facts), (Row::CutShort, Verdict::Damage));
    }

    #[test]
    fn clean_is_clean_with_records_that_nothing_confirms_too() {
        assert_eq!(found(&sound()), (Row::Clean, Verdict::Clean));
        let facts = Facts { confirmed: Lsn::new(3), ..sound() };
        assert_eq!(found(&facts), (Row::Clean, Verdict::Clean));
    }

    #[test]
    fn header_torn_is_torn() {
        let facts = Facts { tail: Some(tail::Row::HeaderTorn), ..sound() };
        assert_eq!(found(&facts), (Row::HeaderTorn, Verdict::Torn));
    }

    #[test]
    fn body_torn_is_torn() {
        let facts = Facts { tail: Some(tail::Row::BodyTorn), ..sound() };
        assert_eq!(found(&facts), (Row::BodyTorn, Verdict::Torn));
    }

    #[test]
    fn line_torn_is_torn() {
        let facts = Facts { tail: Some(tail::Row::LineTorn), ..sound() };
        assert_eq!(found(&facts), (Row::LineTorn, Verdict::Torn));
    }

    #[test]
    fn beyond_window_cannot_be_told() {
        let facts = Facts { tail: Some(tail::Row::BeyondWindow), ..sound() };
        assert_eq!(found(&facts), (Row::BeyondWindow, Verdict::CannotTell));
    }

    #[test]
    fn otherwise_cannot_be_told() {
        let facts = Facts { tail: Some(tail::Row::Otherwise), ..sound() };
        assert_eq!(found(&facts), (Row::Otherwise, Verdict::CannotTell));
    }
}
