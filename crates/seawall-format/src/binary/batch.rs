//! Batches: what one device write adds to a segment. format.md section 3.3.

use crate::binary::chunk::{self, Form};
use crate::binary::frame;
use crate::checksum::{Crc, Salt, crc32c, crc32c_with};
use crate::fields::sizes::{BATCH_HEADER, SECTOR};
use crate::fields::{behind, get, get_u32, put, table};
use crate::files::before::SectorSums;
use crate::files::segment::SegmentHeader;
use crate::ids::{Epoch, Lsn, Offset, lsn_or_zero, to_u64};
use crate::refused::Refused;
use crate::types::Compression;
use std::hint::black_box;

/// Bytes of a batch before its frames.
pub const HEADER_SIZE: usize = BATCH_HEADER;

/// Bytes of a batch that are processed at once, in several passes: what a first-level cache holds.
const AT_HAND: usize = 16 << 10;

/// Bytes of a cache line; on a processor with longer ones, some are read twice.
const CACHE_LINE: usize = 64;

/// In the body length: the records are lost, and a repair gave them up.
const VOID: u64 = 1 << 27;

/// In the body length: the body is compressed, after a prefix. format.md section 3.6.
const ENCODED: u64 = 1 << 28 | 1 << 31;

/// In the body length: the body is encrypted, after a prefix. format.md section 3.7.
const ENCRYPTED: u64 = 1 << 28 | 1 << 30;

const ENCRYPTED_VOID: u64 = ENCRYPTED | VOID;

/// In the body length: all bits that are flags.
const FLAGS: u64 = 0x1F << 27;

/// In the body length: flags, by name, that a segment must allow. format.md section 3.3.
const KEPT_FOR_LATER: [(u64, &str); 4] =
    [(1 << 28, "prefix"), (1 << 29, "parity"), (1 << 30, "encrypted"), (1 << 31, "compressed")];

table! {
    HEADER_CRC = 0, 4, "header crc";
    BODY_LENGTH = 4, 4, "body length";
    FIRST = 8, 8, "first";
    COUNT = 16, 4, "count";
    BEHIND = 20, 4, "behind";
    BODY_CRC = 24, 4, "body crc";
    EPOCH_TAG = 28, 4, "epoch tag";
    CHAIN = 32, 8, "chain";
    TIME = 40, 8, "time";
}

/// What batches depend on in their segment: the salt of checksums, sizes and allowed kinds.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Log id and epoch.
    pub salt: Salt,
    /// The epoch. Each header repeats its low half.
    pub epoch: Epoch,
    /// The largest batch, header included, in bytes.
    pub batch_max: u32,
    /// The physical block, in bytes.
    pub block: u32,
    /// How many writes may be in flight.
    pub in_flight_max: u8,
    /// The highest method with which batches may be compressed.
    pub compression_max: Compression,
    /// Whether all batches are encrypted.
    pub is_encrypted: bool,
}

impl Life {
    /// The life of the segment with this header.
    #[must_use]
    pub fn of(header: &SegmentHeader) -> Self {
        let geometry = header.geometry;
        Self {
            salt: header.salt(),
            epoch: header.epoch,
            batch_max: geometry.batch_max,
            block: geometry.block,
            in_flight_max: header.in_flight_max,
            compression_max: header.compression_max,
            is_encrypted: header.authenticator.is_some(),
        }
    }

    /// Whether a chunk may be compressed with `method`.
    pub(crate) fn may_have(&self, method: Compression) -> bool {
        method <= self.compression_max
    }
}

/// What the body of a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyKind {
    /// A frame for each record.
    Frames,
    /// Nothing: the records are lost, and a repair gave them up.
    Void,
    /// Frames, compressed: see [`encoded`](crate::encoded).
    Encoded,
    /// Frames, perhaps compressed, that are encrypted: see [`encrypted`](crate::encrypted).
    Encrypted,
    /// Nothing, and a proof that a holder of the key gave the records up.
    EncryptedVoid,
}

