//! Encrypted logs: nothing of them can be read without the key, and keys can be replaced.
//! `encoded.rs` runs the tests of all other logs on them, too.

#![allow(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::lives::cuts;
use common::{
    Bytes, GEOMETRY, KEY, SEGMENT_MIN, encrypted, judge, lsn, of_any_size, open, payload, read,
    read_own, tiny,
};
use seawall::damage::Corruption;
use seawall::encryption::{Key, KeyError, Padding};
use seawall::format::SegmentId;
use seawall::verify::Verdict;
use seawall::{Error, Level, LogReader, Maintenance, Options, Raw};
use seawall_io::{Entropy, ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn key_error<T>(outcome: seawall::Result<T>) -> KeyError {
    match outcome {
        Err(Error::Key { source, .. }) => source,
        Err(other) => panic!("{other:#}"),
        Ok(_) => panic!("it worked"),
    }
}

/// A log of `count` records.
fn written(device: &MemStorage, count: u64) -> Bytes {
    let log = open(&tiny(1), device).unwrap();
    for number in 1..=count {
        assert_eq!(log.append(&payload(number, 0, 100)).unwrap(), lsn(number));
    }
    log
}

fn has(device: &MemStorage, pattern: &[u8]) -> bool {
    device.names().iter().any(|name| {
        let bytes = device.bytes(name).unwrap_or_default();
        bytes.windows(pattern.len()).any(|window| window == pattern)
    })
}

/// Random numbers. The draw with the given number fails once.
#[derive(Debug)]
struct FailsOnce(SeededEntropy, AtomicU64);

impl Entropy for FailsOnce {
    fn random(&self) -> io::Result<u64> {
        if self.1.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(io::ErrorKind::Other.into());
        }
        self.0.random()
    }
}

#[test]
fn random_bits_that_fail_once_lose_no_buffered_record() {
    encrypted(|| {
        for number in 1..60 {
            let device = MemStorage::new();
            let entropy = FailsOnce(SeededEntropy::new(7), AtomicU64::new(number));
            let options = tiny(1).env(Arc::new(ManualClock::new()), Arc::new(entropy));
            // Creating the log draws its id and key. Nothing is acknowledged yet.
            let Ok(log) = open(&options.level(Level::Buffered), &device) else { continue };
            let mut acknowledged = 0;
            for n in 1..=5 {
                acknowledged += u64::from(log.append(&payload(n, 0, 100)).is_ok());
                let _ = log.flush();
            }
            let _ = log.close();
            assert_eq!(read(&device, false).unwrap().count(), acknowledged, "draw {number}");
        }
    });
}

#[test]
fn records_are_read_back_with_the_key_and_not_without() {
    encrypted(|| {
        let device = MemStorage::new();
        let log = written(&device, 30);
        assert_eq!(read_own(&log).count(), 30);
        assert_eq!(log.get(lsn(7)).unwrap(), Some(payload(7, 0, 100)));
        assert!(log.is_encrypted());
        log.close().unwrap();
        let found = read(&device, false).unwrap();
        assert!(found.is_prefix() && found.count() == 30);
        for (number, bytes) in &found.records {
            assert_eq!(*bytes, payload(*number, 0, 100));
        }
        assert!(!has(&device, b"of life 0"), "no plain record anywhere");
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        assert_eq!(key_error(LogReader::open_any_in(storage.clone())), KeyError::NoKey);
        let other = Options::new().key(Key::new(&[8; 32]));
        assert_eq!(key_error(other.open_any_reader_in(storage.clone())), KeyError::WrongKey);
        let without = Options::new().open_in::<[u8], Raw>(storage.clone());
        assert_eq!(key_error(without), KeyError::NoKey);
        let verified = judge(&device).unwrap();
        assert_eq!((verified.verdict, verified.records), (Verdict::Clean, 30));
        assert!(verified.summary.is_locked);
        let verified = common::maintenance(&storage).verify().unwrap();
        assert_eq!((verified.verdict, verified.records), (Verdict::Clean, 30));
        assert_eq!(verified.summary.payload_bytes, 3000);
    });
}

#[test]
fn log_is_continued_after_a_crash() {
    encrypted(|| {
        let device = MemStorage::new();
        let log = written(&device, 30);
        let cut = device.power_cut(|_| false);
        drop(log);
        let log = open(&common::again(2), &cut).unwrap();
        assert_eq!(log.recovery().last, Some(lsn(30)), "{:?}", log.recovery());
        log.append(&payload(31, 1, 100)).unwrap();
        drop(log);
        assert_eq!(read(&cut, false).unwrap().count(), 31);
    });
}

