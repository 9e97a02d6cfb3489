//! The changes that the cases make to the files of a log. A change returns `None` if the log has no
//! place to apply it.

use super::image::Image;
use super::sample::{MIDDLE, Place, RECORDS, Sample, ZEROS, noise};
use seawall::format::Geometry;
use seawall_format::{HEADER_SIZE as SEGMENT_HEADER_SIZE, SECTOR, batch};
use std::ops::Range;

/// Where the length fields are within a batch: format.md section 3.3.
const BATCH_LENGTH: Range<usize> = 4..8;
const RECORD_LENGTH: Range<usize> = batch::HEADER_SIZE..batch::HEADER_SIZE + 4;

const MANIFEST: &str = "manifest";

/// The log to change, and the logs that supply the new bytes.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) image: Image,
    pub(super) sample: &'a Sample,
    /// A log of the same structure, from which files can be taken.
    pub(super) other: &'a Sample,
}

/// Applies a change.
pub(super) type Change = fn(&mut Scene<'_>) -> Option<()>;

impl Scene<'_> {
    fn middle(&self) -> Option<Place> {
        self.sample.place(MIDDLE).cloned()
    }

    fn last(&self) -> Option<Place> {
        self.sample.last().cloned()
    }

    /// The name of the segment with this index, counted from the oldest.
    fn segment(&self, index: usize) -> Option<String> {
        self.sample.image.segments().nth(index).map(str::to_owned)
    }

    fn newest(&self) -> Option<String> {
        self.sample.image.segments().last().map(str::to_owned)
    }

    fn zero(&mut self, file: &str, range: Range<usize>) -> Option<()> {
        self.image.part_mut(file, range)?.fill(0);
        Some(())
    }

    fn spoil(&mut self, file: &str, range: Range<usize>) -> Option<()> {
        let seed = u64::try_from(range.start).ok()?;
        let bytes = self.image.part_mut(file, range)?;
        bytes.iter_mut().zip(noise(seed)).for_each(|(byte, noise)| *byte = noise);
        Some(())
    }

    fn flip(&mut self, file: &str, at: usize, bit: u8) -> Option<()> {
        *self.image.file_mut(file)?.get_mut(at)? ^= 1 << bit;
        Some(())
    }

    /// Swaps two ranges of the same length; `first` must lie before `second`.
    fn swap(&mut self, file: &str, first: Range<usize>, second: Range<usize>) -> Option<()> {
        let (before, behind) = (
            self.image.part(file, first.clone())?.to_vec(),
            self.image.part(file, second.clone())?.to_vec(),
        );
        self.image.part_mut(file, first)?.copy_from_slice(&behind);
        self.image.part_mut(file, second)?.copy_from_slice(&before);
        Some(())
    }
}

/// Flips a bit of the middle record.
pub(super) fn record_bit(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.flip(&place.file, place.payload() + 100, 3)
}

/// Flips a bit in the batch header of the middle record: in its first LSN.
pub(super) fn batch_header_bit(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.flip(&place.file, place.batch.start + 8, 3)
}

/// Overwrites 8 bytes of the middle record.
pub(super) fn eight_bytes(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.spoil(&place.file, place.payload() + 100..place.payload() + 108)
}

/// Zeroes 100 bytes of the middle record.
pub(super) fn hundred_zeros(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.zero(&place.file, place.payload() + 100..place.payload() + 200)
}

/// The sector in which the payload of a record begins.
fn sector(place: &Place) -> Range<usize> {
    let start = place.payload() / SECTOR * SECTOR;
    start..start + SECTOR
}

/// Zeroes the sector in which the middle record's payload begins.
pub(super) fn zero_sector(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.zero(&place.file, sector(&place))
}

/// Overwrites 4 KiB, starting at the middle record.
pub(super) fn garbage(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    scene.spoil(&place.file, place.payload()..place.payload() + 4096)
}