impl BodyKind {
    /// The kind for these flags of the body length; `None` if the segment does not allow it.
    fn of(flags: u64, life: &Life) -> Option<Self> {
        match (flags, life.is_encrypted) {
            (0, false) => Some(Self::Frames),
            (VOID, false) => Some(Self::Void),
            (ENCODED, false) if life.may_have(Compression::Lz4) => Some(Self::Encoded),
            (ENCRYPTED, true) => Some(Self::Encrypted),
            (ENCRYPTED_VOID, true) => Some(Self::EncryptedVoid),
            _ => None,
        }
    }

    /// Number of plain frames in the body of `count` records: 0 if it is void or has chunks.
    fn frames(self, count: u32) -> u32 {
        match self {
            Self::Frames => count,
            Self::Void | Self::Encoded | Self::Encrypted | Self::EncryptedVoid => 0,
        }
    }

    /// The form of the chunks in such a body; `None` if it has no chunks.
    pub(crate) fn form(self) -> Option<Form> {
        match self {
            Self::Frames | Self::Void => None,
            Self::Encoded => Some(Form::Compressed),
            Self::Encrypted | Self::EncryptedVoid => Some(Form::Encrypted),
        }
    }

    /// The flags of the body length for this kind.
    fn flags(self) -> u64 {
        match self {
            Self::Frames => 0,
            Self::Void => VOID,
            Self::Encoded => ENCODED,
            Self::Encrypted => ENCRYPTED,
            Self::EncryptedVoid => ENCRYPTED_VOID,
        }
    }
}

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The header's checksum, as stored on disk.
    pub header_crc: u32,
    /// Bytes after the header.
    pub body_length: u32,
    /// What the body holds.
    pub kind: BodyKind,
    /// The first record.
    pub first: Lsn,
    /// How many records.
    pub count: u32,
    /// How many records before this batch were not known durable when it was built.
    pub behind: u32,
    /// The checksum of the body.
    pub body_crc: u32,
    /// The chain value of the batch before.
    pub chain: u64,
    /// Microseconds since 1970; informational.
    pub time_us: u64,
}

