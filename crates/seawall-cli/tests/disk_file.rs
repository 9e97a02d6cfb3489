//! `seawall disk serve --export fuse:FILE` from outside: killed, started again, stopped. As root
//! alone, with /dev/fuse.

#![cfg(all(feature = "fuse", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use crate::tool;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use tool::Folder;

const SERVE: &str = "disk serve vd --size 1MiB --export fuse:file -q";

/// A server that is ready, or what it said in place of that.
fn served(folder: &Folder) -> (Child, String) {
    let mut child = folder.start(SERVE);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn shell(folder: &Folder, line: &str) -> String {
    let done = Command::new("sh").args(["-ec", line]).current_dir(folder.path(".")).output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() { said } else { format!("FAILED: {done:?}") }
}

#[test]
fn killed_server_needs_no_cleanup_and_a_stopped_one_leaves_no_file() {
    if shell(&Folder::new("fuse-can"), "test -w /dev/fuse && id -u").trim() != "0" {
        eprintln!("SKIPPED: {}: it takes root and /dev/fuse", module_path!());
        return;
    }
    let folder = Folder::new("fuse");
    let (mut child, line) = served(&folder);
    assert_eq!(line, "ready fuse file\n");
    assert_eq!(shell(&folder, "stat -c %s file"), "1048576\n");
    let write = "printf home | dd of=file bs=1 seek=5000 conv=notrunc,fsync status=none";
    assert_eq!(shell(&folder, write), "");
    // A second server of this image finds the first one.
    assert_eq!(served(&folder).1, "");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shell(&folder, "cat file").starts_with("FAILED"));

    let (mut child, line) = served(&folder);
    assert_eq!(line, "ready fuse file\n");
    let read = "dd if=file bs=1 skip=5000 count=4 status=none";
    assert_eq!(shell(&folder, read), "home");
    assert_eq!(shell(&folder, &format!("kill -TERM {}", child.id())), "");
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.names("."), ["vd", "vd.seawall"]);
}

#[test]
fn existing_file_is_not_hidden_by_the_mount() {
    let folder = Folder::new("fuse-there");
    folder.write("file", b"mine");
    let ran = folder.run(SERVE, b"");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(folder.read("file"), b"mine");
}
