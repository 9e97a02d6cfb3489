//! A disk mounted as a file with the kernel's FUSE client. Needs root and /dev/fuse.

#![cfg(all(feature = "fuse", target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

mod common;

use common::{Folder, skipped, slow};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use seawall_disk::fuse::{Parting, Server};
use seawall_disk::{Disk, Files, Options, Supply};
use seawall_io::{Access, PosixStorage, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 4 << 20;
const DIRECT: i32 = 0o40_000;

/// Whether this process can mount; if not, prints which test is skipped, and why.
fn can_mount(name: &str) -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let missing = match device {
        Err(error) => format!("/dev/fuse cannot be opened: {error}"),
        Ok(_) if !rustix::process::geteuid().is_root() => "it takes root to mount".to_owned(),
        Ok(_) => return true,
    };
    skipped(&format!("{name}: {missing}"));
    false
}

impl Folder {
    fn names(&self) -> Vec<String> {
        PosixStorage::open(&self.0).unwrap().list().unwrap()
    }
}

fn options(is_armed: bool) -> Options {
    let hold_up = Duration::from_secs(1);
    let supply = Supply { hold_up, detection: Duration::ZERO, is_healthy: is_armed };
    Options { supply, ..Options::default() }
}

fn made() -> MemStorage {
    common::made(SIZE, &options(false))
}

fn opened(device: &MemStorage, is_armed: bool) -> Arc<Disk> {
    let open = |name| device.open(name, Access::ReadWrite).unwrap();
    let files = Files { home: slow(open("home"), Duration::from_millis(50)), area: open("area") };
    let clock = Arc::new(SystemClock::new());
    let disk = Disk::open(files, &options(is_armed), clock).unwrap().0;
    if is_armed {
        disk.calibrate().unwrap();
    }
    Arc::new(disk)
}

fn open(path: &Path, flags: i32) -> io::Result<std::fs::File> {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// The first bytes of the disk after a power cut.
fn left(device: &MemStorage) -> [u8; 4] {
    let mut bytes = [0; 4];
    opened(&device.power_cut(|_| false), false).read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn file_shows_the_disk() {
    if !can_mount("file_shows_the_disk") {
        return;
    }
    let folder = Folder::new("fuse-file");
    let disk = opened(&made(), true);
    let server = Server::start(disk.clone(), &folder.0.join("disk")).unwrap();
    let file = open(server.path(), 0).unwrap();
    assert_eq!(file.metadata().unwrap().len(), SIZE);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251).try_into().unwrap()).collect();
    file.write_all_at(&bytes, 12_345).unwrap();
    let mut found = vec![0; bytes.len()];
    disk.read(12_345, &mut found).unwrap();
    assert!(found == bytes);
    found.fill(0);
    file.read_exact_at(&mut found, 12_345).unwrap();
    assert!(found == bytes);
    // With O_DIRECT, for aligned access as by a loop device.
    let direct = open(server.path(), DIRECT).unwrap();
    assert_eq!(direct.metadata().unwrap().len(), SIZE);
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    assert!(server.is_mounted());
    assert_eq!(server.connections(), 2);
    drop((file, direct));
    assert_eq!(server.stop().unwrap(), Parting::Free);
    assert!(folder.names().is_empty());
}

#[test]
fn size_and_owner_are_fixed() {
    if !can_mount("size_and_owner_are_fixed") {
        return;
    }
    let folder = Folder::new("fuse-size");
    let server = Server::start(opened(&made(), true), &folder.0.join("disk")).unwrap();
    let file = open(server.path(), 0).unwrap();
    for size in [0, SIZE - 1, SIZE + 1, u64::MAX >> 1] {
        file.set_len(size).unwrap_err();
    }
    file.set_len(SIZE).unwrap();
    OpenOptions::new().write(true).truncate(true).open(server.path()).unwrap_err();
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o666)).unwrap_err();
    assert_eq!(file.write_at(b"abcd", SIZE - 1).unwrap(), 1);
    assert_eq!(file.write_at(b"a", SIZE).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.read_at(&mut [0; 9], SIZE - 1).unwrap(), 1);
    assert_eq!(file.read_at(&mut [0; 9], SIZE).unwrap(), 0);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, SIZE - 4096, 8192).unwrap();
    assert_eq!(file.read_at(&mut [7; 1], SIZE - 1).unwrap(), 1);
    let collapse = FallocateFlags::COLLAPSE_RANGE;
    assert_eq!(rustix::fs::fallocate(&file, collapse, 0, 4096), Err(Errno::OPNOTSUPP));
    let space = rustix::fs::statfs(server.path()).unwrap();
    assert_eq!((space.f_blocks, space.f_bfree), (SIZE / 4096, 0));
    // Directory operations fail, because the mount point is a file.
    server.path().join("below").metadata().unwrap_err();
    server.path().read_dir().unwrap_err();
    assert!(server.is_mounted());
}

