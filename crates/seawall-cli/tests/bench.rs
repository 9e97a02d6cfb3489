//! `seawall bench append`: its measurements, its output, and that it leaves no files. Speed is
//! never checked.

use crate::tool;

use tool::{Folder, beside_others};

#[test]
fn commits_are_compared_with_plain_syncs() {
    let folder = Folder::new("bench-append");
    let ran = beside_others(|| folder.run("bench append --writers 1,2 --time 0.1 --json", b""));
    let found = &ran.fine().json()[0];
    assert_eq!(found["schema"], "seawall.bench-append/1");
    let share = found["others_share"].as_f64();
    assert!(share.is_none_or(|share| share >= 0.05), "{found}");
    assert_eq!(found["ranked"], false, "{found}");
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for (row, writers) in results.iter().zip([1, 2]) {
        assert_eq!(row["writers"], writers);
        for field in ["commits_per_s", "p50_us", "p99_us", "raw_ratio"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{row}");
        }
    }
    assert_eq!(folder.names("."), [""; 0]);
    folder.run("bench append --dir nowhere", b"").refused(1);
}

#[test]
fn table_of_commits_fits_a_terminal() {
    let folder = Folder::new("bench-append-text");
    let ran = beside_others(|| folder.run("bench append --writers 2 --tasks --time 0.1", b""));
    let text = ran.fine().text();
    for part in ["116-byte records, synced, by tasks of one thread", "\n      2", "not ranked"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(folder.names("."), [""; 0]);
}

/// Each of two threads wants more memory than there can be.
#[test]
fn threads_that_cannot_start_are_an_error() {
    let folder = Folder::new("bench-threads");
    let ran =
        folder.shell("RUST_MIN_STACK=1152921504606846976 seawall bench append --writers 1,2", b"");
    assert!(ran.refused(1).contains("cannot start 2 threads"), "{ran:?}");
}
