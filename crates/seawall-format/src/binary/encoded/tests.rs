//! Compressed batches are read back unchanged, refused if changed or forged, and salvaged by chunk.

use super::*;
use crate::binary::batch::finish;
use crate::checksum::Salt;
use crate::fields::{Field, behind, put};
use crate::ids::{Epoch, LogId};

const LIFE: Life = Life {
    salt: Salt::new(LogId(3), Epoch(9)),
    epoch: Epoch(9),
    batch_max: 1 << 20,
    block: 512,
    in_flight_max: 1,
    compression_max: Compression::Zstd,
    is_encrypted: false,
};
/// The compression method of these tests.
const METHOD: Compression =
    if cfg!(feature = "zstd") { Compression::Zstd } else { Compression::Lz4 };
const AT: Offset = Offset(6144 + 200);
const FIRST: u64 = 7;

/// The `Life` of a segment whose batches are not compressed.
const PLAIN_LIFE: Life = Life { compression_max: Compression::None, ..LIFE };

type Records = Vec<(Vec<u8>, bool)>;

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// Encodes records (payload, and whether the set continues) as frames after space for a header.
fn plain(records: &Records) -> (Vec<u8>, Spec) {
    let mut bytes = vec![0; HEADER_SIZE];
    for (payload, goes_on) in records {
        frame::push_unbound(&mut bytes, payload, *goes_on);
    }
    let count = u32::try_from(records.len()).unwrap();
    let (first, kind, confirmed) = (lsn(FIRST), BodyKind::Frames, Lsn::new(5));
    (bytes, Spec { first, count, kind, confirmed, chain: 7, time_us: 1 })
}

fn encoder(frames_min: usize, chunk_max: usize) -> Encoder {
    Encoder::of(METHOD, EncodeSizes { frames_min, chunk_max }).unwrap()
}

/// The batch as stored, or `None` if it is not compressed.
fn stored(records: &Records, chunk_max: usize) -> Option<Vec<u8>> {
    let (bytes, spec) = plain(records);
    let mut stored = vec![9; 100];
    let spec = encoder(0, chunk_max).encode((&bytes, spec), (AT, &LIFE), &mut stored)?;
    assert!(stored.len() - HEADER_SIZE <= less_an_eighth(bytes.len() - HEADER_SIZE));
    finish(&mut stored, spec, AT, &LIFE);
    Some(stored)
}

/// The records of a stored batch, if it is valid and decodes.
fn read(stored: &[u8]) -> Option<Records> {
    let header = BatchHeader::decode(stored, AT, &LIFE)?;
    assert_eq!(header.kind, BodyKind::Encoded);
    let body = stored.get(HEADER_SIZE..).filter(|body| header.matches(body, AT, &LIFE))?;
    decoded(&header, body)
}

fn decoded(header: &BatchHeader, body: &[u8]) -> Option<Records> {
    let mut memory = vec![7; 300];
    if !decode(header, body, &LIFE, &mut memory) {
        return None;
    }
    let frames = frame::Frames::new(&memory[HEADER_SIZE..], header.first, header.count);
    Some(frames.map(|frame| (frame.payload.to_vec(), frame.goes_on)).collect())
}

/// Salvages the records of intact chunks: LSN, payload, and whether the set continues.
fn salvaged(place: &[u8], offset: Offset, last: u64) -> Vec<(u64, (Vec<u8>, bool))> {
    let mut memory = vec![];
    let found = salvage(place, (offset, &LIFE), (lsn(FIRST), lsn(last)), &mut memory);
    let frames = found.into_iter().flat_map(|chunk| {
        let frames = frame::Frames::new(&memory[chunk.frames.clone()], chunk.first, chunk.count);
        frames
            .map(|frame| (frame.lsn.get(), (frame.payload.to_vec(), frame.goes_on)))
            .collect::<Vec<_>>()
    });
    frames.collect()
}

