//! `seawall disk` from outside: over NBD, by its control socket, by signals, and killed.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "in a test a panic is the report")]

mod tool;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;
use tool::Folder;

/// Longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, killed if it does not end by itself.
struct Server<'a> {
    child: Child,
    folder: &'a Folder,
    ready: String,
    /// What it says behind that.
    rest: mpsc::Receiver<String>,
}

impl<'a> Server<'a> {
    fn start(folder: &'a Folder, arguments: &str) -> Self {
        Self::of(folder, folder.command(&format!("disk serve {arguments}")))
    }

    fn of(folder: &'a Folder, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, rest) = mpsc::channel();
        std::thread::spawn(move || {
            while let Some(Ok(line)) = lines.next() {
                let _ = sender.send(line);
            }
        });
        let ready = rest.recv_timeout(PATIENCE);
        let ready = ready.unwrap_or_else(|_| panic!("{:?}", error_of(&mut child)));
        Self { child, folder, ready, rest }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits until it has closed its standard output, and then for its end.
    fn ended(mut self) -> (ExitStatus, String) {
        loop {
            match self.rest.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let status = self.child.wait().unwrap();
        (status, error_of(&mut self.child))
    }

    /// One request by the control socket, and its answer.
    fn ask(&self, request: &Value) -> Value {
        let mut stream = UnixStream::connect(self.folder.path("vd.seawall/control")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    fn state(&self) -> String {
        self.ask(&json!({ "do": "status" }))["state"].as_str().unwrap().to_owned()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn error_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut error) = child.stderr.take() {
        let _ = child.kill();
        error.read_to_string(&mut text).unwrap();
    }
    text
}

/// As much of an NBD client as it takes to write and to read.
struct Client {
    stream: UnixStream,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { stream };
        assert!(client.receive(18).starts_with(b"NBDMAGICIHAVEOPT"));
        // Fixed newstyle without zeros; then the export by its name.
        client.send(&[&[0, 0, 0, 3], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 3], b"log"]);
        client.receive(10);
        client
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.request(1, (offset, bytes.len()), bytes);
        self.reply();
    }

    fn flush(&mut self) {
        self.request(3, (0, 0), &[]);
        self.reply();
    }

    fn read(&mut self, offset: u64, size: usize) -> Vec<u8> {
        self.request(0, (offset, size), &[]);
        self.reply();
        self.receive(size)
    }

    fn request(&mut self, command: u8, (offset, size): (u64, usize), bytes: &[u8]) {
        let head = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, command, 0, 0, 0, 0, 0, 0, 0, 7];
        let size = u32::try_from(size).unwrap().swap_bytes().to_le_bytes();
        self.send(&[&head, &offset.swap_bytes().to_le_bytes(), &size, bytes]);
    }

    fn reply(&mut self) {
        let reply = self.receive(16);
        assert_eq!(reply, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    fn send(&mut self, parts: &[&[u8]]) {
        self.stream.write_all(&parts.concat()).unwrap();
    }

    fn receive(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }
}

/// A folder with a disk of 64 KiB.
fn made(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("vd", &vec![0; 65536]);
    folder
}

const UNKNOWN: &str = "vd --export nbd:unix:s";
/// With a hold-up that any device keeps.
const ARMED: &str = "vd --export nbd:unix:s --power ok --hold-up 60000";

/// Serves for a moment, with these arguments.
fn serve_once(folder: &Folder, arguments: &str) -> tool::Ran {
    folder.run(&format!("disk serve {arguments} --export nbd:unix:s --run true"), b"")
}

#[test]
fn an_image_is_made_once_and_belongs_to_its_owner() {
    let folder = Folder::new("disk-make");
    let ran = serve_once(&folder, "vd --size 64KiB --buffers 2 --buffer-size 8KiB --json");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("made an image of 64.0 KiB"), "{ran:?}");
    let answer = &ran.json()[0];
    assert_eq!(answer["schema"], "seawall.disk.serve/1");
    assert_eq!((&answer["bytes"], &answer["dir"]), (&65536.into(), &"vd.seawall".into()));
    assert_eq!(folder.read("vd"), vec![0; 65536]);
    // Two buffers with their headers, and the label.
    assert_eq!(
        folder.read("vd.seawall/area").len(),
        (4096_usize + 2 * (8192 + 512)).next_multiple_of(4096)
    );
    assert_eq!(folder.names("."), ["s.lock", "vd", "vd.seawall"]);
    assert_eq!(folder.names("vd.seawall"), ["area", "disk.json", "lock"]);
    assert_eq!((folder.mode("vd.seawall"), folder.mode("vd")), (0o700, 0o600));
    // It is served again with or without its size, and with another ring.
    folder.write("vd", &vec![7; 65536]);
    for more in ["", "--size 64KiB", "--buffers 3", "--buffer-size 4KiB -q"] {
        let ran = serve_once(&folder, &format!("vd {more}"));
        assert_eq!((ran.code, folder.read("vd")), (0, vec![7; 65536]), "{ran:?}");
        assert!(!ran.err.contains("made"), "{ran:?}");
    }
    for (size, other) in [(65536, "128KiB"), (65536, "32KiB"), (0, "64KiB"), (100, "64KiB")] {
        folder.write("vd", &vec![7; size]);
        let ran = serve_once(&folder, &format!("vd --size {other}"));
        assert!(ran.refused(9).contains("already"), "{ran:?}");
        assert_eq!(folder.read("vd"), vec![7; size]);
    }
}

#[test]
fn an_image_that_is_brought_is_served_as_it_is() {
    let folder = Folder::new("disk-brought");
    // Of any size, with anything in it, and by a link.
    let content: Vec<u8> = (0..70_001u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    folder.write("there", &content);
    folder.make_link("there", "vd");
    let server = Server::start(&folder, UNKNOWN);
    assert_eq!(server.ready, "ready nbd unix:s");
    let mut client = Client::connect(&folder.path("s"));
    assert_eq!(client.read(69_000, 1001), content[69_000..]);
    client.write(70_000, b"!");
    client.flush();
    let mut changed = content.clone();
    changed[70_000] = b'!';
    assert_eq!(folder.read("there"), changed);
    // By another name it is the same image, and another state does not make it two.
    folder.run("disk serve there --export nbd:unix:t --run true", b"").refused(6);
    folder.run("disk serve vd --state mine --export nbd:unix:t --run true", b"").refused(6);
    assert_eq!(folder.names("."), ["s", "s.lock", "there", "vd", "vd.seawall"]);
}

#[test]
fn a_state_directory_is_where_it_was_said() {
    let folder = made("disk-state");
    let server = Server::start(&folder, "vd --state my --export nbd:unix:s");
    assert_eq!(folder.names("."), ["my", "s", "s.lock", "vd"]);
    for name in ["vd --state my", "--state my"] {
        for verb in ["status", "flush", "drain"] {
            folder.run(&format!("disk {verb} {name}"), b"").fine();
        }
    }
    folder.run("disk status vd", b"").refused(1);
    assert_eq!(folder.run("disk status", b"").code, 2);
    folder.run("disk emergency-flush --state my", b"").fine();
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    // Nothing is made among other things.
    folder.make_folder("theirs");
    folder.write("theirs/letter", b"dear");
    for state in ["theirs", "vd"] {
        let ran = serve_once(&folder, &format!("vd --state {state}"));
        ran.refused(if state == "vd" { 8 } else { 9 });
    }
    assert_eq!(folder.names("theirs"), ["letter"]);
}

#[test]
fn bad_sizes_and_command_lines_are_2_and_make_nothing() {
    let folder = Folder::new("disk-usage");
    for wrong in [
        "serve vd",
        "serve --export nbd:unix:s",
        "serve vd --size 0 --export nbd:unix:s",
        "serve vd --size 1000 --export nbd:unix:s",
        "serve vd --size many --export nbd:unix:s",
        "serve vd --size 2048GiB --export nbd:unix:s",
        "serve vd --size 64KiB --buffers 0 --export nbd:unix:s",
        "serve vd --size 64KiB --buffer-size 100 --export nbd:unix:s",
        "serve vd --size 64KiB --export s",
        "serve vd --size 64KiB --export nbd:unix:",
        "serve vd --size 64KiB --export nbd:tcp:65536",
        "serve vd --size 64KiB --export nbd:tcp:0.0.0.0:1",
        "serve vd --size 64KiB --export nbd:unix:s --export nbd:tcp:1",
        "serve nbd+unix:///log --state my --export nbd:unix:s",
        "serve vd --size 64KiB --export nbd:unix:s --power sure",
        "serve vd --size 64KiB --export nbd:unix:s --hold-up 0",
        "emergency-flush vd --deadline soon",
    ] {
        assert_eq!(folder.run(&format!("disk {wrong}"), b"").code, 2, "{wrong}");
    }
    if !cfg!(all(feature = "fuse", target_os = "linux")) {
        let ran = folder.run("disk serve vd --size 64KiB --export fuse:file", b"");
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn what_is_no_disk_is_8_and_what_nobody_serves_is_1() {
    let folder = made("disk-none");
    folder.make_folder("empty");
    for verb in ["serve --export nbd:unix:s", "status", "flush", "drain", "emergency-flush"] {
        folder.run(&format!("disk {verb} empty"), b"").refused(8);
        folder.run(&format!("disk {verb} nowhere"), b"").refused(1);
    }
    for verb in ["status", "flush", "drain", "emergency-flush"] {
        assert!(folder.run(&format!("disk {verb} vd"), b"").refused(1).contains("nobody serves"));
    }
    assert_eq!(folder.names("."), ["empty", "vd"]);
    folder.write("no-bytes", b"");
    serve_once(&folder, "no-bytes").refused(8);
    assert_eq!(serve_once(&folder, "vd").code, 0);
    let area = folder.read("vd.seawall/area");
    folder.write("vd.seawall/area", &vec![7; area.len()]);
    serve_once(&folder, "vd").refused(8);
    folder.write("vd.seawall/area", &vec![0; area.len()]);
    assert!(serve_once(&folder, "vd").refused(8).contains("is missing"));
    folder.remove("vd.seawall/area");
    assert!(serve_once(&folder, "vd").refused(8).contains("is missing"));
    folder.write("vd.seawall/area", &area);
    folder.write("vd.seawall/disk.json", b"{}");
    assert!(serve_once(&folder, "vd").refused(8).contains("disk.json"));
}

#[test]
fn what_is_flushed_without_a_power_source_is_on_the_device() {
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
    assert_eq!(
        (&status["counts"]["flushes_early"], &status["connections"]),
        (&0.into(), &1.into())
    );
    assert!(status["says"].as_str().unwrap().contains("power source"), "{status}");
    let ran = folder.run("disk status vd", b"");
    assert!(ran.fine().text().starts_with("vd   write-through  "), "{ran:?}");
    server.signal("-KILL");
    assert!(!server.ended().0.success());
    // What it left, its sockets too, is in nobody's way.
    let server = Server::start(&folder, UNKNOWN);
    assert_eq!(Client::connect(&folder.path("s")).read(4096, 8), b"a record");
    assert_eq!(server.ask(&json!({ "do": "stop" }))["error"], Value::Null);
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn an_armed_disk_drains_at_the_end_whoever_asks_for_it() {
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
        assert!(said.contains("crash of this process"), "{said}");
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
    for wrong in [json!({ "do": "dance" }), json!([]), json!("status")] {
        let answer = server.ask(&wrong);
        assert!(answer["error"].as_str().unwrap().contains("emergency-flush"), "{answer}");
    }
    assert_eq!(server.state(), "armed");
}

/// Writes before an emergency, kills the server, and has the next one bring home what was dumped.
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
fn sigpwr_dumps_and_the_next_start_brings_it_home() {
    dumped_by("disk-sigpwr", |server| server.signal("-PWR"));
}

#[test]
fn an_emergency_flush_dumps_once_and_says_how_long_it_took() {
    dumped_by("disk-emergency", |server| {
        let ran = server.folder.run("disk emergency-flush vd --deadline 3600000 --json", b"");
        let first = ran.fine().json()[0].clone();
        assert!(first["ms"].is_number() && first["bytes"].is_number(), "{first}");
        let again = server.folder.run("disk emergency-flush vd --json", b"").fine().json();
        assert_eq!((&again[0]["ms"], &again[0]["bytes"]), (&first["ms"], &first["bytes"]));
    });
}

/// A folder with a disk whose dump has this in a run of its own; the server that dumped is killed.
fn with_dump(name: &str, needle: &[u8]) -> Folder {
    for _ in 0..20 {
        let folder = made(name);
        let server = Server::start(&folder, ARMED);
        let mut client = Client::connect(&folder.path("s"));
        client.write(0, b"another");
        client.write(32768, needle);
        folder.run("disk emergency-flush vd", b"").fine();
        server.signal("-KILL");
        server.ended();
        // The drainer may have been quicker.
        if folder.read("vd.seawall/area").windows(needle.len()).any(|window| window == needle) {
            return folder;
        }
    }
    panic!("the drainer is always quicker");
}

#[test]
fn a_torn_dump_is_told_loudly_and_status_is_10() {
    let folder = with_dump("disk-torn", b"needle");
    folder.flip("vd.seawall/area", b"needle");
    let mut server = Server::start(&folder, UNKNOWN);
    assert_eq!(folder.read("vd")[..7], *b"another");
    let ran = folder.run("disk status vd", b"");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.text().contains("a dump was found: 1 run home, 1 LOST"), "{ran:?}");
    assert!(error_of(&mut server.child).contains("1 run of it are LOST, 1 run are home"));
}

#[test]
fn a_dump_is_never_written_into_another_image() {
    let folder = with_dump("disk-foreign", b"needle");
    let dump = folder.read("vd.seawall/area");
    let theirs = vec![9; 65536];
    // As large, with the same name, often with the same number of the file.
    folder.remove("vd");
    folder.write("vd", &theirs);
    let ran = serve_once(&folder, "vd");
    assert!(ran.refused(9).contains("of another image"), "{ran:?}");
    folder.write("other", &theirs);
    serve_once(&folder, "other --state vd.seawall").refused(9);
    assert_eq!((folder.read("vd"), folder.read("other")), (theirs.clone(), theirs.clone()));
    // Nor into one that is made in its place, or that has another size by now.
    folder.remove("vd");
    serve_once(&folder, "vd --size 64KiB").refused(9);
    assert!(!folder.names(".").iter().any(|name| name.starts_with("vd") && name != "vd.seawall"));
    assert_eq!(folder.read("vd.seawall/area"), dump);
    // The settings say whose it is; without them nobody knows.
    folder.write("vd", &theirs);
    folder.remove("vd.seawall/disk.json");
    serve_once(&folder, "vd").refused(9);
    assert_eq!((folder.read("vd"), folder.read("vd.seawall/area")), (theirs.clone(), dump));
    // Whoever knows better says that it fits, as for a copy of the image.
    let fits_all = b"{\"schema\":\"seawall.disk.settings/1\"}";
    folder.write("vd.seawall/disk.json", fits_all);
    let ran = serve_once(&folder, "vd");
    assert!(ran.code == 0 && ran.err.contains("all of it is home"), "{ran:?}");
    assert_eq!((&folder.read("vd")[32768..32774], ran.code), (&b"needle"[..], 0));
    assert_ne!(folder.read("vd.seawall/disk.json"), fits_all);
}

#[test]
fn a_dump_is_brought_home_before_the_ring_changes() {
    let folder = with_dump("disk-ring", b"needle");
    let ran = serve_once(&folder, "vd --buffers 1 --buffer-size 4KiB");
    assert!(ran.code == 0 && ran.err.contains("all of it is home"), "{ran:?}");
    assert_eq!(folder.read("vd")[32768..32774], *b"needle");
    assert_eq!(folder.read("vd.seawall/area").len(), 12288);
}

#[test]
fn an_empty_area_goes_to_whatever_image_comes() {
    let folder = made("disk-adopt");
    assert_eq!(serve_once(&folder, "vd").code, 0);
    let before = folder.read("vd.seawall/disk.json");
    folder.remove("vd");
    let ran = serve_once(&folder, "vd --size 128KiB");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_ne!(folder.read("vd.seawall/disk.json"), before);
    let ran = folder.run("disk serve vd --export nbd:unix:s --run false", b"");
    assert_eq!(ran.code, 1, "{ran:?}");
}

#[test]
fn a_maker_that_was_killed_is_in_nobodys_way() {
    let folder = Folder::new("disk-making");
    let mut maker = folder.start("disk serve vd --size 4GiB --export nbd:unix:s");
    while folder.names(".") != ["vd.seawall-new"] {
        assert!(maker.try_wait().unwrap().is_none());
    }
    folder.run("disk serve vd --size 4GiB --export nbd:unix:t --run true", b"").refused(6);
    maker.kill().unwrap();
    maker.wait().unwrap();
    assert_eq!(folder.names("."), ["vd.seawall-new"]);
    assert_eq!(serve_once(&folder, "vd --size 64KiB").code, 0);
    assert_eq!(folder.names("."), ["s.lock", "vd", "vd.seawall"]);
}

#[test]
fn a_deadline_that_is_missed_is_10() {
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
    // One that never answers is not waited for.
    let ran = folder.run("disk drain vd --deadline 1", b"");
    assert!(ran.refused(10).contains("goes on"), "{ran:?}");
}

#[test]
fn a_server_in_an_emergency_ends_well_when_it_has_dumped() {
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
fn two_servers_of_one_disk_are_6() {
    let folder = made("disk-two");
    let server = Server::start(&folder, UNKNOWN);
    folder.run("disk serve vd --export nbd:unix:other --run true", b"").refused(6);
    folder.write("other", &vec![0; 65536]);
    folder
        .run("disk serve other --state vd.seawall --export nbd:unix:t --run true", b"")
        .refused(6);
    assert_eq!(server.state(), "write-through");
    folder.run("disk serve other --export nbd:unix:s --run true", b"").refused(1);
}

#[test]
fn a_command_ends_the_server_with_its_own_code() {
    let folder = made("disk-run");
    let line = "seawall disk serve vd --export nbd:tcp:0 --name wal \
                --run 'echo \"$SEAWALL_DISK_URI\"; seawall() { :; }; exit 7'";
    let ran = folder.shell(line, b"");
    assert_eq!(ran.code, 7, "{ran:?}");
    let said: Vec<&str> = ran.text().lines().collect();
    let [ready, uri] = said[..] else { panic!("{ran:?}") };
    let port = ready.strip_prefix("ready nbd tcp:").unwrap();
    assert_eq!(uri, format!("nbd://127.0.0.1:{port}/wal"));
    assert!(uri.starts_with("nbd://127.0.0.1:") && uri.ends_with("/wal"), "{uri}");
    folder.shell("seawall disk serve vd --export nbd:tcp:0 --run true -q", b"").fine();
    let ran = folder.shell("seawall disk serve vd --export nbd:tcp:0 --run 'kill -KILL $$'", b"");
    assert_eq!(ran.code, 128 + 9, "{ran:?}");
}

#[test]
fn a_server_that_is_stopped_before_its_command_says_so() {
    let folder = made("disk-early");
    // It stays for as long as its server, and does not hold what is read here.
    let command = "exec >&- 2>&-; kill -TERM $PPID; while kill -0 $PPID; do :; done";
    let ran =
        folder.shell(&format!("seawall disk serve vd --export nbd:tcp:0 --run '{command}'"), b"");
    assert!(ran.refused(1).contains("stopped before its command"), "{ran:?}");
}

#[test]
fn a_watched_status_ends_with_the_server() {
    let folder = made("disk-watch");
    let server = Server::start(&folder, UNKNOWN);
    let mut watch = folder.start("disk status vd --watch --json");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["schema"], "seawall.disk.status/1");
    }
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    assert!(lines.all(|line| line.is_ok()));
    assert_eq!(watch.wait().unwrap().code(), Some(1));
}

/// What the system says of a process.
fn proc_file(folder: &Folder, pid: u32, name: &str) -> String {
    String::from_utf8(folder.read(&format!("/proc/{pid}/{name}"))).unwrap()
}

#[test]
fn what_status_says_of_its_memory_is_what_the_system_says() {
    let folder = made("disk-memory");
    let server = Server::start(&folder, "vd --export nbd:unix:s --run cat");
    let pid = server.child.id();
    let status = server.ask(&json!({ "do": "status" }));
    let process = proc_file(&folder, pid, "status");
    let locked = process.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    let kib: u64 = locked.trim().trim_end_matches(" kB").parse().unwrap();
    // The ring and the memory for its dump are 3 MiB each.
    assert_eq!(status["memory_locked"], kib > 6 * 1024, "{status} {locked}");
    assert_eq!(status["memory_why"].is_string(), kib == 0, "{status}");
    let score: i64 = proc_file(&folder, pid, "oom_score_adj").trim().parse().unwrap();
    assert_eq!(status["oom_score_adj"], score);
    let said = folder.run("disk status vd", b"").text().to_owned();
    let shown = if kib > 0 { "locked; " } else { "NOT locked: " };
    assert!(said.contains(&format!("  memory      {shown}")), "{said}");
    // What is run beside is not spared because the server is.
    let mine: i64 = proc_file(&folder, std::process::id(), "oom_score_adj").trim().parse().unwrap();
    let children = proc_file(&folder, pid, &format!("task/{pid}/children"));
    let child = children.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(proc_file(&folder, child, "oom_score_adj").trim(), mine.max(score).to_string());
}

#[test]
fn a_server_that_may_not_lock_its_memory_says_so_and_serves() {
    // Without what lets the owner of the machine pass the limit, where that can be given up.
    let give_up = "setpriv --bounding-set=-sys_resource,-ipc_lock";
    let may_give_up = Command::new("sh").args(["-c", &format!("{give_up} true")]).output();
    let give_up = if may_give_up.unwrap().status.success() { give_up } else { "" };
    let folder = made("disk-unlocked");
    let program = env!("CARGO_BIN_EXE_seawall");
    let ran = folder.shell(
        &format!(
            "ulimit -l 64; exec {give_up} '{program}' disk serve vd --export nbd:unix:s --run \
             '{program} disk status vd --json'"
        ),
        b"",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let status: Value = serde_json::from_str(ran.text().lines().nth(1).unwrap()).unwrap();
    let is_locked = status["memory_locked"].as_bool().unwrap();
    assert_eq!(ran.err.contains("memory is NOT locked"), !is_locked, "{ran:?}");
    // Only the owner of the machine is not kept by the limit, if it could not be given up.
    assert!(!is_locked || give_up.is_empty(), "{ran:?}");
}

/// Runs a server to its end, with a socket for what it tells; what it told.
fn told(folder: &Folder, socket: &std::os::unix::net::UnixDatagram, name: &str) -> Vec<String> {
    let mut command = folder.command("disk serve vd --export nbd:unix:s");
    let micros = PATIENCE.as_micros().to_string();
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", micros);
    let server = Server::of(folder, command);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 4096];
    let mut told = vec![];
    let mut hear = |told: &mut Vec<String>| {
        let size = socket.recv(&mut bytes).unwrap();
        told.push(String::from_utf8(bytes[..size].to_vec()).unwrap());
    };
    // Two threads tell; of the watchdog's there is one at once, and the next is far away.
    hear(&mut told);
    hear(&mut told);
    server.signal("-TERM");
    hear(&mut told);
    assert_eq!(server.ended().0.code(), Some(0));
    told.sort();
    told
}

#[test]
fn systemd_is_told_when_it_serves_and_when_it_ends() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let folder = made("disk-notify");
    let path = folder.path("notify");
    let name = format!("seawall-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
        (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}")),
    ];
    for (socket, name) in sockets {
        let ready = "READY=1\nSTATUS=write-through: flushes wait for the device: the power source \
                     is not known to be well";
        let expected = [ready, "STOPPING=1\nSTATUS=draining", "WATCHDOG=1"];
        assert_eq!(told(&folder, &socket, &name), expected);
    }
}

#[test]
fn a_watchdog_hears_it_often_enough_and_its_command_does_not() {
    let folder = made("disk-watchdog");
    let path = folder.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut command = folder.command("disk serve vd --export nbd:unix:s -q --run");
    command.arg("echo \"[$NOTIFY_SOCKET$WATCHDOG_USEC]\"; cat");
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "30000");
    let server = Server::of(&folder, command);
    assert_eq!(server.rest.recv_timeout(PATIENCE).unwrap(), "[]");
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = [0; 100];
    let mut signs = 0;
    while signs < 5 {
        let size = socket.recv(&mut bytes).unwrap();
        signs += usize::from(&bytes[..size] == b"WATCHDOG=1");
    }
}

/// The values of a page in Prometheus' text format, read as strictly as it has to be written.
fn metrics(page: &str) -> std::collections::BTreeMap<String, String> {
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_part)
    };
    assert!(page.ends_with('\n'));
    let mut values = std::collections::BTreeMap::new();
    let mut lines = page.lines();
    while let Some(help) = lines.next() {
        let (name, about) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(is_name(name) && !about.contains('\\'), "{help}");
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert_eq!(kind, if name.ends_with("_total") { "counter" } else { "gauge" });
        let value = lines.next().unwrap().strip_prefix(name).unwrap();
        let value = value.strip_prefix("{image=\"vd\"} ").unwrap();
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{value}");
        let before = values.insert(name.to_owned(), value.to_owned());
        assert_eq!(before, None, "{name} is there twice");
    }
    values
}

