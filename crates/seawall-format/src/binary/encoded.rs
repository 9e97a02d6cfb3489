//! Compressed batches: from frames to chunks, and back. format.md section 3.6.

use crate::binary::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec};
use crate::binary::chunk::{self, Chunk, Form, Left};
#[cfg(feature = "lz4")]
use crate::binary::compressor::{Compressor, less_an_eighth};
#[cfg(any(feature = "lz4", feature = "encryption"))]
use crate::binary::frame;
use crate::ids::{Lsn, Offset, to_u64};
use crate::types::Compression;
use std::ops::Range;

/// How often, on average, the bytes of a damaged place may be read. Chunks do not overlap, but
/// forged ones can.
const LOOKS_MAX: usize = 16;

/// The maximum size of all frames of a damaged place, in batches of maximum size.
const DECODED_BATCHES_MAX: u32 = 3;

/// Replaces the contents of `plain` with space for a header and the frames of a compressed batch.
/// The frames are not bound to a place. Even if `body` does not match `header`, no more memory is
/// allocated than for a batch of maximum size.
///
/// Returns whether every chunk decodes and the last record ends its atomic set.
#[must_use]
pub fn decode(header: &BatchHeader, body: &[u8], life: &Life, plain: &mut Vec<u8>) -> bool {
    plain.clear();
    plain.resize(HEADER_SIZE, 0);
    let form = Form::Compressed;
    let size = form.plain_of(body, life.batch_max).filter(|_| header.kind == BodyKind::Encoded);
    let Some(size) = size else { return false };
    plain.reserve_exact(size);
    let (mut position, mut left) =
        (form.prefix_size(), Left::new((header.first, header.count), size));
    let mut ends_set = false;
    while left.has_records() {
        let Some((chunk, end)) = chunk::read(form, body, position) else { return false };
        if !life.may_have(chunk.fields.method) || !left.take(&chunk.fields) {
            return false;
        }
        let Some(ends) = chunk.decode(plain) else { return false };
        (position, ends_set) = (end, ends);
    }
    left.is_none() && ends_set
}

/// A chunk of a damaged place that is valid alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntactChunk {
    /// The range of its frames in the memory that the caller passed.
    pub frames: Range<usize>,
    /// The first record.
    pub first: Lsn,
    /// How many records.
    pub count: u32,
}

/// Returns the chunks of a damaged `place`, in order, that are valid by themselves and begin with
/// one of `records`, first to last. Adds their frames to `memory`.
#[must_use]
pub fn salvage(
    place: &[u8],
    (offset, life): (Offset, &Life),
    records: (Lsn, Lsn),
    memory: &mut Vec<u8>,
) -> Vec<IntactChunk> {
    let decode = |chunk: &Chunk<'_>, _, _, memory: &mut Vec<u8>| chunk.decode(memory).is_some();
    salvage_with(place, (offset, life), records, (Form::Compressed, memory, decode))
}

/// Returns the chunks of a damaged, encrypted `place` that are valid by themselves, as far as can
/// be checked without a key. None of them has frames.
#[must_use]
pub fn salvage_locked(
    place: &[u8],
    (offset, life): (Offset, &Life),
    records: (Lsn, Lsn),
) -> Vec<IntactChunk> {
    // The most records that could be decoded with a key: a frame takes 8 bytes.
    let mut left = life.batch_max.saturating_mul(DECODED_BATCHES_MAX) / 8;
    let decode = |chunk: &Chunk<'_>, _, _, _: &mut Vec<u8>| {
        let rest = left.checked_sub(chunk.fields.count);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    salvage_with(place, (offset, life), records, (Form::Encrypted, &mut vec![], decode))
}

