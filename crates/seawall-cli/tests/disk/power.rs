//! When written data reaches the device: flushes, drains, dumps.

use super::*;

#[test]
fn flushed_data_without_a_power_source_is_on_the_device() {
    let folder = made("disk-unknown");
    let server = Server::start(&folder, &format!("{UNKNOWN} --json"));
    let ready: Value = serde_json::from_str(&server.ready).unwrap();
    assert_eq!(
        (&ready["schema"], &ready["bytes"]),
        (&"seawall.disk.serve/1".into(), &65536.into())
    );
    assert!(ready["uri"].as_str().unwrap().starts_with("nbd+unix:///log?socket=/"), "{ready}");
    assert_eq!(
        (folder.mode("vd.seawall/control"), server.state().as_str()),
        (0o600, "write-through")
    );
    let mut client = Client::connect(&folder.path("s"));
    client.write(4096, b"a record");
    client.flush();
    assert_eq!(folder.read("vd")[4096..4104], *b"a record");
    assert_eq!(client.read(4090, 20), b"\0\0\0\0\0\0a record\0\0\0\0\0\0");
    let status = folder.run("disk status vd --json", b"");
    let status = &status.fine().json()[0];
    assert_eq!((&status["capacity"], &status["dirty"]), (&Value::Null, &0.into()));
    // One flush waited; this one has nothing to do, which does not count as early.
    client.flush();
    let counts = server.ask(&json!({ "do": "status" }))["counts"].clone();
    let flushes = ["early", "waited", "idle"].map(|how| counts[format!("flushes_{how}")].as_u64());
    assert_eq!((flushes, &status["connections"]), ([Some(0), Some(1), Some(1)], &1.into()));
    assert!(status["says"].as_str().unwrap().contains("power source"), "{status}");
    let ran = folder.run("disk status vd", b"");
    assert!(ran.fine().text().starts_with("vd   write-through  "), "{ran:?}");
    assert!(ran.text().contains("0 early, 1 waited, 1 with nothing to do"), "{ran:?}");
    assert!(ran.text().contains("(start with --power to arm)"), "{ran:?}");
    server.signal("-KILL");
    assert!(!server.ended().0.success());
    // What a killed server leaves, sockets included, does not prevent the next start.
    let server = Server::start(&folder, UNKNOWN);
    assert_eq!(Client::connect(&folder.path("s")).read(4096, 8), b"a record");
    assert_eq!(server.ask(&json!({ "do": "stop" }))["error"], Value::Null);
    assert_eq!(server.ended().0.code(), Some(0));
}

/// A client's next write and flush. Returns whether the flush succeeded.
fn is_flushed(client: &mut Client) -> bool {
    let mut is_done = |command, bytes: &[u8]| {
        client.request(command, (4096, bytes.len()), bytes);
        client.receive(16)[4..8] == [0; 4]
    };
    is_done(1, b"more") && is_done(3, b"")
}

/// The content of a file without a name is lost when the server ends.
#[test]
fn server_of_a_removed_image_acknowledges_no_flush() {
    for (name, arguments) in [("disk-removed", UNKNOWN), ("disk-removed-armed", ARMED)] {
        let folder = made(name);
        let server = Server::start(&folder, arguments);
        let mut client = Client::connect(&folder.path("s"));
        assert!(is_flushed(&mut client));
        folder.remove("vd");
        let ran = folder.run("disk status --state vd.seawall", b"");
        assert!(ran.code == 10 && ran.text().contains("the image was REMOVED"), "{ran:?}");
        // An armed disk notices it at its next write to the device.
        let tries = if arguments == ARMED { 6000 } else { 1 };
        let is_refused = (0..tries).any(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            !is_flushed(&mut client)
        });
        let status = server.ask(&json!({ "do": "status" }));
        assert!(is_refused && status["broken"] == true, "{status}");
        assert_eq!((&status["state"], &status["armed"]), (&"read-only".into(), &false.into()));
        server.signal("-TERM");
        let (status, said) = server.ended();
        assert!(status.code() == Some(10) && said.contains("REMOVED"), "{said}");
    }
}

