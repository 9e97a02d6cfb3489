//! What the file of a reused segment held before: a checksum for each sector, in a file of its own.
//! format.md section 3.4.
//!
//! In a new file, a sector that the segment never wrote is zero. In a reused one it holds what an
//! earlier segment left, so recovery compares it with this table. That is how it tells a write that
//! a power cut interrupted from damage.

use crate::checksum::{Salt, crc32c_and_sector, crc32c_of_sector};
use crate::fields::sizes::SECTOR;
use crate::fields::{get, is_zero, put, table};
use crate::files::preamble;
use crate::files::segment::SegmentHeader;
use crate::ids::{Epoch, LogId, Offset, SegmentId, SegmentRef, to_u64};
use std::sync::Arc;

const MAGIC_BYTES: [u8; 8] = *b"SEAWALLB";

/// The bytes before the checksums.
const HEAD_SIZE: usize = 64;
const SUM_SIZE: usize = 4;

table! {
    MAGIC = 0, 8, "magic";
    VERSION = 8, 2, "version";
    DRAFT = 10, 2, "draft";
    PREAMBLE_CRC = 12, 4, "preamble crc";
    CRC = 16, 4, "crc";
    ZERO = 20, 4, "zero";
    LOG_ID = 24, 8, "log id";
    ID = 32, 8, "id";
    EPOCH = 40, 8, "epoch";
    START = 48, 8, "start";
    SIZE = 56, 8, "size";
    SUMS = 64, 0, "sums";
}

/// The segment that a table is for, and the part of its file that holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOf {
    /// The log.
    pub log: LogId,
    /// The segment that uses the file now.
    pub segment: SegmentRef,
    /// Where its records begin, in bytes.
    pub start: u64,
    /// The length of its file, in bytes.
    pub size: u64,
}

impl TableOf {
    /// The table of the segment with this header.
    #[must_use]
    pub fn segment(header: &SegmentHeader) -> Self {
        let (segment, start) = (header.reference(), header.data_start());
        Self { log: header.log, segment, start, size: header.size }
    }

    /// The length of the file with the table, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        to_u64(HEAD_SIZE) + sectors(self.start, self.size) * to_u64(SUM_SIZE)
    }
}

/// Number of sectors with a checksum.
fn sectors(start: u64, size: u64) -> u64 {
    size.saturating_sub(start) / to_u64(SECTOR)
}

/// A checksum for each sector where a segment's records go, from before the segment.
#[derive(Clone, PartialEq, Eq)]
pub struct SectorSums {
    start: u64,
    /// Four bytes for each sector, as they are in the file.
    bytes: Vec<u8>,
}

impl std::fmt::Debug for SectorSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SectorSums({} sectors from {})", self.bytes.len() / SUM_SIZE, self.start)
    }
}

impl SectorSums {
    /// Starts without checksums; those of the sectors from offset `start` on can be added.
    #[must_use]
    pub fn from_offset(start: u64) -> Self {
        Self { start, bytes: vec![] }
    }

    /// The checksums of a file of `size` bytes in which all sectors from `start` on are zero.
    #[must_use]
    pub fn of_zeros(start: u64, size: u64) -> Self {
        let count = usize::try_from(sectors(start, size)).expect("a segment fits in memory");
        Self { start, bytes: crc32c_of_sector(&[0; SECTOR]).to_le_bytes().repeat(count) }
    }

    /// Adds the checksums of the next bytes of the file, whole sectors.
    pub fn extend(&mut self, file: &[u8]) {
        let (sectors, _) = file.as_chunks::<SECTOR>();
        self.bytes.reserve(sectors.len() * SUM_SIZE);
        for sector in sectors {
            self.bytes.extend_from_slice(&crc32c_of_sector(sector).to_le_bytes());
        }
    }

