//! The manifest: which segment is the oldest, checkpoints, the last clean close, options.
//! format.md section 4.

pub(crate) mod closing;

use crate::checksum::Salt;
#[cfg(feature = "encryption")]
use crate::encryption::{KeyError, LogKey};
use crate::fields::{get, get_u32, put, slice, slice_mut, table};
#[cfg(feature = "encryption")]
use crate::files::authenticator::Claims;
use crate::files::authenticator::{Authenticator, Stored, with_authenticator};
use crate::files::parity::Scheme;
use crate::files::preamble;
use crate::files::segment::{
    ENCRYPTED, IN_FLIGHT, NAMED_AHEAD, REUSED, compression_bits, compression_max, features,
    in_flight_max, layout_of,
};
use crate::ids::{LogId, Lsn, Offset, SegmentRef, lsn_or_zero, to_u64};
use crate::refused::Refused;
use crate::types::{Compression, Geometry, Layout, Level, RecordType, RecordTypeFields};
use std::ops::Range;

const MAGIC_BYTES: [u8; 8] = *b"SEAWALLM";

/// The feature bit of a log with parity files.
const HAS_PARITY: u64 = 1;

/// The size of an encoded manifest slot, in bytes.
pub const MANIFEST_SLOT_SIZE: usize = 208;

table! {
    MAGIC = 0, 8, "magic";
    VERSION = 8, 2, "version";
    DRAFT = 10, 2, "draft";
    PREAMBLE_CRC = 12, 4, "preamble crc";
    CRC = 16, 4, "crc";
    BLOCK = 20, 4, "block";
    REACH = 24, 4, "reach";
    BATCH_MAX = 28, 4, "batch max";
    LOG_ID = 32, 8, "log id";
    SEQUENCE = 40, 8, "sequence";
    OLDEST_ID = 48, 8, "oldest id";
    OLDEST_EPOCH = 56, 8, "oldest epoch";
    OLDEST_BASE = 64, 8, "oldest base";
    CHECKPOINT = 72, 8, "checkpoint";
    CHECKPOINT_BEFORE = 80, 8, "checkpoint before";
    CLOSED = 88, 8, "closed";
    CLOSED_ID = 96, 8, "closed id";
    CLOSED_EPOCH = 104, 8, "closed epoch";
    SEGMENT_MAX = 112, 8, "segment max";
    FEATURES = 120, 4, "features";
    CODEC = 124, 2, "codec";
    LAYOUT = 126, 1, "layout";
    LEVEL = 127, 1, "level";
    SCHEMA = 128, 4, "schema";
    NAME_LENGTH = 132, 1, "type name length";
    DATA_BLOCKS = 133, 1, "data blocks";
    PARITY_BLOCKS = 134, 1, "parity blocks";
    COMPRESSION = 135, 1, "compression";
    NAME = 136, 64, "type name";
    TIME = 200, 8, "time";
}

/// Where the log ended at a clean close: a lower bound, true whatever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The last record then.
    pub last: Option<Lsn>,
    /// The newest segment then.
    pub segment: SegmentRef,
}

/// One slot of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The block size, reach and maximum batch size of new files.
    pub geometry: Geometry,
    /// Which log this is.
    pub log: LogId,
    /// In an encrypted log: proves who wrote the slot, and says how segments are encrypted and from
    /// which one on.
    pub authenticator: Option<Authenticator>,
    /// Counts the writes of the manifest; the higher readable slot counts.
    pub sequence: u64,
    /// The oldest live segment.
    pub oldest: SegmentRef,
    /// Its first record.
    pub oldest_base: Lsn,
    /// The last two checkpoints, newest first.
    pub checkpoints: [Option<Lsn>; 2],
    /// The last clean close, or a later open that continued in the same segment.
    pub closed: Option<Closed>,
    /// Whether a clean close wrote this slot: nothing was appended since.
    pub is_closed: bool,
    /// The size up to which rotation doubles segments, in bytes.
    pub segment_max: u64,
    /// The default durability level of `append`.
    pub level: Level,
    /// The layout of new segments.
    pub layout: Layout,
    /// What the payloads are.
    pub record_type: RecordType,
    /// The parity scheme of new segments.
    pub parity: Option<Scheme>,
    /// Whether files of removed segments are used again.
    pub reuses: bool,
    /// Whether segments get their names before they are needed.
    pub names_ahead: bool,
    /// The most writes that may be in flight in a segment of the log, from 1 to
    /// [`IN_FLIGHT_MAX`](crate::IN_FLIGHT_MAX).
    pub in_flight_max: u8,
    /// The highest method with which batches of the log may be compressed.
    pub compression_max: Compression,
    /// How the batches to come are compressed.
    pub compression: Compression,
    /// Microseconds since 1970 when it was written; informational.
    pub time_us: u64,
}

impl Manifest {
    /// The offset of the manifest slot for this sequence number.
    #[must_use]
    pub fn offset(&self) -> Offset {
        slot_offset(self.sequence, self.geometry.block)
    }

