//! The sandbox of a server and its keeper, as the kernel reports it.

use super::kept::{keepers, kill, wait_until};
use super::*;

/// The values of one field of `/proc/PID/task/*/status`, for all threads of a process. A thread may
/// end meanwhile.
fn field(folder: &Folder, pid: u32, name: &str) -> Vec<String> {
    let files = format!("/proc/{pid}/task/*/status");
    let lines = folder.shell(&format!("cat {files} 2>/dev/null | grep '^{name}:'"), b"");
    let values = lines.text().lines().map(|line| line.split_whitespace().skip(1));
    let mut values: Vec<String> = values.map(|words| words.collect::<Vec<_>>().join(" ")).collect();
    values.dedup();
    values
}

/// Whether the kernel has these parts of a sandbox; prints that the test is skipped if not.
fn has(standing: &Value, parts: &[&str]) -> bool {
    let has = |part: &&str| standing[*part] != "not available";
    let has = parts.iter().all(has);
    if !has {
        tool::skipped(&format!("not in this kernel: {standing}"));
    }
    has
}

fn pid(standing: &Value) -> u32 {
    u32::try_from(standing["pid"].as_u64().unwrap()).unwrap()
}

#[test]
fn server_and_keeper_are_confined_as_the_status_says() {
    let folder = made("confined-both");
    let server = Server::start(&folder, ARMED);
    let _client = Client::connect(&folder.path("s"));
    for round in 0..2 {
        let status = server.ask(&json!({ "do": "status" }));
        assert_eq!(pid(&status["server"]), server.child.id());
        assert_eq!(vec![pid(&status["keeper"]).to_string()], keepers(&folder));
        for process in ["server", "keeper"] {
            let standing = &status[process];
            if !has(standing, &["landlock", "seccomp"]) {
                return;
            }
            assert!(standing["landlock"].as_str().unwrap().starts_with("ABI "), "{standing}");
            assert_eq!(standing["seccomp"], "on");
            let found = ["Seccomp", "NoNewPrivs"].map(|name| field(&folder, pid(standing), name));
            assert_eq!(found, [["2"], ["1"]], "{process} in round {round}");
        }
        // The next keeper is started by a server that is already confined.
        kill(&pid(&status["keeper"]).to_string());
        wait_until(|| server.ask(&json!({ "do": "status" }))["keeper"] != status["keeper"]);
        wait_until(|| server.ask(&json!({ "do": "status" }))["kept"] == true);
    }
    let said = folder.run("disk status vd", b"").text().to_owned();
    assert!(said.contains("\n  server      user ") && said.contains("\n  keeper      "), "{said}");
    assert!(said.contains(", landlock ABI ") && said.contains(", seccomp on\n"), "{said}");
}

/// Landlock is not visible in /proc, so its effect is tested. A server starts a keeper in its state
/// directory: after a rename, it cannot reach another directory of that name.
#[test]
fn server_reaches_no_directory_but_its_own() {
    for (sandbox, is_reached) in [("on", false), ("off", true)] {
        let folder = made(&format!("confined-{sandbox}"));
        let server = Server::start(&folder, &format!("{ARMED} --sandbox {sandbox}"));
        let status = || folder.run("disk status --state old --json", b"").json()[0].clone();
        let [keeper] = &keepers(&folder)[..] else { panic!("one keeper") };
        folder.shell("mv vd.seawall old && mkdir vd.seawall", b"").fine();
        if sandbox == "on" && !has(&status()["server"], &["landlock"]) {
            continue;
        }
        kill(keeper);
        wait_until(|| {
            let status = status();
            let why = status["kept_why"].as_str().unwrap_or_default().to_owned();
            status["keeper"]["pid"].as_u64().is_some_and(|pid| pid.to_string() != *keeper)
                || why.starts_with("a keeper did not start")
        });
        assert_eq!(status()["kept"], is_reached, "--sandbox {sandbox}");
        assert_eq!(folder.names("vd.seawall").is_empty(), !is_reached);
        drop(server);
    }
}

#[test]
fn server_that_starts_programs_is_not_confined_and_says_so() {
    for (number, more, why) in [
        (1, "--sandbox off", "off: --sandbox off"),
        (2, "--run cat", "off: --run"),
        (3, "--power command:true --hold-up 60000", "off: --power command"),
    ] {
        let folder = made(&format!("confined-not-{number}"));
        let server = Server::start(&folder, &format!("vd --export nbd:unix:s {more}"));
        let status = server.ask(&json!({ "do": "status" }));
        let standing = &status["server"];
        assert_eq!((&standing["landlock"], &standing["seccomp"]), (&why.into(), &why.into()));
        assert_eq!(field(&folder, server.child.id(), "Seccomp"), ["0"]);
        assert_eq!(status["keeper"]["seccomp"] == "off", more == "--sandbox off");
    }
}

/// Needs root, and a user that owns the folder.
#[test]
fn server_that_root_starts_becomes_another_user_for_good() {
    let folder = made("confined-user");
    let given = folder.shell("chown -R 65534:65533 . && chmod 777 . && id -u", b"");
    if given.text().trim() != "0" {
        tool::skipped("server_that_root_starts_becomes_another_user_for_good: needs root");
        return;
    }
    let server = Server::start(&folder, &format!("{ARMED} --user 65534:65533"));
    let status = server.ask(&json!({ "do": "status" }));
    for process in [pid(&status["server"]), pid(&status["keeper"])] {
        let ids = ["Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh"];
        let found = ids.map(|name| field(&folder, process, name).concat());
        let none = "0000000000000000";
        let numbers = ["65534 65534 65534 65534", "65533 65533 65533 65533"];
        assert_eq!(found, [numbers[0], numbers[1], "", none, none, none]);
    }
    let owner = folder.shell("stat -c '%u:%g' vd.seawall vd.seawall/* s | sort -u", b"");
    assert_eq!(owner.text(), "65534:65533\n");
    let mut client = Client::connect(&folder.path("s"));
    client.write(0, b"theirs");
    client.flush();
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    assert_eq!(folder.read("vd")[..6], *b"theirs");
    // The server has no more rights than that user.
    folder.shell("chown 0:0 vd && chmod 600 vd", b"");
    assert!(serve_once(&folder, "vd --user 65534:65533").refused(1).contains("ermission denied"));
}

#[test]
fn user_that_cannot_be_become_is_refused() {
    let folder = made("confined-nobody");
    for (user, why) in [
        ("there-is-none", "/etc/passwd has no user there-is-none"),
        ("root", "root has all rights"),
        ("0:0", "root has all rights"),
        ("root:there-is-none", "/etc/group has no group there-is-none"),
    ] {
        let served = serve_once(&folder, &format!("vd --user {user}"));
        let kept = folder.run(&format!("disk keep other --user {user}"), b"");
        assert!([served, kept].iter().all(|ran| ran.refused(2).contains(why)), "{user}");
    }
    assert_eq!(folder.names("."), ["vd"], "nothing was made");
}
