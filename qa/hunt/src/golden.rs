//! The golden files of format 1: logs, stored as text, that are intact, torn, damaged, truncated,
//! checkpointed, readable, with parity, or encrypted. `crates/seawall/tests/golden/README.md` says
//! how they are used.
//!
//! This code determines every byte of them: times and random bits are fixed.

mod closing;
mod compressed;
mod damaged;
mod encrypted;
#[path = "../../../crates/seawall/tests/golden/event.rs"]
mod event;
mod handmade;
#[path = "../../../crates/seawall/tests/golden/image.rs"]
mod image;
#[path = "../../../crates/seawall/tests/golden/observe.rs"]
mod observe;
#[allow(dead_code, reason = "only tests use all of it")]
#[path = "../../../crates/seawall-host/src/programs.rs"]
mod programs;
#[path = "../../../crates/seawall/tests/golden/second.rs"]
mod second;
mod written;

use image::Files;
use seawall_io::{PosixStorage, Storage};
use std::io;
use std::path::Path;

/// The second reader, a Python program.
const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reader.py");

/// One golden file: its name, its description, and its bytes as text.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of its two files, without extension.
    pub name: &'static str,
    what: &'static str,
    /// The content of `NAME.bytes`.
    pub text: String,
}

impl Case {
    fn of(name: &'static str, what: &'static str, files: &Files) -> Self {
        Self { name, what, text: format!("# {what}\n{}", image::show(files)) }
    }

    fn from(name: &'static str, what: &'static str, edits: &str) -> Self {
        Self { name, what, text: format!("# {what}\n{edits}") }
    }
}

/// Returns all cases. A case comes after the one it is derived from.
#[must_use]
pub fn cases() -> Vec<Case> {
    let sound: Vec<(Case, Files)> =
        [written::all(), handmade::all(), compressed::all(), encrypted::all()].concat();
    let marked = closing::all(&sound);
    let without_mark = |(case, files): (Case, Files)| {
        let files = closing::without_mark(files);
        (Case::of(case.name, case.what, &files), files)
    };
    let sound: Vec<_> = sound.into_iter().map(without_mark).collect();
    let find = |name: &str| {
        let found = sound.iter().find(|(case, _)| case.name == name);
        found.map(|(_, files)| files.clone()).unwrap()
    };
    let damaged = [damaged::all(&find), encrypted::changed(&find)].concat();
    sound.into_iter().map(|(case, _)| case).chain(damaged).chain(marked).collect()
}

/// Writes the missing golden files into `folder`; returns their names.
///
/// # Errors
///
/// An error of the storage, or Python is missing, which the second reader needs.
///
/// # Panics
///
/// If the second reader shows records that differ from those the library reads.
pub fn write(folder: &Path) -> io::Result<Vec<&'static str>> {
    if !second::is_there() {
        return Err(io::Error::other("there is no python3 of 3.8 or later"));
    }
    let storage = PosixStorage::open(folder)?;
    let there = storage.list()?;
    let mut made = vec![];
    for case in cases() {
        let [bytes, json] = ["bytes", "json"].map(|kind| format!("{}.{kind}", case.name));
        if !there.contains(&bytes) {
            storage.create(&bytes)?.write_at(case.text.as_bytes(), 0)?;
        }
        if there.contains(&json) {
            continue;
        }
        let files = image::load(folder, case.name);
        assert!(second::has_cipher_for(&files), "install the package cryptography for python3");
        let seen = observe::observe(&files);
        let (code, shown) = second::ask(&files, &folder.join("second-reader"));
        assert!(seen.records.starts_with(&shown), "{}: {shown:?}", case.name);
        let second_reader = (code, shown.len());
        let expected = observe::Expected { what: case.what.to_owned(), second_reader, ..seen };
        let text = serde_json::to_string_pretty(&expected).map_err(io::Error::other)?;
        storage.create(&json)?.write_at(format!("{text}\n").as_bytes(), 0)?;
        made.push(case.name);
    }
    Ok(made)
}
