//! A copy taken while the writer runs is an intact log, with all records acknowledged before the
//! copy began.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::gate::Gated;
use common::hooked::Hooked;
use common::mute::{Mute, Refused};
use common::within;
use seawall::format::Geometry;
use seawall::recovery::TailState;
use seawall::verify::Verdict;
use seawall::{Error, Log, LogReader, Lsn, Maintenance, Options, Raw};
use seawall_format::SegmentHeader;
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

type TestLog = Log<[u8], Raw>;

fn open(storage: &MemStorage, seed: u64) -> TestLog {
    open_in(Arc::new(storage.clone()), seed)
}

fn open_in(storage: Arc<dyn Storage>, seed: u64) -> TestLog {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 4096 };
    let options = Options::new()
        .geometry(geometry, 8_192)
        .segment_size(16_384)
        .idle_mark(None)
        // Only the writer waits at a gate.
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(seed)));
    common::maybe_encrypted(options).open_in(storage).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    format!("{number} {}", "z".repeat(50)).into_bytes()
}

/// The oldest record of a copy, and the number of records.
fn records(copied: &MemStorage) -> (u64, u64) {
    let reader: LogReader<[u8], Raw> = LogReader::open_in(Arc::new(copied.clone())).unwrap();
    let oldest = reader.oldest().unwrap();
    let mut next = oldest.get();
    for entry in reader.read_from(oldest).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        assert_eq!((lsn.get(), bytes), (next, payload(next)));
        next += 1;
    }
    (oldest.get(), next - oldest.get())
}

fn copied(source: &MemStorage) -> Result<MemStorage, Error> {
    copied_from(&(Arc::new(source.clone()) as Arc<dyn Storage>))
}

fn copied_from(source: &Arc<dyn Storage>) -> Result<MemStorage, Error> {
    let target = MemStorage::new();
    let as_target: Arc<dyn Storage> = Arc::new(target.clone());
    Maintenance::on(source).back_up_to(&as_target)?;
    assert_eq!(Maintenance::on(&as_target).verify().unwrap().verdict, Verdict::Clean);
    Ok(target)
}

#[test]
fn copies_taken_during_rotation_marks_and_pruning_are_sound() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut copies = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=6_000 {
                log.append(&payload(number)).unwrap();
                acknowledged.store(number, Ordering::SeqCst);
                match number % 500 {
                    0 => drop(log.truncate_before(Lsn::new(number - 300).unwrap()).unwrap()),
                    250 => drop(log.confirm().unwrap()),
                    _ => {}
                }
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let before = acknowledged.load(Ordering::SeqCst);
            let copy = copied(&storage).unwrap();
            let (oldest, count) = records(&copy);
            assert!(oldest - 1 + count >= before, "{oldest} {count} {before}");
            copies += 1;
        }
    });
    assert!(copies > 3, "{copies}");
}

#[test]
fn copy_can_be_opened_and_appended_to() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    for number in 1..=300 {
        log.append(&payload(number)).unwrap();
    }
    let copy = copied(&storage).unwrap().power_cut(|_| false);
    let second = open(&copy, 2);
    assert_eq!(second.recovery().last.map(Lsn::get), Some(300));
    for number in 301..=400 {
        second.append(&payload(number)).unwrap();
    }
    drop(second);
    assert_eq!(records(&copy), (1, 400));
    assert_eq!(records(&storage), (1, 300));
}

#[test]
fn damaged_log_is_not_copied() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    for number in 1..=300 {
        log.append(&payload(number)).unwrap();
    }
    drop(log);
    storage.edit("000000000002.seg", |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    assert!(matches!(copied(&storage), Err(Error::Damaged { .. })));
}

#[test]
fn copy_contains_only_durable_records() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 1);
        for number in 1..=100 {
            gate.shut();
            std::thread::scope(|scope| {
                scope.spawn(|| log.append(&payload(number)).unwrap());
                gate.wait_for_somebody();
                let copy = copied(&device);
                gate.open();
                assert_eq!(records(&copy.unwrap()), (1, number - 1));
            });
        }
    });
}

