//! Parity: lost data is restored bit for bit, or reported.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;
mod cuts;
mod ends;
pub(crate) mod lost;
mod made;
pub(crate) mod several;

use common::counted::Counted;
use common::images::batches;
use common::sample::{Sample, is_long, seed};
use common::{
    Bytes, Found, LAYOUTS, Random, again, is_compressed, judge, laid_out, layouts, lsn, open,
    payload_in, read, read_own, tiny,
};
use seawall::damage::{Corruption, Lost};
use seawall::format::SegmentId;
use seawall::parity::Parity;
use seawall::verify::Verdict;
use seawall::{Error, Layout, LogReader, Lsn, OpenMode, Options, Raw};
use seawall_io::Storage;
use seawall_testkit::{CrashOutcome, MemStorage};
use std::collections::BTreeMap;
use std::sync::Arc;

const SCHEME: &str = "4+2";
const BLOCK: usize = 512;
/// Data blocks in a stripe.
const DATA: usize = 4;

fn scheme() -> Parity {
    SCHEME.parse().unwrap()
}

fn with_parity(seed: u64, layout: Layout) -> Options {
    laid_out(tiny(seed).parity(Some(scheme())), layout)
}

fn shared(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn append(log: &Bytes, layout: Layout, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        let size = 20 + usize::try_from(number * 37 % 300).unwrap();
        let lsn = log.append(&payload_in(layout, (number, 1), size)).unwrap();
        assert_eq!(lsn.get(), number);
    }
}

/// A closed log of several segments, and its records.
fn sample(layout: Layout) -> (MemStorage, BTreeMap<u64, Vec<u8>>) {
    sample_of(if is_compressed() { 400 } else { 60 }, layout)
}

/// A closed log of `count` records, and its records.
fn sample_of(count: u64, layout: Layout) -> (MemStorage, BTreeMap<u64, Vec<u8>>) {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, 1..=count);
    log.close().unwrap();
    let found = read(&device, false).unwrap();
    assert_eq!(found.count(), count);
    (device, found.records)
}

/// The names of the files that hold the log's records, and where the records begin in them.
fn data_files(device: &MemStorage) -> Vec<(String, usize)> {
    let data = data_files_of(device);
    assert!(data.len() >= 3, "several segments");
    data
}

fn data_files_of(device: &MemStorage) -> Vec<(String, usize)> {
    let names = device.names().into_iter();
    let data = names.filter_map(|name| match name.rsplit_once('.')?.1 {
        "seg" => Some((name, 4 * BLOCK + BLOCK)),
        "jsonl" => Some((name, 0)),
        _ => None,
    });
    data.collect()
}

/// The only file with records, and where they begin.
fn data_file(device: &MemStorage) -> (String, usize) {
    let files = data_files_of(device);
    assert_eq!(files.len(), 1);
    files.into_iter().next().unwrap()
}

fn spoil(device: &MemStorage, name: &str, range: std::ops::Range<usize>, how: &str) {
    device.edit(name, |bytes| {
        let end = range.end.min(bytes.len());
        let bytes = bytes.get_mut(range.start..end).unwrap_or_default();
        match how {
            "zeros" => bytes.fill(0),
            "garbage" => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5A),
            "bit" => bytes[end.saturating_sub(range.start) / 2] ^= 0x10,
            _ => panic!("{how}"),
        }
    });
}

/// Checks that verify, readers and a writer all find exactly `records`, and that the log continues.
fn assert_whole(device: &MemStorage, layout: Layout, records: &BTreeMap<u64, Vec<u8>>, what: &str) {
    let found = judge(device).unwrap();
    assert!(found.verdict <= Verdict::Correctable, "{what}: {found:?}");
    assert_eq!(found.records, common::lsn_count(&records.values().cloned().collect::<Vec<_>>()));
    let delivered = read(device, false).unwrap();
    assert_eq!((&delivered.records, delivered.errors), (records, 0), "{what}");
    let reader = common::reader(shared(device)).unwrap();
    for (number, payload) in records {
        assert_eq!(reader.get(lsn(*number)).unwrap().as_ref(), Some(payload), "{what}: {number}");
    }
    let device = device.kill();
    let log = open(&laid_out(again(2), layout), &device).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(log.recovery().damage.is_empty());
    let own = Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap();
    assert_eq!(&own.records, records, "{what}");
    let next = log.append(&payload_in(layout, (1, 9), 20)).unwrap();
    assert_eq!(next.get(), records.keys().next_back().unwrap() + 1, "{what}");
    log.close().unwrap();
    let after = read(&device, false).unwrap();
    assert_eq!(after.count(), next.get(), "{what}");
}

/// Checks that parity covers all of a crashed log once the log was opened and closed.
fn assert_protected(device: &MemStorage, what: &str) {
    let log = open(&again(2).parity(Some(scheme())), device).unwrap();
    log.close().unwrap();
    let found = common::maintenance(&shared(device)).protection().unwrap();
    assert!(found.open.is_empty(), "{what}: {found:?}");
    assert_eq!(found.covered, found.bytes, "{what}: {found:?}");
    let records = read(device, false).unwrap().records;
    for (name, from) in device
        .names()
        .into_iter()
        .filter(|name| name.ends_with("seg"))
        .map(|name| (name, 5 * BLOCK))
    {
        let harmed = device.kill();
        spoil(&harmed, &name, from..from + 2 * BLOCK, "garbage");
        let found = read(&harmed, false).unwrap();
        assert_eq!((&found.records, found.errors), (&records, 0), "{what}: {name}");
    }
}

fn sides(device: &MemStorage) -> Vec<String> {
    device.names().into_iter().filter(|name| name.ends_with("parity")).collect()
}

/// Repairs the log from its parity.
fn mended(device: &MemStorage) -> MemStorage {
    let done = common::maintenance(&shared(device)).repair().unwrap();
    assert_eq!(done.after.verdict, Verdict::Clean);
    device.clone()
}

/// Truncates the log before its first damage. With parity there is none.
fn cut(device: &MemStorage) -> MemStorage {
    let done = common::maintenance(&shared(device)).truncate_damaged_tail().unwrap();
    assert!(done.damage.is_empty(), "{done:?}");
    device.clone()
}

fn salvaged(device: &MemStorage) -> MemStorage {
    let target = MemStorage::new();
    let rescued = common::maintenance(&shared(device)).salvage_to(shared(&target)).unwrap();
    assert!(rescued.given_up.is_empty(), "{rescued:?}");
    target
}
