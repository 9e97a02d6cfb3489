//! Fuzz targets for structures of fixed size and for batches: accepted bytes are exactly those that
//! a writer writes.

use crate::fixup;
use crate::sample::{Encoding, End, Kind, Past, Sample, Scale};
use seawall::Layout;
use seawall_format::batch::{
    BatchHeader, BodyKind, HEADER_SIZE as BATCH_HEADER, Life, Spec, finish,
};
use seawall_format::before::Before;
use seawall_format::encoded::{Encoder, decode, salvage};
use seawall_format::tail::{Tail, classify};
use seawall_format::{
    CodecId, Compression, Epoch, Geometry, LogId, Lsn, Offset, RecordType, SegmentId, frame,
};
use seawall_format::{HEADER_SIZE, Live, MANIFEST_SLOT_SIZE, Manifest, Mark, MarkSlot, Seal};
use seawall_format::{SegmentHeader, SegmentRef};

/// Checks the bytes as they are, and again with corrected checksums.
fn both(data: &[u8], fix: impl Fn(&mut [u8]), check: impl Fn(&[u8])) {
    check(data);
    let mut fixed = data.to_vec();
    fix(&mut fixed);
    check(&fixed);
}

pub(super) fn header(data: &[u8]) {
    both(data, fixup::header, |data| {
        if let Ok(found) = SegmentHeader::decode(data) {
            assert_eq!(found.encode(), data[..HEADER_SIZE], "{found:?}");
            assert!(found.data_start() <= found.size.max(found.geometry.data_start()));
        }
    });
}

pub(super) fn manifest(data: &[u8]) {
    both(data, fixup::manifest, |data| {
        for slot in Manifest::decode_file(data).into_iter().flatten() {
            let at = usize::try_from(slot.offset().0).unwrap();
            assert_eq!(slot.encode(), data[at..at + MANIFEST_SLOT_SIZE], "{slot:?}");
        }
    });
}

pub(super) fn live(data: &[u8]) {
    both(data, fixup::live, |data| {
        if let Some(found) = Live::decode(data) {
            assert_eq!(found.encode(), data[..64], "{found:?}");
        }
    });
}

/// Range of the input for each block after the header: two marks and a seal (start, size).
const SLOTS: [(usize, usize); 3] = [(0, 40), (40, 40), (80, 48)];

pub(super) fn slots(data: &[u8]) {
    let header = segment_header(Layout::Binary);
    let mut bytes = vec![0; 2048];
    for (block, (from, size)) in (1..).zip(SLOTS) {
        let part = data.get(from..data.len().min(from + size)).unwrap_or_default();
        bytes[block * 512..block * 512 + part.len()].copy_from_slice(part);
    }
    let fix = |bytes: &mut [u8]| {
        for (block, (_, size)) in (1..).zip(SLOTS) {
            fixup::small(bytes, (block * 512, size), &header.salt(), header.epoch.0);
        }
    };
    both(&bytes, fix, |bytes| {
        for slot in [MarkSlot::A, MarkSlot::B] {
            let here = &bytes[usize::try_from(slot.offset(header.geometry).0).unwrap()..];
            if let Some(mark) = Mark::decode(here, slot, &header) {
                assert_eq!(mark.encode(&header), here[..40], "{mark:?}");
            }
        }
        if let Some(seal) = Seal::decode(&bytes[1536..], &header) {
            assert_eq!(seal.encode(&header), bytes[1536..1584], "{seal:?}");
        }
    });
}

/// Offset of the batch: in the middle of a sector, as for most batches.
const AT: Offset = Offset(2560 + 200);

pub(super) fn batch(data: &[u8]) {
    let header = segment_header(Layout::Binary);
    let at = usize::try_from(AT.0).unwrap();
    let fix = |bytes: &mut [u8]| {
        fixup::batches(bytes, at, (&header.salt(), header.epoch.0), 7);
    };
    both(data, fix, |bytes| {
        for compression_max in [Compression::None, Compression::Lz4] {
            check_batch(bytes, &Life { compression_max, ..Life::of(&header) });
        }
    });
}

