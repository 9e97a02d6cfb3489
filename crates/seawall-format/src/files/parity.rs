//! Parity files, from which lost blocks of a segment can be computed. format.md section 10.
//!
//! This module has the layout and the validity rules. The Reed-Solomon code is elsewhere.

use crate::checksum::{Salt, crc32c};
use crate::fields::{get, put, slice, slice_mut};
use crate::files::authenticator::{AUTHENTICATOR_SIZE, Authenticator};
use crate::files::preamble;
use crate::files::segment::{HEADER_SIZE, SegmentHeader};
use crate::ids::{Epoch, LogId, Offset, to_u64};
use crate::refused::Refused;

const MAGIC: [u8; 8] = *b"SEAWALLP";
const STRIPE_MAGIC: &[u8] = b"STRP";

/// A length in bytes that no file with records reaches.
const COVERED_END: u64 = 1 << 48;

/// The size of an encoded head, in bytes.
pub const HEAD_SIZE: usize = 280;

/// Where a head has the authenticator of an encrypted segment's header.
const AUTHENTICATOR_AT: usize = 320;

/// The most bytes of a head, with that authenticator.
const STORED_MAX: usize = AUTHENTICATOR_AT + AUTHENTICATOR_SIZE;

pub(crate) mod head {
    crate::fields::table! {
        MAGIC = 0, 8, "magic";
        VERSION = 8, 2, "version";
        DRAFT = 10, 2, "draft";
        PREAMBLE_CRC = 12, 4, "preamble crc";
        CRC = 16, 4, "crc";
        BLOCK = 20, 4, "block";
        DATA = 24, 2, "data blocks";
        PARITY = 26, 2, "parity blocks";
        FEATURES = 28, 4, "features";
        LOG_ID = 32, 8, "log id";
        ID = 40, 8, "id";
        EPOCH = 48, 8, "epoch";
        SEQUENCE = 56, 8, "sequence";
        COVERED = 64, 8, "covered";
        START = 72, 8, "start";
        ZERO_BEHIND = 80, 8, "zero behind";
        HEADER = 88, 192, "header";
    }
}

pub(crate) mod stripe {
    crate::fields::table! {
        CRC = 0, 4, "crc";
        MAGIC = 4, 4, "magic";
        EPOCH = 8, 8, "epoch";
        NUMBER = 16, 8, "number";
        COVERED = 24, 4, "covered";
        ZERO = 28, 4, "zero";
    }
    /// Size of these fields, in bytes. A CRC-32C for each block follows them.
    pub(super) const FIXED: usize = 32;
}

/// The numbers of data blocks and of parity blocks in a stripe.
///
/// # Examples
///
/// ```
/// use seawall_format::parity::Scheme;
///
/// let scheme: Scheme = "16+2".parse()?;
/// assert_eq!((scheme.data(), scheme.parity()), (16, 2));
/// assert!("16+0".parse::<Scheme>().is_err());
/// # Ok::<(), seawall_format::parity::NoScheme>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    data: u16,
    parity: u16,
}

/// The error for text that names no [`Scheme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoScheme(String);

impl std::fmt::Display for NoScheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(said) = self;
        write!(
            f,
            "invalid parity {said:?}: expected DATA+PARITY, e.g. 16+2 (data 2-{}, parity 1-{}, \
             parity <= data)",
            Scheme::DATA_MAX,
            Scheme::PARITY_MAX
        )
    }
}

impl std::error::Error for NoScheme {}

impl Scheme {
    /// Two blocks of parity for sixteen of data.
    pub const DEFAULT: Self = Self { data: 16, parity: 2 };
    /// The most blocks of data in a stripe.
    pub const DATA_MAX: u16 = 64;
    /// The most blocks of parity in a stripe.
    pub const PARITY_MAX: u16 = 16;

    /// The numbers of parity blocks and data blocks; `None` if format.md does not allow them.
    #[must_use]
    pub const fn new(data: u16, parity: u16) -> Option<Self> {
        let possible = data >= 2
            && data <= Self::DATA_MAX
            && parity >= 1
            && parity <= Self::PARITY_MAX
            && parity <= data;
        if possible { Some(Self { data, parity }) } else { None }
    }

    /// Blocks of data in a stripe.
    #[must_use]
    pub fn data(self) -> usize {
        usize::from(self.data)
    }

    /// Parity blocks per stripe: the number of lost blocks that can be computed.
    #[must_use]
    pub fn parity(self) -> usize {
        usize::from(self.parity)
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl std::str::FromStr for Scheme {
    type Err = NoScheme;

    fn from_str(said: &str) -> Result<Self, NoScheme> {
        let parts = said.split_once('+').and_then(|(data, parity)| {
            Some((data.trim().parse().ok()?, parity.trim().parse().ok()?))
        });
        let scheme = parts.and_then(|(data, parity)| Self::new(data, parity));
        scheme.ok_or_else(|| NoScheme(said.to_owned()))
    }
}

/// Offsets in the parity file of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    scheme: Scheme,
    block: usize,
    start: u64,
    salt: Salt,
    epoch: u64,
}

impl Places {
    /// The offsets in the parity file of this segment.
    #[must_use]
    pub fn of(header: &SegmentHeader, scheme: Scheme) -> Self {
        Self {
            scheme,
            block: usize::try_from(header.geometry.block).expect("at most 64 KiB"),
            start: header.data_start(),
            salt: header.salt(),
            epoch: header.epoch.0,
        }
    }

