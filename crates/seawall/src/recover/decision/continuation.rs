//! How a log that opens continues: in place, or in a new segment that carries the records whose
//! durability is uncertain. format.md section 7 and section 8, rules R12 and R15.

use seawall_format::{Closed, Lsn, Offset, SegmentRef, next_lsn, tail};

/// The facts that decide how the log continues.
#[derive(Clone, Debug)]
pub(crate) struct ResumeEvidence<'a> {
    /// The first LSN of each segment, oldest first; at least one.
    pub(crate) bases: Vec<Lsn>,
    /// How many of them are before the newest gap.
    pub(crate) before_gap: usize,
    pub(crate) newest: NewestSegment,
    /// The batches of the newest segment.
    pub(crate) batches: &'a [FoundBatch],
    /// The chain value of the batch before them, or 0.
    pub(crate) chain_before: u64,
    /// V, the last record.
    pub(crate) last: Option<Lsn>,
    /// W, the highest LSN confirmed anywhere.
    pub(crate) confirmed: Option<Lsn>,
    /// The end of the newest segment; `None` if the scan did not reach it.
    pub(crate) tail: Option<TailForm>,
    pub(crate) damaged: Damaged,
    /// The end of the last damaged place of the newest segment.
    pub(crate) damaged_to: Option<Lsn>,
    /// Whether a repair rewrites records that it salvaged from a damaged batch.
    pub(crate) has_salvaged: bool,
    /// The first LSN according to the manifest.
    pub(crate) oldest_base: Lsn,
    /// Whether both slots of the manifest are readable.
    pub(crate) both_slots_are_readable: bool,
}

/// Which part of the log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damaged {
    Nothing,
    /// Any place, but none in the newest segment.
    Elsewhere,
    /// The newest segment, at least.
    Newest,
}

/// Facts about the newest segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestSegment {
    pub(crate) reference: SegmentRef,
    /// Size of a block, in bytes.
    pub(crate) block: u64,
    /// Whether new batches can follow in it: its geometry is that of the manifest (section 4), and
    /// it has no seal.
    pub(crate) takes_batches: bool,
    /// Whether its files are undamaged, without any repair.
    pub(crate) is_as_written: bool,
    /// Whether its predecessor's seal names it and was synced at this open. Otherwise its directory
    /// entry may be in the page cache only.
    pub(crate) is_named: bool,
}

/// Form of the bytes after the last record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailForm {
    pub(crate) row: tail::Row,
    /// Whether the file contains exactly what the writer wrote.
    pub(crate) is_exact: bool,
}

/// A batch of the newest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundBatch {
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    /// Its chain value.
    pub(crate) chain: u64,
    pub(crate) end: Offset,
}

/// How the log continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    pub(crate) manifest: ManifestUpdate,
    pub(crate) target: Target,
    /// The chain value of the batch that holds the last record, or 0, if that batch is not written
    /// again.
    pub(crate) chain_of_last: u64,
    /// Whether files of segments outside the chain are removed.
    pub(crate) removes_orphans: bool,
}

/// Changes to the manifest, written before any segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ManifestUpdate {
    pub(crate) oldest_base: Lsn,
    /// The clean close to record in place of the last one.
    pub(crate) closed: Option<Closed>,
    /// Whether the write starts with the slot of the newest manifest, which may be in the page
    /// cache only. Otherwise it starts with the unreadable slot.
    pub(crate) newest_slot_first: bool,
}

/// Where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// After the last batch of the newest segment.
    InPlace,
    /// To a new segment.
    NewSegment(NewSegment),
}

/// The segment to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSegment {
    /// Its first LSN; the record before it is kept where it is.
    pub(crate) base: Lsn,
    /// The records that it carries.
    pub(crate) carry: Carry,
    /// The chain value of the batch that holds the record before `base`, or 0.
    pub(crate) chain_before: u64,
    /// Number of segments, oldest first, that stay before it. The others are carried whole and
    /// removed.
    pub(crate) segments_kept: usize,
}

/// Records that a new segment repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// Those of the newest segment from the base up to this one.
    UpTo(Option<Lsn>),
    /// Those salvaged from a damaged batch.
    Salvaged,
}

