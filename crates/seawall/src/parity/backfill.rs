//! What parity stands beside a log, and making what it lacks.

use crate::base::error::Result;
use crate::base::num::to_u64;
use crate::files::live::read_watermark;
use crate::files::parity_file::{head_of, read_slot, slots_end};
use crate::files::segment::Segment;
use crate::parity::code::has_sound_parity;
use crate::parity::writer::ParityFile;
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::SegmentId;
use seawall_format::parity::{Head, Known, Places, Scheme};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, SegmentHeader};
use seawall_io::{Access, File, Storage};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// How much of a log has parity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protection {
    /// The scheme that the log writes; `None` if it writes no parity.
    pub scheme: Option<Scheme>,
    /// Bytes of records, in all segments.
    pub bytes: u64,
    /// Bytes of records with durable, usable parity.
    pub covered: u64,
    /// The size of the files with parity, in bytes.
    pub parity_bytes: u64,
    /// Segments with bytes that have no parity: at times the one being written, and after a crash
    /// the newest, until the log is opened.
    pub open: Vec<SegmentId>,
    /// Bytes at the end of the newest segment that cannot have parity yet, as nothing confirms that
    /// they are durable. Opening the log for append makes them durable.
    pub unsure: u64,
}

/// Up to where a segment of a survey's chain can have parity, and where its records end.
pub(crate) fn ends(
    storage: &Arc<dyn Storage>,
    catalog: &Catalog,
    link: &ChainedSegment,
) -> Result<(u64, u64)> {
    let newest = catalog.chain.last().map(|newest| newest.segment.header.id);
    if newest == Some(link.segment.header.id) {
        return newest_ends(storage, catalog, link);
    }
    records_end(storage, link).map(|end| (end, end))
}

/// The same of the newest one: what nothing on disk confirms may stand in the page cache only, and
/// its numbers be given anew. Rule R12.
fn newest_ends(
    storage: &Arc<dyn Storage>,
    catalog: &Catalog,
    link: &ChainedSegment,
) -> Result<(u64, u64)> {
    let watermark = read_watermark(&**storage)?;
    let with_min_end = watermark.and_then(|watermark| catalog.durable_per(&watermark.live));
    let mut scan = LogScanner::within(catalog, link, None).with_min_end(with_min_end);
    let (mut sure, mut is_sound) = (link.segment.header.data_start(), true);
    let mut unsure = VecDeque::new();
    let mut is_over = false;
    while !is_over {
        let confirmed = match scan.step()? {
            ScanItem::Batch(batch) => {
                unsure.extend(is_sound.then_some((batch.last, batch.end.0)));
                batch.header.confirmed()
            }
            ScanItem::Damage(..) => {
                is_sound = false;
                None
            }
            ScanItem::End(end) => {
                is_over = true;
                end.sure()
            }
        };
        while let Some(&(last, end)) = unsure.front()
            && Some(last) <= confirmed
        {
            sure = end;
            unsure.pop_front();
        }
    }
    let end = unsure.back().map_or(sure, |(_, end)| *end);
    // What has a slot was durable.
    let sure = known_from(&link.segment, sure).unwrap_or(sure);
    Ok((sure, end.max(sure)))
}

/// Up to where a segment that is not the newest can have parity: where all of its file has some,
/// its end, as nobody writes it any more; else where those of its records end that count or that
/// it was made with, or what slots know of, which was durable.
///
/// What lies behind that was carried on: nothing says that it was ever durable, and after a barrier
/// that failed it stands in the page cache only, whatever barriers return later.
fn records_end(storage: &Arc<dyn Storage>, link: &ChainedSegment) -> Result<u64> {
    let header = &link.segment.header;
    let end = link.segment.records_end()?;
    if !needs(storage, header, end) {
        return Ok(end);
    }
    let limit = match link.limit {
        Limit::At(last) => Limit::At(last.max(header.carried)),
        Limit::Open => Limit::Open,
    };
    let mut scan = LogScanner::of_segment(&ChainedSegment { limit, ..link.clone() });
    let mut end = header.data_start();
    while let ScanItem::Batch(batch) = scan.step()? {
        end = batch.end.0;
    }
    Ok(known_from(&link.segment, end).unwrap_or(end))
}

/// Up to where head and slots know the records of a segment, if that is beyond `end`.
fn known_from(segment: &Segment, end: u64) -> Option<u64> {
    let parity = segment.storage().open(&segment.header.id.parity_name(), Access::Read).ok()?;
    let head = head_of(&*parity, &segment.header)?;
    let known = slots_end(&*parity, &head, end).map_or(end, |known| known.max(end));
    Some(known.max(head.covered).min(segment.records_end().ok()?))
}

