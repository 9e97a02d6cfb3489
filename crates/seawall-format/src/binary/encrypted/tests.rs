//! Encrypted batches are read back unchanged, refused if changed, moved or spliced, and salvaged
//! by chunk.

use super::*;
use crate::binary::batch::finish;
use crate::checksum::Salt;
use crate::encryption::LogKey;
use crate::encryption::Padding;
use crate::encryption::tests::encoded_from_text;
use crate::fields::{Field, behind};
use crate::ids::{Epoch, LogId, SegmentId, SegmentRef};
use crate::refused::Refused;

const LIFE: Life = Life {
    salt: Salt::new(LogId(3), Epoch(9)),
    epoch: Epoch(9),
    batch_max: 1 << 20,
    block: 512,
    in_flight_max: 1,
    compression_max: Compression::Zstd,
    is_encrypted: true,
};
/// The compression method of these tests.
#[cfg(feature = "lz4")]
const METHOD: Compression =
    if cfg!(feature = "zstd") { Compression::Zstd } else { Compression::Lz4 };
const AT: Offset = Offset(6144 + 200);
const FIRST_LSN: u64 = 7;
const CHUNK: usize = 300;
const SEGMENT: SegmentRef = SegmentRef { id: SegmentId::new(7).unwrap(), epoch: Epoch(9) };

type Records = Vec<(Vec<u8>, bool)>;

/// The result of reading a batch with the key.
#[derive(Clone, Debug, PartialEq)]
enum Read {
    /// Checksums or fields are wrong.
    Invalid,
    Undecodable,
    Forged,
    Is(Records),
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

fn keys_of(key: u8, log: u64, segment: SegmentRef) -> SegmentKeys {
    SegmentKeys::derive(&LogKey::new(&[key; 32]), LogId(log), segment)
}

fn keys() -> SegmentKeys {
    keys_of(1, 3, SEGMENT)
}

/// An encryptor whose nonces all differ, but are the same in each run of the test.
fn encryptor(padding: Padding) -> Encryptor {
    seeded(padding, 1)
}

fn seeded(padding: Padding, seed: u64) -> Encryptor {
    let mut number = seed << 32;
    let draw = move || {
        number += 1;
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        Ok(nonce)
    };
    Encryptor::new(keys(), EncryptedSizes { chunk_max: CHUNK, padding }, draw)
}

/// Encodes records (payload, and whether the set continues) as frames after space for a header.
fn plain(records: &Records) -> (Vec<u8>, Spec) {
    let mut bytes = vec![0; HEADER_SIZE];
    for (payload, goes_on) in records {
        frame::push_unbound(&mut bytes, payload, *goes_on);
    }
    let (count, kind) = (u32::try_from(records.len()).unwrap(), BodyKind::Frames);
    let (first, confirmed) = (lsn(FIRST_LSN), Lsn::new(5));
    (bytes, Spec { first, count, kind, confirmed, chain: 7, time_us: 1 })
}

fn stored_by(encryptor: &Encryptor, records: &Records, spec: Option<Spec>) -> Vec<u8> {
    let (bytes, own) = plain(records);
    let mut stored = vec![9; 100];
    let spec = (&bytes[..], spec.unwrap_or(own));
    let spec = encryptor.encode(spec, (AT, &LIFE), &mut stored).unwrap();
    finish(&mut stored, spec, AT, &LIFE);
    stored
}

fn stored(records: &Records) -> Vec<u8> {
    stored_by(&encryptor(Padding::Off), records, None)
}

fn read(stored: &[u8]) -> Read {
    read_at(stored, AT, &keys())
}

fn read_at(stored: &[u8], at: Offset, keys: &SegmentKeys) -> Read {
    let Some(header) = BatchHeader::decode(stored, at, &LIFE) else { return Read::Invalid };
    let end = usize::try_from(header.size()).unwrap();
    let body = stored.get(HEADER_SIZE..end).filter(|body| header.matches(body, at, &LIFE));
    let Some(body) = body else { return Read::Invalid };
    let mut memory = vec![7; 300];
    match keys.open((&header, body), (at, &LIFE), &mut memory) {
        Err(KeyError::Forged) => Read::Forged,
        Err(error) => panic!("{error}"),
        Ok(false) => Read::Undecodable,
        Ok(true) => {
            let count = header.records_in_chunks();
            let frames = frame::Frames::new(&memory[HEADER_SIZE..], header.first, count);
            Read::Is(frames.map(|frame| (frame.payload.to_vec(), frame.goes_on)).collect())
        }
    }
}

/// Compressible records in three chunks of about 300 bytes; records 4 and 5 form an atomic set.
fn example() -> Records {
    let record = |number: u8| {
        ([b"a record with the number ".as_slice(), &[number; 60]].concat(), number == 4)
    };
    (0..9).map(record).collect()
}

/// The byte ranges of the chunks of a stored batch.
fn chunks_of(stored: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut all, mut at) = (vec![], encrypted_prefix::SIZE);
    while let Some((_, end)) = chunk::read(Form::Encrypted, &stored[HEADER_SIZE..], at) {
        all.push(HEADER_SIZE + at..HEADER_SIZE + end);
        at = end;
    }
    all
}

