//! Chunks: the pieces of a compressed or encrypted body. format.md sections 3.6 and 3.7.

use crate::binary::{compressor, frame};
use crate::checksum::Salt;
use crate::encryption::TAG_SIZE;
#[cfg(feature = "lz4")]
use crate::fields::put;
use crate::fields::sizes::BATCH_HEADER;
use crate::fields::{get, get_u32, is_zero, slice, table};
use crate::ids::{Lsn, Offset, to_u64};
use crate::types::Compression;

/// The prefix of a compressed body.
pub(crate) mod prefix {
    /// Bytes of a prefix.
    pub(crate) const SIZE: usize = 8;

    crate::fields::table! {
        LENGTH = 0, 4, "length";
        PLAIN = 4, 4, "plain";
    }
}

table! {
    CRC = 0, 4, "crc";
    STORED = 4, 4, "stored";
    PLAIN = 8, 4, "plain";
    COUNT = 12, 4, "count";
    FIRST = 16, 8, "first";
    METHOD = 24, 1, "method";
    ZERO = 25, 7, "zero";
    PAYLOAD = 32, 0, "payload";
}

/// Bytes of a compressed chunk before its payload.
pub(crate) const HEADER_SIZE: usize = PAYLOAD.at;

/// The prefix of an encrypted body.
pub(crate) mod encrypted_prefix {
    /// Bytes of a prefix.
    pub(crate) const SIZE: usize = 24;

    crate::fields::table! {
        LENGTH = 0, 4, "length";
        ZERO = 4, 4, "zero";
        CODE = 8, 16, "code";
    }
}

/// A chunk that is encrypted.
pub(crate) mod encrypted {
    /// Bytes of a chunk before its payload.
    pub(crate) const HEADER_SIZE: usize = 40;

    crate::fields::table! {
        CRC = 0, 4, "crc";
        STORED = 4, 4, "stored";
        ZERO = 8, 4, "zero";
        COUNT = 12, 4, "count";
        FIRST = 16, 8, "first";
        NONCE = 24, 12, "nonce";
        ZEROS = 36, 4, "zeros";
        PAYLOAD = 40, 0, "payload";
    }
}

/// The decrypted payload of an encrypted chunk.
pub(crate) mod content {
    /// Bytes before the frames.
    pub(crate) const HEADER_SIZE: usize = 12;

    crate::fields::table! {
        PLAIN = 0, 4, "plain";
        USED = 4, 4, "used";
        METHOD = 8, 1, "method";
        ZERO = 9, 3, "zero";
        FRAMES = 12, 0, "frames";
    }
}

/// The form of the chunks in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Chunks that anybody can decode.
    Compressed,
    /// Chunks that only a holder of the key can decode.
    Encrypted,
}

impl Form {
    /// Bytes of the body before its chunks.
    pub(crate) fn prefix_size(self) -> usize {
        match self {
            Self::Compressed => prefix::SIZE,
            Self::Encrypted => encrypted_prefix::SIZE,
        }
    }

    /// Bytes of a chunk before its payload.
    pub(crate) fn header_size(self) -> usize {
        match self {
            Self::Compressed => HEADER_SIZE,
            Self::Encrypted => encrypted::HEADER_SIZE,
        }
    }

    /// Returns the size of all frames in bytes, as the prefix of a body states it; `None` if the
    /// prefix is not sound. 0 for an encrypted body, whose prefix does not state the size.
    pub(crate) fn plain_of(self, body: &[u8], batch_max: u32) -> Option<usize> {
        match self {
            Self::Compressed => plain_of(body, batch_max),
            Self::Encrypted => {
                let bytes = body.first_chunk::<{ encrypted_prefix::SIZE }>()?;
                let length = get(bytes, encrypted_prefix::LENGTH);
                let is_sound = length == to_u64(encrypted_prefix::SIZE)
                    && is_zero(slice(bytes, encrypted_prefix::ZERO));
                is_sound.then_some(0)
            }
        }
    }

    /// Reads the fields of a chunk from its first bytes; `None` if one has an invalid value.
    fn read(self, bytes: &[u8]) -> Option<Fields> {
        match self {
            Self::Compressed => Fields::read(bytes),
            Self::Encrypted => Fields::read_encrypted(bytes),
        }
    }
}

/// The fields of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Bytes of the payload.
    pub(crate) stored: usize,
    /// Bytes of the frames; 0 if they are encrypted.
    pub(crate) plain: usize,
    /// How many records.
    pub(crate) count: u32,
    /// The first of them.
    pub(crate) first: Lsn,
    pub(crate) method: Compression,
    pub(crate) form: Form,
}

/// The fewest bytes of an encrypted payload: those of an empty record.
const ENCRYPTED_MIN: usize = (content::HEADER_SIZE + 1 + TAG_SIZE).next_multiple_of(8);