impl BatchHeader {
    /// The header at `offset` of a segment, if its checksum, epoch and sizes are right.
    #[must_use]
    pub fn decode(bytes: &[u8], offset: Offset, life: &Life) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_SIZE>()?;
        // The tag first: it turns away nearly everything when a whole segment is searched.
        if get(bytes, EPOCH_TAG) != life.epoch.tag() {
            return None;
        }
        let header_crc = get_u32(bytes, HEADER_CRC);
        if life.salt.checksum(offset, behind(bytes, HEADER_CRC)) != header_crc {
            return None;
        }
        let length = get(bytes, BODY_LENGTH);
        let found = Self {
            header_crc,
            body_length: u32::try_from(length & !FLAGS).ok()?,
            kind: BodyKind::of(length & FLAGS, life)?,
            first: Lsn::new(get(bytes, FIRST))?,
            count: get_u32(bytes, COUNT),
            behind: get_u32(bytes, BEHIND),
            body_crc: get_u32(bytes, BODY_CRC),
            chain: get(bytes, CHAIN),
            time_us: get(bytes, TIME),
        };
        let sound = found.count > 0
            && found.body_length.is_multiple_of(8)
            && found.size() <= u64::from(life.batch_max)
            && u64::from(found.behind) < found.first.get()
            && found.first.get().checked_add(u64::from(found.count)).is_some();
        sound.then_some(found)
    }

    /// Completes the header of a segment that was named ahead from its first batch. `bytes` are the
    /// first bytes of the segment's records. Returns `None` unless they are a batch header which
    /// says that all earlier records were durable.
    #[must_use]
    pub fn begins(segment: &SegmentHeader, bytes: &[u8]) -> Option<SegmentHeader> {
        let first = Self::decode(bytes, Offset(segment.data_start()), &Life::of(segment))?;
        (first.behind == 0).then(|| segment.begin(first.first, first.chain))
    }

    /// Returns why [`BatchHeader::decode`] rejects a batch header whose checksum and epoch are
    /// valid: it has a flag that the segment may not have, so a newer version wrote it, or it is
    /// not encrypted in an encrypted segment. Neither is damage.
    #[must_use]
    pub fn refused(bytes: &[u8], offset: Offset, life: &Life) -> Option<Refused> {
        let bytes = bytes.first_chunk::<HEADER_SIZE>()?;
        let flags = get(bytes, BODY_LENGTH);
        let names = KEPT_FOR_LATER.iter().filter(|(flag, _)| flags & flag != 0);
        let names: Vec<_> = names.map(|(_, name)| *name).collect();
        let is_plain = life.is_encrypted && flags & ENCRYPTED != ENCRYPTED;
        let is_sound = (is_plain || !names.is_empty())
            && BodyKind::of(flags & FLAGS, life).is_none()
            && get(bytes, EPOCH_TAG) == life.epoch.tag()
            && life.salt.checksum(offset, behind(bytes, HEADER_CRC)) == get_u32(bytes, HEADER_CRC);
        let unknown = || Refused::Unknown { what: format!("batch flags {}", names.join(", ")) };
        is_sound.then(|| if is_plain { Refused::NotEncrypted } else { unknown() })
    }

    /// Whether `bytes` say that they are a batch header of the segment of `life`.
    #[must_use]
    pub fn is_of(bytes: &[u8], life: &Life) -> bool {
        let header = bytes.first_chunk::<HEADER_SIZE>();
        header.is_some_and(|header| get(header, EPOCH_TAG) == life.epoch.tag())
    }

    /// Returns the offset, before `end` in the segment of `life`, for which the header in `bytes`
    /// was written, wherever it is stored now: the checksum of the header is bound to its offset.
    /// Tries all offsets.
    #[must_use]
    pub fn trace(bytes: &[u8], life: &Life, end: u64) -> Option<Offset> {
        let header = bytes.first_chunk::<HEADER_SIZE>()?;
        let place = crc32c(behind(header, HEADER_CRC)) ^ get_u32(header, HEADER_CRC);
        let offsets = (0..end).step_by(8).map(Offset);
        let mut found = offsets.filter(|offset| life.salt.place(*offset) == place);
        found.find(|offset| Self::decode(header, *offset, life).is_some())
    }

    /// The whole batch on disk, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        to_u64(HEADER_SIZE) + u64::from(self.body_length)
    }

    /// How many frames its body has.
    fn frames(&self) -> u32 {
        self.kind.frames(self.count)
    }

    /// Whether its records are lost and were given up by a repair: it holds no frames.
    #[must_use]
    pub fn is_void(&self) -> bool {
        matches!(self.kind, BodyKind::Void | BodyKind::EncryptedVoid)
    }

    /// Number of records in the chunks of its body; 0 if it has no chunks.
    pub(crate) fn records_in_chunks(&self) -> u32 {
        match self.kind {
            BodyKind::Frames | BodyKind::Void | BodyKind::EncryptedVoid => 0,
            BodyKind::Encoded | BodyKind::Encrypted => self.count,
        }
    }

    /// The last record.
    #[must_use]
    pub fn last(&self) -> Lsn {
        Lsn::new(self.first.get() - 1 + u64::from(self.count)).expect("a batch holds a record")
    }

    /// The highest record known durable when the batch was built.
    #[must_use]
    pub fn confirmed(&self) -> Option<Lsn> {
        Lsn::new(self.first.get() - 1 - u64::from(self.behind))
    }

    /// The value that the next batch chains to.
    #[must_use]
    pub fn chain_value(&self) -> u64 {
        u64::from(self.header_crc) | u64::from(self.body_crc) << 32
    }

    /// Whether this is the body that the header was written for.
    ///
    /// `offset` is that of the header.
    #[must_use]
    pub fn matches(&self, body: &[u8], offset: Offset, life: &Life) -> bool {
        Judged::new(*self).judge(body, offset, life)
    }
}

/// An incremental check of a batch's body. Each new part is checked while it is in the processor's
/// cache.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    header: BatchHeader,
    checksum: Crc,
    /// Bytes of the body that were checked so far.
    seen: usize,
    filled: Filling,
}

/// How far the frames or chunks of a body have been followed.
#[derive(Clone, Debug)]
enum Filling {
    Frames(frame::Filled),
    Chunks(chunk::Listed),
}

impl Judged {
    pub(crate) fn new(header: BatchHeader) -> Self {
        let filled = match header.kind.form() {
            None => Filling::Frames(frame::Filled::default()),
            Some(form) => Filling::Chunks(chunk::Listed::new(form)),
        };
        Self { header, checksum: Crc::new(), seen: 0, filled }
    }

