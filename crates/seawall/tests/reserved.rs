//! Values reserved by format 1 are refused by name, and the log is not changed; segments whose
//! sizes differ from the manifest's are read by their own. format.md sections 4 and 11.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::images::{self, End, NEWEST, batches, write};
use common::{GEOMETRY, again, judge, laid_out, open, payload_in, read, read_own, tiny};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Lsn, Maintenance};
use seawall_format::parity::Known;
use seawall_format::{Epoch, LogId, Manifest, Mark, Offset, Salt, SegmentHeader, SegmentId};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

const ENDS: [End; 4] = [End::Closed, End::Confirmed, End::PowerCut, End::Killed];

fn bytes_of(device: &MemStorage) -> BTreeMap<String, Vec<u8>> {
    let names = device.names().into_iter().filter(|name| name != "lock");
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

/// Checks that readers, verify, open and repair all refuse this log with the same `name`, and leave
/// it unchanged.
#[track_caller]
fn is_refused(device: &MemStorage, name: &str) {
    let before = bytes_of(device);
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let asked = [
        judge(device).map(drop),
        read(device, false).map(drop),
        read(device, true).map(drop),
        open(&again(1), device).map(drop),
        Maintenance::on(&storage).diagnose().map(drop),
        Maintenance::on(&storage).plan_truncation().map(drop),
        Maintenance::on(&storage).truncate_damaged_tail().map(drop),
        Maintenance::on(&storage).repair().map(drop),
        Maintenance::on(&storage)
            .back_up_to(&(Arc::new(MemStorage::new()) as Arc<dyn Storage>))
            .map(drop),
        Maintenance::on(&storage).salvage_to(Arc::new(MemStorage::new())).map(drop),
    ];
    for (turn, answer) in asked.into_iter().enumerate() {
        let Err(Error::Unsupported { refused, .. }) = answer else {
            panic!("{name}, {turn}: {answer:?}")
        };
        assert!(refused.to_string().contains(name), "{name}, {turn}: {refused}");
    }
    assert_eq!(bytes_of(device), before, "{name}");
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

/// Sets the checksum at `structure + at`. It covers the bytes after it, up to `structure + end`.
fn checksum(bytes: &mut [u8], (structure, at, end): (usize, usize, usize), salt: &Salt) {
    let offset = Offset(u64::try_from(structure).unwrap());
    let crc = salt.checksum(offset, &bytes[structure + at + 4..structure + end]);
    bytes[structure + at..structure + at + 4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn batch_of_a_newer_version_is_refused_and_not_a_torn_tail() {
    for end in ENDS {
        let image = write(end);
        let head = SegmentHeader::decode(&image.device.bytes(NEWEST).unwrap()).unwrap();
        let (_, placed) = batches(&image.device, NEWEST);
        for (at, _, last) in placed {
            let bits = [(28, "prefix"), (29, "parity"), (30, "encrypted"), (31, "compressed")];
            for (bit, name) in bits {
                let device = image.device.kill();
                device.edit(NEWEST, |bytes| {
                    bytes[at + 4 + bit / 8] |= 1 << (bit % 8);
                    checksum(bytes, (at, 0, 48), &head.salt());
                });
                println!("{end:?}, the batch up to {last}, {name}");
                is_refused(&device, &format!("batch flags {name}"));
            }
        }
    }
}

#[test]
fn unknown_features_and_reserved_bytes_are_refused_by_name() {
    let image = write(End::Closed);
    for (at, name) in [(104, "feature bits 0x1"), (107, "feature bits 0x1000000")] {
        let device = image.device.kill();
        forge_header(&device, at);
        is_refused(&device, name);
    }
    for at in 116..120 {
        let device = image.device.kill();
        forge_header(&device, at);
        is_refused(&device, "bytes 116 to 120, kept for later");
    }
    for (at, name) in [(123, "feature bits 0x1000000"), (135, "bytes 135 to 136, kept for later")] {
        for slot in [0, 512] {
            let device = image.device.kill();
            device.edit("manifest", |bytes| {
                bytes[slot + at] |= 1;
                let salt = Salt::of_log(LogId(number(bytes, slot + 32)));
                checksum(bytes, (slot, 16, 208), &salt);
            });
            is_refused(&device, name);
        }
    }
}

fn forge_header(device: &MemStorage, at: usize) {
    device.edit(NEWEST, |bytes| {
        bytes[at] |= 1;
        let salt = Salt::new(LogId(number(bytes, 32)), Epoch(number(bytes, 48)));
        checksum(bytes, (0, 16, 192), &salt);
    });
}

#[test]
fn first_segment_does_not_replace_an_older_one_in_the_manifest() {
    let device = write(End::Closed).device.kill();
    let head = SegmentHeader::decode(&device.bytes(NEWEST).unwrap()).unwrap();
    let older = |name: &String| SegmentId::from_any_name(name).is_some_and(|id| id < head.id);
    for name in device.names().iter().filter(|name| older(name)) {
        device.remove(name).unwrap();
    }
    device.edit(NEWEST, |bytes| {
        bytes[80..104].fill(0);
        checksum(bytes, (0, 16, 192), &head.salt());
    });
    let found = judge(&device).unwrap();
    let lost = found.damage.iter().find_map(|damage| damage.lost).unwrap();
    assert_eq!((lost.from, lost.to), (Lsn::FIRST, head.base.previous()), "{found:?}");
    assert!(open(&again(1), &device).is_err_and(|error| matches!(error, Error::Damaged { .. })));
}

#[test]
fn draft_version_is_refused_in_every_file() {
    let image = write(End::Closed);
    for (file, at) in [("manifest", 0), ("manifest", 512), (NEWEST, 0)] {
        for (version, draft, name) in
            [(0, 2, "draft 2"), (1, 1, "draft 1"), (2, 0, "format version 2")]
        {
            let device = image.device.kill();
            device.edit(file, |bytes| {
                bytes[at + 8..at + 12].copy_from_slice(&[version, 0, draft, 0]);
                let crc = Known::checksum(&bytes[at..at + 12]);
                bytes[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
            });
            is_refused(&device, name);
        }
    }
}

#[test]
fn parity_of_a_newer_version_is_not_used_and_never_overwritten() {
    let scheme = "4+2".parse().ok();
    for layout in common::LAYOUTS {
        let options = |seed| laid_out(again(seed), layout).parity(scheme);
        let device = MemStorage::new();
        let log = open(&options(1), &device).unwrap();
        let records: Vec<_> = (1..=3).map(|lsn| payload_in(layout, (lsn, 1), 90)).collect();
        log.append_batch(records.iter().map(Vec::as_slice)).unwrap();
        log.close().unwrap();
        let names = device.names();
        let parity = names.iter().rfind(|name| name.contains(".parity")).unwrap();
        for at in [28, 80] {
            let device = device.kill();
            device.edit(parity, |bytes| {
                for slot in [0, 512] {
                    bytes[slot + at] = 1;
                    let salt =
                        Salt::new(LogId(number(bytes, slot + 32)), Epoch(number(bytes, slot + 48)));
                    checksum(bytes, (slot, 16, 280), &salt);
                }
            });
            let before = device.bytes(parity).unwrap();
            assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean);
            let log = open(&options(2), &device).unwrap();
            log.append(&payload_in(layout, (4, 1), 90)).unwrap();
            assert_eq!(read_own(&log).count(), 4);
            log.close().unwrap();
            assert!(device.bytes(parity).unwrap() == before, "{layout:?}: it was written over");
        }
    }
}

/// The image: a forged mark, with a number that no segment reaches.
#[test]
fn mark_without_a_valid_number_is_the_header_of_another_segment() {
    let image = write(End::Closed);
    let count = images::count(&image.records);
    let device = image.device.kill();
    let header = SegmentHeader::decode(&device.bytes(NEWEST).unwrap()).unwrap();
    let forged = Mark { confirmed: None, sequence: (1 << 63) - 1, time_us: 0 };
    device.edit(NEWEST, |bytes| {
        let at = usize::try_from(forged.slot().offset(header.geometry).0).unwrap();
        bytes[at..at + 40].copy_from_slice(&forged.encode(&header));
    });
    let log = open(&again(1), &device).unwrap();
    log.append(b"the last one").unwrap();
    log.confirm().unwrap();
    let device = device.power_cut(|_| false);
    assert_eq!(read(&device, false).unwrap().count(), count + 1);
    // The confirmed record is reported as lost if its batch is damaged.
    let (_, placed) = batches(&device, NEWEST);
    let (at, _, last) = *placed.last().unwrap();
    assert_eq!(last, count + 1);
    device.edit(NEWEST, |bytes| bytes[at + 60] ^= 1);
    let found = judge(&device).unwrap();
    assert_eq!(found.verdict, Verdict::Lost, "{found:?}");
    assert!(found.damage.iter().any(|d| d.lost.is_some_and(|lost| common::names(&lost, last))));
}

/// A copy of the log with `forge` applied to both slots of its manifest.
fn forged(image: &images::Image, forge: impl Fn(Manifest) -> Manifest) -> MemStorage {
    let device = image.device.kill();
    let slots = Manifest::decode_file(&device.bytes("manifest").unwrap()).map(Result::unwrap);
    let slots = slots.map(forge);
    device.edit("manifest", |bytes| {
        *bytes = vec![0; 2 * usize::try_from(slots[0].geometry.block).unwrap()];
        for slot in slots {
            let at = usize::try_from(slot.offset().0).unwrap();
            bytes[at..at + 208].copy_from_slice(&slot.encode());
        }
    });
    device
}

#[test]
fn existing_records_are_read_although_the_manifest_gives_them_up() {
    for end in ENDS {
        let image = write(end);
        let oldest_base = Lsn::new(3).unwrap();
        let device = forged(&image, |slot| Manifest { oldest_base, ..slot });
        let found = read(&device, false).unwrap();
        assert_eq!(found.count(), images::count(&image.records), "{end:?}");
    }
}

#[test]
fn manifest_sequence_never_exceeds_its_maximum() {
    for end in ENDS {
        let image = write(end);
        // The highest sequence numbers that keep each slot in its place.
        let raise = |sequence: u64| sequence + ((1 << 63) - 2 - sequence) / 2 * 2;
        let device = forged(&image, |slot| Manifest { sequence: raise(slot.sequence), ..slot });
        let before = device.bytes("manifest");
        let closed = open(&again(1), &device).and_then(|log| {
            log.append(b"one more")?;
            log.close()
        });
        assert!(matches!(closed, Err(Error::Poisoned { .. })), "{end:?}: {closed:?}");
        assert_eq!(device.bytes("manifest"), before, "{end:?}");
        let found = read(&device, false).unwrap();
        assert!(found.count() >= images::count(&image.records), "{end:?}");
    }
}

#[test]
fn segments_use_their_own_sizes_and_new_ones_those_of_the_manifest() {
    for layout in common::LAYOUTS {
        for end in ENDS {
            let image = images::write_in(end, layout);
            for geometry in [
                Geometry { batch_max: 4096, ..GEOMETRY },
                Geometry { block: 1024, reach: 4096, batch_max: 1024 },
                Geometry { block: 4096, reach: 65_536, batch_max: 1 << 16 },
                Geometry { batch_max: 512, ..GEOMETRY },
            ] {
                goes_on_with(&image, geometry);
            }
        }
    }
}

fn goes_on_with(image: &images::Image, geometry: Geometry) {
    let case = format!("{:?}, {:?}, {geometry:?}", image.layout, image.end);
    println!("{case}");
    let device = forged(image, |slot| Manifest { geometry, ..slot });
    let count = images::count(&image.records);
    assert_eq!(read(&device, false).unwrap().count(), count, "{case}");
    assert!(judge(&device).unwrap().damage.is_empty(), "{case}");
    let before = bytes_of(&device);
    let log = match open(&laid_out(tiny(9), image.layout), &device) {
        Ok(log) => log,
        Err(Error::Damaged { .. }) if geometry.batch_max < GEOMETRY.batch_max => {
            // The records to rewrite no longer fit in a batch: open reports that, and nothing is
            // lost.
            let now = bytes_of(&device);
            for (name, bytes) in before.iter().filter(|(name, _)| name.contains('0')) {
                assert!(now.get(name) == Some(bytes), "{case}: {name}");
            }
            assert_eq!(read(&device, false).unwrap().count(), count, "{case}");
            return;
        }
        Err(error) => panic!("{case}: {error}"),
    };
    let largest = payload_in(image.layout, (count + 1, 2), geometry.payload_max() - 200);
    log.append(&largest).unwrap();
    let found = read_own(&log).records;
    assert_eq!(found.len(), image.records.len() + 1, "{case}");
    assert_eq!(found[&(count + 1)], largest, "{case}");
    log.close().unwrap();
    assert_eq!(judge(&device).unwrap().verdict, Verdict::Clean, "{case}");
    let names = device.names();
    let is_head = |name: &&String| name.contains(".seg") || name.contains(".head");
    let newest = names.iter().rfind(is_head).unwrap();
    let header = SegmentHeader::decode(&device.bytes(newest).unwrap()).unwrap();
    assert_eq!(header.geometry, geometry, "{case}");
    assert!(image.layout == Layout::Text || header.size.is_multiple_of(geometry.block.into()));
}
