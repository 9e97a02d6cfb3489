//! The dump written when the power fails: everything in the ring, as one sequential write.
//!
//! The area is on the same device as the disk's home. Little-endian; every checksum is CRC-32C
//! bound to the disk, the generation and the place, so that no other disk's dump, no older dump and
//! no bytes of a guest are taken for this dump.
//!
//! ```text
//! label, at 0, one sector, alone in its block of 4096
//! byte  size  field
//!    0     8  magic        "SWDISK01"
//!    8     8  disk         64 random bits
//!   16     8  home size    bytes
//!   24     8  area size    bytes
//!   32     8  used         generation of the last dump that was written home; 0: none
//!   40     4  checksum     of bytes 0..40, generation 0
//!
//! runs, from 4096 on, one after another, each at a multiple of 512
//!    0     4  magic        "SWRT"
//!    4     4  size         bytes of the run
//!    8     8  generation   of the dump: one more than any before
//!   16     8  number       newer runs have higher ones
//!   24     8  offset       of the bytes in the home
//!   32     4  count        runs in this dump
//!   36     4  index        of this run among them, from 0
//!   40     4  checksum     of the run's bytes, bound to where they begin
//!   44     8  time         microseconds since 1970 when the dump began, or when the home
//!                          was last written if memory was kept
//!   52     4  checksum     of bytes 0..52
//!   56     n  the bytes, then zeros up to a multiple of 512
//! ```
//!
//! A run is valid if both checksums match and it lies inside area and home. The valid runs of a
//! torn dump are written home in the order of their numbers, and the others are counted as lost.
//! This module does not decide whether the home has changed since; the time allows callers to.
//!
//! A run of an older version has the magic "SWRN" and no time: its second checksum is at 44, of
//! bytes 0..44, and its bytes begin at 48.

use crate::layout::{BLOCK_SIZE, SECTOR_SIZE, to_u64, to_usize};
use seawall_format::{Epoch, LogId, Offset, Salt};
use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;

const LABEL_MAGIC: &[u8; 8] = b"SWDISK01";
const LABEL_SIZE: usize = 44;
const RUN_MAGIC: &[u8; 4] = b"SWRT";
const HEAD_SIZE: usize = 56;
/// The most bytes of a run in the area beyond its own.
pub(crate) const RUN_EXTRA: usize = HEAD_SIZE + SECTOR_SIZE - 1;
const OLD_RUN_MAGIC: &[u8; 4] = b"SWRN";
const OLD_HEAD_SIZE: usize = 48;

const _: () = assert!(LABEL_SIZE <= SECTOR_SIZE, "a label is written whole or not at all");

/// The size of an area, in bytes, for dumps of a ring of `buffers` buffers of `buffer_size` bytes
/// each.
///
/// # Examples
///
/// ```
/// assert_eq!(seawall_disk::area_size(6, 512 * 1024), 4096 + 6 * (512 * 1024 + 512));
/// ```
#[must_use]
pub const fn area_size(buffers: usize, buffer_size: usize) -> usize {
    let run = (HEAD_SIZE + buffer_size).next_multiple_of(SECTOR_SIZE);
    (BLOCK_SIZE + buffers * run).next_multiple_of(SECTOR_SIZE)
}

/// Identifies the disk of an area and the last dump that was written home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// A random number chosen when the disk was created.
    pub disk: u64,
    /// The size of the disk in bytes.
    pub home_size: u64,
    /// The size of the area in bytes, including the label's block.
    pub area_size: u64,
    /// The generation of the last dump that was written home, durably.
    pub used: u64,
}

/// Why a sector is not a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// The sector does not begin with a label's magic.
    NotALabel,
    /// The sector is a label whose bytes have changed.
    Damaged,
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotALabel => "no area of a Seawall disk begins here",
            Self::Damaged => "the label of the area does not match its checksum",
        })
    }
}

impl Error for LabelError {}