    /// The bytes of the file in which this slot's mark of a clean close lies, if it has one.
    #[must_use]
    pub fn closing_place(&self) -> Range<u64> {
        let start = self.offset().plus(to_u64(closing::CLOSING_AT)).0;
        start..start + to_u64(closing::CLOSING_SIZE)
    }

    /// Where the log ends, if it was not opened for writing since the last clean close.
    #[must_use]
    pub fn end(&self) -> Option<Closed> {
        self.closed.filter(|_| self.is_closed)
    }

    /// The newest checkpoint: nothing before it is needed.
    #[must_use]
    pub fn newest_checkpoint(&self) -> Option<Lsn> {
        let [newest, _] = self.checkpoints;
        newest
    }

    /// The same log, for a segment whose records have that schema number.
    #[must_use]
    pub fn with_schema(&self, schema: u32) -> Self {
        let record_type = RecordType { schema, ..self.record_type.clone() };
        Self { record_type, ..self.clone() }
    }

    /// The bytes of this slot.
    #[must_use]
    pub fn encode(&self) -> [u8; MANIFEST_SLOT_SIZE] {
        let mut bytes = [0; MANIFEST_SLOT_SIZE];
        preamble::encode(&mut bytes, MAGIC_BYTES);
        let [checkpoint, before] = self.checkpoints;
        let closed = self.closed;
        for (field, number) in [
            (BLOCK, u64::from(self.geometry.block)),
            (REACH, u64::from(self.geometry.reach)),
            (BATCH_MAX, u64::from(self.geometry.batch_max)),
            (LOG_ID, self.log.0),
            (SEQUENCE, self.sequence),
            (OLDEST_ID, self.oldest.id.get()),
            (OLDEST_EPOCH, self.oldest.epoch.0),
            (OLDEST_BASE, self.oldest_base.get()),
            (CHECKPOINT, lsn_or_zero(checkpoint)),
            (CHECKPOINT_BEFORE, lsn_or_zero(before)),
            (CLOSED, closed.map_or(0, |closed| lsn_or_zero(closed.last))),
            (CLOSED_ID, closed.map_or(0, |closed| closed.segment.id.get())),
            (CLOSED_EPOCH, closed.map_or(0, |closed| closed.segment.epoch.0)),
            (SEGMENT_MAX, self.segment_max),
            (CODEC, self.record_type.codec.number()),
            (LAYOUT, self.layout.number()),
            (LEVEL, self.level.number()),
            (SCHEMA, u64::from(self.record_type.schema)),
            (NAME_LENGTH, self.record_type.name_length()),
            (TIME, self.time_us),
        ] {
            put(&mut bytes, field, number);
        }
        let parity_bit = if self.parity.is_some() { HAS_PARITY } else { 0 };
        let others = features(self.reuses, self.names_ahead, self.in_flight_max);
        let compressed = compression_bits(self.compression_max);
        let encrypted = if self.authenticator.is_some() { ENCRYPTED } else { 0 };
        put(&mut bytes, FEATURES, parity_bit | compressed | encrypted | others);
        put(&mut bytes, COMPRESSION, self.compression.number());
        if let Some(scheme) = self.parity {
            put(&mut bytes, DATA_BLOCKS, to_u64(scheme.data()));
            put(&mut bytes, PARITY_BLOCKS, to_u64(scheme.parity()));
        }
        slice_mut(&mut bytes, NAME).copy_from_slice(&self.record_type.name_bytes());
        Salt::of_log(self.log).put_checksum(self.offset(), &mut bytes, CRC);
        bytes
    }

    /// The bytes of this slot as they are stored: with its authenticator, if it has one, and the
    /// mark of a clean close.
    #[must_use]
    pub fn stored(&self) -> Stored {
        let at = (self.offset(), &Salt::of_log(self.log));
        let slot = with_authenticator(&self.encode(), self.authenticator.as_ref(), at);
        let mark = closing::encode(&self.encode(), (self.log, self.offset()));
        // Otherwise zeros, so that no earlier mark stays.
        slot.followed_by(if self.is_closed { mark } else { [0; closing::CLOSING_SIZE] })
    }

