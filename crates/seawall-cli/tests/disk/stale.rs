//! A dump is restored only if the image was not written since. In doubt the server refuses to start
//! and changes nothing.

use super::power::with_dump;
use super::*;
use seawall_io::{Clock, SystemClock};

/// Waits longer than the time after a dump in which a change to the image may be the server's own.
pub(super) fn wait_until_changes_are_foreign() {
    SystemClock::new().sleep(Duration::from_millis(2200));
}

fn needle_of(folder: &Folder) -> Vec<u8> {
    folder.read("vd")[32768..32774].to_vec()
}

/// Serves with these arguments, writes newer data over the needle's place, and ends cleanly.
fn write_newer(folder: &Folder, arguments: &str) {
    let server = Server::start(folder, &format!("{arguments} --export nbd:unix:s"));
    let mut client = Client::connect(&folder.path("s"));
    client.write(32768, b"newer!");
    client.flush();
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    assert_eq!(needle_of(folder), b"newer!");
}

pub(super) fn copy(folder: &Folder, from: &str, to: &str) {
    let ran = folder.shell(&format!("rm -rf {to} && cp -a {from} {to}"), b"");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn image_with_a_waiting_dump_is_not_served_with_another_directory() {
    let folder = with_dump("disk-elsewhere", b"needle");
    let (image, area) = (folder.read("vd"), folder.read("vd.seawall/area"));
    let ran = serve_once(&folder, "vd --state other");
    assert!(ran.refused(9).contains("vd.seawall"), "{ran:?}");
    assert_eq!((folder.read("vd"), folder.read("vd.seawall/area")), (image, area));
    // A server with the first state directory restores the dump; then any other can serve the
    // image.
    let ran = serve_once(&folder, "vd");
    assert!(ran.code == 0 && ran.err.contains("all of it was restored"), "{ran:?}");
    assert_eq!(
        (serve_once(&folder, "vd --state other").code, needle_of(&folder)),
        (0, b"needle".to_vec())
    );
}

#[test]
fn dump_never_overwrites_data_written_with_another_directory() {
    let folder = with_dump("disk-overtaken", b"needle");
    let area = folder.read("vd.seawall/area");
    write_newer(&folder, "vd --state other --dump discard");
    let ran = serve_once(&folder, "vd");
    assert!(ran.refused(9).contains("other"), "{ran:?}");
    assert_eq!((needle_of(&folder), folder.read("vd.seawall/area")), (b"newer!".to_vec(), area));
    // The user must decide, and the discarded dump is kept as a copy.
    let ran = serve_once(&folder, "vd --dump discard");
    assert_eq!((ran.code, needle_of(&folder)), (0, b"newer!".to_vec()), "{ran:?}");
    let names = folder.names("vd.seawall");
    let kept = names.iter().find(|name| name.starts_with("area.discarded")).expect("a copy");
    let kept = folder.read(&format!("vd.seawall/{kept}"));
    assert!(kept.windows(6).any(|window| window == b"needle"));
    assert_eq!((serve_once(&folder, "vd").code, needle_of(&folder)), (0, b"newer!".to_vec()));
}

#[test]
fn dump_never_overwrites_data_written_without_the_server() {
    let folder = with_dump("disk-raw", b"needle");
    let area = folder.read("vd.seawall/area");
    wait_until_changes_are_foreign();
    // An in-place change, as by a mount on a loop device or by `cat backup > vd`.
    folder.overwrite("vd", 32768, b"newer!");
    let ran = serve_once(&folder, "vd");
    let said = ran.refused(9);
    assert!(said.contains("was changed at 20") && said.contains("--dump"), "{said}");
    assert_eq!((needle_of(&folder), folder.read("vd.seawall/area")), (b"newer!".to_vec(), area));
    let ran = serve_once(&folder, "vd --dump apply");
    assert_eq!((ran.code, needle_of(&folder)), (0, b"needle".to_vec()), "{ran:?}");
}

#[test]
fn interrupted_write_back_continues() {
    let folder = with_dump("disk-half-home", b"needle");
    wait_until_changes_are_foreign();
    // The first run is restored. The second one exceeds the file size limit.
    let program = env!("CARGO_BIN_EXE_seawall");
    let serve = "disk serve vd --export nbd:unix:s --run true";
    let ran = folder.shell(&format!("prlimit --core=0 --fsize=20480 '{program}' {serve}"), b"");
    assert!(ran.refused(1).contains("ulimit -f"), "{ran:?}");
    let left = folder.read("vd");
    assert_eq!((&left[..7], &left[32768..32774]), (&b"another"[..], &[0; 6][..]));
    let ran = serve_once(&folder, "vd");
    assert!(ran.code == 0 && ran.err.contains("2 runs; all of it was restored"), "{ran:?}");
    assert_eq!(needle_of(&folder), b"needle");
}

#[test]
fn restored_old_directory_cannot_overwrite_the_image() {
    let folder = with_dump("disk-put-back", b"needle");
    copy(&folder, "vd.seawall", "backup");
    assert_eq!(serve_once(&folder, "vd").code, 0);
    write_newer(&folder, "vd");
    copy(&folder, "backup", "vd.seawall");
    let ran = serve_once(&folder, "vd");
    assert!(ran.refused(9).contains("has since been served"), "{ran:?}");
    assert_eq!(needle_of(&folder), b"newer!");
}

#[test]
fn missing_state_directory_is_reported() {
    let folder = with_dump("disk-gone", b"needle");
    copy(&folder, "vd.seawall", "backup");
    assert_eq!(folder.shell("rm -r vd.seawall", b"").code, 0);
    // As if the file system of the state directory were not mounted.
    let ran = serve_once(&folder, "vd");
    assert!(ran.refused(9).contains("vd.seawall"), "{ran:?}");
    copy(&folder, "backup", "vd.seawall");
    assert_eq!((serve_once(&folder, "vd").code, needle_of(&folder)), (0, b"needle".to_vec()));
}

#[test]
fn directory_without_a_dump_releases_its_image() {
    let folder = made("disk-nothing-waits");
    let server = Server::start(&folder, &format!("{ARMED} --no-keeper"));
    Client::connect(&folder.path("s")).write(32768, b"needle");
    server.signal("-KILL");
    server.ended();
    write_newer(&folder, "vd --state other");
    // That directory has no dump, so the server that was killed may use the image again.
    assert_eq!((serve_once(&folder, "vd").code, needle_of(&folder)), (0, b"newer!".to_vec()));
}
