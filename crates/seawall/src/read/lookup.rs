//! Lookup of one record by LSN: a short scan that starts at a cached batch offset.
//!
//! The cache only decides where a scan starts; what it finds is verified as in any other scan. It
//! holds the catalog, until the writer names another newest segment, and the offsets of some
//! batches in recently used segments. An offset stays valid as long as the segment keeps its epoch,
//! because a batch is never rewritten in place. Before damage is reported, the lookup starts over
//! from the directory.

use crate::base::error::{Corruption, Damage, Error, Lost, Result, missing_segment};
use crate::base::sync::{Mutex, MutexGuard};
use crate::files::consistent_read::{Reading, moved, read_consistent};
use crate::files::live::{LiveSource, Watermark};
use crate::files::unlock::LogFiles;
use crate::read::read_repair::{ReadRepair, load_repaired_catalog, to_repair};
use crate::read::record_id::RecordId;
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::durable_end::Refused;
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use crate::scan::{durable_end, load};
use seawall_format::batch::BatchHeader;
use seawall_format::content_crc;
use seawall_format::frame::Frames;
use seawall_format::scan::Start;
use seawall_format::{Layout, Live, Lsn, SegmentId, SegmentRef};
use std::sync::{Arc, PoisonError};

/// Spacing of cached offsets in a segment, in bytes: the first batch in each range is cached.
const SPACING: u64 = 64 << 10;

/// Number of segments with cached offsets.
const SEGMENTS_MAX: usize = 64;

/// Finds records of one log; shared by any number of threads.
#[derive(Debug)]
pub(crate) struct Lookup {
    log: LogFiles,
    /// Not held during I/O: a search copies its start from here and adds what it saw afterwards.
    known: Mutex<Known>,
    /// A lookup on the view repaired from parity, once there is one.
    repaired: Mutex<Option<Arc<Lookup>>>,
}

#[derive(Debug, Default)]
struct Known {
    seen: Option<CachedCatalog>,
    batch_index: BatchIndex,
    /// A newest segment, and the record up to which it was found durable.
    durable: Option<(SegmentRef, Option<Lsn>)>,
    /// The segment whose sync failed, if any.
    refused: Option<Refused>,
}

/// The catalog from when the writer named `newest`; `None` without a running writer.
#[derive(Debug)]
struct CachedCatalog {
    catalog: Arc<Catalog>,
    newest: Option<SegmentRef>,
}

impl Lookup {
    pub(crate) fn new(log: LogFiles) -> Self {
        Self { log, known: Mutex::default(), repaired: Mutex::default() }
    }

    /// Finds record `lsn`. `source` tells how far the log is durable now, if a writer runs.
    /// Repairs damage from parity first, where possible.
    pub(crate) fn get(&self, lsn: Lsn, source: LiveSource<'_>) -> Result<Option<FoundRecord>> {
        self.get_repaired(lsn, source).map(LookupResult::record)
    }

    fn get_repaired(&self, lsn: Lsn, source: LiveSource<'_>) -> Result<LookupResult> {
        let found = self.get_unrepaired(lsn, source);
        let doubtful = to_repair(&found, LookupResult::doubtful);
        if doubtful.is_empty() {
            return found;
        }
        // The recursion ends: a view shows nothing more that parity can repair.
        match self.lookup_in_view(doubtful)? {
            Some(lookup) => lookup.get_repaired(lsn, source),
            None => found,
        }
    }

    /// A lookup in the view in which parity repaired these segments. Kept for later calls.
    fn lookup_in_view(&self, doubtful: Vec<Option<SegmentId>>) -> Result<Option<Arc<Self>>> {
        let known = self.repaired().clone();
        if known.is_some() {
            return Ok(known);
        }
        let view = ReadRepair::default().view(&self.log.storage, doubtful)?;
        let lookup = view.map(|view| Arc::new(Self::new(self.log.with_storage(view))));
        self.repaired().clone_from(&lookup);
        Ok(lookup)
    }