    pub(crate) fn is_of(&self, header: &BatchHeader) -> bool {
        self.header == *header
    }

    /// Bytes of the whole body.
    pub(crate) fn length(&self) -> u64 {
        self.header.body_length.into()
    }

    /// Checks the new part of `body`, which is the available beginning of the whole body.
    pub(crate) fn go_on(&mut self, body: &[u8]) {
        let length = usize::try_from(self.header.body_length).expect("checked with the header");
        let count = self.header.frames();
        while let Some(new) = body.get(self.seen..).filter(|new| !new.is_empty()) {
            let new = new.get(..AT_HAND).unwrap_or(new);
            self.checksum.update(new);
            self.seen += new.len();
            let seen = body.get(..self.seen).unwrap_or_default();
            let records = (self.header.first, self.header.records_in_chunks());
            match &mut self.filled {
                Filling::Frames(frames) => frames.go_on(seen, length, count),
                Filling::Chunks(chunks) => chunks.go_on(seen, length, records),
            }
        }
    }

    /// Whether `body` is the one that the header at `offset` was written for. The part that was
    /// already checked is assumed to be unchanged.
    pub(crate) fn judge(mut self, body: &[u8], offset: Offset, life: &Life) -> bool {
        self.go_on(body);
        let place = life.salt.place(offset.plus(to_u64(HEADER_SIZE)));
        self.checksum.value() ^ place == self.header.body_crc
            && match self.filled {
                Filling::Frames(frames) => frames.is_all(body, self.header.frames(), life.block),
                Filling::Chunks(chunks) => chunks.is_all(body, life.batch_max, life.block),
            }
    }
}

/// What the writer adds to the frames of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The first record.
    pub first: Lsn,
    /// How many records.
    pub count: u32,
    /// What the body holds.
    pub kind: BodyKind,
    /// The highest record known durable.
    pub confirmed: Option<Lsn>,
    /// The chain value of the batch before.
    pub chain: u64,
    /// Microseconds since 1970.
    pub time_us: u64,
}

impl Spec {
    /// How many frames the batch has.
    pub(crate) fn frames(&self) -> u32 {
        self.kind.frames(self.count)
    }

    /// Writes the header fields that are known before the size and checksum of the body.
    pub(crate) fn put_numbers(&self, header: &mut [u8]) {
        let behind_by = self.first.get() - 1 - lsn_or_zero(self.confirmed);
        put(header, FIRST, self.first.get());
        put(header, COUNT, u64::from(self.count));
        put(header, BEHIND, behind_by);
        put(header, CHAIN, self.chain);
        put(header, TIME, self.time_us);
    }
}

/// Finishes a batch in memory: `batch` is space for the header of [`HEADER_SIZE`] bytes, then
/// unbound frames and perhaps zeros, to be stored at `offset` of a segment. Returns the chain value
/// that the next batch names.
///
/// # Panics
///
/// If the batch is larger than the segment allows, or its numbers are out of order. The writer must
/// prevent both.
pub fn finish(batch: &mut [u8], spec: Spec, offset: Offset, life: &Life) -> u64 {
    let body = finish_body((batch, &spec), (offset, life), None, |_, _| {});
    finish_header(batch, spec, body, (offset, life))
}

/// The finished body of a batch whose header is not finished yet.
#[derive(Clone, Copy, Debug)]
pub struct FinishedBody {
    crc: u32,
}

/// Finishes the body of a batch, as [`finish`] does. Passes each finished piece of the batch to
/// `copy`, with its position, while it is in the processor's cache. The header is in the first
/// piece and is not finished. The chain value in `spec` is not used: the batch before may not be
/// finished yet.
///
/// If the batch begins at a sector, `sums` can get the checksums of its whole sectors. That of the
/// first one does not count, as the header is in it.
pub fn finish_body(
    (batch, spec): (&mut [u8], &Spec),
    (offset, life): (Offset, &Life),
    sums: Option<&mut SectorSums>,
    mut copy: impl FnMut(usize, &[u8]),
) -> FinishedBody {
    let crc = if let Some(sums) = sums {
        let mut crc = 0;
        bind(batch, spec, life, |start, piece| {
            crc = checksum_sectors(crc, (start, piece), sums);
            copy(start, piece);
        });
        crc
    } else {
        let mut checksum = Crc::new();
        bind(batch, spec, life, |start, piece| {
            checksum.update(body_of((start, piece)));
            copy(start, piece);
        });
        checksum.value()
    };
    FinishedBody { crc: crc ^ life.salt.place(offset.plus(to_u64(HEADER_SIZE))) }
}