/// Recomputes every checksum of the batch, so that only a key can detect a change.
fn with_checksums(mut bytes: Vec<u8>, at: Offset) -> Vec<u8> {
    for range in chunks_of(&bytes) {
        let size = usize::try_from(get(&bytes[range.start..], encrypted::STORED)).unwrap();
        let end = range.start + encrypted::HEADER_SIZE + size;
        let place = at.plus(to_u64(range.start));
        LIFE.salt.put_checksum(place, &mut bytes[range.start..end], encrypted::CRC);
    }
    let body = LIFE.salt.checksum(at.plus(48), &bytes[HEADER_SIZE..]);
    put(&mut bytes, BODY_CRC, body.into());
    let header = &bytes[..HEADER_SIZE];
    let crc = LIFE.salt.checksum(at, behind(header, encrypted::CRC));
    put(&mut bytes, encrypted::CRC, crc.into());
    bytes
}

#[test]
fn encrypted_batch_is_read_back_unchanged() {
    let bytes = stored(&example());
    assert_eq!(chunks_of(&bytes).len(), 3);
    assert_eq!(read(&bytes), Read::Is(example()));
    let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
    assert_eq!((header.first.get(), header.count, header.confirmed()), (7, 9, Lsn::new(5)));
    assert_eq!(with_checksums(bytes.clone(), AT), bytes);
}

#[test]
fn batch_is_the_one_that_another_program_encodes_from_format_md() {
    let mut nonces = [[0xA1; 12], [0xA0; 12]].to_vec();
    let draw = move || nonces.pop().ok_or_else(|| io::Error::other("too many"));
    let sizes = EncryptedSizes { chunk_max: 40, padding: Padding::Off };
    let encryptor = Encryptor::new(keys(), sizes, draw);
    let records = [(b"first record".to_vec(), true), (vec![], false), (vec![b'x'; 40], false)];
    let (_, spec) = plain(&records.to_vec());
    let spec = Spec { chain: 77, time_us: 1234, ..spec };
    let bytes = stored_by(&encryptor, &records.to_vec(), Some(spec));
    assert_eq!(bytes, encoded_from_text("batch"));
    assert_eq!(read(&bytes), Read::Is(records.to_vec()));
}

#[test]
fn records_of_any_size_are_read_back_unchanged_and_no_larger_than_said() {
    let sizes = [0, 1, 7, 8, 90, 255, 256, 1000, 5000];
    let paddings = [Padding::Off, Padding::Padme, Padding::multiple_of(512).unwrap()];
    for (seed, count) in [1, 2, 3, 40, 200].into_iter().enumerate() {
        let record = |number: usize| {
            let size = sizes[(number * 7 + seed) % sizes.len()];
            (vec![u8::try_from(number % 251).unwrap(); size], number % 5 == 1 && number + 1 < count)
        };
        let records: Records = (0..count).map(record).collect();
        for padding in paddings {
            for is_compressing in [false, true] {
                let mut encryptor = encryptor(padding);
                if is_compressing {
                    #[cfg(feature = "lz4")]
                    (encryptor = encryptor.with_compression(METHOD));
                }
                let bytes = stored_by(&encryptor, &records, None);
                assert_eq!(read(&bytes), Read::Is(records.clone()), "{count} {padding:?}");
                let (plain, Spec { count: all, .. }) = plain(&records);
                let known = encryptor.size(&plain, all, &LIFE);
                let compresses = is_compressing && cfg!(feature = "lz4");
                let expected = (!compresses).then_some(bytes.len());
                assert_eq!(known, expected, "{count} {padding:?}");
                let frames = plain.len() - HEADER_SIZE;
                let sizes = EncryptedSizes { chunk_max: CHUNK, padding };
                let size_max = sizes.padded_max(frames, 1 << 20);
                assert!(bytes.len() <= size_max, "{count}: {} of {size_max}", bytes.len());
            }
        }
    }
}

