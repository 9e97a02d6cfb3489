//! Runs every fuzz target on its seeds, on inputs that fuzzers found, and on thousands of changed
//! inputs. Fuzzers run for hours elsewhere; this test takes seconds, on any toolchain.

use seawall_hunt::random::Random;
use seawall_hunt::targets::{TARGETS, Target, mutated};
use seawall_io::{Access, PosixStorage, Storage};
use std::panic::{AssertUnwindSafe, catch_unwind};

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz");

/// Number of changed inputs for each target; the environment variable `SEAWALL_CASES` overrides it.
fn cases(usual: u64) -> u64 {
    let asked = std::env::var("SEAWALL_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(usual)
}

/// Reads the files of a folder of inputs, if it exists.
fn inputs(folder: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(storage) = PosixStorage::open(std::path::Path::new(folder)) else { return vec![] };
    let read = |name: &String| {
        let file = storage.open(name, Access::Read).expect("it is listed");
        let mut bytes = vec![0; usize::try_from(file.len().expect("a length")).expect("small")];
        file.read_at(&mut bytes, 0).expect("it can be read");
        bytes
    };
    let names = storage.list().expect("it can be listed");
    names.into_iter().map(|name| (format!("{folder}/{name}"), read(&name))).collect()
}

fn run(target: &Target, bytes: &[u8], what: &str) {
    let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    assert!(ran.is_ok(), "{}: {what}: {} bytes: {bytes:02x?}", target.name, bytes.len());
}

fn replay(target: &Target) {
    for folder in ["seeds", "found"] {
        for (name, bytes) in inputs(&format!("{FUZZ}/{folder}/{}", target.name)) {
            run(target, &bytes, &name);
        }
    }
    let seeds = (target.seeds)();
    for (index, seed) in seeds.iter().enumerate() {
        run(target, seed, &format!("seed {index}"));
    }
    let usual = match target.name {
        "folder" => 3000,
        "sealed" => 1500,
        "parity" => 2000,
        _ => 5000,
    };
    for number in 0..cases(usual) {
        let bytes = mutated(&seeds, &mut Random::new(number));
        run(target, &bytes, &format!("changed input {number}"));
    }
}

#[test]
fn no_input_of_fixed_size_breaks_a_target() {
    let names = ["header", "manifest", "slots", "live", "batch", "codecs"];
    TARGETS.iter().filter(|target| names.contains(&target.name)).for_each(replay);
}

#[test]
fn no_segment_and_no_text_breaks_a_target() {
    let names = ["scan", "line", "text"];
    TARGETS.iter().filter(|target| names.contains(&target.name)).for_each(replay);
}

#[test]
fn no_foreign_log_breaks_a_target() {
    let names = ["cwal", "cwal_text", "msgpack", "json"];
    TARGETS.iter().filter(|target| names.contains(&target.name)).for_each(replay);
}

#[test]
fn no_batch_and_no_key_that_makes_no_sense_is_taken() {
    let names = ["encrypted", "keys"];
    TARGETS.iter().filter(|target| names.contains(&target.name)).for_each(replay);
}

#[test]
fn nothing_that_is_authentic_breaks_recovery_and_nothing_else_is_delivered() {
    TARGETS.iter().filter(|target| target.name == "sealed").for_each(replay);
}

#[test]
fn no_folder_of_forged_files_breaks_recovery() {
    TARGETS.iter().filter(|target| target.name == "folder").for_each(replay);
}

#[test]
fn no_file_of_parity_changes_or_takes_a_record() {
    TARGETS.iter().filter(|target| target.name == "parity").for_each(replay);
}