fn http(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn prometheus_reads_how_it_stands() {
    let folder = made("disk-metrics");
    let server = Server::start(&folder, &format!("{ARMED} --metrics unix:m"));
    let mut client = Client::connect(&folder.path("s"));
    client.write(0, &[1; 10_000]);
    client.flush();
    let ran = folder.run("disk status vd --prometheus", b"");
    let values = metrics(ran.fine().text());
    assert_eq!(values["seawall_disk_size_bytes"], "65536");
    assert_eq!(values["seawall_disk_armed"], "1");
    assert_eq!(values["seawall_disk_writes_total"], "1");
    assert_eq!(values["seawall_disk_written_bytes_total"], "10000");
    assert_eq!(values["seawall_disk_hold_up_seconds"], "60");
    let number = |name: &str| values[name].parse::<f64>().unwrap();
    assert!(number("seawall_disk_dirty_bytes") <= 10_000.0);
    assert_eq!(values["seawall_disk_dirty_bytes_max"], "10000");
    let worst = number("seawall_disk_flush_worst_seconds");
    let margin = number("seawall_disk_margin_seconds");
    assert!(worst > 0.0 && (60.0 - 0.001 - 2.0 * worst - margin).abs() < 1e-9, "{values:?}");
    // The same over HTTP, also behind somebody who says nothing, and one who never ends.
    let connect = || UnixStream::connect(folder.path("m")).unwrap();
    let _silent = connect();
    let mut endless = connect();
    let _ = endless.write_all(&vec![b'a'; 20_000]);
    let page = http(connect(), "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, page) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", page.len())), "{head}");
    assert_eq!(metrics(page).keys().collect::<Vec<_>>(), values.keys().collect::<Vec<_>>());
    assert!(http(connect(), "GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404 "));
    // A socket that a killed server left is in nobody's way; one of a living server is.
    folder.write("other", &vec![0; 4096]);
    for place in ["m", "other", "other.seawall"] {
        let line =
            format!("disk serve other --export nbd:unix:t --run true --metrics unix:{place}");
        assert!(folder.run(&line, b"").refused(1).contains("cannot listen"), "{place}");
    }
    assert_eq!(folder.read("other"), vec![0; 4096]);
    server.signal("-KILL");
    server.ended();
    let server = Server::start(&folder, &format!("{UNKNOWN} --metrics unix:m"));
    let ran = folder.run("disk status vd --prometheus", b"");
    assert_eq!(metrics(ran.text())["seawall_disk_armed"], "0");
    assert!(http(connect(), "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200 "));
    assert_eq!(server.state(), "write-through");
}

