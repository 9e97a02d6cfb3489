//! Encrypted batches: from frames to encrypted chunks, and back. format.md section 3.7.
//!
//! A batch is authenticated twice. Each chunk has a tag over its place and its records. The code in
//! the prefix covers the numbers of the batch and all these tags, so no chunk can be exchanged for
//! one that a copy of the log wrote in the same place.

use crate::binary::batch::{
    BODY_CRC, BatchHeader, BodyKind, CHAIN, FIRST, HEADER_SIZE, Life, Spec,
};
use crate::binary::chunk::{self, Chunk, Form, Left, content, encrypted, encrypted_prefix};
#[cfg(feature = "lz4")]
use crate::binary::compressor::Compressor;
use crate::binary::encoded::{IntactChunk, next_chunk, salvage_with};
use crate::binary::encrypted_sizes::EncryptedSizes;
use crate::binary::frame;
use crate::encryption::{KeyError, Mac, NONCE_SIZE, Nonce, SegmentKeys, TAG_SIZE, Tag};
use crate::fields::{get, get_u32, is_zero, put, slice, slice_mut};
use crate::ids::{Lsn, Offset, to_u64};
use crate::types::Compression;
use std::io;
use std::sync::{Mutex, PoisonError};
use zeroize::{Zeroize, Zeroizing};

/// Size of what the tag of a chunk covers besides its content: log id, segment id, epoch, offset,
/// and bytes 4 to 24 of the chunk.
const BOUND_SIZE: usize = 24 + 8 + PUBLIC_SIZE;
const PUBLIC_SIZE: usize = encrypted::NONCE.at - encrypted::STORED.at;

/// Where the chunks of a batch begin.
const CHUNKS_AT: usize = HEADER_SIZE + encrypted_prefix::SIZE;

/// Draws the nonce of a chunk.
type DrawNonce = Box<dyn FnMut() -> io::Result<Nonce> + Send>;

/// Makes encrypted batches for one segment. Several threads can use it, each for its own batch.
pub struct Encryptor {
    keys: SegmentKeys,
    draw: Mutex<DrawNonce>,
    sizes: EncryptedSizes,
    #[cfg(feature = "lz4")]
    compressor: Option<Mutex<Compressor>>,
}

/// The encrypted chunks of a batch: what its code covers, except for the chain value.
#[derive(Clone, Debug)]
pub struct EncryptedChunks {
    spec: Spec,
    tags: Vec<Tag>,
}

impl std::fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encryptor {{ sizes: {:?} }}", self.sizes)
    }
}

impl Encryptor {
    /// Returns an encryptor for the segment with these keys. `draw` returns random bits from the
    /// operating system: see [`Nonce`].
    #[must_use]
    pub fn new(
        keys: SegmentKeys,
        sizes: EncryptedSizes,
        draw: impl FnMut() -> io::Result<Nonce> + Send + 'static,
    ) -> Self {
        Self {
            keys,
            draw: Mutex::new(Box::new(draw)),
            sizes,
            #[cfg(feature = "lz4")]
            compressor: None,
        }
    }

    /// Lets the encryptor also compress, unless `method` is [`Compression::None`].
    #[cfg(feature = "lz4")]
    #[must_use]
    pub fn with_compression(self, method: Compression) -> Self {
        Self { compressor: Compressor::of(method).map(Mutex::new), ..self }
    }

    /// Encrypts a batch for `offset` of the segment. `plain` is the batch as
    /// [`finish`](crate::batch::finish) takes it, without zeros after its frames, and without
    /// frames if the records were given up. Puts the batch to finish instead into `stored`, and
    /// returns its numbers.
    ///
    /// # Errors
    ///
    /// If no nonce could be drawn. Then `stored` is empty.
    ///
    /// # Panics
    ///
    /// If the segment is not encrypted, or `plain` is not such a batch.
    pub fn encode(
        &self,
        (plain, spec): (&[u8], Spec),
        (offset, life): (Offset, &Life),
        stored: &mut Vec<u8>,
    ) -> io::Result<Spec> {
        let chunks = self.encrypt((plain, spec), (offset, life), stored)?;
        Ok(self.authenticate(chunks, spec.chain, (offset, stored)))
    }

