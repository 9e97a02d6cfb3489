//! Files on a virtual disk: they keep the guarantees of a directory across power cuts and kills,
//! and can hold a log.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use seawall::{Log, Raw};
use seawall_disk::{Disk, Files, Options, Supply, Volume};
use seawall_io::{Access, Clock, Recycled, Storage, SystemClock};
use seawall_testkit::{Dice, MemStorage, What, each_seed};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 6 << 20;

const SMALL: Options = Options {
    buffers: 4,
    buffer_size: 64 * 1024,
    supply: Supply {
        hold_up: Duration::from_secs(100),
        detection: Duration::ZERO,
        is_healthy: true,
    },
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn made(size: u64) -> MemStorage {
    crate::common::made(size, &SMALL)
}

fn volume(device: &MemStorage) -> Volume {
    let open = |name| device.open(name, Access::ReadWrite).unwrap();
    let files = Files { home: open("home"), area: open("area") };
    let (disk, _) = Disk::open(files, &SMALL, clock()).unwrap();
    Volume::open(Arc::new(disk)).unwrap()
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Runs one random operation and describes its result.
fn act(storage: &dyn Storage, dice: &mut Dice, byte: u8) -> String {
    let mut name = || NAMES[dice.index(3)];
    let (one, other) = (name(), name());
    let (size, at) = (dice.index(150_000), dice.below(200_000));
    let open = || storage.open(one, Access::ReadWrite);
    let result = match dice.index(12) {
        0 | 1 => storage.create(one).map(drop),
        2 => storage.rename(one, other),
        3 => storage.remove(one),
        4 => open().and_then(|file| file.set_len(at)),
        5 => open().and_then(|file| file.sync()),
        6 => storage.sync_dir(),
        7 => storage.rename_new(one, other),
        8 => open().and_then(|file| file.fill_with_zeros(at)),
        9 => match storage.recycle(one, other) {
            Ok(Recycled::Renamed(file)) => file.write_at(&[byte; 3], 0),
            done => done.map(drop),
        },
        _ => open().and_then(|file| file.write_at(&vec![byte; size], at)),
    };
    format!("{:?}", kind(result))
}

fn contents(storage: &dyn Storage) -> Vec<(String, Vec<u8>)> {
    let with_bytes = |name: String| {
        let file = storage.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap() + 9];
        let count = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(count);
        (name, bytes)
    };
    storage.list().unwrap().into_iter().map(with_bytes).collect()
}

#[test]
fn random_operations_have_the_effect_that_they_have_in_a_directory() {
    each_seed(40, |dice| {
        let (device, other) = (made(SIZE), MemStorage::new());
        let opened = volume(&device);
        let folder = opened.root().folder("log").unwrap();
        let seed = dice.any();
        let (mut one, mut two) = (Dice::new(seed), Dice::new(seed));
        for step in 0..60 {
            let (here, there) = (act(&*folder, &mut one, step), act(&other, &mut two, step));
            assert_eq!(here, there, "step {step}");
            assert!(contents(&*folder) == contents(&other), "step {step}");
        }
        let before = contents(&*folder);
        opened.disk().drain().unwrap();
        drop((folder, opened));
        let opened = volume(&device);
        assert!(contents(&*opened.root().folder("log").unwrap()) == before, "opened again");
    });
}

#[test]
fn names_locks_and_handles_behave_as_in_a_directory() {
    let device = made(SIZE);
    let root = volume(&device).root();
    let folder = root.folder("log").unwrap();
    let file = folder.create("file").unwrap();
    for name in ["", ".", "..", "a/b", "/", "a\0"] {
        assert_eq!(kind(folder.create(name)), Some(io::ErrorKind::InvalidInput));
        assert_eq!(kind(folder.rename("file", name)), Some(io::ErrorKind::InvalidInput));
        assert_eq!(kind(folder.lock(name)), Some(io::ErrorKind::InvalidInput));
    }
    assert_eq!(kind(folder.create(&"n".repeat(200))), Some(io::ErrorKind::InvalidInput));
    assert_eq!(kind(root.create("log")), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind(folder.folder("file")), Some(io::ErrorKind::NotADirectory));
    assert_eq!((root.list().unwrap(), folder.list().unwrap().len()), (vec![], 1));
    assert!(root.folder_if_any("none").unwrap().is_none());
    // An open handle keeps the bytes of a removed file.
    file.write_at(&vec![7; 100_000], 0).unwrap();
    folder.remove("file").unwrap();
    folder.create("file").unwrap().write_at(&vec![8; 100_000], 0).unwrap();
    let mut read = [0; 100];
    assert_eq!((file.read_at(&mut read, 50_000).unwrap(), read[0]), (100, 7));
    assert!(!file.has_name().unwrap());
    file.write_at(&vec![9; 100_000], 300_000).unwrap();
    assert_eq!(folder.open("file", Access::Read).unwrap().len().unwrap(), 100_000);
    let read_only = folder.open("file", Access::Read).unwrap();
    assert_eq!(kind(read_only.write_at(b"x", 0)), Some(io::ErrorKind::PermissionDenied));

    let held = folder.lock("lock").unwrap().unwrap();
    assert!(folder.lock("other").unwrap().is_none() && folder.is_locked("lock").unwrap());
    assert!(root.lock("lock").unwrap().is_some(), "another folder");
    folder.remove("lock").unwrap();
    assert!(held.check().unwrap_err().to_string().ends_with("log/lock was removed"));
    drop(held);
    folder.lock("lock").unwrap().unwrap().check().unwrap();
}

#[test]
fn full_volume_refuses_more_and_takes_more_once_files_are_removed() {
    let device = made(2 << 20);
    let root = volume(&device).root();
    let mut names = 0;
    let full = loop {
        let file = root.create(&format!("{names}")).unwrap();
        if let Err(error) = file.fill_with_zeros(200_000) {
            break error;
        }
        names += 1;
    };
    assert_eq!(full.kind(), io::ErrorKind::StorageFull, "{full}");
    assert!((5..10).contains(&names), "{names}");
    root.remove("0").unwrap();
    root.create("again").unwrap().fill_with_zeros(200_000).unwrap();
    let too_long = root.create("long").unwrap().set_len(1 << 40);
    assert_eq!(kind(too_long), Some(io::ErrorKind::FileTooLarge));
}

#[test]
fn file_may_have_most_of_the_volume_and_holes_and_be_scattered() {
    let device = made(256 << 20);
    let opened = volume(&device);
    let root = opened.root();
    let mib = |count: u64| count << 20;
    for number in 0..254 {
        root.create(&number.to_string()).unwrap().write_at(&[1], 0).unwrap();
    }
    for number in (0..254).step_by(2) {
        root.remove(&number.to_string()).unwrap();
    }
    let file = root.create("scattered").unwrap();
    let refused = file.fill_with_zeros(mib(120)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "{refused}");
    assert_eq!(file.len().unwrap(), 0);
    file.fill_with_zeros(mib(90)).unwrap();
    file.write_at(&[9; 9], mib(90) - 9).unwrap();
    // A file with a hole in the middle and, after the removals, one in a single run.
    let holes = root.create("holes").unwrap();
    holes.write_at(&[2; 9], mib(3)).unwrap();
    holes.write_at(&[3; 9], mib(200) - 9).unwrap();
    for number in (1..254).step_by(2) {
        root.remove(&number.to_string()).unwrap();
    }
    let large = root.create("large").unwrap();
    large.fill_with_zeros(mib(120)).unwrap();
    large.write_at(&[4; 9], mib(120) - 9).unwrap();
    root.sync_dir().unwrap();
    let again = volume(&device.power_cut(|_| false)).root();
    for (name, byte, length) in [("scattered", 9, 90), ("holes", 3, 200), ("large", 4, 120)] {
        let file = again.open(name, Access::Read).unwrap();
        let mut bytes = [5; 20];
        assert_eq!(file.read_at(&mut bytes, mib(length) - 11).unwrap(), 11, "{name}");
        assert_eq!(bytes[..11], [[0, 0].as_slice(), &[byte; 9]].concat(), "{name}");
    }
    let holes = again.open("holes", Access::Read).unwrap();
    assert_eq!(holes.next_written(0).unwrap(), Some(mib(3)));
    assert_eq!(holes.next_written(mib(4)).unwrap(), Some(mib(199)));
}

/// The state that must survive a power cut.
#[derive(Default)]
struct Promised {
    /// For each name, whether it existed at the last sync; only names that have not changed since.
    names: BTreeMap<String, bool>,
    contents: BTreeMap<String, Vec<u8>>,
    /// The contents of removed files. An unsynced removal may be undone, but only with the old
    /// content.
    removed: BTreeMap<String, Vec<u8>>,
}

/// Runs random operations on files with distinct bytes, until the device stops.
fn work(folder: &dyn Storage, dice: &mut Dice, promised: &mut Promised) -> io::Result<()> {
    for byte in 1..40u8 {
        let name = format!("file {byte}");
        let file = folder.create(&name)?;
        promised.names.remove(&name);
        let (size, at) = (1 + dice.index(100_000), dice.below(70_000));
        file.write_at(&vec![byte; size], at)?;
        if dice.one_in(3) {
            file.sync()?;
            folder.sync_dir()?;
            let mut bytes = vec![0; usize::try_from(file.len()?).unwrap()];
            file.read_at(&mut bytes, 0)?;
            promised.contents.insert(name, bytes);
        }
        if dice.one_in(2) {
            let names = folder.list()?;
            let name = &names[dice.index(names.len())];
            promised.names.remove(name);
            let synced = promised.contents.remove(name);
            if dice.one_in(2) {
                promised.removed.extend(synced.map(|bytes| (name.clone(), bytes)));
                folder.remove(name)?;
            } else {
                folder.open(name, Access::ReadWrite)?.set_len(dice.below(50_000))?;
            }
        }
        if dice.one_in(4) {
            folder.sync_dir()?;
            let names = folder.list()?;
            let all = (1..=byte).map(|byte| format!("file {byte}"));
            promised.names = all.map(|name| (name.clone(), names.contains(&name))).collect();
        }
    }
    Ok(())
}

/// The power fails at any step. Synced files must exist, and no file may have bytes of another.
#[test]
fn power_cut_leaves_synced_files_and_no_foreign_bytes() {
    each_seed(40, |dice| {
        let device = made(SIZE);
        let opened = volume(&device);
        let is_armed = dice.one_in(2);
        if is_armed {
            opened.disk().calibrate().unwrap();
        } else {
            device.stop_after(device.steps() + dice.below(120));
        }
        let mut promised = Promised::default();
        let done = work(&*opened.root(), dice, &mut promised);
        assert!(done.is_ok() || !is_armed, "{done:?}");
        if is_armed {
            opened.disk().emergency().unwrap();
        }
        let left = device.power_cut(|_| dice.one_in(2));
        drop(opened);
        let found: BTreeMap<_, _> = contents(&*volume(&left).root()).into_iter().collect();
        for (name, bytes) in &found {
            let own = name.trim_start_matches("file ").parse::<u8>().unwrap();
            assert!(bytes.iter().all(|byte| [0, own].contains(byte)), "{name} has foreign bytes");
        }
        for (name, is_there) in &promised.names {
            assert_eq!(found.contains_key(name), *is_there, "{name}");
        }
        for (name, bytes) in &promised.contents {
            assert!(found.get(name) == Some(bytes), "{name} was synced");
        }
        for (name, bytes) in &promised.removed {
            assert!(found.get(name).is_none_or(|found| found == bytes), "{name} is back, changed");
        }
    });
}

/// A file is removed and another one takes its space. The power fails at each step, and either the
/// table or the bytes of files reach the disk.
#[test]
fn file_has_its_own_bytes_whatever_reached_the_disk() {
    for (steps, keeps_table) in (0..40).flat_map(|steps| [(steps, false), (steps, true)]) {
        let device = made(2 << 20);
        let opened = volume(&device);
        let root = opened.root();
        // Allocate all chunks but one, so that the next file gets those of the removed one.
        root.create("most").unwrap().fill_with_zeros(1_350_000).unwrap();
        root.create("old").unwrap().write_at(&vec![1; 60_000], 0).unwrap();
        opened.disk().drain().unwrap();
        device.stop_after(device.steps() + steps);
        // From some step on, these calls fail.
        let _ = root.remove("old");
        let _ = root.create("new").and_then(|file| file.write_at(&vec![2; 60_000], 0));
        let _ = root.sync_dir();
        let in_table = |what| matches!(what, What::Sector(number) if number < 1152);
        let left = device.power_cut(|item| in_table(item.what) == keeps_table);
        let found = contents(&*volume(&left).root());
        let own = |name: &str| if name == "old" { [1, 1] } else { [0, 2] };
        for (name, bytes) in found.iter().filter(|(name, _)| name != "most") {
            let is_own = bytes.iter().all(|byte| own(name).contains(byte));
            assert!(is_own, "{name} after {steps} steps, table {keeps_table}");
        }
    }
}

/// A file replaces another by a rename, and the power fails at each step.
#[test]
fn power_cut_during_a_rename_leaves_the_old_or_the_new_file() {
    for (steps, keeps_first) in (0..12).flat_map(|steps| [(steps, false), (steps, true)]) {
        let device = made(2 << 20);
        let opened = volume(&device);
        let root = opened.root();
        for (name, byte) in [("first", 1), ("second", 2)] {
            root.create(name).unwrap().write_at(&[byte; 100], 0).unwrap();
        }
        opened.disk().drain().unwrap();
        device.stop_after(device.steps() + steps);
        // From some step on, these calls fail.
        let _ = root.rename("second", "first");
        let _ = root.sync_dir();
        let is_first = |what| matches!(what, What::Sector(8));
        let left = device.power_cut(|item| is_first(item.what) == keeps_first);
        let found = contents(&*volume(&left).root());
        let found: Vec<_> = found.iter().map(|(name, bytes)| (name.as_str(), bytes[0])).collect();
        let may_be = [vec![("first", 1), ("second", 2)], vec![("first", 2)]];
        assert!(may_be.contains(&found), "{found:?} after {steps} steps, {keeps_first}");
    }
}

#[test]
fn names_are_durable_after_a_sync_of_the_directory() {
    let device = made(SIZE);
    let root = volume(&device).root();
    root.create("one").unwrap();
    root.sync_dir().unwrap();
    root.rename("one", "two").unwrap();
    root.sync_dir().unwrap();
    root.folder("three").unwrap();
    let opened = volume(&device.power_cut(|_| false));
    assert_eq!(opened.root().list().unwrap(), ["two"]);
    assert!(opened.root().folder_if_any("three").unwrap().is_some());
}

#[test]
fn damaged_table_is_an_error() {
    let device = made(2 << 20);
    let opened = volume(&device);
    opened.root().create("one").unwrap().write_at(&vec![1; 100_000], 0).unwrap();
    opened.root().create("two").unwrap().write_at(&vec![2; 100_000], 0).unwrap();
    opened.disk().drain().unwrap();
    drop(opened);
    let sound = device.bytes("home").unwrap();
    let opens = |bytes: &[u8]| {
        device.edit("home", |home| home.copy_from_slice(bytes));
        let open = |name| device.open(name, Access::ReadWrite).unwrap();
        let files = Files { home: open("home"), area: open("area") };
        let (disk, _) = Disk::open(files, &SMALL, clock()).unwrap();
        Volume::open(Arc::new(disk)).map(|volume| volume.root().list().unwrap())
    };
    assert_eq!(opens(&sound).unwrap(), ["one", "two"]);
    let used = (0..28).chain(4096..4096 + 1024).filter(|at| sound[*at] != 0);
    for at in used.step_by(7) {
        let mut changed = sound.clone();
        changed[at] ^= 0x11;
        assert_eq!(kind(opens(&changed)), Some(io::ErrorKind::InvalidData), "byte {at}");
    }
    // One chunk in two files, with valid checksums.
    let mut doubled = sound.clone();
    doubled.copy_within(4096..4608, 4096 + 3 * 512);
    assert_eq!(kind(opens(&doubled)), Some(io::ErrorKind::InvalidData), "bound to its place");
}

/// A log on a volume: acknowledged records survive an announced power cut while armed, and any
/// power cut otherwise.
#[test]
fn log_on_a_volume_keeps_what_it_acknowledged() {
    each_seed(12, |dice| {
        let device = made(24 << 20);
        let mut appended = 0u64;
        let mut left = device;
        for round in 0..3 {
            let opened = volume(&left);
            let is_armed = dice.one_in(2);
            if is_armed {
                opened.disk().calibrate().unwrap();
            }
            let folder = opened.root().folder("orders.wal").unwrap();
            let options = seawall::Options::new().segment_size(1 << 20);
            let log: Log<[u8], Raw> = options.open_in(folder).unwrap();
            let records: Vec<_> = log.read_from(log.replay_start()).unwrap().collect();
            assert_eq!(records.len() as u64, appended, "round {round}");
            for (number, record) in (0..appended).zip(records) {
                assert_eq!(record.unwrap().1[..8], number.to_le_bytes());
            }
            for _ in 0..dice.index(400) {
                let mut record = appended.to_le_bytes().to_vec();
                record.resize(8 + dice.index(9000), 7);
                log.append(&record).unwrap();
                appended += 1;
            }
            if is_armed {
                opened.disk().emergency().unwrap();
            }
            let cut = left.power_cut(|_| dice.one_in(2));
            drop((log, opened));
            left = cut;
        }
    });
}