impl Fields {
    /// Reads the fields of a chunk from its first bytes; `None` if one has an invalid value.
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<HEADER_SIZE>()?;
        // Checked first, because most bytes that are not a chunk fail here.
        if !is_zero(slice(bytes, ZERO)) {
            return None;
        }
        let size = |field| usize::try_from(get(bytes, field)).ok();
        let (stored, plain, count) = (size(STORED)?, size(PLAIN)?, get_u32(bytes, COUNT));
        let (first, method) = (Lsn::new(get(bytes, FIRST))?, get(bytes, METHOD));
        let method = Compression::from_number(method).ok()?;
        let is_sound = plain.is_multiple_of(8)
            && count > 0
            && to_u64(plain) >= to_u64(frame::HEADER_SIZE) * u64::from(count)
            && first.get().checked_add(u64::from(count)).is_some()
            && match method {
                Compression::None => stored == plain,
                Compression::Lz4 | Compression::Zstd => stored < plain,
            };
        is_sound.then_some(Self { stored, plain, count, first, method, form: Form::Compressed })
    }

    /// Does the same for an encrypted chunk. Compression and size of its frames are secret.
    fn read_encrypted(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ encrypted::HEADER_SIZE }>()?;
        if !is_zero(slice(bytes, encrypted::ZERO)) || !is_zero(slice(bytes, encrypted::ZEROS)) {
            return None;
        }
        let stored = usize::try_from(get(bytes, encrypted::STORED)).ok()?;
        let count = get_u32(bytes, encrypted::COUNT);
        let first = Lsn::new(get(bytes, encrypted::FIRST))?;
        let is_sound = stored >= ENCRYPTED_MIN
            && stored.is_multiple_of(8)
            && count > 0
            && first.get().checked_add(u64::from(count)).is_some();
        let (method, form) = (Compression::None, Form::Encrypted);
        is_sound.then_some(Self { stored, plain: 0, count, first, method, form })
    }

    /// The position after a chunk at `position` and the zeros that follow its payload.
    fn end(&self, position: usize) -> Option<usize> {
        let padded = self.stored.checked_next_multiple_of(8)?;
        position.checked_add(self.form.header_size())?.checked_add(padded)
    }

    /// The last record.
    pub(crate) fn last(&self) -> Lsn {
        self.first.plus(u64::from(self.count) - 1)
    }
}

/// A chunk that lies in the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) fields: Fields,
    crc: u32,
    /// What the crc covers.
    pub(crate) covered: &'a [u8],
}

/// The chunk of this form at `position` of a body and the position after it, if it lies in the body
/// and its fields are sound. Its checksum is not verified.
pub(crate) fn read(form: Form, body: &[u8], position: usize) -> Option<(Chunk<'_>, usize)> {
    let bytes = body.get(position..)?;
    let fields = form.read(bytes)?;
    let end = fields.end(position).filter(|end| *end <= body.len())?;
    let covered = bytes.get(CRC.size..form.header_size() + fields.stored)?;
    Some((Chunk { fields, crc: get_u32(bytes, CRC), covered }, end))
}

impl Chunk<'_> {
    /// Whether its crc is right at this offset of the segment.
    pub(crate) fn is_at(&self, offset: Offset, salt: &Salt) -> bool {
        salt.checksum(offset, self.covered) == self.crc
    }

    /// Whether it is valid by itself at this offset of the segment, as far as can be checked
    /// without a key. The caller has checked that there is room for its frames.
    pub(crate) fn is_valid(&self, offset: Offset, salt: &Salt) -> bool {
        self.is_at(offset, salt)
            && match self.fields.form {
                Form::Compressed => self.decode(&mut vec![]).is_some(),
                Form::Encrypted => true,
            }
    }

    /// Adds its frames to `plain`. Returns whether the last of them ends its atomic set; `None`,
    /// and nothing is added, if the chunk does not decode.
    ///
    /// The caller has checked that there is room for the frames.
    pub(crate) fn decode(&self, plain: &mut Vec<u8>) -> Option<bool> {
        if self.fields.form == Form::Encrypted {
            return None;
        }
        let payload = self.covered.get(HEADER_SIZE - CRC.size..)?;
        expand((self.fields.method, payload), self.fields.plain, self.fields.count, plain)
    }
}

/// Decompresses `payload` with `method` and adds the frames to `plain`. Returns whether the last
/// frame ends its atomic set; `None`, and nothing is added, unless they are `count` valid frames of
/// `size` bytes in all.
pub(crate) fn expand(
    (method, payload): (Compression, &[u8]),
    size: usize,
    count: u32,
    plain: &mut Vec<u8>,
) -> Option<bool> {
    let start = plain.len();
    let is_whole = match method {
        Compression::None => {
            plain.extend_from_slice(payload);
            payload.len() == size
        }
        Compression::Lz4 | Compression::Zstd => {
            plain.resize(start + size, 0);
            compressor::decompress(method, payload, plain.get_mut(start..)?)
        }
    };
    let frames = plain.get(start..).filter(|_| is_whole);
    let ends_set = frames.and_then(|frames| frame::fill_unbound(frames, count));
    if ends_set.is_none() {
        plain.truncate(start);
    }
    ends_set
}