/// Compressible records in three chunks of about 300 bytes; records 4 and 5 form an atomic set.
fn example() -> Records {
    let record = |number: u8| {
        ([b"a record with the number ".as_slice(), &[number; 60]].concat(), number == 4)
    };
    (0..9).map(record).collect()
}

const CHUNK: usize = 300;

/// Random bytes, which no compressor makes smaller.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    std::iter::successors(Some(seed | 1), |x| {
        Some(x ^ (x << 13)).map(|x| x ^ (x >> 7)).map(|x| x ^ (x << 17))
    })
    .map(|x| u8::try_from(x >> 56).unwrap())
}

#[test]
fn compressed_batch_is_read_back_unchanged() {
    let bytes = stored(&example(), CHUNK).unwrap();
    assert_eq!(read(&bytes), Some(example()));
    let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
    assert_eq!((header.first.get(), header.count, header.size()), (FIRST, 9, to_u64(bytes.len())));
    assert_eq!(header.chain_value() >> 32, u64::from(header.body_crc));
}

#[test]
fn records_of_any_size_and_content_are_read_back_unchanged() {
    let mut seeds = noise(77);
    let mut next = move || usize::from(seeds.next().unwrap());
    let rounds = if cfg!(miri) { 3 } else { 300 };
    let (mut compressed, mut raw) = (0, 0);
    for round in 0..rounds {
        let count = [1, 2, 40, 700][next() % 4];
        let mut records: Records = vec![];
        for number in 0..count {
            let size = [0, 1, 7, 8, 90, next(), 4 * next()][next() % 7] * [1, 1, 1, 40][next() % 4];
            let size = if count == 700 { size % 64 } else { size };
            let payload = match next() % 4 {
                0 => noise(u64::try_from(round * 1000 + number).unwrap()).take(size).collect(),
                1 => vec![0; size],
                _ => b"{\"id\":17,\"name\":\"same\"}".iter().copied().cycle().take(size).collect(),
            };
            records.push((payload, number + 1 < count && next() % 5 == 0));
        }
        let chunk_max = [8, 100, 4096, 1 << 16][next() % 4];
        match stored(&records, chunk_max) {
            Some(bytes) => assert!(read(&bytes) == Some(records), "round {round}"),
            None => raw += 1,
        }
        compressed += 1;
    }
    assert!(cfg!(miri) || (raw > 10 && compressed > raw + 10), "{raw} raw of {compressed}");
}

#[test]
fn batch_that_gains_less_than_an_eighth_or_is_small_stays_as_it_is() {
    let noise = vec![(noise(1).take(5000).collect(), false)];
    assert_eq!(stored(&noise, 1 << 16), None);
    let (small, large) = (vec![(vec![1; 1007], false)], vec![(vec![1; 1016], false)]);
    for (records, is_compressed) in [(small, false), (large, true)] {
        let (bytes, spec) = plain(&records);
        let mut encoder = encoder(1 << 10, 64 << 10);
        let found = encoder.encode((&bytes, spec), (AT, &LIFE), &mut vec![]);
        assert_eq!(found.is_some(), is_compressed);
        let found = encoder.encode((&bytes, spec), (AT, &PLAIN_LIFE), &mut vec![]);
        assert!(found.is_none(), "its segment does not allow it");
    }
}

#[test]
fn chunk_that_does_not_shrink_is_stored_as_it_is_among_others() {
    let text = |number: u8| (vec![number; 4000], false);
    let records = vec![text(1), (noise(5).take(900).collect(), false), text(2)];
    let bytes = stored(&records, 1000).unwrap();
    assert_eq!(read(&bytes), Some(records.clone()));
    let at = bytes.windows(900).position(|part| part == records[1].0);
    assert!(at.is_some(), "the second chunk has its frames in plain sight");
}

