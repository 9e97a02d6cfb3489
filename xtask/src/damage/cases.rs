//! The list of what is done to a log.

use super::change::{self, Change};

/// What may be asked of the log afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Damage: whatever is missing is named, but for the window of `Synced`.
    Damage,
    /// What a crash leaves of the last write: a log that was not closed opens by itself.
    Torn,
    /// As before, but in a log that was not closed no byte is left that could tell: DAMAGE.md,
    /// "What cannot be told".
    Blind,
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) change: Change,
}

/// Some of them, under one heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) cases: &'static [Case],
}

const fn damage(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Damage, change }
}

const fn torn(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Torn, change }
}

const fn blind(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Blind, change }
}

/// Names that the comparison with others goes by.
pub(super) const ONE_BIT: &str = "one bit of a record";
pub(super) const EIGHT_BYTES: &str = "8 bytes overwritten";
pub(super) const SECTOR_ZEROED: &str = "one 512-byte sector zeroed";
pub(super) const BIT_IN_ZEROS: &str = "one bit of a record of zeros";
pub(super) const LENGTH_ZEROED: &str = "length of a batch zeroed";
pub(super) const LENGTH_BIT: &str = "length of a batch, high bit";
pub(super) const TAIL_CUT: &str = "last 100 bytes cut off";
pub(super) const TAIL_ZEROED: &str = "last 100 bytes zeroed";
pub(super) const TAIL_BIT: &str = "one bit of the last record";

pub(super) const NEWEST_CUT: &str = "newest file cut at a record";

/// All of them.
pub(super) const GROUPS: &[Group] = &[
    Group {
        title: "in the middle",
        cases: &[
            damage(ONE_BIT, change::record_bit),
            damage("one bit of a batch header", change::batch_header_bit),
            damage(EIGHT_BYTES, change::eight_bytes),
            damage("100 bytes zeroed", change::hundred_zeros),
            damage(SECTOR_ZEROED, change::zero_sector),
            damage("4 KiB of garbage", change::garbage),
            damage("64 KiB zeroed", change::reach),
            damage(BIT_IN_ZEROS, change::bit_in_zeros),
            damage(LENGTH_ZEROED, change::batch_length_zero),
            damage(LENGTH_BIT, change::batch_length_bit),
            damage("length of a record zeroed", change::record_length_zero),
            damage("length of a record, high bit", change::record_length_bit),
            damage("two sectors swapped", change::swapped_sectors),
            damage("two batches swapped", change::swapped_batches),
            damage("a batch copied over the next", change::copied_batch),
        ],
    },
    Group {
        title: "at the end",
        cases: &[
            torn("last write without its end", change::torn_end),
            torn("last write without its start", change::torn_start),
            torn(TAIL_ZEROED, change::tail_zeros),
            damage(TAIL_CUT, change::tail_cut),
            damage(TAIL_BIT, change::tail_bit),
            damage("one bit, ten records before", change::near_tail_bit),
            damage(NEWEST_CUT, change::newest_cut),
            blind("last write dropped whole", change::dropped_write),
            blind("last 200 writes dropped", change::dropped_writes),
        ],
    },
    Group {
        title: "whole files",
        cases: &[
            damage("oldest segment missing", change::oldest_missing),
            damage("a middle segment missing", change::middle_missing),
            damage("newest segment missing", change::newest_missing),
            damage("a copy under the next name", change::duplicated),
            damage("a copy over the next segment", change::over_neighbour),
            damage("a segment of another log", change::foreign),
            blind("newest rolled back by 250", change::rolled_back),
            damage("header of a segment zeroed", change::header_zeros),
            damage("header of the newest zeroed", change::newest_header_zeros),
            damage("manifest: one slot damaged", change::one_slot),
            damage("manifest: both slots damaged", change::both_slots),
            damage("manifest missing", change::no_manifest),
        ],
    },
];