/// Adds a chunk with these frames, stored as `payload`, for `offset` of a segment.
#[cfg(feature = "lz4")]
pub(crate) fn push(body: &mut Vec<u8>, fields: &Fields, payload: &[u8], place: (Offset, &Salt)) {
    let (offset, salt) = place;
    let start = body.len();
    body.resize(start + HEADER_SIZE, 0);
    body.extend_from_slice(payload);
    let chunk = body.get_mut(start..).expect("it was just added");
    put(chunk, STORED, to_u64(fields.stored));
    put(chunk, PLAIN, to_u64(fields.plain));
    put(chunk, COUNT, u64::from(fields.count));
    put(chunk, FIRST, fields.first.get());
    put(chunk, METHOD, fields.method.number());
    salt.put_checksum(offset, chunk, CRC);
    body.resize(body.len().next_multiple_of(8), 0);
}

/// Size of all frames in bytes, as the prefix of a body states it; `None` if that is not sound.
fn plain_of(body: &[u8], batch_max: u32) -> Option<usize> {
    let bytes = body.first_chunk::<{ prefix::SIZE }>()?;
    let plain = usize::try_from(get(bytes, prefix::PLAIN)).ok()?;
    let is_sound = get(bytes, prefix::LENGTH) == to_u64(prefix::SIZE)
        && to_u64(BATCH_HEADER) + to_u64(plain) <= u64::from(batch_max);
    is_sound.then_some(plain)
}

/// Adds the prefix of a body with `plain` bytes of frames.
#[cfg(feature = "lz4")]
pub(crate) fn push_prefix(body: &mut Vec<u8>, plain: usize) {
    let mut bytes = [0; prefix::SIZE];
    put(&mut bytes, prefix::LENGTH, to_u64(prefix::SIZE));
    put(&mut bytes, prefix::PLAIN, to_u64(plain));
    body.extend_from_slice(&bytes);
}

/// The records and bytes of a batch that its remaining chunks must hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    next: Lsn,
    records: u32,
    plain: usize,
}

impl Left {
    /// Starts with all `count` records of a batch, from `first` on, in `plain` bytes of frames.
    pub(crate) fn new((first, count): (Lsn, u32), plain: usize) -> Self {
        Self { next: first, records: count, plain }
    }

    pub(crate) fn has_records(&self) -> bool {
        self.records > 0
    }

    /// Whether nothing is left, of records or bytes.
    pub(crate) fn is_none(&self) -> bool {
        (self.records, self.plain) == (0, 0)
    }

    /// Subtracts what `chunk` holds, if that comes next and is not too much. Returns whether it is.
    pub(crate) fn take(&mut self, chunk: &Fields) -> bool {
        let left = self.records.checked_sub(chunk.count).zip(self.plain.checked_sub(chunk.plain));
        let Some((records, plain)) = left.filter(|_| chunk.first == self.next) else {
            return false;
        };
        *self = Self { next: chunk.last().next(), records, plain };
        true
    }
}

/// How far the chunks of a body have been followed, while more and more of it becomes available. No
/// chunk is decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    form: Form,
    /// Position after the last chunk found.
    position: usize,
    /// `None` until the prefix is available.
    left: Option<Left>,
    is_broken: bool,
}

impl Listed {
    /// Starts before the first chunk of a body with chunks of this form.
    pub(crate) fn new(form: Form) -> Self {
        Self { form, position: 0, left: None, is_broken: false }
    }

    /// Follows the chunks in `body`, the available beginning of a body of `length` bytes with
    /// `count` records from `first` on.
    pub(crate) fn go_on(&mut self, body: &[u8], length: usize, (first, count): (Lsn, u32)) {
        if self.left.is_none() {
            let size = self.form.prefix_size();
            let Some(bytes) = body.get(..size) else { return };
            let plain = match self.form {
                Form::Compressed => {
                    usize::try_from(get(bytes, prefix::PLAIN)).unwrap_or(usize::MAX)
                }
                Form::Encrypted => 0,
            };
            (self.position, self.left) = (size, Some(Left::new((first, count), plain)));
        }
        let Some(left) = &mut self.left else { return };
        while left.has_records() && !self.is_broken {
            let head = body.get(self.position..);
            let head = head.and_then(|rest| rest.get(..self.form.header_size()));
            let Some(head) = head else { break };
            let fields = self.form.read(head);
            let end = fields.and_then(|fields| fields.end(self.position));
            let end = end.filter(|end| *end <= length);
            match fields.zip(end) {
                Some((fields, end)) if left.take(&fields) => self.position = end,
                _ => self.is_broken = true,
            }
        }
    }

    /// Whether the chunks hold the batch's records in order and fill `body`, except for less than a
    /// block of zeros at its end.
    pub(crate) fn is_all(&self, body: &[u8], batch_max: u32, block: u32) -> bool {
        let rest = body.get(self.position..).unwrap_or_default();
        self.form.plain_of(body, batch_max).is_some()
            && !self.is_broken
            && self.left.is_some_and(|left| left.is_none())
            && to_u64(rest.len()) < u64::from(block)
            && is_zero(rest)
    }
}
