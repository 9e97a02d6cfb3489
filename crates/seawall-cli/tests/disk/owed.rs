//! What a start reports as lost, and what it does not.

#[cfg(target_os = "linux")]
use super::kept::{keepers, wait_until};
use super::power::with_dump;
use super::*;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

const NO_KEEPER: &str = "vd --export nbd:unix:s --power ok --hold-up 60000 --no-keeper";
/// A server that cannot start: the directory of its socket does not exist.
const FAILS: &str = "vd --export nbd:unix:none/s --run true";

/// Acknowledges a flush early, and kills the server that has no keeper.
fn lose(folder: &Folder) {
    let server = Server::start(folder, NO_KEEPER);
    let mut client = Client::connect(&folder.path("s"));
    client.write(4096, b"acknowledged");
    client.flush();
    server.signal("-KILL");
    server.ended();
}

/// Starts a server and returns whether it reports a loss, which it does in each way or in none.
fn is_reported(folder: &Folder) -> bool {
    let mut server = Server::start(folder, UNKNOWN);
    let status = server.ask(&json!({ "do": "status" }))["broken"].clone();
    let code = folder.run("disk status vd", b"").code;
    let is_said = error_of(&mut server.child).contains("LOST");
    assert_eq!((code, &status), (if is_said { 10 } else { 0 }, &is_said.into()));
    is_said
}

#[test]
fn start_that_fails_causes_no_report_of_a_loss() {
    let folder = made("owed-fails");
    let armed = "--power ok --hold-up 60000 --no-keeper";
    folder.run(&format!("disk serve {FAILS} {armed}"), b"").refused(1);
    assert!(!is_reported(&folder));
    // This one fails later: the disk is armed, and the path of the control socket is too long.
    let long = "d".repeat(120);
    folder.make_folder(&long);
    let serve = format!("disk serve vd {armed} --state {long} --export nbd:unix:s");
    folder.run(&format!("{serve} --run true"), b"").refused(1);
    let settings = String::from_utf8(folder.read(&format!("{long}/disk.json"))).unwrap();
    assert!(settings.contains("\"armed\":false"), "{settings}");
}

#[test]
fn loss_is_reported_by_the_first_start_that_succeeds() {
    let folder = made("owed-lost");
    lose(&folder);
    for power in ["unknown", "ok"] {
        folder.run(&format!("disk serve {FAILS} --power {power}"), b"").refused(1);
    }
    // This one fails later: only the control socket is missing.
    folder.remove("vd.seawall/control");
    folder.make_folder("vd.seawall/control");
    let ran = serve_once(&folder, "vd --power ok --hold-up 60000");
    assert!(ran.code == 1 && ran.err.contains("LOST"), "{ran:?}");
    folder.shell("rmdir vd.seawall/control", b"").fine();
    assert!(is_reported(&folder));
    assert!(!is_reported(&folder), "it was reported");
}

#[test]
fn torn_dump_is_reported_after_a_start_that_failed() {
    let folder = with_dump("owed-torn", b"needle");
    folder.flip("vd.seawall/area", b"needle");
    folder.run(&format!("disk serve {FAILS}"), b"").refused(1);
    assert_eq!(folder.read("vd")[..7], *b"another", "the dump is on the image");
    assert!(is_reported(&folder));
    assert!(!is_reported(&folder), "it was reported");
}

#[test]
#[cfg(target_os = "linux")]
fn loss_is_reported_after_a_start_that_was_killed_and_left_a_keeper() {
    let folder = made("owed-kept");
    lose(&folder);
    // Standard error is full, so this start stops at its report. Its keeper has its memory then.
    let (mut full, _reader) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while full.write(b".").is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut command = folder.command(&format!("disk serve {UNKNOWN}"));
    let mut child = command.stderr(OwnedFd::from(full)).spawn().unwrap();
    wait_until(|| keepers(&folder).iter().any(|keeper| has_memory(&folder, keeper)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(keepers(&folder).len(), 1);
    assert!(is_reported(&folder));
    assert!(!is_reported(&folder), "it was reported");
}

/// Kills a server, and changes the memory that its keeper has: the first of two runs, or the only
/// one.
#[cfg(target_os = "linux")]
fn damage_memory(folder: &Folder, serve: &str, runs: u64) {
    let server = Server::start(folder, serve);
    let mut client = Client::connect(&folder.path("s"));
    for run in 0..runs {
        client.write(4096 + run * 8192, b"acknowledged");
    }
    if serve == ARMED {
        client.flush();
    }
    server.signal("-KILL");
    server.ended();
    let [keeper] = &keepers(folder)[..] else { panic!("one keeper") };
    // Both copies of the first entry.
    let damage = format!(
        "for fd in /proc/{keeper}/fd/*; do case $(readlink $fd) in *seawall-ring*)
            for at in 4096 4160; do
                printf xxxxxxxx | dd of=$fd bs=1 seek=$at conv=notrunc 2> /dev/null
            done;;
        esac; done"
    );
    folder.shell(&damage, b"").fine();
}

/// Nothing of the memory can be saved.
#[test]
#[cfg(target_os = "linux")]
fn memory_of_a_keeper_that_has_only_lost_runs_is_reported() {
    let folder = made("owed-damaged");
    damage_memory(&folder, ARMED, 1);
    folder.run(&format!("disk serve {FAILS}"), b"").refused(1);
    assert!(is_reported(&folder));
    assert_eq!(folder.read("vd")[4096..4108], [0; 12]);
    assert!(!is_reported(&folder), "it was reported");
}

#[test]
#[cfg(target_os = "linux")]
fn damaged_memory_of_a_server_that_was_never_armed_is_no_loss() {
    for runs in [1, 2] {
        let folder = made("owed-unarmed");
        damage_memory(&folder, UNKNOWN, runs);
        assert!(!is_reported(&folder), "{runs}");
    }
    let folder = made("owed-armed");
    damage_memory(&folder, ARMED, 2);
    assert!(is_reported(&folder));
}

#[cfg(target_os = "linux")]
fn has_memory(folder: &Folder, keeper: &str) -> bool {
    folder.shell(&format!("ls -l /proc/{keeper}/fd | grep seawall-ring"), b"").code == 0
}

#[test]
fn nothing_is_reported_after_an_emergency_that_found_everything_on_the_device() {
    let folder = made("owed-nothing");
    let server = Server::start(&folder, NO_KEEPER);
    let mut client = Client::connect(&folder.path("s"));
    client.write(4096, b"acknowledged");
    client.flush();
    folder.run("disk drain vd", b"").fine();
    server.signal("-PWR");
    let mut statuses = (0..100_000).map(|_| server.ask(&json!({ "do": "status" })));
    let status = statuses.find(|status| !status["emergency"].is_null()).unwrap();
    assert_eq!(status["emergency"]["bytes"], 0, "{status}");
    // The power cut.
    server.signal("-KILL");
    server.ended();
    assert!(!is_reported(&folder));
    assert_eq!(folder.read("vd")[4096..4108], *b"acknowledged");
}

#[test]
fn clean_end_that_cannot_be_recorded_is_reported() {
    let folder = made("owed-unrecorded");
    let server = Server::start(&folder, NO_KEEPER);
    folder.make_folder("vd.seawall/disk.json.new");
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert!(status.success() && said.contains("the clean end was not recorded"), "{said}");
}
