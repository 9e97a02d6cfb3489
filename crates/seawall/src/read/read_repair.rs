//! What the parity beside segments says of bytes that damage took.

use crate::base::error::{Corruption, Damage, Error, Result, is_read_error};
use crate::base::num::to_u64;
use crate::files::directory::{is_not_found, list, read_small};
use crate::files::live::{Watermark, read_watermark};
use crate::files::overlay::{Overlay, Patch};
use crate::files::segment_reader::read_around;
use crate::parity::reconstruct::{FoundPatches, patches};
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem, TailFound};
use seawall_format::batch::{HEADER_SIZE as BATCH_HEADER_SIZE, Life};
use seawall_format::frame::Frames;
use seawall_format::parity::Known;
use seawall_format::scan::{Window, headers};
use seawall_format::{HEADER_SIZE, Layout, Lsn, Offset, SegmentHeader, SegmentId, tail};
use seawall_io::{Access, Storage};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

/// How often a look at the directory starts over because a writer pruned under it.
const ATTEMPTS: u32 = 8;

/// Who reads a log and comes to damage asks here, once for each segment, before the damage is
/// told.
#[derive(Debug, Default)]
pub(crate) struct ReadRepair {
    tried: BTreeSet<SegmentId>,
    /// What was put right so far.
    pub(crate) patches: Vec<Patch>,
    /// The log without that.
    unrepaired: Option<Arc<dyn Storage>>,
}

impl ReadRepair {
    /// The log without a view, if there was one; what was put right is forgotten.
    pub(crate) fn discard_view(&mut self) -> Option<Arc<dyn Storage>> {
        std::mem::take(self).unrepaired
    }

    /// Whether the damage, which shows in a view, is still there below it; and what it is, if the
    /// device refuses it.
    ///
    /// Of a block that the device refuses parity may know the beginning alone: what it does not
    /// know of is zero in the view. That is no damage but of the device; and no damage at all, if
    /// the device gives the block by now.
    pub(crate) fn is_still_there(&self, damage: &mut Damage) -> bool {
        let Some(unrepaired) = &self.unrepaired else { return true };
        let end = damage.offset.0.saturating_add(damage.bytes.max(1));
        let is_there = |patch: &&Patch| {
            SegmentId::from_any_name(&patch.file) == damage.segment
                && patch.offset < end
                && damage.offset.0 < patch.end()
        };
        for patch in self.patches.iter().filter(is_there) {
            let mut now = vec![0; patch.old.len()];
            let read = unrepaired
                .open(&patch.file, Access::Read)
                .and_then(|file| file.read_at(&mut now, patch.offset));
            match read {
                Ok(_) if now != patch.old => return false,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => damage.cause = Corruption::Unreadable,
            }
        }
        true
    }

    /// A view of the log in which more of it is sound, of what is damaged in these segments, or
    /// anywhere; `None` if there is nothing to be had.
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
                // What is told of a segment may be the matter of one of its neighbours.
                Some(id) => {
                    requested.extend(with_parity.range(..id).next_back());
                    // A segment without a header is seen by nobody, and once it has one, what its
                    // seal names is missing: so those behind it are asked with it.
                    let from_here = with_parity.range(id..);
                    let is_unseen = |side: &&SegmentId| !has_header(&**storage, **side);
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
        let FoundPatches { patches: mut found, unknown } = patches(storage, Some(&requested))?;
        if !found.is_empty() && !keeps_intact_records(storage, &found)? {
            found = drop_harmful_patches(storage, found)?;
        }
        if found.is_empty() {
            return Ok(None);
        }
        let view = Overlay::new(storage.clone(), &found).with_unknown(unknown);
        let view: Arc<dyn Storage> = Arc::new(view);
        self.patches.extend(found);
        self.unrepaired.get_or_insert_with(|| storage.clone());
        Ok(Some(view))
    }
}