/// Whether all of a segment's parity that is durable can be used, and up to where it can: it may
/// be damaged itself.
pub(crate) fn soundness(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> (bool, Option<u64>) {
    let parity = storage.open(&header.id.parity_name(), Access::Read).ok();
    let head = parity.as_ref().and_then(|parity| head_of(&**parity, header));
    let sound = parity.zip(head.as_ref()).map(|(parity, head)| sound_to(&*parity, head));
    (sound == head.map(|head| head.covered), sound)
}

/// Up to where slots are sound.
fn sound_to(parity: &dyn File, head: &Head) -> u64 {
    let header = &head.header;
    let places = Places::of(header, head.scheme);
    let mut number = 0;
    while places.stripe_at(number) < head.covered {
        let from = places.stripe_at(number);
        let slot = read_slot(parity, &places, number).unwrap_or_default();
        let wanted = (head.covered - from).min(places.stripe_size());
        if !is_sound(&slot, number, (&places, wanted)) {
            return from;
        }
        number += 1;
    }
    head.covered
}

/// Whether a slot is about so much of its stripe, and its parity is what it was.
pub(crate) fn is_sound(slot: &[u8], number: u64, (places, wanted): (&Places, u64)) -> bool {
    let known = Known::decode(slot, number, places);
    known.is_some_and(|known| {
        to_u64(known.covered) >= wanted && has_sound_parity(places, &known, slot)
    })
}

/// Whether what is covered reaches the end of the records, and the last slot is sound: a crash may
/// have torn it when it was written anew. The empty rest of a block may lie behind.
fn is_whole(
    (parity, data): (&dyn File, &dyn File),
    header: &SegmentHeader,
    end: u64,
) -> Option<bool> {
    let head = head_of(parity, header)?;
    let places = Places::of(header, head.scheme);
    let mut rest = vec![0; places.block()];
    let covered = head.covered.min(end);
    let size = usize::try_from(end - covered).ok().filter(|size| *size <= rest.len())?;
    rest.truncate(size);
    data.read_at(&mut rest, covered).ok()?;
    if rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    let number = places.stripe_of(covered);
    let filled = usize::try_from(covered - places.stripe_at(number)).ok()?;
    if filled == 0 {
        return Some(true);
    }
    let slot = read_slot(parity, &places, number).ok()?;
    Some(is_sound(&slot, number, (&places, to_u64(filled))))
}

/// Whether something of a segment whose records end at `end` has no durable parity.
pub(crate) fn needs(storage: &Arc<dyn Storage>, header: &SegmentHeader, end: u64) -> bool {
    let open = |name: &str| storage.open(name, Access::Read).ok();
    let files = open(&header.id.parity_name()).zip(open(&header.data_name()));
    let is_whole = files.and_then(|(parity, data)| is_whole((&*parity, &*data), header, end));
    is_whole != Some(true)
}

/// Makes the parity of one segment that nobody writes any more, from where it is sound if that is
/// known. Durable but for its name.
pub(crate) fn make(
    storage: &Arc<dyn Storage>,
    (header, scheme): (&SegmentHeader, Scheme),
    (sound, end): (Option<u64>, u64),
) -> io::Result<()> {
    let data = storage.open(&header.data_name(), Access::Read)?;
    let mut side = ParityFile::open(storage, (header, scheme))?;
    if let Some(sound) = sound {
        side.go_back(sound);
    }
    side.catch_up(&*data, end)?;
    side.pad_stripe()?;
    if let Some(flush) = side.flush() {
        flush.run();
    }
    Ok(())
}

/// In so many of the newest segments a crash may have left out the whole file: its name becomes
/// durable with the next segment's.
const NAMELESS_MAX: usize = 2;

/// Makes what a crash left out: from the newest of these segments down to one that lacks nothing,
/// or was written without. `next` is the first record behind them. What fails is left for the next
/// time.
pub(crate) fn backfill(
    storage: &Arc<dyn Storage>,
    scheme: Scheme,
    (segments, mut next): (&[SegmentHeader], Lsn),
) {
    for (age, header) in segments.iter().rev().enumerate() {
        let is_there = storage.open(&header.id.parity_name(), Access::Read).is_ok();
        if !is_there && age >= NAMELESS_MAX {
            return;
        }
        let limit = Limit::At(next.previous());
        next = header.base;
        let link = Segment::open_known(storage, header);
        let link = link.map(|segment| ChainedSegment { segment, limit, gap: None });
        let end = link.and_then(|link| records_end(storage, &link));
        let Ok(end) = end else { return };
        if !needs(storage, header, end) {
            return;
        }
        let _ = make(storage, (header, scheme), (None, end));
    }
}
