//! Each example runs and prints what it should.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::Scratch;
use common::programs::output;
use std::process::Command;

/// Runs an example with `arguments`. Returns whether it succeeded, and its output.
fn run(example: &str, arguments: &[&str]) -> (bool, String) {
    let here = std::env::current_exe().unwrap();
    let target = here.parent().and_then(std::path::Path::parent).unwrap();
    let program = target.join("examples").join(example);
    let ran = output(Command::new(&program).args(arguments));
    let ran = ran.unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo build --examples` makes it", program.display())
    });
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn hello_finds_what_it_wrote_before() {
    let folder = Scratch::new("example-hello");
    let path = folder.path.to_str().unwrap();
    run("hello", &[path]);
    let said = "record 2 is durable; so far there are:\n1: hello\n2: hello\n";
    assert_eq!(run("hello", &[path]), (true, said.to_owned()));
}

#[test]
fn typed_events_add_up_across_starts() {
    let folder = Scratch::new("example-typed");
    let path = folder.path.to_str().unwrap();
    assert_eq!(run("typed_events", &[path]), (true, "1 Ada: 200\n2 Bob: 100\n".to_owned()));
    assert_eq!(run("typed_events", &[path]), (true, "1 Ada: 400\n2 Bob: 200\n".to_owned()));
    // The log there holds other records than greetings.
    assert!(!run("queue", &[path]).0);
}

#[test]
fn listing_of_the_paper_restores_what_it_wrote() {
    let folder = Scratch::new("example-paper");
    let path = folder.path.to_str().unwrap();
    assert_eq!(run("paper_listing", &[path]), (true, "restored 42\n".to_owned()));
    assert_eq!(run("paper_listing", &[path]), (true, "restored 42\nrestored 42\n".to_owned()));
    // Where no log can be created, the example reports an error.
    let (done, said) = run("paper_listing", &["/dev/null/records.wal"]);
    assert!(!done && said.starts_with("Something went wrong: "), "{said}");
}

#[test]
fn own_codec_keeps_its_records_as_lines_of_csv() {
    let folder = Scratch::new("example-codec");
    let path = folder.path.to_str().unwrap();
    assert_eq!(run("own_codec", &[path]), (true, "1: roof -3.25\n".to_owned()));
    assert_eq!(run("own_codec", &[path]), (true, "1: roof -3.25\n2: roof -3.25\n".to_owned()));
    let text = seawall::LogReader::open_any(&folder.path).unwrap().get(common::lsn(2)).unwrap();
    assert_eq!(text.as_deref(), Some(&b"roof,-3.25"[..]));
    assert!(!run("typed_events", &[path]).0, "other records have no business there");
}

#[test]
fn the_store_keeps_its_map_across_starts_and_compaction() {
    let folder = Scratch::new("example-store");
    let path = folder.path.to_str().unwrap();
    let store = |rest: &[&str]| run("kv_store", &[&[path], rest].concat());
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        assert!(store(&["put", key, value]).0);
    }
    assert!(store(&["compact"]).0);
    assert!(store(&["remove", "b"]).0);
    assert_eq!(store(&["list"]), (true, "a\t3\n".to_owned()));
    assert!(!store(&["get", "b"]).0);
}

#[test]
fn follow_sees_every_event() {
    let folder = Scratch::new("example-follow");
    let (fine, said) = run("follow", &[folder.path.to_str().unwrap()]);
    assert!(fine);
    assert!(said.starts_with("1: event 1\n2: event 2\n3: event 3\n4: event 4\n5: event 5\n"));
    assert!(said.ends_with("begin at 6\n"), "{said}");
}

#[test]
fn repair_after_damage_rescues_the_others() {
    let folder = Scratch::new("example-repair");
    let (fine, said) = run("repair_after_damage", &[folder.path.to_str().unwrap()]);
    assert!(fine, "{said}");
    assert!(said.contains("lost: record 3"), "{said}");
    assert!(said.ends_with("2: payment number 2\n4: payment number 4\n5: payment number 5\n"));
}

#[test]
fn committers_get_every_record_acknowledged() {
    let folder = Scratch::new("example-committers");
    let (fine, said) = run("committers", &[folder.path.to_str().unwrap(), "4", "40"]);
    assert!(fine);
    assert_eq!(said.lines().count(), 40);
}