/// Whether the header of this segment can be read.
fn has_header(storage: &dyn Storage, id: SegmentId) -> bool {
    [id.file_name(), id.head_name()].iter().any(|name| {
        let start = read_small(storage, name, HEADER_SIZE).ok().flatten();
        start.is_some_and(|start| SegmentHeader::decode(&start).is_ok())
    })
}

/// So many patches of which some do harm are looked at one by one.
const DOUBTFUL_MAX: usize = 64;

/// More records than a writer carries on from one failed write.
const CARRIED_MAX: usize = 1 << 20;

/// Those of the patches that take no intact record away, nor change one: parity may know of a
/// stripe what it never was, and takes nothing away.
fn drop_harmful_patches(storage: &Arc<dyn Storage>, patches: Vec<Patch>) -> Result<Vec<Patch>> {
    let mut kept = vec![];
    if patches.len() > DOUBTFUL_MAX {
        // That much is no matter of single blocks: nothing of it is believed.
        return Ok(kept);
    }
    for patch in patches {
        kept.push(patch);
        if !keeps_intact_records(storage, &kept)? {
            kept.pop();
        }
    }
    Ok(kept)
}

/// Whether every intact record is still there, and the same, in a view with these patches, and
/// every sound header of a batch: it says which records a damaged batch held.
pub(crate) fn keeps_intact_records(storage: &Arc<dyn Storage>, patches: &[Patch]) -> Result<bool> {
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(storage.clone(), patches));
    let (before, after) = match (load_catalog(storage, None), load_catalog(&view, None)) {
        // It cannot even be looked at.
        (Err(error), _) | (_, Err(error)) if is_read_error(&error) => return Ok(true),
        (before, after) => (before?, after?),
    };
    let touched: BTreeSet<_> =
        patches.iter().filter_map(|patch| SegmentId::from_any_name(&patch.file)).collect();
    let is_patched = |link: &&ChainedSegment| touched.contains(&link.segment.header.id);
    let mut missing = BTreeSet::new();
    for link in before.chain.iter().filter(is_patched) {
        if !keeps_headers((storage, &view), link, patches)? {
            return Ok(false);
        }
        let same = |other: &&ChainedSegment| other.segment.header == link.segment.header;
        let mut shown = Intact::of(after.chain.iter().find(same)).peekable();
        for record in Intact::of(Some(link)) {
            while shown.next_if(|next| next.0 < record.0).is_some() {}
            if shown.next_if_eq(&record).is_none() {
                missing.insert(record);
            }
            if missing.len() > CARRIED_MAX {
                return Ok(false);
            }
        }
    }
    // What a writer failed to write there it carried on, and it is shown where that is.
    for (number, link) in after.chain.iter().enumerate() {
        let next = after.chain.get(number + 1).map(|next| next.segment.header.base);
        let is_before = |first: &(Lsn, u32)| next.is_some_and(|next| next <= first.0);
        if missing.first().is_some_and(|first| !is_before(first)) {
            for record in Intact::of(Some(link)) {
                missing.remove(&record);
            }
        }
    }
    Ok(missing.is_empty())
}

