//! Rebuilds damaged blocks of a segment from its parity.

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::files::directory::{list, read_start};
use crate::files::overlay::{Patch, RepairSource, Unknown};
use crate::files::parity_file::{read_head, read_slot};
use crate::parity::code::{lost_blocks, rebuild};
use seawall_format::parity::{Known, Places};
use seawall_format::{Mark, MarkSlot, Refused, SegmentHeader, SegmentId, tail};
use seawall_io::{Access, File, Storage};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// The bytes that these segments lack and their parity gives back; of all segments, if none are
/// named.
///
/// Each patch was computed from blocks with the checksums that were noted when they were written,
/// and has such a one itself. Whether a log is sound with them is for a look through an
/// [`Overlay`] to say.
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

/// The bytes that parity restores, and those that it does not know of blocks the device refuses.
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
    // What cannot be opened or read mends nothing.
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
            // Nothing else stands in that block.
            let mut new = header.encode().to_vec();
            new.resize(block, 0);
            patches.push(Patch { file: name, offset: 0, old, new, by: RepairSource::Parity });
            holds_mark(&*file, header)
        }
        // Another file stands there; and what a newer program wrote is not judged.
        Ok(_) | Err(_) => return Ok(()),
    };
    let name = header.data_name();
    let Ok(data) = storage.open(&name, Access::Read) else { return Ok(()) };
    let lengths = parity.len().and_then(|parity| Ok((parity, data.len()?)));
    let Ok((length, end)) = lengths else { return Ok(()) };
    let mut number = 0;
    // However long a file says it is: of a stripe that begins behind the records all is lost.
    while places.slot_at(number).0 < length && places.stripe_at(number) <= end {
        let files = (&*parity, &*data, &*name);
        is_own |= patch_stripe(files, (&places, number), &mut patches, &mut unknown);
        number += 1;
    }
    // Without its header, a mark, and one block that is known, nothing says that the file is this
    // segment's: a header alone would make an empty segment of what is lost as a whole.
    if is_own {
        found.patches.append(&mut patches);
        found.unknown.append(&mut unknown);
    }
    Ok(())
}

/// Whether a file has a mark of this segment.
fn holds_mark(file: &dyn File, header: &SegmentHeader) -> bool {
    [MarkSlot::A, MarkSlot::B].into_iter().any(|slot| {
        let mut bytes = [0; 64];
        let read = file.read_at(&mut bytes, slot.offset(header.geometry).0);
        read.is_ok() && Mark::decode(&bytes, slot, header).is_some()
    })
}

/// Finds the patches of one stripe; whether something stands there that its slot knows.
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
    // What the device refuses, and is known to hold nothing but zeros.
    let zeros = refused.iter().copied().filter(|number| !lost.contains(number));
    let zeros: Vec<_> = zeros.collect();
    blocks.extend(zeros.iter().map(|_| vec![0; places.block()]));
    lost.extend(zeros);
    let length = data.len().unwrap_or(0);
    for (block, mut new) in lost.iter().zip(blocks) {
        let start = block * places.block();
        // The rest of the block is not what parity knows of.
        let mut end = known.covered.saturating_sub(start);
        if refused.contains(block) {
            // Nothing can be lost by what is put there, as far as the file goes.
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

/// The data of a stripe as the device gives it.
struct Stripe {
    /// All of its blocks; zero where nothing is covered, or nothing is to be had.
    bytes: Vec<u8>,
    /// Where the file ends in it.
    read: usize,
    /// Blocks that the device refused: nothing can be lost by what is put there.
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
        // Block by block, around those that the device refuses.
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