    /// Adds the checksums of the next sectors of the file. Returns the CRC of some bytes followed
    /// by these sectors; `before` is the CRC of those bytes alone.
    #[must_use]
    pub(crate) fn extend_after(&mut self, before: u32, sectors: &[[u8; SECTOR]]) -> u32 {
        self.bytes.reserve(sectors.len() * SUM_SIZE);
        sectors.iter().fold(before, |crc, sector| {
            let sum = crc32c_of_sector(sector);
            self.bytes.extend_from_slice(&sum.to_le_bytes());
            crc32c_and_sector(crc, sum)
        })
    }

    /// Replaces the checksums of the sectors of `bytes`, which were written at `offset`. Returns
    /// `false`, and changes nothing, unless they are whole sectors with a checksum.
    #[must_use]
    pub fn replace(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let from =
            offset.checked_sub(self.start).filter(|from| from.is_multiple_of(to_u64(SECTOR)));
        let (sectors, rest) = bytes.as_chunks::<SECTOR>();
        let at = from.and_then(|from| usize::try_from(from / to_u64(SECTOR)).ok());
        let sums = at.and_then(|at| {
            let from = at.checked_mul(SUM_SIZE)?;
            self.bytes.get_mut(from..from.checked_add(sectors.len() * SUM_SIZE)?)
        });
        let Some(sums) = sums.filter(|_| rest.is_empty()) else { return false };
        let (sums, _) = sums.as_chunks_mut::<SUM_SIZE>();
        for (sum, sector) in sums.iter_mut().zip(sectors) {
            *sum = crc32c_of_sector(sector).to_le_bytes();
        }
        true
    }

    /// Replaces the checksums of the sectors that `other` has. Returns `false`, and changes
    /// nothing, unless each of them has a checksum here.
    #[must_use]
    pub fn replace_by(&mut self, other: &Self) -> bool {
        let from = other.start.checked_sub(self.start);
        let from = from.filter(|from| from.is_multiple_of(to_u64(SECTOR)));
        let at = from.and_then(|from| usize::try_from(from / to_u64(SECTOR)).ok());
        let own = at.and_then(|at| {
            let from = at.checked_mul(SUM_SIZE)?;
            self.bytes.get_mut(from..from.checked_add(other.bytes.len())?)
        });
        let Some(own) = own else { return false };
        own.copy_from_slice(&other.bytes);
        true
    }

    /// Whether the bytes of the sector at `offset` are those from before.
    #[must_use]
    pub fn matches(&self, offset: u64, sector: &[u8; SECTOR]) -> bool {
        let number = offset.checked_sub(self.start).map(|from| from / to_u64(SECTOR));
        let at = number.and_then(|number| usize::try_from(number).ok()?.checked_mul(SUM_SIZE));
        let sum = at.and_then(|at| self.bytes.get(at..)?.first_chunk::<SUM_SIZE>());
        sum.is_some_and(|sum| u32::from_le_bytes(*sum) == crc32c_of_sector(sector))
    }

    /// The file with the table of this segment.
    #[must_use]
    pub fn encode(&self, of: &TableOf) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_SIZE];
        preamble::encode(&mut bytes, MAGIC_BYTES);
        for (field, number) in [
            (LOG_ID, of.log.0),
            (ID, of.segment.id.get()),
            (EPOCH, of.segment.epoch.0),
            (START, of.start),
            (SIZE, of.size),
        ] {
            put(&mut bytes, field, number);
        }
        bytes.extend(&self.bytes);
        Salt::new(of.log, of.segment.epoch).put_checksum(Offset(0), &mut bytes, CRC);
        bytes
    }

    /// The table in `file`, if it is that of this segment and valid.
    #[must_use]
    pub fn decode(file: &[u8], of: &TableOf) -> Option<Self> {
        let (head, sums) = file.split_at_checked(HEAD_SIZE)?;
        preamble::check(head, MAGIC_BYTES).ok()?;
        let found = TableOf {
            log: LogId(get(head, LOG_ID)),
            segment: SegmentRef {
                id: SegmentId::new(get(head, ID))?,
                epoch: Epoch(get(head, EPOCH)),
            },
            start: get(head, START),
            size: get(head, SIZE),
        };
        let is_valid = found == *of
            && get(head, ZERO) == 0
            && to_u64(file.len()) == of.length()
            && Salt::new(of.log, of.segment.epoch).matches(Offset(0), file, CRC);
        is_valid.then(|| Self { start: of.start, bytes: sums.to_vec() })
    }
}

