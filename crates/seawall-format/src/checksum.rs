//! CRC-32C, bound to the place that the bytes belong to. format.md section 2.

use crate::fields::sizes::SECTOR;
use crate::fields::{Field, behind, get_u32, put};
use crate::ids::{Epoch, LogId, Lsn, Offset, to_u64};
use std::ops::Range;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const FRAME_DOMAIN: u64 = 0x66_7261_6D65;

/// The life of one file that checksums are bound to: a log id and an epoch.
///
/// # Examples
///
/// ```
/// use seawall_format::{Epoch, LogId, Offset, Salt};
///
/// let one = Salt::new(LogId(7), Epoch(1));
/// let two = Salt::new(LogId(7), Epoch(2));
/// assert_ne!(one.checksum(Offset(0), b"bytes"), two.checksum(Offset(0), b"bytes"));
/// assert_ne!(one.checksum(Offset(0), b"bytes"), one.checksum(Offset(8), b"bytes"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt {
    key: u64,
    frame_key: u64,
}

impl Salt {
    /// The salt of a file with this epoch.
    #[must_use]
    pub const fn new(log: LogId, epoch: Epoch) -> Self {
        let key = mix(log.0.wrapping_add(mix(epoch.0)));
        Self { key, frame_key: mix(key ^ FRAME_DOMAIN) }
    }

    /// The salt of the manifest and of `live`, which have no epoch.
    #[must_use]
    pub const fn of_log(log: LogId) -> Self {
        Self::new(log, Epoch(0))
    }

    /// The checksum of `bytes` that belong to a structure at `offset`.
    #[must_use]
    pub fn checksum(&self, offset: Offset, bytes: &[u8]) -> u32 {
        crc32c(bytes) ^ self.place(offset)
    }

    /// Puts the checksum of a structure at `offset` into `field`: of all bytes after that field.
    pub(crate) fn put_checksum(&self, offset: Offset, bytes: &mut [u8], field: Field) {
        let crc = self.checksum(offset, behind(bytes, field));
        put(bytes, field, u64::from(crc));
    }

    /// Whether the checksum in `field` of a structure at `offset` is right.
    pub(crate) fn matches(&self, offset: Offset, bytes: &[u8], field: Field) -> bool {
        self.checksum(offset, behind(bytes, field)) == get_u32(bytes, field)
    }

    /// The value that binds a checksum to a structure at `offset`.
    pub(crate) fn place(&self, offset: Offset) -> u32 {
        high_half(mix(self.key.wrapping_add(offset.0.wrapping_mul(GOLDEN))))
    }

    /// The value that binds a frame's CRC to record `lsn` and to its first four bytes, `word`.
    #[must_use]
    pub fn frame(&self, lsn: Lsn, word: u32) -> u32 {
        let numbered = self.frame_key.wrapping_add(lsn.get().wrapping_mul(GOLDEN));
        high_half(mix(numbered ^ u64::from(word)))
    }
}

/// The plain CRC-32C of `bytes`.
#[must_use]
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The plain CRC-32C of a sector: joining two halves is faster than one pass over 512 bytes.
#[must_use]
#[inline]
pub(crate) fn crc32c_of_sector(sector: &[u8; SECTOR]) -> u32 {
    let (first, second) = sector.split_at(SECTOR / 2);
    HALF_A_SECTOR.join(crc32c(first), crc32c(second))
}

/// The CRC of some bytes followed by a sector, from the CRCs of both.
#[must_use]
#[inline]
pub(crate) fn crc32c_and_sector(before: u32, sector: u32) -> u32 {
    WHOLE_SECTOR.join(before, sector)
}

static HALF_A_SECTOR: Joiner = Joiner::new(SECTOR / 2);
static WHOLE_SECTOR: Joiner = Joiner::new(SECTOR);