#[cfg(feature = "lz4")]
#[test]
fn compressed_batch_is_smaller_and_does_not_say_so() {
    let records = vec![(vec![1; 5000], false)];
    let large = stored(&records);
    let small = stored_by(&encryptor(Padding::Off).with_compression(METHOD), &records, None);
    assert!(small.len() < 300 && large.len() > 5000);
    assert_eq!(read(&small), Read::Is(records.clone()));
    let flags = |bytes: &[u8]| get(bytes, Field { at: 4, size: 4, name: "" }) >> 27;
    assert_eq!((flags(&small), flags(&large)), (0b1010, 0b1010));
    let hidden = Padding::multiple_of(8192).unwrap();
    let padded = stored_by(&encryptor(hidden).with_compression(METHOD), &records, None);
    assert_eq!(padded.len(), stored_by(&encryptor(hidden), &records, None).len());
    // In a segment without compression, a compressed chunk is refused and none is written.
    let header = BatchHeader::decode(&small, AT, &LIFE).unwrap();
    let life = Life { compression_max: Compression::None, ..LIFE };
    let body = &small[HEADER_SIZE..];
    assert_eq!(keys().open((&header, body), (AT, &life), &mut vec![]), Ok(false));
    let encryptor = encryptor(Padding::Off).with_compression(METHOD);
    let mut stored = vec![];
    let (bytes, spec) = plain(&records);
    encryptor.encode((&bytes, spec), (AT, &life), &mut stored).unwrap();
    assert_eq!(stored.len(), large.len());
}

#[test]
fn padded_batch_has_a_size_of_its_class() {
    for size in [1, 100, 280, 1000, 3000] {
        let records = vec![(vec![1; size], false)];
        let sized = |padding| stored_by(&encryptor(padding), &records, None).len();
        assert_eq!(sized(Padding::multiple_of(4096).unwrap()), 4096);
        let padme = sized(Padding::Padme);
        assert_eq!(Padding::Padme.padded(padme), padme, "{size}: {padme}");
        assert!(padme >= sized(Padding::Off));
    }
    // Padding never exceeds the largest batch: the first chunk leaves room for the others.
    let records: Records = vec![(vec![1; 200], false); 10];
    let life = Life { batch_max: 4096, ..LIFE };
    let (bytes, spec) = plain(&records);
    let encryptor = encryptor(Padding::multiple_of(4096).unwrap());
    let mut stored = vec![];
    let spec = encryptor.encode((&bytes, spec), (AT, &life), &mut stored).unwrap();
    assert!(stored.len() <= 4096);
    finish(&mut stored, spec, AT, &life);
    assert_eq!(read(&stored), Read::Is(records));
}

#[test]
fn nothing_of_a_record_is_in_plain_sight() {
    let bytes = stored(&example());
    assert!(!bytes.windows(8).any(|part| part == [3; 8] || part == b"a record"));
    assert!(!bytes.windows(8).any(|part| part == 85_u64.to_le_bytes()), "nor its length");
}

#[test]
fn every_flipped_bit_is_refused_with_and_without_checksums() {
    let good = stored(&example());
    let is_in = |bit: usize, from: usize, size: usize| (from * 8..(from + size) * 8).contains(&bit);
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&bytes), Read::Invalid, "bit {bit}");
        let bytes = with_checksums(bytes, AT);
        let is_checksum = bytes == good;
        let found = read(&bytes);
        match found {
            Read::Is(_) => assert!(is_checksum, "bit {bit}"),
            // Without the key, only changed lengths, numbers, flags and zeros are detected.
            Read::Invalid => {
                let in_header = is_in(bit, 4, 24) || is_in(bit, 28, 4);
                let in_prefix = is_in(bit, 48, 8);
                let chunks = chunks_of(&good);
                let in_chunk = |range: &std::ops::Range<usize>| {
                    is_in(bit, range.start + 4, 20) || is_in(bit, range.start + 36, 4)
                };
                assert!(in_header || in_prefix || chunks.iter().any(in_chunk), "bit {bit}");
            }
            Read::Forged => assert!(!is_checksum),
            Read::Undecodable => panic!("bit {bit}: what the tag covers was changed"),
        }
        // The key detects changed ciphertext, nonces, tags, code and numbers that the code covers.
        let start = chunks_of(&good)[1].start;
        for (from, size) in [(56, 16), (32, 16), (start + 24, 12), (start + 40, 60)] {
            assert!(!is_in(bit, from, size) || found == Read::Forged, "bit {bit}: {found:?}");
        }
    }
}