    fn repaired(&self) -> MutexGuard<'_, Option<Arc<Self>>> {
        self.repaired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get_unrepaired(&self, lsn: Lsn, source: LiveSource<'_>) -> Result<LookupResult> {
        let mut is_cached = true;
        read_consistent(source, |watermark| {
            let is_cached = std::mem::take(&mut is_cached);
            let catalog =
                if is_cached { self.recall(watermark) } else { self.reload(watermark, lsn) };
            // A watermark that contradicts the files may be out of date.
            let running = watermark.filter(|watermark| watermark.is_running());
            let matches_writer = |catalog: &Arc<Catalog>| {
                running.is_none_or(|watermark| catalog.matches_newest(&watermark.live))
            };
            let is_consistent = catalog.as_ref().is_ok_and(matches_writer);
            match catalog.and_then(|catalog| self.find(&catalog, watermark, lsn)) {
                Ok(found) if is_consistent => Ok(Reading::Certain(found)),
                // The cache can be older than the watermark, so what it shows proves nothing.
                _ if is_cached => Err(moved("look up a record with cached offsets")),
                found => found.map(Reading::Doubtful),
            }
        })
    }

    /// The cached catalog if it is still valid, else a new one.
    fn recall(&self, watermark: Option<&Watermark>) -> Result<Arc<Catalog>> {
        let newest = newest_of(watermark);
        let known = self.known();
        let fits = known.seen.as_ref().filter(|seen| seen.newest == newest);
        let kept = fits.map(|seen| seen.catalog.clone());
        drop(known);
        match kept {
            Some(kept) if newest.is_some() || load::still_holds(&*self.log, &kept)? => Ok(kept),
            _ => self.load_catalog(watermark),
        }
    }

    /// Loads a new catalog and drops the cached offsets of the segment that should hold `lsn`.
    fn reload(&self, watermark: Option<&Watermark>, lsn: Lsn) -> Result<Arc<Catalog>> {
        let catalog = self.load_catalog(watermark)?;
        if let Some(link) = holder(&catalog, lsn) {
            self.known().batch_index.forget(link.segment.header.reference());
        }
        Ok(catalog)
    }

    fn load_catalog(&self, watermark: Option<&Watermark>) -> Result<Arc<Catalog>> {
        let (catalog, _) = load_repaired_catalog(&self.log, watermark, &mut ReadRepair::default())?;
        let catalog = Arc::new(catalog);
        let newest = newest_of(watermark);
        self.known().seen = Some(CachedCatalog { catalog: catalog.clone(), newest });
        Ok(catalog)
    }

    fn find(
        &self,
        catalog: &Catalog,
        watermark: Option<&Watermark>,
        lsn: Lsn,
    ) -> Result<LookupResult> {
        let Some(Watermark { live, .. }) = watermark.filter(|watermark| watermark.is_running())
        else {
            return self.find_and_sync(catalog, watermark, lsn);
        };
        if Some(lsn) <= live.durable {
            return self.find_durable(catalog, (Some(live), None), lsn);
        }
        // The watermark is about the newest segment only: earlier ones are durable as a whole.
        let newest = catalog.chain.last().filter(|_| catalog.matches_newest(live));
        if newest.is_some_and(|link| link.segment.header.base <= lsn) {
            return Ok(LookupResult::NOT_FOUND);
        }
        match self.find_durable(catalog, (None, None), lsn) {
            // The record was not durable when the watermark was published.
            Err(Error::Damaged { .. }) => Ok(LookupResult::NOT_FOUND),
            found => found,
        }
    }

    /// Finds the record if it is durable. If nothing proves that it is, syncs the segment first.
    fn find_and_sync(
        &self,
        catalog: &Catalog,
        watermark: Option<&Watermark>,
        lsn: Lsn,
    ) -> Result<LookupResult> {
        let mut found = self.find_durable(catalog, (None, None), lsn);
        let is_open = matches!(found, Ok(LookupResult::NotFound(_)) | Err(Error::Damaged { .. }));
        if is_open && let Some(known) = durable_end::known(catalog, watermark)? {
            // Knowing how far the log is durable helps the scan past damage.
            let live = watermark.map(|watermark| &watermark.live);
            let is_published = Some(lsn) <= live.and_then(|live| catalog.durable_per(live));
            found = self.find_durable(catalog, (live.filter(|_| is_published), Some(known)), lsn);
            if is_published {
                return found;
            }
        }
        let found = found?;
        let newest = durable_end::open_end(catalog).filter(|link| link.segment.header.base <= lsn);
        let Some(newest) = newest.filter(|_| matches!(found, LookupResult::Record(..))) else {
            return Ok(found);
        };
        let segment = newest.segment.header.reference();
        let known = self.durable_in(segment).max(durable_end::known(catalog, watermark)?);
        if Some(lsn) <= known {
            return Ok(found);
        }
        let start = self.known().batch_index.nearest(segment, lsn);
        let scan = LogScanner::within(catalog, newest, start);
        let mut tail = durable_end::scan_beyond_known(catalog, scan, known)?;
        if !tail.knows(lsn) {
            let mut refused = self.known().refused.clone();
            tail.make_durable(catalog, &mut refused)?;
            self.known().refused = refused;
        }
        if let Some(refusal) = tail.refusal() {
            return Err(refusal);
        }
        self.known().durable = Some((segment, tail.durable()));
        Ok(found)
    }

