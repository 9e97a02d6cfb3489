//! Truncations, followed by crashes or lost files: truncated records never return.

use super::{append, lsn, open, records, verdict};
use seawall::verify::Verdict;
use seawall::{Error, LogReader, Lsn, Raw};
use seawall_format::Manifest;
use seawall_io::{Access, Storage};
use seawall_testkit::{MemStorage, What};
use std::sync::Arc;

/// The possible states after a crash now.
fn crashes(storage: &MemStorage) -> [MemStorage; 4] {
    [
        storage.kill(),
        storage.power_cut(|_| false),
        storage.power_cut(|_| true),
        storage.power_cut(|item| item.what == What::Directory),
    ]
}

/// Appends, truncates in the middle, and appends again. Crashes at every step, with a few choices
/// of the pending items that reached the disk.
#[test]
fn crash_during_a_truncation_leaves_the_log_before_or_after_it() {
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
fn crash_during_pruning_leaves_the_log_before_or_after_it() {
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

/// Found by simulation. The image: a prune was stopped after writing one manifest slot, and the
/// next open was killed while it rewrote that slot. The page cache shows the log before the prune,
/// the disk the log after it.
#[test]
fn prune_that_a_power_cut_completes_takes_nothing_else() {
    let mut completed = 0;
    for steps in 1.. {
        let storage = MemStorage::new();
        let log = open(&storage).unwrap();
        for _ in 0..9 {
            log.append("old".repeat(300).as_bytes()).unwrap();
        }
        log.truncate_after(Some(lsn(8))).unwrap();
        storage.stop_after(storage.steps() + steps);
        let done = log.truncate_before(lsn(9));
        drop(log);
        let left = storage.kill();
        let slots = Manifest::decode_file(&left.bytes("manifest").unwrap());
        let newest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence).unwrap();
        let file = left.open("manifest", Access::ReadWrite).unwrap();
        file.write_at(&[0xFF; 99], newest.offset().0).unwrap();

        let reader = LogReader::open_any_in(Arc::new(left.clone())).unwrap();
        let entries = reader.read_from(reader.oldest().unwrap()).unwrap();
        let shown = entries.map(Result::unwrap).count();
        let log = open(&left.power_cut(|_| false)).unwrap();
        let (oldest, last) = (log.oldest().get(), log.recovery().last);
        assert_eq!((records(&log, oldest).len() as u64, last), (9 - oldest, Lsn::new(8)));
        assert_eq!(log.append(b"new").unwrap(), lsn(9), "step {steps}");
        completed += u32::from(shown == 8 && oldest == 9);
        if done.is_ok() {
            break;
        }
    }
    assert!(completed > 0);
}

/// Found by simulation. The image: the device lost the removal of pruned segments.
#[test]
fn pruned_segments_that_return_do_not_count() {
    let storage = MemStorage::new();
    let log = open(&storage).unwrap();
    for _ in 0..9 {
        log.append("old".repeat(300).as_bytes()).unwrap();
    }
    let names = storage.names();
    for name in &names {
        storage.copy_raw(name, &format!("quarantine/{name}"));
    }
    assert_eq!(log.truncate_before(lsn(7)).unwrap(), lsn(7));
    log.close().unwrap();
    let there = storage.names();
    for name in names.iter().filter(|name| !there.contains(name)) {
        storage.copy_raw(&format!("quarantine/{name}"), name);
    }
    assert_eq!(verdict(&storage), Verdict::Clean);
    let reader = LogReader::open_any_in(Arc::new(storage.kill())).unwrap();
    assert_eq!(reader.oldest().unwrap(), lsn(7));
    let log = open(&storage).unwrap();
    assert_eq!((log.oldest(), records(&log, 7).len()), (lsn(7), 3));
}

#[test]
fn reader_during_a_truncation_shows_only_records_that_survive_a_crash() {
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

/// Found by simulation. The image: files removed by a truncation or a prune came back, because the
/// directory sync failed and then power was cut.
#[test]
fn files_that_reappear_after_truncation_or_pruning_are_removed_by_open() {
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

/// Found by simulation. The image: a truncation could not write the seal of the segment that it
/// shortened, so the old seal still names a truncated segment. Later another seal could not be
/// written, and the segment created then is lost.
#[test]
fn old_seal_does_not_bring_back_truncated_records() {
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
        let reader = crate::common::reader(Arc::new(left)).unwrap().skip_damaged(true);
        let entries = reader.read_from(lsn(1)).unwrap().flatten();
        let numbers = entries.filter(|(_, bytes)| bytes.starts_with(b"old"));
        numbers.map(|(number, _)| number.get()).collect::<Vec<_>>()
    };
    assert_eq!(shown(storage.kill()), [1]);
    storage.remove_raw("000000000008.seg");
    assert_eq!(shown(storage.kill()), [0; 0], "nobody knows how far the second one counts");
}

/// Found by simulation. The image: some truncated segments could not be removed, the last of them
/// names a segment that is gone, and the segment that the truncation created is lost.
#[test]
fn truncated_segment_does_not_return_when_the_newest_segment_is_lost() {
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
            let whole = crate::common::maintenance(&(Arc::new(left.clone()) as Arc<dyn Storage>))
                .verify()
                .unwrap();
            assert_eq!(whole.verdict, Verdict::Clean);
            left.remove_raw("000000000010.seg");
            for crashed in [left.kill(), left.power_cut(|_| true)] {
                let reader = crate::common::reader(Arc::new(crashed)).unwrap().skip_damaged(true);
                let shown = reader.read_from(lsn(1)).unwrap().flatten().count();
                assert_eq!(shown, 1, "{left_from} to {left_to} are left");
            }
        }
    }
}

/// Found by simulation. The image: the truncated segments, which seal each other, still exist as if
/// they could not be removed. The log continued, and the segment that the truncation created is
/// lost.
#[test]
fn truncated_records_do_not_return_when_a_later_segment_is_lost() {
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
            let reader = crate::common::reader(Arc::new(left)).unwrap().skip_damaged(true);
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

/// Found by simulation. The image: a truncation created the newest, empty segment, all segments
/// before it were pruned, and the manifest is lost.
#[test]
fn log_with_one_empty_segment_and_no_manifest_is_not_created_again() {
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

#[test]
fn truncated_records_do_not_return_when_the_newest_file_is_lost() {
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
