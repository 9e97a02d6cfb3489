//! Determines up to where two copies of a log have the same history. After both were written to,
//! the same LSN may belong to different valid records, so a valid record in the replica is not
//! necessarily the one that this log lost.
//!
//! Each batch contains the checksums of the previous one. So an identical later batch proves that
//! everything before it is identical.

use crate::base::error::{Lost, Result};
use crate::base::num::to_u64;
use crate::files::directory::open_if_exists;
use crate::files::overlay::{Overlay, Patch, RepairSource};
use crate::files::segment::{OpenOutcome, Segment, open_checked};
use crate::files::segment_reader::{PAGE, length, read_around, read_header};
use crate::maintenance::restore::part;
use crate::scan::catalog::ChainedSegment;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use seawall_format::batch::{BatchHeader, HEADER_SIZE, Life};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, Offset, SegmentHeader};
use seawall_io::Storage;
use std::ops::Range;
use std::sync::Arc;

/// This log and its replica.
pub(super) type Pair<'a> = (&'a Arc<dyn Storage>, &'a Arc<dyn Storage>);

/// The shared history of two copies of a segment.
#[derive(Debug)]
pub(super) struct Shared {
    /// Both copies have the same history up to this offset of the data file.
    to: u64,
    /// Damaged batches and lines after `to` that the remaining bytes identify as the replica's.
    known: Vec<Range<u64>>,
    /// Whether all that the replica has of the segment is shared history.
    pub(super) is_all: bool,
    /// Whether no batch of the segment is readable in this log.
    pub(super) is_not_found: bool,
}

impl Shared {
    /// Compares the two copies of the segment with this header of the replica.
    pub(super) fn of((log, replica): Pair<'_>, header: &SegmentHeader) -> Result<Self> {
        let mut shared = Self { to: 0, known: vec![], is_all: false, is_not_found: true };
        let Some(theirs) = segment_of(replica, header)? else { return Ok(shared) };
        let ours = segment_of(log, header)?;
        let damaged = match &ours {
            Some(ours) => shared.compare(ours, &theirs)?,
            None => vec![],
        };
        let next = successor(log, header)?;
        if has_same_successor(replica, next.as_ref())? {
            (shared.to, shared.is_all) = (u64::MAX, true);
            return Ok(shared);
        }
        if let Some(was_closed) = same_session((log, replica))? {
            let end =
                if was_closed { u64::MAX } else { end_in_same_session(ours.as_ref(), &theirs)? };
            (shared.to, shared.is_all) = (shared.to.max(end), true);
            return Ok(shared);
        }
        let marks = match &ours {
            Some(ours) => ours.marks()?,
            None => vec![],
        };
        let same = theirs.marks()?.into_iter().filter(|mark| marks.contains(mark));
        let confirmed = same.filter_map(|mark| mark.confirmed).max();
        let end = next.filter(|next| next.pred_chain != 0);
        shared.search(&theirs, (confirmed, end), (ours.as_ref(), &damaged))?;
        shared.is_all = shared.to == u64::MAX;
        Ok(shared)
    }

    /// Compares the segment before and after a repair whose replica has it no longer: only what is
    /// left of the log proves anything.
    fn without_replica((log, repaired): Pair<'_>, theirs: &Segment) -> Result<Self> {
        let mut shared = Self { to: 0, known: vec![], is_all: false, is_not_found: true };
        let ours = segment_of(log, &theirs.header)?;
        let damaged = match &ours {
            Some(ours) => shared.compare(ours, theirs)?,
            None => vec![],
        };
        let next = successor(repaired, &theirs.header)?.filter(|next| next.pred_chain != 0);
        let is_own =
            |next: &SegmentHeader| Ok(read_header(&**log, next.id)?.as_ref() == Some(next));
        let next = match next {
            Some(next) if is_own(&next)? => Some(next),
            _ => None,
        };
        shared.search(theirs, (None, next), (ours.as_ref(), &damaged))?;
        Ok(shared)
    }

    /// The parts of a patch inside the shared history.
    pub(super) fn parts(&self, patch: &Patch) -> Vec<Patch> {
        let places = std::iter::once(0..self.to).chain(self.known.iter().cloned());
        let inner = |place: Range<u64>| {
            let start = place.start.clamp(patch.offset, patch.end());
            start..place.end.clamp(start, patch.end())
        };
        places.filter_map(|place| part(patch, inner(place))).collect()
    }

    /// Whether a range is shared history.
    pub(super) fn has(&self, place: &Range<u64>) -> bool {
        place.end <= self.to
            || self.known.iter().any(|known| known.start <= place.start && place.end <= known.end)
    }

