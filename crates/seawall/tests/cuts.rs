//! Cuts at either end, and checkpoints: durable when they return, and nothing cut ever returns.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use crate::common;

use common::gate::Gated;
use common::hooked::Hooked;
use common::watched::Call;
use common::{block_on, within};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Log, LogReader, Lsn, Maintenance, Options, Raw, Ticket};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::{MemStorage, What};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

type TestLog = Log<[u8], Raw>;

fn options(seed: u64) -> Options {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 1024 };
    Options::new()
        .geometry(geometry, 4608)
        .segment_size(4608)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(seed)))
}

fn open(storage: &MemStorage) -> Result<TestLog, Error> {
    options(storage.steps() + 1).open_in(Arc::new(storage.clone()))
}

fn append(log: &TestLog, text: &str, count: u64) -> Result<(), Error> {
    for number in 0..count {
        log.append(format!("{text} {number} {}", "x".repeat(90)).as_bytes())?;
    }
    Ok(())
}

/// The records as text, in order.
fn records(log: &TestLog, from: u64) -> Vec<String> {
    let read = log.read_from(lsn(from)).unwrap();
    read.map(|entry| String::from_utf8(entry.unwrap().1).unwrap()).collect()
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

fn verdict(storage: &MemStorage) -> Verdict {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    Maintenance::on(&storage).verify().unwrap().verdict
}

#[test]
fn a_record_is_not_taken_for_the_one_that_had_its_number_before_a_cut() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "a", 5).unwrap();
    log.truncate_after(Some(lsn(2))).unwrap();
    for nth in 0..20 {
        storage.fail_sync(nth, |_| false);
    }
    // Number 3 was durable once; this record is not.
    let refused = append(&log, "b", 1).unwrap_err();
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
}

/// Found by simulation: a cut that has nothing to cut called everything confirmed, and the
/// confirmation that followed wrote no mark. The image: a record whose only evidence is its batch.
#[test]
fn a_cut_of_nothing_confirms_nothing() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "a", 1).unwrap();
    log.truncate_after(Some(lsn(1))).unwrap();
    log.confirm().unwrap();
    assert_eq!(log.stats().marks, 1);
    let cut = storage.power_cut(|_| false);
    cut.edit("000000000001.seg", |bytes| bytes[4 * 512 + 1024..][..512].fill(0));
    assert_eq!(verdict(&cut), Verdict::Lost);
}

/// Found by simulation: a close of a poisoned log wrote the manifest again, beginning with the slot
/// that was sound. The image: one slot garbled by the write that failed, the other by the close.
#[test]
fn a_poisoned_log_writes_no_more_when_it_is_closed() {
    for drop_it in [false, true] {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "a", 3).unwrap();
        storage.spoil_sync(0, 512);
        assert!(matches!(log.checkpoint(lsn(2)), Err(Error::Poisoned { .. })));
        storage.spoil_sync(0, 512);
        let steps = storage.steps();
        if drop_it {
            drop(log);
        } else {
            assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        }
        assert_eq!(storage.steps(), steps, "nothing is written");
        assert_eq!(verdict(&storage.power_cut(|_| false)), Verdict::Clean);
    }
}

