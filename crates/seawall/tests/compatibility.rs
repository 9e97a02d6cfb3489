//! Golden files: logs of frozen format versions. Every release reads them and reports the recorded
//! results. `golden/README.md` has the rules. The code that made the files is not part of this.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

#[path = "golden/event.rs"]
mod event;
#[path = "golden/image.rs"]
mod image;
#[path = "golden/observe.rs"]
mod observe;
#[path = "golden/second.rs"]
mod second;

#[cfg(feature = "encryption")]
use crate::common;
use crate::common::programs;
use crate::common::sample::Sample;
use event::Event;
use image::Files;
use observe::{Expected, observe, storage};
#[cfg(feature = "encryption")]
use seawall::Raw;
#[cfg(feature = "encryption")]
use seawall::encryption::Key;
use seawall::{Codec, Json, LogReader, Lsn, MessagePack, Options, Positional};
use seawall_io::{PosixStorage, Storage};
#[cfg(feature = "encryption")]
use seawall_testkit::MemStorage;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
#[cfg(feature = "encryption")]
use std::sync::Arc;

/// The second reader, in Python.
const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reader.py");

/// The number of golden files: none is ever removed.
const CASES: usize = 156;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/1")
}

/// Each golden file: its name, its files and the expected results.
fn cases() -> Vec<(String, Files, Expected)> {
    let folder = folder();
    let names = PosixStorage::open(&folder).unwrap().list().unwrap().into_iter();
    let names: Vec<_> =
        names.filter_map(|name| Some(name.strip_suffix(".bytes")?.to_owned())).collect();
    assert!(names.len() >= CASES, "a golden file is gone: {} are there", names.len());
    let case = |name: String| {
        let files = image::load(&folder, &name);
        let text = image::read(&folder, &format!("{name}.json"));
        let expected = serde_json::from_str(&text).unwrap();
        (name, files, expected)
    };
    names.into_iter().map(case).collect()
}

#[test]
fn every_golden_file_gives_its_recorded_results() {
    for (name, files, expected) in cases() {
        let seen = observe(&files);
        // The description and the second reader's result are not computed here.
        let what = expected.what.clone();
        let seen = Expected { what, second_reader: expected.second_reader, ..seen };
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn second_reader_agrees_on_every_golden_file() {
    if !second::is_there() {
        let _ = writeln!(io::stderr(), "SKIPPED: no python3 of 3.8 or later is installed");
        return;
    }
    let (scratch, mut sample) = (std::env::temp_dir(), Sample::one_in(16));
    for (name, files, expected) in cases().into_iter().filter(|_| sample.takes_next()) {
        if !second::has_cipher_for(&files) {
            let skipped = "SKIPPED: python3 has no package cryptography with AES-GCM-SIV";
            let _ = writeln!(io::stderr(), "{name}: {skipped}");
            continue;
        }
        let folder = scratch.join(format!("seawall-golden-{}-{name}", std::process::id()));
        let (code, shown) = second::ask(&files, &folder);
        assert_eq!((code, shown.len()), expected.second_reader, "{name}");
        assert!(expected.records.starts_with(&shown), "{name}: {shown:?}");
    }
}

/// The logs that an interrupted change from one key to the other leaves, whose slots of `keys` have
/// different keys. They hold three records.
#[cfg(feature = "encryption")]
fn half_changed(old: &Key, new: &Key) -> Vec<MemStorage> {
    let before = MemStorage::new();
    let open = |device: &MemStorage, seed| {
        let options = common::tiny(seed).key(old.clone());
        options.open_in::<[u8], Raw>(Arc::new(device.clone()))
    };
    let log = open(&before, 1).unwrap();
    for number in 1..=3 {
        log.append(&common::payload(number, 0, 50)).unwrap();
    }
    log.close().unwrap();
    let mut found = vec![];
    for stop in 0.. {
        let device = before.kill();
        device.stop_after(stop);
        let changed = open(&device, 2).and_then(|log| log.change_key(new));
        let left = device.power_cut(|_| false);
        let file = left.bytes("keys").unwrap();
        let key_id = |slot: usize| file[slot + 40..slot + 56].to_vec();
        found.extend(Some(left).filter(|_| key_id(0) != key_id(65_536)));
        if changed.is_ok() {
            break;
        }
    }
    assert!(!found.is_empty());
    found
}

#[cfg(feature = "encryption")]
#[test]
fn both_readers_use_the_newest_slot_of_keys_that_the_key_opens() {
    let (key, other) = (Key::new(&observe::KEY), Key::new(&[9; 32]));
    let devices = [half_changed(&key, &other), half_changed(&other, &key)].concat();
    for (number, device) in devices.iter().enumerate() {
        for key in [&key, &other] {
            let options = Options::new().key(key.clone());
            let storage: Arc<dyn Storage> = Arc::new(device.kill());
            let reader: LogReader<[u8], Raw> = options.open_any_reader_in(storage).unwrap();
            let found = reader.read_from(Lsn::FIRST).unwrap().map(Result::unwrap);
            assert_eq!(found.count(), 3, "device {number}");
        }
        let names = device.names().into_iter().filter(|name| name != "lock" && name != "live");
        let files: Files = names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect();
        if !second::is_there() || !second::has_cipher_for(&files) {
            let skipped = "SKIPPED: no python3 with the package cryptography and AES-GCM-SIV";
            let _ = writeln!(io::stderr(), "{skipped}");
            return;
        }
        let name = format!("seawall-two-keys-{}-{number}", std::process::id());
        let (code, shown) = second::ask(&files, &std::env::temp_dir().join(name));
        assert_eq!((code, shown.len()), (0, 3), "device {number}");
    }
}

#[test]
fn typed_records_are_read_back_field_by_field() {
    typed::<Json>("json");
    typed::<MessagePack>("msgpack");
    typed::<Positional>("positional");
}

fn typed<C: Codec<Event, Item = Event>>(name: &str) {
    let files = image::load(&folder(), name);
    let options = Options::new().type_name("Event").schema(4);
    let reader: LogReader<Event, C> = options.open_reader_in(storage(&files)).unwrap();
    assert_eq!((reader.type_name(), reader.schema()), ("Event", 4), "{name}");
    let found: Vec<_> = reader.read_from(Lsn::FIRST).unwrap().map(Result::unwrap).collect();
    let events = (1..=Event::COUNT).map(|lsn| (Lsn::new(lsn).unwrap(), Event::of(lsn)));
    assert_eq!(found, events.collect::<Vec<_>>(), "{name}");
}

/// The text form of a golden file is complete.
#[test]
fn rewritten_golden_file_is_identical() {
    for (name, files, _) in cases() {
        let folder = std::env::temp_dir();
        let again = format!("seawall-golden-again-{}-{name}", std::process::id());
        let place = PosixStorage::open(&folder).unwrap();
        let file = place.create(&format!("{again}.bytes")).unwrap();
        file.write_at(image::show(&files).as_bytes(), 0).unwrap();
        let loaded = image::load(&folder, &again);
        place.remove(&format!("{again}.bytes")).unwrap();
        assert!(loaded == files, "{name}");
    }
}