#[test]
fn a_file_says_what_is_not_typed() {
    let folder = made("disk-config");
    let template = folder.run("disk config", b"").fine().text().to_owned();
    let line = |key: &str| format!("\n#{key} = ");
    for key in ["image", "export", "size", "state", "power", "hold-up", "metrics"] {
        assert!(template.contains(&line(key)), "{key}: {template}");
    }
    let set = |text: &str, key: &str, value: &str| {
        let (head, tail) = text.split_once(&line(key)).unwrap();
        let (_, tail) = tail.split_once('\n').unwrap();
        format!("{head}\n{key} = {value}\n{tail}")
    };
    let text = set(&set(&template, "image", "vd"), "export", "nbd:unix:s");
    folder.write("vd.conf", set(&text, "hold-up", "77").as_bytes());
    let server = Server::start(&folder, "--config vd.conf");
    assert_eq!(server.ready, "ready nbd unix:s");
    assert_eq!(server.ask(&json!({ "do": "status" }))["supply"]["hold_up_ms"], 77.0);
    drop(server);
    let server = Server::start(&folder, "--config=vd.conf --hold-up 78 --export nbd:unix:t");
    assert_eq!(server.ready, "ready nbd unix:t");
    assert_eq!(server.ask(&json!({ "do": "status" }))["supply"]["hold_up_ms"], 78.0);
    drop(server);
    folder.write("vd.conf", b"# mine\nimage = vd\nhold = 3\n");
    let ran = folder.run("disk serve --config vd.conf --export nbd:unix:s --run true", b"");
    assert!(ran.refused(2).contains("where: vd.conf, line 3"), "{ran:?}");
    folder.run("disk serve vd --export nbd:unix:s --config none --run true", b"").refused(1);
    folder.write("vd.conf", &vec![b'#'; 70_000]);
    folder.run("disk serve vd --export nbd:unix:s --config vd.conf --run true", b"").refused(1);
    // What is missing in both is asked for.
    folder.write("vd.conf", b"export = nbd:unix:s\n");
    assert_eq!(folder.run("disk serve --config vd.conf --run true", b"").code, 2);
}

