//! `seawall disk serve --export vhost-user:SOCK` as a process.

#![cfg(all(feature = "vhost-user", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::tool::Folder;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;

#[test]
fn guest_finds_a_socket_and_status_and_stop_know_it() {
    let folder = Folder::new("guest");
    let mut child = folder.start("disk serve vd --size 1MiB --export vhost-user:s -q");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready vhost-user s\n");
    UnixStream::connect(folder.path("s")).unwrap();
    let status = folder.run("disk status vd --json", b"");
    assert_eq!(status.code, 0, "{status:?}");
    let status: serde_json::Value = serde_json::from_slice(&status.out).unwrap();
    assert_eq!(status["ready"], "vhost-user s");
    assert!(status["uri"].as_str().unwrap().ends_with("/s"), "{status}");
    assert_eq!(folder.run("disk stop vd -q", b"").code, 0);
    assert!(child.wait().unwrap().success());
    // The lock file stays, as for every socket.
    assert_eq!(folder.names("."), ["s.lock", "vd", "vd.seawall"]);
}
