//! A log among other programs and users: read-only media, permissions, links, and handles that are
//! dropped or opened twice.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::frozen::Frozen;
use common::hooked::Hooked;
use common::programs::wait_for_programs;
use common::{Bytes, Found, GEOMETRY, Scratch, again, lsn, open, payload, tiny};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Level, Log, LogReader, Lsn, Maintenance, Options, Raw};
use seawall_format::Geometry;
use seawall_io::{Access, PosixStorage, Storage};
use seawall_testkit::{MemStorage, What};
use std::sync::Arc;
use std::time::Duration;

/// Reads `storage` in every way that a reader can. Returns the verdict, and all results as text.
fn look(storage: impl Storage + 'static) -> (Option<Verdict>, String) {
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let verified = Maintenance::on(&storage).verify();
    let verdict = verified.as_ref().ok().map(|found| found.verdict);
    let copied =
        Maintenance::on(&storage).back_up_to(&(Arc::new(MemStorage::new()) as Arc<dyn Storage>));
    let mut seen = vec![format!("{verified:?}"), format!("{copied:?}")];
    match LogReader::<[u8], Raw>::open_in(storage) {
        Err(error) => seen.push(error.to_string()),
        Ok(reader) => {
            let oldest = reader.oldest().unwrap();
            seen.push(format!("{oldest} {:?}", reader.codec()));
            let mut follower = reader.follow(oldest).unwrap();
            while let Ok(Some(entry)) = follower.next_within(Duration::ZERO) {
                seen.push(format!("{entry:?}"));
            }
            seen.push(format!("{:?}", Found::take(reader.read_from(oldest).unwrap())));
            let around = reader.skip_damaged(true);
            seen.push(format!("{:?}", Found::take(around.read_from(oldest).unwrap())));
        }
    }
    (verdict, seen.join("\n"))
}

/// A life of twelve records. It ends early if the device stops.
fn live(device: &MemStorage) -> seawall::Result<()> {
    let log = open(&tiny(1), device)?;
    for number in 1..=12 {
        log.append(&payload(number, 1, 150))?;
    }
    log.confirm()?;
    log.truncate_before(lsn(6))?;
    log.close()
}

#[test]
fn readers_work_on_read_only_media_after_any_crash() {
    let mut verdicts = vec![];
    for steps in 1.. {
        let device = MemStorage::new();
        device.stop_after(steps);
        let done = live(&device);
        let torn =
            |odd| device.power_cut(|item| matches!(item.what, What::Sector(n) if n % 2 == odd));
        for left in [device.kill(), torn(0), torn(1)] {
            let (verdict, seen) = look(left.clone());
            assert_eq!(look(Frozen::new(left.clone())), (verdict, seen), "step {steps}");
            verdicts.push(verdict);
        }
        if done.is_ok() {
            break;
        }
    }
    for verdict in [Verdict::Clean, Verdict::Torn] {
        let count = verdicts.iter().filter(|found| **found == Some(verdict)).count();
        assert!(count > 3, "{verdict:?}: {count}");
    }
}

#[test]
fn readers_name_damage_on_read_only_media() {
    let device = MemStorage::new();
    live(&device).unwrap();
    let mut lost = 0;
    for name in device.names() {
        let length = device.bytes(&name).unwrap().len();
        for byte in (0..length).step_by(97) {
            let damaged = device.kill();
            damaged.edit(&name, |bytes| bytes[byte] ^= 4);
            let (verdict, seen) = look(damaged.clone());
            assert_eq!(look(Frozen::new(damaged)), (verdict, seen), "{name}, byte {byte}");
            lost += u64::from(verdict == Some(Verdict::Lost));
        }
    }
    assert!(lost > 10, "{lost}");
}

/// Options for real files of a few kilobytes.
fn small() -> Options {
    Options::new().geometry(GEOMETRY, common::SEGMENT_MIN).segment_size(10 * 512).idle_mark(None)
}

fn open_at(scratch: &Scratch, name: &str) -> seawall::Result<Bytes> {
    wait_for_programs();
    small().open(scratch.path.join(name))
}

fn append(log: &Bytes, count: u64) {
    let next = log.durable().map_or(1, |last| last.get() + 1);
    for number in next..next + count {
        assert_eq!(log.append(&payload(number, 1, 150)).unwrap().get(), number);
    }
}

fn count(scratch: &Scratch, name: &str) -> u64 {
    let reader: LogReader<[u8], Raw> = LogReader::open(scratch.path.join(name)).unwrap();
    Found::take(reader.read_from(reader.oldest().unwrap()).unwrap()).unwrap().count()
}