#[test]
fn record_larger_than_a_chunk_is_a_chunk() {
    let records = vec![(vec![1; 10], false), (vec![2; 200_000], false), (vec![3; 10], false)];
    let bytes = stored(&records, 1 << 16).unwrap();
    assert_eq!(read(&bytes), Some(records));
    assert_eq!(starts_of_chunks(&bytes).len(), 3);
}

/// The offsets at which the chunks of a stored batch begin.
fn starts_of_chunks(stored: &[u8]) -> Vec<usize> {
    let (mut starts, mut at) = (vec![], chunk::prefix::SIZE);
    while let Some((_, end)) = chunk::read(Form::Compressed, &stored[HEADER_SIZE..], at) {
        starts.push(HEADER_SIZE + at);
        at = end;
    }
    starts
}

#[test]
fn every_flipped_bit_of_a_compressed_batch_is_noticed_and_costs_one_chunk_at_most() {
    let (good, records) = (stored(&example(), CHUNK).unwrap(), example());
    let header = BatchHeader::decode(&good, AT, &LIFE).unwrap();
    assert_eq!(starts_of_chunks(&good).len(), 3);
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&bytes), None, "bit {bit}");
        // Without checking the body's checksum: if the body decodes, its payloads are unchanged.
        if let Some(found) = decoded(&header, &bytes[HEADER_SIZE..]) {
            let payloads =
                |records: &Records| -> Vec<_> { records.iter().map(|one| one.0.clone()).collect() };
            assert_eq!(payloads(&found), payloads(&records), "bit {bit}");
        }
        let found = salvaged(&bytes, AT, FIRST + 8);
        assert!(found.len() >= 6, "bit {bit}: {} left", found.len());
        for (lsn, record) in found {
            assert_eq!(record, records[usize::try_from(lsn - FIRST).unwrap()], "bit {bit}");
        }
    }
}

#[test]
fn chunks_are_salvaged_only_where_they_belong() {
    let good = stored(&example(), CHUNK).unwrap();
    assert_eq!(salvaged(&good, AT, FIRST + 8).len(), 9);
    assert_eq!(salvaged(&good, AT.plus(8), FIRST + 8), [], "at another offset");
    assert_eq!(salvaged(&good[8..], AT.plus(8), FIRST + 8).len(), 9, "without the first bytes");
    assert_eq!(salvaged(&good, AT, FIRST + 6).len(), 9, "the caller drops what is too many");
    assert_eq!(salvaged(&good, AT, FIRST + 5).len(), 6, "the last chunk begins later");
    assert_eq!(salvaged(&good[..good.len() - 8], AT, FIRST + 8).len(), 6, "cut off");
    let garbled: Vec<u8> = noise(3).take(80).chain(good[80..].iter().copied()).collect();
    assert_eq!(salvaged(&garbled, AT, FIRST + 8).len(), 6, "without header and prefix");
}

/// Sets a field of the chunk that begins at `start`, and recomputes all checksums.
fn forged(good: &[u8], start: usize, field: Field, number: u64) -> Vec<u8> {
    let mut bytes = good.to_vec();
    put(&mut bytes[start..], field, number);
    let end = start
        + chunk::HEADER_SIZE
        + usize::try_from(crate::fields::get(&good[start..], chunk::STORED)).unwrap();
    LIFE.salt.put_checksum(AT.plus(to_u64(start)), &mut bytes[start..end], chunk::CRC);
    with_checksums(bytes)
}

fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = LIFE.salt.checksum(AT.plus(48), &bytes[HEADER_SIZE..]);
    bytes[24..28].copy_from_slice(&body.to_le_bytes());
    let crc = LIFE.salt.checksum(AT, &bytes[4..HEADER_SIZE]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    assert!(behind(&bytes, chunk::CRC).len() + 4 == bytes.len());
    bytes
}

