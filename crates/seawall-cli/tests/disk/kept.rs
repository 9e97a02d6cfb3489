//! The keeper: it holds the memory of a server that is killed.

use super::stale::{copy, wait_until_changes_are_foreign};
use super::*;
use seawall_io::{Clock, SystemClock};

/// The processes that keep the memory of this disk: their working directory is that of its state.
pub(super) fn keepers(folder: &Folder) -> Vec<String> {
    folder.processes("vd.seawall")
}

pub(super) fn kill(process: &str) {
    assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
}

pub(super) fn wait_until(is_so: impl Fn() -> bool) {
    let begin = SystemClock::new();
    while !is_so() {
        assert!(begin.now() < PATIENCE, "it does not happen");
        begin.sleep(Duration::from_millis(5));
    }
}

/// Kills an armed server that has acknowledged a flush of bytes that are only in its memory.
fn killed(folder: &Folder) {
    let server = Server::start(folder, ARMED);
    let mut client = Client::connect(&folder.path("s"));
    client.write(32768, b"needle");
    client.flush();
    assert_eq!(folder.read("vd")[32768..32774], *b"\0\0\0\0\0\0");
    server.signal("-KILL");
    server.ended();
}

fn needle(folder: &Folder) -> Vec<u8> {
    folder.read("vd")[32768..32774].to_vec()
}

#[test]
fn killed_server_loses_nothing_that_it_acknowledged() {
    let folder = made("kept-once");
    killed(&folder);
    let [keeper] = &keepers(&folder)[..] else { panic!("one keeper") };
    let server = Server::start(&folder, ARMED);
    assert_eq!(needle(&folder), b"needle");
    let status = server.ask(&json!({ "do": "status" }));
    assert_eq!((&status["kept"], &status["recovered"]["runs"]), (&true.into(), &1.into()));
    assert!(keepers(&folder).iter().eq([keeper]), "the same one");
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert!(status.success() && said.contains("its keeper has 6 bytes"), "{said}");
    wait_until(|| keepers(&folder).is_empty());
}

#[test]
fn killed_keeper_is_replaced() {
    let folder = made("kept-keeper");
    let server = Server::start(&folder, ARMED);
    let mut client = Client::connect(&folder.path("s"));
    for byte in 1..4 {
        let before = keepers(&folder);
        kill(&before[0]);
        client.write(32768, &[byte; 6]);
        client.flush();
        wait_until(|| keepers(&folder).iter().any(|keeper| !before.contains(keeper)));
    }
    wait_until(|| server.ask(&json!({ "do": "status" }))["kept"] == true);
    client.write(32768, b"needle");
    client.flush();
    server.signal("-KILL");
    server.ended();
    assert_eq!(serve_once(&folder, "vd").code, 0);
    assert_eq!(needle(&folder), b"needle");
}

#[test]
fn memory_that_is_gone_is_reported() {
    let folder = made("kept-gone");
    killed(&folder);
    kill(&keepers(&folder)[0]);
    let mut server = Server::start(&folder, ARMED);
    let ran = folder.run("disk status vd", b"");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.text().contains("flushed data of the last server may be LOST"), "{ran:?}");
    assert!(error_of(&mut server.child).contains("its memory is gone"));
    drop(server);
    // No loss is reported after a server that drained, or after one that was never armed.
    kill(&keepers(&folder)[0]);
    serve_once(&folder, "vd --no-keeper");
    for _ in 0..2 {
        let server = Server::start(&folder, &format!("{UNKNOWN} --no-keeper"));
        assert_eq!(server.ask(&json!({ "do": "status" }))["broken"], false);
        server.signal("-KILL");
        server.ended();
    }
    for arguments in ["vd --power ok --hold-up 60000", "vd"] {
        assert!(!serve_once(&folder, arguments).err.contains("LOST"), "{arguments}");
    }
}