/// Binds the frames of a batch and passes each piece to `act`, with its position, while it is in
/// the processor's cache.
fn bind(batch: &mut [u8], spec: &Spec, life: &Life, mut act: impl FnMut(usize, &[u8])) {
    let mut binding = frame::Binding::new(spec.first, spec.frames());
    for start in (0..batch.len()).step_by(AT_HAND) {
        let end = batch.len().min(start + AT_HAND);
        fetch(batch.get(start..end).unwrap_or_default());
        let (_, body) = batch.split_at_mut(HEADER_SIZE);
        binding.go_on(body, end.saturating_sub(HEADER_SIZE), &life.salt);
        act(start, batch.get(start..end).unwrap_or_default());
    }
}

/// The part of a piece of a batch that is after the header.
fn body_of((start, piece): (usize, &[u8])) -> &[u8] {
    piece.get(HEADER_SIZE.saturating_sub(start)..).unwrap_or_default()
}

/// Adds the checksums of the whole sectors of a piece to `sums`. Returns the CRC of the body up to
/// the end of the piece; `crc` is that of the body before it.
fn checksum_sectors(crc: u32, (start, piece): (usize, &[u8]), sums: &mut SectorSums) -> u32 {
    let (mut sectors, mut rest) = piece.as_chunks::<SECTOR>();
    let mut crc = crc;
    if start == 0 {
        if let Some((first, others)) = sectors.split_first() {
            sums.extend(first);
            crc = crc32c(body_of((0, first)));
            sectors = others;
        } else {
            rest = body_of((0, rest));
        }
    }
    crc = sums.extend_after(crc, sectors);
    if rest.is_empty() { crc } else { crc32c_with(crc, rest) }
}

/// Finishes the header of a batch, after its body. Returns the chain value that the next batch
/// names.
///
/// # Panics
///
/// As [`finish`].
pub fn finish_header(
    batch: &mut [u8],
    spec: Spec,
    body: FinishedBody,
    (offset, life): (Offset, &Life),
) -> u64 {
    let (header, rest) = batch.split_at_mut(HEADER_SIZE);
    put(header, BODY_LENGTH, to_u64(rest.len()) | spec.kind.flags());
    spec.put_numbers(header);
    put(header, BODY_CRC, u64::from(body.crc));
    put(header, EPOCH_TAG, life.epoch.tag());
    let header_crc = life.salt.checksum(offset, behind(header, HEADER_CRC));
    put(header, HEADER_CRC, u64::from(header_crc));
    let written = BatchHeader::decode(header, offset, life);
    let written = written.expect("a batch that its reader would refuse is never written");
    assert!(u64::from(written.body_length) == to_u64(rest.len()));
    written.chain_value()
}

/// Reads one byte of each cache line. Another processor has often just written them: requested
/// together they arrive sooner than one by one, as a walk from frame to frame requests them.
fn fetch(piece: &[u8]) {
    black_box(piece.iter().step_by(CACHE_LINE).fold(0, |all, byte| all ^ byte));
}