    /// Up to where this segment was found durable before.
    fn durable_in(&self, segment: SegmentRef) -> Option<Lsn> {
        let known = self.known();
        known.durable.filter(|(of, _)| *of == segment).and_then(|(_, last)| last)
    }

    /// Finds the record. If `live` covers it, it must exist. Damage up to `known` is not a torn
    /// end.
    fn find_durable(
        &self,
        catalog: &Catalog,
        (live, known): (Option<&Live>, Option<Lsn>),
        lsn: Lsn,
    ) -> Result<LookupResult> {
        refuse_pruned(catalog, lsn)?;
        let end = holder_end(catalog, lsn);
        // Missing segments before and after the one that should hold the record; they may include
        // it.
        let around = catalog.chain.iter().take(end + 1).skip(end.saturating_sub(1));
        refuse_lost(around.filter_map(|link| link.gap.as_ref()).map(|(_, damage)| damage), lsn)?;
        let found = match holder(catalog, lsn) {
            Some(link) => self.search(catalog, link, (live, known, lsn))?,
            // The log may have no segment at all.
            None => Search::new(LogScanner::new(catalog, None), lsn).run()?,
        };
        let Some(live) = live.filter(|_| matches!(found, LookupResult::NotFound(_))) else {
            return Ok(found);
        };
        // The record was durable, and no missing segment accounts for it.
        let lost = Some(Lost { from: lsn, to: live.durable });
        let damage = missing_segment(live.segment.id, Corruption::SegmentMissing, lost);
        Err(Error::damaged(damage))
    }

    fn search(
        &self,
        catalog: &Catalog,
        link: &ChainedSegment,
        (live, known, lsn): (Option<&Live>, Option<Lsn>, Lsn),
    ) -> Result<LookupResult> {
        let segment = link.segment.header.reference();
        let start = self.known().batch_index.nearest(segment, lsn);
        let mut scan = LogScanner::within(catalog, link, start).with_min_end(known);
        if let Some(live) = live {
            // More may be durable than when the catalog was loaded.
            scan.extend(live);
        }
        let followers = catalog.chain.get(holder_end(catalog, lsn)..).unwrap_or_default();
        let mut search = Search { followers, ..Search::new(scan, lsn) };
        let found = search.run();
        self.known().batch_index.add(segment, search.visited);
        found
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic leaves nothing half done: each change is a single call of a collection.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest segment according to a running writer.
fn newest_of(watermark: Option<&Watermark>) -> Option<SegmentRef> {
    watermark.filter(|watermark| watermark.is_running()).map(|watermark| watermark.live.segment)
}

/// The segment that should hold the record.
fn holder(catalog: &Catalog, lsn: Lsn) -> Option<&ChainedSegment> {
    catalog.chain.get(holder_end(catalog, lsn).checked_sub(1)?)
}

/// The index in the chain after the segment that should hold the record.
fn holder_end(catalog: &Catalog, lsn: Lsn) -> usize {
    catalog.chain.partition_point(|link| link.segment.header.base <= lsn)
}

fn refuse_pruned(catalog: &Catalog, lsn: Lsn) -> Result<()> {
    let first = catalog.chain.first();
    // Without a manifest the first segment decides, unless segments before it are missing.
    let base = first.filter(|link| link.gap.is_none()).map(|link| link.segment.header.base);
    let oldest = catalog.manifest().map(|manifest| manifest.oldest_base).or(base);
    match oldest.filter(|oldest| lsn < *oldest) {
        Some(oldest) => Err(Error::pruned(oldest)),
        None => Ok(()),
    }
}

fn refuse_lost<'a>(damages: impl IntoIterator<Item = &'a Damage>, lsn: Lsn) -> Result<()> {
    let mut damages = damages.into_iter();
    match damages.find(|damage| damage.lost.is_some_and(|lost| lost.names(lsn))) {
        Some(damage) => Err(Error::damaged(damage.clone())),
        None => Ok(()),
    }
}

/// Outcome of a lookup.
enum LookupResult {
    Record(FoundRecord),
    /// No such record, as far as is known; these segments are or may be damaged.
    NotFound(Vec<Option<SegmentId>>),
}

impl LookupResult {
    const NOT_FOUND: Self = Self::NotFound(vec![]);