/// The tag of a chunk alone covers each of these fields: the batch's code is not checked here.
#[test]
fn chunk_is_bound_to_every_field_of_its_place() {
    let good = stored(&example());
    let range = chunks_of(&good)[1].clone();
    let (chunk, _) = chunk::read(Form::Encrypted, &good, range.start).unwrap();
    let parts = Encrypted::of(&chunk).unwrap();
    let at = AT.plus(to_u64(range.start));
    let opens = |place: &[u8; 24], at: Offset, public: &[u8]| {
        let mut content = parts.bytes.to_vec();
        keys().chunk.open(parts.nonce, &bound(place, at, public), (&mut content, parts.tag))
    };
    let place = keys().place;
    assert!(opens(&place, at, parts.public));
    for bit in 0..24 * 8 {
        let mut other = place;
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!opens(&other, at, parts.public), "log id, segment id, epoch: bit {bit}");
    }
    for bit in 0..64 {
        assert!(!opens(&place, Offset(at.0 ^ 1 << bit), parts.public), "offset: bit {bit}");
    }
    assert_eq!(parts.public.len(), PUBLIC_SIZE);
    for bit in 0..PUBLIC_SIZE * 8 {
        let mut other = parts.public.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!opens(&place, at, &other), "bytes 4 to 24: bit {bit}");
    }
}

/// An attacker who could compute a valid code for the new offset still fails: the chunk tags are
/// bound to the old one.
#[test]
fn moved_batch_is_forged_even_if_its_code_agrees() {
    let good = stored(&example());
    let moved = AT.plus(512);
    assert_eq!(read_at(&good, moved, &keys()), Read::Invalid);
    let bytes = with_checksums(good, moved);
    assert_eq!(read_at(&bytes, moved, &keys()), Read::Forged);
    assert_eq!(read_at(&with_code(bytes, moved), moved, &keys()), Read::Forged, "by its tags");
}

/// Replaces the code by the one that a holder of the key would compute, and fixes the checksums.
fn with_code(mut bytes: Vec<u8>, at: Offset) -> Vec<u8> {
    let header = BatchHeader::decode(&bytes, at, &LIFE).unwrap();
    let tags: Vec<Tag> = chunks_of(&bytes)
        .iter()
        .map(|range| chunk::read(Form::Encrypted, &bytes, range.start).unwrap().0)
        .map(|chunk| *Encrypted::of(&chunk).unwrap().tag)
        .collect();
    let numbers = numbers_in(&header);
    let code = keys().batch.code(covered(&at.0.to_le_bytes(), &numbers, &tags));
    slice_mut(&mut bytes[HEADER_SIZE..], encrypted_prefix::CODE).copy_from_slice(&code);
    with_checksums(bytes, at)
}

#[test]
fn batch_of_another_log_segment_epoch_or_key_is_forged() {
    let good = stored(&example());
    let next = SegmentRef { id: SegmentId::new(8).unwrap(), ..SEGMENT };
    let life = SegmentRef { epoch: Epoch(8), ..SEGMENT };
    let others = [keys_of(2, 3, SEGMENT), keys_of(1, 4, SEGMENT), keys_of(1, 3, next)];
    for keys in others.iter().chain([&keys_of(1, 3, life)]) {
        assert_eq!(read_at(&good, AT, keys), Read::Forged);
    }
}

/// A copy of the log was opened and continued: it has the same keys, and another batch at the same
/// offset.
#[test]
fn chunk_of_a_copy_of_the_log_is_forged_in_this_one() {
    let mut other = example();
    other[4].0 = other[4].0.iter().map(|byte| byte ^ 1).collect();
    let (own, copy) = (stored(&example()), stored_by(&seeded(Padding::Off, 2), &other, None));
    assert_eq!((read(&own), read(&copy)), (Read::Is(example()), Read::Is(other)));
    let middle = chunks_of(&own)[1].clone();
    assert_eq!(middle, chunks_of(&copy)[1]);
    let mut spliced = own.clone();
    spliced[middle.clone()].copy_from_slice(&copy[middle]);
    assert_eq!(read(&with_checksums(spliced, AT)), Read::Forged);
    // The code of the copy's batch does not match the header of this log's batch either.
    let (_, spec) = plain(&example());
    let later = Spec { time_us: 2, ..spec };
    let copy = stored_by(&encryptor(Padding::Off), &example(), Some(later));
    let mut spliced = copy.clone();
    spliced[..HEADER_SIZE].copy_from_slice(&own[..HEADER_SIZE]);
    assert_eq!(read(&with_checksums(spliced, AT)), Read::Forged);
}

