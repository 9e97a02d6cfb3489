//! Truncation and checkpoints: records are given up at either end, durably before the call returns
//! (R10, R11).

pub(crate) mod removal;

use crate::base::error::{Damage, Error, Result};
use crate::base::retention::LiveSegment;
use crate::base::spare_files::may_be_spare;
use crate::files::segment::Segment;
use crate::scan::catalog::ChainedSegment;
use crate::scan::scanner::{LogScanner, ScanItem};
use crate::write::preallocation::file::{PreallocatedSegment, cannot_create, length_for};
use crate::write::rotation::{Predecessor, RotationPlan, rotate};
use crate::write::truncation::removal::{RemovedSegments, SegmentRemoval, remove_files};
use crate::write::writer::Writer;
use seawall_format::scan::Limit;
use seawall_format::{Lsn, SegmentHeader, SegmentId, next_lsn};
use seawall_io::Access;
use std::collections::{BTreeSet, VecDeque};

impl Writer {
    /// Records that nothing before `lsn` is needed any more; keeps the previous checkpoint too.
    /// Returns the removal of the segments that the log's retention rule removes then.
    pub(crate) fn checkpoint(&mut self, lsn: Lsn) -> Result<Option<SegmentRemoval>> {
        let end = next_lsn(self.last);
        if lsn > end {
            let why = format!(
                "a checkpoint at {lsn} is beyond the end of the log; the next record is {end}"
            );
            return Err(Error::InvalidOption { log: None, why });
        }
        let oldest = self.manifest.content.oldest_base;
        if lsn < oldest {
            return Err(Error::pruned(oldest));
        }
        let [newest, _] = self.manifest.content.checkpoints;
        let before = newest.map(|newest| newest.min(lsn));
        self.manifest.content.checkpoints = [Some(lsn), before];
        self.write_manifest()?;
        self.begin_to_retain(false)
    }

    /// Applies the log's retention rule if a rotation happened since it was last applied: after the
    /// first batch of a segment, because the segment that `live` names must not be removed. Leaves
    /// manifest and files to the preallocator, if there is one.
    pub(crate) fn retain_if_due(&mut self) -> Result<()> {
        if !self.retained.is_due {
            return Ok(());
        }
        let removal = self.begin_to_retain(self.env.has_preallocator)?;
        if self.env.has_preallocator {
            self.removals.extend(removal);
            return Ok(());
        }
        removal.map_or(Ok(()), SegmentRemoval::run)
    }

    /// Removes segments by the log's retention rule. The caller has published the tail to readers.
    pub(crate) fn retain(&mut self) -> Result<()> {
        self.begin_to_retain(false)?.map_or(Ok(()), SegmentRemoval::run)
    }

    /// Takes segments out of the log by its retention rule. Returns the removal of their files,
    /// which needs no writer; if this call `defers` the write of the manifest, the removal does it.
    /// Batches may be in flight.
    fn begin_to_retain(&mut self, defers: bool) -> Result<Option<SegmentRemoval>> {
        self.retained.is_due = false;
        let Some(rule) = self.retained.rule else { return Ok(None) };
        // If a file cannot be examined, all segments stay for now; that loses nothing.
        let Ok(live) = self.live_segments() else { return Ok(None) };
        let checkpoints = self.manifest.content.checkpoints;
        let gone = rule.excess(&live, checkpoints, self.env.clock.wall_us());
        if gone == 0 {
            return Ok(None);
        }
        let oldest = live.get(gone).expect("the tail stays").base;
        let (_, removal) = self.begin_to_truncate_before(oldest, defers)?;
        Ok(removal)
    }

    fn live_segments(&mut self) -> Result<Vec<LiveSegment>> {
        let needs_lengths = self.retained.rule.is_some_and(|rule| rule.needs_lengths());
        let mut live = vec![];
        for header in &self.chain {
            let length = match self.retained.lengths.get(&header.id) {
                Some(length) => *length,
                None if needs_lengths => {
                    let segment = Segment::open_known(&self.env.storage, header)?;
                    self.retained.lengths.insert(header.id, segment.size());
                    segment.size()
                }
                None => 0,
            };
            live.push(LiveSegment { length, base: header.base, time_us: header.time_us });
        }
        let SegmentHeader { base, time_us, .. } = self.tail.header;
        let length = self.tail.size();
        live.push(LiveSegment { length, base, time_us });
        Ok(live)
    }

    /// Takes segments that hold only records before `lsn` out of the log, durably. Returns the
    /// first LSN that is left, and the removal of the files, which needs no writer.
    pub(crate) fn truncate_before(&mut self, lsn: Lsn) -> Result<(Lsn, Option<SegmentRemoval>)> {
        self.begin_to_truncate_before(lsn, false)
    }