/// Joins the CRC of some bytes with the CRC of a fixed number of bytes that follow. CRCs are
/// linear, so this takes a lookup for each byte of the first CRC.
struct Joiner([[u32; 256]; 4]);

impl Joiner {
    /// CRC-32C, least significant bit first.
    const POLYNOMIAL: u32 = 0x82F6_3B78;

    #[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and finds a panic")]
    const fn new(bytes: usize) -> Self {
        let mut tables = [[0; 256]; 4];
        let mut bit = 0;
        while bit < 32 {
            // Extends the CRC with this one bit over the zeros that stand for the bytes.
            let mut crc = 1u32 << bit;
            let mut left = bytes * 8;
            while left > 0 {
                crc = (crc >> 1) ^ if crc & 1 == 1 { Self::POLYNOMIAL } else { 0 };
                left -= 1;
            }
            let (table, own) = (&mut tables[bit / 8], 1 << (bit % 8));
            let mut byte = 0;
            while byte < 256 {
                if byte & own != 0 {
                    table[byte] ^= crc;
                }
                byte += 1;
            }
            bit += 1;
        }
        Self(tables)
    }

    #[inline]
    fn join(&self, before: u32, after: u32) -> u32 {
        let parts = self.0.iter().zip(before.to_le_bytes());
        parts.fold(after, |crc, (table, byte)| {
            crc ^ table.get(usize::from(byte)).copied().unwrap_or_default()
        })
    }
}

/// The CRCs of all ranges of some bytes that begin at a multiple of 8. The time for one hardly
/// depends on its length.
#[derive(Debug)]
pub(crate) struct RangeCrcs<'a> {
    bytes: &'a [u8],
    /// The CRC of all bytes before each multiple of 8.
    before: Vec<u32>,
}

impl<'a> RangeCrcs<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut crc = Crc::new();
        let ends = bytes.as_chunks::<8>().0.iter().map(|word| {
            crc.update(word);
            crc.value()
        });
        Self { bytes, before: [crc32c(&[])].into_iter().chain(ends).collect() }
    }

    /// The CRC of a range that begins at a multiple of 8.
    pub(crate) fn of(&self, range: Range<usize>) -> u32 {
        let before = |position| self.before.get(position / 8).copied().unwrap_or_default();
        let rest = self.bytes.get(range.end / 8 * 8..range.end).unwrap_or_default();
        // CRCs are linear: removes what the bytes before the range contribute.
        let contributed = over_zeros(before(range.start), range.len());
        crc32c_with(before(range.end), rest) ^ contributed
    }
}

/// Extends a CRC over `count` bytes of zeros: multiplies it by x to the power of `8 * count`,
/// modulo the polynomial. The highest bit of these numbers is x to the power of 0.
fn over_zeros(crc: u32, count: usize) -> u32 {
    let count = to_u64(count);
    let bits = POWERS.iter().enumerate().filter(|(bit, _)| count >> bit & 1 == 1);
    bits.fold(crc, |crc, (_, power)| product(crc, *power))
}

/// x to the power of 8 * 2^n.
static POWERS: [u32; 64] = powers();