    /// The numbers of data blocks and of parity blocks in a stripe.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The size of a block, in bytes.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Where the first stripe begins in the file with the records, in bytes.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// How many bytes of records a stripe holds.
    #[must_use]
    pub fn stripe_size(&self) -> u64 {
        to_u64(self.scheme.data() * self.block)
    }

    /// Where stripe `number` begins in the file with the records.
    #[must_use]
    pub fn stripe_at(&self, number: u64) -> u64 {
        self.start + number * self.stripe_size()
    }

    /// The stripe of the byte at `offset`, not before the first, in the file with the records.
    #[must_use]
    pub fn stripe_of(&self, offset: u64) -> u64 {
        offset.saturating_sub(self.start) / self.stripe_size()
    }

    /// The size of a slot in bytes: the checksums of a stripe, and its parity blocks.
    #[must_use]
    pub fn slot_size(&self) -> usize {
        self.known_size() + self.scheme.parity() * self.block
    }

    /// The offset of the slot of stripe `number` in the parity file.
    #[must_use]
    pub fn slot_at(&self, number: u64) -> Offset {
        Offset(2 * to_u64(self.block) + number * to_u64(self.slot_size()))
    }

    /// The size in bytes of a slot before its parity blocks.
    #[must_use]
    pub fn known_size(&self) -> usize {
        let blocks = self.scheme.data() + self.scheme.parity();
        (stripe::FIXED + 4 * blocks).next_multiple_of(8)
    }
}

/// The description of a stripe: how much of it is covered, and the checksum of each block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The number of the stripe, from 0.
    pub number: u64,
    /// How many bytes of the stripe are covered, from its beginning; bytes after them count as
    /// zero.
    pub covered: usize,
    /// The CRC-32C of each block, those of data first.
    pub checksums: Vec<u32>,
}

impl Known {
    /// The bytes of this description, at the beginning of its slot.
    ///
    /// # Panics
    ///
    /// If there are not as many checksums as blocks.
    #[must_use]
    pub fn encode(&self, places: &Places) -> Vec<u8> {
        let blocks = places.scheme.data() + places.scheme.parity();
        assert_eq!(self.checksums.len(), blocks, "a checksum for each block");
        let mut bytes = vec![0; places.known_size()];
        slice_mut(&mut bytes, stripe::MAGIC).copy_from_slice(STRIPE_MAGIC);
        put(&mut bytes, stripe::EPOCH, places.epoch);
        put(&mut bytes, stripe::NUMBER, self.number);
        put(&mut bytes, stripe::COVERED, to_u64(self.covered));
        let (_, rest) = bytes.split_at_mut(stripe::FIXED);
        for (place, checksum) in rest.chunks_exact_mut(4).zip(&self.checksums) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        let at = places.slot_at(self.number);
        places.salt.put_checksum(at, &mut bytes, stripe::CRC);
        bytes
    }

    /// Decodes the description in the slot of stripe `number`; `None` if it is not valid.
    #[must_use]
    pub fn decode(slot: &[u8], number: u64, places: &Places) -> Option<Self> {
        let bytes = slot.get(..places.known_size())?;
        let (_, rest) = bytes.split_at_checked(stripe::FIXED)?;
        let blocks = places.scheme.data() + places.scheme.parity();
        let numbers = rest.chunks_exact(4).take(blocks).filter_map(|four| four.try_into().ok());
        let found = Self {
            number,
            covered: usize::try_from(get(bytes, stripe::COVERED)).ok()?,
            checksums: numbers.map(u32::from_le_bytes).collect(),
        };
        let valid = places.salt.matches(places.slot_at(number), bytes, stripe::CRC)
            && slice(bytes, stripe::MAGIC) == STRIPE_MAGIC
            && get(bytes, stripe::EPOCH) == places.epoch
            && get(bytes, stripe::NUMBER) == number
            && (1..=places.stripe_size()).contains(&to_u64(found.covered))
            && found.encode(places) == bytes;
        valid.then_some(found)
    }

    /// The checksum of a block.
    #[must_use]
    pub fn checksum(block: &[u8]) -> u32 {
        crc32c(block)
    }
}

/// The head of a parity file, in two copies that are written alternately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// A copy of the segment's header.
    pub header: SegmentHeader,
    /// The numbers of data blocks and of parity blocks in a stripe.
    pub scheme: Scheme,
    /// Counts the writes, from 1; odd numbers go to the second block.
    pub sequence: u64,
    /// Offset in the file with the records up to which everything has durable parity. If the
    /// records begin there, nothing has.
    pub covered: u64,
}

impl Head {
    /// The offset of this head in the parity file.
    #[must_use]
    pub fn offset(&self) -> Offset {
        Self::slot(self.sequence, self.header.geometry.block)
    }

