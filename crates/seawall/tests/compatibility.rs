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

use crate::common::programs;
use crate::common::sample::Sample;
use event::Event;
use image::Files;
use observe::{Expected, observe, storage};
use seawall::{Codec, Json, LogReader, Lsn, MessagePack, Options, Positional};
use seawall_io::{PosixStorage, Storage};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The second reader, in Python.
const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reader.py");

/// The number of golden files: none is ever removed.
const CASES: usize = 154;

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