/// Zeroes as many bytes as one fault is assumed to destroy: guarantees.md section 1.
pub(super) fn reach(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    let reach = usize::try_from(Geometry::DEFAULT.reach).ok()?;
    scene.zero(&place.file, place.payload()..place.payload() + reach)
}

/// Flips a bit of the record that contains only zeros.
pub(super) fn bit_in_zeros(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.sample.place(ZEROS)?.clone();
    scene.flip(&place.file, place.payload() + 2000, 0)
}

/// Sets the length of a batch to zero.
pub(super) fn batch_length_zero(scene: &mut Scene<'_>) -> Option<()> {
    let Place { file, batch, .. } = scene.middle()?;
    scene.zero(&file, batch.start + BATCH_LENGTH.start..batch.start + BATCH_LENGTH.end)
}

/// Flips the highest bit of a batch's length field that is not a flag, which adds 128 MiB.
pub(super) fn batch_length_bit(scene: &mut Scene<'_>) -> Option<()> {
    let Place { file, batch, .. } = scene.middle()?;
    scene.flip(&file, batch.start + BATCH_LENGTH.end - 1, 3)
}

/// Sets the length of a record to zero.
pub(super) fn record_length_zero(scene: &mut Scene<'_>) -> Option<()> {
    let Place { file, batch, .. } = scene.middle()?;
    scene.zero(&file, batch.start + RECORD_LENGTH.start..batch.start + RECORD_LENGTH.end)
}

/// Flips the highest bit of a record's length field that is not a flag, which adds 1 GiB.
pub(super) fn record_length_bit(scene: &mut Scene<'_>) -> Option<()> {
    let Place { file, batch, .. } = scene.middle()?;
    scene.flip(&file, batch.start + RECORD_LENGTH.end - 1, 6)
}

/// Swaps two adjacent sectors.
pub(super) fn swapped_sectors(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.middle()?;
    let first = sector(&place);
    scene.swap(&place.file, first.clone(), first.end..first.end + SECTOR)
}

/// Swaps two batches of the same size.
pub(super) fn swapped_batches(scene: &mut Scene<'_>) -> Option<()> {
    let (place, next) = (scene.middle()?, scene.sample.place(MIDDLE + 1)?);
    scene.swap(&place.file, place.batch, next.batch.clone())
}

/// Copies a batch over the next one, like a misdirected write.
pub(super) fn copied_batch(scene: &mut Scene<'_>) -> Option<()> {
    let (place, next) = (scene.middle()?, scene.sample.place(MIDDLE + 1)?);
    let bytes = scene.image.part(&place.file, place.batch)?.to_vec();
    scene.image.part_mut(&next.file, next.batch.clone())?.copy_from_slice(&bytes);
    Some(())
}

/// Truncates the newest file within the last record.
pub(super) fn tail_cut(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    scene.image.file_mut(&place.file)?.truncate(place.batch.end - 100);
    Some(())
}

/// Zeroes the end of the last record.
pub(super) fn tail_zeros(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    scene.zero(&place.file, place.batch.end - 100..place.batch.end)
}

/// Flips a bit of the last record.
pub(super) fn tail_bit(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    scene.flip(&place.file, place.payload() + 100, 3)
}

/// Flips a bit of a record that only the next ten records confirm.
pub(super) fn near_tail_bit(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.sample.place(RECORDS - 10)?.clone();
    scene.flip(&place.file, place.payload() + 100, 3)
}

/// Truncates the newest file at the start of a record.
pub(super) fn newest_cut(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.sample.place(RECORDS - 100)?.clone();
    scene.image.file_mut(&place.file)?.truncate(place.batch.start);
    Some(())
}

/// Offset of the first sector that starts within the last batch.
fn tear(place: &Place) -> Option<usize> {
    let boundary = place.batch.start.next_multiple_of(SECTOR);
    place.batch.contains(&boundary).then_some(boundary)
}