/// Found by simulation: readers of a handle whose cut had come to pass, but for the last sync of
/// the directory, were told that what it took was lost. The image: the log after the cut, sound.
#[test]
fn a_cut_that_fails_at_any_sync_shows_readers_the_log_before_it_or_after_it() {
    for target in [2, 6, 14] {
        let mut poisoned = 0;
        for nth in 0..10 {
            let storage = MemStorage::new();
            let log = open(&storage).unwrap();
            append(&log, "a", 15).unwrap();
            let all = records(&log, 1);
            let mut follower = log.follow(lsn(1)).unwrap();
            storage.fail_sync(nth, |_| true);
            poisoned += u64::from(log.truncate_after(Some(lsn(target))).is_err());
            let elsewhere: LogReader<[u8], Raw> =
                LogReader::open_in(Arc::new(storage.clone())).unwrap();
            let elsewhere = elsewhere.read_from(lsn(1)).unwrap();
            let elsewhere = elsewhere.map(|entry| String::from_utf8(entry.unwrap().1).unwrap());
            let here = records(&log, 1);
            for found in [&here, &elsewhere.collect()] {
                let count = found.len();
                assert!(count == 15 || count == usize::try_from(target).unwrap(), "{count}");
                assert_eq!(found[..], all[..count], "sync {nth}");
            }
            // What the handle calls durable is there.
            let count = u64::try_from(here.len()).unwrap();
            assert_eq!(log.durable(), Lsn::new(count), "sync {nth}");
            let seen = within(20, move || {
                std::iter::from_fn(|| match follower.next_within(Duration::ZERO) {
                    // It began before the cut.
                    Err(Error::Poisoned { .. } | Error::Rewound { .. }) => None,
                    found => found.unwrap().map(|(at, _)| at),
                })
                .count()
            });
            assert!(seen >= here.len(), "sync {nth}: {seen}");
            for number in 1..=15 {
                assert_eq!(log.get(lsn(number)).unwrap().is_some(), number <= count);
            }
        }
        assert!(poisoned > 0, "{target}");
    }
}

/// Found by `appends_return_beside_a_cut` of seawall-scheduled: who was woken late, or looked late,
/// waited until somebody else's record had the number.
#[test]
fn who_waits_for_a_record_that_is_cut_off_meanwhile_is_released() {
    for wait in [Ticket::wait, block_on] {
        within(20, move || {
            let log = open(&MemStorage::new()).unwrap();
            let (kept, cut) = (log.submit(b"kept").unwrap(), log.submit(b"cut").unwrap());
            log.truncate_after(Some(lsn(1))).unwrap();
            assert_eq!((wait(kept).unwrap(), wait(cut).unwrap()), (lsn(1), lsn(2)));
            assert_eq!(log.confirm().unwrap(), Some(lsn(1)));
            assert_eq!(records(&log, 1), ["kept"]);
        });
    }
}

#[test]
fn what_was_cut_never_returns_and_its_numbers_are_given_again() {
    for last in 0..30 {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "old", 30).unwrap();
        log.truncate_after(Lsn::new(last)).unwrap();
        assert_eq!(log.durable(), Lsn::new(last));
        append(&log, "new", 3).unwrap();
        drop(log);
        assert_eq!(verdict(&storage), Verdict::Clean);
        let log = open(&storage).unwrap();
        let found = records(&log, 1);
        assert_eq!(found.len() as u64, last + 3, "cut behind {last}");
        let old = found.iter().filter(|text| text.starts_with("old")).count();
        assert_eq!(old as u64, last, "cut behind {last}");
    }
}

#[test]
fn an_emptied_log_is_empty_and_opens() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 10).unwrap();
    log.truncate_after(None).unwrap();
    drop(log);
    let log = open(&storage).unwrap();
    assert_eq!((log.durable(), records(&log, 1).len()), (None, 0));
    assert_eq!(log.append(b"first").unwrap(), Lsn::FIRST);
}

#[test]
fn pruned_segments_are_gone_and_reading_there_says_so() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 60).unwrap();
    let before = storage.names().len();
    let oldest = log.truncate_before(lsn(40)).unwrap();
    assert!(oldest <= lsn(40) && oldest > lsn(20), "{oldest}");
    assert!(storage.names().len() < before);
    let refused = log.read_from(Lsn::FIRST).unwrap_err();
    assert!(matches!(refused, Error::Pruned { oldest: o, .. } if o == oldest), "{refused}");
    assert_eq!(records(&log, oldest.get()).len() as u64, 61 - oldest.get());
    assert!(matches!(log.truncate_after(Lsn::new(1)), Err(Error::Pruned { .. })));
    drop(log);
    assert_eq!(verdict(&storage), Verdict::Clean);
    let log = open(&storage).unwrap();
    assert_eq!(log.recovery().first, Some(oldest));
    assert_eq!(log.append(b"next").unwrap(), lsn(61));
}

