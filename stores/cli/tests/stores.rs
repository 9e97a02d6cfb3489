//! The command line replays a log into each store exactly once.

#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]
#![allow(clippy::disallowed_methods, reason = "these files are not a log's")]

use seawall_with_stores::STORES;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const OPERATIONS: &str = r#"{"atomic":[{"create_table":{"table":"account"}}]}
{"begin":1}
{"change":[1,{"merge":{"table":"account","key":"ada","operator":"append","operand":"x"}}]}
{"begin":2}
{"change":[2,{"put":{"table":"account","key":"bob","value":"9"}}]}
{"commit":1}
"#;

fn seawall(folder: &Path, arguments: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.args(arguments.split(' '));
    run(command, folder, input)
}

fn run(mut command: Command, folder: &Path, input: &str) -> Output {
    command.current_dir(folder).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn log_is_replayed_into_a_database_once_and_can_continue() {
    let folder = std::env::temp_dir().join(format!("seawall-with-stores-{}", std::process::id()));
    for kind in STORES {
        std::fs::create_dir(&folder).unwrap();
        let replay = format!("replay ops.wal --into {}:store", kind.name());
        assert!(seawall(&folder, "append ops.wal --format json", OPERATIONS).status.success());
        for _ in 0..3 {
            let replayed = seawall(&folder, &format!("{replay} --json"), "");
            assert!(replayed.status.success(), "{replayed:?}");
        }
        let more = "{\"commit\":2}\n";
        assert!(seawall(&folder, "append ops.wal --format json", more).status.success());
        assert!(seawall(&folder, &replay, "").status.success());
        let store = kind.open(&folder.join("store")).unwrap();
        let value = |key: &str| store.get("account", key.as_bytes()).unwrap();
        assert_eq!((value("ada"), value("bob")), (Some(b"x".to_vec()), Some(b"9".to_vec())));
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn database_with_truncated_records_exits_with_9() {
    let folder = std::env::temp_dir().join(format!("seawall-stores-cut-{}", std::process::id()));
    let one = "{\"atomic\":[{\"put\":{\"table\":\"\",\"key\":\"k\",\"value\":\"v\"}}]}\n";
    let run = |arguments: &str, input: &str| seawall(&folder, arguments, input);
    for kind in STORES {
        std::fs::create_dir(&folder).unwrap();
        let replay = format!("replay ops.wal --into {}:store", kind.name());
        assert!(run("append ops.wal --format json", &one.repeat(10)).status.success());
        assert!(run(&replay, "").status.success());
        assert!(run("truncate ops.wal --after 5 --yes", "").status.success());
        assert!(run("append ops.wal --format json", &one.repeat(7)).status.success());
        let refused = run(&replay, "");
        assert_eq!(refused.status.code(), Some(9), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("has applied LSN 10, but the log has another record"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

const ONE: &str = "{\"atomic\":[{\"put\":{\"table\":\"\",\"key\":\"k\",\"value\":\"v\"}}]}\n";

/// An empty folder with the log `ops.wal` of one record.
fn folder_with_a_log(name: &str) -> PathBuf {
    let name = format!("seawall-stores-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    assert!(seawall(&folder, "append ops.wal --format json", ONE).status.success());
    folder
}

/// Returns all names in a folder.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(names(&path));
        }
        found.insert(path);
    }
    found
}

#[test]
fn target_with_other_content_exits_with_9_unchanged() {
    for kind in STORES {
        let folder = folder_with_a_log("other");
        std::fs::write(folder.join("text"), "not a database\n".repeat(99)).unwrap();
        std::fs::create_dir(folder.join("folder")).unwrap();
        std::fs::write(folder.join("folder/file"), "not a database").unwrap();
        let before = names(&folder);
        for rest in ["text --dry-run", "text", "folder --dry-run", "folder"] {
            let replay = format!("replay ops.wal --into {}:{rest}", kind.name());
            let refused = seawall(&folder, &replay, "");
            assert_eq!(refused.status.code(), Some(9), "{replay}: {refused:?}");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(said.contains("give another path, or move away what is there"), "{said}");
        }
        assert_eq!(names(&folder), before);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn dry_run_creates_no_store_in_an_empty_directory_or_file() {
    for kind in STORES {
        let folder = folder_with_a_log("dry");
        match kind.name() {
            "redb" => {}
            "sqlite" => std::fs::write(folder.join("store"), "").unwrap(),
            _ => std::fs::create_dir(folder.join("store")).unwrap(),
        }
        let before = names(&folder);
        let replay = format!("replay ops.wal --into {}:store", kind.name());
        let planned = seawall(&folder, &format!("{replay} --dry-run"), "");
        let said = String::from_utf8_lossy(&planned.stdout);
        assert!(planned.status.success() && said.contains("nothing was changed"), "{planned:?}");
        assert_eq!(names(&folder), before);
        if kind.name() == "sqlite" {
            assert_eq!(std::fs::metadata(folder.join("store")).unwrap().len(), 0);
        }
        assert!(seawall(&folder, &replay, "").status.success());
        // A store under a file does not exist, but cannot be created either.
        std::fs::write(folder.join("file"), "").unwrap();
        let within = format!("replay ops.wal --into {}:file/x --dry-run", kind.name());
        assert_eq!(seawall(&folder, &within, "").status.code(), Some(1));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// SQLite itself takes these names for databases in memory.
#[test]
fn database_with_a_special_name_is_a_file() {
    let folder = folder_with_a_log("names");
    for name in [":memory:", "file:x?mode=memory"] {
        let replay = format!("replay ops.wal --into sqlite:{name} --json");
        for applied in ["\"applied\":1,", "\"applied\":0,"] {
            let replayed = seawall(&folder, &replay, "");
            let said = String::from_utf8_lossy(&replayed.stdout);
            assert!(said.contains(applied), "{name}: {replayed:?}");
        }
        assert!(folder.join(name).is_file(), "{name}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The stacks of the replay's threads do not fit into memory. These two stores need no threads of
/// their own.
#[test]
fn thread_that_cannot_start_is_an_error() {
    let folder = std::env::temp_dir().join(format!("seawall-no-thread-{}", std::process::id()));
    let one = "{\"atomic\":[{\"put\":{\"table\":\"\",\"key\":\"k\",\"value\":\"v\"}}]}\n";
    for kind in ["redb", "sqlite"] {
        std::fs::create_dir(&folder).unwrap();
        // Appends more records than a small replay keeps in memory.
        let append = "append ops.wal --format json --level buffered";
        assert!(seawall(&folder, append, &one.repeat(66_000)).status.success());
        let mut replay = Command::new(env!("CARGO_BIN_EXE_seawall"));
        replay.args(["replay", "ops.wal", "--into", &format!("{kind}:store")]);
        replay.env("RUST_MIN_STACK", (1_u64 << 50).to_string());
        let refused = run(replay, &folder, "");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot start a thread of the replay"), "{said}");
        assert!(said.contains("replay again when fewer threads run"), "{said}");
        let again = seawall(&folder, &format!("replay ops.wal --into {kind}:store"), "");
        assert!(again.status.success(), "{again:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
