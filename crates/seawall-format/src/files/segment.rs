//! The first blocks of a segment: header, two mark slots, seal. format.md sections 3.1 and 3.2.

use crate::checksum::Salt;
use crate::encryption::{KeyError, SegmentKeys};
use crate::fields::{get, get_u32, put, slice, slice_mut};
use crate::files::authenticator::{Authenticator, Claims, Stored, with_authenticator};
use crate::files::preamble;
use crate::ids::{Epoch, KeyNumber, LogId, Lsn, Offset, SegmentId, SegmentRef, lsn_or_zero};
use crate::refused::Refused;
use crate::types::{Compression, Geometry, Layout, RecordType, RecordTypeFields};

const MAGIC: [u8; 8] = *b"SEAWALLS";

/// The feature bit of a segment in a file that was used before, and of a log with such segments.
pub(crate) const REUSED: u64 = 1 << 1;

/// The feature bit of a segment that was named ahead, and of a log with such segments.
pub(crate) const NAMED_AHEAD: u64 = 1 << 2;

/// The feature bit of a segment with compressed batches, and of a log with such segments.
pub(crate) const COMPRESSED: u64 = 1 << 3;

/// The feature bit of a segment with batches that zstd compressed, and of a log with such segments.
pub(crate) const ZSTD: u64 = 1 << 5;

/// The feature bit of a segment whose batches are encrypted, and of a log with such segments.
pub(crate) const ENCRYPTED: u64 = 1 << 4;

/// The feature bits that say how many writes may be in flight.
pub(crate) const IN_FLIGHT: u64 = 0b11 << IN_FLIGHT_SHIFT;
const IN_FLIGHT_SHIFT: u32 = 8;

/// The most writes of a segment that may be in flight.
pub const IN_FLIGHT_MAX: u8 = 4;

/// The size of an encoded segment header, in bytes.
pub const HEADER_SIZE: usize = 192;
const MARK_SIZE: usize = 40;
const SEAL_SIZE: usize = 48;

pub(crate) mod header {
    crate::fields::table! {
        MAGIC = 0, 8, "magic";
        VERSION = 8, 2, "version";
        DRAFT = 10, 2, "draft";
        PREAMBLE_CRC = 12, 4, "preamble crc";
        CRC = 16, 4, "header crc";
        BLOCK = 20, 4, "block";
        REACH = 24, 4, "reach";
        BATCH_MAX = 28, 4, "batch max";
        LOG_ID = 32, 8, "log id";
        ID = 40, 8, "id";
        EPOCH = 48, 8, "epoch";
        BASE = 56, 8, "base";
        CARRIED = 64, 8, "carried";
        SIZE = 72, 8, "size";
        PRED_ID = 80, 8, "pred id";
        PRED_EPOCH = 88, 8, "pred epoch";
        PRED_CHAIN = 96, 8, "pred chain";
        FEATURES = 104, 4, "features";
        CODEC = 108, 2, "codec";
        LAYOUT = 110, 1, "layout";
        NAME_LENGTH = 111, 1, "type name length";
        SCHEMA = 112, 4, "schema";
        KEY = 116, 4, "key";
        NAME = 120, 64, "type name";
        TIME = 184, 8, "time";
    }
}

pub(crate) mod mark {
    crate::fields::table! {
        CRC = 0, 4, "crc";
        MAGIC = 4, 4, "magic";
        EPOCH = 8, 8, "epoch";
        CONFIRMED = 16, 8, "confirmed";
        SEQUENCE = 24, 8, "sequence";
        TIME = 32, 8, "time";
    }
}

pub(crate) mod seal {
    crate::fields::table! {
        CRC = 0, 4, "crc";
        MAGIC = 4, 4, "magic";
        EPOCH = 8, 8, "epoch";
        LAST = 16, 8, "last";
        NEXT_ID = 24, 8, "next id";
        NEXT_EPOCH = 32, 8, "next epoch";
        TIME = 40, 8, "time";
    }
}