#[test]
fn a_checkpoint_beyond_the_end_is_refused() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 3).unwrap();
    log.checkpoint(lsn(4)).unwrap();
    assert!(matches!(log.checkpoint(lsn(5)), Err(Error::InvalidOption { .. })));
    assert_eq!(log.append(b"still usable").unwrap(), lsn(4));
}

/// What a crash now may leave.
fn crashes(storage: &MemStorage) -> [MemStorage; 4] {
    [
        storage.kill(),
        storage.power_cut(|_| false),
        storage.power_cut(|_| true),
        storage.power_cut(|item| item.what == What::Directory),
    ]
}

/// Appends, a cut in the middle of everything, appends; a crash at every step, then every choice
/// of a few ways in which the pending items landed.
#[test]
fn a_crash_in_a_cut_leaves_the_log_before_it_or_after_it() {
    let (mut before, mut after) = (0, 0);
    for steps in 1.. {
        let storage = MemStorage::new();
        storage.stop_after(steps);
        let mut phase = 0;
        let done = (|| {
            let log = open(&storage)?;
            append(&log, "old", 25)?;
            log.checkpoint(lsn(24))?;
            phase = 1;
            log.truncate_after(Lsn::new(7))?;
            phase = 2;
            append(&log, "new", 2)?;
            phase = 3;
            log.truncate_before(lsn(6))?;
            log.close()
        })();
        if phase > 0 {
            for (way, crashed) in crashes(&storage).into_iter().enumerate() {
                let log = open(&crashed).unwrap_or_else(|e| panic!("step {steps} way {way}: {e}"));
                let oldest = log.recovery().first.map_or(1, Lsn::get);
                let found = records(&log, oldest);
                let old = found.iter().filter(|text| text.starts_with("old")).count() as u64;
                let old = old + oldest - 1;
                let new = found.iter().filter(|text| text.starts_with("new")).count();
                match phase {
                    1 => assert!(old == 25 || old == 7, "step {steps} way {way}: {old}"),
                    2 => assert!(old == 7 && new <= 2, "step {steps} way {way}: {old} {new}"),
                    _ => assert!(old == 7 && new == 2, "step {steps} way {way}: {old} {new}"),
                }
                (before, after) = (before + u32::from(old == 25), after + u32::from(old == 7));
            }
        }
        if done.is_ok() {
            break;
        }
    }
    assert!(before > 20 && after > 50, "{before} before, {after} after");
}

#[test]
fn a_crash_in_a_prune_leaves_the_log_before_it_or_after_it() {
    let (mut before, mut after) = (0, 0);
    for steps in 1.. {
        let storage = MemStorage::new();
        storage.stop_after(steps);
        let (mut begun, mut told) = (false, None);
        let done = (|| {
            let log = open(&storage)?;
            append(&log, "old", 60)?;
            log.checkpoint(lsn(50))?;
            begun = true;
            told = Some(log.truncate_before(lsn(40))?.get());
            log.close()
        })();
        for (way, crashed) in crashes(&storage).into_iter().enumerate().filter(|_| begun) {
            let log = open(&crashed).unwrap_or_else(|e| panic!("step {steps} way {way}: {e}"));
            let oldest = log.recovery().first.map_or(1, Lsn::get);
            assert_eq!(records(&log, oldest).len() as u64, 61 - oldest, "step {steps} way {way}");
            assert!(told.is_none_or(|told| told == oldest), "step {steps} way {way}: {oldest}");
            (before, after) = (before + u32::from(oldest == 1), after + u32::from(oldest > 20));
        }
        if done.is_ok() {
            break;
        }
    }
    assert!(before > 0 && after > 8, "{before} before, {after} after");
}