/// Salvages chunks of this form, as [`salvage`] does. `decode` gets a chunk, its offset and a limit
/// in bytes, and adds the chunk's frames to the memory, up to that limit.
pub(crate) fn salvage_with(
    place: &[u8],
    (offset, life): (Offset, &Life),
    (first, last): (Lsn, Lsn),
    (form, memory, mut decode): (
        Form,
        &mut Vec<u8>,
        impl FnMut(&Chunk<'_>, Offset, usize, &mut Vec<u8>) -> bool,
    ),
) -> Vec<IntactChunk> {
    let room = u64::from(life.batch_max) * u64::from(DECODED_BATCHES_MAX);
    let mut room = usize::try_from(room).unwrap_or(usize::MAX);
    let mut looks = place.len().saturating_add(room).saturating_mul(LOOKS_MAX);
    let (mut intact, mut position, mut next) = (vec![], 0, first);
    while position + form.header_size() <= place.len() && next <= last {
        let found = chunk::read(form, place, position).filter(|(chunk, _)| {
            let chunk::Fields { first, plain, stored, method, .. } = chunk.fields;
            let fits = plain <= room && plain.saturating_add(stored) <= looks;
            (next..=last).contains(&first) && fits && life.may_have(method)
        });
        position += 8;
        let Some((chunk, end)) = found else { continue };
        looks -= chunk.fields.stored + chunk.fields.plain;
        let (start, at) = (memory.len(), offset.plus(to_u64(position - 8)));
        if chunk.is_at(at, &life.salt) && decode(&chunk, at, room, memory) {
            room -= memory.len() - start;
            let chunk::Fields { first, count, .. } = chunk.fields;
            intact.push(IntactChunk { frames: start..memory.len(), first, count });
            (position, next) = (end, chunk.fields.last().next());
        }
    }
    intact
}

/// Which batches are compressed, and the size of their chunks, both in bytes of frames.
#[derive(Clone, Copy, Debug)]
pub struct EncodeSizes {
    /// A batch with fewer bytes is not compressed.
    pub frames_min: usize,
    /// The most bytes in a chunk, unless a single record is larger.
    pub chunk_max: usize,
}

impl Default for EncodeSizes {
    fn default() -> Self {
        Self { frames_min: 1 << 10, chunk_max: 64 << 10 }
    }
}

/// Makes compressed batches.
#[cfg(feature = "lz4")]
pub struct Encoder {
    sizes: EncodeSizes,
    compressor: Compressor,
}

/// A build without the library makes none.
#[cfg(not(feature = "lz4"))]
#[derive(Debug)]
pub enum Encoder {}

#[cfg(not(feature = "lz4"))]
impl Encoder {
    /// Returns `None`.
    #[must_use]
    pub fn of(_: Compression, _: EncodeSizes) -> Option<Self> {
        None
    }

    /// Cannot be called: there is no encoder.
    pub fn encode(
        &mut self,
        _: (&[u8], Spec),
        _: (Offset, &Life),
        _: &mut Vec<u8>,
    ) -> Option<Spec> {
        match *self {}
    }
}

#[cfg(feature = "lz4")]
impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder {{ sizes: {:?} }}", self.sizes)
    }
}

#[cfg(feature = "lz4")]
impl Encoder {
    /// Returns an encoder for this method; `None` if batches are not to be compressed.
    #[must_use]
    pub fn of(method: Compression, sizes: EncodeSizes) -> Option<Self> {
        Some(Self { sizes, compressor: Compressor::of(method)? })
    }

    /// Returns an encoder for LZ4 with these sizes, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_sizes(frames_min: usize, chunk_max: usize) -> Self {
        let sizes = EncodeSizes { frames_min, chunk_max };
        Self::of(Compression::Lz4, sizes).expect("this build has LZ4")
    }

    /// Compresses a batch for `offset` of a segment. `plain` is the batch as
    /// [`finish`](crate::batch::finish) takes it, without zeros after its frames. Puts the batch to
    /// finish instead into `stored`, and returns its numbers. `None` if the batch is to be written
    /// as it is: it is small, or compression saves less than an eighth.
    pub fn encode(
        &mut self,
        (plain, spec): (&[u8], Spec),
        (offset, life): (Offset, &Life),
        stored: &mut Vec<u8>,
    ) -> Option<Spec> {
        let frames = plain.get(HEADER_SIZE..)?;
        let is_fit = life.may_have(self.compressor.method()) && spec.kind == BodyKind::Frames;
        if !is_fit || frames.len() < self.sizes.frames_min {
            return None;
        }
        stored.clear();
        stored.resize(HEADER_SIZE, 0);
        chunk::push_prefix(stored, frames.len());
        let size_max = HEADER_SIZE + less_an_eighth(frames.len());
        let (mut rest, mut next, mut left) = (frames, spec.first, spec.count);
        while left > 0 {
            let (size, count) = next_chunk(rest, left, self.sizes.chunk_max)?;
            let (frames, after) = rest.split_at_checked(size)?;
            let (method, payload) = self.compressor.compress_if_smaller(frames);
            let (stored_size, form) = (payload.len(), Form::Compressed);
            let fields = chunk::Fields {
                stored: stored_size,
                plain: size,
                count,
                first: next,
                method,
                form,
            };
            let at = offset.plus(to_u64(stored.len()));
            chunk::push(stored, &fields, payload, (at, &life.salt));
            if stored.len() > size_max {
                return None;
            }
            (rest, next, left) = (after, fields.last().next(), left - count);
        }
        rest.is_empty().then_some(Spec { kind: BodyKind::Encoded, ..spec })
    }
}

/// Returns the size of the next chunk of `frames` and its number of records, of the `left` ones. A
/// chunk has at most `chunk_max` bytes, unless a single record is larger.
#[cfg(any(feature = "lz4", feature = "encryption"))]
pub(crate) fn next_chunk(frames: &[u8], left: u32, chunk_max: usize) -> Option<(usize, u32)> {
    let (mut size, mut count) = (0, 0);
    while count < left {
        let (_, end) = frame::read(frames, size, Lsn::FIRST)?;
        if count > 0 && end > chunk_max {
            break;
        }
        (size, count) = (end, count + 1);
    }
    Some((size, count))
}

#[cfg(feature = "lz4")]
#[cfg(test)]
mod tests;