pub(crate) fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Label {
    /// Encodes the label as a sector.
    #[must_use]
    pub fn encode(&self) -> [u8; SECTOR_SIZE] {
        let mut sector = [0; SECTOR_SIZE];
        let fields = [self.disk, self.home_size, self.area_size, self.used].map(u64::to_le_bytes);
        let head = LABEL_MAGIC.iter().chain(fields.as_flattened());
        let mut head: Vec<u8> = head.copied().collect();
        head.extend(self.salt(0).checksum(Offset(0), &head).to_le_bytes());
        sector.iter_mut().zip(head).for_each(|(to, from)| *to = from);
        sector
    }

    /// Decodes the label in a sector.
    ///
    /// # Errors
    ///
    /// The sector is not a valid label.
    pub fn decode(sector: &[u8]) -> Result<Self, LabelError> {
        let (head, checksum) = split(sector, LABEL_SIZE).ok_or(LabelError::NotALabel)?;
        if !head.starts_with(LABEL_MAGIC) {
            return Err(LabelError::NotALabel);
        }
        let field = |at| long(head, at).ok_or(LabelError::NotALabel);
        let (disk, home_size) = (field(8)?, field(16)?);
        let label = Self { disk, home_size, area_size: field(24)?, used: field(32)? };
        if label.salt(0).checksum(Offset(0), head) != checksum {
            return Err(LabelError::Damaged);
        }
        Ok(label)
    }

    /// The number of bytes after the label's block.
    pub(crate) fn room(&self) -> usize {
        to_usize(self.area_size).saturating_sub(BLOCK_SIZE)
    }

    fn salt(&self, generation: u64) -> Salt {
        Salt::new(LogId(self.disk), Epoch(generation))
    }
}

/// Builds a dump of `runs` in `memory`: whole sectors, to be written at byte 4096 of the area. The
/// runs are those of [`Ring::runs_by_age`](crate::Ring::runs_by_age) or
/// [`Kept::runs`](crate::Kept::runs). Returns the number of bytes.
///
/// Allocates nothing. Returns `None` if the memory is too small: [`area_size`] is enough.
pub fn compose<'a>(
    label: &Label,
    stamp: &Stamp,
    runs: impl Iterator<Item = (u64, u64, &'a [u8])> + Clone,
    memory: &mut [u8],
) -> Option<usize> {
    let Stamp { generation, time_us, lost } = *stamp;
    let salt = label.salt(generation);
    let count = u32::try_from(runs.clone().count()).ok()?.saturating_add(lost);
    let mut at = 0;
    for (index, (number, offset, bytes)) in (0u32..).zip(runs) {
        let size = (HEAD_SIZE + bytes.len()).next_multiple_of(SECTOR_SIZE);
        let place = u64::try_from(BLOCK_SIZE + at).ok()?;
        let target = memory.get_mut(at..at + size)?;
        let (head, body) = target.split_at_mut_checked(HEAD_SIZE)?;
        let (data, rest) = body.split_at_mut_checked(bytes.len())?;
        data.copy_from_slice(bytes);
        rest.fill(0);
        let body_sum = salt.checksum(Offset(place + to_u64(HEAD_SIZE)), bytes);
        let (length, time) =
            (u32::try_from(bytes.len()).ok()?.to_le_bytes(), time_us.to_le_bytes());
        let long = [generation, number, offset].map(u64::to_le_bytes);
        let short = [count, index, body_sum].map(u32::to_le_bytes);
        let fields = [RUN_MAGIC, &length, long.as_flattened(), short.as_flattened(), &time];
        let (covered, head_sum) = head.split_at_mut_checked(HEAD_SIZE - 4)?;
        covered.iter_mut().zip(fields.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        head_sum.copy_from_slice(&salt.checksum(Offset(place), covered).to_le_bytes());
        at += size;
    }
    Some(at)
}

/// The metadata of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The generation of the dump.
    pub generation: u64,
    /// When its bytes were last complete in memory, in microseconds since 1970.
    pub time_us: u64,
    /// The number of runs that could not be put into the dump.
    pub lost: u32,
}