    /// Does the first part of [`encode`](Self::encode), almost all of its work. The chain value in
    /// `spec` is not used.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    ///
    /// # Panics
    ///
    /// As [`encode`](Self::encode).
    #[inline(never)]
    pub fn encrypt(
        &self,
        (plain, spec): (&[u8], Spec),
        (offset, life): (Offset, &Life),
        stored: &mut Vec<u8>,
    ) -> io::Result<EncryptedChunks> {
        assert!(life.is_encrypted, "a plain segment gets plain batches");
        let frames = plain.get(HEADER_SIZE..).expect("there is room for a header");
        let (kind, count) = match spec.kind {
            BodyKind::Frames => (BodyKind::Encrypted, spec.count),
            BodyKind::Void => (BodyKind::EncryptedVoid, 0),
            kind => panic!("{kind:?} is not a body of frames"),
        };
        let spec = Spec { kind, ..spec };
        stored.clear();
        stored.resize(CHUNKS_AT, 0);
        let tags = self.push_chunks((frames, spec.first, count), (offset, life), stored);
        let tags = tags.inspect_err(|_| stored.zeroize())?;
        Ok(EncryptedChunks { spec, tags })
    }

    /// Does the second part of [`encode`](Self::encode) on the result of the first in `stored`:
    /// adds the code over all numbers, including the chain value, and all tags.
    ///
    /// # Panics
    ///
    /// If `stored` has no room for a header and the code.
    #[must_use]
    pub fn authenticate(
        &self,
        EncryptedChunks { spec, tags }: EncryptedChunks,
        chain: u64,
        (offset, stored): (Offset, &mut [u8]),
    ) -> Spec {
        let spec = Spec { chain, ..spec };
        let numbers = numbers_of(&spec);
        let code = self.keys.batch.code(covered(&offset.0.to_le_bytes(), &numbers, &tags));
        let prefix = stored.get_mut(HEADER_SIZE..).expect("it begins with room for both");
        put(prefix, encrypted_prefix::LENGTH, to_u64(encrypted_prefix::SIZE));
        slice_mut(prefix, encrypted_prefix::CODE).copy_from_slice(&code);
        spec
    }

    /// Returns the size in bytes, header included, of the batch that [`encode`](Self::encode) makes
    /// of `count` frames. `None` if it compresses: the size is known only afterwards.
    #[must_use]
    pub fn size(&self, plain: &[u8], count: u32, life: &Life) -> Option<usize> {
        #[cfg(feature = "lz4")]
        if self.compressor.is_some() {
            return None;
        }
        let (mut rest, mut left) = (plain.get(HEADER_SIZE..)?, count);
        let (mut unit, mut end) = (0, CHUNKS_AT);
        while left > 0 {
            let (size, count) = next_chunk(rest, left, self.sizes.chunk_max)?;
            (_, rest) = rest.split_at_checked(size)?;
            left -= count;
            let content = end + encrypted::HEADER_SIZE + content::HEADER_SIZE + size;
            end = self.chunk_end(content, (unit, rest.len()), life);
            unit = end;
        }
        Some(end)
    }

    /// Returns where a chunk ends whose content ends at `content`. The bytes from `unit` on are
    /// padded together, and `after` bytes of frames follow the chunk.
    fn chunk_end(&self, content: usize, (unit, after): (usize, usize), life: &Life) -> usize {
        let batch_max = usize::try_from(life.batch_max).unwrap_or(usize::MAX);
        let size = content + TAG_SIZE - unit;
        let room = batch_max.saturating_sub(unit + self.sizes.chunks_size_max(after));
        let padded = Some(self.sizes.padding.padded(size)).filter(|padded| *padded <= room);
        unit + padded.unwrap_or(size).next_multiple_of(8)
    }

