//! Logs with compressed batches, encoded by the tests themselves. Every reader shows their records,
//! damage costs one chunk, and a chunk that does not decode is never taken for the end.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common::sample::Sample;
use crate::common::{GEOMETRY, METHOD, Random, again, judge, lsn, names, open, read, read_from};
use seawall::damage::{Corruption, Lost};
use seawall::format::{CodecId, SegmentId};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, LogReader, Lsn, Maintenance, OpenMode, Raw};
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::encoded::{EncodeSizes, Encoder};
use seawall_format::{
    Closed, Epoch, LogId, Manifest, Mark, Offset, RecordType, SegmentHeader, frame,
};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

const ONE: &str = "000000000001.seg";

/// Bytes of frames in a chunk.
const CHUNK: usize = 300;

fn header() -> SegmentHeader {
    SegmentHeader {
        geometry: GEOMETRY,
        log: LogId(77),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(0x0123_4567_89AB_CDEF),
        base: Lsn::FIRST,
        carried: None,
        size: 16 * 512,
        pred: None,
        pred_chain: 0,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: METHOD,
        record_type: RecordType::of(CodecId::Raw),
        time_us: 1,
    }
}

/// A compressible record whose size depends on its number.
fn record(number: u64) -> Vec<u8> {
    let words = ["deposit", "withdraw", "transfer", "a note of some length"];
    let size = 40 + usize::try_from(number * 37 % 71).unwrap();
    let mut bytes = format!("record {number:04}: ").into_bytes();
    let mut random = Random::new(number);
    while bytes.len() < size {
        bytes.extend(words[usize::try_from(random.below(4)).unwrap()].as_bytes());
    }
    bytes
}

/// An in-memory log and its records.
struct Made {
    device: MemStorage,
    records: Vec<Vec<u8>>,
    /// Where each batch begins and ends.
    batches: Vec<(usize, usize)>,
}

/// Writes a log with batches of `counts` records, all compressed except batch `plain`. The first
/// `known` batches are confirmed. Every third record of a batch shares an atomic set with the next.
fn make(counts: &[u32], plain: Option<usize>, known: usize) -> Made {
    let header = header();
    let life = Life::of(&header);
    let mut file = vec![0; usize::try_from(header.size).unwrap()];
    let (mut records, mut batches) = (vec![], vec![]);
    let (mut at, mut chain) = (Offset(header.data_start()), header.chain());
    let mut closed = None;
    for (number, count) in counts.iter().enumerate() {
        let first = lsn(u64::try_from(records.len()).unwrap() + 1);
        let mut bytes = vec![0; HEADER_SIZE];
        for index in 0..*count {
            let payload = record(first.get() + u64::from(index));
            frame::push_unbound(&mut bytes, &payload, index % 3 == 2 && index + 1 < *count);
            records.push(payload);
        }
        let (kind, confirmed) = (BodyKind::Frames, first.previous());
        let spec = Spec { first, count: *count, kind, confirmed, chain, time_us: 9 };
        let mut stored = vec![];
        let sizes = EncodeSizes { frames_min: 0, chunk_max: CHUNK };
        let mut encoder = Encoder::of(METHOD, sizes).unwrap();
        let made = encoder.encode((&bytes, spec), (at, &life), &mut stored);
        let spec = match made.filter(|_| plain != Some(number)) {
            Some(spec) => {
                bytes = stored;
                spec
            }
            None => spec,
        };
        let is_large = *count > 4 && plain != Some(number);
        assert!(!is_large || spec.kind == BodyKind::Encoded, "it compresses");
        chain = finish(&mut bytes, spec, at, &life);
        let start = usize::try_from(at.0).unwrap();
        file[start..start + bytes.len()].copy_from_slice(&bytes);
        batches.push((start, start + bytes.len()));
        at = at.plus(u64::try_from(bytes.len()).unwrap());
        if number < known {
            closed = Lsn::new(u64::try_from(records.len()).unwrap());
        }
    }
    file[..192].copy_from_slice(&header.encode());
    let mark = Mark { confirmed: closed, sequence: 1, time_us: 9 };
    let place = usize::try_from(mark.slot().offset(GEOMETRY).0).unwrap();
    file[place..place + 40].copy_from_slice(&mark.encode(&header));
    let device = MemStorage::new();
    put(&device, ONE, &file);
    put(&device, "manifest", &manifest(&header, closed));
    device.sync_dir().unwrap();
    Made { device, records, batches }
}