/// A dump into a file without a name would be lost, so nothing is acknowledged early.
#[test]
fn server_without_its_dump_area_is_not_armed() {
    let folder = made("disk-removed-area");
    let server = Server::start(&folder, ARMED);
    assert_eq!(server.state(), "armed");
    folder.remove("vd.seawall/area");
    let status = server.ask(&json!({ "do": "status" }));
    assert!(status["says"].as_str().unwrap().contains("the dump area was removed"), "{status}");
    let mut client = Client::connect(&folder.path("s"));
    assert!(status["armed"] == false && is_flushed(&mut client));
    assert_eq!(folder.read("vd")[4096..4100], *b"more");
    assert_eq!(folder.run("disk arm vd", b"").code, 1);
}

#[test]
fn armed_disk_drains_before_the_server_ends() {
    let folder = made("disk-armed");
    for (round, signal) in [(0, "-TERM"), (1, "-INT")] {
        let server = Server::start(&folder, ARMED);
        assert_eq!(server.ready, "ready nbd unix:s");
        assert_eq!(server.state(), "armed");
        let mut client = Client::connect(&folder.path("s"));
        client.write(8192 * round, b"acknowledged");
        client.flush();
        server.signal(signal);
        let (status, said) = server.ended();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("crash of the kernel"), "{said}");
        let at = usize::try_from(8192 * round).unwrap();
        assert_eq!(folder.read("vd")[at..at + 12], *b"acknowledged");
        assert!(!folder.names("vd.seawall").contains(&"control".to_owned()));
    }
}

#[test]
fn flush_drain_disarm_and_arm_are_answered() {
    let folder = made("disk-ask");
    let server = Server::start(&folder, ARMED);
    let mut client = Client::connect(&folder.path("s"));
    client.write(0, b"drained");
    let ran = folder.run("disk flush vd", b"");
    assert!(ran.fine().text().starts_with("vd: flush in "), "{ran:?}");
    let ran = folder.run("disk drain vd --deadline 3600000 --json", b"");
    let answer = &ran.fine().json()[0];
    assert_eq!(answer["schema"], "seawall.disk.drain/1");
    assert!(answer["ms"].is_number() && answer["late"] == false, "{answer}");
    assert_eq!(folder.read("vd")[..7], *b"drained");
    client.write(0, b"by hand");
    assert_eq!(server.ask(&json!({ "do": "disarm" }))["state"], "write-through");
    assert_eq!(folder.read("vd")[..7], *b"by hand");
    let says = server.ask(&json!({ "do": "status" }))["says"].clone();
    assert!(says.as_str().unwrap().contains("by hand"), "{says}");
    assert_eq!(server.ask(&json!({ "do": "arm" }))["state"], "armed");
    let ran = folder.run("disk disarm vd --json", b"");
    let answer = &ran.fine().json()[0];
    assert_eq!(
        (&answer["schema"], &answer["state"]),
        (&"seawall.disk.disarm/1".into(), &"write-through".into())
    );
    let ran = folder.run("disk arm vd", b"");
    assert!(ran.fine().text().starts_with("vd: arm in "), "{ran:?}");
    for wrong in [json!({ "do": "dance" }), json!([]), json!("status")] {
        let answer = server.ask(&wrong);
        assert!(answer["error"].as_str().unwrap().contains("emergency-flush"), "{answer}");
    }
    assert_eq!(server.state(), "armed");
}