#[test]
fn server_without_a_keeper_says_so() {
    let folder = made("kept-not");
    let server = Server::start(&folder, &format!("{ARMED} --no-keeper"));
    assert_eq!(server.ask(&json!({ "do": "status" }))["kept_why"], "there is no keeper");
    assert!(folder.run("disk status vd", b"").text().contains("NOT kept: there is no keeper"));
    assert_eq!(keepers(&folder).len(), 0);
    server.signal("-TERM");
    assert!(server.ended().1.contains("a crash of this process or of the kernel"));
}

#[test]
fn memory_is_never_written_over_newer_data() {
    let folder = made("kept-foreign");
    killed(&folder);
    wait_until_changes_are_foreign();
    folder.overwrite("vd", 32768, b"newer!");
    assert!(serve_once(&folder, "vd").refused(9).contains("was changed at 20"));
    assert_eq!(needle(&folder), b"newer!");
    let ran = serve_once(&folder, "vd --dump discard");
    assert_eq!((ran.code, needle(&folder)), (0, b"newer!".to_vec()), "{ran:?}");
    let names = folder.names("vd.seawall");
    assert!(names.iter().any(|name| name.starts_with("area.discarded")), "{names:?}");

    // With `--dump apply` the memory is written over the newer data.
    folder.overwrite("vd", 32768, &[0; 6]);
    killed(&folder);
    wait_until_changes_are_foreign();
    folder.overwrite("vd", 32768, b"newer!");
    let ran = serve_once(&folder, "vd --dump apply");
    assert_eq!((ran.code, needle(&folder)), (0, b"needle".to_vec()), "{ran:?}");
}

#[test]
fn memory_goes_to_the_image_if_the_dump_area_is_broken() {
    let breaks = [
        ("missing", "rm vd.seawall/area"),
        ("empty", "truncate -s 0 vd.seawall/area"),
        ("damaged", "printf xxxxxxxx | dd of=vd.seawall/area bs=1 seek=20 conv=notrunc"),
        ("foreign", "printf xxxxxxxx | dd of=vd.seawall/area conv=notrunc"),
        ("too short", "truncate -s 8192 vd.seawall/area"),
    ];
    for (name, line) in breaks {
        let folder = made("kept-no-area");
        killed(&folder);
        folder.shell(line, b"").fine();
        let server = Server::start(&folder, ARMED);
        assert_eq!(needle(&folder), b"needle", "{name}");
        let status = server.ask(&json!({ "do": "status" }));
        assert_eq!((&status["broken"], &status["state"]), (&false.into(), &"armed".into()));
        // The area was replaced.
        Client::connect(&folder.path("s")).write(32768, b"thread");
        folder.run("disk emergency-flush vd", b"").fine();
        server.signal("-KILL");
        server.ended();
        assert_eq!(serve_once(&folder, "vd").code, 0);
        assert_eq!(needle(&folder), b"thread", "{name}");
    }
}

/// A part of the memory is lost too, or the image has newer data.
#[test]
fn broken_dump_area_is_reported_if_memory_cannot_replace_it() {
    let folder = made("kept-no-area-newer");
    killed(&folder);
    folder.shell("rm vd.seawall/area", b"").fine();
    wait_until_changes_are_foreign();
    folder.overwrite("vd", 32768, b"newer!");
    assert!(serve_once(&folder, "vd").refused(9).contains("was changed at 20"));
    assert_eq!(needle(&folder), b"newer!");
    kill(&keepers(&folder)[0]);
    assert!(serve_once(&folder, "vd").refused(8).contains("the dump area is missing"));
}

#[test]
fn memory_stays_until_a_broken_dump_area_is_replaced() {
    let folder = made("kept-no-area-ever");
    killed(&folder);
    folder.shell("rm vd.seawall/area; mkdir vd.seawall/area", b"").fine();
    for _ in 0..2 {
        serve_once(&folder, "vd").refused(1);
        assert_eq!(needle(&folder), b"needle");
    }
    folder.shell("rmdir vd.seawall/area", b"").fine();
    let ran = serve_once(&folder, "vd");
    assert!(ran.code == 0 && !ran.err.contains("LOST"), "{ran:?}");
    assert_eq!(needle(&folder), b"needle");
}