#[test]
fn every_number_of_a_batch_is_covered_by_its_code() {
    let good = stored(&example());
    for (field, other) in [
        (FIRST, 8),
        (crate::binary::batch::BEHIND, 2),
        (CHAIN, 8),
        (crate::binary::batch::TIME, 2),
        (crate::binary::batch::COUNT, 8),
    ] {
        let mut bytes = good.clone();
        put(&mut bytes, field, other);
        let header = with_checksums(bytes, AT);
        let header = BatchHeader::decode(&header, AT, &LIFE).unwrap();
        let numbers = numbers_in(&header);
        let own = BatchHeader::decode(&good, AT, &LIFE).unwrap();
        assert_ne!(numbers, numbers_in(&own), "{}", field.name);
        let code = slice(&good[HEADER_SIZE..], encrypted_prefix::CODE).try_into().unwrap();
        let tags: Vec<Tag> = chunks(&own, &good[HEADER_SIZE..], &LIFE)
            .unwrap()
            .0
            .iter()
            .map(|(_, chunk)| *Encrypted::of(chunk).unwrap().tag)
            .collect();
        let matches = |numbers: &[u8; 32], tags: &[Tag], at: Offset| {
            keys().batch.matches(covered(&at.0.to_le_bytes(), numbers, tags), &code)
        };
        assert!(matches(&numbers_in(&own), &tags, AT));
        assert!(!matches(&numbers, &tags, AT), "{}", field.name);
        assert!(!matches(&numbers_in(&own), &tags, AT.plus(8)), "its offset");
        assert!(!matches(&numbers_in(&own), &tags[..2], AT), "a chunk that is missing");
        let swapped = [tags[1], tags[0], tags[2]];
        assert!(!matches(&numbers_in(&own), &swapped, AT), "the order of chunks");
    }
}

#[test]
fn records_that_were_given_up_are_proved_to_be() {
    let (_, spec) = plain(&vec![]);
    let spec = Spec { kind: BodyKind::Void, count: 90, ..spec };
    let bytes = stored_by(&encryptor(Padding::Padme), &vec![], Some(spec));
    assert_eq!(bytes.len(), HEADER_SIZE + encrypted_prefix::SIZE);
    let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
    assert_eq!((header.is_void(), header.last()), (true, lsn(96)));
    assert_eq!(read(&bytes), Read::Is(vec![]));
    for bit in 56 * 8..72 * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&with_checksums(bytes, AT)), Read::Forged, "bit {bit}");
    }
    // A batch with records cannot be turned into a void batch.
    let mut void = stored(&example());
    void.truncate(HEADER_SIZE + encrypted_prefix::SIZE);
    put(&mut void, Field { at: 4, size: 4, name: "" }, 0x18 | 0b1011 << 27);
    assert_eq!(read(&with_checksums(void, AT)), Read::Forged);
}

#[test]
fn batch_without_encryption_is_refused_in_an_encrypted_segment() {
    let judged = |flags: u64, life: &Life| {
        let mut bytes = stored(&example());
        let length = get(&bytes, Field { at: 4, size: 4, name: "" }) & ((1 << 27) - 1);
        put(&mut bytes, Field { at: 4, size: 4, name: "" }, length | flags << 27);
        let bytes = with_checksums(bytes, AT);
        let kind = BatchHeader::decode(&bytes, AT, life).map(|header| header.kind);
        (kind, BatchHeader::refused(&bytes, AT, life))
    };
    let plain_life = Life { is_encrypted: false, ..LIFE };
    let unknown = |what: &str| Some(Refused::Unknown { what: format!("batch flags {what}") });
    for flags in 0..32 {
        let (kind, refused) = judged(flags, &LIFE);
        let expected = match flags {
            0b1010 => Some(BodyKind::Encrypted),
            0b1011 => Some(BodyKind::EncryptedVoid),
            _ => None,
        };
        assert_eq!(kind, expected, "{flags:#b}");
        match flags {
            0b1010 | 0b1011 => assert_eq!(refused, None),
            _ if flags & 0b1010 != 0b1010 => assert_eq!(refused, Some(Refused::NotEncrypted)),
            _ => assert!(matches!(refused, Some(Refused::Unknown { .. })), "{flags:#b}"),
        }
    }
    assert_eq!(judged(0b1010, &plain_life), (None, unknown("prefix, encrypted")));
    assert_eq!(judged(0b11010, &LIFE), (None, unknown("prefix, encrypted, compressed")));
}