#[test]
fn a_reader_beside_a_cut_sees_nothing_that_a_crash_then_takes() {
    let (mut all, mut few) = (0, 0);
    for steps in 1.. {
        let storage = MemStorage::new();
        storage.stop_after(steps);
        let mut begun = false;
        let done = (|| {
            let log = open(&storage)?;
            append(&log, "old", 25)?;
            log.checkpoint(lsn(24))?;
            begun = true;
            log.truncate_after(Lsn::new(7))?;
            storage.stop_after(storage.steps());
            Ok::<(), Error>(())
        })();
        if begun {
            let beside = Arc::new(storage.kill());
            let reader: LogReader<[u8], Raw> = LogReader::open_in(beside).unwrap();
            let shown = reader.read_from(Lsn::FIRST).unwrap().map(Result::unwrap).count();
            for (way, crashed) in crashes(&storage).into_iter().enumerate() {
                let left = records(&open(&crashed).unwrap(), 1).len();
                assert!(left >= shown, "step {steps} way {way}: {shown} shown, {left} left");
            }
            (all, few) = (all + u32::from(shown == 25), few + u32::from(shown == 7));
        }
        if done.is_ok() {
            break;
        }
    }
    assert!(all > 0 && few > 3, "{all} {few}");
}

/// Found by simulation. The image: what a cut, or a prune, removed came back, as the sync of the
/// directory failed and the power went.
#[test]
fn what_came_back_of_a_cut_or_a_prune_goes_at_the_next_open() {
    for is_cut in [true, false] {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        for _ in 0..9 {
            log.append("old".repeat(300).as_bytes()).unwrap();
        }
        let names = storage.names();
        if is_cut {
            log.truncate_after(Some(lsn(3))).unwrap();
        } else {
            log.truncate_before(lsn(7)).unwrap();
        }
        drop(log);
        let gone: Vec<_> = names.iter().filter(|name| !storage.names().contains(name)).collect();
        assert!(gone.len() > 2, "{gone:?}");
        for back in &gone {
            storage.copy_raw("manifest", back);
        }
        let left = storage.names();
        let log = open(&storage).unwrap();
        let kept = records(&log, log.oldest().get()).len();
        assert_eq!(kept, 3);
        assert!(gone.iter().all(|name| left.contains(name) && !storage.names().contains(name)));
        drop(log);
    }
}

/// Found by simulation. The image: a cut could not write the seal of the segment where it fell,
/// which names what was cut; later another seal could not be written, and the segment that was made
/// then is lost.
#[test]
fn what_an_old_seal_says_does_not_bring_back_what_was_cut() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    for _ in 0..5 {
        log.append("old".repeat(300).as_bytes()).unwrap();
    }
    storage.copy_raw("000000000002.seg", "quarantine/before the cut");
    log.truncate_after(Some(lsn(1))).unwrap();
    storage.copy_raw("quarantine/before the cut", "000000000002.seg");
    for _ in 0..4 {
        log.append("new".repeat(300).as_bytes()).unwrap();
    }
    log.close().unwrap();
    let unsealed = |name: &str| storage.edit(name, |bytes| bytes[3 * 512..4 * 512].fill(0));
    unsealed("000000000007.seg");
    let shown = |left: MemStorage| {
        let reader = LogReader::open_any_in(Arc::new(left)).unwrap().skip_damaged(true);
        let entries = reader.read_from(lsn(1)).unwrap().flatten();
        let numbers = entries.filter(|(_, bytes)| bytes.starts_with(b"old"));
        numbers.map(|(number, _)| number.get()).collect::<Vec<_>>()
    };
    assert_eq!(shown(storage.kill()), [1]);
    storage.remove_raw("000000000008.seg");
    assert_eq!(shown(storage.kill()), [0; 0], "nobody knows how far the second one counts");
}