fn check_batch(bytes: &[u8], life: &Life) {
    let before = &Before::Zeros;
    let (next, chain) = (Lsn::FIRST, 7);
    let tail = Tail { lead: &[], bytes, goes_on: false, before, offset: AT, next, chain };
    let _ = classify(&tail, life);
    let traced = BatchHeader::trace(bytes, life, 8192);
    let Some(found) = BatchHeader::decode(bytes, AT, life) else { return };
    assert!(traced.is_some(), "it is where it belongs");
    assert!(found.size() <= u64::from(life.batch_max));
    assert!(found.last() >= found.first && found.confirmed() < Some(found.first));
    let size = usize::try_from(found.size()).unwrap();
    let Some(body) = bytes.get(BATCH_HEADER..size) else { return };
    let mut before = (0, 0);
    for (place, frame) in frame::salvage(body, found.first, found.last(), &life.salt) {
        assert!(frame::is_valid(body, place, frame.lsn, &life.salt), "a frame that is none");
        assert!((place + 1, frame.lsn.get()) > before && frame.lsn <= found.last());
        assert!(place + 1 > before.0 && frame.lsn.get() > before.1, "in order, and once");
        before = (place + 1, frame.lsn.get());
    }
    check_chunks(&found, bytes, life);
    let is_valid = found.matches(body, AT, life);
    if is_valid && found.kind == BodyKind::Frames {
        rebuild(&found, body, life);
    }
    if is_valid && found.kind == BodyKind::Encoded {
        compress_again(&found, body, life);
    }
}

/// Checks that the chunks that can be salvaged one by one are bounded, in order, and have as many
/// frames as they state.
fn check_chunks(found: &BatchHeader, bytes: &[u8], life: &Life) {
    let mut memory = vec![];
    let mut next = found.first;
    for chunk in salvage(bytes, (AT, life), (found.first, found.last()), &mut memory) {
        let frames = &memory[chunk.frames.clone()];
        let count = frame::Frames::new(frames, chunk.first, chunk.count).count();
        assert_eq!(count, usize::try_from(chunk.count).unwrap());
        assert!(chunk.first >= next, "in order");
        next = chunk.first.plus(u64::from(chunk.count));
    }
    assert!(memory.len() <= 3 * usize::try_from(life.batch_max).unwrap());
}

/// Checks that a batch that decodes could have been written: if it is compressed again, it decodes
/// to the same bytes.
fn compress_again(found: &BatchHeader, body: &[u8], life: &Life) {
    let mut plain = vec![];
    let does_decode = decode(found, body, life, &mut plain);
    assert!(plain.len() <= usize::try_from(life.batch_max).unwrap());
    if !does_decode {
        return;
    }
    let (first, count, kind) = (found.first, found.count, BodyKind::Frames);
    let (confirmed, chain, time_us) = (found.confirmed(), found.chain, found.time_us);
    let spec = Spec { first, count, kind, confirmed, chain, time_us };
    assert_eq!(
        frame::Frames::new(&plain[BATCH_HEADER..], first, count).count(),
        usize::try_from(count).unwrap()
    );
    let (mut stored, mut again) = (vec![], vec![]);
    let encoded = Encoder::with_sizes(0, 100).encode((&plain, spec), (AT, life), &mut stored);
    if let Some(spec) = encoded {
        finish(&mut stored, spec, AT, life);
        let header = BatchHeader::decode(&stored, AT, life).expect("it was just written");
        assert!(header.matches(&stored[BATCH_HEADER..], AT, life));
        assert!(decode(&header, &stored[BATCH_HEADER..], life, &mut again));
        assert!(plain[BATCH_HEADER..] == again[BATCH_HEADER..]);
    }
}

/// Checks that an accepted batch can be built again from its frames. Only the zeros between and
/// after the frames may be missing.
fn rebuild(found: &BatchHeader, body: &[u8], life: &Life) {
    let mut built = vec![0; BATCH_HEADER];
    let mut count = 0;
    for frame in frame::Frames::new(body, found.first, found.count) {
        frame::push_unbound(&mut built, frame.payload, frame.goes_on);
        count += 1;
    }
    assert_eq!(count, found.count, "each record has a frame");
    let (first, confirmed) = (found.first, found.confirmed());
    let (chain, time_us) = (found.chain, found.time_us);
    let spec = Spec { first, count, kind: BodyKind::Frames, confirmed, chain, time_us };
    finish(&mut built, spec, AT, life);
    let again = BatchHeader::decode(&built, AT, life).expect("it was just written");
    assert!(again.matches(&built[BATCH_HEADER..], AT, life));
    assert_eq!((again.first, again.count, again.behind), (found.first, found.count, found.behind));
}