#[test]
fn every_forged_field_is_refused_despite_its_checksum() {
    let good = stored(&example(), CHUNK).unwrap();
    let starts = starts_of_chunks(&good);
    let now = |start: usize, field: Field| crate::fields::get(&good[start..], field);
    for start in starts {
        for (field, max) in [
            (chunk::STORED, u64::from(u32::MAX)),
            (chunk::PLAIN, u64::from(u32::MAX)),
            (chunk::COUNT, u64::from(u32::MAX)),
            (chunk::FIRST, u64::MAX),
            (chunk::METHOD, 255),
        ] {
            let number = now(start, field);
            let others = [
                0,
                1,
                2,
                8,
                number ^ 8,
                number + 8,
                number.wrapping_sub(8),
                number * 2,
                max,
                max - 7,
            ];
            for other in others.into_iter().filter(|other| *other <= max && *other != number) {
                let bytes = forged(&good, start, field, other);
                assert_eq!(read(&bytes), None, "{} of {start}: {other}", field.name);
                // With another first LSN and a valid checksum, the chunk holds other records.
                if field == chunk::FIRST {
                    continue;
                }
                let shown = salvaged(&bytes, AT, FIRST + 8);
                assert!(shown.iter().all(
                    |(lsn, record)| *record == example()[usize::try_from(lsn - FIRST).unwrap()]
                ));
            }
        }
        for byte in 0..chunk::ZERO.size {
            let bytes = forged(
                &good,
                start,
                Field { at: chunk::ZERO.at + byte, size: 1, ..chunk::ZERO },
                1,
            );
            assert_eq!(read(&bytes), None, "zero {byte} of {start}");
        }
    }
    for (field, numbers) in [
        (chunk::prefix::LENGTH, [0, 7, 16, 1 << 31]),
        (chunk::prefix::PLAIN, [0, 8, 1 << 20, u64::from(u32::MAX)]),
    ] {
        for number in numbers {
            let mut bytes = good.clone();
            put(&mut bytes[HEADER_SIZE..], field, number);
            assert_eq!(read(&with_checksums(bytes)), None, "{}: {number}", field.name);
        }
    }
}

#[test]
fn batch_that_ends_within_a_set_does_not_decode() {
    let mut records = example();
    records[8].1 = true;
    let bytes = stored(&records, CHUNK).unwrap();
    let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
    assert!(header.matches(&bytes[HEADER_SIZE..], AT, &LIFE), "its bytes are as written");
    assert_eq!(read(&bytes), None);
}

/// A small chunk that claims a huge decompressed size.
#[test]
fn bomb_is_refused_before_memory_is_allocated_for_it() {
    let good = stored(&vec![(vec![0; 900_000], false)], 1 << 20).unwrap();
    assert!(good.len() < 8000);
    assert!(read(&good).is_some(), "what fits in a batch is no bomb");
    let start = starts_of_chunks(&good)[0];
    for plain in [(1 << 20) - 40, 1 << 30, u64::from(u32::MAX) - 7] {
        let mut bytes = forged(&good, start, chunk::PLAIN, plain);
        put(&mut bytes[HEADER_SIZE..], chunk::prefix::PLAIN, plain);
        let bytes = with_checksums(bytes);
        assert_eq!(read(&bytes), None);
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        let mut memory = vec![];
        assert!(!decode(&header, &bytes[HEADER_SIZE..], &LIFE, &mut memory));
        assert!(memory.capacity() < 4096, "{plain}: {}", memory.capacity());
        let (first, last) = (lsn(FIRST), lsn(FIRST + 8));
        let mut memory = vec![];
        let found =
            salvage(&bytes, (AT, &Life { batch_max: 256, ..LIFE }), (first, last), &mut memory);
        assert!(found.is_empty() && memory.capacity() < 4096);
    }
}

#[test]
fn frames_of_a_damaged_place_fill_three_largest_batches_at_most() {
    let good = stored(&example(), CHUNK).unwrap();
    let mut memory = vec![];
    let life = Life { batch_max: 256, ..LIFE };
    let found = salvage(&good, (AT, &life), (lsn(FIRST), lsn(FIRST + 8)), &mut memory);
    assert_eq!((found.len(), memory.len() <= 3 * 256), (2, true));
}