    fn record(self) -> Option<FoundRecord> {
        match self {
            Self::Record(record) => Some(record),
            Self::NotFound(_) => None,
        }
    }

    fn doubtful(&self) -> Vec<Option<SegmentId>> {
        match self {
            Self::Record(_) => vec![],
            Self::NotFound(doubtful) => doubtful.clone(),
        }
    }
}

/// A copy of a stored record.
#[derive(Debug)]
pub(crate) struct FoundRecord {
    pub(crate) schema: u32,
    /// Microseconds since 1970 when its batch was written; 0 if unknown.
    pub(crate) time_us: u64,
    pub(crate) payload: Vec<u8>,
}

impl FoundRecord {
    /// The id of this record, given its LSN and the log's layout.
    pub(crate) fn id(&self, lsn: Lsn, layout: Layout) -> RecordId {
        RecordId { lsn, time_us: self.time_us, crc: content_crc(&self.payload, layout) }
    }
}

/// The search for one record.
struct Search<'a> {
    scan: LogScanner,
    lsn: Lsn,
    /// The segments after the one that is searched.
    followers: &'a [ChainedSegment],
    /// Offsets of batches on the way, one per range.
    visited: Vec<Start>,
}

impl Search<'_> {
    fn new(scan: LogScanner, lsn: Lsn) -> Self {
        Self { scan, lsn, followers: &[], visited: vec![] }
    }

    fn run(&mut self) -> Result<LookupResult> {
        // After damage, the last LSN of the log is uncertain.
        let mut doubtful = vec![];
        loop {
            match self.scan.step()? {
                ScanItem::Batch(found) => {
                    let header = found.header;
                    self.visit(Start {
                        offset: found.start,
                        first: header.first,
                        chain: header.chain,
                    });
                    if self.lsn <= found.last && header.is_void() {
                        return Err(Error::damaged(self.given_up(&found)));
                    }
                    if self.lsn <= found.last {
                        refuse_lost(self.broken_link(&header).as_ref(), self.lsn)?;
                        let body = self.scan.bytes().get(found.body).unwrap_or_default();
                        let mut frames = Frames::new(body, header.first, header.count);
                        let frame = frames.find(|frame| frame.lsn == self.lsn);
                        let payload = frame.map(|frame| frame.payload);
                        return Ok(self.got(payload, header.time_us));
                    }
                }
                ScanItem::Damage(damages, salvaged) => {
                    let intact = salvaged.into_iter().find(|found| found.lsn == self.lsn);
                    if let Some(found) = intact {
                        let payload = self.scan.bytes().get(found.payload);
                        return Ok(self.got(payload, found.time_us));
                    }
                    refuse_lost(&damages, self.lsn)?;
                    doubtful.extend(damages.iter().map(|damage| damage.segment));
                }
                ScanItem::End(end) => {
                    refuse_lost(&end.damage, self.lsn)?;
                    doubtful.extend(end.doubtful());
                    return Ok(LookupResult::NotFound(doubtful));
                }
            }
        }
    }

    fn got(&self, payload: Option<&[u8]>, time_us: u64) -> LookupResult {
        let schema = self.scan.schema();
        payload.map_or(LookupResult::NOT_FOUND, |payload| {
            LookupResult::Record(FoundRecord { schema, time_us, payload: payload.to_vec() })
        })
    }

    /// The damage if the next segment follows another record than this one, the last of `batch`.
    fn broken_link(&self, batch: &BatchHeader) -> Option<Damage> {
        let is_next = |link: &&ChainedSegment| {
            link.gap.is_none() && link.segment.header.base == self.lsn.next()
        };
        let mut next = self.followers.iter().take_while(is_next).map(|link| &link.segment.header);
        let broken = next.find(|next| ![0, batch.chain_value()].contains(&next.pred_chain))?;
        let lost = Lost { from: self.lsn, to: Some(self.lsn) };
        Some(missing_segment(broken.id, Corruption::Order, Some(lost)))
    }

    /// The damage entry for records that a repair gave up.
    fn given_up(&self, found: &ScannedBatch) -> Damage {
        let lost = Some(Lost { from: found.header.first, to: Some(found.last) });
        let (segment, offset) = (self.scan.segment(), found.start);
        Damage { segment, offset, lost, ..Damage::new(Corruption::GivenUp) }
    }

    fn visit(&mut self, start: Start) {
        if self.visited.last().is_none_or(|last| bucket(last) != bucket(&start)) {
            self.visited.push(start);
        }
    }
}