impl ResumeEvidence<'_> {
    /// Decides how the log continues.
    pub(crate) fn continuation(&self) -> Continuation {
        let in_place = self.continues_in_place();
        let closed = Closed { last: self.last, segment: self.newest.reference };
        Continuation {
            manifest: ManifestUpdate {
                // A valid manifest never starts the log after its end.
                oldest_base: self.oldest_base.min(next_lsn(self.last)),
                closed: in_place.then_some(closed),
                newest_slot_first: self.both_slots_are_readable,
            },
            target: if in_place { Target::InPlace } else { Target::NewSegment(self.new_segment()) },
            chain_of_last: self.chain_of(self.last),
            // With damage, a text may be all that is left of its segment, so it stays.
            removes_orphans: self.damaged == Damaged::Nothing,
        }
    }

    /// Whether every record is known to be durable, and new batches can follow in the same file.
    fn continues_in_place(&self) -> bool {
        let NewestSegment { takes_batches, is_as_written, is_named, .. } = self.newest;
        let is_quiet = self.tail.is_some_and(|tail| tail.row == tail::Row::Clean && tail.is_exact);
        let is_confirmed =
            self.last == self.confirmed && self.confirmed >= self.bases.last().copied();
        is_quiet && is_confirmed && takes_batches && is_as_written && is_named
    }

    /// The new segment: its base is W + 1 and it carries W + 1 to V, because the page cache may
    /// show records that the disk does not have.
    fn new_segment(&self) -> NewSegment {
        let sure = if self.has_salvaged { self.confirmed } else { self.sure() };
        let base = next_lsn(sure);
        let carry = if self.has_salvaged { Carry::Salvaged } else { Carry::UpTo(self.last) };
        let pred = self.bases.iter().rposition(|first| *first < base).unwrap_or(0);
        // The segment after a gap alone knows where the one before it ends, so it stays.
        let pred = pred.max(self.before_gap);
        NewSegment { base, carry, chain_before: self.chain_of(sure), segments_kept: pred + 1 }
    }

    /// The last record that need not be written again.
    fn sure(&self) -> Option<Lsn> {
        // If the newest segment has no end, there is nothing to rewrite after the last record.
        let sure = if self.tail.is_some() { self.confirmed } else { self.last };
        // Nothing in a damaged place is carried, so what is intact there must stay readable. The
        // base names lost records durably: without it, only `live` may tell that the end is lost.
        let sure = sure.max(self.damaged_to);
        let before = self.bases.last().and_then(|base| base.previous());
        let sure = if self.replaces_newest() { sure.min(before) } else { sure };
        match self.damaged {
            Damaged::Nothing => self.before_shared_block(sure),
            Damaged::Elsewhere | Damaged::Newest => sure,
        }
    }

    /// Whether the new segment takes the place of the newest, whose directory entry may be in the
    /// page cache only. That takes a predecessor, and a newest segment that can be carried whole.
    fn replaces_newest(&self) -> bool {
        let follows_gap = self.before_gap > 0 && self.before_gap + 1 == self.bases.len();
        let can_be_replaced = match self.damaged {
            Damaged::Nothing => true,
            Damaged::Elsewhere => self.tail.is_some() && !follows_gap,
            Damaged::Newest => false,
        };
        !self.newest.is_named && can_be_replaced
    }

    /// The last record before the block of the newest segment in which the record `sure` ends.
    ///
    /// The rest of that block may not be durable. If its sync failed, now or in an earlier process,
    /// the whole block may be garbled on the disk while the page cache shows it intact.
    fn before_shared_block(&self, sure: Option<Lsn>) -> Option<Lsn> {
        let block = self.newest.block;
        let sure_batches = self.batches.iter().filter(|batch| Some(batch.first) <= sure);
        let end = sure_batches.clone().next_back().map_or(0, |batch| batch.end.0);
        let mut shared = sure_batches.skip_while(|batch| batch.end.0 <= end / block * block);
        shared.next().map_or(sure, |batch| batch.first.previous())
    }

    /// The chain value of the batch that holds `lsn`, or 0.
    fn chain_of(&self, lsn: Option<Lsn>) -> u64 {
        if lsn < self.bases.last().copied() {
            return self.chain_before;
        }
        let holds = |batch: &&FoundBatch| Some(batch.first) <= lsn && lsn <= Some(batch.last);
        match self.batches.iter().find(holds) {
            Some(batch) => batch.chain,
            None if self.damaged == Damaged::Nothing => self.chain_before,
            None => 0, // The batch may be among the damaged ones.
        }
    }
}