/// Zeroes the last write except for its first sector.
pub(super) fn torn_end(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    // A write within one sector cannot be torn.
    let Some(boundary) = tear(&place) else { return Some(()) };
    scene.zero(&place.file, boundary..place.batch.end)
}

/// Zeroes the first sector of the last write.
pub(super) fn torn_start(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    let Some(boundary) = tear(&place) else { return Some(()) };
    scene.zero(&place.file, place.batch.start..boundary)
}

/// Zeroes the last write, as if the device had not written it despite a successful sync.
pub(super) fn dropped_write(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    scene.zero(&place.file, place.batch)
}

/// Zeroes the last 200 writes: fewer bytes than one fault may destroy.
pub(super) fn dropped_writes(scene: &mut Scene<'_>) -> Option<()> {
    for lsn in RECORDS - 199..=RECORDS {
        let Place { file, batch, .. } = scene.sample.place(lsn)?.clone();
        scene.zero(&file, batch)?;
    }
    Some(())
}

/// Removes the oldest segment.
pub(super) fn oldest_missing(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.segment(0)?;
    scene.image.remove(&file).map(drop)
}

/// Removes the second segment.
pub(super) fn middle_missing(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.segment(1)?;
    scene.image.remove(&file).map(drop)
}

/// Removes the newest segment.
pub(super) fn newest_missing(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.newest()?;
    scene.image.remove(&file).map(drop)
}

/// Copies the newest segment to the name of the next one.
pub(super) fn duplicated(scene: &mut Scene<'_>) -> Option<()> {
    let copy = scene.image.file(&scene.newest()?)?.clone();
    let next = u64::try_from(scene.sample.image.segments().count()).ok()? + 1;
    scene.image.put(&format!("{next:012}.seg"), copy);
    Some(())
}

/// Copies a segment over the next one.
pub(super) fn over_neighbour(scene: &mut Scene<'_>) -> Option<()> {
    let copy = scene.image.file(&scene.segment(1)?)?.clone();
    scene.image.put(&scene.segment(2)?, copy);
    Some(())
}

/// Replaces the newest segment with an older copy of itself.
pub(super) fn rolled_back(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.newest()?;
    let before = scene.sample.earlier.file(&file)?.clone();
    scene.image.put(&file, before);
    Some(())
}

/// Replaces a segment with one of another log.
pub(super) fn foreign(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.segment(1)?;
    let theirs = scene.other.image.file(&file)?.clone();
    scene.image.put(&file, theirs);
    Some(())
}

/// Zeroes the header of a segment.
pub(super) fn header_zeros(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.segment(1)?;
    scene.zero(&file, 0..SEGMENT_HEADER_SIZE)
}

/// Zeroes the header of the newest segment.
pub(super) fn newest_header_zeros(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.newest()?;
    scene.zero(&file, 0..SEGMENT_HEADER_SIZE)
}

fn slot(index: usize) -> Option<Range<usize>> {
    let start = usize::try_from(Geometry::DEFAULT.block).ok()? * index;
    Some(start..start + 208)
}

/// Damages one of the manifest's two slots.
pub(super) fn one_slot(scene: &mut Scene<'_>) -> Option<()> {
    scene.spoil(MANIFEST, slot(1)?)
}

/// Damages both slots of the manifest.
pub(super) fn both_slots(scene: &mut Scene<'_>) -> Option<()> {
    scene.spoil(MANIFEST, slot(0)?)?;
    scene.spoil(MANIFEST, slot(1)?)
}

/// Removes the manifest.
pub(super) fn no_manifest(scene: &mut Scene<'_>) -> Option<()> {
    scene.image.remove(MANIFEST).map(drop)
}

const BLOCK: usize = 4096;

/// The block that contains offset `at`.
fn block(at: usize) -> Range<usize> {
    let start = at / BLOCK * BLOCK;
    start..start + BLOCK
}

impl Scene<'_> {
    /// Zeroes a block of the second segment.
    fn zero_block(&mut self, number: usize) -> Option<()> {
        let file = self.segment(1)?;
        self.zero(&file, block(number * BLOCK))
    }
}

