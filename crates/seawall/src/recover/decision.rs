//! The recovery decision: the table of format.md section 7.
//!
//! [`Evidence`] is what was found, and [`Evidence::row`] the first row that matches. Each row has a
//! test named after it. Nothing here reads or writes.

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

/// State of a log's files, as found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) manifest_is_readable: bool,
    /// Whether a segment holds a batch, mark or seal; set only without a manifest.
    pub(crate) holds_something: bool,
    /// The first fault in the chain of segments, in the order of the table.
    pub(crate) chain: Option<ChainFault>,
    /// V, the end of the valid prefix.
    pub(crate) valid: Option<Lsn>,
    /// W, the highest LSN confirmed anywhere.
    pub(crate) confirmed: Option<Lsn>,
    /// Whether the newest file is as long as its header says.
    pub(crate) is_whole: bool,
    /// Form of the bytes after the valid prefix; `None` if the scan did not reach its end.
    pub(crate) tail: Option<tail::Row>,
}

impl Evidence {
    /// The first row that matches.
    pub(crate) fn row(&self) -> RecoveryCase {
        match self {
            Self { manifest_is_readable: false, holds_something: false, .. } => {
                RecoveryCase::NothingYet
            }
            Self { manifest_is_readable: false, .. } => RecoveryCase::ManifestUnreadable,
            Self { chain: Some(fault), .. } => RecoveryCase::of(*fault),
            Self { tail: None, .. } => RecoveryCase::RangeLost,
            Self { valid, confirmed, .. } if valid < confirmed => RecoveryCase::RangeLost,
            Self { is_whole: false, .. } => RecoveryCase::CutShort,
            Self { tail: Some(tail::Row::Clean), .. } => RecoveryCase::Clean,
            Self { tail: Some(tail::Row::BeyondWindow), .. } => RecoveryCase::BeyondWindow,
            Self { tail: Some(tail::Row::HeaderTorn), .. } => RecoveryCase::HeaderTorn,
            Self { tail: Some(tail::Row::BodyTorn), .. } => RecoveryCase::BodyTorn,
            Self { tail: Some(tail::Row::LineTorn), .. } => RecoveryCase::LineTorn,
            Self { tail: Some(tail::Row::Otherwise), .. } => RecoveryCase::Otherwise,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of nine records, all confirmed, that ends with its last record.
    fn sound() -> Evidence {
        Evidence {
            manifest_is_readable: true,
            holds_something: true,
            chain: None,
            valid: Lsn::new(9),
            confirmed: Lsn::new(9),
            is_whole: true,
            tail: Some(tail::Row::Clean),
        }
    }

    fn found(evidence: &Evidence) -> (RecoveryCase, Action) {
        (evidence.row(), evidence.row().action())
    }

    #[test]
    fn nothing_yet_is_created() {
        let evidence =
            Evidence { manifest_is_readable: false, holds_something: false, ..Evidence::default() };
        assert_eq!(found(&evidence), (RecoveryCase::NothingYet, Action::Create));
    }

    #[test]
    fn manifest_unreadable_is_damage() {
        let evidence = Evidence { manifest_is_readable: false, ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::ManifestUnreadable, Action::Damage));
    }

    /// Row and action for a log with a fault in its chain, and no other.
    fn in_chain(fault: ChainFault) -> (RecoveryCase, Action) {
        found(&Evidence { chain: Some(fault), ..sound() })
    }

    #[test]
    fn header_unreadable_is_damage() {
        assert_eq!(
            in_chain(ChainFault::HeaderUnreadable),
            (RecoveryCase::HeaderUnreadable, Action::Damage)
        );
    }

    #[test]
    fn misplaced_is_damage() {
        assert_eq!(in_chain(ChainFault::Misplaced), (RecoveryCase::Misplaced, Action::Damage));
    }

    #[test]
    fn text_missing_is_damage() {
        assert_eq!(in_chain(ChainFault::TextMissing), (RecoveryCase::TextMissing, Action::Damage));
    }

    #[test]
    fn oldest_missing_is_damage() {
        assert_eq!(
            in_chain(ChainFault::OldestMissing),
            (RecoveryCase::OldestMissing, Action::Damage)
        );
    }

    #[test]
    fn newest_missing_is_damage() {
        assert_eq!(
            in_chain(ChainFault::NewestMissing),
            (RecoveryCase::NewestMissing, Action::Damage)
        );
    }

    #[test]
    fn chain_broken_is_damage() {
        assert_eq!(in_chain(ChainFault::ChainBroken), (RecoveryCase::ChainBroken, Action::Damage));
    }

    #[test]
    fn range_lost_is_damage() {
        let evidence = Evidence { valid: Lsn::new(8), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::RangeLost, Action::Damage));
        let evidence = Evidence { tail: None, ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::RangeLost, Action::Damage));
    }

    #[test]
    fn cut_short_is_damage() {
        let evidence = Evidence { is_whole: false, ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::CutShort, Action::Damage));
    }

    #[test]
    fn clean_is_clean_with_records_that_nothing_confirms_too() {
        assert_eq!(found(&sound()), (RecoveryCase::Clean, Action::Clean));
        let evidence = Evidence { confirmed: Lsn::new(3), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::Clean, Action::Clean));
    }

    #[test]
    fn header_torn_is_torn() {
        let evidence = Evidence { tail: Some(tail::Row::HeaderTorn), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::HeaderTorn, Action::Torn));
    }

    #[test]
    fn body_torn_is_torn() {
        let evidence = Evidence { tail: Some(tail::Row::BodyTorn), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::BodyTorn, Action::Torn));
    }

    #[test]
    fn line_torn_is_torn() {
        let evidence = Evidence { tail: Some(tail::Row::LineTorn), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::LineTorn, Action::Torn));
    }

    #[test]
    fn beyond_window_is_ambiguous() {
        let evidence = Evidence { tail: Some(tail::Row::BeyondWindow), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::BeyondWindow, Action::Ambiguous));
    }

    #[test]
    fn otherwise_is_ambiguous() {
        let evidence = Evidence { tail: Some(tail::Row::Otherwise), ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::Otherwise, Action::Ambiguous));
    }

    const CASES: [RecoveryCase; 16] = [
        RecoveryCase::NothingYet,
        RecoveryCase::ManifestUnreadable,
        RecoveryCase::HeaderUnreadable,
        RecoveryCase::Misplaced,
        RecoveryCase::TextMissing,
        RecoveryCase::OldestMissing,
        RecoveryCase::NewestMissing,
        RecoveryCase::ChainBroken,
        RecoveryCase::RangeLost,
        RecoveryCase::CutShort,
        RecoveryCase::Clean,
        RecoveryCase::BeyondWindow,
        RecoveryCase::HeaderTorn,
        RecoveryCase::BodyTorn,
        RecoveryCase::LineTorn,
        RecoveryCase::Otherwise,
    ];
    const FAULTS: [Option<ChainFault>; 7] = [
        None,
        Some(ChainFault::HeaderUnreadable),
        Some(ChainFault::Misplaced),
        Some(ChainFault::TextMissing),
        Some(ChainFault::OldestMissing),
        Some(ChainFault::NewestMissing),
        Some(ChainFault::ChainBroken),
    ];
    const TAILS: [Option<tail::Row>; 7] = [
        None,
        Some(tail::Row::Clean),
        Some(tail::Row::BeyondWindow),
        Some(tail::Row::HeaderTorn),
        Some(tail::Row::BodyTorn),
        Some(tail::Row::LineTorn),
        Some(tail::Row::Otherwise),
    ];

    /// All evidence there can be, with LSNs up to 2.
    fn all_evidence() -> Vec<Evidence> {
        let lsns = [None, Lsn::new(1), Lsn::new(2)];
        let mut all = vec![];
        for bits in 0..8_u8 {
            for chain in FAULTS {
                for tail in TAILS {
                    for valid in lsns {
                        all.extend(lsns.map(|confirmed| Evidence {
                            manifest_is_readable: bits & 1 != 0,
                            holds_something: bits & 2 != 0,
                            is_whole: bits & 4 != 0,
                            chain,
                            valid,
                            confirmed,
                            tail,
                        }));
                    }
                }
            }
        }
        all
    }

    /// The same log with one more sign that something was lost.
    fn with_more_loss(evidence: &Evidence) -> Vec<Evidence> {
        let mut more = vec![
            Evidence { is_whole: false, ..evidence.clone() },
            Evidence { tail: None, ..evidence.clone() },
            Evidence { confirmed: Lsn::new(2), ..evidence.clone() },
        ];
        if evidence.holds_something {
            more.push(Evidence { manifest_is_readable: false, ..evidence.clone() });
        }
        if evidence.chain.is_none() {
            more.extend(FAULTS.map(|chain| Evidence { chain, ..evidence.clone() }));
        }
        more
    }

    #[test]
    fn every_case_is_reached_by_some_evidence() {
        let reached: Vec<_> = all_evidence().iter().map(Evidence::row).collect();
        for case in CASES {
            assert!(reached.contains(&case), "{case:?}");
        }
    }

    #[test]
    fn more_evidence_of_loss_never_turns_damage_into_a_log_that_opens() {
        for evidence in all_evidence() {
            if evidence.row().action() != Action::Damage {
                continue;
            }
            for more in with_more_loss(&evidence) {
                let action = more.row().action();
                assert_eq!(action, Action::Damage, "{evidence:?}, then {more:?}");
            }
        }
    }
}