    /// Finds the last identical batch, and the damaged ranges in this log.
    fn compare(&mut self, ours: &Segment, theirs: &Segment) -> Result<Vec<Range<u64>>> {
        let mut places: Vec<Range<u64>> = vec![];
        let mut scan = walk_over(ours);
        let has_batch_headers = ours.header.layout.has_batch_headers();
        loop {
            let (at, size) = match scan.step()? {
                ScanItem::Batch(found) => {
                    self.is_not_found = false;
                    // Identical lines prove a shared write only if they contain a time.
                    let has_time = has_batch_headers || found.header.time_us != 0;
                    let bytes = scan.raw(&found);
                    if has_time && read(theirs, found.start.0, bytes.len())? == bytes {
                        self.to = self.to.max(found.end.0);
                    }
                    continue;
                }
                ScanItem::Damage(damages, _) => match damages.first() {
                    Some(damage) => (damage.offset, damage.bytes),
                    None => continue,
                },
                ScanItem::End(end) => {
                    let tail = end.tail.filter(|tail| tail.length > 0);
                    if let Some(tail) = tail {
                        places.push(tail.offset.0..tail.offset.plus(tail.length).0);
                        self.compare_header((ours, theirs), tail.offset)?;
                    }
                    return Ok(places);
                }
            };
            places.push(at.0..at.plus(size).0);
            self.compare_header((ours, theirs), at)?;
        }
    }

    /// An intact batch header identifies its body.
    fn compare_header(&mut self, (ours, theirs): (&Segment, &Segment), at: Offset) -> Result<()> {
        if !ours.header.layout.has_batch_headers() {
            return Ok(());
        }
        let bytes = read(ours, at.0, HEADER_SIZE)?;
        let Some(header) = BatchHeader::decode(&bytes, at, &Life::of(&ours.header)) else {
            return Ok(());
        };
        self.is_not_found = false;
        if read(theirs, at.0, HEADER_SIZE)? == bytes {
            self.to = self.to.max(at.plus(header.size()).0);
        }
        Ok(())
    }

    /// Searches the replica for the batch up to which both copies confirm, for the one that this
    /// log's next segment names, and for batches that are damaged here but identifiable.
    fn search(
        &mut self,
        theirs: &Segment,
        (confirmed, next): (Option<Lsn>, Option<SegmentHeader>),
        (ours, damaged): (Option<&Segment>, &[Range<u64>]),
    ) -> Result<()> {
        let mut scan = walk_over(theirs);
        loop {
            match scan.step()? {
                ScanItem::Batch(found) => {
                    let (last, chain) = (found.header.last(), found.header.chain_value());
                    let is_named = next.as_ref().is_some_and(|next| {
                        next.base.previous() == Some(last) && next.pred_chain == chain
                    });
                    if is_named {
                        // Nothing counts after the last batch within the limit.
                        self.to = u64::MAX;
                    } else if Some(last) <= confirmed {
                        self.to = self.to.max(found.end.0);
                    }
                    let place = found.start.0..found.end.0;
                    let is_hit = |hit: &Range<u64>| hit.start < place.end && place.start < hit.end;
                    if let Some(ours) = ours
                        && damaged.iter().any(is_hit)
                        && is_known(ours, (scan.raw(&found), &found))?
                    {
                        self.known.push(place);
                    }
                }
                ScanItem::Damage(..) => {}
                ScanItem::End(_) => return Ok(()),
            }
        }
    }
}

/// Whether the remaining bytes identify a batch or line of the replica as this log's.
fn is_known(ours: &Segment, (theirs, found): (&[u8], &ScannedBatch)) -> Result<bool> {
    let here = read(ours, found.start.0, theirs.len())?;
    if ours.header.layout.has_batch_headers() {
        // Only the header is damaged.
        return Ok(here.get(HEADER_SIZE..) == theirs.get(HEADER_SIZE..));
    }
    let mut at = 0;
    Ok(theirs.split_inclusive(|byte| *byte == b'\n').all(|line| {
        let same = here.get(at..at + line.len()).is_some_and(|here| is_known_line(here, line));
        at += line.len();
        same
    }))
}

/// Identifies a damaged line by its checksum, or by everything except the checksum.
fn is_known_line(ours: &[u8], theirs: &[u8]) -> bool {
    const KEY: &[u8] = b"\"crc\":\"";
    let place_of = |key: &[u8]| theirs.windows(key.len()).position(|bytes| bytes == key);
    let Some(at) = place_of(KEY) else { return false };
    // A value may contain text that looks like a checksum field.
    if [b"\"data\"", b"\"void\""].iter().filter_map(|key| place_of(*key)).any(|value| value < at) {
        return false;
    }
    let end = at + KEY.len() + 8;
    let is_same = |bytes: Range<usize>| ours.get(bytes.clone()) == theirs.get(bytes);
    is_same(at..end) || (is_same(0..at) && is_same(end..theirs.len()))
}

