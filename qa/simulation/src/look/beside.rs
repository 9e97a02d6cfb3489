//! Decides for the oracle which damaged bytes parity must restore (format.md section 10). It
//! decodes the files itself, from the device as it was before the damage.

use crate::world::to_u64;
use std::collections::BTreeMap;

use seawall_format::parity::{Head, Known, Places};
use seawall_format::{SegmentHeader, SegmentId};
use seawall_testkit::Harmed;
use seawall_testkit::MemStorage;

/// Whether the damage is in a parity file, so that no record can be lost.
pub(crate) fn is_parity_alone(harmed: &Harmed) -> bool {
    SegmentId::from_parity_name(&harmed.file).is_some()
}

/// Whether intact parity covers all of the damage, within its strength, so that it must be
/// restored.
pub(crate) fn gives_back(device: &MemStorage, copy: &MemStorage, harmed: &Harmed) -> bool {
    let length = |device: &MemStorage| device.bytes(&harmed.file).map(|bytes| bytes.len());
    is_covered(device, harmed) == Some(true) && length(device) == length(copy)
}

fn is_covered(device: &MemStorage, harmed: &Harmed) -> Option<bool> {
    let id = SegmentId::from_any_name(&harmed.file)?;
    let parity = device.bytes(&id.parity_name())?;
    let head = Head::decode_file(&parity).ok()?;
    let header = SegmentHeader::decode(&device.bytes(&head.header.head_name())?).ok()?;
    if header != head.header {
        return None;
    }
    let places = Places::of(&header, head.scheme);
    let (start, end) = (to_u64(harmed.bytes.start), to_u64(harmed.bytes.end));
    let data = device.bytes(&header.data_name())?;
    if harmed.file == header.head_name() && end <= HEADER_SIZE {
        // A header is restored only with a data block that is not blank, which identifies the
        // segment.
        let covered = covered_by_slot(&places, 0, (&parity, &data))?;
        let known = usize::try_from(places.start()).ok()?..usize::try_from(covered).ok()?;
        return Some(data.get(known)?.iter().any(|byte| *byte != 0));
    }
    if harmed.file != header.data_name() || start < places.start() || end > head.covered {
        return None;
    }
    let block = to_u64(places.block());
    let mut lost: BTreeMap<u64, usize> = BTreeMap::new();
    for number in (start - places.start()) / block..(end - places.start()).div_ceil(block) {
        let stripe = number * block / places.stripe_size();
        *lost.entry(stripe).or_default() += 1;
    }
    let holds = |(stripe, count): (&u64, &usize)| {
        let covered = covered_by_slot(&places, *stripe, (&parity, &data));
        let here = end.min(places.stripe_at(stripe + 1));
        *count <= places.scheme().parity() && covered.is_some_and(|covered| here <= covered)
    };
    Some(lost.iter().all(holds))
}

const HEADER_SIZE: u64 = 192;

/// Returns the end of the range that a parity slot covers in the data file, if the slot is intact
/// and matches the stored data.
fn covered_by_slot(places: &Places, number: u64, (parity, data): (&[u8], &[u8])) -> Option<u64> {
    let at = usize::try_from(places.slot_at(number).0).ok()?;
    let slot = parity.get(at..at + places.slot_size())?;
    let known = Known::decode(slot, number, places)?;
    let from = usize::try_from(places.stripe_at(number)).ok()?;
    let mut stripe = data.get(from..from + known.covered)?.to_vec();
    stripe.resize(usize::try_from(places.stripe_size()).ok()?, 0);
    stripe.extend_from_slice(slot.get(places.known_size()..)?);
    let blocks = stripe.chunks_exact(places.block());
    let is_sound = blocks.zip(&known.checksums).all(|(block, sum)| Known::checksum(block) == *sum);
    is_sound.then(|| places.stripe_at(number) + to_u64(known.covered))
}