/// The header of a segment, written once and never changed.
///
/// The header of a segment that was named ahead does not say where the segment begins; its first
/// batch does. [`decode`](Self::decode) leaves `base` at 1, `carried` at none and `pred_chain` at
/// 0 then; [`begin`](Self::begin) and [`BatchHeader::begins`](crate::batch::BatchHeader::begins)
/// set them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The block size, reach and maximum batch size of this file.
    pub geometry: Geometry,
    /// Which log it belongs to.
    pub log: LogId,
    /// Proves who wrote the header, if the segment is encrypted. Also names the log key from which
    /// the segment's keys are derived.
    pub authenticator: Option<Authenticator>,
    /// Its number.
    pub id: SegmentId,
    /// The one life of this file.
    pub epoch: Epoch,
    /// The first record here; the one before was durable before this segment was.
    pub base: Lsn,
    /// Records up to here were durable in this file before it got its name.
    pub carried: Option<Lsn>,
    /// The length of the file, in bytes; of the head, where the records have a file of their own.
    pub size: u64,
    /// The segment before.
    pub pred: Option<SegmentRef>,
    /// The chain value of the predecessor's batch that holds `base` - 1; 0 if it was not known.
    pub pred_chain: u64,
    /// The layout of the records.
    pub layout: Layout,
    /// Whether its file belonged to another segment before: see [`before`](crate::before).
    pub is_reused: bool,
    /// Whether it got its name before it was needed.
    pub named_ahead: bool,
    /// How many writes of batches may be in flight, from 1 to [`IN_FLIGHT_MAX`]. A batch that is
    /// written before the one before it is durable begins at a block.
    pub in_flight_max: u8,
    /// The highest method with which batches may be compressed.
    pub compression_max: Compression,
    /// What the payloads are.
    pub record_type: RecordType,
    /// Microseconds since 1970 when it was made; informational.
    pub time_us: u64,
}