    /// The slot of an encrypted log with these claims, signed with the key that they name.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn signed(&self, claims: Claims, key: &LogKey) -> Self {
        let authenticator = Some(Authenticator::unsigned(claims));
        let unsigned = Self { authenticator, ..self.clone() };
        let claims = (claims, &key.manifest(self.log));
        let proof = Authenticator::new(&unsigned.encode(), self.offset(), claims);
        Self { authenticator: Some(proof), ..unsigned }
    }

    /// Checks that a holder of this key, which the authenticator names, wrote the slot.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if not.
    #[cfg(feature = "encryption")]
    pub fn check(&self, key: &LogKey) -> Result<(), KeyError> {
        let proof = self.authenticator.as_ref().ok_or(KeyError::Forged)?;
        proof.check(&self.encode(), self.offset(), &key.manifest(self.log))
    }

    /// Decodes the slot at `offset`, with its authenticator if the log is encrypted. `sector` is
    /// the file from `offset` on: up to 512 bytes.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why these bytes are not a slot.
    pub fn decode(sector: &[u8], offset: Offset) -> Result<Self, Refused> {
        preamble::check(sector, MAGIC_BYTES)?;
        let bytes = sector.first_chunk::<MANIFEST_SLOT_SIZE>().ok_or(Refused::Invalid)?;
        let log = LogId(get(bytes, LOG_ID));
        if !Salt::of_log(log).matches(offset, bytes, CRC) {
            return Err(Refused::Invalid);
        }
        let features = get(bytes, FEATURES);
        let known = HAS_PARITY | REUSED | NAMED_AHEAD | ENCRYPTED | IN_FLIGHT;
        let layout = layout_of((features, known), get(bytes, LAYOUT))?;
        let compression = compression_of(bytes, compression_max(features))?;
        let parity = if features & HAS_PARITY == 0 {
            None
        } else {
            let part = |field| u16::try_from(get(bytes, field)).expect("a field of one byte");
            let scheme = Scheme::new(part(DATA_BLOCKS), part(PARITY_BLOCKS));
            Some(scheme.ok_or(Refused::Invalid)?)
        };
        let closed_segment =
            SegmentRef::from_numbers(get(bytes, CLOSED_ID), get(bytes, CLOSED_EPOCH));
        let found = Self {
            geometry: Geometry {
                block: get_u32(bytes, BLOCK),
                reach: get_u32(bytes, REACH),
                batch_max: get_u32(bytes, BATCH_MAX),
            }
            .check()?,
            log,
            authenticator: if features & ENCRYPTED == 0 {
                None
            } else {
                let salt = Salt::of_log(log);
                Some(Authenticator::decode(sector, MANIFEST_SLOT_SIZE, offset, &salt)?)
            },
            sequence: get(bytes, SEQUENCE),
            oldest: SegmentRef::from_numbers(get(bytes, OLDEST_ID), get(bytes, OLDEST_EPOCH))
                .ok_or(Refused::Invalid)?,
            oldest_base: Lsn::new(get(bytes, OLDEST_BASE)).ok_or(Refused::Invalid)?,
            checkpoints: [CHECKPOINT, CHECKPOINT_BEFORE].map(|field| Lsn::new(get(bytes, field))),
            closed: closed_segment
                .map(|segment| Closed { last: Lsn::new(get(bytes, CLOSED)), segment }),
            segment_max: get(bytes, SEGMENT_MAX),
            level: Level::from_number(get(bytes, LEVEL))?,
            layout,
            record_type: RecordType::decode(&RecordTypeFields {
                codec: get(bytes, CODEC),
                length: get(bytes, NAME_LENGTH),
                name: slice(bytes, NAME),
                schema: get_u32(bytes, SCHEMA),
            })?,
            parity,
            reuses: features & REUSED != 0,
            names_ahead: features & NAMED_AHEAD != 0,
            in_flight_max: in_flight_max(features),
            compression_max: compression_max(features),
            compression,
            time_us: get(bytes, TIME),
            is_closed: closing::is_in(sector, bytes, (log, offset)),
        };
        let sound = found.offset() == offset
            && log.0 != 0
            && found.segment_max <= Geometry::SEGMENT_MAX
            && found.sequence < 1 << 63
            && found.record_type.fits(layout)
            && (layout == Layout::Binary
                || (features & !HAS_PARITY) == 0)
            // Only one encoding is valid: bytes outside of all fields are zero.
            && found.encode() == *bytes;
        if sound { Ok(found) } else { Err(Refused::Invalid) }
    }

    /// Both slots of a manifest file, slot A first, each as far as it is readable.
    ///
    /// The block size, and with it the place of slot B, is unknown if slot A is damaged: every
    /// size that format.md allows is tried.
    pub fn decode_file(file: &[u8]) -> [Result<Self, Refused>; 2] {
        let slot_b = |shift: u32| {
            let at = 512_u64 << shift;
            let bytes = file.get(usize::try_from(at).ok()?..)?;
            Some(Self::decode(bytes, Offset(at))).filter(|found| *found != Err(Refused::Invalid))
        };
        let b = (0..8).find_map(slot_b).unwrap_or(Err(Refused::Invalid));
        [Self::decode(file, Offset(0)), b]
    }
}

/// Decodes how later batches are compressed. Refuses a method that the log does not allow.
fn compression_of(bytes: &[u8], max: Compression) -> Result<Compression, Refused> {
    if max == Compression::None {
        preamble::kept_for_later(bytes, &[COMPRESSION])?;
    }
    let number = get(bytes, COMPRESSION);
    let found = Compression::from_number(number)?;
    let is_allowed = found <= max;
    let unknown = || Refused::Unknown { what: format!("compression {number}") };
    is_allowed.then_some(found).ok_or_else(unknown)
}

fn slot_offset(sequence: u64, block: u32) -> Offset {
    Offset(if sequence.is_multiple_of(2) { 0 } else { u64::from(block) })
}

const _: () = assert!(TIME.at + TIME.size == MANIFEST_SLOT_SIZE);
const _: () =
    assert!(MANIFEST_SLOT_SIZE <= crate::fields::sizes::SECTOR, "a slot is written in one sector");

#[cfg(test)]
mod tests;
