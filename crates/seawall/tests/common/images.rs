//! A small log in every way that a log can end, and ways to damage it.

use super::{Random, open, payload, tiny};
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{Offset, SegmentHeader};
use seawall_io::MemStorage;

/// A log of thirteen records in nine batches and three segments, and what is known of it.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) end: End,
    pub(crate) device: MemStorage,
    pub(crate) records: Vec<Vec<u8>>,
    /// From here on nothing but their own batch speaks of the records: it is the last one.
    pub(crate) window: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// Closed; seen after a reboot.
    Closed,
    /// Confirmed, then the power was cut.
    Confirmed,
    /// The power was cut after the last acknowledgement.
    PowerCut,
    /// The process was killed after the last acknowledgement: `live` speaks of this boot.
    Killed,
}

pub(crate) const SETS: [&[usize]; 9] =
    [&[150], &[80, 90, 100], &[300], &[600], &[700], &[200, 200, 200], &[500], &[250], &[20]];

/// No record is in the window.
pub(crate) const NONE: u64 = u64::MAX;
pub(crate) const NEWEST: &str = "000000000003.seg";

pub(crate) fn write(end: End) -> Image {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    let mut records: Vec<Vec<u8>> = vec![];
    for sizes in SETS {
        let set: Vec<Vec<u8>> =
            (1..).zip(sizes).map(|(n, size)| payload(count(&records) + n, 1, *size)).collect();
        let lsns = log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
        records.extend(set);
        assert_eq!(lsns.end().get(), count(&records));
    }
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
    let segments: Vec<_> = files(&device).into_iter().filter(|name| name.contains("seg")).collect();
    assert_eq!((segments.len(), segments[2].as_str()), (3, NEWEST));
    let window = match end {
        End::Closed | End::Confirmed => NONE,
        End::PowerCut | End::Killed => count(&records),
    };
    Image { end, device, records, window }
}

pub(crate) fn count(records: &[Vec<u8>]) -> u64 {
    u64::try_from(records.len()).unwrap()
}

pub(crate) fn files(device: &MemStorage) -> Vec<String> {
    // The lock is empty.
    device.names().into_iter().filter(|name| name != "lock").collect()
}

/// Where the batches of a segment begin and end, and their last records.
pub(crate) fn batches(device: &MemStorage, file: &str) -> (u64, Vec<(usize, usize, u64)>) {
    let bytes = device.bytes(file).unwrap();
    let header = SegmentHeader::decode(&bytes).unwrap();
    let length = u64::try_from(bytes.len()).unwrap();
    let mut scanner = Scanner::new(&header, length, Limit::Open);
    let mut found = vec![];
    while let Step::Batch(batch) = scanner.step(Window { start: Offset(0), bytes: &bytes }) {
        let at = usize::try_from(batch.offset.0).unwrap();
        let end = at + usize::try_from(batch.header.size()).unwrap();
        found.push((at, end, batch.header.last().get()));
    }
    (header.base.get(), found)
}

/// What a run of damage leaves in its place.
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
