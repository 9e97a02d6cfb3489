//! The byte formats: header, mark slots, seal, manifest, batches. Field sizes are scaled down;
//! every checksum is an ideal 64-bit one, so a verdict never depends on a lucky collision.

use crate::disk::{BLOCK, SECTOR};

/// The longest single contiguous fault, in bytes.
pub const REACH: usize = 10 * SECTOR;
pub const SLOT: [usize; 2] = [BLOCK, 2 * BLOCK];
pub const SEAL: usize = 3 * BLOCK;
pub const HEAD: usize = 4 * BLOCK;
/// The number of data sectors. `SMALL`: in a first, recovered, truncated or failed-over segment.
/// `LARGE`: in one made by a rotation.
pub const SMALL: usize = if cfg!(feature = "wide") { 8 } else { 12 };
pub const LARGE: usize = if cfg!(feature = "wide") { 10 } else { 20 };
/// The same with two writes in flight: larger than their window.
pub const LARGEST: usize = if cfg!(feature = "wide") { 16 } else { 32 };
pub const BATCH_HEADER: usize = 32;
pub const MANIFEST_SLOT: [usize; 2] = [0, BLOCK];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Layout {
    /// One write in flight; a batch begins where the last one ends.
    Dense,
    /// Several writes in flight, each padded to the block.
    Padded,
    /// Lines in a separate file, which grows.
    Text,
}