    fn slot(sequence: u64, block: u32) -> Offset {
        Offset(if sequence.is_multiple_of(2) { 0 } else { u64::from(block) })
    }

    /// The bytes of this head.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        preamble::encode(&mut bytes, MAGIC);
        for (field, number) in [
            (head::BLOCK, u64::from(self.header.geometry.block)),
            (head::DATA, u64::from(self.scheme.data)),
            (head::PARITY, u64::from(self.scheme.parity)),
            (head::LOG_ID, self.header.log.0),
            (head::ID, self.header.id.get()),
            (head::EPOCH, self.header.epoch.0),
            (head::SEQUENCE, self.sequence),
            (head::COVERED, self.covered),
            (head::START, self.header.data_start()),
        ] {
            put(&mut bytes, field, number);
        }
        slice_mut(&mut bytes, head::HEADER).copy_from_slice(&self.header.encode());
        self.header.salt().put_checksum(self.offset(), &mut bytes, head::CRC);
        bytes
    }

    /// The bytes of this head as they are stored: with the authenticator of the segment's header,
    /// if that has one.
    #[must_use]
    pub fn stored(&self) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        if let Some(proof) = &self.header.authenticator {
            bytes.resize(AUTHENTICATOR_AT, 0);
            let header = self.header.encode();
            bytes.extend_from_slice(&proof.encode(&header, Offset(0), &self.header.salt()));
        }
        bytes
    }

    /// Decodes the copy of the head at the beginning of `file`.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why there is none.
    pub fn decode(file: &[u8]) -> Result<Self, Refused> {
        preamble::check(file, MAGIC)?;
        let bytes = file.first_chunk::<HEAD_SIZE>().ok_or(Refused::Invalid)?;
        let header = slice(bytes, head::HEADER);
        let header: &[u8; HEADER_SIZE] = header.try_into().map_err(|_| Refused::Invalid)?;
        Self::refuse_unknown(bytes)?;
        let part = |field| u16::try_from(get(bytes, field)).map_err(|_| Refused::Invalid);
        let proof = file.get(AUTHENTICATOR_AT..).unwrap_or_default();
        let proof = |salt: &Salt| Authenticator::read(proof, header, (Offset(0), salt));
        let found = Self {
            header: SegmentHeader::decode_with(header, proof)?,
            scheme: Scheme::new(part(head::DATA)?, part(head::PARITY)?).ok_or(Refused::Invalid)?,
            sequence: get(bytes, head::SEQUENCE),
            covered: get(bytes, head::COVERED),
        };
        let is_possible = (1..1 << 63).contains(&found.sequence)
            && (found.header.data_start()..COVERED_END).contains(&found.covered);
        // Only one encoding is valid, and the checksum is part of it.
        if is_possible && found.encode() == *bytes { Ok(found) } else { Err(Refused::Invalid) }
    }

    /// Refuses what a newer program wrote. The checksum is valid, so it is not damage.
    fn refuse_unknown(bytes: &[u8; HEAD_SIZE]) -> Result<(), Refused> {
        let (log, epoch) = (LogId(get(bytes, head::LOG_ID)), Epoch(get(bytes, head::EPOCH)));
        let block = u32::try_from(get(bytes, head::BLOCK)).map_err(|_| Refused::Invalid)?;
        let at = Self::slot(get(bytes, head::SEQUENCE), block);
        if !Salt::new(log, epoch).matches(at, bytes, head::CRC) {
            return Err(Refused::Invalid);
        }
        match get(bytes, head::FEATURES) {
            0 => preamble::kept_for_later(bytes, &[head::ZERO_BEHIND]),
            features => {
                Err(Refused::Unknown { what: format!("feature bits {features:#x} of parity") })
            }
        }
    }

    /// Decodes both copies of the head in a file and returns the newer one that can be read. Only
    /// the head itself states the block size, so the second copy is tried at each possible offset.
    ///
    /// # Errors
    ///
    /// [`Refused`] if neither can be read; if one is of another version, the error says that.
    pub fn decode_file(file: &[u8]) -> Result<Self, Refused> {
        let mut newest = Self::decode(file).and_then(|head| head.stands_at(0));
        for shift in 9..=16_u32 {
            let at = 1_usize << shift;
            let Some(bytes) = file.get(at..) else { break };
            let found = Self::decode(bytes).and_then(|head| head.stands_at(to_u64(at)));
            newest = match (newest, found) {
                (Ok(first), Ok(second)) => {
                    Ok(if second.sequence > first.sequence { second } else { first })
                }
                (Err(Refused::Invalid), other) | (Err(_), other @ Ok(_)) => other,
                (newest, _) => newest,
            };
        }
        newest
    }

    fn stands_at(self, at: u64) -> Result<Self, Refused> {
        if self.offset().0 == at { Ok(self) } else { Err(Refused::Invalid) }
    }
}

/// The most bytes of a file that [`Head::decode_file`] looks at.
pub const HEADS_MAX: usize = (64 << 10) + STORED_MAX;

#[cfg(test)]
mod tests;