/// Found by simulation. The image: some of the segments that a cut took could not be removed, the
/// last of them names one that is gone, and the segment that the cut made is lost.
#[test]
fn what_a_cut_could_not_remove_does_not_return_when_the_newest_segment_is_lost() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    for _ in 0..9 {
        log.append("old".repeat(300).as_bytes()).unwrap();
    }
    let taken: Vec<_> = (3..=9).map(|id| format!("{id:012}.seg")).collect();
    for name in &taken {
        storage.copy_raw(name, &format!("quarantine/{name}"));
    }
    log.truncate_after(Some(lsn(1))).unwrap();
    log.append(b"new").unwrap();
    log.close().unwrap();
    for left_from in 0..taken.len() {
        for left_to in left_from..taken.len() {
            let left = storage.kill();
            for name in &taken[left_from..=left_to] {
                left.copy_raw(&format!("quarantine/{name}"), name);
            }
            let whole =
                Maintenance::on(&(Arc::new(left.clone()) as Arc<dyn Storage>)).verify().unwrap();
            assert_eq!(whole.verdict, Verdict::Clean);
            left.remove_raw("000000000010.seg");
            for crashed in [left.kill(), left.power_cut(|_| true)] {
                let reader = LogReader::open_any_in(Arc::new(crashed)).unwrap().skip_damaged(true);
                let shown = reader.read_from(lsn(1)).unwrap().flatten().count();
                assert_eq!(shown, 1, "{left_from} to {left_to} are left");
            }
        }
    }
}

/// Found by simulation. The image: the segments that a cut took, which seal each other, are there
/// as if nobody could remove them; the log went on, and the segment that the cut made is lost.
#[test]
fn what_was_cut_does_not_return_when_a_segment_above_it_is_lost() {
    for before in 0..30 {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        for _ in 0..9 {
            log.append(format!("old {}", "x".repeat(900)).as_bytes()).unwrap();
        }
        let names = storage.names();
        for name in &names {
            storage.copy_raw(name, &format!("quarantine/{name}"));
        }
        let died = storage.steps();
        storage.stop_after(died + before);
        let is_cut = log.truncate_after(Some(lsn(1))).is_ok();
        let left = storage.kill();
        let log = open(&left).unwrap();
        if log.durable() != Some(lsn(1)) {
            continue;
        }
        append(&log, "new", 60).unwrap();
        log.close().unwrap();
        let there = left.names();
        for name in names.iter().filter(|name| !there.contains(name)) {
            left.copy_raw(&format!("quarantine/{name}"), name);
        }
        let made = there.iter().filter(|name| !names.contains(name));
        for lost in made.filter(|name| name.contains(".seg")) {
            let left = left.power_cut(|_| false);
            left.remove_raw(lost);
            let reader = LogReader::open_any_in(Arc::new(left)).unwrap().skip_damaged(true);
            for entry in reader.read_from(lsn(1)).unwrap() {
                let Ok((number, bytes)) = entry else { continue };
                let is_old = bytes.starts_with(b"old");
                assert!(!is_old || number == lsn(1), "step {before}, without {lost}: {number}");
            }
        }
        if is_cut {
            return;
        }
    }
    panic!("the cut never returned");
}

/// Found by simulation. The image: a cut made the newest segment, which holds nothing yet, all
/// before it was pruned, and the manifest is lost.
#[test]
fn a_log_whose_only_segment_is_empty_is_not_made_anew_where_the_manifest_is_lost() {
    for pruned in [false, true] {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "a", 9).unwrap();
        let last = if pruned { Some(lsn(5)) } else { None };
        log.truncate_after(last).unwrap();
        if pruned {
            assert_eq!(log.truncate_before(lsn(6)).unwrap(), lsn(6));
        }
        log.close().unwrap();
        let left = storage.power_cut(|_| false);
        left.remove_raw("manifest");
        if !pruned {
            left.remove_raw("000000000001.seg");
        }
        assert_eq!(verdict(&left), Verdict::Lost);
        assert!(matches!(open(&left), Err(Error::Damaged { .. })));
    }
}