const _: () = assert!(TIME.at + TIME.size == HEADER_SIZE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LogId;

    const LIFE: Life = Life {
        salt: Salt::new(LogId(3), Epoch(0x1_0000_0009)),
        epoch: Epoch(0x1_0000_0009),
        batch_max: 4096,
        block: 512,
        in_flight_max: 1,
        compression_max: Compression::None,
        is_encrypted: false,
    };
    const AT: Offset = Offset(6144);

    fn batch() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        frame::push_unbound(&mut bytes, b"seven", false);
        frame::push_unbound(&mut bytes, b"eight", false);
        let first = Lsn::new(7).unwrap();
        let spec = Spec {
            first,
            count: 2,
            kind: BodyKind::Frames,
            confirmed: Lsn::new(5),
            chain: 99,
            time_us: 1,
        };
        finish(&mut bytes, spec, AT, &LIFE);
        bytes
    }

    fn is_valid(bytes: &[u8], at: Offset) -> bool {
        let header = BatchHeader::decode(bytes, at, &LIFE);
        header.is_some_and(|header| header.matches(&bytes[HEADER_SIZE..], at, &LIFE))
    }

    #[test]
    fn batch_is_read_back_unchanged() {
        let bytes = batch();
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        assert!(is_valid(&bytes, AT));
        assert_eq!((header.first.get(), header.last().get(), header.chain), (7, 8, 99));
        assert_eq!(header.confirmed(), Lsn::new(5));
    }

    #[test]
    fn void_batch_has_lsns_and_no_frames() {
        let mut bytes = vec![0; HEADER_SIZE];
        let first = Lsn::new(7).unwrap();
        let spec =
            Spec { first, count: 90, kind: BodyKind::Void, confirmed: None, chain: 99, time_us: 1 };
        finish(&mut bytes, spec, AT, &LIFE);
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        assert_eq!((header.is_void(), header.last().get(), header.size()), (true, 96, 48));
        assert!(header.matches(&[], AT, &LIFE));
        let whole = BatchHeader { kind: BodyKind::Frames, ..header };
        assert!(!whole.matches(&[], AT, &LIFE), "90 records have frames");
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = batch();
        for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_valid(&bytes, AT), "bit {bit}");
        }
    }

    #[test]
    fn body_is_verified_alike_in_pieces_of_any_size() {
        let life = Life { batch_max: 1 << 20, ..LIFE };
        let mut bytes = vec![0; HEADER_SIZE];
        for size in (0..300).chain([AT_HAND - 8, 2 * AT_HAND + 24]) {
            frame::push_unbound(&mut bytes, &vec![7; size], false);
        }
        let (first, count) = (Lsn::FIRST, 302);
        let spec =
            Spec { first, count, kind: BodyKind::Frames, confirmed: None, chain: 0, time_us: 1 };
        finish(&mut bytes, spec, AT, &life);
        let header = BatchHeader::decode(&bytes, AT, &life).unwrap();
        let is_sound = |body: &[u8], piece: usize| {
            let mut judged = Judged::new(header);
            (0..body.len()).step_by(piece).for_each(|seen| judged.go_on(&body[..seen]));
            judged.judge(body, AT, &life)
        };
        let body = bytes.split_off(HEADER_SIZE);
        assert!(body.len() > 4 * AT_HAND);
        for piece in [1000, AT_HAND - 1, AT_HAND, AT_HAND + 8, body.len()] {
            assert!(is_sound(&body, piece), "pieces of {piece}");
            for at in (0..body.len()).step_by(if cfg!(miri) { 9999 } else { 97 }) {
                let mut body = body.clone();
                body[at] ^= 16;
                assert!(!is_sound(&body, piece), "byte {at}, pieces of {piece}");
            }
            assert!(!is_sound(&body[..body.len() - 8], piece), "cut off");
        }
        assert!(is_sound(&body, 1 + 7), "pieces of a word");
    }

    #[test]
    fn batch_is_not_valid_at_another_offset() {
        assert!(!is_valid(&batch(), AT.plus(8)));
    }

    #[test]
    fn misplaced_batch_reveals_its_offset() {
        assert_eq!(BatchHeader::trace(&batch(), &LIFE, 8192), Some(AT));
        assert_eq!(BatchHeader::trace(&batch(), &LIFE, AT.0 + 1), Some(AT));
        assert_eq!(BatchHeader::trace(&batch(), &LIFE, AT.0), None);
        let mut changed = batch();
        changed[HEADER_SIZE - 1] ^= 1;
        assert_eq!(BatchHeader::trace(&changed, &LIFE, 8192), None);
        let other = Life { salt: Salt::new(LogId(3), Epoch(8)), epoch: Epoch(8), ..LIFE };
        assert_eq!(BatchHeader::trace(&batch(), &other, 8192), None);
        assert_eq!(BatchHeader::trace(&[0; 48], &LIFE, 8192), None);
    }

    /// Decodes the header after setting these fields and recomputing its checksum.
    fn forged(fields: &[(crate::fields::Field, u64)]) -> Option<BatchHeader> {
        let mut bytes = batch();
        for (field, number) in fields {
            put(&mut bytes, *field, *number);
        }
        let header = &bytes[..HEADER_SIZE];
        let crc = LIFE.salt.checksum(AT, behind(header, HEADER_CRC));
        put(&mut bytes, HEADER_CRC, u64::from(crc));
        BatchHeader::decode(&bytes, AT, &LIFE)
    }

    #[test]
    fn header_with_impossible_numbers_is_invalid_despite_its_checksum() {
        for fields in [
            &[(COUNT, 0)][..],
            &[(BODY_LENGTH, 36)],
            &[(BODY_LENGTH, 4096 - 40)],
            &[(BODY_LENGTH, 1 << 28)],
            &[(BODY_LENGTH, 1 << 31 | 32)],
            &[(FIRST, 0)],
            &[(BEHIND, 7)],
            &[(BEHIND, 8)],
            &[(FIRST, u64::MAX - 1)],
            &[(EPOCH_TAG, 8)],
        ] {
            assert_eq!(forged(fields), None, "{fields:?}");
        }
        for fields in [
            &[][..],
            &[(BODY_LENGTH, 0)],
            &[(BODY_LENGTH, 4096 - 48)],
            &[(BODY_LENGTH, 1 << 27)],
            &[(BEHIND, 6)],
            &[(COUNT, 1), (FIRST, u64::MAX - 1)],
            &[(FIRST, u64::MAX - 2)],
        ] {
            assert!(forged(fields).is_some(), "{fields:?}");
        }
    }

    #[test]
    fn reserved_flag_is_refused_by_name() {
        let refused = |flags: u64| {
            let mut bytes = batch();
            put(&mut bytes, BODY_LENGTH, flags | 32);
            let header = &bytes[..HEADER_SIZE];
            let crc = LIFE.salt.checksum(AT, behind(header, HEADER_CRC));
            put(&mut bytes, HEADER_CRC, u64::from(crc));
            assert_eq!(BatchHeader::decode(&bytes, AT, &LIFE).is_none(), flags & !VOID != 0);
            assert_eq!(BatchHeader::refused(&bytes, AT.plus(8), &LIFE), None, "elsewhere");
            bytes[HEADER_SIZE - 1] ^= 1;
            assert_eq!(BatchHeader::refused(&bytes, AT, &LIFE), None, "damaged");
            bytes[HEADER_SIZE - 1] ^= 1;
            BatchHeader::refused(&bytes, AT, &LIFE).map(|refused| refused.to_string())
        };
        let named = |names: &str| Some(format!("batch flags {names}, unknown to this program"));
        assert_eq!((refused(0), refused(VOID)), (None, None));
        assert_eq!(refused(1 << 28), named("prefix"));
        assert_eq!(refused(1 << 29), named("parity"));
        assert_eq!(refused(1 << 30), named("encrypted"));
        assert_eq!(refused(1 << 31), named("compressed"));
        assert_eq!(refused(0xF << 28 | VOID), named("prefix, parity, encrypted, compressed"));
    }

    #[test]
    fn header_has_the_confirmed_lsn() {
        let confirmed = |behind| forged(&[(BEHIND, behind)]).unwrap().confirmed();
        assert_eq!((confirmed(0), confirmed(1), confirmed(6)), (Lsn::new(6), Lsn::new(5), None));
    }

    #[test]
    fn chain_value_covers_both_checksums() {
        let bytes = batch();
        let crc = |at: usize| u64::from(u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        assert_eq!(header.chain_value(), crc(0) | crc(24) << 32);
        assert_eq!(header.size(), to_u64(bytes.len()));
    }

    #[test]
    fn body_has_exactly_the_counted_frames() {
        let bytes = batch();
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        for count in [1, 3] {
            let other = BatchHeader { count, ..header };
            assert!(!other.matches(&bytes[HEADER_SIZE..], AT, &LIFE), "{count} frames");
        }
    }

    #[test]
    fn zeros_are_not_a_batch() {
        assert!(!is_valid(&[0; 64], AT));
    }
}
