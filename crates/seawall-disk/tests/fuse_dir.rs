//! A volume mounted as a folder with the kernel's FUSE client. Needs root and /dev/fuse.

#![cfg(all(feature = "fuse", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]
#![allow(clippy::disallowed_methods, reason = "the file system is under test")]

mod common;

use common::{Folder, skipped, slow};
use rustix::fs::FallocateFlags;
use seawall_disk::fuse::{Parting, Server};
use seawall_disk::{Disk, Files, Options, Supply};
use seawall_io::{Access, Storage, SystemClock};
use seawall_testkit::{Dice, MemStorage, each_seed};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 24 << 20;

/// Returns whether this process can mount; if not, prints which test is skipped.
fn can_mount(name: &str) -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if device.is_ok() && rustix::process::geteuid().is_root() {
        return true;
    }
    skipped(&format!("{name}: it takes root and /dev/fuse"));
    false
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
    let files = Files { home: slow(open("home"), Duration::from_millis(5)), area: open("area") };
    let clock = Arc::new(SystemClock::new());
    let disk = Disk::open(files, &options(is_armed), clock).unwrap().0;
    if is_armed {
        disk.calibrate().unwrap();
    }
    Arc::new(disk)
}

fn served(device: &MemStorage, folder: &Folder) -> Server {
    Server::start_folder(opened(device, true), &folder.0.join("log")).unwrap()
}

/// All files below a folder with their bytes, and all folders.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for name in fs::read_dir(next).unwrap() {
            let path = name.unwrap().path();
            let bytes = path.is_file().then(|| fs::read(&path).unwrap());
            if bytes.is_none() {
                folders.push(path.clone());
            }
            found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
        }
    }
    found
}

const NAMES: [&str; 5] = ["a", "b", "d", "d/a", "d/e"];

/// Runs one random operation and describes its result.
fn act(folder: &Path, dice: &mut Dice, byte: u8) -> String {
    let mut name = || folder.join(NAMES[dice.index(NAMES.len())]);
    let (one, other) = (name(), name());
    let (size, at) = (dice.index(300_000), dice.below(500_000));
    let bytes = vec![byte; size];
    let open = || OpenOptions::new().read(true).write(true).open(&one);
    let result = match dice.index(13) {
        0 => OpenOptions::new().write(true).create_new(true).open(&one).map(drop),
        1 => File::create(&one).and_then(|mut file| file.write_all(&bytes)),
        2 => OpenOptions::new().append(true).open(&one).and_then(|mut file| file.write_all(&bytes)),
        3 => fs::rename(&one, &other),
        4 => fs::remove_file(&one),
        5 => fs::create_dir(&one),
        6 => fs::remove_dir(&one),
        7 => open().and_then(|file| file.set_len(at)),
        8 => open().and_then(|file| file.sync_data()),
        9 => open().and_then(|file| {
            let range = FallocateFlags::ZERO_RANGE;
            Ok(rustix::fs::fallocate(&file, range, at, 1 + u64::try_from(size).unwrap())?)
        }),
        10 => open().and_then(|file| {
            let range = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(&file, range, at, 1 + u64::try_from(size).unwrap())?)
        }),
        11 => fs::metadata(&one).map(drop),
        _ => open().and_then(|file| file.write_all_at(&bytes, at)),
    };
    // A folder with contents cannot be renamed here.
    let kind = result.err().map(|error| error.kind());
    format!("{kind:?} {:?}", fs::metadata(&one).map(|found| found.is_file()).ok())
}