    /// Adds chunks with these frames to `stored`. Returns their tags.
    fn push_chunks(
        &self,
        (frames, first, count): (&[u8], Lsn, u32),
        (offset, life): (Offset, &Life),
        stored: &mut Vec<u8>,
    ) -> io::Result<Vec<Tag>> {
        let (mut rest, mut next, mut left, mut tags) = (frames, first, count, vec![]);
        // The first chunk is padded together with what is before it.
        let mut unit = 0;
        while left > 0 {
            let (size, count) =
                next_chunk(rest, left, self.sizes.chunk_max).expect("counted frames");
            let (frames, after) = rest.split_at_checked(size).expect("the chunk lies in them");
            let start = stored.len();
            self.push_content(frames, life, stored);
            let end = self.chunk_end(stored.len(), (unit, after.len()), life);
            stored.resize(end - TAG_SIZE, 0);
            let at = offset.plus(to_u64(start));
            tags.push(self.seal((next, count), at, (start, stored))?);
            let chunk = stored.get_mut(start..).expect("it was just added");
            life.salt.put_checksum(at, chunk, encrypted::CRC);
            (rest, left, unit) = (after, left - count, stored.len());
            next = next.plus(count.into());
        }
        assert!(rest.is_empty(), "no zeros follow the frames");
        Ok(tags)
    }

    /// Adds room for the header of a chunk and its content, not yet encrypted.
    #[cfg(feature = "lz4")]
    fn push_content(&self, frames: &[u8], life: &Life, stored: &mut Vec<u8>) {
        let Some(compressor) = &self.compressor else {
            return push_content((Compression::None, frames), frames.len(), stored);
        };
        let mut compressor = compressor.lock().unwrap_or_else(PoisonError::into_inner);
        let payload = if life.may_have(compressor.method()) {
            compressor.compress_if_smaller(frames)
        } else {
            (Compression::None, frames)
        };
        push_content(payload, frames.len(), stored);
    }

    /// Adds room for the header of a chunk and its content, not yet encrypted.
    #[cfg(not(feature = "lz4"))]
    #[expect(clippy::unused_self, reason = "with the feature it uses the compressor")]
    fn push_content(&self, frames: &[u8], _: &Life, stored: &mut Vec<u8>) {
        push_content((Compression::None, frames), frames.len(), stored);
    }

    /// Encrypts the chunk of these records, which reaches from `start` to the end of `stored`. Adds
    /// and returns its tag.
    fn seal(
        &self,
        (first, count): (Lsn, u32),
        at: Offset,
        (start, stored): (usize, &mut Vec<u8>),
    ) -> io::Result<Tag> {
        let nonce = self.draw.lock().unwrap_or_else(PoisonError::into_inner)()?;
        let chunk = stored.get_mut(start..).expect("it was just added");
        let size = chunk.len() - encrypted::HEADER_SIZE + TAG_SIZE;
        put(chunk, encrypted::STORED, to_u64(size));
        put(chunk, encrypted::COUNT, count.into());
        put(chunk, encrypted::FIRST, first.get());
        slice_mut(chunk, encrypted::NONCE).copy_from_slice(&nonce);
        let (head, content) = chunk.split_at_mut(encrypted::HEADER_SIZE);
        let public = head.get(encrypted::STORED.at..encrypted::NONCE.at).unwrap_or_default();
        let tag = self.keys.chunk.seal(&nonce, &bound(&self.keys.place, at, public), content);
        stored.extend_from_slice(&tag);
        Ok(tag)
    }
}

/// Adds space for the header of a chunk, then its content: `payload`, which decompresses to `plain`
/// bytes of frames.
fn push_content((method, payload): (Compression, &[u8]), plain: usize, stored: &mut Vec<u8>) {
    let mut head = [0; content::HEADER_SIZE];
    put(&mut head, content::PLAIN, to_u64(plain));
    put(&mut head, content::USED, to_u64(payload.len()));
    put(&mut head, content::METHOD, method.number());
    stored.resize(stored.len() + encrypted::HEADER_SIZE, 0);
    stored.extend_from_slice(&head);
    stored.extend_from_slice(payload);
}