#[test]
fn sync_of_an_unarmed_disk_waits_for_the_device() {
    if !can_mount("sync_of_an_unarmed_disk_waits_for_the_device") {
        return;
    }
    let folder = Folder::new("fuse-sync");
    for flags in [0, rustix::fs::OFlags::DSYNC.bits().try_into().unwrap()] {
        let device = made();
        let server = Server::start(opened(&device, false), &folder.0.join("disk")).unwrap();
        let file = open(server.path(), flags).unwrap();
        file.write_all_at(b"home", 0).unwrap();
        if flags == 0 {
            file.sync_data().unwrap();
        }
        assert_eq!(&left(&device), b"home");
    }
}

#[test]
fn stopped_server_drains_while_the_file_is_open() {
    if !can_mount("stopped_server_drains_while_the_file_is_open") {
        return;
    }
    let folder = Folder::new("fuse-stop");
    for parting in [Parting::Free, Parting::HungUp] {
        let device = made();
        let server = Server::start(opened(&device, true), &folder.0.join("disk")).unwrap();
        let file = open(server.path(), 0).unwrap();
        file.write_all_at(b"home", 0).unwrap();
        file.sync_data().unwrap();
        let kept = (parting == Parting::HungUp).then_some(file);
        assert_eq!(server.stop().unwrap(), parting);
        assert_eq!(&left(&device), b"home");
        assert!(folder.names().is_empty());
        if let Some(file) = kept {
            file.write_at(b"gone", 0).unwrap_err();
            file.sync_data().unwrap_err();
        }
    }
}

#[test]
fn file_of_a_running_server_is_not_replaced() {
    if !can_mount("file_of_a_running_server_is_not_replaced") {
        return;
    }
    let folder = Folder::new("fuse-taken");
    let start = |name| Server::start(opened(&made(), false), &folder.0.join(name));
    let server = start("disk").unwrap();
    assert_eq!(start("disk").unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(server.is_mounted());
    let storage = PosixStorage::open(&folder.0).unwrap();
    storage.create("full").unwrap().write_at(b"a", 0).unwrap();
    assert_eq!(start("full").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    storage.folder("folder").unwrap();
    assert_eq!(start("folder").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    start("none/disk").unwrap_err();
    storage.create("empty").unwrap();
    drop(start("empty").unwrap());
    server.stop().unwrap();
    assert_eq!(folder.names(), ["full"]);
    assert_eq!(storage.open("full", Access::Read).unwrap().len().unwrap(), 1);
}

/// Runs a system command and returns its standard output.
fn run(command: &[&str]) -> Result<String, String> {
    let [program, arguments @ ..] = command else { return Err("no command".to_owned()) };
    let done = Command::new(program).args(arguments).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    let error = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(said) } else { Err(format!("{command:?}: {error}")) }
}

/// A loop device and a mount of it, both removed on drop.
struct Mounted<'a> {
    device: &'a str,
    place: &'a str,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = run(&["umount", self.place]);
        let _ = run(&["losetup", "--detach", self.device]);
    }
}

#[test]
fn loop_device_on_the_file_holds_ext4() {
    const NAME: &str = "loop_device_on_the_file_holds_ext4";
    if !can_mount(NAME) {
        return;
    }
    if let Err(why) = run(&["losetup", "--find"]).and(run(&["mkfs.ext4", "-V"])) {
        skipped(&format!("{NAME}: {why}"));
        return;
    }
    let folder = Folder::new("fuse-loop");
    let storage = PosixStorage::open(&folder.0).unwrap();
    let files =
        Files { home: storage.create("home").unwrap(), area: storage.create("area").unwrap() };
    files.home.fill_with_zeros(64 << 20).unwrap();
    files.prepare(7, &options(true)).unwrap();
    let disk = Disk::open(files, &options(true), Arc::new(SystemClock::new())).unwrap().0;
    disk.calibrate().unwrap();
    let server = Server::start(Arc::new(disk), &folder.0.join("disk")).unwrap();
    let path = server.path().to_str().unwrap().to_owned();
    let device = run(&["losetup", "--direct-io=on", "--find", "--show", &path]).unwrap();
    let place = folder.0.join("mounted");
    PosixStorage::create(&place).unwrap();
    let place = place.to_str().unwrap();
    let mounted = Mounted { device: &device, place };
    assert_eq!(run(&["losetup", "-n", "-O", "DIO", &device]).unwrap(), "1");
    run(&["mkfs.ext4", "-q", &device]).unwrap();
    run(&["mount", &device, place]).unwrap();
    match run(&["fio", "--version"]) {
        Ok(_) => {
            let fio = "fio --name=a --size=8m --rw=randwrite --bs=8k --fsync=4 --numjobs=2 \
                       --verify=crc32c --do_verify=1 --aux-path=/dev/null --output-format=terse";
            let place = format!("--directory={place}");
            let words: Vec<&str> = fio.split_whitespace().chain([place.as_str()]).collect();
            run(&words).unwrap();
        }
        Err(why) => skipped(&format!("{NAME}: a part of it: {why}")),
    }
    drop(mounted);
    run(&["fsck.ext4", "-f", "-n", &path]).unwrap();
    assert_eq!(server.stop().unwrap(), Parting::Free);
}