impl SegmentHeader {
    /// The bytes of this header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        preamble::encode(&mut bytes, MAGIC);
        let pred = self.pred;
        let in_header = |number| if self.named_ahead { 0 } else { number };
        for (field, number) in [
            (header::BLOCK, u64::from(self.geometry.block)),
            (header::REACH, u64::from(self.geometry.reach)),
            (header::BATCH_MAX, u64::from(self.geometry.batch_max)),
            (header::LOG_ID, self.log.0),
            (header::ID, self.id.get()),
            (header::EPOCH, self.epoch.0),
            (header::BASE, in_header(self.base.get())),
            (header::CARRIED, in_header(lsn_or_zero(self.carried))),
            (header::SIZE, self.size),
            (header::PRED_ID, pred.map_or(0, |pred| pred.id.get())),
            (header::PRED_EPOCH, pred.map_or(0, |pred| pred.epoch.0)),
            (header::PRED_CHAIN, in_header(self.pred_chain)),
            (header::FEATURES, self.features()),
            (header::CODEC, self.record_type.codec.number()),
            (header::LAYOUT, self.layout.number()),
            (header::NAME_LENGTH, self.record_type.name_length()),
            (header::SCHEMA, u64::from(self.record_type.schema)),
            (header::KEY, self.log_key().map_or(0, |key| key.get().into())),
            (header::TIME, self.time_us),
        ] {
            put(&mut bytes, field, number);
        }
        slice_mut(&mut bytes, header::NAME).copy_from_slice(&self.record_type.name_bytes());
        self.salt().put_checksum(Offset(0), &mut bytes, header::CRC);
        bytes
    }

    /// The bytes of this header as they are stored: with its authenticator, if it has one.
    #[must_use]
    pub fn stored(&self) -> Stored {
        with_authenticator(&self.encode(), self.authenticator.as_ref(), (Offset(0), &self.salt()))
    }

    /// Decodes the header from the first bytes of a file, with its authenticator if the segment is
    /// encrypted: up to [`STORED_MAX`](crate::STORED_MAX) bytes. If the segment was named ahead,
    /// where it begins is still unknown.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why these bytes are not a header.
    pub fn decode(file: &[u8]) -> Result<Self, Refused> {
        let proof = |salt: &Salt| Authenticator::decode(file, HEADER_SIZE, Offset(0), salt);
        Self::decode_with(file, proof)
    }

    /// Decodes the header in these bytes. `proof` reads its authenticator, if it has one.
    pub(crate) fn decode_with(
        file: &[u8],
        proof: impl FnOnce(&Salt) -> Result<Authenticator, Refused>,
    ) -> Result<Self, Refused> {
        preamble::check(file, MAGIC)?;
        let bytes = file.first_chunk::<HEADER_SIZE>().ok_or(Refused::Invalid)?;
        let (log, epoch) = (LogId(get(bytes, header::LOG_ID)), Epoch(get(bytes, header::EPOCH)));
        let salt = Salt::new(log, epoch);
        if !salt.matches(Offset(0), bytes, header::CRC) {
            return Err(Refused::Invalid);
        }
        let features = get(bytes, header::FEATURES);
        let known = REUSED | NAMED_AHEAD | ENCRYPTED | IN_FLIGHT;
        let layout = layout_of((features, known), get(bytes, header::LAYOUT))?;
        let named_ahead = features & NAMED_AHEAD != 0;
        let authenticator = if features & ENCRYPTED == 0 {
            preamble::kept_for_later(bytes, &[header::KEY])?;
            None
        } else {
            let key = KeyNumber::new(get_u32(bytes, header::KEY)).ok_or(Refused::Invalid)?;
            Some(proof(&salt)?.with_claims(Claims::of(key))?)
        };
        let header = Self {
            geometry: Geometry {
                block: get_u32(bytes, header::BLOCK),
                reach: get_u32(bytes, header::REACH),
                batch_max: get_u32(bytes, header::BATCH_MAX),
            }
            .check()?,
            log,
            authenticator,
            id: SegmentId::new(get(bytes, header::ID)).ok_or(Refused::Invalid)?,
            epoch,
            base: match Lsn::new(get(bytes, header::BASE)) {
                None if named_ahead => Lsn::FIRST,
                base => base.ok_or(Refused::Invalid)?,
            },
            carried: Lsn::new(get(bytes, header::CARRIED)),
            size: get(bytes, header::SIZE),
            pred: SegmentRef::from_numbers(
                get(bytes, header::PRED_ID),
                get(bytes, header::PRED_EPOCH),
            ),
            pred_chain: get(bytes, header::PRED_CHAIN),
            layout,
            is_reused: features & REUSED != 0,
            named_ahead,
            in_flight_max: in_flight_max(features),
            compression_max: compression_max(features),
            record_type: RecordType::decode(&RecordTypeFields {
                codec: get(bytes, header::CODEC),
                length: get(bytes, header::NAME_LENGTH),
                name: slice(bytes, header::NAME),
                schema: get_u32(bytes, header::SCHEMA),
            })?,
            time_us: get(bytes, header::TIME),
        };
        // Only one encoding is valid: bytes outside of all fields are zero.
        let is_plain = header.is_consistent() && header.encode() == *bytes;
        if is_plain { Ok(header) } else { Err(Refused::Invalid) }
    }

    /// The header of a segment that was named ahead, which begins with record `base` after the
    /// batch with this chain value. All records before it were durable.
    #[must_use]
    pub fn begin(&self, base: Lsn, pred_chain: u64) -> Self {
        Self { base, carried: base.previous(), pred_chain, ..self.clone() }
    }

    /// The header as [`decode`](Self::decode) returns it.
    #[must_use]
    pub fn as_written(&self) -> Self {
        if self.named_ahead { self.begin(Lsn::FIRST, 0) } else { self.clone() }
    }

    /// The log key from which the segment's keys are derived, if it is encrypted.
    #[must_use]
    pub fn log_key(&self) -> Option<KeyNumber> {
        self.authenticator.map(|proof| proof.claims.key)
    }

    /// Signs the header of an encrypted segment, whose keys are derived from log key `number`.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn signed(self, number: KeyNumber, keys: &SegmentKeys) -> Self {
        let claims = Claims::of(number);
        let unsigned = Self { authenticator: Some(Authenticator::unsigned(claims)), ..self };
        let proof = Authenticator::new(&unsigned.encode(), Offset(0), (claims, keys.head()));
        Self { authenticator: Some(proof), ..unsigned }
    }

    /// Checks that a holder of the segment's keys wrote the header.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if not.
    #[cfg(feature = "encryption")]
    pub fn check(&self, keys: &SegmentKeys) -> Result<(), KeyError> {
        let proof = self.authenticator.as_ref().ok_or(KeyError::Forged)?;
        proof.check(&self.as_written().encode(), Offset(0), keys.head())
    }

    /// Decodes the authenticator of a mark or seal in the sector `bytes`; `None` if the segment is
    /// not encrypted. An error if it is missing, so that the structure is not valid.
    fn proof_at(
        &self,
        (bytes, size): (&[u8], usize),
        at: Offset,
    ) -> Result<Option<Authenticator>, Refused> {
        let Some(key) = self.log_key() else { return Ok(None) };
        let proof = Authenticator::decode(bytes, size, at, &self.salt())?;
        proof.with_claims(Claims::of(key)).map(Some)
    }

    /// A mark or seal as it is stored at `at`: with an authenticator, if the segment is encrypted.
    fn stored_with(&self, structure: &[u8], at: Offset, keys: Option<&SegmentKeys>) -> Stored {
        let place = (at, &self.salt());
        let Some(key) = self.log_key() else { return with_authenticator(structure, None, place) };
        let keys = keys.expect("an encrypted segment is written with its keys");
        let proof = keys.authenticator(structure, at, Claims::of(key));
        with_authenticator(structure, Some(&proof), place)
    }

    /// The salt that binds all checksums in this file.
    #[must_use]
    pub fn salt(&self) -> Salt {
        Salt::new(self.log, self.epoch)
    }

    /// Its id and epoch, as seals and manifests name it.
    #[must_use]
    pub fn reference(&self) -> SegmentRef {
        SegmentRef { id: self.id, epoch: self.epoch }
    }

    /// The value that the first batch of the segment chains to.
    #[must_use]
    pub fn chain(&self) -> u64 {
        if self.named_ahead {
            return self.pred_chain;
        }
        let bytes = self.encode();
        get(&bytes, header::CRC) | self.epoch.tag() << 32
    }

    /// The name of the file with header, marks and seal. The segment exists if this file does.
    #[must_use]
    pub fn head_name(&self) -> String {
        match self.layout {
            Layout::Binary => self.id.file_name(),
            Layout::Text => self.id.head_name(),
        }
    }

    /// The name of the file that holds the records: the same, unless they have one of their own.
    #[must_use]
    pub fn data_name(&self) -> String {
        match self.layout {
            Layout::Binary => self.id.file_name(),
            Layout::Text => self.id.text_name(),
        }
    }

    /// Where the records begin in the file that holds them.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        match self.layout {
            Layout::Binary => self.geometry.data_start(),
            Layout::Text => 0,
        }
    }

    fn features(&self) -> u64 {
        let compressed = compression_bits(self.compression_max);
        let encrypted = if self.authenticator.is_some() { ENCRYPTED } else { 0 };
        compressed | encrypted | features(self.is_reused, self.named_ahead, self.in_flight_max)
    }

    /// Whether the fields fit together. No reader accepts a header whose fields do not.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        self.log.0 != 0
            && self.epoch.0 != 0
            && self.carried >= self.base.previous()
            && match self.layout {
                Layout::Binary => {
                    (self.geometry.data_start()..=Geometry::SEGMENT_MAX).contains(&self.size)
                }
                Layout::Text => self.size == self.geometry.head_size(),
            }
            && (self.layout == Layout::Binary || self.features() == 0)
            && (!self.named_ahead || self.pred.is_some())
            && self.record_type.fits(self.layout)
            && self.size.is_multiple_of(u64::from(self.geometry.block))
            && self.pred.is_none_or(|pred| pred.id < self.id)
    }
}

