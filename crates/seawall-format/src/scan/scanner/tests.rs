//! Scanning batches with any window size and up to any limit.

use super::*;
use crate::binary::batch::{BodyKind, HEADER_SIZE, Spec, finish};
use crate::binary::frame;
use crate::binary::scan::headers;
use crate::ids::{Epoch, LogId, SegmentId};
use crate::types::{CodecId, Compression, Geometry, RecordType};

fn header() -> SegmentHeader {
    SegmentHeader {
        geometry: Geometry { block: 512, reach: 512, batch_max: 1024 },
        log: LogId(3),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(9),
        base: lsn(5),
        carried: None,
        size: 8192,
        pred: None,
        pred_chain: 0,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType::of(CodecId::Raw),
        time_us: 0,
    }
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// A segment with a batch of 40-byte records for each of `counts`, and the end of each batch.
fn segment(counts: &[u32]) -> (Vec<u8>, Vec<u64>) {
    let (header, life) = (header(), Life::of(&header()));
    let mut bytes = vec![0; 2560];
    let (mut next, mut chain, mut ends) = (header.base, header.chain(), vec![]);
    for count in counts {
        let mut batch = vec![0; HEADER_SIZE];
        for number in 0..*count {
            frame::push_unbound(&mut batch, &[number.to_le_bytes()[0]; 40], false);
        }
        let (count, confirmed) = (*count, next.previous());
        let spec =
            Spec { first: next, count, kind: BodyKind::Frames, confirmed, chain, time_us: 0 };
        chain = finish(&mut batch, spec, end_of(&bytes), &life);
        next = next.plus(count.into());
        bytes.extend(batch);
        ends.push(end_of(&bytes).0);
    }
    bytes.resize(8192, 0);
    (bytes, ends)
}

fn end_of(bytes: &[u8]) -> Offset {
    Offset(u64::try_from(bytes.len()).unwrap())
}

/// Start, end, first LSN and last LSN of each batch.
type Walked = Vec<(u64, u64, u64, u64)>;

/// Scans in windows of `size` bytes, or larger if requested. Returns the batches and why the scan
/// stopped; `None` if it finished.
fn walk(scanner: &mut Scanner, file: &[u8], size: u64) -> (Walked, Option<Cause>) {
    walk_ahead(scanner, file, (size, None))
}

/// Like [`walk`], but first shows each window to `look_ahead`, extended by `piece` bytes each time.
fn walk_ahead(
    scanner: &mut Scanner,
    file: &[u8],
    (size, piece): (u64, Option<usize>),
) -> (Walked, Option<Cause>) {
    let mut window = 0..0;
    let mut found = vec![];
    for _ in 0..1000 {
        let bytes = &file[window.clone()];
        match scanner.step(Window { start: Offset(window.start.try_into().unwrap()), bytes }) {
            Step::Need { offset, length } => {
                let start = usize::try_from(offset.0).unwrap();
                let end = start + usize::try_from(length).unwrap();
                assert!(end <= file.len(), "what is asked for lies in the file");
                let wanted = start + usize::try_from(size).unwrap();
                window = start..end.max(wanted.min(file.len()));
                for seen in piece.into_iter().flat_map(|piece| (start..=window.end).step_by(piece))
                {
                    scanner.look_ahead(Window { start: offset, bytes: &file[start..seen] });
                }
            }
            Step::Batch(batch) => {
                let (first, last) = (batch.header.first.get(), batch.header.last().get());
                assert_eq!(u64::try_from(batch.body.len()).unwrap() + 48, batch.header.size());
                found.push((batch.offset.0, batch.end.0, first, last));
            }
            Step::Stopped(cause, _) => return (found, Some(cause)),
            Step::Refused(refused) => panic!("nothing newer was written: {refused}"),
            Step::Finished => return (found, None),
        }
    }
    panic!("the walk ends");
}

fn open() -> Scanner {
    Scanner::new(&header(), 8192, Limit::Open)
}

#[test]
fn scan_finds_every_batch_with_any_window_size() {
    let (file, ends) = segment(&[1, 3, 2]);
    let expected = [(2560, ends[0], 5, 5), (ends[0], ends[1], 6, 8), (ends[1], ends[2], 9, 10)];
    for size in [1, 48, 100, 500, 8192] {
        let mut scanner = open();
        let (found, cause) = walk(&mut scanner, &file, size);
        assert_eq!((found.as_slice(), cause), (&expected[..], Some(Cause::Header)));
        assert_eq!((scanner.offset(), scanner.next_lsn()), (Offset(ends[2]), lsn(11)));
        assert!(scanner.is_exact() && scanner.part().is_none());
        assert_eq!(scanner.layout(), Layout::Binary);
        // The scanner stays at the end.
        assert_eq!(walk(&mut scanner, &file, size), (vec![], Some(Cause::Header)));
    }
}

#[test]
fn reading_ahead_does_not_change_the_result() {
    let (file, ends) = segment(&[1, 3, 2]);
    let end = usize::try_from(ends[2]).unwrap();
    let mut changed = file.clone();
    for piece in [1, 7, 48, 100] {
        let walked = walk_ahead(&mut open(), &file, (48, Some(piece)));
        assert_eq!(walked, walk(&mut open(), &file, 8192), "pieces of {piece}");
        for at in (2560..end).step_by(crate::fields::sizes::EVERY) {
            changed[at] ^= 1;
            let walked = walk_ahead(&mut open(), &changed, (48, Some(piece)));
            assert_eq!(walked, walk(&mut open(), &changed, 8192), "byte {at}, pieces of {piece}");
            assert!(walked.0.len() < 3);
            changed[at] ^= 1;
        }
    }
}

#[test]
fn reading_ahead_counts_only_for_its_batch() {
    let (file, ends) = segment(&[3, 3]);
    let (other, _) = segment(&[3, 2]);
    let window = |start: u64, end: u64| {
        let [from, to] = [start, end].map(|at| usize::try_from(at).unwrap());
        Window { start: Offset(start), bytes: &file[from..to] }
    };
    let mut scanner = open();
    assert!(matches!(scanner.step(window(2560, 2608)), Step::Need { .. }));
    scanner.look_ahead(window(2560, ends[0]));
    // Repeating the request discards what was read ahead.
    assert!(matches!(scanner.step(window(2560, 2608)), Step::Need { .. }));
    let mut bad = file.clone();
    bad[2700] ^= 1;
    let all = Window { start: Offset(0), bytes: &bad };
    assert!(matches!(scanner.step(all), Step::Stopped(Cause::Body, Some(_))));
    // Bytes read ahead do not count for the next batch after `pass`, either.
    let mut scanner = open();
    assert!(matches!(scanner.step(window(2560, 2608)), Step::Need { .. }));
    scanner.look_ahead(window(2560, ends[0]));
    let first = BatchHeader::decode(&other[2560..], Offset(2560), scanner.life()).unwrap();
    scanner.pass(&first);
    let next = Window { start: Offset(0), bytes: &other };
    assert!(matches!(scanner.step(next), Step::Batch(_)));
    // Looking ahead without a request, or at another offset, has no effect.
    scanner.look_ahead(window(0, 100));
    scanner.look_ahead(window(ends[1], 8192));
}

#[test]
fn scan_ends_at_its_limit() {
    let (file, ends) = segment(&[1, 3, 2]);
    for (last, batches) in [(4, 0), (5, 1), (6, 2), (8, 2), (9, 3), (10, 3)] {
        let mut scanner = Scanner::new(&header(), 8192, Limit::At(Some(lsn(last))));
        let (found, cause) = walk(&mut scanner, &file, 100);
        assert_eq!((found.len(), cause), (batches, None), "up to record {last}");
    }
    let mut scanner = Scanner::new(&header(), 8192, Limit::At(None));
    assert_eq!(walk(&mut scanner, &file, 100), (vec![], None));
    // More records became durable, and the scan continues where it was.
    scanner.set_limit(Limit::At(Some(lsn(5))));
    assert_eq!(walk(&mut scanner, &file, 100).0, [(2560, ends[0], 5, 5)]);
}

#[test]
fn truncated_batch_is_invalid_and_nothing_after_the_end_is_requested() {
    let (file, ends) = segment(&[1, 3]);
    let length = |end: u64| usize::try_from(end).unwrap();
    for (end, expected) in [
        (ends[1], (2, Cause::Header)),
        (ends[1] - 1, (1, Cause::Extent)),
        (ends[0] + 48, (1, Cause::Extent)),
        (ends[0] + 47, (1, Cause::Header)),
        (ends[0], (1, Cause::Header)),
        (2560, (0, Cause::Header)),
        (100, (0, Cause::Header)),
    ] {
        let mut scanner = Scanner::new(&header(), end, Limit::Open);
        let (found, cause) = walk(&mut scanner, &file[..length(end)], 100);
        assert_eq!((found.len(), cause.unwrap()), expected, "a file of {end} bytes");
    }
}

#[test]
fn bytes_after_the_stated_size_are_ignored() {
    let (mut file, ends) = segment(&[1, 3]);
    file.resize(16_384, 0);
    let header = SegmentHeader { size: ends[0], ..header() };
    // The batches are chained to the header with the larger size, so the scan begins at their
    // chain value.
    let mut scanner = Scanner::new(&header, 16_384, Limit::Open);
    scanner.begin_at(Start { offset: Offset(2560), first: lsn(5), chain: self::header().chain() });
    let (found, cause) = walk(&mut scanner, &file, 100);
    assert_eq!((found.len(), cause), (1, Some(Cause::Header)));
}

#[test]
fn changed_frame_stops_the_scan_with_its_header() {
    let (mut file, ends) = segment(&[1, 3, 2]);
    let at = usize::try_from(ends[1]).unwrap();
    file[at - 1] ^= 1;
    let mut scanner = open();
    let (found, cause) = walk(&mut scanner, &file, 8192);
    assert_eq!((found.len(), cause), (1, Some(Cause::Body)));
    let window = Window { start: Offset(0), bytes: &file };
    let Step::Stopped(Cause::Body, Some(header)) = scanner.step(window) else { panic!() };
    assert_eq!((header.first, header.last()), (lsn(6), lsn(8)));
    // With the header that was found there, the scan continues after the batch.
    scanner.pass(&header);
    assert_eq!(walk(&mut scanner, &file, 100).0, [(ends[1], ends[2], 9, 10)]);
}

#[test]
fn batch_out_of_sequence_stops_the_scan() {
    let (file, ends) = segment(&[1, 3, 2]);
    let window = Window { start: Offset(0), bytes: &file };
    let second = BatchHeader::decode(
        &file[usize::try_from(ends[0]).unwrap()..],
        Offset(ends[0]),
        open().life(),
    );
    let second = second.unwrap();
    let start = Start { offset: Offset(ends[0]), first: second.first, chain: second.chain };
    for start in
        [Start { first: second.first.next(), ..start }, Start { chain: second.chain ^ 1, ..start }]
    {
        let mut scanner = open();
        scanner.begin_at(start);
        assert!(matches!(scanner.step(window), Step::Stopped(Cause::Order, Some(_))), "{start:?}");
        // If the scanner trusts the header, it finds the batch.
        scanner.resume_at(Offset(ends[0]), &second);
        let (found, _) = walk(&mut scanner, &file, 100);
        assert_eq!(found, [(ends[0], ends[1], 6, 8), (ends[1], ends[2], 9, 10)]);
    }
}

#[test]
fn headers_are_found_at_multiples_of_eight() {
    let (file, ends) = segment(&[1, 3, 2]);
    let life = Life::of(&header());
    let found = |start: u64, from: u64| -> Vec<u64> {
        let bytes = &file[usize::try_from(start).unwrap()..];
        let window = Window { start: Offset(start), bytes };
        headers(window, Offset(from), &life).map(|(offset, _)| offset.0).collect()
    };
    let all = [2560, ends[0], ends[1]];
    assert_eq!(found(0, 0), all);
    assert_eq!(found(2560, 0), all);
    assert_eq!(found(0, 2553), all);
    assert_eq!(found(0, 2561), all[1..]);
    assert_eq!(found(2563, 0), all[1..], "a window need not begin at a multiple");
}

/// The header lies among zeros, or among bytes that are each a possible byte of an epoch tag.
#[test]
fn header_is_found_wherever_it_begins() {
    const SIZE: usize = 3 * 4096 + 40;
    let life = Life::of(&header());
    for start in [0, 8, 4000] {
        for at in (0..SIZE - HEADER_SIZE).step_by(8) {
            let mut batch = vec![0; HEADER_SIZE];
            frame::push_unbound(&mut batch, b"", false);
            let (count, confirmed, chain) = (1, None, 0);
            let spec =
                Spec { first: lsn(5), count, kind: BodyKind::Frames, confirmed, chain, time_us: 0 };
            let offset = Offset(start + u64::try_from(at).unwrap());
            finish(&mut batch, spec, offset, &life);
            for around in [0, 9] {
                let mut bytes = vec![around; SIZE];
                bytes[at..][..HEADER_SIZE].copy_from_slice(&batch[..HEADER_SIZE]);
                let window = Window { start: Offset(start), bytes: &bytes };
                let found: Vec<_> =
                    headers(window, Offset(0), &life).map(|found| found.0).collect();
                assert_eq!(found, [offset], "from {start} on, {around} around");
            }
        }
    }
}

#[test]
fn window_returns_the_bytes_inside_it() {
    let window = Window { start: Offset(100), bytes: b"abcdef" };
    assert_eq!(window.end(), Offset(106));
    assert_eq!(window.range(Offset(102), 3), Some(&b"cde"[..]));
    assert_eq!(window.range(Offset(100), 6), Some(&b"abcdef"[..]));
    for (offset, length) in [(99, 2), (100, 7), (106, 1), (200, 0), (104, u64::MAX)] {
        assert_eq!(window.range(Offset(offset), length), None, "{length} bytes at {offset}");
    }
}
