//! Builds the live chain: which segments count, in which order, and what is missing between them.
//! format.md section 6.

use crate::base::error::{Corruption, Damage, Lost, Origin, Result, missing_segment};
use crate::base::keys::LogKeys;
use crate::files::live::{Watermark, WatermarkSource};
use crate::files::parity_file::knows_more;
use crate::files::segment::{OpenOutcome, Segment, open_checked};
use crate::scan::catalog::{ChainFault, ChainTop, ChainedSegment, MissingTail, Orphan};
use crate::scan::orphans;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, Manifest, Offset, Seal, SegmentHeader, SegmentId, SegmentRef, next_lsn};
use seawall_io::Storage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The previous segment, if there is one, and the gap before the current segment.
type PreviousLink = (Option<(Segment, Limit)>, Option<(ChainFault, Damage)>);

/// The segment headers of a directory, by the id in the file name.
#[derive(Default)]
pub(crate) struct Headers {
    pub(super) sound: BTreeMap<SegmentId, Segment>,
    pub(super) bad: BTreeMap<SegmentId, Corruption>,
    /// Segments that were named ahead and do not say where they begin, until they are placed.
    pub(super) named_ahead: BTreeMap<SegmentId, Segment>,
    /// The highest segment that was named ahead, if it has not begun.
    pub(super) unbegun: Option<Segment>,
    /// Whether `unbegun` has begun after all, and the end of the segment before it is ambiguous.
    pub(super) end_is_doubtful: bool,
    /// For each sound file under a wrong name, the segment that it contains.
    misplaced: BTreeMap<SegmentId, SegmentRef>,
}

impl Headers {
    /// Reads the header of the segment file `name`. With `is_beyond`, the file is past the newest
    /// segment that readers may see, and a bad header is ignored: the writer may still be creating
    /// it.
    pub(crate) fn read(
        &mut self,
        storage: &Arc<dyn Storage>,
        (id, name, is_beyond): (SegmentId, &str, bool),
        log: (Option<&Manifest>, Option<&LogKeys>),
    ) -> Result<()> {
        match open_checked(storage, name, log)? {
            OpenOutcome::Sound(segment) => drop(self.sound.insert(id, segment)),
            OpenOutcome::NamedAhead(segment) => drop(self.named_ahead.insert(id, segment)),
            _ if is_beyond => {}
            OpenOutcome::Misplaced(cause, reference) => {
                self.bad.insert(id, cause);
                self.misplaced.insert(id, reference);
            }
            OpenOutcome::Bad(cause) => drop(self.bad.insert(id, cause)),
            OpenOutcome::Gone => {}
        }
        Ok(())
    }

    /// Returns the manifest with a lower first LSN if the headers prove one.
    pub(crate) fn with_proven_start(&self, mut manifest: Manifest) -> Manifest {
        manifest.oldest_base = if self.are_all_foreign() {
            // Every segment belongs to another log, so where this one began is unknown.
            Lsn::FIRST
        } else {
            // The header proves that these records were not pruned, whatever the manifest says.
            let base = self.base_of(manifest.oldest).unwrap_or(manifest.oldest_base);
            manifest.oldest_base.min(base)
        };
        manifest
    }

    /// Whether the directory has segments of another log and none of this one.
    fn are_all_foreign(&self) -> bool {
        self.sound.is_empty()
            && self.named_ahead.is_empty()
            && self.bad.values().any(|cause| *cause == Corruption::ForeignEpoch)
    }

    /// The first LSN of `segment`, if its header is sound.
    fn base_of(&self, segment: SegmentRef) -> Option<Lsn> {
        let header = &self.sound.get(&segment.id)?.header;
        (header.epoch == segment.epoch).then_some(header.base)
    }