/// What the file of a segment held where its records go, before the segment wrote there.
#[derive(Clone, Debug, Default)]
pub enum Before {
    /// Zeros: the file was new.
    #[default]
    Zeros,
    /// What an earlier segment left.
    Reused(Arc<SectorSums>),
    /// Something unknown: the table of a reused file is missing or not valid.
    Unknown,
}

impl Before {
    /// Whether no write of the segment reached the sector at offset `at`, of which `sector` holds
    /// the bytes up to the next sector or the end of the file. The segment's valid bytes end at
    /// `used`, and the block there at `block_end`.
    #[must_use]
    pub(crate) fn is_untouched(
        &self,
        (at, sector): (u64, &[u8]),
        (used, block_end): (u64, u64),
    ) -> bool {
        let own = usize::try_from(used.saturating_sub(at)).unwrap_or(usize::MAX);
        // The last block of each write is filled with zeros.
        let is_blank = || sector.get(own..).is_none_or(is_zero);
        match self {
            Self::Zeros => is_blank(),
            Self::Reused(sums) => {
                let as_before = |sector| sums.matches(at, sector);
                sector.try_into().is_ok_and(as_before) || (at < block_end && is_blank())
            }
            Self::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: TableOf = TableOf {
        log: LogId(3),
        segment: SegmentRef { id: SegmentId::FIRST, epoch: Epoch(9) },
        start: 3072,
        size: 3072 + 4 * 512,
    };

    /// The checksums of a file of four sectors filled with 1, 2, 0 and 4, and the file.
    fn sums() -> (SectorSums, Vec<u8>) {
        let file: Vec<u8> = [1, 2, 0, 4].iter().flat_map(|byte| [*byte; SECTOR]).collect();
        let mut sums = SectorSums::from_offset(OF.start);
        let (first, rest) = file.split_at(SECTOR);
        sums.extend(first);
        sums.extend(rest);
        (sums, file)
    }

    #[test]
    fn checksums_of_other_sectors_replace_those_of_the_same_places() {
        let mut sums = SectorSums::of_zeros(1024, 1024 + 4 * 512);
        let mut expected = sums.clone();
        let sectors = [[1; 512], [2; 512]].concat();
        assert!(expected.replace(1536, &sectors));
        for (start, is_taken) in [(512, false), (1537, false), (2560, false), (1536, true)] {
            let before = sums.clone();
            let mut other = SectorSums::from_offset(start);
            other.extend(&sectors);
            assert_eq!(sums.replace_by(&other), is_taken, "{start}");
            assert_eq!(sums, if is_taken { expected.clone() } else { before }, "{start}");
        }
    }

    #[test]
    fn table_is_read_back_and_only_for_its_own_segment() {
        let (sums, _) = sums();
        let file = sums.encode(&OF);
        assert_eq!(u64::try_from(file.len()).unwrap(), OF.length());
        assert_eq!(SectorSums::decode(&file, &OF), Some(sums));
        let other = SegmentRef { epoch: Epoch(8), ..OF.segment };
        for of in [
            TableOf { log: LogId(4), ..OF },
            TableOf { segment: other, ..OF },
            TableOf {
                segment: SegmentRef { id: OF.segment.id.next().unwrap(), ..OF.segment },
                ..OF
            },
            TableOf { start: OF.start + 512, ..OF },
            TableOf { size: OF.size + 512, ..OF },
        ] {
            assert_eq!(SectorSums::decode(&file, &of), None, "{of:?}");
        }
    }

    #[test]
    fn sums_of_what_is_written_are_those_of_the_file_afterwards() {
        let mut file = vec![0; 4 * SECTOR];
        let mut sums = SectorSums::of_zeros(OF.start, OF.size);
        for (number, count) in [(1, 2), (3, 1), (0, 1), (2, 0)] {
            let bytes = vec![7 + u8::try_from(number).unwrap(); count * SECTOR];
            file[number * SECTOR..][..bytes.len()].copy_from_slice(&bytes);
            assert!(sums.replace(OF.start + u64::try_from(number * SECTOR).unwrap(), &bytes));
        }
        let mut expected = SectorSums::from_offset(OF.start);
        expected.extend(&file);
        assert_eq!(sums, expected);
        for (offset, size) in
            [(OF.start + 8, 512), (OF.start, 511), (0, 512), (OF.size - 512, 1024)]
        {
            assert!(!sums.replace(offset, &vec![1; size]), "{size} bytes at {offset}");
        }
        assert_eq!(sums, expected);
    }

    #[test]
    fn new_file_is_a_reused_one_that_held_zeros() {
        let mut zeros = SectorSums::from_offset(OF.start);
        zeros.extend(&[0; 4 * SECTOR]);
        assert_eq!(SectorSums::of_zeros(OF.start, OF.size), zeros);
    }

    #[test]
    fn no_changed_bit_and_no_other_length_is_accepted() {
        let file = sums().0.encode(&OF);
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x10;
            assert_eq!(SectorSums::decode(&changed, &OF), None, "byte {at}");
        }
        for length in 0..file.len() {
            assert_eq!(SectorSums::decode(&file[..length], &OF), None, "{length} bytes");
        }
        assert_eq!(SectorSums::decode(&[file, vec![0; 4]].concat(), &OF), None);
    }

    #[test]
    fn sector_is_untouched_if_it_is_as_before_or_blank_in_the_last_block() {
        let (sums, file) = sums();
        let before = Before::Reused(Arc::new(sums));
        let sector = |number: usize| &file[number * SECTOR..(number + 1) * SECTOR];
        let at = |number: u64| OF.start + number * 512;
        // Nothing was written.
        let used = (OF.start, OF.start);
        for number in 0..4 {
            let here = at(u64::try_from(number).unwrap());
            assert!(before.is_untouched((here, sector(number)), used), "{number}");
        }
        // The contents of another sector, and zeros that were not there before.
        assert!(!before.is_untouched((at(0), sector(1)), used));
        assert!(!before.is_untouched((at(0), &[0; SECTOR]), used));
        assert!(!before.is_untouched((at(4), &[0; SECTOR]), used), "beyond the table");
        assert!(!before.is_untouched((at(0), &[1; 500]), used), "a part of a sector");
        // A write of 100 bytes, padded with zeros to the end of its block of two sectors.
        let used = (OF.start + 100, OF.start + 1024);
        let written = [[9; 100].as_slice(), &[0; 412]].concat();
        assert!(before.is_untouched((at(0), &written), used));
        assert!(before.is_untouched((at(1), &[0; SECTOR]), used));
        assert!(!before.is_untouched((at(3), &[0; SECTOR]), used), "after that block");
        assert!(before.is_untouched((at(0), sector(0)), used), "as before, under valid bytes");
        let other = [[9; 100].as_slice(), &[0; 411], &[1]].concat();
        assert!(!before.is_untouched((at(0), &other), used));
    }

    #[test]
    fn without_a_table_no_sector_is_untouched_and_in_a_new_file_zeros_are() {
        let used = (100, 512);
        assert!(!Before::Unknown.is_untouched((0, &[0; SECTOR]), used));
        assert!(Before::Zeros.is_untouched((512, &[0; SECTOR]), used));
        let written = [[9; 100].as_slice(), &[0; 412]].concat();
        assert!(Before::Zeros.is_untouched((0, &written), used));
        assert!(!Before::Zeros.is_untouched((0, &[9; SECTOR]), used));
    }
}