/// The image: `live` is lowered to 20, but a mark of the newest segment still confirms 100, because
/// the truncation waits for the sync of its new segment. The copy must hold all records that it
/// confirms.
#[test]
fn copy_during_a_truncation_has_the_kept_records() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 1);
        for number in 1..=100 {
            log.append(&payload(number)).unwrap();
        }
        log.confirm().unwrap();
        gate.shut();
        std::thread::scope(|scope| {
            scope.spawn(|| log.truncate_after(Lsn::new(90)).unwrap());
            gate.wait_for_somebody();
            let target = MemStorage::new();
            let copy = Maintenance::on(&(Arc::new(device) as _))
                .back_up_to(&(Arc::new(target.clone()) as _));
            gate.open();
            copy.unwrap();
            let found = Maintenance::on(&(Arc::new(target.clone()) as _)).verify().unwrap();
            assert_eq!((found.verdict, records(&target)), (Verdict::Clean, (1, 90)));
        });
    });
}

/// The same with records that were carried into the newest segment, whose header confirms them: no
/// copy is possible before the truncation is done.
#[test]
fn truncation_of_carried_records_is_not_copied_halfway() {
    within(60, || {
        let device = MemStorage::new();
        let log = open(&device, 1);
        for number in 1..=10 {
            log.append(&payload(number)).unwrap();
        }
        let device = device.kill();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 2);
        gate.shut();
        std::thread::scope(|scope| {
            let cut = scope.spawn(|| log.truncate_after(Lsn::new(9)).unwrap());
            gate.wait_for_somebody();
            let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
            let copy = Maintenance::on(&(Arc::new(device.clone()) as _)).back_up_to(&target);
            gate.open();
            cut.join().unwrap();
            assert!(matches!(copy, Err(Error::Io { .. })), "{copy:?}");
            assert_eq!(records(&copied(&device).unwrap()), (1, 9));
        });
    });
}

/// Found by simulation. The image: a batch was truncated in its middle long ago, and is being
/// truncated further. The bytes after the new end are from both truncations.
#[test]
fn truncation_inside_a_batch_is_not_copied_halfway() {
    within(60, || {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 1);
        let set: Vec<_> = (1..=10).map(payload).collect();
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
        log.truncate_after(Lsn::new(8)).unwrap();
        gate.shut();
        std::thread::scope(|scope| {
            let cut = scope.spawn(|| log.truncate_after(Lsn::new(5)).unwrap());
            gate.wait_for_somebody();
            let copy = copied(&device);
            gate.open();
            cut.join().unwrap();
            assert!(matches!(copy, Err(Error::Io { .. })), "{:?}", copy.map(|c| records(&c)));
            assert_eq!(records(&copied(&device).unwrap()), (1, 5));
        });
    });
}

