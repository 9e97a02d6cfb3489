//! Images of a small log: one for each way in which it can end, and ways to damage them.

use super::{Random, is_compressed, is_encrypted, laid_out, open, payload_in, tiny};
use seawall::Layout;
use seawall_format::batch::BatchHeader;
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{Offset, SegmentHeader, SegmentId};
use seawall_testkit::MemStorage;

/// A log of thirteen records in nine batches and three segments, and its expected content. A
/// compressed log repeats the batches until it has three segments.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) end: End,
    pub(crate) layout: Layout,
    pub(crate) device: MemStorage,
    pub(crate) records: Vec<Vec<u8>>,
    /// The first record whose only evidence is its own batch: the last record, or [`NONE`].
    pub(crate) window: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// Closed, then rebooted.
    Closed,
    /// Confirmed, then the power was cut.
    Confirmed,
    /// The power was cut after the last acknowledgement.
    PowerCut,
    /// The process was killed after the last acknowledgement: `live` is from this boot.
    Killed,
}

pub(crate) const SETS: [&[usize]; 9] =
    [&[150], &[80, 90, 100], &[300], &[600], &[700], &[200, 200, 200], &[500], &[250], &[20]];

/// The `window` of an image in which all records are confirmed.
pub(crate) const NONE: u64 = u64::MAX;
pub(crate) const NEWEST: &str = "000000000003.seg";
pub(crate) const NEWEST_HEAD: &str = "000000000003.head";
pub(crate) const NEWEST_TEXT: &str = "000000000003.jsonl";

/// The headers of the segments on a device.
pub(crate) fn headers(device: &MemStorage) -> Vec<SegmentHeader> {
    let names = device.names().into_iter();
    let segments = names.filter(|name| SegmentId::from_file_name(name).is_some());
    segments.filter_map(|name| begun_header(&device.bytes(&name)?)).collect()
}

pub(crate) fn write(end: End) -> Image {
    write_in(end, Layout::Binary)
}

pub(crate) fn write_in(end: End, layout: Layout) -> Image {
    let device = MemStorage::new();
    let log = open(&laid_out(tiny(1), layout), &device).unwrap();
    let mut records: Vec<Vec<u8>> = vec![];
    loop {
        for sizes in SETS {
            let numbered = (count(&records) + 1..).zip(sizes);
            let set: Vec<Vec<u8>> =
                numbered.map(|(lsn, size)| payload_in(layout, (lsn, 1), *size)).collect();
            let lsns = log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
            records.extend(set);
            assert_eq!(lsns.end().get(), count(&records));
        }
        if log.stats().rolls >= 2 {
            break;
        }
    }
    assert_eq!(log.stats().compressed > 10, is_compressed() && !is_encrypted());
    let device = match end {
        End::Closed => {
            log.close().unwrap();
            device.power_cut(|_| false)
        }
        End::Confirmed => {
            log.confirm().unwrap();
            device.power_cut(|_| false)
        }
        End::PowerCut => device.power_cut(|_| false),
        End::Killed => device.kill(),
    };
    let (count_of_files, newest) =
        if layout == Layout::Text { (6, NEWEST_TEXT) } else { (3, NEWEST) };
    let segments: Vec<_> =
        files(&device).into_iter().filter(|name| name.starts_with("0000")).collect();
    assert_eq!((segments.len(), segments.last().unwrap().as_str()), (count_of_files, newest));
    let window = match end {
        End::Closed | End::Confirmed => NONE,
        End::PowerCut | End::Killed => count(&records),
    };
    Image { end, layout, device, records, window }
}

pub(crate) fn count(records: &[Vec<u8>]) -> u64 {
    u64::try_from(records.len()).unwrap()
}

pub(crate) fn files(device: &MemStorage) -> Vec<String> {
    // The lock is empty.
    device.names().into_iter().filter(|name| name != "lock").collect()
}

/// The header of the segment in `file`. `None` if it was named ahead and has no batch.
pub(crate) fn begun_header(file: &[u8]) -> Option<SegmentHeader> {
    let header = SegmentHeader::decode(file).ok()?;
    if !header.named_ahead {
        return Some(header);
    }
    BatchHeader::begins(&header, file.get(usize::try_from(header.data_start()).unwrap()..)?)
}

/// Returns the segment's first LSN, and for each batch its start, its end and its last record.
pub(crate) fn batches(device: &MemStorage, file: &str) -> (u64, Vec<(usize, usize, u64)>) {
    let bytes = device.bytes(file).unwrap();
    let head = device.bytes(&file.replace("jsonl", "head")).unwrap();
    let header = begun_header(&head).unwrap();
    let length = u64::try_from(bytes.len()).unwrap();
    let mut scanner = Scanner::new(&header, length, Limit::Open);
    scanner.ends_at(Offset(length));
    let mut found = vec![];
    while let Step::Batch(batch) = scanner.step(Window { start: Offset(0), bytes: &bytes }) {
        let at = usize::try_from(batch.offset.0).unwrap();
        let end = usize::try_from(batch.end.0).unwrap();
        found.push((at, end, batch.header.last().get()));
    }
    (header.base.get(), found)
}

/// What damage writes over a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fill {
    Zeros,
    Garbage(u64),
}

pub(crate) fn spoil(bytes: &mut [u8], fill: Fill) {
    match fill {
        Fill::Zeros => bytes.fill(0),
        Fill::Garbage(seed) => {
            for (byte, random) in bytes.iter_mut().zip(Random::new(seed)) {
                *byte = random.to_le_bytes()[0];
            }
        }
    }
}