fn folder(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    drop(scratch.storage());
    scratch
}

#[test]
fn files_of_a_log_are_accessible_only_to_their_owner() {
    let scratch = folder("modes");
    append(&open_at(&scratch, "log").unwrap(), 30);
    let place = scratch.path.join("log");
    let storage = PosixStorage::open(&place).unwrap();
    let (segment, at) =
        Maintenance::on(&scratch_storage(&scratch, "log")).verify().unwrap().tail_at.unwrap();
    let tail = storage.open(&segment.file_name(), Access::ReadWrite).unwrap();
    tail.write_at(&[0xff; 20], at.0).unwrap();
    let log = open_at(&scratch, "log").unwrap();
    assert!(log.recovery().quarantine.is_some(), "{:?}", log.recovery());
    append(&log, 10);
    Maintenance::at(&place).back_up(scratch.path.join("copy")).unwrap();
    let modes = scratch.modes(".");
    assert!(modes.len() > 14, "{modes:?}");
    let folders = [".", "./log", "./log/quarantine", "./copy"];
    for (name, mode) in &modes {
        let wanted = if folders.contains(&name.as_str()) { 0o700 } else { 0o600 };
        assert_eq!(*mode, wanted, "{name}");
    }
    for wanted in ["manifest", "live", "lock", "quarantine"] {
        assert!(modes.iter().any(|(name, _)| *name == format!("./log/{wanted}")), "{wanted}");
    }
}

fn scratch_storage(scratch: &Scratch, name: &str) -> Arc<dyn Storage> {
    Arc::new(PosixStorage::open(&scratch.path.join(name)).unwrap())
}

/// The results of each way to use the log: writer, reader, verify, copy.
fn ways(scratch: &Scratch) -> [Result<(), Error>; 4] {
    let path = scratch.path.join("log");
    let read = || {
        let reader: LogReader<[u8], Raw> = LogReader::open(&path)?;
        reader.read_from(Lsn::FIRST)?.try_for_each(|entry| entry.map(drop))
    };
    let verify = Maintenance::at(&path).verify().map(|found| found.verdict);
    [
        open_at(scratch, "log").map(drop),
        read(),
        match verify {
            Ok(Verdict::Clean) => Ok(()),
            Ok(verdict) => Err(Error::InvalidOption { log: None, why: format!("{verdict:?}") }),
            Err(error) => Err(error),
        },
        Maintenance::at(&path).back_up(scratch.path.join("copy")).map(drop),
    ]
}

#[test]
fn options_that_no_log_can_have_leave_nothing_behind() {
    let scratch = folder("refused");
    PosixStorage::create(&scratch.path.join("empty")).unwrap();
    let refused = [
        small().segment_size(1),
        small().type_name("n".repeat(65)),
        small().layout(Layout::Text), // of records that are not JSON
        small().fill_blocks(true).geometry(Geometry { batch_max: 1000, ..GEOMETRY }, 4608),
    ];
    for options in refused {
        for name in ["empty", "missing"] {
            let error = options.open::<[u8], Raw>(scratch.path.join(name)).unwrap_err();
            assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        }
        let names = scratch.modes(".").into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), [".", "./empty"]);
    }
}

#[test]
fn symbolic_link_in_place_of_a_file_is_never_followed() {
    for name in ["log/manifest", "log/000000000001.seg", "log/live", "log/lock"] {
        let scratch = folder(&format!("link-{}", name.replace('/', "-")));
        let log = open_at(&scratch, "log").unwrap();
        append(&log, 10);
        log.close().unwrap();
        assert_eq!(count(&scratch, "log"), 10);
        let away = scratch.replace_by_link(name);
        let before = scratch.modes(&away);
        let bytes = scratch.bytes(&away);
        for (way, done) in ways(&scratch).into_iter().enumerate() {
            // A writer removes the link `live`. Readers and copies need no `lock` if there is no
            // writer.
            let may = match name {
                "log/live" => true,
                "log/lock" => way == 1 || way == 3,
                _ => false,
            };
            assert!(done.is_err() || may, "{name}, way {way}: {done:?}");
            let must = name == "log/live" && way == 0;
            assert!(done.is_ok() || !must, "the writer: {done:?}");
        }
        assert_eq!(scratch.modes(&away), before, "{name}");
        assert_eq!(bytes, scratch.bytes(&away), "{name}");
    }
}