#[test]
fn random_operations_have_the_effect_that_they_have_in_a_directory() {
    if !can_mount("random_operations_have_the_effect_that_they_have_in_a_directory") {
        return;
    }
    let folder = Folder::new("fuse-dir-random");
    let other = folder.0.join("other");
    each_seed(12, |dice| {
        let device = made();
        let server = served(&device, &folder);
        fs::create_dir(&other).unwrap();
        let seed = dice.any();
        let (mut one, mut two) = (Dice::new(seed), Dice::new(seed));
        for step in 0..120 {
            let renames_full = contents(&other).keys().any(|path| path.starts_with("d/"));
            let (here, there) = (act(server.path(), &mut one, step), act(&other, &mut two, step));
            if renames_full && here.starts_with("Some(CrossesDevices)") {
                // The only difference between the two: copy this folder's state to the other one
                // and continue.
                fs::remove_dir_all(&other).unwrap();
                copy(server.path(), &other);
                continue;
            }
            assert_eq!(here, there, "step {step}");
            assert!(contents(server.path()) == contents(&other), "step {step}");
        }
        let before = contents(&other);
        assert_eq!(server.stop().unwrap(), Parting::Free);
        let server = served(&device, &folder);
        assert!(contents(server.path()) == before, "started again");
        server.stop().unwrap();
        fs::remove_dir_all(&other).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    });
}

/// The kernel sends no sync, so a program's sync relies on this.
#[test]
fn each_change_survives_a_power_cut_once_its_call_returns() {
    if !can_mount("each_change_survives_a_power_cut_once_its_call_returns") {
        return;
    }
    let folder = Folder::new("fuse-dir-cuts");
    each_seed(4, |dice| {
        let device = made();
        let disk = opened(&device, false);
        let server = Server::start_folder(disk, &folder.0.join("log")).unwrap();
        for step in 0..40 {
            let outcome = act(server.path(), dice, step);
            let cut = opened(&device.power_cut(|_| false), false);
            let again = Server::start_folder(cut, &folder.0.join("again")).unwrap();
            let is_kept = contents(again.path()) == contents(server.path());
            again.stop().unwrap();
            assert!(is_kept, "step {step}: {outcome}");
        }
        server.stop().unwrap();
    });
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for (name, bytes) in contents(from) {
        match bytes {
            Some(bytes) => fs::write(to.join(name), bytes).unwrap(),
            None => fs::create_dir(to.join(name)).unwrap(),
        }
    }
}

#[test]
fn removed_file_keeps_its_bytes_while_it_is_open() {
    if !can_mount("removed_file_keeps_its_bytes_while_it_is_open") {
        return;
    }
    let folder = Folder::new("fuse-dir-open");
    let server = served(&made(), &folder);
    let path = server.path().join("file");
    fs::write(&path, vec![7; 100_000]).unwrap();
    let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (one, two) = (open(&path), open(&path));
    one.write_all_at(b"both", 50).unwrap();
    let mut read = [0; 4];
    two.read_exact_at(&mut read, 50).unwrap();
    assert_eq!((&read, server.connections()), (b"both", 2));
    let space = || rustix::fs::statfs(server.path()).unwrap().f_bfree;
    let before = space();
    fs::remove_file(&path).unwrap();
    fs::write(&path, vec![8; 100_000]).unwrap();
    two.read_exact_at(&mut read, 99_000).unwrap();
    assert_eq!((read, one.metadata().unwrap().nlink()), ([7; 4], 0));
    one.write_all_at(&[9; 3], 200_000).unwrap();
    one.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), vec![8; 100_000]);
    // The same for a file that another one replaces.
    let replaced = open(&path);
    fs::write(server.path().join("new"), b"new").unwrap();
    fs::rename(server.path().join("new"), &path).unwrap();
    replaced.read_exact_at(&mut read, 0).unwrap();
    assert_eq!((read, fs::read(&path).unwrap().as_slice()), ([8; 4], b"new".as_slice()));
    drop((one, two, replaced));
    // The kernel may report a close with a delay.
    let is_free = || space() >= before && server.connections() == 0;
    assert!((0..200).any(|_| is_free() || pause()), "{before} {}", space());
    server.stop().unwrap();
}

fn pause() -> bool {
    use seawall_io::Clock;
    SystemClock::new().sleep(Duration::from_millis(10));
    false
}