/// Zeroes the block that holds the header of a segment.
pub(super) fn header_block(scene: &mut Scene<'_>) -> Option<()> {
    scene.zero_block(0)
}

/// Zeroes the block that holds the header of the newest segment.
pub(super) fn newest_header_block(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.newest()?;
    scene.zero(&file, block(0))
}

/// Overwrites the block that holds a mark slot.
pub(super) fn mark_block(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.newest()?;
    scene.spoil(&file, block(BLOCK))
}

/// Zeroes the block that holds the seal of a segment.
pub(super) fn seal_block(scene: &mut Scene<'_>) -> Option<()> {
    scene.zero_block(3)
}

/// Overwrites a block of the gap.
pub(super) fn gap_block(scene: &mut Scene<'_>) -> Option<()> {
    let file = scene.segment(1)?;
    scene.spoil(&file, block(4 * BLOCK))
}

/// Zeroes the block where the records of a segment begin.
pub(super) fn first_block(scene: &mut Scene<'_>) -> Option<()> {
    let start = usize::try_from(Geometry::DEFAULT.data_start()).ok()?;
    scene.zero_block(start / BLOCK)
}

/// Zeroes the block where the last record ends.
pub(super) fn last_block(scene: &mut Scene<'_>) -> Option<()> {
    let place = scene.last()?;
    scene.zero(&place.file, block(place.batch.end - 1))
}

/// Zeroes as many blocks of a stripe as parity can restore; they are not adjacent.
pub(super) fn two_blocks(scene: &mut Scene<'_>) -> Option<()> {
    let start = usize::try_from(Geometry::DEFAULT.data_start()).ok()? / BLOCK;
    scene.zero_block(start + 1)?;
    scene.zero_block(start + 11)
}

/// Zeroes one block more of a stripe than parity can restore; they are adjacent.
pub(super) fn three_blocks(scene: &mut Scene<'_>) -> Option<()> {
    let start = usize::try_from(Geometry::DEFAULT.data_start()).ok()? / BLOCK;
    (start + 1..=start + 3).try_for_each(|number| scene.zero_block(number))
}

/// The name of the parity file of the middle record's segment.
fn parity_of_middle(scene: &Scene<'_>) -> Option<String> {
    let name = scene.middle()?.file.replace(".seg", ".parity");
    scene.image.file(&name).map(|_| name)
}

/// Removes the parity file of the middle record's segment.
pub(super) fn parity_missing(scene: &mut Scene<'_>) -> Option<()> {
    let file = parity_of_middle(scene)?;
    scene.image.remove(&file).map(drop)
}

/// Overwrites the whole parity file of the middle record's segment.
pub(super) fn parity_garbage(scene: &mut Scene<'_>) -> Option<()> {
    let file = parity_of_middle(scene)?;
    let length = scene.image.file(&file)?.len();
    scene.spoil(&file, 0..length)
}

/// Overwrites the parity file, and flips a bit that it would have restored.
pub(super) fn parity_garbage_and_bit(scene: &mut Scene<'_>) -> Option<()> {
    parity_garbage(scene)?;
    record_bit(scene)
}

/// Flips a bit of the middle record, and one of a parity block of its stripe.
pub(super) fn both_bits(scene: &mut Scene<'_>) -> Option<()> {
    let (file, place) = (parity_of_middle(scene)?, scene.middle()?);
    let start = usize::try_from(Geometry::DEFAULT.data_start()).ok()?;
    // The file starts with two blocks of heads. Each slot has checksums and two parity blocks:
    // format.md section 10.
    let known = (32 + 4 * 18_usize).next_multiple_of(8);
    let slot = 2 * BLOCK + (place.payload() - start) / (16 * BLOCK) * (known + 2 * BLOCK);
    scene.flip(&file, slot + known + 100, 5)?;
    record_bit(scene)
}