fn put(device: &MemStorage, name: &str, bytes: &[u8]) {
    let file = device.create(name).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

fn manifest(header: &SegmentHeader, last: Option<Lsn>) -> Vec<u8> {
    let mut file = vec![0; 1024];
    for sequence in [1, 2] {
        let slot = Manifest {
            geometry: GEOMETRY,
            log: header.log,
            authenticator: None,
            sequence,
            oldest: header.reference(),
            oldest_base: header.base,
            checkpoints: [None; 2],
            closed: Some(Closed { last, segment: header.reference() }),
            is_closed: false,
            segment_max: 10 * 512,
            level: Level::Synced,
            layout: Layout::Binary,
            record_type: header.record_type.clone(),
            parity: None,
            reuses: false,
            names_ahead: false,
            in_flight_max: 1,
            compression_max: METHOD,
            compression: METHOD,
            time_us: 9,
        };
        let at = usize::try_from(slot.offset().0).unwrap();
        file[at..at + 208].copy_from_slice(&slot.encode());
    }
    file
}

impl Made {
    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.device.clone())
    }

    /// The records from `first` on, with their numbers.
    fn from(&self, first: u64) -> Vec<(u64, Vec<u8>)> {
        let all = (1..).zip(self.records.clone());
        all.filter(|(number, _)| *number >= first).collect()
    }

    /// Updates the checksums of a batch after its body was changed.
    fn sign(&self, number: usize) {
        let ((start, end), salt) = (self.batches[number], header().salt());
        let offset = |at: usize| Offset(u64::try_from(at).unwrap());
        self.device.edit(ONE, |bytes| {
            if bytes[start + 7] & 0x80 != 0 {
                let chunk = start + HEADER_SIZE + 8;
                let stored = u32::from_le_bytes(*bytes[chunk + 4..].first_chunk().unwrap());
                let covered = chunk + 4..chunk + 32 + usize::try_from(stored).unwrap();
                let crc = salt.checksum(offset(chunk), &bytes[covered]);
                bytes[chunk..chunk + 4].copy_from_slice(&crc.to_le_bytes());
            }
            let body = start + HEADER_SIZE;
            let crc = salt.checksum(offset(body), &bytes[body..end]);
            bytes[start + 24..start + 28].copy_from_slice(&crc.to_le_bytes());
            let crc = salt.checksum(offset(start), &bytes[start + 4..body]);
            bytes[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        });
    }
}

#[test]
fn every_reader_shows_the_records_of_compressed_batches() {
    let made = make(&[5, 9, 2, 1, 6], Some(2), 5);
    let found = judge(&made.device).unwrap();
    assert_eq!((found.verdict, found.records), (Verdict::Clean, 23));
    for first in 1..=23 {
        let read = read_from(&made.device, lsn(first)).unwrap();
        assert_eq!(read.records.into_iter().collect::<Vec<_>>(), made.from(first));
        let reader = LogReader::<[u8], Raw>::open_any_in(made.storage()).unwrap();
        assert_eq!(reader.get(lsn(first)).unwrap(), made.records.get(place(first)).cloned());
    }
    let copy = MemStorage::new();
    Maintenance::on(&made.storage())
        .back_up_to(&(Arc::new(copy.clone()) as Arc<dyn Storage>))
        .unwrap();
    let (whole, copied) = (made.device.bytes(ONE).unwrap(), copy.bytes(ONE).unwrap());
    assert_eq!(whole[2048..], copied[2048..], "a copy has the stored bytes");
    assert_eq!(read(&copy, false).unwrap().count(), 23);
    let rescued = MemStorage::new();
    Maintenance::on(&made.storage()).salvage_to(Arc::new(rescued.clone())).unwrap();
    assert_eq!(
        read(&rescued, false).unwrap().records.into_iter().collect::<Vec<_>>(),
        made.from(1)
    );
}