/// A batch whose only chunk has this content, as a faulty writer with the key would write it.
fn with_content(head: [u64; 3], zeros: [u8; 3], rest: &[u8]) -> Vec<u8> {
    let encryptor = encryptor(Padding::Off);
    let (_, spec) = plain(&vec![(vec![1; 9], false)]);
    let mut stored = vec![0; HEADER_SIZE + encrypted_prefix::SIZE + encrypted::HEADER_SIZE];
    let mut content = [0; content::HEADER_SIZE];
    for (field, number) in [content::PLAIN, content::USED, content::METHOD].into_iter().zip(head) {
        put(&mut content, field, number);
    }
    slice_mut(&mut content, content::ZERO).copy_from_slice(&zeros);
    stored.extend_from_slice(&content);
    stored.extend_from_slice(rest);
    stored.resize((stored.len() + TAG_SIZE).next_multiple_of(8) - TAG_SIZE, 0);
    let start = HEADER_SIZE + encrypted_prefix::SIZE;
    let at = AT.plus(to_u64(start));
    encryptor.seal((spec.first, 1), at, (start, &mut stored)).unwrap();
    put(&mut stored[HEADER_SIZE..], encrypted_prefix::LENGTH, to_u64(encrypted_prefix::SIZE));
    let spec = Spec { kind: BodyKind::Encrypted, ..spec };
    finish(&mut stored, spec, AT, &LIFE);
    with_code(with_checksums(stored, AT), AT)
}

#[test]
fn content_that_cannot_be_is_undecodable_and_bounded_before_allocation() {
    let (frames, _) = plain(&vec![(vec![1; 9], false)]);
    let frames = &frames[HEADER_SIZE..];
    let is = Read::Is(vec![(vec![1; 9], false)]);
    let with = |head, rest: &[u8]| read(&with_content(head, [0; 3], rest));
    assert_eq!((frames.len(), with([24, 24, 0], frames)), (24, is.clone()));
    assert_eq!(with([24, 24, 0], &[frames, &[0; 50]].concat()), is, "with padding");
    for (head, rest) in [
        ([24, 24, 0], [frames, &[0; 9], &[1]].concat()),
        ([24, 23, 0], frames.to_vec()),
        ([24, 25, 0], frames.to_vec()),
        ([16, 16, 0], frames.to_vec()),
        ([32, 32, 0], [frames, &[0; 8]].concat()),
        ([24, 24, 1], frames.to_vec()),
        ([24, 24, 2], frames.to_vec()),
        ([(1 << 20) - 40, 24, 1], frames.to_vec()),
        ([u64::from(u32::MAX) - 7, 24, 1], frames.to_vec()),
        ([24, u64::from(u32::MAX), 0], frames.to_vec()),
        ([0, 0, 0], vec![0; 24]),
    ] {
        let bytes = with_content(head, [0; 3], &rest);
        assert_eq!(read(&bytes), Read::Undecodable, "{head:?}");
        let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
        let mut memory = vec![];
        let _ = keys().open((&header, &bytes[HEADER_SIZE..]), (AT, &LIFE), &mut memory);
        assert!(memory.capacity() < 4096, "{head:?}: {}", memory.capacity());
    }
    for byte in 0..3 {
        let mut zeros = [0; 3];
        zeros[byte] = 1;
        assert_eq!(read(&with_content([24, 24, 0], zeros, frames)), Read::Undecodable);
    }
}

#[test]
fn batch_that_ends_within_a_set_does_not_decode() {
    let mut records = example();
    records[8].1 = true;
    assert_eq!(read(&stored(&records)), Read::Undecodable);
}