/// The feature bits of reuse, of names ahead and of writes in flight.
pub(crate) fn features(is_reused: bool, named_ahead: bool, in_flight_max: u8) -> u64 {
    let more = u64::from(in_flight_max.clamp(1, IN_FLIGHT_MAX) - 1);
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    more << IN_FLIGHT_SHIFT | bit(is_reused, REUSED) | bit(named_ahead, NAMED_AHEAD)
}

/// How many writes may be in flight, by these feature bits.
pub(crate) fn in_flight_max(features: u64) -> u8 {
    let more = (features & IN_FLIGHT) >> IN_FLIGHT_SHIFT;
    u8::try_from(more).expect("two bits") + 1
}

/// The feature bits of compression with methods up to this one.
pub(crate) fn compression_bits(max: Compression) -> u64 {
    match max {
        Compression::None => 0,
        Compression::Lz4 => COMPRESSED,
        Compression::Zstd => COMPRESSED | ZSTD,
    }
}

/// The highest method of compression that these feature bits allow.
pub(crate) fn compression_max(features: u64) -> Compression {
    match (features & COMPRESSED, features & ZSTD) {
        (0, _) => Compression::None,
        (_, 0) => Compression::Lz4,
        _ => Compression::Zstd,
    }
}

/// Returns the layout. Refuses by name the features and layouts that this version does not know, or
/// this build does not have.
pub(crate) fn layout_of((features, known): (u64, u64), layout: u64) -> Result<Layout, Refused> {
    let method = compression_max(features);
    let unknown = features & !known & !compression_bits(method);
    if unknown != 0 {
        return Err(Refused::Unknown { what: format!("feature bits {unknown:#x}") });
    }
    if !method.is_built_in() {
        return Err(Refused::NotBuiltIn { compression: method.name() });
    }
    Layout::from_number(layout)
}