pub fn data_start(layout: Layout, gap: bool) -> usize {
    match (layout, gap) {
        (Layout::Text, _) => 0,
        (_, true) => HEAD + REACH,
        (_, false) => HEAD,
    }
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

pub fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub fn digest(salt: u64, bytes: &[u8]) -> u64 {
    let mut h = salt ^ 0x9E37_79B9_7F4A_7C15;
    for chunk in bytes.chunks_exact(8) {
        h = (h ^ word(chunk, 0)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        h ^= h >> 32;
    }
    h = (h ^ bytes.len() as u64).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    h ^ (h >> 29)
}

fn halves(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Encodes a checked cell: digest, then four or more 16-bit values (a multiple of four).
fn cell(kind: u64, values: &[u16]) -> Vec<u8> {
    let body = halves(values);
    let mut out = digest(kind, &body).to_le_bytes().to_vec();
    out.extend(body);
    out
}

fn open_cell(kind: u64, file: &[u8], at: usize, count: usize) -> Option<Vec<u16>> {
    let bytes = file.get(at..at + 8 + 2 * count)?;
    let body = &bytes[8..];
    if word(bytes, 0) != digest(kind, body) {
        return None;
    }
    Some((0..count).map(|i| half(body, 2 * i)).collect())
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub id: u16,
    pub epoch: u16,
    pub base: u16,
    pub pred_id: u16,
    pub pred_epoch: u16,
    pub pred_digest: u16,
    /// The number of data sectors.
    pub size: u16,
    /// Records up to here were durable before the segment got its name.
    pub carried: u16,
    /// Whether the file held another segment before.
    pub reused: bool,
    /// Whether it was named ahead: its first batch says where it begins and which batch it follows.
    pub ahead: bool,
    /// The maximum number of writes in flight.
    pub flights: u16,
    /// The digest that the first batch of a segment named ahead chains to; 0 if it has not begun.
    pub link: u64,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let h = self;
        let begins = if h.ahead { [0; 3] } else { [h.base, h.pred_digest, h.carried] };
        let [base, digest, carried] = begins;
        let flags = h.reused as u16 | (h.ahead as u16) << 1;
        let place = [h.id, h.epoch, base, h.pred_id, h.pred_epoch, digest, h.size, carried];
        cell(1, &[&place[..], &[flags, h.flights, 0, 0]].concat())
    }

    pub fn decode(file: &[u8]) -> Option<Header> {
        let v = open_cell(1, file, 0, 12)?;
        Some(Header {
            id: v[0],
            epoch: v[1],
            base: v[2],
            pred_id: v[3],
            pred_epoch: v[4],
            pred_digest: v[5],
            size: v[6],
            carried: v[7],
            reused: v[8] & 1 == 1,
            ahead: v[8] >> 1 == 1,
            flights: v[9],
            link: 0,
        })
    }

    /// Returns whether the segment was named ahead and no batch says where it begins.
    pub fn has_not_begun(&self) -> bool {
        self.ahead && self.base == 0
    }

    /// Returns the header of a segment named ahead, completed from its first batch if that is
    /// there. The batch was written when all records before it were durable.
    pub fn begun(self, file: &[u8], at: usize) -> Header {
        match decode_header(file, at, self.epoch) {
            Some(b) if self.ahead && b.confirmed + 1 == b.first => {
                self.begin(b.first, b.chain & 0xFFFF_FFFF_FFFF)
            }
            _ => self,
        }
    }

    /// Returns the header completed with the first LSN and the digest of the batch before.
    pub fn begin(self, base: u16, link: u64) -> Header {
        Header { base, link, pred_digest: link as u16, carried: base - 1, ..self }
    }

    /// Returns the digest that the first batch of the segment chains to.
    pub fn chain(&self) -> u64 {
        if self.ahead {
            self.link
        } else {
            digest(9, &self.encode()) >> 16
        }
    }
}

/// The offset of the note in the block of mark slot A. The note names the segment named ahead.
const NOTE: usize = BLOCK + if SECTOR < BLOCK { SECTOR } else { SECTOR / 2 };

/// Encodes a note after its offset. `next` is the id and epoch of the segment named ahead.
pub fn encode_note(epoch: u16, next: (u16, u16)) -> (usize, Vec<u8>) {
    (NOTE, cell(8, &[epoch, next.0, next.1, 0]))
}

/// Decodes a note: (epoch, id of the segment named ahead, its epoch).
pub fn decode_note(file: &[u8]) -> Option<(u16, u16, u16)> {
    open_cell(8, file, NOTE, 4).map(|v| (v[0], v[1], v[2]))
}

pub fn encode_mark(epoch: u16, confirmed: u16, seq: u16) -> Vec<u8> {
    cell(2, &[epoch, confirmed, seq, 0])
}

/// Decodes a mark: (epoch, confirmed, seq).
pub fn decode_mark(file: &[u8], slot: usize) -> Option<(u16, u16, u16)> {
    open_cell(2, file, SLOT[slot], 4).map(|v| (v[0], v[1], v[2]))
}

/// Encodes a seal. `next` is the id and epoch of the successor.
pub fn encode_seal(epoch: u16, last: u16, next: (u16, u16)) -> Vec<u8> {
    cell(3, &[epoch, last, next.0, next.1])
}

/// Decodes a seal: (epoch, last, id of the successor, its epoch).
pub fn decode_seal(file: &[u8]) -> Option<(u16, u16, u16, u16)> {
    open_cell(3, file, SEAL, 4).map(|v| (v[0], v[1], v[2], v[3]))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Manifest {
    pub seq: u16,
    /// Id and epoch of the oldest live segment.
    pub oldest: (u16, u16),
    /// The last two checkpoints, newest first.
    pub checkpoints: (u16, u16),
    /// Where the last clean close ended: the last LSN, then id and epoch of the newest segment.
    pub closed: (u16, u16, u16),
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let (m, c) = (self, self.closed);
        cell(4, &[m.seq, m.oldest.0, m.oldest.1, m.checkpoints.0, m.checkpoints.1, c.0, c.1, c.2])
    }

    pub fn decode(file: &[u8], slot: usize) -> Option<Manifest> {
        let v = open_cell(4, file, MANIFEST_SLOT[slot], 8)?;
        let (oldest, checkpoints) = ((v[1], v[2]), (v[3], v[4]));
        Some(Manifest { seq: v[0], oldest, checkpoints, closed: (v[5], v[6], v[7]) })
    }
}

#[derive(Clone, Copy)]
pub struct BatchHeader {
    pub len: u16,
    pub count: u16,
    /// Whether the atomic set continues in the next batch.
    pub goes_on: bool,
    pub first: u16,
    pub confirmed: u16,
    pub body: u64,
    pub chain: u64,
    pub digest: u64,
}

/// The content of a batch to be encoded.
pub struct Part<'a> {
    pub first: u16,
    pub confirmed: u16,
    pub values: &'a [u64],
    pub goes_on: bool,
}

pub fn salt(epoch: u16, at: usize) -> u64 {
    (epoch as u64) << 32 | at as u64
}

/// Encodes a batch for byte `at`: header, then frames. `pad` extends it to the end of a block.
pub fn encode_batch(epoch: u16, at: usize, part: &Part, chain: u64, pad: bool) -> (Vec<u8>, u64) {
    let Part { first, confirmed, values, goes_on } = *part;
    let mut body = vec![];
    for (i, v) in values.iter().enumerate() {
        // Every third value carries zeros, so that a sector of data may look as if it had none.
        let payload: Vec<u64> = if v % 3 == 0 { vec![*v, 0, 0, 0] } else { vec![*v] };
        let payload: Vec<u8> = payload.iter().flat_map(|w| w.to_le_bytes()).collect();
        let check = digest(salt(epoch, first as usize + i), &payload);
        body.extend((check << 16 | payload.len() as u64).to_le_bytes());
        body.extend(payload);
    }
    if pad {
        let end = (at + BATCH_HEADER + body.len()).next_multiple_of(BLOCK);
        body.resize(end - at - BATCH_HEADER, 0);
    }
    let mut head = halves(&[
        body.len() as u16,
        values.len() as u16 | (goes_on as u16) << 15,
        first,
        confirmed,
    ]);
    head.extend(digest(salt(epoch, at), &body).to_le_bytes());
    head.extend((chain << 16 | epoch as u64).to_le_bytes());
    let check = digest(salt(epoch, at), &head);
    let mut out = check.to_le_bytes().to_vec();
    out.extend(head);
    out.extend(body);
    (out, check >> 16)
}

pub fn decode_header(file: &[u8], at: usize, epoch: u16) -> Option<BatchHeader> {
    let bytes = file.get(at..at + BATCH_HEADER)?;
    if half(bytes, 24) != epoch || word(bytes, 0) != digest(salt(epoch, at), &bytes[8..]) {
        return None;
    }
    Some(BatchHeader {
        len: half(bytes, 8),
        count: half(bytes, 10) & 0x7FFF,
        goes_on: half(bytes, 10) >> 15 == 1,
        first: half(bytes, 12),
        confirmed: half(bytes, 14),
        body: word(bytes, 16),
        chain: word(bytes, 24) >> 16,
        digest: word(bytes, 0) >> 16,
    })
}

/// Returns the values of a batch with a valid header, if its body is valid.
pub fn decode_body(file: &[u8], at: usize, epoch: u16, h: &BatchHeader) -> Option<Vec<u64>> {
    let body = file.get(at + BATCH_HEADER..at + BATCH_HEADER + h.len as usize)?;
    if digest(salt(epoch, at), body) != h.body {
        return None;
    }
    let (mut p, mut out) = (0, vec![]);
    for i in 0..h.count as usize {
        let len = word(body, p) as u16 as usize;
        let payload = body.get(p + 8..p + 8 + len)?;
        if digest(salt(epoch, h.first as usize + i), payload) << 16 != word(body, p) & !0xFFFF {
            return None;
        }
        out.push(word(payload, 0));
        p += 8 + len;
    }
    Some(out)
}

/// Returns whether every frame that lies wholly in written sectors is valid. `untouched` returns
/// whether some sector of a range was not written, and looks no further than the end of the batch.
pub fn frames_in_written_sectors_are_sound(
    file: &[u8],
    at: usize,
    epoch: u16,
    h: &BatchHeader,
    untouched: &dyn Fn(usize, usize, usize) -> bool,
) -> bool {
    let end = at + BATCH_HEADER + h.len as usize;
    let written = |from: usize, to: usize| !untouched(from, to, end);
    let mut p = at + BATCH_HEADER;
    for i in 0..h.count as usize {
        if p + 8 > end || !written(p, p + 8) {
            return true;
        }
        let len = word(file, p) as u16 as usize;
        if p + 8 + len > end {
            return false;
        }
        if written(p, p + 8 + len) {
            let check =
                digest(salt(epoch, h.first as usize + i), &file[p + 8..p + 8 + len / 8 * 8]);
            if check << 16 != word(file, p) & !0xFFFF {
                return false;
            }
        }
        p += 8 + len;
    }
    true
}

/// Returns whether all bytes in the range are zero. Bytes after the end of the file count as zero.
pub fn zero(file: &[u8], from: usize, to: usize) -> bool {
    let to = to.min(file.len());
    file.get(from..to).is_none_or(|bytes| bytes.iter().all(|b| *b == 0))
}