/// Returns a header for tests: small blocks, and fixed ids, so that all checksums are known.
pub(super) fn segment_header(layout: Layout) -> SegmentHeader {
    let geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
    let (size, codec) = match layout {
        Layout::Binary => (8192, CodecId::Raw),
        _ => (geometry.head_size(), CodecId::Json),
    };
    SegmentHeader {
        geometry,
        log: LogId(3),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(0x1_0000_0009),
        base: Lsn::FIRST,
        carried: None,
        size,
        pred: None,
        pred_chain: 0,
        layout,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType::of(codec),
        time_us: 0,
    }
}

/// Returns the files whose names contain `part`, from logs of several kinds.
fn files_with(part: &str) -> Vec<Vec<u8>> {
    let kind = |layout, end| Kind {
        layout,
        end,
        scale: Scale::Tiny,
        past: Past::Eventful,
        encoding: Encoding::Plain,
        seed: 1,
    };
    let kinds = [
        kind(Layout::Binary, End::Closed),
        kind(Layout::Binary, End::Killed),
        kind(Layout::Text, End::Confirmed),
    ];
    let samples = kinds.map(Sample::make);
    let files = samples.iter().flat_map(|sample| &sample.files);
    files.filter(|(name, _)| name.contains(part)).map(|(_, bytes)| bytes.clone()).collect()
}

pub(super) fn headers() -> Vec<Vec<u8>> {
    let files = files_with(".seg").into_iter().chain(files_with(".head"));
    files.map(|mut bytes| bytes.drain(..HEADER_SIZE).collect()).collect()
}

pub(super) fn manifests() -> Vec<Vec<u8>> {
    files_with("manifest")
}

pub(super) fn lives() -> Vec<Vec<u8>> {
    files_with("live")
}

pub(super) fn some_slots() -> Vec<Vec<u8>> {
    let header = segment_header(Layout::Binary);
    let mark = |sequence| Mark { confirmed: Lsn::new(sequence), sequence, time_us: 5 };
    let next = SegmentRef { id: SegmentId::FIRST.next().unwrap(), epoch: Epoch(77) };
    let seal = Seal { last: Lsn::new(9), next, time_us: 5 };
    let [a, b] = [mark(4), mark(3)].map(|mark| mark.encode(&header));
    vec![[&a[..], &b, &seal.encode(&header)].concat()]
}

pub(super) fn batches() -> Vec<Vec<u8>> {
    let life = Life::of(&segment_header(Layout::Binary));
    let some = |records: &[&[u8]], confirmed: u64| {
        let mut bytes = vec![0; BATCH_HEADER];
        for (left, record) in (0..records.len()).rev().zip(records) {
            frame::push_unbound(&mut bytes, record, left > 0);
        }
        let (first, count) = (Lsn::new(9).unwrap(), u32::try_from(records.len().max(1)).unwrap());
        let kind = if records.is_empty() { BodyKind::Void } else { BodyKind::Frames };
        let confirmed = Lsn::new(confirmed);
        let spec = Spec { first, count, kind, confirmed, chain: 7, time_us: 1 };
        finish(&mut bytes, spec, AT, &life);
        bytes
    };
    vec![some(&[b"one"], 8), some(&[b"", b"two", &[7; 300]], 3), some(&[], 0), compressed(&life)]
}

/// A batch of three chunks, of which the second is stored uncompressed.
fn compressed(life: &Life) -> Vec<u8> {
    let life = Life { compression_max: Compression::Lz4, ..*life };
    let (mut plain, mut stored) = (vec![0; BATCH_HEADER], vec![]);
    for record in [&[7; 200][..], b"0123456789abcdef", &[8; 200]] {
        frame::push_unbound(&mut plain, record, false);
    }
    let (first, kind, confirmed) = (Lsn::new(9).unwrap(), BodyKind::Frames, Lsn::new(8));
    let spec = Spec { first, count: 3, kind, confirmed, chain: 7, time_us: 1 };
    let mut encoder = Encoder::with_sizes(0, 24);
    let spec = encoder.encode((&plain, spec), (AT, &life), &mut stored).expect("it is smaller");
    finish(&mut stored, spec, AT, &life);
    stored
}