/// One of the two slots that marks are written to alternately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkSlot {
    /// In block 1.
    A,
    /// In block 2.
    B,
}

impl MarkSlot {
    /// The slot that the mark with this sequence number goes to.
    #[must_use]
    pub fn of(sequence: u64) -> Self {
        if sequence.is_multiple_of(2) { Self::A } else { Self::B }
    }

    /// Its offset in a segment.
    #[must_use]
    pub fn offset(self, geometry: Geometry) -> Offset {
        match self {
            Self::A => Offset(u64::from(geometry.block)),
            Self::B => Offset(2 * u64::from(geometry.block)),
        }
    }
}

/// Evidence, far from the data, that records up to `confirmed` were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Every record up to here was durable when the mark was built.
    pub confirmed: Option<Lsn>,
    /// Counts the marks of this segment, from 1.
    pub sequence: u64,
    /// Microseconds since 1970; informational.
    pub time_us: u64,
}

impl Mark {
    /// The slot that this mark goes to.
    #[must_use]
    pub fn slot(&self) -> MarkSlot {
        MarkSlot::of(self.sequence)
    }

    /// The bytes of this mark in the segment of `header`.
    #[must_use]
    pub fn encode(&self, header: &SegmentHeader) -> [u8; MARK_SIZE] {
        let mut bytes = [0; MARK_SIZE];
        slice_mut(&mut bytes, mark::MAGIC).copy_from_slice(b"MARK");
        put(&mut bytes, mark::EPOCH, header.epoch.0);
        put(&mut bytes, mark::CONFIRMED, lsn_or_zero(self.confirmed));
        put(&mut bytes, mark::SEQUENCE, self.sequence);
        put(&mut bytes, mark::TIME, self.time_us);
        let at = self.slot().offset(header.geometry);
        header.salt().put_checksum(at, &mut bytes, mark::CRC);
        bytes
    }

    /// The bytes of this mark as they are stored: with an authenticator, if the segment is
    /// encrypted.
    ///
    /// # Panics
    ///
    /// If the segment is encrypted and `keys` are missing.
    #[must_use]
    pub fn stored(&self, header: &SegmentHeader, keys: Option<&SegmentKeys>) -> Stored {
        let at = self.slot().offset(header.geometry);
        header.stored_with(&self.encode(header), at, keys)
    }

    /// Checks that a holder of the segment's keys wrote this mark, of which `bytes` are the sector.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if not.
    pub fn check(
        &self,
        bytes: &[u8],
        header: &SegmentHeader,
        keys: &SegmentKeys,
    ) -> Result<(), KeyError> {
        let at = self.slot().offset(header.geometry);
        let proof =
            header.proof_at((bytes, MARK_SIZE), at).ok().flatten().ok_or(KeyError::Forged)?;
        proof.check_with(&self.encode(header), at, keys)
    }

