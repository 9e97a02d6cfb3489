//! Directories without a readable manifest whose segments hold nothing: an interrupted creation, or
//! the rest of a log.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{LAYOUTS, again, judge, laid_out, lsn, open, payload_in, read, tiny};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Options};
use seawall_testkit::MemStorage;

fn options(seed: u64, layout: Layout) -> Options {
    laid_out(tiny(seed), layout).parity(Some("4+1".parse().unwrap()))
}

/// A closed log with parity and this many records.
fn closed(layout: Layout, count: u64) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&options(1, layout), &device).unwrap();
    for number in 1..=count {
        log.append(&payload_in(layout, (number, 1), 40)).unwrap();
    }
    log.close().unwrap();
    device.edit("manifest", |bytes| bytes.truncate(36));
    device
}

/// Asserts that no one takes the rest of a log for an empty log, and that it stays as it is.
fn is_damaged(device: &MemStorage, what: &str) {
    let found = judge(device).unwrap();
    assert!(found.verdict >= Verdict::Correctable, "{what}: {found:?}");
    let names = device.names();
    if found.verdict == Verdict::Lost {
        let refused = open(&laid_out(again(2), Layout::Binary), device).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{what}: {refused}");
        let is_told = read(device, false).map_or(true, |found| !found.lost.is_empty());
        assert!(is_told, "{what}");
    }
    assert!(names.iter().all(|name| device.bytes(name).is_some()), "{what}");
}

#[test]
fn texts_without_heads_and_a_manifest_are_damage() {
    let device = closed(Layout::Text, 5);
    let heads = device.names().into_iter().filter(|name| name.ends_with("head"));
    heads.for_each(|name| device.remove_raw(&name));
    let parity = device.names().into_iter().filter(|name| name.ends_with("parity"));
    parity.for_each(|name| device.remove_raw(&name));
    is_damaged(&device, "texts");
}

#[test]
fn parity_without_segments_and_a_manifest_is_damage() {
    for layout in LAYOUTS {
        let device = closed(layout, 5);
        let names = device.names().into_iter();
        let gone =
            names.filter(|name| [".seg", ".head", ".jsonl"].iter().any(|of| name.ends_with(of)));
        gone.for_each(|name| device.remove_raw(&name));
        is_damaged(&device, &format!("{layout:?}"));
    }
}

#[test]
fn parity_that_knows_of_records_shows_that_a_segment_lost_them() {
    let device = closed(Layout::Binary, 5);
    device.edit("000000000001.seg", |bytes| bytes.iter_mut().skip(512).for_each(|byte| *byte = 0));
    is_damaged(&device, "zeros");
}

#[test]
fn empty_log_with_parity_and_without_a_manifest_is_created() {
    for layout in LAYOUTS {
        let device = closed(layout, 0);
        assert!(device.names().iter().any(|name| name.ends_with("parity")), "{layout:?}");
        assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{layout:?}");
        let log = open(&options(2, layout), &device).unwrap();
        assert!(log.recovery().created, "{layout:?}");
        assert_eq!(log.append(&payload_in(layout, (1, 2), 40)).unwrap(), lsn(1));
        log.close().unwrap();
        assert_eq!(read(&device, false).unwrap().count(), 1, "{layout:?}");
        assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{layout:?}");
    }
}
