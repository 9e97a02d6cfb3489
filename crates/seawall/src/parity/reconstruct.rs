//! Rebuilds damaged blocks of a segment from its parity.

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::files::directory::{list, read_start};
use crate::files::overlay::{Patch, RepairSource, Unknown};
use crate::files::parity_file::{read_head, read_slot, slots_max};
use crate::parity::code::{lost_blocks, rebuild};
use seawall_format::parity::{Known, Places};
use seawall_format::{Mark, MarkSlot, Refused, STORED_MAX, SegmentHeader, SegmentId, tail};
use seawall_io::{Access, File, Storage};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// The patches with which parity restores damaged blocks of `segments`, or of all segments.
///
/// Each patch, and each block it is computed from, matches the checksum stored when the block was
/// written. The caller still has to verify the log with the patches applied, through an
/// [`Overlay`].
pub(crate) fn patches(
    storage: &Arc<dyn Storage>,
    segments: Option<&BTreeSet<SegmentId>>,
) -> Result<FoundPatches> {
    let names = list(&**storage)?;
    let mut found = FoundPatches::default();
    for name in &names {
        let Some(id) = SegmentId::from_parity_name(name) else { continue };
        if segments.is_none_or(|segments| segments.contains(&id)) {
            patch_segment(&**storage, (id, name), &mut found)?;
        }
    }
    Ok(found)
}

/// The patches from parity, and the unreadable bytes that parity does not cover.
#[derive(Debug, Default)]
pub(crate) struct FoundPatches {
    pub(crate) patches: Vec<Patch>,
    pub(crate) unknown: Vec<Unknown>,
}

