//! Repair: after any damage, the intact records can be salvaged to a new log with their LSNs, the
//! log can be truncated to its sound beginning, or the damaged log can continue. No wrong record is
//! ever delivered, and every record given up is reported.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;
mod cutting;
mod gaps;
mod salvaging;
pub(crate) mod ways_out;

use common::images::{
    self, End, Fill, Image, NEWEST, NONE, batches, files, headers, spoil, write, write_in,
};
use common::sample::Sample;
use common::{
    Bytes, Found, GEOMETRY, KINDS, Kind, Scratch, again, judge, laid_out, layouts, lsn, names,
    of_any_size, open, payload, payload_in, read, read_own, tiny,
};
use seawall::damage::{Corruption, Damage};
use seawall::format::RecordId;
use seawall::repair::{SalvageReport, TailTruncation};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, LogReader, Lsn, Maintenance, OpenMode, Options, Raw};
use seawall_format::{Geometry, HEADER_SIZE, Live, Manifest, Offset, SegmentHeader};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeSet;
use std::sync::Arc;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

/// Salvages a damaged log to a new device. Checks that the source is only read.
fn rescue(damaged: &MemStorage) -> seawall::Result<(MemStorage, SalvageReport)> {
    let before = damaged.steps();
    let target = MemStorage::new();
    let rescued = common::maintenance(&storage(damaged)).salvage_to(storage(&target))?;
    assert_eq!(damaged.steps(), before, "the source is only read");
    Ok((target, rescued))
}

/// A log with one changed payload byte in the second batch, of three records, of the first segment.
fn with_a_hole() -> (Image, MemStorage) {
    let image = write(End::Closed);
    let damaged = image.device.kill();
    let (_, batches) = batches(&damaged, "000000000001.seg");
    let record_3 = batches[1].0 + 48 + 88 + 20;
    damaged.edit("000000000001.seg", |bytes| bytes[record_3] ^= 1);
    (image, damaged)
}