#[test]
fn hostile_place_is_abandoned_quickly() {
    // Every 32 bytes, a chunk header claims all bytes up to the end of the place.
    let mut place = vec![];
    let size = (1 << 20) / crate::fields::sizes::EVERY / 32 * 32;
    while place.len() < size {
        let left = size - place.len();
        let stored = left.saturating_sub(32);
        let fields = chunk::Fields {
            stored: 0,
            plain: stored + 8,
            count: 1,
            first: lsn(FIRST),
            method: METHOD,
            form: Form::Compressed,
        };
        chunk::push(&mut place, &fields, &[], (Offset(1), &LIFE.salt));
        let start = place.len() - 32;
        put(&mut place[start..], chunk::STORED, to_u64(stored));
    }
    assert_eq!(salvaged(&place, AT, u64::MAX - 2), []);
    assert_eq!(salvaged(&vec![0; size], AT, u64::MAX - 2), []);
}

#[test]
fn flags_are_accepted_only_together_and_where_they_may_be() {
    let good = stored(&example(), CHUNK).unwrap();
    let with = |flags: u64, life: &Life| {
        let mut bytes = good.clone();
        let length =
            crate::fields::get(&good, Field { at: 4, size: 4, name: "" }) & ((1 << 27) - 1);
        put(&mut bytes, Field { at: 4, size: 4, name: "" }, length | flags << 27);
        let bytes = with_checksums(bytes);
        let refused = BatchHeader::refused(&bytes, AT, life).map(|refused| refused.to_string());
        (BatchHeader::decode(&bytes, AT, life).map(|header| header.kind), refused)
    };
    for flags in 0..32 {
        for (life, encoded) in [(LIFE, Some(BodyKind::Encoded)), (PLAIN_LIFE, None)] {
            let (kind, refused) = with(flags, &life);
            let expected = match flags {
                0 => Some(BodyKind::Frames),
                1 => Some(BodyKind::Void),
                0b10010 => encoded,
                _ => None,
            };
            assert_eq!(kind, expected, "{flags:#b}");
            assert_eq!(refused.is_some(), expected.is_none(), "{flags:#b}");
        }
    }
    let named = Some("batch flags prefix, compressed, unknown to this program".to_owned());
    assert_eq!(with(0b10010, &PLAIN_LIFE).1, named);
}

#[test]
fn body_is_verified_alike_in_pieces_of_any_size() {
    let good = stored(&example(), CHUNK).unwrap();
    let header = BatchHeader::decode(&good, AT, &LIFE).unwrap();
    let body = &good[HEADER_SIZE..];
    for zeros in [0, 8, 504, 512] {
        let padded = [body, &vec![0; zeros]].concat();
        for step in [1, 8, 31, 333, padded.len()] {
            let mut listed = chunk::Listed::new(Form::Compressed);
            for seen in (0..padded.len()).step_by(step).chain([padded.len()]) {
                listed.go_on(&padded[..seen], padded.len(), (header.first, header.count));
            }
            assert_eq!(
                listed.is_all(&padded, LIFE.batch_max, LIFE.block),
                zeros < 512,
                "{zeros} zeros, step {step}"
            );
        }
    }
}

#[test]
fn chunk_of_a_method_that_the_segment_does_not_allow_is_damage() {
    let good = stored(&example(), CHUNK).unwrap();
    let header = BatchHeader::decode(&good, AT, &LIFE).unwrap();
    let below = if METHOD == Compression::Zstd { Compression::Lz4 } else { Compression::None };
    let life = Life { compression_max: below, ..LIFE };
    assert!(!decode(&header, &good[HEADER_SIZE..], &life, &mut vec![]));
    let records = (lsn(FIRST), lsn(FIRST + 8));
    assert_eq!(salvage(&good, (AT, &life), records, &mut vec![]), []);
}
