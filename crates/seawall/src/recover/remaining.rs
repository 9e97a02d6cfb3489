//! The records of a log that an open keeps: all of them, or those before the first damage.

use crate::base::error::Damage;
use crate::files::overlay::Patch;
use crate::recover::decision::continuation::{
    Damaged, FoundBatch, NewestSegment, ResumeEvidence, TailForm,
};
use crate::recover::inspection::Inspection;
use crate::scan::catalog::{ChainedSegment, FoundManifest};
use crate::scan::scanner::{LogScanner, ScanEnd, TailFound};
use crate::write::pending::RewriteBatch;
use seawall_format::scan::Start;
use seawall_format::{Lsn, Manifest, SegmentId, next_lsn};

/// The part of an inspected log that is resumed.
#[derive(Clone, Debug)]
pub(crate) struct RemainingLog<'a> {
    pub(crate) found: &'a Inspection,
    /// The manifest to continue with.
    pub(crate) manifest: Manifest,
    /// The segments, oldest first; at least one.
    pub(crate) chain: &'a [ChainedSegment],
    /// V, the last record.
    pub(crate) last: Option<Lsn>,
    /// W, the last record that need not be written again.
    pub(crate) confirmed: Option<Lsn>,
    pub(crate) tail: Option<&'a TailFound>,
    /// Records after `confirmed` that a repair salvaged from a damaged batch.
    pub(crate) salvaged: &'a [RewriteBatch],
}

impl<'a> RemainingLog<'a> {
    /// The log up to `end`, with `manifest` in the place of the one that was found.
    pub(crate) fn whole(found: &'a Inspection, end: &'a ScanEnd, manifest: Manifest) -> Self {
        Self {
            found,
            manifest,
            chain: &found.catalog.chain,
            last: end.last,
            confirmed: end.confirmed,
            tail: end.tail.as_ref(),
            salvaged: &[],
        }
    }

    /// The log up to the last record before the first damage. `None` if there is no such record or
    /// start of the log.
    pub(crate) fn before_damage(found: &'a Inspection) -> Option<Self> {
        let mut manifest = found.catalog.manifest()?.clone();
        let next = next_lsn(found.sound_to);
        let links = &found.catalog.chain;
        let whole = links.iter().take_while(|link| link.gap.is_none());
        let first = links.first().map(|link| link.segment.header.base);
        let reaches = |base: Lsn| base < next || (Some(base) == first && base == next);
        let reaches = whole.filter(|link| reaches(link.segment.header.base)).count();
        if reaches == 0 || next < manifest.oldest_base {
            return None;
        }
        // A checkpoint cannot be past the end of the log.
        manifest.checkpoints = manifest.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(next)));
        Some(Self {
            found,
            manifest,
            chain: links.get(..reaches).expect("a part of the chain"),
            last: Lsn::new(next.get() - 1 + found.count_before_lost()),
            confirmed: found.sound_to,
            tail: None,
            salvaged: &found.before_lost,
        })
    }

    pub(crate) fn newest(&self) -> &'a ChainedSegment {
        self.chain.last().expect("a log has a segment")
    }

    /// Scans the newest segment. Skips the batches at its start that `is_needless`, if the
    /// inspection tells where the others begin.
    pub(crate) fn scan_newest(&self, is_needless: impl Fn(&FoundBatch) -> bool) -> LogScanner {
        // With damage, the batches may belong to a segment that does not remain.
        let found = Some(&self.found.batches).filter(|_| self.found.damage.is_empty());
        let needless = found.into_iter().flatten().take_while(|batch| is_needless(batch));
        match needless.last() {
            Some(batch) => {
                let start =
                    Start { offset: batch.end, first: batch.last.next(), chain: batch.chain };
                LogScanner::within(&self.found.catalog, self.newest(), Some(start))
            }
            None => LogScanner::of_segment(self.newest()),
        }
    }

    /// The facts that decide how this log continues; `is_named` as in [`NewestSegment`],
    /// `is_sealed` if the newest segment has a seal.
    pub(crate) fn evidence(&self, (is_named, is_sealed): (bool, bool)) -> ResumeEvidence<'a> {
        let header = &self.newest().segment.header;
        let manifest = &self.found.catalog.found_manifest;
        let both_slots = matches!(manifest, FoundManifest::Readable { both_slots: true, .. });
        ResumeEvidence {
            bases: self.chain.iter().map(|link| link.segment.header.base).collect(),
            before_gap: self.chain.iter().rposition(|link| link.gap.is_some()).unwrap_or(0),
            newest: NewestSegment {
                reference: header.reference(),
                block: u64::from(header.geometry.block),
                takes_batches: header.geometry == self.manifest.geometry && !is_sealed,
                is_as_written: self.is_as_written(header.id),
                is_named,
            },
            batches: &self.found.batches,
            chain_before: self.found.chain_before,
            last: self.last,
            confirmed: self.confirmed,
            tail: self.tail.zip(self.found.tail_row()).map(|(tail, row)| {
                let is_exact = tail.is_exact;
                TailForm { row, is_exact }
            }),
            damaged: match self.found.damage.as_slice() {
                [] => Damaged::Nothing,
                _ if self.found.is_damaged(header.id) => Damaged::Newest,
                _ => Damaged::Elsewhere,
            },
            damaged_to: self.found.damaged_to.filter(|to| Some(*to) <= self.last),
            has_salvaged: !self.salvaged.is_empty(),
            oldest_base: self.manifest.oldest_base,
            both_slots_are_readable: both_slots,
        }
    }

    /// The missing segments between those that stay, as far as records are lost with them.
    pub(crate) fn gaps(&self) -> Vec<Damage> {
        let gaps = self.chain.iter().skip(1).filter_map(|link| link.gap.as_ref());
        gaps.map(|(_, damage)| damage).filter(|damage| damage.lost.is_some()).cloned().collect()
    }

    /// Whether the files of this segment are undamaged, without any repair.
    fn is_as_written(&self, segment: SegmentId) -> bool {
        let id = |patch: &Patch| SegmentId::from_any_name(&patch.file);
        let is_patched = self.found.mended.iter().filter_map(id).any(|mended| mended == segment);
        !self.found.is_damaged(segment) && !is_patched
    }

    /// Schema number of the records that an open rewrites.
    pub(crate) fn schema_of_carry(&self) -> u32 {
        if self.salvaged.is_empty() {
            self.newest().segment.header.record_type.schema
        } else {
            self.found.schema_before_lost
        }
    }
}