#[test]
fn plain_log_is_encrypted_from_now_on() {
    let device = MemStorage::new();
    written(&device, 20).close().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let keyed = || tiny(2).key(Key::new(&KEY));
    let refused = keyed().open_in::<[u8], Raw>(storage.clone());
    assert_eq!(key_error(refused), KeyError::NotEncrypted);
    let log: Bytes = keyed().encrypt(Padding::Padme).open_in(storage.clone()).unwrap();
    log.append(b"a secret that no one else reads").unwrap();
    log.close().unwrap();
    assert!(!has(&device, b"secret"));
    let log: Bytes = keyed().open_in(storage.clone()).unwrap();
    assert_eq!(read_own(&log).count(), 21);
    drop(log);
    assert_eq!(key_error(tiny(3).open_in::<[u8], Raw>(storage)), KeyError::NoKey);
}

/// A device with the file `keys` of another log, whose other files are elsewhere; and that log.
fn lone_keys() -> (MemStorage, MemStorage) {
    let whole = MemStorage::new();
    encrypted(|| written(&whole, 5).close().unwrap());
    let lone = whole.kill();
    let others = lone.names().into_iter().filter(|name| name != "keys");
    others.for_each(|name| lone.remove_raw(&name));
    (lone, whole)
}

#[test]
fn keys_of_another_log_are_kept_when_a_log_is_created_beside_them() {
    let (device, whole) = lone_keys();
    let keys = device.bytes("keys").unwrap();
    encrypted(|| {
        let log = open(&common::again(2), &device).unwrap();
        let warnings = log.recovery().warnings.clone();
        let [warning] = warnings.as_slice() else { panic!("{:?}", log.recovery()) };
        let (_, place) = warning.split_once("moved to ").unwrap();
        assert_eq!(device.bytes(place), Some(keys.clone()), "{warning}");
        log.append(b"of the new log").unwrap();
        drop(log);
        assert_eq!(read(&device, false).unwrap().count(), 1);
        // With them, the other files are a log again.
        whole.edit("keys", |bytes| *bytes = device.bytes(place).unwrap());
        assert_eq!(read(&whole, false).unwrap().count(), 5);
    });
}

#[test]
fn keys_of_another_log_are_kept_when_the_log_beside_them_is_encrypted() {
    let (device, keys) = (lone_keys().0, lone_keys().0.bytes("keys").unwrap());
    let log = open(&tiny(3), &device).unwrap();
    log.append(b"plain").unwrap();
    drop(log);
    let keyed = common::again(4).key(Key::new(&KEY)).encrypt(Padding::Off);
    open(&keyed, &device).unwrap().append(b"secret").unwrap();
    assert!(has(&device, &keys));
}

#[test]
fn copies_are_read_with_the_key_of_the_log() {
    encrypted(|| {
        let device = MemStorage::new();
        let log = written(&device, 30);
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        for is_open in [true, false] {
            if !is_open {
                log.append(b"one more").unwrap();
            }
            let copy = MemStorage::new();
            let target: Arc<dyn Storage> = Arc::new(copy.clone());
            Maintenance::on(&storage).back_up_to(&target).unwrap();
            let count = if is_open { 30 } else { 31 };
            assert_eq!(read(&copy, false).unwrap().count(), count);
            let log = open(&common::again(9), &copy).unwrap();
            assert_eq!(log.append(b"in the copy").unwrap(), lsn(count + 1));
        }
        drop(log);
        let salvaged = MemStorage::new();
        let salvage =
            |maintenance: &mut Maintenance<'_>| maintenance.salvage_to(Arc::new(salvaged.clone()));
        assert_eq!(key_error(salvage(&mut Maintenance::on(&storage))), KeyError::NoKey);
        let report = salvage(&mut common::maintenance(&storage)).unwrap();
        assert_eq!(report.records, 31);
        assert_eq!(read(&salvaged, false).unwrap().count(), 31);
        assert!(!has(&salvaged, b"one more"));
    });
}