/// Writes data, lets `emergency` dump it, kills the server, and checks that the next one restores
/// the dump.
fn dumped_by(name: &str, emergency: impl Fn(&Server<'_>)) {
    let folder = made(name);
    let server = Server::start(&folder, ARMED);
    let mut client = Client::connect(&folder.path("s"));
    client.write(12288, b"in memory");
    client.flush();
    emergency(&server);
    let mut statuses = (0..100_000).map(|_| server.ask(&json!({ "do": "status" })));
    let status = statuses.find(|status| !status["emergency"].is_null()).unwrap();
    let is_dumped = status["emergency"]["bytes"].is_number();
    assert!(is_dumped && status["broken"] == false, "{status}");
    assert_eq!(status["state"], "emergency");
    let ran = folder.run("disk drain vd", b"");
    let bytes = status["emergency"]["bytes"].as_u64().unwrap();
    assert_eq!(ran.code, i32::from(bytes > 0), "{ran:?}");
    server.signal("-KILL");
    server.ended();
    let server = Server::start(&folder, UNKNOWN);
    assert_eq!(folder.read("vd")[12288..12297], *b"in memory");
    let recovered = server.ask(&json!({ "do": "status" }))["recovered"].clone();
    assert_eq!(recovered.is_null(), bytes == 0, "{recovered}");
    assert!(recovered.is_null() || recovered["lost"] == 0, "{recovered}");
}

#[test]
fn sigpwr_dumps_and_the_next_start_restores_the_dump() {
    dumped_by("disk-sigpwr", |server| server.signal("-PWR"));
}

#[test]
fn emergency_flush_dumps_once_and_reports_its_duration() {
    dumped_by("disk-emergency", |server| {
        let ran = server.folder.run("disk emergency-flush vd --deadline 3600000 --json", b"");
        let first = ran.fine().json()[0].clone();
        assert!(first["ms"].is_number() && first["bytes"].is_number(), "{first}");
        let again = server.folder.run("disk emergency-flush vd --json", b"").fine().json();
        assert_eq!((&again[0]["ms"], &again[0]["bytes"]), (&first["ms"], &first["bytes"]));
    });
}

/// A folder with a disk whose dump has `needle` in a run of its own. The server that dumped is
/// killed.
pub(super) fn with_dump(name: &str, needle: &[u8]) -> Folder {
    for _ in 0..20 {
        let folder = made(name);
        // Without a keeper, the dump is all that survives of the memory.
        let server = Server::start(&folder, &format!("{ARMED} --no-keeper"));
        let mut client = Client::connect(&folder.path("s"));
        client.write(0, b"another");
        client.write(32768, needle);
        folder.run("disk emergency-flush vd", b"").fine();
        server.signal("-KILL");
        server.ended();
        // The drainer may have written the data before the dump.
        if folder.read("vd.seawall/area").windows(needle.len()).any(|window| window == needle) {
            return folder;
        }
    }
    panic!("the drainer is always quicker");
}

#[test]
fn torn_dump_is_reported_and_status_exits_10() {
    let folder = with_dump("disk-torn", b"needle");
    folder.flip("vd.seawall/area", b"needle");
    let mut server = Server::start(&folder, UNKNOWN);
    assert_eq!(folder.read("vd")[..7], *b"another");
    let ran = folder.run("disk status vd", b"");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.text().contains("a dump was found: 1 run restored, 1 LOST"), "{ran:?}");
    assert!(error_of(&mut server.child).contains("1 run of it are LOST, 1 run were restored"));
}