#[test]
fn memory_of_an_earlier_start_is_refused() {
    let folder = made("kept-earlier");
    assert_eq!(serve_once(&folder, "vd").code, 0);
    copy(&folder, "vd.seawall/disk.json", "older.json");
    killed(&folder);
    copy(&folder, "older.json", "vd.seawall/disk.json");
    assert!(serve_once(&folder, "vd").refused(9).contains("an earlier start"));
    assert!(serve_once(&folder, "vd --dump apply").refused(9).contains("--dump discard"));
    let ran = serve_once(&folder, "vd --dump discard");
    assert_eq!((ran.code, needle(&folder)), (0, vec![0; 6]), "{ran:?}");
    let copy = folder.read("vd.seawall/memory.discarded-1");
    assert!(copy.windows(6).any(|window| window == b"needle"));
}

#[test]
fn memory_of_another_directory_is_found_by_the_mark() {
    let folder = made("kept-elsewhere");
    killed(&folder);
    assert!(serve_once(&folder, "vd --state other").refused(9).contains("vd.seawall"));
    assert_eq!(serve_once(&folder, "vd").code, 0);
    assert_eq!(needle(&folder), b"needle");
    assert_eq!(serve_once(&folder, "vd --state other").code, 0);
}

#[test]
fn keeper_of_its_own_serves_one_server_after_the_other() {
    let folder = made("kept-unit");
    let mut keeper = folder.command("disk keep vd.seawall").spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready keeper vd.seawall/keeper\n");
    let ran = folder.run("disk keep vd.seawall", b"");
    assert!(ran.refused(6).contains("another keeper"), "{ran:?}");
    for _ in 0..2 {
        killed(&folder);
        assert_eq!(serve_once(&folder, "vd").code, 0);
        assert_eq!(needle(&folder), b"needle");
        folder.overwrite("vd", 32768, &[0; 6]);
    }
    assert!(keeper.try_wait().unwrap().is_none(), "it stays");
    // The keeper ends when its socket is removed: nothing can reach it any more.
    folder.remove("vd.seawall/keeper");
    assert!(keeper.wait().unwrap().success());
}

/// A client writes a growing number to a few places and reconnects whenever its server is killed.
/// Each start must find the last flushed version.
#[test]
fn killed_at_any_moment_under_load_nothing_is_lost() {
    let folder = made("kept-load");
    let kills = std::env::var("SEAWALL_KILLS").map_or(8, |kills| kills.parse().unwrap());
    let mut newest = [0; 16];
    for round in 0..kills {
        let server = Server::start(&folder, ARMED);
        let mut client = Client::connect(&folder.path("s"));
        for (newest, at) in newest.iter_mut().zip((0..).step_by(4096)) {
            let found = client.read(at, 512);
            let number = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(found == number.to_le_bytes().repeat(64), "round {round}: torn");
            // An unacknowledged write may have arrived.
            assert!([*newest, *newest + 1].contains(&number), "{round}: {number}, not {newest}");
            *newest = number;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| kill_later(&folder, round, server.child.id()));
            write_until_killed(&mut client, &mut newest);
        });
        server.ended();
    }
}

fn kill_later(folder: &Folder, round: u64, server: u32) {
    SystemClock::new().sleep(Duration::from_micros(200 + 977 * round % 20_000));
    if round % 4 == 3 {
        // Kill the keeper first. The server gives its memory to a new one.
        let old = keepers(folder);
        kill(&old[0]);
        wait_until(|| keepers(folder).iter().any(|keeper| !old.contains(keeper)));
        let status = || folder.run("disk status vd --json", b"").json()[0]["kept"] == true;
        wait_until(status);
    }
    kill(&server.to_string());
}

fn write_until_killed(client: &mut Client, newest: &mut [u64]) {
    for place in (0..newest.len()).cycle() {
        let number = newest[place] + 1;
        let bytes = number.to_le_bytes().repeat(64);
        if client.try_write(4096 * u64::try_from(place).unwrap(), &bytes).is_err() {
            return;
        }
        newest[place] = number;
    }
}
