//! A disk whose device is another NBD server.

use super::*;

use seawall_disk::device::{Cost, Device, Region};
use seawall_disk::nbd::{self, Limits, Listen, Target};
use seawall_io::{Clock, File, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often the next writes to a region fail, or `HANGS`.
type Failures = Arc<AtomicUsize>;

/// The next write waits until this changes.
const HANGS: usize = usize::MAX;

/// A region whose next writes can fail or hang.
#[derive(Debug)]
struct Failing {
    region: Region,
    failures: Failures,
}

impl Target for Failing {
    fn size(&self) -> u64 {
        self.region.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.region.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        while self.failures.load(Ordering::SeqCst) == HANGS {
            SystemClock::new().sleep(Duration::from_millis(5));
        }
        let less = |failures: usize| failures.checked_sub(1);
        match self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Err(io::ErrorKind::Other.into()),
            Err(_) => self.region.write(offset, bytes),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.region.flush()
    }

    fn drain(&self) -> io::Result<()> {
        self.region.drain()
    }
}

/// A simulated device with the exports `home` and `area`, listening at `d`.
fn device(folder: &Folder) -> nbd::Server {
    failing_device(folder, Arc::default())
}

/// A simulated device whose dump area fails as often as `failures` says.
fn failing_device(folder: &Folder, failures: Failures) -> nbd::Server {
    device_of(folder, [Arc::default(), failures])
}

/// A simulated device whose exports `home` and `area` fail as often as `failures` say.
fn device_of(folder: &Folder, failures: [Failures; 2]) -> nbd::Server {
    let storage = MemStorage::new();
    let region = |(name, size)| -> Arc<dyn File> {
        let file = storage.create(name).unwrap();
        file.set_len(size).unwrap();
        file
    };
    let regions = [("home", 1 << 20), ("area", 16 << 20)].map(region);
    let cost = Cost { delay: Duration::ZERO, bandwidth: 0 };
    let device = Device::new(regions.into(), cost, Arc::new(SystemClock::new())).unwrap();
    let device = Arc::new(device);
    let [home, area] = failures;
    let home = Failing { region: device.region(0), failures: home };
    let area = Failing { region: device.region(1), failures: area };
    let exports: [(&str, Arc<dyn Target>); 2] =
        [("home", Arc::new(home)), ("area", Arc::new(area))];
    nbd::Server::start_all(&exports, &Listen::Unix(folder.path("d")), Limits::default()).unwrap()
}

#[test]
fn disk_over_nbd_is_served_or_refused_with_a_reason() {
    let folder = Folder::new("device-serve");
    let device = device(&folder);
    let uri = "nbd+unix:///home?socket=d";
    let serve =
        |what: &str| folder.run(&format!("disk serve {what} --export nbd:unix:s --run true"), b"");
    let served = serve(&format!("{uri} --state state"));
    assert_eq!(served.code, 0, "{served:?}");
    for wrong in [
        uri.to_owned(),
        format!("{uri} --state state --size 1MiB"),
        "nbd+unix:///home --state state".to_owned(),
    ] {
        assert_eq!(serve(&wrong).code, 2, "{wrong}");
    }
    let unknown = serve("nbd+unix:///log?socket=d --state other");
    assert!(unknown.code == 1 && unknown.err.contains("no disk of this name"), "{unknown:?}");
    device.stop().unwrap();
    assert_eq!(serve(&format!("{uri} --state state")).code, 1);
}

/// The image hangs while bytes of an early flush are only in memory. A monitor reports that the
/// power has failed, and nothing sends SIGPWR.
#[test]
fn drain_that_outlasts_the_hold_up_time_ends_in_a_dump() {
    let folder = Folder::new("device-hangs");
    let home: Failures = Arc::default();
    let device = device_of(&folder, [home.clone(), Arc::default()]);
    folder.write("monitor", b"! [ -e battery ]\n");
    let serve = "disk serve nbd+unix:///home?socket=d --state vd.seawall --export nbd:unix:s";
    let mut command = folder.command(&format!("{serve} --no-keeper --hold-up 4000"));
    command.args(["--power", "command:. ./monitor"]);
    let server = Server::of(&folder, command);
    assert_eq!(server.state(), "armed");
    let mut client = Client::connect(&folder.path("s"));
    home.store(HANGS, Ordering::SeqCst);
    client.write(4096, b"acknowledged");
    client.flush();
    let mut status = server.ask(&json!({ "do": "status" }));
    assert_eq!(status["counts"]["flushes_early"], 1);
    folder.write("battery", b"");
    for _ in 0..6000 {
        if status["emergency"]["bytes"].as_u64() > Some(0) {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
        status = server.ask(&json!({ "do": "status" }));
    }
    server.signal("-KILL");
    server.ended();
    // Otherwise the device would never end.
    home.store(0, Ordering::SeqCst);
    let is_dumped = status["emergency"]["bytes"].as_u64() > Some(0);
    assert!(is_dumped && status["broken"] == false, "{status}");
    let server = Server::start(&folder, &serve["disk serve ".len()..]);
    assert_eq!(Client::connect(&folder.path("s")).read(4096, 12), b"acknowledged");
    drop(server);
    device.stop().unwrap();
}

/// The device fails while bytes of an early flush are only in memory; then the power source fails.
#[test]
fn stop_that_cannot_save_acknowledged_data_exits_10() {
    for (keeper, fate) in [("--no-keeper", "is lost"), ("", "is only in the memory of the keeper")]
    {
        let folder = Folder::new(&format!("device-stop{keeper}"));
        let device = device(&folder);
        folder.write("monitor", b"! [ -e battery ]\n");
        let uri = "nbd+unix:///home?socket=d";
        let serve = format!("disk serve {uri} --state vd.seawall --export nbd:unix:s {keeper}");
        let mut command = folder.command(&format!("{serve} --hold-up 60000"));
        command.args(["--power", "command:. ./monitor"]);
        let server = Server::of(&folder, command);
        let status = |server: &Server<'_>| server.ask(&json!({ "do": "status" }));
        assert_eq!(server.state(), "armed");
        let mut client = Client::connect(&folder.path("s"));
        device.stop().unwrap();
        client.write(4096, b"acknowledged");
        client.flush();
        assert_eq!(status(&server)["counts"]["flushes_early"], 1);
        folder.write("battery", b"");
        let mut statuses = (0..100_000).map(|_| status(&server));
        statuses.find(|status| status["supply"]["healthy"] == false).unwrap();
        let ran = folder.run("disk stop --state vd.seawall", b"");
        assert!(ran.refused(10).contains(fate), "{ran:?}");
        let (status, said) = server.ended();
        assert!(status.code() == Some(10) && said.contains(fate), "{status}: {said}");
    }
}

#[test]
fn device_that_fails_for_good_is_reported_in_the_log() {
    let folder = Folder::new("device-log");
    let device = device(&folder);
    let serve = "nbd+unix:///home?socket=d --state vd.seawall --export nbd:unix:s";
    let mut server = Server::start(&folder, serve);
    let error = server.child.stderr.take().unwrap();
    let mut client = Client::connect(&folder.path("s"));
    device.stop().unwrap();
    client.write(4096, b"never flushed");
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(error).lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    let mut lines = std::iter::from_fn(|| lines.recv_timeout(PATIENCE).ok());
    assert!(lines.any(|line| line.contains("read-only: the device failed too often")));
}

/// The start fails after a flush has returned early: standard output is full, so the server has to
/// wait before it starts the command, for which there is no shell.
#[test]
fn start_that_fails_late_and_loses_acknowledged_data_exits_10() {
    let folder = Folder::new("device-late");
    let device = device(&folder);
    let uri = "nbd+unix:///home?socket=d";
    let serve = format!("disk serve {uri} --state vd.seawall --export nbd:unix:s --no-keeper");
    let mut command = folder.command(&format!("{serve} --power ok --hold-up 60000 --run true"));
    let (mut out, reader) = UnixStream::pair().unwrap();
    out.set_nonblocking(true).unwrap();
    while out.write(b".").is_ok() {}
    out.set_nonblocking(false).unwrap();
    command.stdout(OwnedFd::from(out)).env("PATH", "/nonexistent");
    let mut child = command.spawn().unwrap();
    drop(command);
    let ask = || {
        let mut stream = UnixStream::connect(folder.path("vd.seawall/control")).ok()?;
        stream.write_all(b"{\"do\":\"status\"}\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str::<Value>(&answer).ok()
    };
    let clock = SystemClock::new();
    while !ask().is_some_and(|status| status["state"] == "armed") {
        assert!(clock.now() < PATIENCE, "{}", error_of(&mut child));
        clock.sleep(Duration::from_millis(5));
    }
    let mut client = Client::connect(&folder.path("s"));
    client.write(4096, b"acknowledged");
    client.flush();
    device.stop().unwrap();
    drop(reader);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(10), "{said}");
    assert!(said.contains("cannot run the command") && said.contains("is lost"), "{said}");
}

/// An emergency that cannot dump owes nothing by itself.
#[test]
fn stop_that_cannot_save_what_was_never_flushed_exits_1() {
    let folder = Folder::new("device-unflushed");
    let device = device(&folder);
    let uri = "nbd+unix:///home?socket=d";
    let export = "--state vd.seawall --export nbd:unix:s";
    let server = Server::start(&folder, &format!("{uri} {export} --no-keeper"));
    let mut client = Client::connect(&folder.path("s"));
    device.stop().unwrap();
    client.write(4096, b"never flushed");
    folder.run("disk emergency-flush vd", b"").refused(10);
    assert_eq!(server.state(), "emergency");
    let ran = folder.run("disk stop vd --json", b"");
    assert_eq!((ran.code, &ran.json()[0]["broken"]), (1, &false.into()), "{ran:?}");
    let (status, said) = server.ended();
    assert!(status.code() == Some(1) && said.contains("is lost"), "{status}: {said}");
}

/// Acknowledges data early on a device whose dump area then fails, lets the power fail, and returns
/// the first status for which `is_it`.
fn emergency_with(
    (folder, area): (&Folder, &Failures),
    failures: usize,
    is_it: fn(&Value) -> bool,
) -> Value {
    let server = Server::start(folder, &format!("{REMOTE} --power ok --hold-up 60000"));
    let mut client = Client::connect(&folder.path("s"));
    client.write(4096, b"acknowledged");
    client.flush();
    area.store(failures, Ordering::SeqCst);
    server.signal("-PWR");
    let ask = || server.ask(&json!({ "do": "status" }));
    let status = (0..100_000).map(|_| ask()).find(is_it).unwrap();
    // The server goes on meanwhile: only a status that it has before and after tells the code.
    let look = |_| {
        let before = ask();
        let code = folder.run("disk status --state vd.seawall", b"").code;
        (before["broken"] == ask()["broken"]).then_some((before["broken"] == true, code))
    };
    let (is_broken, code) = (0..1_000).find_map(look).unwrap();
    assert_eq!(code, if is_broken { 10 } else { 0 }, "{status}");
    // The power cut.
    server.signal("-KILL");
    server.ended();
    area.store(0, Ordering::SeqCst);
    status
}

const REMOTE: &str = "nbd+unix:///home?socket=d --state vd.seawall --export nbd:unix:s --no-keeper";

/// Starts a server that finds everything and reports no loss.
fn nothing_is_lost(folder: &Folder) {
    let server = Server::start(folder, REMOTE);
    let mut client = Client::connect(&folder.path("s"));
    assert_eq!(client.read(4096, 12), b"acknowledged");
    let status = server.ask(&json!({ "do": "status" }));
    assert_eq!((&status["broken"], &status["lost"]), (&false.into(), &false.into()));
}

fn has_ended(status: &Value) -> bool {
    !status["emergency"].is_null()
}

#[test]
fn dump_that_the_device_refuses_once_is_made_again() {
    let folder = Folder::new("device-refuses");
    let area = Failures::default();
    let device = failing_device(&folder, area.clone());
    let status = emergency_with((&folder, &area), 2, has_ended);
    assert!(status["emergency"]["error"].is_null(), "{status}");
    nothing_is_lost(&folder);
    device.stop().unwrap();
}

/// The power lasts longer than the dump area.
#[test]
fn data_goes_to_the_image_if_the_dump_area_fails() {
    for failures in [3, 1_000_000] {
        let folder = Folder::new("device-no-dump");
        let area = Failures::default();
        let device = failing_device(&folder, area.clone());
        let is_written = |status: &Value| has_ended(status) && status["dirty"] == 0;
        emergency_with((&folder, &area), failures, is_written);
        nothing_is_lost(&folder);
        device.stop().unwrap();
    }
}

#[test]
fn status_of_a_dump_that_hangs_exits_10() {
    let folder = Folder::new("device-hung-dump");
    let area = Failures::default();
    let device = failing_device(&folder, area.clone());
    let is_in_emergency = |status: &Value| status["state"] == "emergency";
    let status = emergency_with((&folder, &area), HANGS, is_in_emergency);
    assert_eq!((&status["broken"], &status["emergency"]), (&true.into(), &Value::Null));
    device.stop().unwrap();
}