#[test]
fn dump_is_never_written_to_another_image() {
    let folder = with_dump("disk-foreign", b"needle");
    let dump = folder.read("vd.seawall/area");
    let theirs = vec![9; 65536];
    // The other image has the same size and name, and often the same inode number.
    folder.remove("vd");
    folder.write("vd", &theirs);
    let ran = serve_once(&folder, "vd");
    assert!(ran.refused(9).contains("belongs to another image"), "{ran:?}");
    folder.write("other", &theirs);
    serve_once(&folder, "other --state vd.seawall").refused(9);
    assert_eq!((folder.read("vd"), folder.read("other")), (theirs.clone(), theirs.clone()));
    // Nor is it written to a new image in the old one's place, or to one of another size.
    folder.remove("vd");
    serve_once(&folder, "vd --size 64KiB").refused(9);
    assert!(!folder.names(".").iter().any(|name| name.starts_with("vd") && name != "vd.seawall"));
    assert_eq!(folder.read("vd.seawall/area"), dump);
    // The settings name the image of the dump; without them it is unknown.
    folder.write("vd", &theirs);
    folder.remove("vd.seawall/disk.json");
    serve_once(&folder, "vd").refused(9);
    assert_eq!((folder.read("vd"), folder.read("vd.seawall/area")), (theirs.clone(), dump));
    // A state directory that names no image matches none.
    folder.write("vd.seawall/disk.json", b"{\"schema\":\"seawall.disk.settings/1\"}");
    serve_once(&folder, "vd").refused(9);
    // `--dump apply` writes the dump anyway, for example to a copy of the image.
    let ran = serve_once(&folder, "vd --dump apply");
    assert!(ran.code == 0 && ran.err.contains("all of it was restored"), "{ran:?}");
    assert_eq!(folder.read("vd")[32768..32774], *b"needle");
    assert_eq!(serve_once(&folder, "vd").code, 0);
}

#[test]
fn dump_is_restored_before_the_ring_changes() {
    let folder = with_dump("disk-ring", b"needle");
    let ran = serve_once(&folder, "vd --buffers 1 --buffer-size 4KiB");
    assert!(ran.code == 0 && ran.err.contains("all of it was restored"), "{ran:?}");
    assert_eq!(folder.read("vd")[32768..32774], *b"needle");
    assert_eq!(folder.read("vd.seawall/area").len(), 12288);
}

#[test]
fn missed_deadline_exits_10() {
    let folder = made("disk-late");
    folder.make_folder("vd.seawall");
    let listener = UnixListener::bind(folder.path("vd.seawall/control")).unwrap();
    let answer = |answer: &'static [u8]| {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        stream.write_all(answer).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| answer(b"{\"ms\":3600000.5,\"bytes\":9}\n"));
        let ran = folder.run("disk emergency-flush vd --deadline 3600000", b"");
        assert!(
            ran.refused(10).contains("took 3600000.500 ms, longer than its deadline"),
            "{ran:?}"
        );
        assert_eq!(ran.text(), "vd: emergency-flush in 3600000.500 ms, 9 bytes dumped\n");
        scope.spawn(|| answer(b"{\"ms\":9.5}\n"));
        let ran = folder.run("disk drain vd --deadline 3600000 --json", b"");
        assert_eq!(ran.fine().json()[0]["late"], false);
        scope.spawn(|| answer(b"{\"ms\":1.0,\"error\":\"no device\"}\n"));
        let ran = folder.run("disk emergency-flush vd", b"");
        assert!(ran.refused(10).contains("failed: no device"), "{ran:?}");
    });
    // A server that never answers is not waited for.
    let ran = folder.run("disk drain vd --deadline 1", b"");
    assert!(ran.refused(10).contains("missed its deadline and continues"), "{ran:?}");
}

#[test]
fn server_stops_cleanly_after_an_emergency_dump() {
    let folder = made("disk-after");
    let server = Server::start(&folder, ARMED);
    Client::connect(&folder.path("s")).write(0, b"kept");
    folder.run("disk emergency-flush vd", b"").fine();
    server.signal("-TERM");
    let (status, said) = server.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let _server = Server::start(&folder, UNKNOWN);
    assert_eq!(folder.read("vd")[..4], *b"kept");
}

#[test]
fn stop_returns_once_everything_is_on_the_device() {
    let folder = made("disk-stop");
    let server = Server::start(&folder, ARMED);
    Client::connect(&folder.path("s")).write(0, b"kept");
    assert_eq!(folder.run("disk stop vd", b"").fine().text(), "vd: stop\n");
    assert_eq!(folder.read("vd")[..4], *b"kept");
    assert_eq!(server.ended().0.code(), Some(0));
    folder.run("disk stop vd", b"").refused(1);
    let _server = Server::start(&folder, UNKNOWN);
    let ran = folder.run("disk arm vd", b"");
    assert!(ran.refused(1).contains("is not armed"), "{ran:?}");
}