fn place(lsn: u64) -> usize {
    usize::try_from(lsn - 1).unwrap()
}

#[test]
fn open_follows_compressed_batches_with_a_segment_of_its_own() {
    // With unconfirmed batches, which open carries into the new segment, and without.
    for known in 1..=3 {
        let made = make(&[5, 9, 4], None, known);
        let before = made.device.bytes(ONE).unwrap();
        let log = open(&again(1), &made.device).unwrap();
        assert_eq!(log.append(b"another").unwrap().get(), 19);
        log.close().unwrap();
        let mut expected = made.from(1);
        expected.push((19, b"another".to_vec()));
        for device in [made.device.clone(), made.device.kill()] {
            let read = read(&device, false).unwrap();
            assert_eq!(read.records.into_iter().collect::<Vec<_>>(), expected);
            assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
        }
        let after = made.device.bytes(ONE).unwrap();
        let end = made.batches[2].1;
        assert!(after[2048..end] == before[2048..end], "no batch is written again in place");
    }
}

#[test]
fn truncation_within_a_chunk_keeps_the_records_before_it() {
    for last in 1..=18 {
        let made = make(&[5, 9, 4], None, 3);
        let log = open(&again(1), &made.device).unwrap();
        log.truncate_after(Some(lsn(last))).unwrap();
        assert_eq!(log.append(b"another").unwrap().get(), last + 1);
        log.close().unwrap();
        let read = read(&made.device, false).unwrap();
        let kept: Vec<_> = made.from(1).into_iter().filter(|(number, _)| *number <= last).collect();
        let shown: Vec<_> =
            read.records.into_iter().filter(|(number, _)| *number <= last).collect();
        assert_eq!(shown, kept, "up to {last}");
    }
}

/// Checks that each record is either delivered when damage is skipped, or reported as lost.
fn check_damaged(made: &Made, device: &MemStorage, what: &str, lost_max: usize) {
    let found = judge(device).unwrap();
    let read = read(device, true).unwrap();
    let (mut missing, last) = (0, found.last_lsn.map_or(0, Lsn::get));
    for (number, payload) in made.from(1) {
        if let Some(shown) = read.records.get(&number) {
            assert_eq!(*shown, payload, "{what}: record {number}");
            continue;
        }
        missing += 1;
        let is_it = |lost: &Lost| names(lost, number);
        let mut named = found.damage.iter().filter_map(|damage| damage.lost.as_ref());
        let is_end = [Verdict::Torn, Verdict::Unsure].contains(&found.verdict);
        let is_explained = named.any(is_it) || (is_end && number > last);
        assert!(is_explained, "{what}: record {number}, {found:?}");
    }
    assert!(missing <= lost_max, "{what}: {missing} lost");
    assert_ne!(found.verdict, Verdict::Clean, "{what}");
}