/// As by a database that removes old log files while it reads the folder.
#[test]
fn folder_is_read_while_its_files_are_removed() {
    if !can_mount("folder_is_read_while_its_files_are_removed") {
        return;
    }
    let folder = Folder::new("fuse-dir-read");
    let server = served(&made(), &folder);
    let inside = server.path().join("many");
    fs::create_dir(&inside).unwrap();
    for number in 0..900 {
        File::create(inside.join(format!("a name of some length {number}"))).unwrap();
    }
    fs::remove_dir(&inside).unwrap_err();
    let removed = fs::read_dir(&inside).unwrap().map(|name| fs::remove_file(name.unwrap().path()));
    assert_eq!(removed.map(Result::unwrap).count(), 900);
    fs::remove_dir(&inside).unwrap();
    let long = server.path().join("n".repeat(120));
    assert_eq!(File::create(long).unwrap_err().kind(), io::ErrorKind::InvalidFilename);
    let file = File::create(server.path().join("file")).unwrap();
    assert_eq!(file.set_len(1 << 40).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    let all = (0..).map(|n| file.write_at(&[1; 4096], n * 4096)).find_map(Result::err).unwrap();
    let is_full = [io::ErrorKind::StorageFull, io::ErrorKind::FileTooLarge].contains(&all.kind());
    assert!(is_full && server.is_mounted(), "{all}");
}

#[test]
fn owner_and_mode_are_kept_and_decide_who_may_open() {
    if !can_mount("owner_and_mode_are_kept_and_decide_who_may_open") {
        return;
    }
    let folder = Folder::new("fuse-dir-owner");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    let device = made();
    let as_other = |script: &str, server: &Server| {
        let mut sh = Command::new("sh");
        sh.args(["-ec", script]).current_dir("/").env("LOG", server.path()).uid(65534).gid(65534);
        sh.output().unwrap().status.success()
    };
    let server = served(&device, &folder);
    assert!(!as_other("echo > $LOG/file", &server));
    rustix::fs::chown(
        server.path(),
        Some(rustix::fs::Uid::from_raw(65534)),
        Some(rustix::fs::Gid::from_raw(65534)),
    )
    .unwrap();
    fs::set_permissions(server.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let script = "umask 077; echo own > $LOG/file; mkdir $LOG/sub; touch -d @1000000 $LOG/file";
    assert!(as_other(script, &server));
    let open = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(server.path().join("root"));
    open.unwrap();
    let shown = |name: &str| {
        let found = fs::metadata(folder.0.join("log").join(name)).unwrap();
        (found.uid(), found.gid(), found.mode())
    };
    let all = || ["", "file", "sub", "root"].map(shown);
    let before = all();
    let of_other = |mode| (65534, 65534, mode);
    assert_eq!(before[..3], [of_other(0o40_700), of_other(0o100_600), of_other(0o40_700)]);
    assert_eq!(before[3], (0, 0, 0o100_600));
    server.stop().unwrap();
    let server = served(&device, &folder);
    assert_eq!(all(), before);
    assert_eq!(fs::metadata(server.path().join("file")).unwrap().mtime(), 1_000_000);
    assert!(!as_other("cat $LOG/root", &server));
    assert!(as_other("cat $LOG/file", &server));
    server.stop().unwrap();
}

/// Files as a write-ahead log uses them: created under a temporary name, linked, written, reused.
#[test]
fn synced_files_of_a_log_survive_a_power_cut() {
    if !can_mount("synced_files_of_a_log_survive_a_power_cut") {
        return;
    }
    let folder = Folder::new("fuse-dir-log");
    for (round, flags) in [0, 0o10_000].into_iter().enumerate() {
        let device = made();
        let disk = opened(&device, false);
        let server = Server::start_folder(disk, &folder.0.join("log")).unwrap();
        let at = |name: &str| server.path().join(name);
        let sync_folder = || File::open(server.path()).unwrap().sync_all().unwrap();
        let mut file = File::create_new(at("temporary")).unwrap();
        file.write_all(&vec![0; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        fs::hard_link(at("temporary"), at("1")).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 2);
        fs::remove_file(at("temporary")).unwrap();
        sync_folder();
        let open = OpenOptions::new().read(true).write(true).custom_flags(flags).open(at("1"));
        let log = open.unwrap();
        log.write_all_at(&[1; 8192], 8192).unwrap();
        if flags == 0 {
            log.sync_data().unwrap();
        }
        let cut = device.power_cut(|_| false);
        let again = Server::start_folder(opened(&cut, false), &folder.0.join("again")).unwrap();
        let bytes = fs::read(again.path().join("1")).unwrap();
        assert_eq!((bytes.len(), &bytes[8192..16384]), (1 << 20, [1; 8192].as_slice()), "{round}");
        assert_eq!(fs::read_dir(again.path()).unwrap().count(), 1);
        again.stop().unwrap();
        fs::rename(at("1"), at("2")).unwrap();
        sync_folder();
        let cut = device.power_cut(|_| false);
        let again = Server::start_folder(opened(&cut, false), &folder.0.join("again")).unwrap();
        assert!(again.path().join("2").exists() && !again.path().join("1").exists());
        drop(log);
        server.stop().unwrap();
    }
}

#[test]
fn links_are_names_of_one_file() {
    if !can_mount("links_are_names_of_one_file") {
        return;
    }
    let folder = Folder::new("fuse-dir-link");
    let server = served(&made(), &folder);
    let at = |name: &str| server.path().join(name);
    fs::write(at("a"), b"bytes").unwrap();
    for name in ["b", "c", "d"] {
        fs::hard_link(at("a"), at(name)).unwrap();
    }
    fs::hard_link(at("a"), at("d")).unwrap_err();
    fs::write(at("e"), b"other").unwrap();
    // Remove the name stored on the disk, rename another link, and replace a third by a file.
    fs::remove_file(at("d")).unwrap();
    fs::rename(at("b"), at("x")).unwrap();
    fs::rename(at("e"), at("c")).unwrap();
    let names = contents(server.path());
    let names: Vec<_> = names
        .iter()
        .map(|(name, bytes)| (name.to_str().unwrap(), bytes.as_deref().unwrap()))
        .collect();
    assert_eq!(names, [("a", b"bytes".as_slice()), ("c", b"other"), ("x", b"bytes")]);
    assert_eq!(fs::metadata(at("a")).unwrap().nlink(), 2);
    fs::remove_file(at("x")).unwrap();
    fs::remove_file(at("a")).unwrap();
    assert_eq!(fs::read_dir(server.path()).unwrap().count(), 1);
    let most = (0..).map(|n| fs::hard_link(at("c"), at(&n.to_string()))).find_map(Result::err);
    assert_eq!(most.unwrap().kind(), io::ErrorKind::TooManyLinks);
}

#[test]
fn stopped_server_drains_while_a_file_is_open() {
    if !can_mount("stopped_server_drains_while_a_file_is_open") {
        return;
    }
    let folder = Folder::new("fuse-dir-stop");
    for parting in [Parting::Free, Parting::HungUp] {
        let device = made();
        let server = served(&device, &folder);
        let file = File::create(server.path().join("file")).unwrap();
        file.write_all_at(b"home", 0).unwrap();
        file.sync_data().unwrap();
        let kept = (parting == Parting::HungUp).then_some(file);
        assert_eq!(server.stop().unwrap(), parting);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        if let Some(file) = kept {
            file.write_at(b"gone", 0).unwrap_err();
        }
        let server = served(&device.power_cut(|_| false), &folder);
        assert_eq!(fs::read(server.path().join("file")).unwrap(), b"home");
        server.stop().unwrap();
    }
}

#[test]
fn folder_with_contents_is_not_hidden_by_the_mount() {
    if !can_mount("folder_with_contents_is_not_hidden_by_the_mount") {
        return;
    }
    let folder = Folder::new("fuse-dir-taken");
    let path = folder.0.join("log");
    let start = || Server::start_folder(opened(&made(), false), &path);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("mine"), b"mine").unwrap();
    assert_eq!(start().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    fs::remove_file(path.join("mine")).unwrap();
    let server = start().unwrap();
    assert_eq!(start().unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(server);
    fs::write(&path, b"file").unwrap();
    assert_eq!(start().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}
