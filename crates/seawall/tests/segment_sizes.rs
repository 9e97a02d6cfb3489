//! Segments of any maximum size: it need not be a multiple of a block.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{Bytes, GEOMETRY, maybe_encoded, within};
use seawall::{Lsn, Options};
use seawall_format::SegmentId;
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The smallest segment, in bytes.
const SIZE_MIN: u64 = 6144;
const RECORDS: u64 = 24;
/// A segment of the smallest size begins to prepare the next one after one record.
const RECORD: [u8; 900] = [b'r'; 900];

fn open(device: &MemStorage, size: u64, preallocates: bool) -> Bytes {
    let options = Options::new().geometry(GEOMETRY, SIZE_MIN).segment_size(size).idle_mark(None);
    maybe_encoded(options.preallocate(preallocates)).open_in(Arc::new(device.clone())).unwrap()
}

/// Whether a file for the next segment exists. Nothing was removed, so that the names count.
fn is_prepared(device: &MemStorage, log: &Bytes) -> bool {
    let is_file =
        |name: &&String| name.starts_with("spare") || SegmentId::from_file_name(name).is_some();
    let count = device.names().iter().filter(is_file).count();
    u64::try_from(count).unwrap() > log.stats().rolls + 1
}

#[test]
fn records_are_readable_whatever_the_segment_size() {
    within(60, || {
        let sizes = [SIZE_MIN + 1, 7_000, 9_999, 12_287, 12_289, 20_001];
        for (size, preallocates) in sizes.into_iter().flat_map(|size| [(size, true), (size, false)])
        {
            let device = MemStorage::new();
            let log = open(&device, size, preallocates);
            for _ in 0..RECORDS {
                log.append(&RECORD).unwrap();
                while preallocates && !is_prepared(&device, &log) {
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
            log.close().unwrap();
            let log = open(&device, size, preallocates);
            assert_eq!(log.recovery().last, Lsn::new(RECORDS), "{size} {preallocates}");
            let read = log.read_from(Lsn::FIRST).unwrap().flatten().count();
            assert_eq!(u64::try_from(read).unwrap(), RECORDS, "{size} {preallocates}");
        }
    });
}
