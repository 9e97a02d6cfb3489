//! `seawall/cwal.hpp`: programs written for `CWal` work, and each error of `CWal` is avoided here.

use crate::programs::{parses, program};
use crate::sanitizers::checked;
use crate::toolchain::{Scratch, compile, crate_folder, has, run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the program once for all tests. `None` without the compiler.
fn built() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let scratch = Scratch::new();
        let built = checked(&scratch, ("g++", &["-std=c++17"], &program("cwal.cpp")))?;
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cwal");
        std::fs::copy(built, &kept).unwrap();
        Some(kept)
    });
    built.as_ref()
}

/// Runs one case of `cwal.cpp` on a fresh log.
fn case(name: &str) {
    let scratch = Scratch::new();
    if let Some(program) = built() {
        run(Command::new(program).arg(name).arg(scratch.join("log")));
    }
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test] fn $name() { case(stringify!($name)); })*
    };
}

cases! {
    example_of_the_readme_works
    random_entries_are_read_back
    every_method_works
    fsync_covers_the_newest_entry
    failed_sync_is_reported
    rotation_shows_no_stale_entry
    killed_writer_is_recovered
    unfinished_entry_is_removed
    flipped_byte_yields_no_wrong_entry
    damage_is_named_with_its_place
    file_of_cwal_is_refused_and_kept
    entries_are_appended_without_waiting
    awaited_entry_survives_a_kill
    copy_repairs_a_damaged_log
    views_copy_nothing
}

#[test]
fn cwal_header_has_no_warning() {
    for (compiler, standard) in
        [("g++", "c++20"), ("g++", "c++2b"), ("clang++", "c++17"), ("clang++", "c++2b")]
    {
        if has(compiler) {
            parses(compiler, ("c++", standard), &program("cwal.cpp"));
        }
    }
}

#[test]
fn benchmarks_of_cwal_run_by_both_methods() {
    let scratch = Scratch::new();
    let source = crate_folder().join("examples/cwal_bench.cpp");
    let Some(bench) = compile(&scratch, ("g++", &["-std=c++17"], &source)) else { return };
    let ran = |arguments: &[&str]| {
        let mut bench = Command::new(&bench);
        run(bench
            .args(["--size", "50", "--rounds", "1", "--dir"])
            .arg(scratch.join(""))
            .args(arguments))
    };
    let all = ran(&["--logs", "64"]);
    assert_eq!(all.matches("64 entries | data_length = 50").count(), 6, "{all}");
    // 8 and 4 are the square root and the cube root of 64.
    for parameters in [
        "Flush? No | Sync? No\n",
        "Flush? Yes | Sync? No\n",
        "Sync? Yes | SYNC_PERIOD = 1\n",
        "Sync? Yes | SYNC_PERIOD = 10\n",
        "BATCH_SIZE = 8 | SYNC_PERIOD = 1\n",
        "BATCH_SIZE = 4 | SYNC_PERIOD = 1\n",
    ] {
        assert!(all.contains(parameters), "{parameters}: {all}");
    }
    assert_eq!(all.matches("==> seawall / stream: ").count(), 6, "{all}");
    let chosen = ran(&["--logs", "20", "--flush", "--fsync", "--sync-period", "3", "--batch", "7"]);
    assert!(chosen.contains("BATCH_SIZE = 7 | SYNC_PERIOD = 3\n"), "{chosen}");
}