#[test]
fn flipped_bit_costs_one_chunk_at_most_and_is_named() {
    let made = make(&[2, 9, 7, 2], Some(3), 4);
    let chunk = 6;
    let (start, end) = (made.batches[0].0, made.batches[3].0);
    let mut sample = Sample::one_in(if cfg!(debug_assertions) { 7 } else { 1 });
    for bit in (start * 8..end * 8).filter(|_| sample.takes_next()) {
        let device = made.device.kill();
        device.edit(ONE, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        check_damaged(&made, &device, &format!("bit {bit}"), chunk);
    }
}

#[test]
fn lost_sectors_of_an_unconfirmed_batch_are_torn_and_of_a_confirmed_one_damage() {
    for known in [1, 2] {
        let made = make(&[3, 11], None, known);
        let (start, end) = made.batches[1];
        let sectors: Vec<_> = (start / 512 + 1..end.div_ceil(512)).collect();
        assert!(!sectors.is_empty());
        for lost in 1..1 << sectors.len() {
            let device = made.device.kill();
            let missing = sectors.iter().enumerate().filter(|(bit, _)| lost >> bit & 1 == 1);
            for (_, sector) in missing {
                device.edit(ONE, |bytes| bytes[sector * 512..(sector + 1) * 512].fill(0));
            }
            check_damaged(&made, &device, &format!("{known} known, sectors {lost:b}"), 11);
            let found = judge(&device).unwrap();
            let expected = if known == 1 { Verdict::Torn } else { Verdict::Lost };
            assert_eq!(found.verdict, expected, "sectors {lost:b}");
            let opened = open(&again(1), &device);
            assert_eq!(opened.is_ok(), known == 1);
            if let Ok(log) = opened {
                assert_eq!(log.append(b"another").unwrap().get(), 4);
                log.close().unwrap();
                assert_eq!(read(&device, false).unwrap().count(), 4);
            }
        }
    }
}

#[test]
fn batch_that_does_not_decode_is_damage_and_not_the_end_of_the_log() {
    let all = [(&[2, 9, 4][..], 3), (&[2, 9, 4], 1), (&[2, 9], 2), (&[2, 9], 1)];
    for (counts, known) in all {
        let made = make(counts, None, known);
        let (start, end) = made.batches[1];
        // The first chunk begins with another token.
        made.device.edit(ONE, |bytes| bytes[start + HEADER_SIZE + 40] ^= 0x10);
        made.sign(1);
        // The next batch chained to the old header.
        if counts.len() > 2 {
            rechain(&made);
        }
        let (device, what) = (&made.device, format!("{counts:?}, {known} known"));
        let found = judge(device).unwrap();
        let [damage] = &found.damage[..] else { panic!("{what}: {:?}", found.damage) };
        assert_eq!((found.verdict, damage.cause), (Verdict::Lost, Corruption::Encoding), "{what}");
        assert_eq!(damage.offset.0, u64::try_from(start).unwrap());
        assert_eq!(damage.bytes, u64::try_from(end - start).unwrap());
        check_damaged(&made, device, &what, 5);
        assert_eq!(read(device, false).unwrap().count(), 2, "{what}: a reader stops there");
        let reader = LogReader::<[u8], Raw>::open_any_in(made.storage()).unwrap();
        assert!(matches!(reader.get(lsn(3)), Err(Error::Damaged { .. })), "{what}");
        // The header of the batch still tells the time of its intact records.
        let mut cursor = reader.skip_damaged(true).cursor(Lsn::FIRST).unwrap();
        let mut times = vec![];
        loop {
            match cursor.next_record() {
                Ok(Some(record)) => times.push(record.time_us),
                Ok(None) => break,
                Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error:#}"),
            }
        }
        times.dedup();
        assert_eq!(times, [9], "{what}");
        let before = device.bytes(ONE).unwrap();
        assert!(matches!(open(&again(1), device), Err(Error::Damaged { .. })), "{what}");
        assert!(device.bytes(ONE).unwrap() == before, "{what}: nothing is cut off");
        let rescued = MemStorage::new();
        Maintenance::on(&made.storage()).salvage_to(Arc::new(rescued.clone())).unwrap();
        let kept = read(&rescued, true).unwrap().count();
        assert!(kept + 5 >= u64::try_from(made.records.len()).unwrap(), "{what}: {kept} rescued");
        let salvaged = again(1).mode(OpenMode::Salvage);
        let log = open(&salvaged, device).unwrap();
        let next = lsn(u64::try_from(made.records.len()).unwrap() + 1);
        assert_eq!(log.append(b"another").unwrap(), next, "{what}: its numbers are used");
        log.close().unwrap();
        let shown = read(device, true).unwrap();
        assert!(shown.records.contains_key(&next.get()) && shown.count() + 5 > next.get());
    }
}

/// Sets the predecessor's chain value in the third batch to that of the changed second batch.
fn rechain(made: &Made) {
    let ((before, _), (start, _)) = (made.batches[1], made.batches[2]);
    made.device.edit(ONE, |bytes| {
        let at = Offset(u64::try_from(before).unwrap());
        let header = BatchHeader::decode(&bytes[before..], at, &Life::of(&header())).unwrap();
        bytes[start + 32..start + 40].copy_from_slice(&header.chain_value().to_le_bytes());
    });
    made.sign(2);
}
