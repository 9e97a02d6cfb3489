//! Read repair: rebuilds damaged bytes from parity in a view of the log, without changing files.

use crate::base::error::{Corruption, Damage, Error, Result, is_read_error};
use crate::base::num::to_u64;
use crate::files::directory::list;
use crate::files::live::Watermark;
use crate::files::overlay::{Overlay, Patch, Unknown};
use crate::files::segment::{OpenOutcome, open_checked};
use crate::files::segment_reader::read_around;
use crate::files::unlock::LogFiles;
use crate::parity::reconstruct::{FoundPatches, patches};
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::load::{load_catalog, load_unlocked};
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::batch::{HEADER_SIZE as BATCH_HEADER_SIZE, Life};
use seawall_format::frame::Frames;
use seawall_format::parity::Known;
use seawall_format::scan::{Window, headers};
use seawall_format::{Lsn, Offset, SegmentHeader, SegmentId, SegmentRef, tail};
use seawall_io::{Access, Storage};
use std::collections::{BTreeSet, VecDeque};
use std::iter::Peekable;
use std::sync::Arc;

/// Repairs a log in memory for one reader, once per segment, before damage is reported.
#[derive(Debug, Default)]
pub(crate) struct ReadRepair {
    tried: BTreeSet<SegmentId>,
    /// Repairs so far.
    pub(crate) patches: Vec<Patch>,
    /// Zeros of these repairs for bytes that parity does not cover.
    pub(crate) unknown: Vec<Unknown>,
    /// The log without the repairs.
    unrepaired: Option<Arc<dyn Storage>>,
}

impl ReadRepair {
    /// Returns the log without the repairs, if there are any, and forgets them.
    pub(crate) fn discard_view(&mut self) -> Option<Arc<dyn Storage>> {
        std::mem::take(self).unrepaired
    }

    /// Whether the damage, found in the repaired view, also exists without the repairs: the device
    /// may be able to read again what it could not read before.
    pub(crate) fn is_still_there(&self, damage: &Damage) -> bool {
        let Some(unrepaired) = &self.unrepaired else { return true };
        let end = damage.offset.0.saturating_add(damage.bytes.max(1));
        let is_there = |patch: &&Patch| {
            SegmentId::from_any_name(&patch.file) == damage.segment
                && patch.offset < end
                && damage.offset.0 < patch.end()
        };
        self.patches.iter().filter(is_there).all(|patch| {
            let mut now = vec![0; patch.old.len()];
            let read = unrepaired
                .open(&patch.file, Access::Read)
                .and_then(|file| file.read_at(&mut now, patch.offset));
            read.is_err() || now == patch.old
        })
    }

    /// Returns a view of the log in which parity repaired these segments, or every segment for
    /// `None`. Returns `None` if parity has nothing to add.
    pub(crate) fn view(
        &mut self,
        storage: &Arc<dyn Storage>,
        damaged: impl IntoIterator<Item = Option<SegmentId>>,
    ) -> Result<Option<Arc<dyn Storage>>> {
        let names = list(&**storage)?;
        let with_parity: BTreeSet<_> =
            names.iter().filter_map(|name| SegmentId::from_parity_name(name)).collect();
        let mut requested = BTreeSet::new();
        for damaged in damaged {
            match damaged {
                // Damage reported for a segment may come from one of its neighbours. Segments that
                // do not say where they begin are not in the chain. Once one of them is repaired,
                // the chain requires the segment before it, and its seal requires those after it,
                // so all of these are repaired together.
                Some(id) => {
                    let is_unseen = |side: &&SegmentId| is_unseen(storage, **side);
                    let before = with_parity.range(..id).rev();
                    let unseen = before.clone().take_while(is_unseen).count();
                    requested.extend(before.take(1 + unseen));
                    let from_here = with_parity.range(id..);
                    let unseen = from_here.clone().skip(1).take_while(is_unseen).count();
                    requested.extend(from_here.take(2 + unseen));
                }
                None => requested.extend(&with_parity),
            }
        }
        requested.retain(|id| self.tried.insert(*id));
        if requested.is_empty() {
            return Ok(None);
        }
        let FoundPatches { patches: mut found, mut unknown } = patches(storage, Some(&requested))?;
        if !found.is_empty() && !keeps_intact_records(storage, &found)? {
            // A repaired seal may name a damaged segment that was not requested, and replace an
            // intact one by it. Only both repairs together show the records of that one.
            let untried = with_parity.difference(&self.tried).copied();
            requested.extend(untried);
            let wider = patches(storage, Some(&requested))?;
            if wider.patches.len() <= DOUBTFUL_MAX {
                (found, unknown) = (wider.patches, wider.unknown);
                self.tried.extend(requested);
            }
            if !keeps_intact_records(storage, &found)? {
                found = drop_harmful_patches(storage, &found)?;
            }
        }
        if found.is_empty() {
            return Ok(None);
        }
        let view = Overlay::new(storage.clone(), &found).with_unknown(unknown.clone());
        let view: Arc<dyn Storage> = Arc::new(view);
        self.patches.extend(found);
        self.unknown.extend(unknown);
        self.unrepaired.get_or_insert_with(|| storage.clone());
        Ok(Some(view))
    }
}