fn patch_segment(
    storage: &dyn Storage,
    (id, name): (SegmentId, &str),
    found: &mut FoundPatches,
) -> Result<()> {
    // Parity that cannot be read repairs nothing.
    let Ok(parity) = storage.open(name, Access::Read) else { return Ok(()) };
    let Some(head) = read_head(&*parity).ok().flatten() else { return Ok(()) };
    let header = &head.header;
    if header.id != id {
        return Ok(());
    }
    let places = Places::of(header, head.scheme);
    let name = header.head_name();
    let file = match storage.open(&name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    let block = places.block();
    let old = read_start(&*file, &name, block).unwrap_or_else(|_| vec![0; block]);
    let FoundPatches { mut patches, mut unknown } = FoundPatches::default();
    let mut is_own = match SegmentHeader::decode(&old) {
        Ok(other) if other == *header => true,
        Err(Refused::Invalid) => {
            // The header is the only content of that block.
            let mut new = header.stored().to_vec();
            new.resize(block, 0);
            patches.push(Patch { file: name, offset: 0, old, new, by: RepairSource::Parity });
            holds_mark(&*file, header)
        }
        // Another segment has this name, or a newer version wrote it: not for this parity to judge.
        Ok(_) | Err(_) => return Ok(()),
    };
    let name = header.data_name();
    let Ok(data) = storage.open(&name, Access::Read) else { return Ok(()) };
    let lengths = parity.len().and_then(|parity| Ok((parity, data.len()?)));
    let Ok((length, end)) = lengths else { return Ok(()) };
    // Bounded, because the lengths of the files cannot be trusted. A stripe that begins past the
    // data is lost as a whole.
    for number in 0..slots_max(header, &places) {
        if length <= places.slot_at(number).0 || end < places.stripe_at(number) {
            break;
        }
        let files = (&*parity, &*data, &*name);
        is_own |= patch_stripe(files, (&places, number), &mut patches, &mut unknown);
    }
    // A valid header, mark or block must prove that the file belongs to this segment. Otherwise the
    // patches would turn a lost segment into an empty one.
    if is_own {
        found.patches.append(&mut patches);
        found.unknown.append(&mut unknown);
    }
    Ok(())
}

/// Whether a file has a mark of this segment.
fn holds_mark(file: &dyn File, header: &SegmentHeader) -> bool {
    [MarkSlot::A, MarkSlot::B].into_iter().any(|slot| {
        let mut bytes = [0; STORED_MAX];
        let read = file.read_at(&mut bytes, slot.offset(header.geometry).0);
        read.is_ok() && Mark::decode(&bytes, slot, header).is_some()
    })
}

/// Finds the patches of one stripe. Returns whether a block on disk matches the slot.
fn patch_stripe(
    (parity, data, name): (&dyn File, &dyn File, &str),
    (places, number): (&Places, u64),
    found: &mut Vec<Patch>,
    unknown: &mut Vec<Unknown>,
) -> bool {
    let Ok(slot) = read_slot(parity, places, number) else { return false };
    let Some(known) = Known::decode(&slot, number, places) else { return false };
    let from = places.stripe_at(number);
    let Stripe { bytes, read, refused } = Stripe::read(data, places, (from, known.covered));
    let mut lost = lost_blocks(places, &known, &bytes);
    let is_known = |(number, block): (usize, &[u8])| {
        !lost.contains(&number) && !refused.contains(&number) && !tail::is_zero(block)
    };
    let is_own = bytes.chunks_exact(places.block()).enumerate().any(is_known);
    let rebuilt = if lost.is_empty() {
        Some(vec![])
    } else {
        rebuild(places, (&known, &slot), (&bytes, &lost))
    };
    let Some(mut blocks) = rebuilt else { return is_own };
    // Unreadable blocks that should be all zeros.
    let zeros = refused.iter().copied().filter(|number| !lost.contains(number));
    let zeros: Vec<_> = zeros.collect();
    blocks.extend(zeros.iter().map(|_| vec![0; places.block()]));
    lost.extend(zeros);
    let length = data.len().unwrap_or(0);
    for (block, mut new) in lost.iter().zip(blocks) {
        let start = block * places.block();
        // Parity does not cover the rest of the block.
        let mut end = known.covered.saturating_sub(start);
        if refused.contains(block) {
            // An unreadable block is replaced up to the end of the file: nothing readable is lost.
            let rest = length.saturating_sub(from + to_u64(start));
            let known = end;
            end = end.max(usize::try_from(rest).unwrap_or(usize::MAX));
            let at = |place: usize| from + to_u64(start + place.min(new.len()));
            if at(known) < at(end) {
                unknown.push((name.to_owned(), at(known)..at(end)));
            }
        }
        new.truncate(end);
        let end = (start + new.len()).min(read.max(start));
        let old = bytes.get(start..end).unwrap_or_default().to_vec();
        let (file, offset) = (name.to_owned(), from + to_u64(start));
        found.push(Patch { file, offset, old, new, by: RepairSource::Parity });
    }
    is_own
}

/// The data blocks of a stripe as read from the device.
struct Stripe {
    /// The whole stripe; zeros where nothing is covered or readable.
    bytes: Vec<u8>,
    /// How many bytes of the stripe the file has.
    read: usize,
    /// Blocks that the device could not read.
    refused: Vec<usize>,
}

impl Stripe {
    fn read(data: &dyn File, places: &Places, (from, covered): (u64, usize)) -> Self {
        let size = usize::try_from(places.stripe_size()).expect("64 blocks of 64 KiB at most");
        let mut bytes = vec![0; size];
        let wanted = bytes.get_mut(..covered).unwrap_or_default();
        if let Ok(read) = data.read_at(wanted, from) {
            return Self { bytes, read, refused: vec![] };
        }
        // Retry block by block, to skip the unreadable ones.
        let (mut read, mut at, mut refused) = (0, from, vec![]);
        for (number, block) in wanted.chunks_mut(places.block()).enumerate() {
            match data.read_at(block, at) {
                Ok(got) if got < block.len() => {
                    read += got;
                    break;
                }
                Ok(_) => {}
                Err(_) => {
                    block.fill(0);
                    refused.push(number);
                }
            }
            (read, at) = (read + block.len(), at + to_u64(block.len()));
        }
        Self { bytes, read, refused }
    }
}