/// The number of the 64 KiB range in which the batch begins.
fn bucket(start: &Start) -> u64 {
    start.offset.0 / SPACING
}

/// Offsets of batches in recently used segments, the most recent last.
#[derive(Debug, Default)]
struct BatchIndex(Vec<(SegmentRef, Vec<Start>)>);

impl BatchIndex {
    /// The last cached batch that starts at or before `lsn`.
    fn nearest(&mut self, segment: SegmentRef, lsn: Lsn) -> Option<Start> {
        let starts = self.take(segment)?;
        let end = starts.partition_point(|start| start.first <= lsn);
        let found = end.checked_sub(1).and_then(|at| starts.get(at).copied());
        self.0.push((segment, starts));
        found
    }

    fn add(&mut self, segment: SegmentRef, visited: Vec<Start>) {
        let mut starts = self.take(segment).unwrap_or_default();
        for start in visited {
            let number = bucket(&start);
            if let Err(at) = starts.binary_search_by_key(&number, bucket) {
                starts.insert(at, start);
            }
        }
        if self.0.len() == SEGMENTS_MAX {
            self.0.remove(0);
        }
        self.0.push((segment, starts));
    }

    fn forget(&mut self, segment: SegmentRef) {
        self.0.retain(|(known, _)| *known != segment);
    }

    fn take(&mut self, segment: SegmentRef) -> Option<Vec<Start>> {
        let at = self.0.iter().position(|(known, _)| *known == segment)?;
        Some(self.0.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::{Epoch, Offset, SegmentId};

    fn segment(number: u64) -> SegmentRef {
        SegmentRef { id: SegmentId::new(number).unwrap(), epoch: Epoch(number) }
    }

    fn start(number: u64, offset: u64) -> Start {
        Start { offset: Offset(offset), first: Lsn::new(number).unwrap(), chain: number }
    }

    #[test]
    fn index_stays_bounded_however_many_records_are_read() {
        const SIZE: u64 = 8 << 20;
        let mut batch_index = BatchIndex::default();
        for number in 1..=1_000 {
            for scan in 0..5 {
                // Each scan visits different batches of 1 KiB.
                let batches = (scan..SIZE / 1024).step_by(7);
                let visited = batches.map(|batch| start(batch + 1, batch * 1024)).collect();
                batch_index.add(segment(number), visited);
            }
        }
        assert_eq!(batch_index.0.len(), SEGMENTS_MAX);
        let most = batch_index.0.iter().map(|(_, starts)| starts.len()).max();
        assert!(most <= usize::try_from(SIZE / SPACING).ok(), "{most:?}");
    }

    #[test]
    fn least_recently_used_segment_is_forgotten() {
        let mut batch_index = BatchIndex::default();
        for number in 1..=65 {
            batch_index.add(segment(number), vec![start(1, 4096)]);
            batch_index.nearest(segment(1), Lsn::FIRST);
        }
        let kept = |batch_index: &mut BatchIndex, number| {
            batch_index.nearest(segment(number), Lsn::FIRST).is_some()
        };
        assert_eq!(
            [1, 2, 3, 65].map(|number| kept(&mut batch_index, number)),
            [true, false, true, true]
        );
    }

    #[test]
    fn nearest_batch_is_the_last_one_at_or_before_the_record() {
        let mut batch_index = BatchIndex::default();
        batch_index.add(segment(1), vec![start(1, 4096), start(50, 3 * SPACING)]);
        batch_index.add(segment(1), vec![start(20, 2 * SPACING), start(60, 3 * SPACING + 8)]);
        let mut nearest = |number| {
            batch_index
                .nearest(segment(1), Lsn::new(number).unwrap())
                .map(|start| start.first.get())
        };
        assert_eq!([1, 19, 20, 49, 50, 99].map(&mut nearest), [1, 1, 20, 20, 50, 50].map(Some));
    }
}