/// Salvages the records of intact chunks: LSN and payload.
fn salvaged(place: &[u8], offset: Offset, last: u64) -> Result<Vec<(u64, Vec<u8>)>, KeyError> {
    let mut memory = vec![];
    let records = (lsn(FIRST_LSN), lsn(last));
    let found = keys().salvage(place, (offset, &LIFE), (records, &mut memory))?;
    let frames = found.into_iter().flat_map(|chunk| {
        let frames = frame::Frames::new(&memory[chunk.frames.clone()], chunk.first, chunk.count);
        frames.map(|frame| (frame.lsn.get(), frame.payload.to_vec())).collect::<Vec<_>>()
    });
    Ok(frames.collect())
}

#[test]
fn damage_costs_one_chunk_and_what_is_forged_is_no_damage() {
    let (good, records) = (stored(&example()), example());
    assert_eq!(salvaged(&good, AT, FIRST_LSN + 8).unwrap().len(), 9);
    assert_eq!(salvaged(&good, AT.plus(8), FIRST_LSN + 8), Ok(vec![]), "at another offset");
    assert_eq!(salvaged(&good[8..], AT.plus(8), FIRST_LSN + 8).unwrap().len(), 9);
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = salvaged(&bytes, AT, FIRST_LSN + 8).unwrap();
        assert!(found.len() >= 6, "bit {bit}: {} left", found.len());
        for (lsn, payload) in found {
            assert_eq!(payload, records[usize::try_from(lsn - FIRST_LSN).unwrap()].0, "bit {bit}");
        }
    }
    let mut bytes = good.clone();
    let chunk = chunks_of(&good)[1].start;
    bytes[chunk + encrypted::HEADER_SIZE] ^= 1;
    let bytes = with_checksums(bytes, AT);
    assert_eq!(salvaged(&bytes, AT, FIRST_LSN + 8), Err(KeyError::Forged));
}

#[test]
fn frames_of_a_damaged_place_fill_three_largest_batches_at_most() {
    let good = stored(&example());
    let mut memory = vec![];
    let life = Life { batch_max: 256, ..LIFE };
    let records = (lsn(FIRST_LSN), lsn(FIRST_LSN + 8));
    let found = keys().salvage(&good, (AT, &life), (records, &mut memory)).unwrap();
    assert_eq!((found.len(), memory.len() <= 3 * 256), (2, true));
}

#[test]
fn without_random_bits_nothing_is_encrypted_and_nothing_left_in_memory() {
    let mut left = 2;
    let draw = move || {
        left -= 1;
        if left < 0 { Err(io::Error::other("no entropy")) } else { Ok([7; 12]) }
    };
    let encryptor =
        Encryptor::new(keys(), EncryptedSizes { chunk_max: CHUNK, padding: Padding::Off }, draw);
    let (bytes, spec) = plain(&example());
    let mut stored = vec![];
    let found = encryptor.encode((&bytes, spec), (AT, &LIFE), &mut stored);
    assert_eq!(found.unwrap_err().to_string(), "no entropy");
    assert!(stored.is_empty());
}

#[test]
fn each_chunk_has_its_own_nonce() {
    let bytes = stored(&example());
    let mut seen = std::collections::BTreeSet::new();
    let encryptor = encryptor(Padding::Off);
    for _ in 0..50 {
        let bytes = stored_by(&encryptor, &example(), None);
        for range in chunks_of(&bytes) {
            assert!(seen.insert(slice(&bytes[range.start..], encrypted::NONCE).to_vec()));
        }
    }
    assert_eq!(seen.len(), 150);
    assert_ne!(bytes, stored_by(&seeded(Padding::Off, 2), &example(), None));
}

#[test]
fn body_is_verified_alike_in_pieces_of_any_size() {
    let good = stored(&example());
    let header = BatchHeader::decode(&good, AT, &LIFE).unwrap();
    let body = &good[HEADER_SIZE..];
    for zeros in [0, 8, 504, 512] {
        let padded = [body, &vec![0; zeros]].concat();
        for step in [1, 8, 31, 333, padded.len()] {
            let mut listed = chunk::Listed::new(Form::Encrypted);
            for seen in (0..padded.len()).step_by(step).chain([padded.len()]) {
                listed.go_on(&padded[..seen], padded.len(), (header.first, header.count));
            }
            let is_all = listed.is_all(&padded, LIFE.batch_max, LIFE.block);
            assert_eq!(is_all, zeros < 512, "{zeros} zeros, step {step}");
        }
    }
}