/// A dump in an area that has not been written home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The generation of the dump.
    pub generation: u64,
    /// When the dump began, in microseconds since 1970. Older versions did not record it.
    pub time_us: Option<u64>,
    /// The valid runs in the order in which they are written home, oldest first.
    pub extents: Vec<Extent>,
    /// The number of runs that are not valid: the dump was torn and their bytes are lost.
    pub lost: u32,
}

/// A run in an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of the run; newer runs have higher ones.
    pub number: u64,
    /// The offset of the run's bytes in the home.
    pub offset: u64,
    /// The range of the run's bytes in the area.
    pub bytes: Range<usize>,
}

/// Finds the newest dump in an area unless it was written home. `area` is the whole area including
/// the label's block.
#[must_use]
pub fn find(label: &Label, area: &[u8]) -> Option<Dump> {
    let mut found: Option<(Dump, u32)> = None;
    let mut at = BLOCK_SIZE;
    while at + HEAD_SIZE <= area.len() {
        let Some(run) = read_run(label, area, at).filter(|run| run.generation > label.used) else {
            at += SECTOR_SIZE;
            continue;
        };
        let newest = found.as_ref().map_or(0, |(dump, _)| dump.generation);
        if run.generation > newest {
            let Run { generation, time_us, .. } = run;
            let dump = Dump { generation, time_us, extents: vec![], lost: 0 };
            found = Some((dump, run.count));
        }
        match &mut found {
            Some((dump, _)) if run.generation == dump.generation && run.is_whole => {
                dump.extents.push(run.extent);
                at += run.size;
            }
            // Another run may start where the bytes of a torn run should be.
            _ => at += SECTOR_SIZE,
        }
    }
    let (mut dump, count) = found?;
    dump.extents.sort_by_key(|extent| extent.number);
    dump.lost = count.saturating_sub(u32::try_from(dump.extents.len()).unwrap_or(u32::MAX));
    Some(dump)
}

struct Run {
    generation: u64,
    time_us: Option<u64>,
    count: u32,
    extent: Extent,
    /// The size of the run in the area, with header and padding.
    size: usize,
    is_whole: bool,
}

/// Reads the run whose header is at `at`.
fn read_run(label: &Label, area: &[u8], at: usize) -> Option<Run> {
    let bytes = area.get(at..)?;
    let kinds = [(RUN_MAGIC, HEAD_SIZE), (OLD_RUN_MAGIC, OLD_HEAD_SIZE)];
    let (_, head_size) = kinds.into_iter().find(|(magic, _)| bytes.starts_with(*magic))?;
    let (head, checksum) = split(bytes, head_size)?;
    let generation = long(head, 8)?;
    let salt = label.salt(generation);
    if salt.checksum(Offset(u64::try_from(at).ok()?), head) != checksum {
        return None;
    }
    let size = usize::try_from(short(head, 4)?).ok()?;
    let (number, offset) = (long(head, 16)?, long(head, 24)?);
    let end = offset.checked_add(u64::try_from(size).ok()?)?;
    let from = at + head_size;
    let bytes = from..from.checked_add(size)?;
    let data = area.get(bytes.clone())?;
    let is_whole = end <= label.home_size
        && salt.checksum(Offset(u64::try_from(from).ok()?), data) == short(head, 40)?;
    let extent = Extent { number, offset, bytes };
    let size = (head_size + size).next_multiple_of(SECTOR_SIZE);
    // The header of an older version has no time.
    let time_us = long(head, 44);
    Some(Run { generation, time_us, count: short(head, 32)?, extent, size, is_whole })
}

/// Splits the first `size` bytes into their checksum, which is last, and the bytes before it.
fn split(bytes: &[u8], size: usize) -> Option<(&[u8], u32)> {
    let (head, checksum) = bytes.get(..size)?.split_at_checked(size - 4)?;
    Some((head, short(checksum, 0)?))
}

