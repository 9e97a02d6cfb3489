//! Compression on the command line: the setting of a log, the size, and refused combinations.

use crate::tool;

use serde_json::json;
use tool::Folder;

fn lines() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("record {n:05} is here\n").into_bytes()).collect()
}

#[test]
fn log_stays_compressed_until_that_is_turned_off() {
    let folder = Folder::new("compression");
    let stat = || folder.run("stat log --json", b"").fine().json().remove(0);
    folder.run("append log -q --compress lz4", &lines()).fine();
    let first = stat();
    assert_eq!((&first["compression"], &first["verdict"]), (&json!("lz4"), &json!("clean")));
    let [stored, plain] = ["stored_bytes", "plain_bytes"].map(|name| first[name].as_u64().unwrap());
    assert!(first["compressed_batches"].as_u64() > Some(0) && stored < plain / 2, "{first}");
    let text = folder.run("stat log", b"");
    assert!(text.text().contains("\n  compression  lz4   "), "{}", text.text());
    folder.run("append log -q", &lines()).fine();
    let second = stat();
    assert!(second["stored_bytes"].as_u64().unwrap() < stored * 3, "{second}");
    folder.run("append log -q --compress none", b"plain\n").fine();
    assert_eq!(stat()["compression"], "none");
    let shown = folder.run("cat log -o raw", b"");
    assert!(shown.out == [lines(), lines(), b"plain\n".to_vec()].concat());
}

#[test]
fn readable_log_is_not_compressed() {
    let folder = Folder::new("compression-text");
    let refused = folder.run("append log --log-format json --compress lz4", b"1\n");
    assert!(refused.refused(2).contains("a readable log cannot be compressed"));
    // Nothing was created.
    folder.run("append log --no-create", b"").refused(1);
}

#[test]
fn zstd_makes_a_log_smaller_or_is_refused_by_name() {
    let folder = Folder::new("compression-zstd");
    let append = folder.run("append log -q --compress zstd", &lines());
    if !cfg!(feature = "zstd") {
        let refused = append.refused(2);
        assert!(refused.contains("built with --features zstd"), "{refused}");
        folder.run("append log --no-create", b"").refused(1);
        return;
    }
    append.fine();
    folder.run("append other -q --compress lz4", &lines()).fine();
    let stored = ["log", "other"].map(|log| {
        let found = folder.run(&format!("stat {log} --json"), b"").fine().json().remove(0);
        assert_eq!(found["compression"], if log == "log" { "zstd" } else { "lz4" });
        found["stored_bytes"].as_u64().unwrap()
    });
    assert!(stored[0] < stored[1], "{stored:?}");
    assert!(folder.run("cat log -o raw", b"").out == lines());
    assert_eq!(folder.run("verify log", b"").code, 0);
}