/// The records of completely lost files that rest on the replicas alone.
pub(crate) fn unproven(
    (log, view): (&Arc<dyn Storage>, &Arc<dyn Storage>),
    replicas: &[Arc<dyn Storage>],
    patches: &[Patch],
) -> Result<Vec<Lost>> {
    let mut found = vec![];
    for link in &load_catalog(view, None)?.chain {
        let (segment, name) = (&link.segment, link.segment.name());
        let is_patch = |patch: &&Patch| patch.file == name && patch.by == RepairSource::Replica;
        if !patches.iter().any(|patch| is_patch(&patch)) {
            continue;
        }
        let mut all = vec![];
        for replica in replicas {
            // An interrupted repair may have had other replicas.
            if segment_of(replica, &segment.header)?.is_some() {
                all.push(Shared::of((log, replica), &segment.header)?);
            }
        }
        if all.is_empty() {
            all.push(Shared::without_replica((log, view), segment)?);
        }
        let to = all.iter().map(|shared| shared.to).max().unwrap_or(0);
        let is_not_found = all.iter().all(|shared| shared.is_not_found);
        let mut scan = LogScanner::of_segment(link).skip_io_errors(true).without_decoding();
        if !is_not_found {
            continue;
        }
        loop {
            match scan.step()? {
                ScanItem::Batch(batch) if batch.start.0 >= to && !batch.header.is_void() => {
                    let lost = Lost { from: batch.header.first, to: Some(batch.last) };
                    lost.join(&mut found);
                }
                ScanItem::End(_) => break,
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The segment with this header, even if its own header is damaged.
pub(super) fn segment_of(
    storage: &Arc<dyn Storage>,
    header: &SegmentHeader,
) -> Result<Option<Segment>> {
    let mut view = storage.clone();
    if read_header(&**storage, header.id)?.as_ref() != Some(&header.as_written()) {
        let (file, new) = (header.head_name(), header.stored().to_vec());
        let patch = Patch { file, offset: 0, old: vec![], new, by: RepairSource::Replica };
        view = Arc::new(Overlay::new(view, &[patch]));
    }
    Ok(match open_checked(&view, &header.head_name(), (None, None))? {
        OpenOutcome::Sound(segment) => Some(segment),
        OpenOutcome::NamedAhead(segment) => Some(segment.with_header(header.clone())),
        _ => None,
    })
}

fn walk_over(segment: &Segment) -> LogScanner {
    let link = ChainedSegment { segment: segment.clone(), limit: Limit::Open, gap: None };
    LogScanner::of_segment(&link).skip_io_errors(true).without_decoding()
}

/// Reads bytes of the data file: fewer at its end, zeros where the device cannot read.
fn read(segment: &Segment, at: u64, size: usize) -> Result<Vec<u8>> {
    let name = segment.name();
    let Some(file) = open_if_exists(&**segment.storage(), &name)? else { return Ok(vec![]) };
    if at >= length(&*file, &name)? {
        return Ok(vec![]);
    }
    Ok(read_around(&*file, at, to_u64(size))?.0)
}

/// The header of the next segment.
fn successor(log: &Arc<dyn Storage>, header: &SegmentHeader) -> Result<Option<SegmentHeader>> {
    let chain = load_catalog(log, None)?.chain;
    let mut headers = chain.into_iter().map(|link| link.segment.header);
    Ok(headers.find(|next| next.pred == Some(header.reference())))
}

/// The epoch of a segment is random: copies with the same next segment were one log up to its base.
fn has_same_successor(replica: &Arc<dyn Storage>, next: Option<&SegmentHeader>) -> Result<bool> {
    let Some(next) = next else { return Ok(false) };
    let outcome = open_checked(replica, &next.head_name(), (None, None))?;
    Ok(matches!(outcome, OpenOutcome::Sound(segment) if segment.header == *next))
}

/// `None` if one of the copies was opened for writing since the replica was made, as an open writes
/// the manifest. Otherwise whether both were closed before; if not, the writer that was running
/// then may have appended more to this log.
fn same_session((log, replica): Pair<'_>) -> Result<Option<bool>> {
    let (ours, theirs) = (load_catalog(log, None)?, load_catalog(replica, None)?);
    let both = ours.manifest().zip(theirs.manifest()).filter(|(ours, theirs)| {
        ours.time_us != 0 && (ours.log, ours.time_us) == (theirs.log, theirs.time_us)
    });
    Ok(both.map(|(ours, theirs)| ours.end().is_some() && ours.end() == theirs.end()))
}

/// Up to where copies from one session have the same history: the end of the replica's records,
/// because this log may have had more.
///
/// Where the file itself is gone, the replica's zeros count as well, and the repair reports that
/// only the replica tells where the log ends. The same holds for the rest of an unreadable page
/// with records: only whole pages become readable again.
fn end_in_same_session(ours: Option<&Segment>, theirs: &Segment) -> Result<u64> {
    let end = records_end(theirs)?;
    let Some(ours) = ours else { return Ok(u64::MAX) };
    if ours.bytes_missing() > 0 && records_end(ours)? <= end {
        return Ok(u64::MAX);
    }
    let page_end = end.next_multiple_of(PAGE);
    let is_refused = match open_if_exists(&**ours.storage(), &ours.name())? {
        Some(file) => !read_around(&*file, end, page_end - end)?.1.is_empty(),
        None => false,
    };
    Ok(if is_refused { page_end } else { end })
}

/// Where the last intact batch or line of a segment ends.
fn records_end(segment: &Segment) -> Result<u64> {
    let mut scan = walk_over(segment);
    let mut end = 0;
    loop {
        match scan.step()? {
            ScanItem::Batch(found) => end = end.max(found.end.0),
            ScanItem::Damage(..) => {}
            ScanItem::End(_) => return Ok(end),
        }
    }
}