/// A log as it is, and as it is with what parity repaired.
pub(crate) struct Repaired<T> {
    /// The result for the log as it is.
    pub(crate) first: Result<T>,
    /// The result for the last repaired view; `None` if parity adds nothing.
    pub(crate) last: Option<Result<T>>,
    /// The repairs of that view.
    pub(crate) patches: Vec<Patch>,
}

/// Reads the log, and again in a repaired view as long as parity repairs more of the segments that
/// the result puts in doubt.
///
/// # Errors
///
/// An error that parity cannot explain.
pub(crate) fn read_repaired<T>(
    storage: &Arc<dyn Storage>,
    mut read: impl FnMut(&Arc<dyn Storage>) -> Result<T>,
    doubtful: impl Fn(&T) -> Vec<Option<SegmentId>>,
) -> Result<Repaired<T>> {
    let (mut read_repair, mut view) = (ReadRepair::default(), storage.clone());
    let (first, mut last) = (read(storage), None);
    loop {
        let damaged = to_repair(last.as_ref().unwrap_or(&first), &doubtful);
        let Some(next) = read_repair.view(&view, damaged)? else { break };
        view = next;
        last = Some(read(&view));
    }
    match last {
        Some(Err(error)) if !is_read_error(&error) => Err(error),
        last => Ok(Repaired { first, last, patches: read_repair.patches }),
    }
}

/// The segments whose parity may change the result. A read error does not name a segment, so `None`
/// asks for all of them.
pub(crate) fn to_repair<T>(
    found: &Result<T>,
    doubtful: impl Fn(&T) -> Vec<Option<SegmentId>>,
) -> Vec<Option<SegmentId>> {
    match found {
        Ok(found) => doubtful(found),
        Err(Error::Damaged { damage, .. }) => vec![damage.segment],
        Err(error) if is_read_error(error) => vec![None],
        Err(_) => vec![],
    }
}

/// Whether neither the header of this segment nor its first batch says where it begins.
fn is_unseen(storage: &Arc<dyn Storage>, id: SegmentId) -> bool {
    let open = |name: &String| open_checked(storage, name, (None, None));
    let is_sound = |name| matches!(open(name), Ok(OpenOutcome::Sound(_)));
    ![id.file_name(), id.head_name()].iter().any(is_sound)
}

/// Up to this number of patches, harmful ones are sorted out one by one.
const DOUBTFUL_MAX: usize = 64;

/// More records than a writer carries over from one failed write.
const CARRIED_MAX: usize = 1 << 20;

/// Drops patches that remove or change an intact record: parity of a write that was never completed
/// may describe bytes that were never stored.
fn drop_harmful_patches(storage: &Arc<dyn Storage>, patches: &[Patch]) -> Result<Vec<Patch>> {
    let mut kept = vec![];
    if patches.len() > DOUBTFUL_MAX {
        // This many patches are not isolated damage, so none of them is trusted.
        return Ok(kept);
    }
    // Newest first, as the chain is built: without its successor a segment may hide records that it
    // shows with it.
    let id = |patch: &Patch| SegmentId::from_any_name(&patch.file);
    let segments = patches.chunk_by(|one, next| id(one) == id(next));
    for patch in segments.rev().flatten() {
        kept.push(patch.clone());
        if !keeps_intact_records(storage, &kept)? {
            kept.pop();
        }
    }
    Ok(kept)
}