/// Spoils a record with this text, wherever it is.
fn spoil(storage: &MemStorage, text: &str) {
    for name in storage.names().iter().filter(|name| name.contains(".seg")) {
        let bytes = storage.bytes(name).unwrap();
        let found = bytes.windows(text.len()).position(|part| part == text.as_bytes());
        if let Some(byte) = found {
            storage.edit(name, |bytes| *bytes.get_mut(byte).unwrap() ^= 1);
        }
    }
}

/// Whether the log opens with a record spoilt, after a power cut.
fn opens_with_spoilt(storage: &MemStorage, text: &str) -> bool {
    let left = storage.power_cut(|_| false);
    spoil(&left, text);
    match open(&left) {
        Ok(_) => true,
        Err(Error::Damaged { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_checkpoint_is_durable_and_a_cut_lowers_it() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 60).unwrap();
    assert!(!opens_with_spoilt(&storage, "old 3 "), "without a checkpoint all is judged");
    log.checkpoint(lsn(50)).unwrap();
    let device: Arc<dyn Storage> = Arc::new(storage.power_cut(|_| false));
    assert_eq!(Maintenance::on(&device).verify().unwrap().summary.checkpoint, Lsn::new(50));
    assert!(opens_with_spoilt(&storage, "old 3 "), "what stands before it is not judged");
    assert!(!opens_with_spoilt(&storage, "old 52 "));
    log.truncate_after(Lsn::new(20)).unwrap();
    append(&log, "new", 60).unwrap();
    assert!(!opens_with_spoilt(&storage, "new 2 "), "nobody said that it is not needed");
}

#[test]
fn what_was_cut_does_not_return_when_the_newest_file_is_lost() {
    for last in 0..30 {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        append(&log, "old", 30).unwrap();
        log.truncate_after(Lsn::new(last)).unwrap();
        let left = storage.power_cut(|_| false);
        let newest = left.names().into_iter().filter(|name| name.contains(".seg")).max().unwrap();
        left.remove_raw(&newest);
        assert!(matches!(open(&left), Err(Error::Damaged { .. })), "cut behind {last}");
    }
}

/// Readers here and elsewhere, with a cut just before each look that they take.
#[test]
fn a_reader_beside_a_cut_finds_no_damage() {
    let mut raced = 0;
    for (last, here) in [0, 1, 7, 25].into_iter().flat_map(|last| [(last, true), (last, false)]) {
        for look in 0.. {
            let storage = MemStorage::new();
            let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || ());
            let device: Arc<dyn Storage> = Arc::new(hooked);
            let log: Arc<TestLog> = Arc::new(options(1).open_in(device.clone()).unwrap());
            append(&log, "old", 30).unwrap();
            let beside = log.clone();
            hook.plan(look, move || beside.truncate_after(Lsn::new(last)).unwrap());
            let entries = if here {
                log.read_from(lsn(1)).unwrap()
            } else {
                LogReader::open_in(device).and_then(|reader| reader.read_from(lsn(1))).unwrap()
            };
            let what = format!("cut behind {last} before look {look}, here: {here}");
            let mut found = 0;
            for entry in entries {
                match entry {
                    Ok((lsn, _)) => found = lsn.get(),
                    Err(Error::Rewound { next, .. }) => assert_eq!(next.get(), last + 1, "{what}"),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            assert!((last..=30).contains(&found), "{what}: {found}");
            if hook.is_waiting() {
                assert!(look > 3, "{what}");
                break;
            }
            raced += 1;
        }
    }
    assert!(raced > 50, "{raced}");
}

/// Found by simulation. The image: two cuts in one segment that both could not seal it, the second
/// one just before each look that a reader takes.
#[test]
fn a_reader_beside_a_cut_shows_nothing_that_an_earlier_one_took() {
    let mut raced = 0;
    for here in [true, false] {
        for look in 0.. {
            let storage = MemStorage::new();
            let (hooked, hook) = Hooked::new(storage.clone(), u64::MAX, || ());
            let device: Arc<dyn Storage> = Arc::new(hooked);
            let log: Arc<TestLog> = Arc::new(options(1).open_in(device.clone()).unwrap());
            append(&log, "old", 10).unwrap();
            let cut = move |log: &TestLog, last| {
                let holder = storage.names().into_iter().rfind(|name| name.contains(".seg"));
                let holder = holder.filter(|_| last == 8).unwrap_or("000000000001.seg".to_owned());
                storage.refuse_writes(&holder, true);
                log.truncate_after(Some(lsn(last))).unwrap();
                storage.refuse_writes(&holder, false);
            };
            cut(&log, 8);
            append(&log, "new", 2).unwrap();
            let beside = log.clone();
            hook.plan(look, move || cut(&beside, 5));
            let entries = if here {
                log.read_from(lsn(1)).unwrap()
            } else {
                LogReader::open_in(device).and_then(|reader| reader.read_from(lsn(1))).unwrap()
            };
            for entry in entries {
                match entry {
                    Ok((number, bytes)) => {
                        let is_old = bytes.starts_with(b"old");
                        assert!(number <= lsn(8) || !is_old, "look {look}, here: {here}: {number}");
                    }
                    Err(Error::Rewound { next, .. }) => assert_eq!(next, lsn(6)),
                    Err(error) => panic!("look {look}, here: {here}: {error}"),
                }
            }
            if hook.is_waiting() {
                break;
            }
            raced += 1;
        }
    }
    assert!(raced > 20, "{raced}");
}

/// Left for the reader: a cut that has removed one of several segments, and goes on only when the
/// reader waits for it, or has said what it found.
#[test]
fn a_reader_beside_a_cut_that_is_half_done_waits_for_its_end() {
    for last in [1, 3] {
        let (gated, gate) = Gated::before(Call::Remove, MemStorage::new());
        let log: Arc<TestLog> = Arc::new(options(1).open_in(Arc::new(gated)).unwrap());
        append(&log, "old", 30).unwrap();
        let mut entries = log.read_from(lsn(1)).unwrap();
        assert_eq!(entries.next().unwrap().unwrap().0, lsn(1));
        gate.shut();
        gate.pass_one();
        let beside = log.clone();
        let cut = thread::spawn(move || beside.truncate_after(Lsn::new(last)));
        while !gate.is_waited_at() {
            thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        let reader = thread::spawn(move || {
            let found: Vec<_> = entries.collect();
            let _ = tell.send(());
            found
        });
        let _ = told.recv_timeout(Duration::from_millis(200));
        gate.open();
        cut.join().unwrap().unwrap();
        for entry in reader.join().unwrap() {
            match entry {
                Ok((lsn, _)) => assert!(lsn.get() <= 30),
                Err(Error::Rewound { next, .. }) => assert_eq!(next.get(), last + 1),
                Err(error) => panic!("cut behind {last}: {error}"),
            }
        }
    }
}

#[test]
fn a_cut_to_a_place_that_is_damaged_is_refused_and_changes_nothing() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    append(&log, "old", 30).unwrap();
    // Record 4 is in the first segment, like record 6.
    storage.edit("000000000001.seg", |bytes| {
        let at = bytes.windows(6).position(|text| text == b"old 3 ").unwrap();
        bytes[at] ^= 1;
    });
    let (names, refused) = (storage.names(), log.truncate_after(Some(lsn(6))));
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    assert_eq!((log.durable(), storage.names()), (Lsn::new(30), names));
    assert_eq!(records(&log, 25).len(), 6);
    assert_eq!(log.append(b"next").unwrap(), lsn(31));
    log.truncate_after(Some(lsn(25))).unwrap();
    assert_eq!(log.append(b"again").unwrap(), lsn(26));
}