/// Found by simulation. The image: the manifest of an encrypted log, which the copy keeps, says
/// that the log was closed in a segment that a truncation removes.
#[test]
fn encrypted_log_is_copied_before_or_after_a_truncation() {
    within(60, || {
        common::encrypted(|| {
            let device = MemStorage::new();
            let log = open(&device, 1);
            for number in 1..=400 {
                log.append(&payload(number)).unwrap();
            }
            log.close().unwrap();
            let (gated, gate) = Gated::new(device.clone());
            let log = open_in(Arc::new(gated), 2);
            gate.shut();
            let mut copies = vec![];
            std::thread::scope(|scope| {
                let cut = scope.spawn(|| log.truncate_after(Lsn::new(150)).unwrap());
                while !cut.is_finished() {
                    if gate.is_waited_at() {
                        let target = MemStorage::new();
                        let source: Arc<dyn Storage> = Arc::new(device.clone());
                        let copy =
                            Maintenance::on(&source).back_up_to(&(Arc::new(target.clone()) as _));
                        copies.push(copy.map(|_| target));
                        gate.pass_one();
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
            gate.open();
            copies.push(Ok(copied(&device).unwrap()));
            assert!(copies.len() > 2, "{}", copies.len());
            for copy in copies {
                let copy = match copy {
                    Ok(copy) => copy,
                    Err(Error::Io { .. }) => continue,
                    Err(other) => panic!("{other}"),
                };
                let found = Maintenance::on(&(Arc::new(copy.clone()) as _)).verify().unwrap();
                assert_eq!(found.verdict, Verdict::Clean, "{found:?}");
            }
        });
    });
}

/// Found by simulation. The image: there is no `live`, and of the first batch of a segment that was
/// named ahead only the beginning is written. Then the writer completes the batch, and shortens the
/// previous segment.
#[test]
fn copy_of_an_encrypted_log_has_no_segment_that_begins_meanwhile() {
    common::encrypted(|| {
        let mut copies_without = 0;
        for look in 0.. {
            let device = MemStorage::new();
            let (before, completed) = half_begun(&device);
            let source = device.clone();
            let (hooked, hook) = Hooked::new(device, look, move || {
                for (name, bytes) in completed {
                    source.edit(name, |file| *file = bytes);
                }
            });
            let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
            let copy = Maintenance::on(&(Arc::new(hooked) as _)).back_up_to(&target);
            copy.unwrap_or_else(|error| panic!("look {look}: {error}"));
            let found = Maintenance::on(&target).verify().unwrap();
            assert_eq!(found.verdict, Verdict::Clean, "look {look}: {found:?}");
            let last = found.last_lsn.map_or(0, Lsn::get);
            assert!([before, before + 1].contains(&last), "look {look}: {last}");
            copies_without += u64::from(last == before);
            if hook.is_waiting() {
                assert!(look > 10 && copies_without > 10, "{look} {copies_without}");
                break;
            }
        }
    });
}

/// Makes a log whose writer is in the middle of the first batch of the newest segment. Returns the
/// last record before that batch, and the files that change once the batch is written.
fn half_begun(device: &MemStorage) -> (u64, [(&'static str, Vec<u8>); 2]) {
    let (full, newest) = ("000000000001.seg", "000000000002.seg");
    let options = common::tiny(1).geometry(common::GEOMETRY, 7_168).segment_size(7_168);
    let log: TestLog = options.reuse(false).open_in(Arc::new(device.clone())).unwrap();
    let (mut size, mut last) = (0, 0);
    while device.bytes(newest).is_none() {
        size = device.bytes(full).unwrap().len();
        last = log.append(&[7; 790]).unwrap().get();
    }
    // Leaks the log, so that the writer does not close it.
    std::mem::forget(log);
    let completed = [full, newest].map(|name| (name, device.bytes(name).unwrap()));
    let [(_, shortened), _] = &completed;
    assert!(shortened.len() < size, "the writer has shortened the first segment");
    device.edit(full, |bytes| bytes.resize(size, 0));
    device.edit(newest, |bytes| {
        let start = SegmentHeader::decode(bytes).unwrap().data_start();
        let begun = usize::try_from(start).unwrap() + 512;
        bytes.get_mut(begun..).unwrap().fill(0);
    });
    device.remove_raw("live");
    (last - 1, completed)
}

/// The image: a truncation has written a new seal to an old segment. The seal names another
/// successor than the copy has, and the truncated segments still exist.
#[test]
fn copy_is_sound_if_a_truncation_seals_an_old_segment_at_any_step() {
    for look in 0.. {
        let device = MemStorage::new();
        let (gated, gate) = Gated::new(device.clone());
        let log = open_in(Arc::new(gated), 1);
        for number in 1..=400 {
            log.append(&payload(number)).unwrap();
        }
        let (hooked, hook) = Hooked::new(device, look, {
            let gate = gate.clone();
            move || {
                gate.shut();
                std::thread::spawn(move || log.truncate_after(Lsn::new(150)).unwrap());
                gate.wait_for_somebody();
                gate.pass_one();
                // The second sync is that of the seal.
                while !gate.is_waited_at() {
                    std::thread::yield_now();
                }
            }
        });
        let target = MemStorage::new();
        let copy =
            Maintenance::on(&(Arc::new(hooked) as _)).back_up_to(&(Arc::new(target.clone()) as _));
        gate.open();
        if copy.is_ok() {
            let found = Maintenance::on(&(Arc::new(target.clone()) as _)).verify().unwrap();
            assert_eq!(found.verdict, Verdict::Clean, "look {look}: {found:?}");
            assert!([150, 400].contains(&records(&target).1), "look {look}");
        }
        if hook.is_waiting() {
            assert!(look > 10, "{look}");
            break;
        }
    }
}

/// Actions of a writer while a copy is taken.
const BESIDE: [fn(&TestLog); 4] = [
    |log| {
        log.append(&payload(101)).unwrap();
        log.confirm().unwrap();
    },
    |log| {
        for number in 101..=300 {
            log.append(&payload(number)).unwrap();
        }
        log.confirm().unwrap();
    },
    |log| {
        let oldest = log.truncate_before(Lsn::new(60).unwrap()).unwrap();
        assert!(oldest > Lsn::FIRST);
    },
    |log| {
        log.truncate_after(Lsn::new(20)).unwrap();
        for number in 21..=40 {
            log.append(&payload(number)).unwrap();
        }
        log.confirm().unwrap();
    },
];

/// The writer acts just before each read that the copy makes.
#[test]
fn copy_is_sound_whatever_the_writer_does_at_any_step() {
    for (which, beside) in BESIDE.into_iter().enumerate() {
        for look in 0.. {
            let storage = MemStorage::new();
            let log = open(&storage, 1);
            for number in 1..=100 {
                log.append(&payload(number)).unwrap();
            }
            let (hooked, hook) = Hooked::new(storage, look, move || {
                beside(&log);
                // Leaks the log: its writer stays open.
                std::mem::forget(log);
            });
            let case = || format!("writer {which}, look {look}");
            let copy = copied_from(&(Arc::new(hooked) as Arc<dyn Storage>));
            let copy = copy.unwrap_or_else(|error| panic!("{}: {error}", case()));
            let (oldest, count) = records(&copy);
            assert!(oldest - 1 + count >= if which == 3 { 20 } else { 100 }, "{}", case());
            if hook.is_waiting() {
                assert!(look > 10, "{look}");
                break;
            }
        }
    }
}

/// The image: from some record on, every change of `live` fails, and a mark in the newest segment
/// confirms more than `live` says.
#[test]
fn copy_is_sound_if_the_writer_cannot_write_live() {
    for (said, records) in [(1, 2), (1, 3), (2, 9), (40, 60), (100, 300)] {
        let storage = MemStorage::new();
        let mute = Mute::new(storage.clone());
        let log = open_in(Arc::new(mute.clone()), 1);
        let append = |number| assert_eq!(log.append(&payload(number)).unwrap().get(), number);
        (1..=said).for_each(append);
        mute.refuse(Refused::All);
        (said + 1..=records).for_each(append);
        assert_eq!(self::records(&copied(&storage).unwrap()), (1, records), "{said} told");
        log.confirm().unwrap();
        assert_eq!(self::records(&copied(&storage).unwrap()), (1, records), "{said} told");
    }
}

/// A repair or another tool holds `lock`, and writes no record.
#[test]
fn copy_reports_an_ambiguous_tail_while_a_tool_holds_the_lock() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    for number in 1..=3 {
        log.append(&payload(number)).unwrap();
    }
    let left = storage.power_cut(|_| true);
    left.remove_raw("live");
    left.edit("000000000001.seg", |bytes| {
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[last - 20] ^= 1;
    });
    let _lock = Storage::lock(&left, "lock").unwrap().unwrap();
    let source: Arc<dyn Storage> = Arc::new(left);
    assert_eq!(Maintenance::on(&source).verify().unwrap().tail, TailState::Ambiguous);
    let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let copied = Maintenance::on(&source).back_up_to(&target).unwrap();
    assert_eq!((copied.records, copied.tail), (2, TailState::Ambiguous));
}

#[test]
fn copy_and_salvage_refuse_a_target_with_files() {
    let storage = MemStorage::new();
    let log = open(&storage, 1);
    log.append(&payload(1)).unwrap();
    log.close().unwrap();
    let source: Arc<dyn Storage> = Arc::new(storage.clone());
    let target = copied(&storage).unwrap();
    let before = target.steps();
    let occupied: Arc<dyn Storage> = Arc::new(target.clone());
    let refused = [
        common::maintenance(&source).back_up_to(&occupied).err(),
        common::maintenance(&source).salvage_to(occupied.clone()).err(),
    ];
    for error in refused {
        let exists = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AlreadyExists;
        assert!(matches!(&error, Some(Error::Io { source, .. }) if exists(source)), "{error:?}");
    }
    assert_eq!((target.steps(), records(&target)), (before, (1, 1)));
}

/// A copy reads the older segments twice: to verify them, and to copy them.
#[test]
fn copy_is_sound_or_refused_if_a_byte_changes_at_any_step() {
    let sound = MemStorage::new();
    let log = open(&sound, 1);
    for number in 1..=300 {
        log.append(&payload(number)).unwrap();
    }
    log.close().unwrap();
    let mut refused = 0;
    for look in 0.. {
        let device = sound.kill();
        let (hooked, hook) = Hooked::new(device.clone(), look, move || {
            device.edit("000000000001.seg", |bytes| bytes[4_000] ^= 1);
        });
        match copied_from(&(Arc::new(hooked) as Arc<dyn Storage>)) {
            Ok(copy) => assert_eq!(records(&copy), (1, 300), "look {look}"),
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "look {look}: {error}");
                refused += 1;
            }
        }
        if hook.is_waiting() {
            break;
        }
    }
    assert!(refused > 5, "{refused}");
}
