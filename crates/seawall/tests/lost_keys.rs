//! The file `keys` of an encrypted log is lost or damaged: no call writes plain records to it or
//! presents it as whole, and plain records stay readable.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::{Bytes, KEY, again, encrypted, lsn, open, payload, tiny};
use seawall::damage::Corruption;
use seawall::encryption::{Key, Padding};
use seawall::verify::Verdict;
use seawall::{Error, LogReader, Lsn, Maintenance, OpenMode, Options, Raw};
use seawall_format::{Manifest, SegmentHeader, SegmentId};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn contents(device: &MemStorage) -> BTreeMap<String, Vec<u8>> {
    let names = device.names().into_iter().filter(|name| name != "lock");
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

/// Flips a bit in both slots of `keys`.
fn damage_keys(device: &MemStorage) {
    device.edit("keys", |bytes| {
        bytes[100] ^= 1;
        bytes[65_536 + 100] ^= 1;
    });
}

/// Checks that this outcome names the keys as lost, from record `first` on.
#[track_caller]
fn are_lost<T>(what: &str, first: Lsn, outcome: seawall::Result<T>) {
    let Err(Error::Damaged { damage, .. }) = outcome else {
        panic!("{what}: {:?}", outcome.map(drop))
    };
    let lost = damage.lost.map(|lost| (lost.from, lost.to));
    assert_eq!((damage.cause, lost), (Corruption::Keys, Some((first, None))), "{what}");
}

#[test]
fn log_whose_keys_cannot_be_read_is_not_copied() {
    encrypted(|| {
        let device = MemStorage::new();
        let log = open(&tiny(1), &device).unwrap();
        for number in 1..=5 {
            log.append(&payload(number, 0, 50)).unwrap();
        }
        log.close().unwrap();
        damage_keys(&device);
        let storage = storage(&device);
        for mut maintenance in [Maintenance::on(&storage), common::maintenance(&storage)] {
            let copy = MemStorage::new();
            let target: Arc<dyn Storage> = Arc::new(copy.clone());
            are_lost("back up", lsn(1), maintenance.back_up_to(&target));
            assert_eq!(copy.names(), [""; 0], "nothing was written");
        }
    });
}

/// Whether the manifest says that segments to come are encrypted, and none is yet.
fn is_about_to_encrypt(device: &MemStorage) -> bool {
    let manifest = device.bytes("manifest").unwrap();
    let mut slots = Manifest::decode_file(&manifest).into_iter().flatten();
    let names = device.names().into_iter();
    let segments = names.filter(|name| SegmentId::from_file_name(name).is_some());
    let files = segments.map(|name| device.bytes(&name));
    let mut headers = files.filter_map(|file| SegmentHeader::decode(&file.unwrap()).ok());
    slots.all(|slot| slot.authenticator.is_some())
        && headers.all(|header| header.authenticator.is_none())
}

/// The devices on which turning encryption on was interrupted before the first encrypted segment.
/// The log has five records.
fn interrupted() -> Vec<MemStorage> {
    let plain = MemStorage::new();
    let log = open(&tiny(1), &plain).unwrap();
    for number in 1..=5 {
        log.append(&payload(number, 0, 50)).unwrap();
    }
    log.close().unwrap();
    let mut found = vec![];
    for stop in 0.. {
        let device = plain.kill();
        device.stop_after(stop);
        let options = again(2).key(Key::new(&KEY)).encrypt(Padding::Off);
        let opened = open(&options, &device);
        let is_done = opened.is_ok();
        drop(opened);
        let left = device.power_cut(|_| false);
        found.extend(Some(left).filter(is_about_to_encrypt));
        if is_done {
            break;
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn no_plain_record_follows_if_the_keys_are_lost_before_the_first_encrypted_segment() {
    for device in interrupted() {
        // The control: with the keys, the log is continued and encrypted.
        let whole = device.kill();
        let log = open(&again(3).key(Key::new(&KEY)), &whole).unwrap();
        assert_eq!(log.append(b"a secret").unwrap(), lsn(6));
        drop(log);
        for is_damaged in [true, false] {
            let device = device.kill();
            if is_damaged {
                damage_keys(&device);
            } else {
                device.remove_raw("keys");
            }
            keys_are_lost(&device);
        }
    }
}

/// Checks every call on a log whose keys were lost before a record was encrypted.
fn keys_are_lost(device: &MemStorage) {
    let (before, storage) = (contents(device), storage(device));
    let keyed = || again(3).key(Key::new(&KEY));
    let keyed_maintenance = || Maintenance::on(&storage).key(Key::new(&KEY));
    for mode in [OpenMode::Strict, OpenMode::Standard, OpenMode::Salvage] {
        are_lost("open", lsn(6), open(&keyed().mode(mode), device));
        are_lost("encrypt", lsn(6), open(&keyed().mode(mode).encrypt(Padding::Off), device));
    }
    are_lost("plan a truncation", lsn(6), keyed_maintenance().plan_truncation());
    are_lost("truncate", lsn(6), keyed_maintenance().truncate_damaged_tail());
    are_lost("salvage", lsn(6), keyed_maintenance().salvage_to(Arc::new(MemStorage::new())));
    let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
    are_lost("back up", lsn(6), Maintenance::on(&storage).back_up_to(&target));
    for verified in [keyed_maintenance().verify(), Maintenance::on(&storage).verify()] {
        let verified = verified.unwrap();
        assert_eq!((verified.verdict, verified.records), (Verdict::Lost, 5));
        assert_eq!(verified.damage.first().map(|damage| damage.cause), Some(Corruption::Keys));
    }
    // The plain records are read, and then the reader says that the keys are lost.
    let options = Options::new().key(Key::new(&KEY));
    let reader: LogReader<[u8], Raw> = options.open_any_reader_in(storage.clone()).unwrap();
    let mut records = reader.read_from(Lsn::FIRST).unwrap();
    for number in 1..=5 {
        let (lsn, bytes) = records.next().unwrap().unwrap();
        assert_eq!((lsn.get(), bytes), (number, payload(number, 0, 50)));
    }
    are_lost("read", lsn(6), records.next().unwrap());
    assert!(before == contents(device), "something was changed");
    // The way out: a copy that is not encrypted.
    let copy = MemStorage::new();
    let report = Maintenance::on(&storage).salvage_to(Arc::new(copy.clone())).unwrap();
    assert_eq!((report.records, report.given_up.len()), (5, 0));
    let log: Bytes = open(&again(4), &copy).unwrap();
    assert_eq!(log.append(b"in a plain log").unwrap(), lsn(6));
}