#[test]
fn symbolic_link_to_a_log_directory_is_followed() {
    let scratch = folder("link-log");
    append(&open_at(&scratch, "log").unwrap(), 10);
    let away = scratch.replace_by_link("log");
    for (way, done) in ways(&scratch).into_iter().enumerate() {
        assert!(done.is_ok(), "way {way}: {done:?}");
    }
    let log = open_at(&scratch, "log").unwrap();
    assert!(matches!(open_at(&scratch, &away), Err(Error::Busy { .. })));
    append(&log, 1);
    log.close().unwrap();
    assert_eq!(count(&scratch, &away), 11);
    assert_eq!(
        PosixStorage::open(&scratch.path).unwrap().list_others().unwrap(),
        ["away", "copy", "log"]
    );
}

#[test]
fn quarantine_that_is_a_link_is_not_followed_and_the_log_opens() {
    let scratch = folder("link-quarantine");
    append(&open_at(&scratch, "log").unwrap(), 3);
    let elsewhere = PosixStorage::create(&scratch.path.join("log/quarantine")).unwrap();
    scratch.replace_by_link("log/quarantine");
    let (segment, at) =
        Maintenance::on(&scratch_storage(&scratch, "log")).verify().unwrap().tail_at.unwrap();
    let log = scratch_storage(&scratch, "log");
    let tail = log.open(&segment.file_name(), Access::ReadWrite).unwrap();
    tail.write_at(&[0xff; 20], at.0).unwrap();
    let log = open_at(&scratch, "log").unwrap();
    assert_eq!((log.durable(), log.recovery().quarantine.clone()), (Some(lsn(3)), None));
    assert_eq!(log.recovery().warnings.len(), 1, "{:?}", log.recovery());
    assert_eq!(elsewhere.list().unwrap(), [""; 0]);
}

#[test]
fn dropped_handle_leaves_all_acknowledged_records() {
    for level in [Level::Buffered, Level::Synced, Level::Confirmed] {
        let device = MemStorage::new();
        let log = open(&tiny(1).level(level), &device).unwrap();
        append(&log, 20);
        drop(log);
        // The drop closes the log: buffered records, too, survive a power cut after it.
        let left = device.power_cut(|_| false);
        let log = open(&again(2), &left).unwrap();
        assert_eq!(log.durable(), Some(lsn(20)), "{level:?}");
        assert_eq!(log.recovery().tail, seawall::recovery::TailState::Clean);
    }
}

#[test]
fn second_handle_is_busy_until_the_first_is_dropped() {
    let scratch = folder("busy");
    let path = scratch.path.join("log");
    for number in 1..=5 {
        let log = open_at(&scratch, "log").unwrap();
        append(&log, 1);
        let second = small().open::<[u8], Raw>(&path);
        assert!(matches!(second, Err(Error::Busy { .. })), "{second:?}");
        let other: Result<Log<[u8], Raw>, _> = small().create(false).open(&path);
        assert!(matches!(other, Err(Error::Busy { .. })), "{other:?}");
        assert_eq!(count(&scratch, "log"), number, "readers need no lock");
        match number % 2 {
            0 => drop(log),
            _ => log.close().unwrap(),
        }
    }
    assert_eq!(open_at(&scratch, "log").unwrap().durable(), Some(lsn(5)));
}

/// The image: an empty directory at the first read, and when the lock is taken, a complete log that
/// another program created and closed in between.
#[test]
fn log_created_just_before_the_lock_is_not_created_again() {
    let mut beside = 0;
    for look in 0.. {
        let device = MemStorage::new();
        let other = device.clone();
        let (hooked, hook) = Hooked::new(device.clone(), look, move || {
            // The lock may already be held.
            if let Ok(log) = open(&tiny(2), &other) {
                for number in 1..=3 {
                    log.append(&payload(number, 1, 40)).unwrap();
                }
                log.close().unwrap();
            }
        });
        drop(tiny(1).open_in::<[u8], Raw>(Arc::new(hooked)).unwrap());
        let last = open(&again(3), &device).unwrap().recovery().last;
        assert!(last.is_none() || last == Some(lsn(3)), "look {look}: {last:?}");
        if hook.is_waiting() {
            break;
        }
        let found = LogReader::<[u8], Raw>::open_in(Arc::new(device.clone())).unwrap();
        let found = Found::take(found.read_from(lsn(1)).unwrap()).unwrap();
        beside += found.records.len();
        assert!(look > 1 || found.records.len() == 3, "look {look}: {found:?}");
    }
    assert!(beside >= 6, "{beside}");
}
