//! `seawall disk serve --export fuse:FILE` and `fuse-dir:DIR` as a process: killed, restarted,
//! stopped. Needs root and /dev/fuse.

#![cfg(all(feature = "fuse", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::tool;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use tool::{Folder, skipped};

const SERVE: &str = "disk serve vd --size 1MiB --export fuse:file -q";
const SERVE_FOLDER: &str = "disk serve vd --size 4MiB --export fuse-dir:log --power ok -q";

/// Starts a server; returns it with its first line of output, which is empty if it failed.
fn served(folder: &Folder, line: &str) -> (Child, String) {
    let mut child = folder.start(line);
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

fn can_mount() -> bool {
    if shell(&Folder::new("fuse-can"), "test -w /dev/fuse && id -u").trim() == "0" {
        return true;
    }
    skipped(&format!("{}: it takes root and /dev/fuse", module_path!()));
    false
}

#[test]
fn killed_server_needs_no_cleanup_and_a_stopped_one_leaves_no_file() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("fuse");
    let (mut child, line) = served(&folder, SERVE);
    assert_eq!(line, "ready fuse file\n");
    assert_eq!(shell(&folder, "stat -c %s file"), "1048576\n");
    let write = "printf home | dd of=file bs=1 seek=5000 conv=notrunc,fsync status=none";
    assert_eq!(shell(&folder, write), "");
    // A second server of this image is refused.
    assert_eq!(served(&folder, SERVE).1, "");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shell(&folder, "cat file").starts_with("FAILED"));

    let (mut child, line) = served(&folder, SERVE);
    assert_eq!(line, "ready fuse file\n");
    let read = "dd if=file bs=1 skip=5000 count=4 status=none";
    assert_eq!(shell(&folder, read), "home");
    assert_eq!(shell(&folder, &format!("kill -TERM {}", child.id())), "");
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.names("."), ["vd", "vd.seawall"]);
}

/// The disk is armed: the files are in the memory of the keeper when the server is killed.
#[test]
fn folder_has_all_files_after_a_kill_and_after_a_stop() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("fuse-dir");
    let (mut child, line) = served(&folder, SERVE_FOLDER);
    assert_eq!(line, "ready fuse-dir log\n");
    let write = "mkdir log/sub; for n in 1 2 3 4 5 6 7 8; do \
                 head -c 100000 /dev/urandom > log/sub/$n; done; sync log/sub/8; rm log/sub/3; \
                 mv log/sub/1 log/sub/2; mv log/sub/4 log/other; chmod 600 log/other; \
                 dd if=/dev/zero of=log/other bs=8k count=1 seek=3 conv=notrunc,fdatasync \
                 status=none; sync log/sub";
    assert_eq!(shell(&folder, write), "");
    let show = "cd log; find . | sort; find . -type f | sort | xargs cksum; stat -c '%a %s' other";
    let before = shell(&folder, show);
    assert_eq!(before.lines().count(), 8 + 6 + 1, "{before}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shell(&folder, "ls log").starts_with("FAILED"));

    let (mut child, line) = served(&folder, SERVE_FOLDER);
    assert_eq!(line, "ready fuse-dir log\n");
    assert_eq!(shell(&folder, show), before);
    for use_it in ["true", "exec 7< log/other; cp log/other log/copy; rm log/copy"] {
        assert_eq!(shell(&folder, use_it), "");
        assert_eq!(shell(&folder, &format!("kill -TERM {}", child.id())), "");
        assert!(child.wait().unwrap().success());
        assert_eq!(folder.names("."), ["vd", "vd.seawall"]);
        (child, _) = served(&folder, SERVE_FOLDER);
        assert_eq!(shell(&folder, show), before);
    }
    assert_eq!(shell(&folder, &format!("kill -TERM {}", child.id())), "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn disk_of_another_export_is_not_overwritten() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new("fuse-dir-else");
    folder.write("vd", &vec![7; 4 << 20]);
    let ran = folder.run(SERVE_FOLDER, b"");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(folder.read("vd") == vec![7; 4 << 20]);
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