    /// Takes segments that hold only records before `lsn` out of the log, durably unless it
    /// `defers` the write of the manifest to the removal of their files. Returns the first LSN that
    /// is left.
    fn begin_to_truncate_before(
        &mut self,
        lsn: Lsn,
        defers: bool,
    ) -> Result<(Lsn, Option<SegmentRemoval>)> {
        let live: Vec<_> = self.chain.iter().chain([&self.tail.header]).cloned().collect();
        let keep = live.iter().rposition(|header| header.base <= lsn).unwrap_or(0);
        let oldest = live.get(keep).expect("a log has a segment");
        if keep == 0 {
            return Ok((oldest.base, None));
        }
        let content = &mut self.manifest.content;
        content.oldest = oldest.reference();
        content.oldest_base = oldest.base;
        for checkpoint in &mut content.checkpoints {
            // Replay from this checkpoint would start in a removed segment.
            *checkpoint = checkpoint.filter(|checkpoint| *checkpoint >= oldest.base);
        }
        self.env.spare_files.expect();
        let room = self.env.spare_files.room();
        let removed = live.iter().take(keep).rev();
        let spares: Vec<_> = removed.filter(|header| may_be_spare(header, content)).collect();
        let spares = spares.into_iter().take(room).cloned().collect::<Vec<_>>();
        // The manifest first: programs that do not know reused files must refuse the log.
        content.reuses |= !spares.is_empty();
        let manifest = self.begin_manifest_write()?;
        if defers {
            self.deferred_write = Some(manifest.clone());
        } else {
            manifest.finish()?;
        }
        self.chain.drain(..keep);
        self.counts.pruned += u64::try_from(keep).expect("fits in 64 bits");
        self.retained.lengths.retain(|id, _| *id >= oldest.id);
        let spares = spares.into_iter().map(|header| {
            let sums = self.sums.remove(&header.id);
            (header, sums)
        });
        let (spares, frees_at_once) = (spares.collect(), self.frees_at_once());
        self.sums.retain(|id, _| *id >= oldest.id);
        let env = self.env.clone();
        let manifest = defers.then_some(manifest);
        let segments = RemovedSegments::Before(oldest.id);
        let removal = SegmentRemoval { env, manifest, segments, spares, frees_at_once };
        Ok((oldest.base, Some(removal)))
    }

    /// Gives up every record after `last`, or all that are left. Once the new segment is durable
    /// they never come back, even if a later step fails. Returns the removal of their files, which
    /// needs no writer. The inner error means that nothing was changed: a file could not be read or
    /// created, or readers could not be told.
    pub(crate) fn truncate_after(
        &mut self,
        last: Option<Lsn>,
    ) -> Result<Result<Option<SegmentRemoval>>> {
        let first = self.chain.first().unwrap_or(&self.tail.header).base;
        // If the log was opened with its beginning lost, the first segment found counts.
        let oldest = self.manifest.content.oldest_base.max(first);
        // LSNs before the first record are never reused.
        let last = last.or(oldest.previous());
        if last >= self.last {
            return Ok(Ok(None));
        }
        let next = next_lsn(last);
        if next < oldest {
            return Err(Error::pruned(oldest));
        }
        self.refuse_in_gap(last)?;
        self.check_names()?;
        let mut live: Vec<_> = self.chain.iter().chain([&self.tail.header]).cloned().collect();
        let keep = live.iter().rposition(|header| header.base <= next).expect("checked above");
        let holder = live.get(keep).expect("just found").clone();
        let dead: Vec<SegmentId> = live.drain(keep + 1..).map(|header| header.id).collect();
        let (named, had_spare) = (holder.reference(), self.spare.is_some());
        let plan = match self.plan_truncation(holder, last) {
            Ok(plan) => plan,
            Err(refused) => return Ok(Err(refused)),
        };
        let chain_before = plan.chain_before;
        // Readers first: they must not return records that are about to be removed.
        if let Err(error) = self.stop_readers(named, last) {
            match plan.spare {
                spare if had_spare && self.spare.is_none() => self.spare = spare,
                Some(created) => created.discard(&self.env),
                None => {}
            }
            return Ok(Err(error));
        }
        let checkpoints = &mut self.manifest.content.checkpoints;
        if checkpoints.iter().any(|checkpoint| *checkpoint > Some(next)) {
            *checkpoints = checkpoints.map(|checkpoint| checkpoint.map(|lsn| lsn.min(next)));
            self.write_manifest()?;
        }
        let rotated = rotate(&self.env, &self.manifest.content, plan, &mut self.max_id)?;
        (self.last, self.last_chain) = (last, chain_before);
        std::mem::replace(&mut self.tail, rotated.tail).release_reserved();
        self.recent = VecDeque::new();
        self.sums.retain(|id, _| !dead.contains(id));
        self.chain = live;
        self.gaps.retain(|gap| gap.lost.and_then(|lost| lost.to) <= last);
        self.chain.extend(rotated.skipped_segments);
        self.renew_spare();
        self.tell_readers();
        let (env, frees_at_once) = (self.env.clone(), self.frees_at_once());
        let segments = RemovedSegments::Listed(dead);
        let removal =
            SegmentRemoval { env, manifest: None, segments, spares: vec![], frees_at_once };
        Ok(Ok(Some(removal)))
    }