#[test]
fn keys_are_replaced_while_the_log_is_open() {
    encrypted(|| {
        let device = MemStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        let log = written(&device, 5);
        log.renew_log_key().unwrap();
        log.append(&payload(6, 0, 100)).unwrap();
        let new = Key::new(&[9; 32]);
        log.change_key(&new).unwrap();
        log.renew_log_key().unwrap();
        log.append(&payload(7, 0, 100)).unwrap();
        assert_eq!(read_own(&log).count(), 7);
        log.close().unwrap();
        assert_eq!(key_error(open(&tiny(3), &device)), KeyError::WrongKey);
        let log: Bytes = tiny(4).key(new).open_in(storage).unwrap();
        assert_eq!(read_own(&log).count(), 7);
    });
}

#[test]
fn copy_of_a_log_that_was_closed_before_is_read() {
    encrypted(|| {
        let device = MemStorage::new();
        written(&device, 1).close().unwrap();
        let log = open(&common::again(2), &device).unwrap();
        for count in 1..4 {
            let copy = MemStorage::new();
            let target: Arc<dyn Storage> = Arc::new(copy.clone());
            Maintenance::on(&(Arc::new(device.clone()) as Arc<dyn Storage>))
                .back_up_to(&target)
                .unwrap();
            assert_eq!(read(&copy.power_cut(|_| false), false).unwrap().count(), count);
            log.append(b"one more").unwrap();
        }
    });
}

/// Opens with `key` and returns the number of records.
fn count_with(device: &MemStorage, key: &Key) -> Result<u64, KeyError> {
    let options = of_any_size(9).geometry(GEOMETRY, SEGMENT_MIN).key(key.clone());
    match options.open_in::<[u8], Raw>(Arc::new(device.kill())) {
        Ok(log) => Ok(read_own(&log).count()),
        Err(Error::Key { source, .. }) => Err(source),
        Err(other) => panic!("{other:#}"),
    }
}

#[test]
fn crash_while_keys_are_replaced_leaves_a_log_that_one_of_them_opens() {
    encrypted(|| {
        let before = MemStorage::new();
        written(&before, 5).close().unwrap();
        let (old, new) = (Key::new(&KEY), Key::new(&[9; 32]));
        // Replaces both keys, on a device that stops after `stop` steps. Returns the device, the
        // number of durable records, whether the key was replaced, and the outcome.
        let run = |stop: u64| {
            let device = before.kill();
            device.stop_after(stop);
            let (mut durable, mut is_replaced) = (5, false);
            let mut replace = || -> seawall::Result<()> {
                let log = open(&common::again(2), &device)?;
                log.append(b"with the old keys")?;
                durable += 1;
                log.renew_log_key()?;
                log.append(b"with a new log key")?;
                durable += 1;
                log.change_key(&new)?;
                is_replaced = true;
                log.append(b"with a new key of the user")?;
                durable += 1;
                log.close()
            };
            let done = replace();
            (device, durable, is_replaced, done)
        };
        let (whole, _, _, done) = run(u64::MAX);
        done.unwrap();
        let (mut states, mut either) = (0, 0);
        for stop in 0..=whole.steps() {
            let (device, durable, is_replaced, _) = run(stop);
            let mut left = cuts(&device, stop, 64);
            left.push((0, device.kill()));
            for (mask, left) in left {
                let found = [&old, &new].map(|key| count_with(&left, key));
                let what = format!("step {stop}, kept {mask:b}: {found:?}");
                let count = found.iter().flatten().max();
                assert!(count.is_some_and(|count| *count >= durable), "{what}, {durable}");
                assert!(!is_replaced || found[1].is_ok(), "{what}");
                assert!(!is_replaced || found[0].is_err(), "{what}");
                (states, either) =
                    (states + 1, either + u32::from(found.iter().all(Result::is_ok)));
            }
        }
        println!("{states} states, {either} with both keys");
        assert!(states > 200, "{states}");
    });
}

/// Found by simulation: salvage reported that no key was given.
#[test]
fn salvage_says_that_the_keys_are_lost_although_no_header_is_left() {
    encrypted(|| {
        let device = MemStorage::new();
        written(&device, 5).close().unwrap();
        device.remove_raw("keys");
        for name in device.names().iter().filter(|name| SegmentId::from_any_name(name).is_some()) {
            device.edit(name, |bytes| bytes[..512].fill(0xA5));
        }
        let storage: Arc<dyn Storage> = Arc::new(device);
        let salvaged = common::maintenance(&storage).salvage_to(Arc::new(MemStorage::new()));
        let Err(Error::Damaged { damage, .. }) = salvaged else { panic!("{salvaged:?}") };
        assert_eq!(damage.cause, Corruption::Keys);
    });
}