    /// The mark that the bytes of this slot hold, if they are valid.
    #[must_use]
    pub fn decode(bytes: &[u8], slot: MarkSlot, header: &SegmentHeader) -> Option<Self> {
        let at = slot.offset(header.geometry);
        header.proof_at((bytes, MARK_SIZE), at).ok()?;
        let bytes = bytes.first_chunk::<MARK_SIZE>()?;
        let found = Self {
            confirmed: Lsn::new(get(bytes, mark::CONFIRMED)),
            sequence: get(bytes, mark::SEQUENCE),
            time_us: get(bytes, mark::TIME),
        };
        let valid = header.salt().matches(at, bytes, mark::CRC)
            && slice(bytes, mark::MAGIC) == b"MARK"
            && get(bytes, mark::EPOCH) == header.epoch.0
            && found.slot() == slot
            && (1..1 << 63).contains(&found.sequence);
        valid.then_some(found)
    }
}

/// The end of a segment: its last record and its successor, which was durable before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The last record that counts in this segment.
    pub last: Option<Lsn>,
    /// The next segment.
    pub next: SegmentRef,
    /// Microseconds since 1970; informational.
    pub time_us: u64,
}

impl Seal {
    /// Its offset in a segment.
    #[must_use]
    pub fn offset(geometry: Geometry) -> Offset {
        Offset(3 * u64::from(geometry.block))
    }

    /// The bytes of this seal in the segment of `header`.
    #[must_use]
    pub fn encode(&self, header: &SegmentHeader) -> [u8; SEAL_SIZE] {
        let mut bytes = [0; SEAL_SIZE];
        slice_mut(&mut bytes, seal::MAGIC).copy_from_slice(b"SEAL");
        put(&mut bytes, seal::EPOCH, header.epoch.0);
        put(&mut bytes, seal::LAST, lsn_or_zero(self.last));
        put(&mut bytes, seal::NEXT_ID, self.next.id.get());
        put(&mut bytes, seal::NEXT_EPOCH, self.next.epoch.0);
        put(&mut bytes, seal::TIME, self.time_us);
        let at = Self::offset(header.geometry);
        header.salt().put_checksum(at, &mut bytes, seal::CRC);
        bytes
    }

    /// The bytes of this seal as they are stored: with an authenticator, if the segment is
    /// encrypted.
    ///
    /// # Panics
    ///
    /// If the segment is encrypted and `keys` are missing.
    #[must_use]
    pub fn stored(&self, header: &SegmentHeader, keys: Option<&SegmentKeys>) -> Stored {
        let at = Self::offset(header.geometry);
        header.stored_with(&self.encode(header), at, keys)
    }

    /// Checks that a holder of the segment's keys wrote this seal, of which `bytes` are the sector.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if not.
    pub fn check(
        &self,
        bytes: &[u8],
        header: &SegmentHeader,
        keys: &SegmentKeys,
    ) -> Result<(), KeyError> {
        let at = Self::offset(header.geometry);
        let proof =
            header.proof_at((bytes, SEAL_SIZE), at).ok().flatten().ok_or(KeyError::Forged)?;
        proof.check_with(&self.encode(header), at, keys)
    }

    /// The seal that these bytes hold, if they are valid.
    #[must_use]
    pub fn decode(bytes: &[u8], header: &SegmentHeader) -> Option<Self> {
        let at = Self::offset(header.geometry);
        header.proof_at((bytes, SEAL_SIZE), at).ok()?;
        let bytes = bytes.first_chunk::<SEAL_SIZE>()?;
        let valid = header.salt().matches(at, bytes, seal::CRC)
            && slice(bytes, seal::MAGIC) == b"SEAL"
            && get(bytes, seal::EPOCH) == header.epoch.0;
        let next =
            SegmentRef::from_numbers(get(bytes, seal::NEXT_ID), get(bytes, seal::NEXT_EPOCH));
        let next = next.filter(|_| valid)?;
        Some(Self { last: Lsn::new(get(bytes, seal::LAST)), next, time_us: get(bytes, seal::TIME) })
    }
}

const _: () = {
    assert!(HEADER_SIZE <= crate::fields::sizes::SECTOR, "a header is written in one sector");
    assert!(header::TIME.at + header::TIME.size == HEADER_SIZE);
    assert!(mark::TIME.at + mark::TIME.size == MARK_SIZE);
    assert!(seal::TIME.at + seal::TIME.size == SEAL_SIZE);
};

#[cfg(test)]
mod tests;