pub(crate) fn short(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Haste, Ring};
    use seawall_testkit::each_seed;
    use std::time::Duration;

    const AREA: usize = area_size(4, 8192);
    const LABEL: Label =
        Label { disk: 0x1234_5678, home_size: 1 << 20, area_size: AREA as u64, used: 3 };

    const TIME_US: u64 = 1_795_574_700_123_456;

    fn stamp(generation: u64) -> Stamp {
        Stamp { generation, time_us: TIME_US, lost: 0 }
    }

    fn ring(seed: u8) -> Ring {
        let mut ring = Ring::new(4, 8192);
        for (offset, size) in [(1000, 300), (50_000, 8000), (4096, 4096), (1100, 100)] {
            ring.write(
                offset,
                &vec![seed ^ u8::try_from(size % 251).unwrap(); size],
                Duration::ZERO,
            )
            .unwrap();
        }
        // One run is in flight and partly overwritten: two runs hold the same bytes.
        let flight = ring.take(Duration::ZERO, Haste::Blocks).unwrap();
        ring.write(flight.offset() + 10, &[seed; 50], Duration::ZERO).unwrap();
        ring.failed(flight);
        ring
    }

    fn dumped(generation: u64, ring: &Ring, area: &mut [u8]) -> usize {
        compose(&LABEL, &stamp(generation), ring.runs_by_age(), &mut area[BLOCK_SIZE..]).unwrap()
    }

    /// The contents of the home after all runs of the dump are written to it.
    fn home(dump: &Dump, area: &[u8]) -> Vec<u8> {
        let mut home = vec![0; 65_536];
        for Extent { offset, bytes, .. } in &dump.extents {
            let at = usize::try_from(*offset).unwrap();
            home[at..at + bytes.len()].copy_from_slice(&area[bytes.clone()]);
        }
        home
    }

    #[test]
    fn area_holds_the_fullest_ring() {
        assert_eq!(AREA, 4096 + 4 * (8192 + 512));
        let mut ring = Ring::new(4, 8192);
        for n in 0..4u64 {
            ring.write(n * 100_000, &[1; 8192], Duration::ZERO).unwrap();
        }
        let mut area = vec![0; AREA];
        assert_eq!(BLOCK_SIZE + dumped(4, &ring, &mut area), AREA);
        assert_eq!(find(&LABEL, &area).unwrap().extents.len(), 4);
        let short = &mut vec![0; AREA - BLOCK_SIZE - 1];
        assert_eq!(compose(&LABEL, &stamp(4), ring.runs_by_age(), short), None);
    }

    #[test]
    fn dump_is_found_and_equals_the_ring() {
        let (ring, mut area) = (ring(7), vec![0xee; AREA]);
        dumped(4, &ring, &mut area);
        let dump = find(&LABEL, &area).unwrap();
        assert_eq!((dump.generation, dump.time_us, dump.lost), (4, Some(TIME_US), 0));
        let mut expected = vec![0; 65_536];
        for (at, part) in ring.parts(0, expected.len()) {
            expected[at..][..part.len()].copy_from_slice(part);
        }
        assert_eq!(home(&dump, &area), expected);
    }

    #[test]
    fn run_of_an_older_version_has_no_time() {
        let (bytes, mut area) = ([7; 600], vec![0; AREA]);
        let salt = LABEL.salt(4);
        let mut head = OLD_RUN_MAGIC.to_vec();
        head.extend(600u32.to_le_bytes());
        head.extend([4u64, 1, 8192].map(u64::to_le_bytes).as_flattened());
        let body_sum = salt.checksum(Offset(4096 + 48), &bytes);
        head.extend([1, 0, body_sum].map(u32::to_le_bytes).as_flattened());
        head.extend(salt.checksum(Offset(4096), &head).to_le_bytes());
        area[4096..4144].copy_from_slice(&head);
        area[4144..4744].copy_from_slice(&bytes);
        let extent = Extent { number: 1, offset: 8192, bytes: 4144..4744 };
        let dump = Dump { generation: 4, time_us: None, extents: vec![extent], lost: 0 };
        assert_eq!(find(&LABEL, &area), Some(dump));
    }

    #[test]
    fn used_older_or_foreign_dumps_are_not_found() {
        let mut area = vec![0; AREA];
        dumped(4, &ring(7), &mut area);
        assert_eq!(find(&Label { used: 4, ..LABEL }, &area), None);
        assert_eq!(find(&Label { disk: 9, ..LABEL }, &area), None);
        // A later, shorter dump leaves runs of the earlier one after its end.
        let mut small = Ring::new(4, 8192);
        small.write(8192, &[1; 10], Duration::ZERO).unwrap();
        dumped(5, &small, &mut area);
        let dump = find(&LABEL, &area).unwrap();
        assert_eq!((dump.generation, dump.extents.len(), dump.lost), (5, 1, 0));
    }

    #[test]
    fn runs_outside_the_image_are_lost() {
        let mut area = vec![0; AREA];
        dumped(4, &ring(7), &mut area);
        let dump = find(&Label { home_size: 40_000, ..LABEL }, &area).unwrap();
        assert!(dump.lost > 0 && dump.extents.iter().all(|extent| extent.offset < 40_000));
    }

    #[test]
    fn label_is_read_back_and_a_changed_one_is_refused() {
        let sector = LABEL.encode();
        assert_eq!(Label::decode(&sector), Ok(LABEL));
        assert_eq!(Label::decode(&[0; SECTOR_SIZE]), Err(LabelError::NotALabel));
        assert_eq!(Label::decode(&sector[..40]), Err(LabelError::NotALabel));
        for bit in 64..LABEL_SIZE * 8 {
            let mut changed = sector;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Label::decode(&changed), Err(LabelError::Damaged), "bit {bit}");
        }
    }

    /// A random subset of a dump's sectors reaches the area and overwrites an older dump: each run
    /// is either found unchanged or counted as lost.
    #[test]
    fn torn_dump_gives_whole_runs_and_counts_the_lost() {
        let (old, new) = (ring(1), ring(7));
        let (mut before, mut whole) = (vec![0; AREA], vec![0; AREA]);
        dumped(4, &old, &mut before);
        whole.copy_from_slice(&before);
        dumped(5, &new, &mut whole);
        each_seed(256, |dice| {
            let mut area = before.clone();
            let is_rare = dice.one_in(2);
            for n in 0..AREA / SECTOR_SIZE {
                // In half of the cases most sectors, otherwise half of them.
                if dice.one_in(2) || (is_rare && n % 7 != 0) {
                    let sector = n * SECTOR_SIZE..(n + 1) * SECTOR_SIZE;
                    area[sector.clone()].copy_from_slice(&whole[sector]);
                }
            }
            let dump = find(&LABEL, &area).unwrap();
            let source = if dump.generation == 5 { &new } else { &old };
            let runs: Vec<_> = source.runs_by_age().collect();
            assert_eq!(dump.extents.len() + usize::try_from(dump.lost).unwrap(), runs.len());
            for Extent { number, offset, bytes } in &dump.extents {
                let run = runs.iter().find(|run| run.0 == *number).unwrap();
                assert_eq!((run.1, run.2), (*offset, &area[bytes.clone()]));
            }
        });
    }

    #[test]
    fn arbitrary_bytes_in_the_area_do_not_panic() {
        each_seed(256, |dice| {
            let mut area = dice.bytes(4096);
            area.extend([0xa5; 4096]);
            for _ in 0..dice.below(4) {
                let at = dice.index(16) * SECTOR_SIZE;
                let new = (RUN_MAGIC, HEAD_SIZE - 4);
                let (magic, size) = if dice.one_in(2) { (OLD_RUN_MAGIC, 44) } else { new };
                if at + HEAD_SIZE <= area.len() {
                    area[at..at + 4].copy_from_slice(magic);
                    area[at + 4..at + size].fill_with(|| dice.byte());
                    let generation = long(&area, at + 8).unwrap();
                    let sum =
                        LABEL.salt(generation).checksum(Offset(at as u64), &area[at..at + size]);
                    area[at + size..at + size + 4].copy_from_slice(&sum.to_le_bytes());
                }
            }
            let _ = (find(&LABEL, &area), Label::decode(&area));
        });
    }
}