/// Whether a view with these patches still shows every intact record and every valid batch header,
/// unchanged, except for truncated records. A header counts because it tells which records a
/// damaged batch held.
pub(crate) fn keeps_intact_records(storage: &Arc<dyn Storage>, patches: &[Patch]) -> Result<bool> {
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(storage.clone(), patches));
    let (before, after) = match (load_catalog(storage, None), load_catalog(&view, None)) {
        // The log cannot be read at all, so there is nothing to lose.
        (Err(error), _) | (_, Err(error)) if is_read_error(&error) => return Ok(true),
        (before, after) => (before?, after?),
    };
    let touched: BTreeSet<_> =
        patches.iter().filter_map(|patch| SegmentId::from_any_name(&patch.file)).collect();
    let mut missing = BTreeSet::new();
    for link in &before.chain {
        let segment = link.segment.header.reference();
        let shown = linked(&after, segment);
        let is_patched = touched.contains(&segment.id);
        if is_patched && !keeps_headers((storage, &view), link, patches)? {
            return Ok(false);
        }
        // The segments before one that was restored may not be in its chain.
        if shown.is_some() && !is_patched {
            continue;
        }
        let mut shown = Intact::of(shown).peekable();
        let next = follower(&after, segment.id);
        let kept = |run: IntactRun| run.up_to(next.map_or(Some(run.last), |next| next.carried));
        for run in Intact::of(Some(link)).map_while(kept) {
            for lost in run.without(&mut shown) {
                // Checked before the records are listed: a forged batch may count very many.
                let room = CARRIED_MAX.saturating_sub(missing.len());
                if lost.count() > to_u64(room) {
                    return Ok(false);
                }
                missing.extend(lost.records());
            }
        }
    }
    // Records of a failed write were carried over to a later segment and are found there.
    for (number, link) in after.chain.iter().enumerate() {
        let next = after.chain.get(number + 1).map(|next| next.segment.header.base);
        let is_before = |first: &(Lsn, u32)| next.is_some_and(|next| next <= first.0);
        if missing.first().is_some_and(|first| !is_before(first)) {
            for run in Intact::of(Some(link)) {
                let lies_there = |record: &&(Lsn, u32)| record.1 == run.sum;
                let range = missing.range((run.first, 0)..=(run.last, u32::MAX));
                let found: Vec<_> = range.filter(lies_there).copied().collect();
                for record in found {
                    missing.remove(&record);
                }
            }
        }
    }
    if let Some(first) = missing.first().map(|(lsn, _)| *lsn) {
        let end = torn_end(&after);
        return Ok(end.is_some_and(|end| end.last < Some(first) && end.is_before(patches)));
    }
    Ok(true)
}

/// This segment in the chain. Its first batch may say more about it here than in another view.
fn linked(catalog: &Catalog, segment: SegmentRef) -> Option<&ChainedSegment> {
    let at = catalog.chain.binary_search_by_key(&segment.id, |link| link.segment.header.id);
    let link = at.ok().and_then(|at| catalog.chain.get(at));
    link.filter(|link| link.segment.header.epoch == segment.epoch)
}

/// The later segment in the chain that follows this one, or an earlier one. If this one has records
/// after those that it carries, a truncation removed them.
fn follower(catalog: &Catalog, id: SegmentId) -> Option<&SegmentHeader> {
    let links = catalog.chain.iter().filter(|link| link.gap.is_none());
    let mut later = links.map(|link| &link.segment.header).filter(|next| next.id > id);
    later.find(|next| next.pred.is_some_and(|pred| pred.id <= id))
}

/// Where a log with a torn tail ends. No record after it was acknowledged: a write in flight may
/// have stored it although the one before did not.
struct TornEnd {
    last: Option<Lsn>,
    file: String,
    offset: Offset,
}

