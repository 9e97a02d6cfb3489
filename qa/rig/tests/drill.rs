//! Tests `seawall-rig device` and `seawall-rig drill` as processes: what a power cut leaves. The
//! drill starts the `seawall` beside this program, so the tests build it first.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test reports failure by panicking"
)]

#[path = "../../../crates/seawall-cli/tests/tool/mod.rs"]
mod tool;

use seawall_disk::nbd::{Client, Uri};
use seawall_host::{Notice, send_signal};
use seawall_io::File;
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command};
use std::sync::Once;
use tool::Folder;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_seawall-rig");

/// A device, killed if it does not end by itself.
struct Device {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    ready: String,
    uri: Uri,
}

impl Device {
    fn start(folder: &Folder, arguments: &str) -> Self {
        let socket = folder.path("d");
        let mut child = folder.start(&format!("device img --size 1MiB {arguments} --unix d"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        Self { child, lines, ready, uri: Uri::new("home", &socket) }
    }

    fn client(&self, name: &str) -> Client {
        Client::connect(&self.uri.with_name(name)).unwrap()
    }

    /// Writes and flushes the first block of each export. Then writes both blocks of `home` and the
    /// second of `area`, without a flush.
    fn fill(&self) {
        let (home, area) = (self.client("home"), self.client("area"));
        home.write_at(&[1; 4096], 0).unwrap();
        area.write_at(&[2; 4096], 0).unwrap();
        home.sync().unwrap();
        home.write_at(&[3; 4096], 0).unwrap();
        home.write_at(&[3; 4096], 4096).unwrap();
        area.write_at(&[4; 4096], 4096).unwrap();
    }

    /// Waits for the end. Returns the exit code, and the output after the first line.
    fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let status = self.child.wait().unwrap();
        (status.code(), self.lines.by_ref().map(Result::unwrap).collect())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The device may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_device_that_is_killed_has_what_was_flushed_and_nothing_else() {
    let folder = Folder::new("device-killed");
    let mut device = Device::start(&folder, "--delay 1.5");
    assert_eq!(device.ready, "ready nbd unix:d");
    device.fill();
    device.child.kill().unwrap();
    assert_eq!(device.ended().0, None);
    let (home, area) = (folder.read("img"), folder.read("img.area"));
    assert_eq!((home.len(), area.len()), (1 << 20, 16 << 20));
    assert!(home[..4096] == [1; 4096] && home[4096..8192] == [0; 4096]);
    assert!(area[..4096] == [2; 4096] && area[4096..8192] == [0; 4096]);
    // A new device process continues with these files.
    let device = Device::start(&folder, "");
    let mut bytes = [9; 2];
    assert_eq!(device.client("home").read_at(&mut bytes, 4095).unwrap(), 2);
    assert_eq!(bytes, [1, 0]);
}

#[test]
fn a_device_that_is_told_to_end_makes_everything_durable() {
    let folder = Folder::new("device-ends");
    let device = Device::start(&folder, "");
    device.fill();
    send_signal(&device.child, Notice::End).unwrap();
    assert_eq!(device.ended(), (Some(0), vec![]));
    let (home, area) = (folder.read("img"), folder.read("img.area"));
    assert!(home[..8192] == [3; 8192] && area[4096..8192] == [4; 4096]);
}

#[test]
fn a_cut_of_a_device_leaves_some_sectors_and_says_how_many() {
    let folder = Folder::new("device-cut");
    let device = Device::start(&folder, "--seed 7 --json");
    let ready: Value = serde_json::from_str(&device.ready).unwrap();
    assert_eq!((&ready["schema"], &ready["seed"]), (&"seawall.disk.device/1".into(), &7.into()));
    device.fill();
    send_signal(&device.child, Notice::User).unwrap();
    let (code, lines) = device.ended();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    let answer: Value = serde_json::from_str(line).unwrap();
    let count = |name| answer["sectors"][name].as_u64().unwrap();
    let (home, area) = (folder.read("img"), folder.read("img.area"));
    let both = [&home[..8192], &area[4096..8192]].concat();
    let new = both
        .chunks(512)
        .filter(|sector| [[3; 512], [4; 512]].contains(&(*sector).try_into().unwrap()));
    assert_eq!((code, count("kept")), (Some(0), u64::try_from(new.count()).unwrap()));
    assert_eq!(count("kept") + count("lost"), 24);
    assert!(count("kept") > 0 && count("lost") > 0, "{answer}");
    assert!(home[..4096].chunks(512).all(|sector| sector == [1; 512] || sector == [3; 512]));
}

#[test]
fn one_process_is_a_device_and_its_size_stays() {
    let folder = Folder::new("device-busy");
    let device = Device::start(&folder, "");
    let second = folder.run("device img --size 1MiB --unix e", b"");
    assert_eq!(second.code, 6, "{second:?}");
    drop(device);
    let other = folder.run("device img --size 2MiB --unix e", b"");
    assert_eq!(other.code, 9, "{other:?}");
    let wrong = folder.run("device img --size 1MiB --unix e --delay -1", b"");
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

/// Builds `seawall` from the current source, so that no older one is tested by mistake.
fn build_seawall() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let folder = Path::new(PROGRAM).parent().unwrap();
        let profile = if folder.ends_with("debug") { "dev" } else { "release" };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--profile", profile]);
        // Also builds the package that selects features, and a test: otherwise Cargo would ignore
        // the features of dev-dependencies and build again what `cargo test` has built.
        cargo.args(["-p", "seawall-features", "-p", "seawall-cli", "--bins", "--test", "all"]);
        cargo.arg("--target-dir").arg(folder.parent().unwrap());
        assert!(cargo.status().unwrap().success());
    });
}

/// Runs a drill. Time is not tested, so callers give a long hold-up time.
fn drill(name: &str, arguments: &str) -> (i32, Value) {
    build_seawall();
    let folder = Folder::new(name);
    let ran = folder.run(&format!("drill --json --seconds 0.4 {arguments}"), b"");
    let answer = serde_json::from_slice(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    (ran.code, answer)
}

#[test]
fn a_drill_with_a_warning_loses_nothing() {
    let (code, answer) = drill("drill-announced", "--cycles 4 --hold-up 600");
    assert_eq!(
        (code, &answer["lost"], &answer["verdict"]),
        (0, &0.into(), &"kept".into()),
        "{answer}"
    );
    assert_eq!(answer["simulated"], true);
    let cycles = answer["cycles"].as_array().unwrap();
    assert_eq!(cycles.len(), 4);
    for cycle in cycles {
        assert!(cycle["acknowledged"].as_u64().unwrap() > 0, "{answer}");
        assert_ne!(cycle["dump_whole"], false, "{answer}");
        assert_eq!(cycle["damaged"], 0, "{answer}");
    }
    let dirty = cycles.iter().map(|cycle| cycle["dirty"].as_u64().unwrap());
    assert!(dirty.sum::<u64>() > 0, "it has to have something to lose: {answer}");
}

#[test]
fn a_drill_without_a_warning_is_a_control_that_loses() {
    let (code, answer) = drill("drill-unannounced", "--cycles 4 --unannounced --hold-up 1000");
    assert_eq!((code, &answer["verdict"]), (10, &"control-lost".into()), "{answer}");
    assert!(answer["lost"].as_u64().unwrap() > 0, "{answer}");
}

#[test]
fn a_drill_that_kills_clients_loses_nothing() {
    let (code, answer) = drill("drill-clients", "--cycles 3 --killed-client --hold-up 1000");
    assert_eq!(
        (code, &answer["lost"], &answer["verdict"]),
        (0, &0.into(), &"kept".into()),
        "{answer}"
    );
    assert!(answer["acknowledged"].as_u64().unwrap() > 0, "{answer}");
}

#[test]
fn a_drill_of_a_disk_that_does_not_arm_says_so() {
    build_seawall();
    let folder = Folder::new("drill-unarmed");
    let ran = folder.run("drill --cycles 1 --delay 20 --hold-up 20", b"");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the server is not armed"), "{ran:?}");
}

#[test]
fn a_disk_whose_upsd_says_on_battery_loses_nothing_and_a_second_run_continues() {
    build_seawall();
    let folder = Folder::new("drill-power");
    let mut rows = vec![];
    for cycles in 1..3 {
        let ran = folder.run(&format!("power --out o --cycles {cycles} --hold-up 2000"), b"");
        if ran.code == 77 {
            // Skipped without nut-server.
            return;
        }
        let answer: Value = serde_json::from_slice(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        assert_eq!((ran.code, &answer["verdict"]), (0, &"kept".into()), "{answer}");
        assert_eq!(answer["on_battery"]["fine"], cycles, "{answer}");
        rows.push(folder.read("o/power.jsonl"));
    }
    assert!(rows[1].starts_with(&rows[0]) && rows[1].len() > rows[0].len());
    let other = folder.run("power --out o --cycles 2 --hold-up 1000", b"");
    assert!(other.code == 1 && other.err.contains("other options"), "{other:?}");
}

#[test]
fn a_guest_without_a_kernel_is_skipped_by_name() {
    let folder = Folder::new("drill-guest");
    let ran = folder.run("qemu --kernel nowhere --dir rig", b"");
    assert_eq!(ran.code, 77, "{ran:?}");
    assert!(ran.err.contains("SKIPPED") && ran.err.contains("linux-image"), "{ran:?}");
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn a_drill_that_is_interrupted_leaves_nothing_behind() {
    build_seawall();
    let folder = Folder::new("drill-interrupted");
    folder.make_folder("tmp");
    let mut command = folder.command("drill --seconds 60");
    let mut child = command.env("TMPDIR", folder.path("tmp")).spawn().unwrap();
    // The server's socket exists, so both processes run, and the clients are about to work.
    let is_served = |name: &String| folder.path("tmp").join(name).join("s").exists();
    while !folder.names("tmp").iter().any(is_served) {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    assert!(folder.names("tmp")[0].starts_with("seawall-drill-"));
    send_signal(&child, Notice::End).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(folder.names("tmp"), [""; 0]);
}