/// Whether the sound headers of batches that patches reach are the same with them.
fn keeps_headers(
    (storage, view): (&Arc<dyn Storage>, &Arc<dyn Storage>),
    link: &ChainedSegment,
    patches: &[Patch],
) -> Result<bool> {
    let (header, name) = (&link.segment.header, link.segment.name());
    if header.layout == Layout::Text {
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

/// The intact records of a segment: their numbers, and what tells one payload from another.
struct Intact {
    scan: Option<LogScanner>,
    found: VecDeque<(Lsn, u32)>,
}

impl Intact {
    fn of(link: Option<&ChainedSegment>) -> Self {
        let scan = link.map(|link| LogScanner::of_segment(link).skip_io_errors(true));
        Self { scan, found: VecDeque::new() }
    }
}

impl Iterator for Intact {
    type Item = (Lsn, u32);

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let scan = self.scan.as_mut()?;
            match scan.step() {
                Ok(ScanItem::Batch(batch)) => {
                    let body = scan.bytes().get(batch.body.clone()).unwrap_or_default();
                    let frames = Frames::new(body, batch.header.first, batch.header.count);
                    let counted = frames.take_while(|frame| frame.lsn <= batch.last);
                    let counted = counted.map(|frame| (frame.lsn, Known::checksum(frame.payload)));
                    self.found.extend(counted);
                }
                Ok(ScanItem::Damage(_, salvaged)) => {
                    let payload = |range| scan.bytes().get(range).unwrap_or_default();
                    let sum = |range| Known::checksum(payload(range));
                    self.found.extend(salvaged.into_iter().map(|one| (one.lsn, sum(one.payload))));
                }
                Ok(ScanItem::ScanEnd(_)) | Err(_) => self.scan = None,
            }
        }
        self.found.pop_front()
    }
}

/// What the directory holds, and with the view that shows it, where parity gives back what the
/// device does not give of what a segment begins with, or a newest segment that is missing.
///
/// That one may be what a cut made: without it the records are shown that the cut took, so it is
/// asked for before a record is shown, and not when the walk comes to its place.
pub(crate) fn load_repaired_catalog(
    storage: &Arc<dyn Storage>,
    watermark: Option<&Watermark>,
    read_repair: &mut ReadRepair,
) -> Result<(Catalog, Option<Arc<dyn Storage>>)> {
    let (found, view) = match load_catalog(storage, watermark) {
        Err(error) if is_read_error(&error) => {
            let view = read_repair.view(storage, [None])?.ok_or(error)?;
            (load_catalog(&view, watermark)?, Some(view))
        }
        found => (found?, None),
    };
    let Some(missing_tail) = found.missing_tail else { return Ok((found, view)) };
    let log = view.as_ref().unwrap_or(storage);
    let Some(next) = read_repair.view(log, [Some(missing_tail.segment)])? else {
        return Ok((found, view));
    };
    // It ends: parity is asked once for each segment.
    match load_repaired_catalog(&next, watermark, read_repair) {
        // What parity gave back leads to what the device refuses.
        Err(error) if is_read_error(&error) => Ok((found, view)),
        repaired => repaired.map(|(catalog, view)| (catalog, Some(view.unwrap_or(next)))),
    }
}

/// The same, with what the writer says. The segment that it names may go in between.
#[expect(clippy::type_complexity, reason = "three things that are looked at together")]
pub(crate) fn load_current_catalog(
    storage: &Arc<dyn Storage>,
    read_repair: &mut ReadRepair,
) -> Result<(Option<Watermark>, Catalog, Option<Arc<dyn Storage>>)> {
    let mut attempt = 1;
    loop {
        let watermark = read_watermark(&**storage)?;
        match load_repaired_catalog(storage, watermark.as_ref(), read_repair) {
            Err(error) if is_not_found(&error) && attempt < ATTEMPTS => attempt += 1,
            found => return found.map(|(catalog, view)| (watermark, catalog, view)),
        }
    }
}

/// Whether the block in which a log seems to end is one that was lost: what stood there behind what
/// parity knows of may have been more.
pub(crate) fn hides_end(
    patches: &[Patch],
    (newest, end): (Option<&ChainedSegment>, Option<&TailFound>),
) -> bool {
    let end = end.filter(|end| end.row == tail::Row::Clean);
    let Some((newest, end)) = newest.zip(end) else { return false };
    let header = &newest.segment.header;
    let (start, block) = (header.data_start(), u64::from(header.geometry.block));
    let from = start + end.offset.0.saturating_sub(start) / block * block;
    let is_there =
        |patch: &Patch| patch.file == end.file && patch.offset < from + block && from < patch.end();
    from < end.offset.0 && patches.iter().any(is_there)
}
