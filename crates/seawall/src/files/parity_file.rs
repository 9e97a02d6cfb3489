//! Reads the head and the slots of a parity file.

use crate::base::error::Result;
use crate::base::num::to_u64;
use crate::files::segment::Segment;
use seawall_format::parity::{HEADS_MAX, Head, Known, Places};
use seawall_format::{Geometry, Offset, Refused, SegmentHeader};
use seawall_io::{Access, File};
use std::io;

/// The head of a parity file, if one of its copies is valid.
pub(crate) fn read_head(file: &dyn File) -> io::Result<Option<Head>> {
    Ok(heads(file)?.ok())
}

/// The head, if it belongs to this segment.
pub(crate) fn head_of(file: &dyn File, header: &SegmentHeader) -> Option<Head> {
    read_head(file).ok().flatten().filter(|head| head.header == header.as_written())
}

pub(crate) fn heads(file: &dyn File) -> io::Result<Result<Head, Refused>> {
    let mut bytes = vec![0; HEADS_MAX];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(Head::decode_file(bytes.get(..read).unwrap_or_default()))
}

/// Reads the slot of stripe `number`, as far as the file has it.
pub(crate) fn read_slot(file: &dyn File, places: &Places, number: u64) -> io::Result<Vec<u8>> {
    let mut slot = vec![0; places.slot_size()];
    let read = file.read_at(&mut slot, places.slot_at(number).0)?;
    slot.truncate(read);
    Ok(slot)
}

/// End of the records covered by the slots, from the slot of `from` on; `None` if no slot is
/// readable. Each slot proves that the bytes it covers were durable.
pub(crate) fn slots_end(file: &dyn File, head: &Head, from: u64) -> Option<u64> {
    let places = Places::of(&head.header, head.scheme);
    // Bounded, because the length of the file cannot be trusted.
    let room = file.len().ok()?.saturating_sub(places.slot_at(0).0);
    let slots = room.div_ceil(to_u64(places.slot_size())).min(slots_max(&head.header, &places));
    let end_of = |number: u64| {
        let slot = read_slot(file, &places, number).ok()?;
        let known = Known::decode(&slot, number, &places)?;
        Some(places.stripe_at(number) + to_u64(known.covered))
    };
    (places.stripe_of(from)..slots).filter_map(end_of).max()
}

/// Upper limit for the slots of a segment, whatever the lengths of its files.
pub(crate) fn slots_max(header: &SegmentHeader, places: &Places) -> u64 {
    header.fixed_length().unwrap_or(RECORDS_MAX).div_ceil(places.stripe_size())
}

/// Upper limit for the record bytes of a segment: a text segment may exceed its size by one batch.
pub(crate) const RECORDS_MAX: u64 = 2 * Geometry::SEGMENT_MAX;

/// Whether the parity of the newest segment covers bytes past `end`, where its records seem to end.
/// A slot is written only after the bytes it covers are durable, so these bytes were lost.
///
/// While a writer is running, the answer may be true because of records written since the scan.
pub(crate) fn knows_more(newest: &Segment, end: Offset) -> bool {
    covers_more(newest, end.0).unwrap_or(false)
}

fn covers_more(newest: &Segment, end: u64) -> Option<bool> {
    let parity = newest.storage().open(&newest.header.id.parity_name(), Access::Read).ok()?;
    let head = head_of(&*parity, &newest.header)?;
    Some(slots_end(&*parity, &head, end)? > end)
}