impl SegmentKeys {
    /// Replaces the contents of `plain` with space for a header and the frames of an encrypted
    /// batch at `offset`. The frames are not bound to a place. Even if `body` does not match
    /// `header`, no more memory is allocated than for a batch of maximum size.
    ///
    /// Returns whether every chunk decodes and the last record ends its atomic set. If the records
    /// were given up, there are no frames.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if the batch is not what a holder of the key wrote in this place.
    #[inline(never)]
    pub fn open(
        &self,
        (header, body): (&BatchHeader, &[u8]),
        (offset, life): (Offset, &Life),
        plain: &mut Vec<u8>,
    ) -> Result<bool, KeyError> {
        plain.clear();
        plain.resize(HEADER_SIZE, 0);
        let Some((chunks, code)) = chunks(header, body, life) else { return Ok(false) };
        let tags = chunks.iter().filter_map(|(_, chunk)| Some(*Encrypted::of(chunk)?.tag));
        let (place, numbers) = (offset.0.to_le_bytes(), numbers_in(header));
        let tags: Vec<Tag> = tags.collect();
        if !self.batch.matches(covered(&place, &numbers, &tags), &code) {
            return Err(KeyError::Forged);
        }
        let mut opening = Opening::new(self, life, body.len());
        opening.room = usize::try_from(life.batch_max).unwrap_or(0).saturating_sub(HEADER_SIZE);
        let mut ends_set = true;
        for (position, chunk) in chunks {
            let at = offset.plus(to_u64(HEADER_SIZE + position));
            match opening.open(&chunk, at, plain)? {
                Some(ends) => ends_set = ends,
                None => return Ok(false),
            }
        }
        Ok(ends_set)
    }

    /// Returns the chunks of a damaged `place`, in order, that are valid by themselves and begin
    /// with one of `records`, first to last. Adds their frames to `memory`.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if a chunk has the right checksum and was not written by a holder of
    /// the key.
    #[inline(never)]
    pub fn salvage(
        &self,
        place: &[u8],
        (offset, life): (Offset, &Life),
        (records, memory): ((Lsn, Lsn), &mut Vec<u8>),
    ) -> Result<Vec<IntactChunk>, KeyError> {
        let mut opening = Opening::new(self, life, place.len());
        let mut forged = Ok(());
        let decode = |chunk: &Chunk<'_>, at, room, memory: &mut Vec<u8>| {
            opening.room = room;
            let opened = opening.open(chunk, at, memory);
            let is_intact = matches!(opened, Ok(Some(_)));
            forged = forged.and(opened.map(|_| ()));
            is_intact
        };
        let found = salvage_with(place, (offset, life), records, (Form::Encrypted, memory, decode));
        forged.map(|()| found)
    }
}

/// Returns the chunks of a body with their positions, and the code of the batch; `None` if they
/// contradict the header.
fn chunks<'a>(
    header: &BatchHeader,
    body: &'a [u8],
    life: &Life,
) -> Option<(Vec<(usize, Chunk<'a>)>, Mac)> {
    let form = header.kind.form().filter(|form| *form == Form::Encrypted)?;
    let plain = form.plain_of(body, life.batch_max)?;
    let prefix = body.first_chunk::<{ encrypted_prefix::SIZE }>()?;
    let code = slice(prefix, encrypted_prefix::CODE).try_into().ok()?;
    let mut left = Left::new((header.first, header.records_in_chunks()), plain);
    let (mut found, mut position) = (vec![], form.prefix_size());
    while left.has_records() {
        let (chunk, end) = chunk::read(form, body, position)?;
        if !left.take(&chunk.fields) {
            return None;
        }
        found.push((position, chunk));
        position = end;
    }
    Some((found, code))
}

/// The parts of an encrypted chunk.
#[derive(Clone, Copy, Debug)]
struct Encrypted<'a> {
    /// The fields that the tag covers, as they are stored.
    public: &'a [u8],
    nonce: &'a Nonce,
    bytes: &'a [u8],
    tag: &'a Tag,
}

impl<'a> Encrypted<'a> {
    /// Splits `chunk` into its parts; `None` if it is not encrypted.
    fn of(chunk: &Chunk<'a>) -> Option<Self> {
        if chunk.fields.form == Form::Compressed {
            return None;
        }
        let (head, payload) =
            chunk.covered.split_at_checked(encrypted::HEADER_SIZE - encrypted::STORED.at)?;
        let (bytes, tag) = payload.split_last_chunk::<TAG_SIZE>()?;
        let (public, rest) = head.split_at_checked(PUBLIC_SIZE)?;
        let nonce = rest.first_chunk::<NONCE_SIZE>()?;
        Some(Self { public, nonce, bytes, tag })
    }
}

