//! Fuzz target for scanning a segment: windows of any size give the same batches, in order, and the
//! scan ends.

use super::bytes::segment_header;
use crate::fixup;
use crate::sample::{Encoding, End, Kind, Past, Sample, Scale};
use seawall::Layout;
use seawall_format::batch::BodyKind;
use seawall_format::frame::Frames;
use seawall_format::scan::{Limit, Scanner, Step, Window, headers};
use seawall_format::{Offset, SegmentHeader};

/// The result of a scan: offset, first LSN and payloads of each batch, and where the scan stopped.
#[derive(Debug, PartialEq)]
pub(super) struct Walked {
    pub(super) batches: Vec<(u64, u64, Vec<Vec<u8>>)>,
    pub(super) stopped_at: u64,
    pub(super) is_exact: bool,
}

/// Scans a file that holds `bytes` from offset `origin` on, in windows of `size` bytes.
pub(super) fn walk(
    header: &SegmentHeader,
    (origin, bytes): (u64, &[u8]),
    size: usize,
) -> (Walked, Scanner) {
    let length = origin + u64::try_from(bytes.len()).unwrap();
    let mut scanner = Scanner::new(header, length, Limit::Open);
    let mut window = Window { start: Offset(origin), bytes: &[] };
    let mut found = Walked { batches: vec![], stopped_at: 0, is_exact: true };
    let mut next = header.base;
    for _ in 0..1_000_000 {
        match scanner.step(window) {
            Step::Need { offset, length: least } => {
                let from = usize::try_from(offset.0 - origin).unwrap();
                let wanted = size.max(usize::try_from(least).unwrap());
                let to = (from + wanted).min(bytes.len());
                window = Window { start: offset, bytes: &bytes[from.min(to)..to] };
                if header.layout == Layout::Text && to == bytes.len() {
                    scanner.ends_at(Offset(length));
                }
                let is_short = to - from.min(to) < usize::try_from(least).unwrap();
                assert!(!is_short || header.layout == Layout::Text, "it asks for what is there");
            }
            Step::Batch(batch) => {
                assert_eq!(batch.header.first, next, "in order, and without a hole");
                assert!(batch.end > batch.offset && batch.end.0 <= length, "within the file");
                next = batch.header.last().next();
                let frames = Frames::new(&batch.body, batch.header.first, batch.header.count);
                let payloads: Vec<_> = frames.map(|frame| frame.payload.to_vec()).collect();
                let has_frames = batch.header.kind == BodyKind::Frames;
                assert!(!has_frames || !payloads.is_empty());
                found.batches.push((batch.offset.0, batch.header.first.get(), payloads));
            }
            Step::Stopped(..) | Step::Refused(_) | Step::Finished => {
                (found.stopped_at, found.is_exact) = (scanner.offset().0, scanner.is_exact());
                return (found, scanner);
            }
        }
    }
    panic!("the walk ends");
}

pub(super) fn run(data: &[u8]) {
    let header = segment_header(Layout::Binary);
    let data = &data[..data.len().min(8192 - 2560)];
    check(&header, data);
    let mut fixed = data.to_vec();
    let origin = usize::try_from(header.data_start()).unwrap();
    fixup::batches(&mut fixed, origin, (&header.salt(), header.epoch.0), header.chain());
    check(&header, &fixed);
}

fn check(header: &SegmentHeader, data: &[u8]) {
    let origin = header.data_start();
    let (whole, scanner) = walk(header, (origin, data), 1 << 20);
    for size in [1, 100, 512] {
        assert_eq!(walk(header, (origin, data), size).0, whole, "in windows of {size}");
    }
    let window = Window { start: Offset(origin), bytes: data };
    let found: Vec<_> = headers(window, Offset(origin), scanner.life()).collect();
    for (at, _, _) in &whole.batches {
        assert!(found.iter().any(|(offset, _)| offset.0 == *at), "its header is found, too");
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let kind = |end| Kind {
        layout: Layout::Binary,
        end,
        scale: Scale::Tiny,
        past: Past::Plain,
        encoding: Encoding::Plain,
        seed: 1,
    };
    let samples = [Sample::make(kind(End::Closed)), Sample::make(kind(End::PowerCut))];
    let files = samples.iter().flat_map(|sample| &sample.files);
    let segments = files.filter(|(name, _)| name.contains(".seg"));
    let batches = |bytes: &Vec<u8>| {
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        // The LSNs become those of a first segment, and the checksums are computed again.
        let mut found = bytes[2560..used.max(2560)].to_vec();
        renumber(&mut found);
        found
    };
    segments.map(|(_, bytes)| batches(bytes)).collect()
}

/// Renumbers the batches from LSN 1 on.
fn renumber(bytes: &mut [u8]) {
    let (mut at, mut next) = (0, 1);
    while bytes.len() >= at + 48 {
        let (size, count) = (fixup::number(bytes, at + 4, 4), fixup::number(bytes, at + 16, 4));
        fixup::put(bytes, at + 8, 8, next);
        fixup::put(bytes, at + 20, 4, 0);
        next += count;
        at += 48 + usize::try_from(size).unwrap();
    }
    let header = segment_header(Layout::Binary);
    let origin = usize::try_from(header.data_start()).unwrap();
    fixup::batches(bytes, origin, (&header.salt(), header.epoch.0), header.chain());
}