impl TornEnd {
    /// Whether the patches leave the bytes after it unchanged.
    fn is_before(&self, patches: &[Patch]) -> bool {
        patches.iter().filter(|patch| patch.file == self.file).all(|patch| {
            let kept = usize::try_from(self.offset.0.saturating_sub(patch.offset));
            let kept = kept.unwrap_or(usize::MAX);
            patch.old.get(kept..).unwrap_or_default() == patch.new.get(kept..).unwrap_or_default()
        })
    }
}

/// The end of a log if its tail is torn and the newest segment has no damage. `None` also if it
/// cannot be read.
fn torn_end(catalog: &Catalog) -> Option<TornEnd> {
    let newest = catalog.chain.last()?;
    let mut scan = LogScanner::within(catalog, newest, None).allow_locked();
    loop {
        match scan.step() {
            Ok(ScanItem::Batch(_)) => {}
            Ok(ScanItem::End(end))
                if end.damage.iter().all(|damage| damage.cause == Corruption::Keys) =>
            {
                let tail = end.tail.filter(|tail| tail.row.verdict() == tail::Verdict::Torn);
                return tail.map(|tail| TornEnd {
                    last: end.last,
                    file: tail.file,
                    offset: tail.offset,
                });
            }
            Ok(ScanItem::End(_) | ScanItem::Damage(..)) | Err(_) => return None,
        }
    }
}

/// Whether the patches leave the valid batch headers in their reach unchanged.
fn keeps_headers(
    (storage, view): (&Arc<dyn Storage>, &Arc<dyn Storage>),
    link: &ChainedSegment,
    patches: &[Patch],
) -> Result<bool> {
    let (header, name) = (&link.segment.header, link.segment.name());
    if !header.layout.has_batch_headers() {
        return Ok(true);
    }
    let open = |storage: &Arc<dyn Storage>| storage.open(&name, Access::Read);
    let (before, after) = open(storage)
        .and_then(|before| Ok((before, open(view)?)))
        .map_err(Error::io(format!("open {name}")))?;
    let life = Life::of(header);
    for patch in patches.iter().filter(|patch| patch.file == name) {
        let start = patch.offset.saturating_sub(to_u64(BATCH_HEADER_SIZE)).max(header.data_start());
        let start = start / 8 * 8;
        let size = patch.end().saturating_sub(start) + to_u64(BATCH_HEADER_SIZE);
        let (was, _) = read_around(&*before, start, size)?;
        let (is, _) = read_around(&*after, start, size)?;
        let (was, is) = (window(start, &was), window(start, &is));
        let size = to_u64(BATCH_HEADER_SIZE);
        let mut found = headers(was, was.start, &life);
        if found.any(|(offset, _)| was.range(offset, size) != is.range(offset, size)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn window(start: u64, bytes: &[u8]) -> Window<'_> {
    Window { start: Offset(start), bytes }
}

/// Used in place of the checksum of an encrypted payload: the checksum of no bytes.
const LOCKED: u32 = 0;

/// Intact records with consecutive LSNs and one payload checksum: one record, or those of an
/// encrypted batch. Only the batch says how many these are, so they are never listed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IntactRun {
    first: Lsn,
    last: Lsn,
    sum: u32,
}

impl IntactRun {
    fn one(lsn: Lsn, sum: u32) -> Self {
        Self { first: lsn, last: lsn, sum }
    }

    fn count(&self) -> u64 {
        self.last.get() - self.first.get() + 1
    }

    /// The records up to `last`, if there are any.
    fn up_to(self, last: Option<Lsn>) -> Option<Self> {
        let last = last.filter(|last| *last >= self.first)?.min(self.last);
        Some(Self { last, ..self })
    }

    fn records(self) -> impl Iterator<Item = (Lsn, u32)> {
        (0..self.count()).map(move |number| (self.first.plus(number), self.sum))
    }

    /// The records that `shown` lacks. Drops the runs of `shown` that end with or before this one.
    fn without(self, shown: &mut Peekable<Intact>) -> Vec<Self> {
        let (mut missing, mut rest) = (vec![], Some(self));
        while let Some(next) = shown.peek().copied().filter(|next| next.first <= self.last) {
            if let Some(run) = rest.filter(|run| next.last >= run.first && next.sum == run.sum) {
                missing.extend(run.up_to(next.first.previous()));
                rest = (next.last < run.last).then(|| Self { first: next.last.next(), ..run });
            }
            if shown.next_if(|next| next.last <= self.last).is_none() {
                break;
            }
        }
        missing.extend(rest);
        missing
    }
}

/// The intact records of a segment.
struct Intact {
    scan: Option<LogScanner>,
    found: VecDeque<IntactRun>,
}

impl Intact {
    fn of(link: Option<&ChainedSegment>) -> Self {
        let scan =
            link.map(|link| LogScanner::of_segment(link).skip_io_errors(true).allow_locked());
        Self { scan, found: VecDeque::new() }
    }
}

impl Iterator for Intact {
    type Item = IntactRun;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let scan = self.scan.as_mut()?;
            match scan.step() {
                // The header, which patches must not change, has the checksum of these records.
                Ok(ScanItem::Batch(batch)) if batch.is_locked => {
                    let (first, last) = (batch.header.first, batch.last);
                    let run = IntactRun { first, last, sum: LOCKED };
                    self.found.extend(Some(run).filter(|_| !batch.header.is_void()));
                }
                Ok(ScanItem::Batch(batch)) => {
                    let body = scan.bytes().get(batch.body.clone()).unwrap_or_default();
                    let frames = Frames::new(body, batch.header.first, batch.header.count);
                    let counted = frames.take_while(|frame| frame.lsn <= batch.last);
                    let counted = counted
                        .map(|frame| IntactRun::one(frame.lsn, Known::checksum(frame.payload)));
                    self.found.extend(counted);
                }
                Ok(ScanItem::Damage(_, salvaged)) => {
                    let payload = |range| scan.bytes().get(range).unwrap_or_default();
                    let sum = |range| Known::checksum(payload(range));
                    self.found.extend(
                        salvaged.into_iter().map(|one| IntactRun::one(one.lsn, sum(one.payload))),
                    );
                }
                Ok(ScanItem::End(_)) | Err(_) => self.scan = None,
            }
        }
        self.found.pop_front()
    }
}