/// Decrypts chunks of a segment, one after the other.
struct Opening<'a> {
    keys: &'a SegmentKeys,
    life: &'a Life,
    /// Bytes of frames that there is still room for.
    room: usize,
    /// The decrypted content, in memory that does not move.
    content: Zeroizing<Vec<u8>>,
}

impl<'a> Opening<'a> {
    /// Allocates memory for chunks of `size` bytes in total.
    fn new(keys: &'a SegmentKeys, life: &'a Life, size: usize) -> Self {
        Self { keys, life, room: 0, content: Zeroizing::new(Vec::with_capacity(size)) }
    }

    /// Adds the frames of the chunk at `at` to `plain`, as [`chunk::expand`] does.
    fn open(
        &mut self,
        chunk: &Chunk<'_>,
        at: Offset,
        plain: &mut Vec<u8>,
    ) -> Result<Option<bool>, KeyError> {
        let Some(parts) = Encrypted::of(chunk) else { return Ok(None) };
        self.content.clear();
        self.content.extend_from_slice(parts.bytes);
        let bound = bound(&self.keys.place, at, parts.public);
        if !self.keys.chunk.open(parts.nonce, &bound, (&mut self.content, parts.tag)) {
            return Err(KeyError::Forged);
        }
        let count = chunk.fields.count;
        let Some((size, method, payload)) = self.frames(count) else { return Ok(None) };
        let expanded = chunk::expand((method, payload), size, count, plain);
        if expanded.is_some() {
            self.room -= size;
        }
        Ok(expanded)
    }

    /// Returns the size of the frames in the content, their compression method, and their bytes as
    /// compressed, if the fields are sound.
    fn frames(&self, count: u32) -> Option<(usize, Compression, &[u8])> {
        let (head, rest) = self.content.split_first_chunk::<{ content::HEADER_SIZE }>()?;
        let size = |field| usize::try_from(get_u32(head, field)).ok();
        let (plain, used) = (size(content::PLAIN)?, size(content::USED)?);
        let method = Compression::from_number(get(head, content::METHOD)).ok()?;
        let (payload, zeros) = rest.split_at_checked(used)?;
        let is_sound = is_zero(slice(head, content::ZERO))
            && is_zero(zeros)
            && plain <= self.room
            && plain.is_multiple_of(8)
            && to_u64(plain) >= to_u64(frame::HEADER_SIZE) * u64::from(count)
            && match method {
                Compression::None => used == plain,
                _ => self.life.may_have(method) && used < plain,
            };
        is_sound.then_some((plain, method, payload))
    }
}

/// What the tag of a chunk covers beside its content.
fn bound(place: &[u8; 24], at: Offset, public: &[u8]) -> [u8; BOUND_SIZE] {
    let mut bytes = [0; BOUND_SIZE];
    let at = at.0.to_le_bytes();
    let parts = place.iter().chain(&at).chain(public);
    bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
    bytes
}

/// What the code of a batch covers: its offset, its numbers, and the tags of its chunks.
fn covered<'a>(
    offset: &'a [u8; 8],
    numbers: &'a [u8; 32],
    tags: &'a [Tag],
) -> impl Iterator<Item = &'a [u8]> {
    [offset.as_slice(), numbers].into_iter().chain([tags.as_flattened()])
}

/// The numbers that the code of a batch covers, as in its header: bytes 8 to 24 and 32 to 48.
fn numbers_of(spec: &Spec) -> [u8; 32] {
    let mut header = [0; HEADER_SIZE];
    spec.put_numbers(&mut header);
    let mut numbers = [0; 32];
    let parts = [FIRST.at..BODY_CRC.at, CHAIN.at..HEADER_SIZE];
    let parts = parts.map(|part| header.get(part).unwrap_or_default());
    numbers.copy_from_slice(&parts.concat());
    numbers
}

/// The numbers that the code covers, from a header.
fn numbers_in(header: &BatchHeader) -> [u8; 32] {
    let BatchHeader { first, count, kind, chain, time_us, .. } = *header;
    numbers_of(&Spec { first, count, kind, confirmed: header.confirmed(), chain, time_us })
}

#[cfg(test)]
mod tests;