    /// Does what can fail before anything is changed: finds where the log continues after `last`,
    /// which `holder` contains, and gets a file.
    fn plan_truncation(
        &mut self,
        holder: SegmentHeader,
        last: Option<Lsn>,
    ) -> Result<RotationPlan> {
        let (name, chain_before) = (holder.head_name(), self.chain_of(&holder, last)?);
        let file = self.env.storage.open(&name, Access::ReadWrite);
        let head = file.map_err(Error::io(format!("open {name} for writing")))?;
        let log = &self.manifest.content;
        let (usual, size_min) = (length_for(log, 0, self.segment_min), length_for(log, 0, 0));
        // On a full disk there may be no other space.
        let is_large = |spare: &mut PreallocatedSegment| {
            spare.reserved.is_none_or(|reserved| reserved >= size_min)
        };
        let spare = match self.spare.take_if(is_large) {
            Some(spare) => spare,
            None => PreallocatedSegment::create_now(&self.env, log, (usual, size_min))
                .map_err(cannot_create)?,
        };
        Ok(RotationPlan {
            base: next_lsn(last),
            carry: vec![],
            chain_before,
            pred: Some(Predecessor { header: holder, head, seal_failed: false }),
            size_min: self.segment_min,
            reserve: 0,
            spare: Some(spare),
            in_flight_max: 1,
        })
    }

    /// Refuses a truncation after `last` if it and the next record are lost in one gap: batches in
    /// the segment before the gap that have these LSNs do not count, and must not come back.
    fn refuse_in_gap(&self, last: Option<Lsn>) -> Result<()> {
        let splits =
            |gap: &&Damage| gap.lost.is_some_and(|lost| Some(lost.from) <= last && last < lost.to);
        self.gaps.iter().find(splits).map_or(Ok(()), |gap| Err(Error::damaged(gap.clone())))
    }

    /// The chain value of the batch in `holder` that contains `last`.
    fn chain_of(&self, holder: &SegmentHeader, last: Option<Lsn>) -> Result<u64> {
        if last < Some(holder.base) {
            return Ok(holder.pred_chain);
        }
        let segment = Segment::open_known(&self.env.storage, holder)?;
        let mut scan =
            LogScanner::of_segment(&ChainedSegment { segment, limit: Limit::At(last), gap: None })
                .without_decoding();
        let mut chain = 0;
        loop {
            match scan.step()? {
                ScanItem::Batch(batch) => chain = batch.header.chain_value(),
                ScanItem::End(_) => return Ok(chain),
                ScanItem::Damage(damages, _) => {
                    let damage = damages.into_iter().next().expect("damage is named");
                    return Err(Error::damaged(damage));
                }
            }
        }
    }

    /// Unlinks segments outside the chain: those that a truncation could not remove, those whose
    /// removal a crash undid, and texts without a head from an unfinished rotation. None of them
    /// holds acknowledged records. Segments in `kept` stay.
    pub(crate) fn remove_orphan_segments(&self, kept: &[SegmentId]) -> Result<()> {
        let live = self.chain.iter().chain([&self.tail.header]);
        let live: BTreeSet<SegmentId> = live.map(|header| header.id).collect();
        let removed = self.remove_segments(|id| !live.contains(&id) && !kept.contains(&id));
        self.env.deferred_delete.drain();
        removed
    }

    /// Unlinks segments that the log no longer contains.
    pub(crate) fn remove_segments(&self, is_removed: impl Fn(SegmentId) -> bool) -> Result<()> {
        remove_files(&self.env, is_removed, vec![], self.frees_at_once())
    }

    /// Whether removed files give their space back at once.
    fn frees_at_once(&self) -> bool {
        self.tail.header.layout.has_growing_file()
    }
}