/// Loads the catalog. Where parity can restore the unreadable start of a segment, or a missing
/// newest segment, also returns the view that shows it.
///
/// A missing newest segment may come from a truncation; without it the truncated records would
/// reappear. So it is restored before any record is shown.
pub(crate) fn load_repaired_catalog(
    log: &LogFiles,
    watermark: Option<&Watermark>,
    read_repair: &mut ReadRepair,
) -> Result<(Catalog, Option<Arc<dyn Storage>>)> {
    let (storage, unlocker) = (&log.storage, &*log.unlocker);
    let (found, view) = match load_unlocked(storage, watermark, unlocker) {
        Err(error) if is_read_error(&error) => {
            let view = read_repair.view(storage, [None])?.ok_or(error)?;
            (load_unlocked(&view, watermark, unlocker)?, Some(view))
        }
        found => (found?, None),
    };
    let Some(missing_tail) = found.missing_tail() else { return Ok((found, view)) };
    let shown = view.as_ref().unwrap_or(storage);
    let Some(next) = read_repair.view(shown, [Some(missing_tail.segment)])? else {
        return Ok((found, view));
    };
    // The recursion ends: parity is read once per segment.
    match load_repaired_catalog(&log.with_storage(next.clone()), watermark, read_repair) {
        // The restored segment refers to one that the device cannot read.
        Err(error) if is_read_error(&error) => Ok((found, view)),
        repaired => repaired.map(|(catalog, view)| (catalog, Some(view.unwrap_or(next)))),
    }
}

/// Whether the end of the log lies in a block that was lost: there may have been more records than
/// parity knows of.
pub(crate) fn hides_end(patches: &[Patch], newest: &SegmentHeader, end: Offset) -> bool {
    let (name, start) = (newest.data_name(), newest.data_start());
    let block = u64::from(newest.geometry.block);
    let from = start + end.0.saturating_sub(start) / block * block;
    let is_there =
        |patch: &Patch| patch.file == name && patch.offset < from + block && from < patch.end();
    from < end.0 && patches.iter().any(is_there)
}