    /// Whether any segment contains a batch, mark or seal, or its parity knows of records. A bad
    /// header counts as yes.
    pub(crate) fn hold_something(&self) -> Result<bool> {
        if !self.bad.is_empty() || !self.named_ahead.is_empty() {
            return Ok(true);
        }
        for segment in self.sound.values() {
            let start = Offset(segment.header.data_start());
            if segment.holds_something()? || knows_more(segment, start) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Builds the live chain, from the newest segment back to the oldest. `files` are the names in
    /// the directory.
    pub(crate) fn build_chain(
        &mut self,
        (manifest, files): (Option<&Manifest>, &[String]),
        watermark: Option<&Watermark>,
    ) -> Result<(Vec<ChainedSegment>, ChainTop)> {
        let running = watermark.filter(|watermark| watermark.is_running());
        let named = running.map(|watermark| self.named_by(watermark)).transpose()?.flatten();
        let named = named.or_else(|| self.successor_of_removed(running?));
        // Segments past the one in the watermark are still being created, unless `named_by` chose
        // one.
        self.sound.retain(|id, _| running.is_none_or(|watermark| *id <= watermark.live.segment.id));
        let (newest, top) = match named {
            Some(newest) => (Some(newest), ChainTop::Complete),
            // The segment in the watermark is missing; the older ones are still readable.
            None => self.newest((manifest, files), watermark)?,
        };
        let Some(newest) = newest else {
            let id = running.map(|watermark| watermark.live.segment.id);
            let id = id.or(self.bad.keys().next_back().copied());
            let id = id.or(manifest.map(|manifest| manifest.oldest.id));
            let id = id.unwrap_or(SegmentId::FIRST);
            return Ok((vec![], ChainTop::Missing(self.missing(id, ChainFault::OldestMissing))));
        };
        Ok((self.links_down_from(newest, manifest)?, top))
    }

    /// The segments from the oldest to `newest`, without those whose base is wrong.
    fn links_down_from(
        &self,
        (mut segment, mut limit): (Segment, Limit),
        manifest: Option<&Manifest>,
    ) -> Result<Vec<ChainedSegment>> {
        let mut chain = vec![];
        let mut lowest = segment.header.base;
        loop {
            let (mut below, mut gap) = self.below(&segment.header, manifest)?;
            chain.push(ChainedSegment { segment, limit, gap: None });
            while let Some((wrong, _)) =
                below.as_ref().filter(|(next, _)| next.header.base > lowest)
                && let Some(base) = proven_base(&chain, wrong.header.base)?
            {
                // A segment with a wrong base still tells which segment comes before it.
                let header = SegmentHeader { base, ..wrong.header.clone() };
                let (next, other) = self.below(&header, manifest)?;
                let lost = lost_before(base, start_of(manifest)).filter(|_| next.is_none());
                let damage = missing_segment(header.id, Corruption::Order, lost);
                gap = Some(other.unwrap_or((ChainFault::ChainBroken, damage)));
                below = next;
            }
            if let Some(above) = chain.last_mut() {
                above.gap = gap;
            }
            let Some(next) = below else { break };
            (segment, limit) = next;
            lowest = lowest.min(segment.header.base);
        }
        chain.reverse();
        Ok(chain)
    }

    /// The newest segment according to a running writer.
    fn named_by(&self, Watermark { live, by }: &Watermark) -> Result<Option<(Segment, Limit)>> {
        let top = self.sound.get(&live.segment.id);
        let Some(top) = top.filter(|top| top.header.epoch == live.segment.epoch) else {
            return Ok(None);
        };
        if *by == WatermarkSource::Own {
            // This process is the writer. The next open finds out how far a failed truncation got.
            return Ok(Some((top.clone(), Limit::At(live.durable))));
        }
        // The seal ends before the durable LSN: after a failed sync the writer rewrote these
        // records into a successor, and `live` does not name that one yet. Records carried into it
        // are durable.
        let Some(seal) = top.seal()?.filter(|seal| seal.last < live.durable) else {
            return Ok(Some((top.clone(), Limit::At(live.durable))));
        };
        // Without that successor there is no newest segment: it is missing.
        let next = self.sound.get(&seal.next.id);
        let next = next.filter(|next| next.header.epoch == seal.next.epoch);
        Ok(next.map(|next| (next.clone(), Limit::At(next.header.carried))))
    }

    /// The replacement for a segment that a truncation removed after the watermark was read: the
    /// next segment, which links to an older predecessor. Records carried into it are durable.
    fn successor_of_removed(&self, watermark: &Watermark) -> Option<(Segment, Limit)> {
        let gone = watermark.live.segment.id;
        if self.sound.contains_key(&gone) || self.bad.contains_key(&gone) {
            return None;
        }
        // Not a segment that followed the removed one and was not removed with it.
        let follows = |next: &&Segment| next.header.pred.is_some_and(|pred| pred.id < gone);
        let next = self.sound.range(gone..).map(|(_, next)| next).find(follows)?;
        Some((next.clone(), Limit::At(next.header.carried)))
    }

    /// The newest segment in the directory, and what follows it: a missing segment if a seal, the
    /// last clean close or the watermark names one.
    fn newest(
        &self,
        (manifest, files): (Option<&Manifest>, &[String]),
        watermark: Option<&Watermark>,
    ) -> Result<(Option<(Segment, Limit)>, ChainTop)> {
        let newest = self.sound.keys().next_back().copied();
        let unbegun = self.unbegun.as_ref().map(|unbegun| &unbegun.header);
        // Ids only grow, so of several seals whose successor is missing, the one written last names
        // the highest id. The others may be in segments that a truncation could not remove.
        let mut last: Option<(&Segment, Seal)> = None;
        for (segment, seal) in self.seals(manifest)? {
            // A seal may name the segment that has not begun.
            let is_unbegun = unbegun.is_some_and(|unbegun| unbegun.id == seal.next.id);
            let leads_nowhere = newest.is_some_and(|newest| seal.next.id > newest) && !is_unbegun;
            let is_later = last.is_none_or(|(_, last)| seal.next.id >= last.next.id);
            // If another segment follows the one that is not there, the log goes on after it.
            let is_end = self.is_replaced(seal.next) && !self.is_followed(seal.next);
            if is_later && (leads_nowhere || is_end) {
                last = Some((segment, seal));
            }
        }
        if let Some((segment, seal)) = last {
            let missing = self.not_there(seal.next, self.is_replaced(seal.next));
            let newest = (segment.clone(), Limit::At(seal.last));
            return Ok((Some(newest), ChainTop::Missing(missing)));
        }
        let closed = manifest.and_then(|manifest| manifest.closed);
        let replaced = closed.filter(|closed| self.is_replaced(closed.segment));
        let replaced = replaced.map(|closed| self.not_there(closed.segment, true));
        let above = self.bad.keys().rev().copied();
        let above = above.take_while(|id| newest.is_none_or(|newest| *id > newest));
        let above: Vec<_> = above.collect();
        let named = closed.map(|closed| closed.segment.id).max(above.first().copied());
        let named = named.filter(|id| newest.is_none_or(|newest| *id > newest));
        let missing = named.map(|id| self.missing(id, ChainFault::NewestMissing)).or(replaced);
        // If a segment was named ahead, the segment before it existed.
        let before = unbegun.and_then(|unbegun| unbegun.pred);
        let before = before.filter(|pred| {
            self.sound.get(&pred.id).is_none_or(|found| found.header.epoch != pred.epoch)
        });
        let before = before.map(|pred| self.not_there(pred, self.is_replaced(pred)));
        let missing = missing.or(before);
        // `live` names a segment only after it is durable, and the segment is removed only after
        // one with a higher id exists. A running writer may have removed it since the listing.
        let is_missing = |watermark: &Watermark| {
            let is_above = newest.is_none_or(|newest| watermark.live.segment.id > newest);
            let is_of_this_log = manifest.is_none_or(|log| log.log == watermark.live.log);
            watermark.is_running() || (is_above && is_of_this_log)
        };
        let newest = newest.and_then(|id| self.sound.get(&id).cloned());
        let mut top = missing.map_or(ChainTop::Complete, ChainTop::Missing);
        if let Some(watermark) = watermark.filter(|watermark| is_missing(watermark)) {
            let id = watermark.live.segment.id;
            let published = || self.missing(id, ChainFault::NewestMissing);
            top = ChainTop::Missing(missing.unwrap_or_else(published));
        } else if let Some((newest, manifest)) = newest.as_ref().zip(manifest)
            && before.is_none()
        {
            let orphans = self.orphans((newest, manifest), files, &above)?;
            top = if orphans.is_empty() { top } else { ChainTop::Orphans(orphans) };
        }
        Ok((newest.map(|newest| (newest, Limit::Open)), top))
    }

    /// The highest id that a seal, the clean close or `live` names, if the newest segment is
    /// missing. Otherwise a file has it.
    pub(crate) fn highest_named(
        &self,
        top: &ChainTop,
        (manifest, watermark): (Option<&Manifest>, Option<&Watermark>),
    ) -> Result<Option<SegmentId>> {
        let ChainTop::Missing(missing) = top else { return Ok(None) };
        let closed = manifest.and_then(|manifest| manifest.closed);
        let closed = closed.map(|closed| closed.segment.id);
        let live = watermark.map(|watermark| watermark.live);
        let live = live.filter(|live| manifest.is_none_or(|log| log.log == live.log));
        let live = live.map(|live| live.segment.id);
        let sealed = self.seals(manifest)?.into_iter().map(|(_, seal)| seal.next.id).max();
        Ok(sealed.max(closed).max(live).max(Some(missing.segment)))
    }

    /// The seals, oldest first. The seal of a file that took the place of a segment tells nothing
    /// about this log: an older seal or the manifest names that segment with another epoch.
    fn seals(&self, manifest: Option<&Manifest>) -> Result<Vec<(&Segment, Seal)>> {
        let closed = manifest.and_then(|manifest| manifest.closed).map(|closed| closed.segment);
        let named = manifest.map(|manifest| manifest.oldest).into_iter().chain(closed);
        let mut named: BTreeMap<_, _> = named.map(|named| (named.id, named.epoch)).collect();
        let mut seals = vec![];
        for (id, segment) in &self.sound {
            if named.get(id).is_some_and(|epoch| *epoch != segment.header.epoch) {
                continue;
            }
            if let Some(seal) = segment.seal()? {
                named.entry(seal.next.id).or_insert(seal.next.epoch);
                seals.push((segment, seal));
            }
        }
        Ok(seals)
    }

    /// The files above the newest segment, if none of them ever belonged to the log.
    fn orphans(
        &self,
        (newest, manifest): (&Segment, &Manifest),
        names: &[String],
        above: &[SegmentId],
    ) -> Result<Vec<Orphan>> {
        let is_elsewhere = |named: SegmentRef| {
            let is_there = self.sound.get(&named.id);
            let is_there = is_there.is_some_and(|found| found.header.epoch == named.epoch);
            is_there || named.id < manifest.oldest.id
        };
        orphans::find((newest, manifest), names, above, is_elsewhere)
    }

    /// Whether another segment has the id of `named`.
    fn is_replaced(&self, named: SegmentRef) -> bool {
        let unbegun = self.unbegun.as_ref().filter(|unbegun| unbegun.header.id == named.id);
        let found = self.sound.get(&named.id).or(unbegun);
        found.is_some_and(|found| found.header.epoch != named.epoch)
    }

    fn not_there(&self, named: SegmentRef, replaced: bool) -> MissingTail {
        let missing = self.missing(named.id, ChainFault::NewestMissing);
        let cause = if replaced { Corruption::SegmentReplaced } else { missing.cause };
        MissingTail { cause, ..missing }
    }

    /// The segment before `header`, and the gap between them if the direct predecessor is missing.
    fn below(&self, header: &SegmentHeader, manifest: Option<&Manifest>) -> Result<PreviousLink> {
        let oldest = manifest.map(|manifest| manifest.oldest);
        if let Some(manifest) = manifest.filter(|manifest| manifest.oldest.id == header.id) {
            let (cause, lost) = if manifest.oldest.epoch != header.epoch {
                (Corruption::SegmentReplaced, Some(Lost { from: header.base, to: None }))
            } else if header.base > manifest.oldest_base {
                (Corruption::Order, lost_before(header.base, manifest.oldest_base))
            } else {
                return Ok((None, None));
            };
            let damage = missing_segment(header.id, cause, lost);
            return Ok((None, Some((ChainFault::OldestMissing, damage))));
        }
        let Some(pred) = header.pred else {
            // This is the first segment ever created, yet the manifest names an older one as the
            // start.
            let gap = manifest.map(|manifest| {
                let lost = lost_before(header.base, manifest.oldest_base);
                let missing = self.missing(manifest.oldest.id, ChainFault::OldestMissing);
                (missing.fault, missing_segment(missing.segment, missing.cause, lost))
            });
            return Ok((None, gap));
        };
        let next = self.sound.get(&pred.id).filter(|next| next.header.epoch == pred.epoch);
        if let Some(next) = next {
            return Ok((Some((next.clone(), Limit::At(header.base.previous()))), None));
        }
        let is_oldest = oldest.is_some_and(|oldest| oldest.id >= pred.id);
        let fault = if is_oldest { ChainFault::OldestMissing } else { ChainFault::ChainBroken };
        let mut missing = self.missing(pred.id, fault);
        if self.is_replaced(pred) {
            missing.cause = Corruption::SegmentReplaced;
        }
        let older = self.sealed_before(header)?;
        let first = match &older {
            Some((_, last)) => next_lsn(*last),
            None => start_of(manifest),
        };
        let lost = lost_before(header.base, first);
        let gap = (missing.fault, missing_segment(missing.segment, missing.cause, lost));
        Ok((older.map(|(segment, last)| (segment, Limit::At(last))), Some(gap)))
    }

    /// The newest segment before the gap in front of `header`, and its last LSN.
    ///
    /// Its seal names the predecessor of `header`. If several segments are missing, no seal does:
    /// then the seal written last whose successor is missing counts, unless a segment exists
    /// between that successor and `header`.
    fn sealed_before(&self, header: &SegmentHeader) -> Result<Option<(Segment, Option<Lsn>)>> {
        let mut last: Option<(&Segment, Seal)> = None;
        for segment in self.sound.range(..header.id).map(|(_, segment)| segment) {
            let fits = |seal: &Seal| seal.next.id < header.id && seal.last < Some(header.base);
            let Some(seal) = segment.seal()?.filter(fits) else { continue };
            if Some(seal.next) == header.pred {
                return Ok(Some((segment.clone(), seal.last)));
            }
            let is_later = last.is_none_or(|(_, last)| seal.next.id > last.next.id);
            if is_later && !self.sound.contains_key(&seal.next.id) {
                last = Some((segment, seal));
            }
        }
        let last =
            last.filter(|(_, seal)| self.sound.range(seal.next.id..header.id).next().is_none());
        Ok(last.map(|(segment, seal)| (segment.clone(), seal.last)))
    }

    fn missing(&self, segment: SegmentId, fault: ChainFault) -> MissingTail {
        let named = self.misplaced.get(&segment);
        let twin = named.and_then(|named| {
            self.sound.get(&named.id).filter(|found| found.header.epoch == named.epoch)
        });
        let (fault, cause) = match self.bad.get(&segment) {
            Some(Corruption::Misplaced) if twin.is_some() => {
                (ChainFault::Misplaced, Corruption::Duplicated)
            }
            Some(cause @ (Corruption::Misplaced | Corruption::ForeignEpoch)) => {
                (ChainFault::Misplaced, *cause)
            }
            Some(Corruption::TextMissing) => (ChainFault::TextMissing, Corruption::TextMissing),
            Some(cause) => (ChainFault::HeaderUnreadable, *cause),
            None => (fault, Corruption::SegmentMissing),
        };
        // Ids are unique within one log only.
        let is_of_log = [Corruption::Misplaced, Corruption::Duplicated].contains(&cause);
        let origin = named.filter(|_| is_of_log);
        let origin = origin.map(|named| Origin { segment: named.id, offset: Offset(0) });
        MissingTail { fault, segment, cause, origin }
    }
}

/// The first LSN of the log, as far as is known.
fn start_of(manifest: Option<&Manifest>) -> Lsn {
    manifest.map_or(Lsn::FIRST, |manifest| manifest.oldest_base)
}

/// The records from `first` up to the one before `base`.
fn lost_before(base: Lsn, first: Lsn) -> Option<Lost> {
    let last = base.previous().filter(|last| *last >= first)?;
    Some(Lost { from: first, to: Some(last) })
}

/// The base of a later segment that contradicts `base`: it is lower, and the first batch of that
/// segment is valid.
fn proven_base(above: &[ChainedSegment], base: Lsn) -> Result<Option<Lsn>> {
    for link in above.iter().rev().filter(|link| link.segment.header.base < base) {
        let mut scan = LogScanner::of_segment(link).skip_io_errors(true).without_decoding();
        if matches!(scan.step()?, ScanItem::Batch(_)) {
            return Ok(Some(link.segment.header.base));
        }
    }
    Ok(None)
}
