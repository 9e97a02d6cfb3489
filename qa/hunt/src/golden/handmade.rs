//! Golden files that the current writer does not make: built from their structures.

use super::Case;
use super::image::Files;
use super::written::{SIZES, TIME};
use seawall::format::{CodecId, SegmentId};
use seawall::{Layout, Level, Lsn};
use seawall_format::batch::{BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::encoded::Encoder;
use seawall_format::{
    Closed, Compression, Epoch, LogId, Manifest, Mark, Offset, RecordType, SegmentHeader,
    SegmentRef, frame,
};

/// The content of a batch.
pub(super) enum Content<'a> {
    /// Records, and the number of zeros after them.
    Records(&'a [&'a str], usize),
    /// A void batch: the number of records that were given up.
    Void(u32),
    /// Records, compressed in chunks of at most 300 bytes, and the number of zeros after them.
    Compressed(&'a [&'a str], usize),
    /// Compressed records with a changed byte in the first chunk, and checksums that match it.
    Undecodable(&'a [&'a str]),
}

pub(super) fn header() -> SegmentHeader {
    SegmentHeader {
        geometry: SIZES,
        log: LogId(0x5EA_3A11),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(0x0123_4567_89AB_CDEF),
        base: Lsn::FIRST,
        carried: None,
        size: 4096,
        pred: None,
        pred_chain: 0,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType::of(CodecId::Raw),
        time_us: TIME,
    }
}

fn manifest(header: &SegmentHeader, last: Option<Lsn>) -> Vec<u8> {
    let segment: SegmentRef = header.reference();
    let mut file = vec![0; 1024];
    for sequence in [1, 2] {
        let slot = Manifest {
            geometry: SIZES,
            log: header.log,
            authenticator: None,
            sequence,
            oldest: segment,
            oldest_base: header.base,
            checkpoints: [None; 2],
            closed: Some(Closed { last, segment }),
            is_closed: false,
            segment_max: 1 << 20,
            level: Level::Confirmed,
            layout: header.layout,
            record_type: header.record_type.clone(),
            parity: None,
            reuses: false,
            names_ahead: false,
            in_flight_max: 1,
            compression_max: header.compression_max,
            compression: header.compression_max,
            time_us: TIME,
        };
        put(&mut file, slot.offset(), &slot.encode());
    }
    file
}

pub(super) fn put(file: &mut [u8], at: Offset, bytes: &[u8]) {
    let at = usize::try_from(at.0).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn log(contents: &[Content<'_>]) -> Files {
    log_of(&header(), contents, contents.len())
}

/// Builds a log whose first `known` batches are confirmed.
pub(super) fn log_of(header: &SegmentHeader, contents: &[Content<'_>], known: usize) -> Files {
    let size = usize::try_from(header.size).unwrap();
    // Compression is allowed here even if the header forbids it, to test that readers refuse it.
    let life = Life { compression_max: Compression::Lz4, ..Life::of(header) };
    let mut file = vec![0; size];
    put(&mut file, Offset(0), &header.encode());
    let (mut at, mut chain) = (Offset(header.data_start()), header.chain());
    let (mut first, mut confirmed, mut closed) = (Lsn::FIRST, None, None);
    for (number, content) in contents.iter().enumerate() {
        let mut bytes = vec![0; HEADER_SIZE];
        let mut zeros_behind = 0;
        let (count, kind) = match content {
            Content::Void(count) => (*count, BodyKind::Void),
            Content::Records(records, _)
            | Content::Compressed(records, _)
            | Content::Undecodable(records) => {
                for record in *records {
                    frame::push_unbound(&mut bytes, record.as_bytes(), false);
                }
                (u32::try_from(records.len()).unwrap(), BodyKind::Frames)
            }
        };
        if let Content::Records(_, zeros) = content {
            zeros_behind = *zeros;
        }
        let spec = Spec { first, count, kind, confirmed, chain, time_us: TIME + at.0 };
        let spec = match content {
            Content::Compressed(_, zeros) => compress(&mut bytes, spec, (at, &life), *zeros),
            Content::Undecodable(_) => {
                let spec = compress(&mut bytes, spec, (at, &life), 0);
                change_chunk(&mut bytes, at, &life);
                spec
            }
            _ => spec,
        };
        chain = finish(&mut bytes, spec, at, &life);
        if zeros_behind > 0 {
            chain = pad(&mut bytes, zeros_behind, at, &life);
        }
        put(&mut file, at, &bytes);
        at = at.plus(u64::try_from(bytes.len()).unwrap());
        first = first.plus(u64::from(count));
        confirmed = first.previous();
        closed = if number < known { confirmed } else { closed };
    }
    let confirmed = closed;
    let mark = Mark { confirmed, sequence: 1, time_us: TIME };
    put(&mut file, mark.slot().offset(SIZES), &mark.encode(header));
    let manifest = manifest(header, confirmed);
    [(header.head_name(), file), ("manifest".to_owned(), manifest)].into()
}

/// Compresses a batch and appends zeros to it.
fn compress(bytes: &mut Vec<u8>, spec: Spec, place: (Offset, &Life), zeros: usize) -> Spec {
    let mut stored = vec![];
    let mut encoder = Encoder::with_sizes(0, 300);
    let spec = encoder.encode((bytes, spec), place, &mut stored).unwrap();
    stored.resize(stored.len() + zeros, 0);
    *bytes = stored;
    spec
}

/// Changes the first byte of the first chunk, which is an LZ4 block.
fn change_chunk(bytes: &mut [u8], at: Offset, life: &Life) {
    let chunk = &mut bytes[HEADER_SIZE + 8..];
    let stored = usize::try_from(u32::from_le_bytes(*chunk[4..].first_chunk().unwrap())).unwrap();
    chunk[32] ^= 0x10;
    let crc = life.salt.checksum(at.plus(56), &chunk[4..32 + stored]);
    chunk[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Appends zeros to the records of a batch; returns the chain value for the next batch.
fn pad(batch: &mut Vec<u8>, zeros: usize, at: Offset, life: &Life) -> u64 {
    batch.resize(batch.len() + zeros, 0);
    let length = u32::try_from(batch.len() - HEADER_SIZE).unwrap();
    batch[4..8].copy_from_slice(&length.to_le_bytes());
    let body = life.salt.checksum(at.plus(48), &batch[HEADER_SIZE..]);
    batch[24..28].copy_from_slice(&body.to_le_bytes());
    let header = life.salt.checksum(at, &batch[4..HEADER_SIZE]);
    batch[..4].copy_from_slice(&header.to_le_bytes());
    u64::from(header) | u64::from(body) << 32
}

/// Returns each case with its files.
pub(super) fn all() -> Vec<(Case, Files)> {
    use Content::{Records, Void};
    let void = log(&[
        Records(&["one", "two"], 0),
        Void(3),
        Records(&["six"], 0),
        Void(1 << 20),
        Records(&["behind a million and some"], 0),
    ]);
    let padded =
        log(&[Records(&["one"], 504), Records(&["two", ""], 8), Void(1), Records(&["five"], 256)]);
    let all = [
        ("void", "records that a repair gave up, three and a million", void),
        ("padded", "zeros behind the records of a batch, of less than a block", padded),
    ];
    all.into_iter().map(|(name, what, files)| (Case::of(name, what, &files), files)).collect()
}
