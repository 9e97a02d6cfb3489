//! The list of changes to a log.

use super::change::{self, Change};

/// What is required of the log after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Damage: every missing record must be reported, except in the window of `Synced`.
    Damage,
    /// Damage that a crash can cause: a log that was not closed must open without repair.
    Torn,
    /// As `Torn`, but in a log that was not closed nothing shows the loss: damage.md, "How to read
    /// the tables".
    Blind,
}

/// In which logs parity must restore everything that the change destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mends {
    /// In all logs.
    All,
    /// In all logs but the crashed one, whose newest records have no parity yet.
    AtRest,
    /// In no log: the change destroys more than parity promises to restore.
    None,
}

/// A change to a log, and what is required of the log afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) mends: Mends,
    pub(super) change: Change,
}

impl Case {
    /// Marks a change to the newest records, which have no parity yet in a crashed log.
    const fn at_the_end(self) -> Self {
        Self { mends: Mends::AtRest, ..self }
    }

    /// Marks a change to more than two blocks of sixteen, which parity cannot restore.
    const fn too_much(self) -> Self {
        Self { mends: Mends::None, ..self }
    }
}

/// Cases under one heading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) cases: &'static [Case],
}

const fn damage(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Damage, mends: Mends::All, change }
}

const fn torn(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Torn, mends: Mends::AtRest, change }
}

const fn blind(name: &'static str, change: Change) -> Case {
    Case { name, kind: Kind::Blind, mends: Mends::AtRest, change }
}

/// Names of the cases that are compared with other logs.
pub(super) const ONE_BIT: &str = "one bit of a record";
pub(super) const SECTOR_ZEROED: &str = "one 512-byte sector zeroed";
pub(super) const TAIL_CUT: &str = "last 100 bytes missing";
pub(super) const TAIL_ZEROED: &str = "last 100 bytes zeroed";

/// Changes to logs without parity.
pub(super) const GROUPS: &[Group] = &[IN_THE_MIDDLE, AT_THE_END, WHOLE_FILES];

/// Changes to logs with parity.
pub(super) const WITH_PARITY: &[Group] = &[IN_THE_MIDDLE, AT_THE_END, BLOCKS, PARITY];

const IN_THE_MIDDLE: Group = Group {
    title: "in the middle",
    cases: &[
        damage(ONE_BIT, change::record_bit),
        damage("one bit of a batch header", change::batch_header_bit),
        damage("8 bytes overwritten", change::eight_bytes),
        damage("100 bytes zeroed", change::hundred_zeros),
        damage(SECTOR_ZEROED, change::zero_sector),
        damage("4 KiB of random bytes", change::garbage),
        damage("64 KiB zeroed", change::reach).too_much(),
        damage("one bit of a record of zeros", change::bit_in_zeros),
        damage("length of a batch zeroed", change::batch_length_zero),
        damage("length of a batch, high bit", change::batch_length_bit),
        damage("length of a record zeroed", change::record_length_zero),
        damage("length of a record, high bit", change::record_length_bit),
        damage("two sectors swapped", change::swapped_sectors),
        damage("two batches swapped", change::swapped_batches),
        damage("batch copied over the next", change::copied_batch),
    ],
};

const AT_THE_END: Group = Group {
    title: "at the end",
    cases: &[
        torn("last write, end missing", change::torn_end),
        torn("last write, start missing", change::torn_start),
        torn(TAIL_ZEROED, change::tail_zeros),
        damage(TAIL_CUT, change::tail_cut).too_much(),
        damage("one bit of the last record", change::tail_bit).at_the_end(),
        damage("one bit, 10 records before", change::near_tail_bit).at_the_end(),
        damage("newest file truncated", change::newest_cut).too_much(),
        blind("last write missing", change::dropped_write),
        blind("last 200 writes missing", change::dropped_writes).too_much(),
    ],
};

const WHOLE_FILES: Group = Group {
    title: "whole files",
    cases: &[
        damage("oldest segment missing", change::oldest_missing),
        damage("middle segment missing", change::middle_missing),
        damage("newest segment missing", change::newest_missing),
        damage("copy under the next name", change::duplicated),
        damage("copy over the next segment", change::over_neighbour),
        damage("segment of another log", change::foreign),
        blind("older copy of the newest file", change::rolled_back),
        damage("segment header zeroed", change::header_zeros),
        damage("newest segment header zeroed", change::newest_header_zeros),
        damage("manifest: one slot damaged", change::one_slot),
        damage("manifest: both slots damaged", change::both_slots),
        damage("manifest missing", change::no_manifest),
    ],
};

const BLOCKS: Group = Group {
    title: "one block of 4 KiB lost",
    cases: &[
        damage("segment header zeroed", change::header_block),
        damage("newest segment header zeroed", change::newest_header_block).at_the_end(),
        damage("mark slot overwritten", change::mark_block),
        damage("seal zeroed", change::seal_block),
        damage("gap overwritten", change::gap_block),
        damage("first records zeroed", change::first_block),
        damage("last records zeroed", change::last_block).at_the_end(),
    ],
};

const PARITY: Group = Group {
    title: "parity files",
    cases: &[
        damage("two blocks of sixteen zeroed", change::two_blocks),
        damage("three blocks of sixteen zeroed", change::three_blocks).too_much(),
        damage("parity file missing", change::parity_missing),
        damage("parity file overwritten", change::parity_garbage),
        damage("that, and one bit of a record", change::parity_garbage_and_bit).too_much(),
        damage("one bit in log and in parity", change::both_bits),
    ],
};
