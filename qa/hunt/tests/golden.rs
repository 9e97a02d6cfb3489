//! Checks that the current writer makes the golden files of format 1, byte for byte. The writer may
//! change as long as `compatibility.rs` of the log passes. Then its new bytes are added next to the
//! old ones, under new names.

use seawall_hunt::golden::cases;
use seawall_io::{Access, PosixStorage, Storage};
use std::collections::BTreeSet;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/seawall/tests/golden/1");

#[test]
fn the_writer_of_today_makes_the_same_bytes() {
    let folder = PosixStorage::open(Path::new(FOLDER)).unwrap();
    for case in cases() {
        let file = folder.open(&format!("{}.bytes", case.name), Access::Read).unwrap();
        let mut there = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        assert_eq!(file.read_at(&mut there, 0).unwrap(), there.len());
        let (made, there) = (without_hint(&case.text), String::from_utf8(there).unwrap());
        assert!(made == without_hint(&there), "{} is not what the writer makes today", case.name);
    }
}

/// Removes an empty `live`. Whether its name reached the device before a power cut depends on when
/// the file was created, and an empty file carries no information.
fn without_hint(text: &str) -> String {
    text.replace("file live 0\n", "")
}

#[test]
fn no_two_golden_files_have_one_name() {
    let cases = cases();
    let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
}
