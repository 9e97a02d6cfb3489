//! Finds records without parity and writes the missing parity.

use crate::base::error::Result;
use crate::base::num::to_u64;
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
    /// The scheme of new parity; `None` if the log writes none.
    pub scheme: Option<Scheme>,
    /// Bytes of records in all segments.
    pub bytes: u64,
    /// Bytes of records with durable, usable parity.
    pub covered: u64,
    /// Size of the parity files in bytes.
    pub parity_bytes: u64,
    /// Segments with bytes that have no parity: at times the newest one; after a crash the newest
    /// ones, until the log is opened for append.
    pub open: Vec<SegmentId>,
    /// Bytes at the end of the newest segment that are not confirmed as durable, so they cannot
    /// have parity yet. Opening the log for append makes them durable.
    pub unsure: u64,
}

/// Up to which offset a segment can have parity, and where its records end.
pub(crate) fn ends(
    storage: &Arc<dyn Storage>,
    catalog: &Catalog,
    link: &ChainedSegment,
) -> Result<(u64, u64)> {
    let newest = catalog.chain.last().map(|newest| newest.segment.header.id);
    if newest == Some(link.segment.header.id) {
        return newest_ends(catalog, link);
    }
    records_end(storage, link).map(|end| (end, end))
}

/// `ends` for the newest segment. Records that nothing on disk confirms may exist in the page cache
/// only, and recovery may reuse their LSNs. Rule R12.
fn newest_ends(catalog: &Catalog, link: &ChainedSegment) -> Result<(u64, u64)> {
    let mut scan = LogScanner::within(catalog, link, None).without_decoding();
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
                end.sure().max(catalog.published)
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
    // Bytes covered by a slot were durable.
    let sure = known_from(&link.segment, sure).unwrap_or(sure);
    Ok((sure, end.max(sure)))
}

/// Up to which offset an older segment can have parity. If the parity is complete, that is the end
/// of the file. Otherwise it is the end of the records that count, including those carried into the
/// segment, or the end of what the slots cover.
///
/// Later records were rewritten into the next segment. They may never have become durable: after a
/// failed sync they can remain in the page cache although later syncs succeed.
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
    let link_to = ChainedSegment { limit, ..link.clone() };
    let mut scan = LogScanner::of_segment(&link_to).without_decoding();
    let mut end = header.data_start();
    while let ScanItem::Batch(batch) = scan.step()? {
        end = batch.end.0;
    }
    Ok(known_from(&link.segment, end).unwrap_or(end))
}

/// How far the head and slots cover a segment, if that is past `end`.
fn known_from(segment: &Segment, end: u64) -> Option<u64> {
    let parity = segment.storage().open(&segment.header.id.parity_name(), Access::Read).ok()?;
    let head = head_of(&*parity, &segment.header)?;
    let known = slots_end(&*parity, &head, end).map_or(end, |known| known.max(end));
    Some(known.max(head.covered).min(segment.records_end().ok()?))
}

/// Whether all durable parity of a segment is usable, and up to which offset: a parity file may
/// itself be damaged.
pub(crate) fn soundness(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> (bool, Option<u64>) {
    let parity = storage.open(&header.id.parity_name(), Access::Read).ok();
    let head = parity.as_ref().and_then(|parity| head_of(&**parity, header));
    let sound = parity.zip(head.as_ref()).map(|(parity, head)| sound_to(&*parity, head));
    (sound == head.map(|head| head.covered), sound)
}

/// Up to which offset the slots are valid.
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

/// Whether a slot covers `wanted` bytes of its stripe and its parity blocks match their checksums.
pub(crate) fn is_sound(slot: &[u8], number: u64, (places, wanted): (&Places, u64)) -> bool {
    let known = Known::decode(slot, number, places);
    known.is_some_and(|known| {
        to_u64(known.covered) >= wanted && has_sound_parity(places, &known, slot)
    })
}

/// Whether the parity reaches the end of the records and the last slot is valid, as a crash may
/// tear a slot that is rewritten. The zeros after the records in the last block need no parity.
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

/// Whether a part of a segment, whose records end at `end`, has no durable parity.
pub(crate) fn needs(storage: &Arc<dyn Storage>, header: &SegmentHeader, end: u64) -> bool {
    let open = |name: &str| storage.open(name, Access::Read).ok();
    let files = open(&header.id.parity_name()).zip(open(&header.data_name()));
    let is_whole = files.and_then(|(parity, data)| is_whole((&*parity, &*data), header, end));
    is_whole != Some(true)
}

/// Writes the parity of a segment that is no longer written, starting at `sound` if given. Syncs
/// the parity file but not the directory.
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
    side.flush().map_or(Ok(()), |flush| flush.run())
}

/// This many of the newest segments may have lost the whole parity file in a crash, because its
/// directory entry is synced when the next segment is created.
const NAMELESS_MAX: usize = 2;

/// Writes the parity that a crash left incomplete: from the newest of `segments` back to the first
/// one that is complete or has no parity. `next` is the first LSN after `segments`. Errors are
/// ignored; the next open tries again.
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