#[test]
fn a_path_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let folder = Folder::new("disk-bytes");
    let of = |text: &[u8]| std::ffi::OsString::from_vec(text.to_vec());
    let mut command = folder.command("disk serve --size 64KiB --run true");
    command.arg(of(b"v\xff")).args(["--export", "nbd:unix:s"]);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(folder.path("").join(of(b"v\xff.seawall")).is_dir(), "{:?}", folder.names("."));
}

/// A block device over a file, where this machine has such and lets us.
struct Loop(String);

impl Loop {
    fn over(path: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(path).output().ok()?;
        let name = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        (made.status.success() && Path::new(&name).exists()).then_some(Self(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_is_served_as_it_is_and_by_one() {
    let folder = Folder::new("disk-device");
    folder.write("back", &vec![5; 1 << 20]);
    let Some(device) = Loop::over(&folder.path("back")) else {
        eprintln!("skipped: there is no loop device here");
        return;
    };
    let name = &device.0;
    serve_once(&folder, name).refused(2);
    serve_once(&folder, &format!("{name} --state vd.seawall --size 1MiB")).refused(2);
    assert_eq!(folder.names("."), ["back"]);
    let server = Server::start(
        &folder,
        &format!("{name} --state vd.seawall --export nbd:unix:s --power ok --hold-up 60000"),
    );
    let status = server.ask(&json!({ "do": "status" }));
    assert_eq!((&status["bytes"], &status["state"]), (&1_048_576.into(), &"armed".into()));
    serve_once(&folder, &format!("{name} --state other")).refused(6);
    let mut client = Client::connect(&folder.path("s"));
    // Long enough for a way past the cache.
    client.write(4096, &vec![6; 200_000]);
    assert_eq!(client.read((1 << 20) - 10, 10), [5; 10]);
    server.signal("-TERM");
    assert_eq!(server.ended().0.code(), Some(0));
    let settings = String::from_utf8(folder.read("vd.seawall/disk.json")).unwrap();
    assert!(settings.contains("\"image\":\"device "), "{settings}");
    drop(device);
    let mut expected = vec![5; 1 << 20];
    expected[4096..204_096].fill(6);
    assert!(folder.read("back") == expected);
}