#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and finds a panic")]
const fn powers() -> [u32; 64] {
    let mut powers = [1 << (31 - 8); 64];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = product(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
}

/// The product of two polynomials, modulo that of the CRC.
const fn product(one: u32, other: u32) -> u32 {
    let (mut left, mut shifted, mut sum) = (one, other, 0);
    while left != 0 {
        if left >> 31 == 1 {
            sum ^= shifted;
        }
        shifted = (shifted >> 1) ^ if shifted & 1 == 1 { Joiner::POLYNOMIAL } else { 0 };
        left <<= 1;
    }
    sum
}

/// Returns the CRC of some bytes followed by `after`. `before` is the CRC of those bytes alone.
pub(crate) fn crc32c_with(before: u32, after: &[u8]) -> u32 {
    let mut crc = from_state(!before);
    crc.update(after);
    Crc(crc).value()
}

/// Joins two CRCs: `before`, then `after`, which is that of `length` bytes.
#[cfg(feature = "json")]
pub(crate) fn crc32c_joined(before: u32, (after, length): (u32, u32)) -> u32 {
    // CRCs are linear: extends `before` over zeros, then XORs the CRC of the bytes that follow.
    let (mut crc, mut left) = (from_state(before), usize::try_from(length).expect("32 bits"));
    while left > 0 {
        let zeros = ZEROS.get(..left).unwrap_or(&ZEROS);
        crc.update(zeros);
        left -= zeros.len();
    }
    u32::try_from(crc.get_state()).expect("32 bits wide") ^ after
}

#[cfg(feature = "json")]
const ZEROS: [u8; 1024] = [0; 1024];

fn from_state(state: u32) -> crc_fast::Digest {
    crc_fast::Digest::new_with_init_state(crc_fast::CrcAlgorithm::Crc32Iscsi, state.into())
}

/// The CRC of bytes that arrive in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Crc(crc_fast::Digest);

impl Crc {
    pub(crate) fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("32 bits wide")
    }
}

const fn mix(number: u64) -> u64 {
    let mut x = number;
    x ^= x >> 30;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn high_half(number: u64) -> u32 {
    u32::try_from(number >> 32).expect("32 bits are left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_is_the_castagnoli_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn crcs_of_ranges_are_those_of_their_bytes() {
        let bytes: Vec<u8> = (0..1003_u32).map(|i| (i * 7 % 251) as u8).collect();
        let crcs = RangeCrcs::new(&bytes);
        for start in (0..=bytes.len()).step_by(8) {
            for end in start..=bytes.len() {
                assert_eq!(crcs.of(start..end), crc32c(&bytes[start..end]), "{start} to {end}");
            }
        }
    }

    #[test]
    fn checksum_in_pieces_is_the_same() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for piece in [1, 3, 8, 255, 256, 1000] {
            let mut crc = Crc::new();
            bytes.chunks(piece).for_each(|bytes| crc.update(bytes));
            assert_eq!(crc.value(), crc32c(&bytes), "pieces of {piece}");
        }
        assert_eq!(Crc::new().value(), crc32c(b""));
    }

    #[test]
    fn checksum_of_a_sector_joins_its_halves() {
        let bytes: Vec<u8> = (0..2000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for at in [0, 1, 100, 700] {
            let (before, after) = bytes.split_at(at);
            let sector = after.first_chunk::<SECTOR>().unwrap();
            let sum = crc32c_of_sector(sector);
            assert_eq!(sum, crc32c(sector));
            assert_eq!(crc32c_and_sector(crc32c(before), sum), crc32c(&bytes[..at + SECTOR]));
        }
    }

    #[cfg(feature = "json")]
    #[test]
    fn checksum_of_two_pieces_follows_from_those_of_each() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for (at, end) in [(0, 0), (0, 9), (9, 9), (1, 2), (60, 300), (7, 5000), (4000, 5000)] {
            let (before, after) = bytes[..end].split_at(at);
            let (crc, length) = (crc32c(before), u32::try_from(after.len()).unwrap());
            assert_eq!(crc32c_with(crc, after), crc32c(&bytes[..end]), "{at}, {end}");
            let joined = crc32c_joined(crc, (crc32c(after), length));
            assert_eq!(joined, crc32c(&bytes[..end]), "{at}, {end}");
        }
    }

    #[test]
    fn salt_matches_format_md() {
        // Computed from the text of format.md section 2 by another program.
        let salt = Salt::new(LogId(0x1234), Epoch(0x5678));
        assert_eq!(salt.checksum(Offset(4096), b""), PLACE);
        assert_eq!(salt.frame(Lsn::FIRST, 5), FRAME);
    }

    const PLACE: u32 = 0x08D4_1B4F;
    const FRAME: u32 = 0x5103_FD07;
}
