//! `live` is a hint: whatever it contains, or lacks, readers show the records that `verify` and the
//! next open find, including every acknowledged one.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use std::sync::Arc;

use seawall::verify::Verdict;
use seawall::{Error, Layout, LogReader, Lsn, Maintenance, Options};
use seawall_io::Storage;
use seawall_testkit::MemStorage;

use crate::common::mute::{Mute, Refused};
use crate::common::{
    Bytes, Found, LAYOUTS, again, laid_out, lsn, of_any_size, payload_in, read_own,
};

fn options(seed: u64, layout: Layout) -> Options {
    laid_out(of_any_size(seed), layout).segment_size(10 * 512)
}

fn append(log: &Bytes, layout: Layout, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let size = usize::try_from(100 + number % 5 * 90).unwrap();
        assert_eq!(log.append(&payload_in(layout, (number, 1), size)).unwrap().get(), number);
    }
}

fn last(found: &Found) -> u64 {
    found.records.keys().next_back().copied().unwrap_or(0)
}

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

/// The last record of the log. Checks that all ways to read it agree.
fn shown(device: &MemStorage, what: &str) -> u64 {
    let reader = LogReader::open_any_in(storage(device)).unwrap();
    let oldest = reader.oldest().unwrap();
    let found = Found::take(reader.read_from(oldest).unwrap()).unwrap();
    assert_eq!(found.errors, 0, "{what}: {:?}", found.lost);
    let end = last(&found);
    for number in oldest.get()..=end {
        let got = reader.get(lsn(number)).unwrap();
        assert_eq!(got.as_ref(), found.records.get(&number), "{what}: get of record {number}");
    }
    assert_eq!(reader.get(lsn(end + 1)).unwrap(), None, "{what}");
    let shared = reader.cursors(oldest, 3).unwrap();
    let mut by_many = 0;
    for mut cursor in shared {
        while let Some(record) = cursor.next_record().unwrap() {
            by_many = record.lsn.get();
        }
    }
    assert_eq!(by_many, end, "{what}: cursors side by side");
    let judged = Maintenance::on(&storage(device)).verify().unwrap();
    assert_eq!((judged.verdict, judged.last_lsn), (Verdict::Clean, Lsn::new(end)), "{what}");
    let target = MemStorage::new();
    let copied = Maintenance::on(&storage(device)).back_up_to(&storage(&target)).unwrap();
    assert_eq!(copied.last, Lsn::new(end), "{what}: a copy");
    end
}

/// The same for a log without a writer. Checks that the next open agrees, too.
fn settled(device: &MemStorage, layout: Layout, what: &str) -> u64 {
    let end = shown(device, what);
    let again = device.kill();
    let log: Bytes = options(77, layout).open_in(storage(&again)).unwrap();
    assert_eq!(log.recovery().last, Lsn::new(end), "{what}: the next open");
    drop(log);
    // Records that were shown survive a power cut.
    let cut = device.power_cut(|_| false);
    let log: Bytes = options(78, layout).open_in(storage(&cut)).unwrap();
    assert!(log.recovery().last >= Lsn::new(end), "{what}: after a power cut");
    end
}

/// The image: unsynced data was lost on the same boot, and an older `live` came back.
#[test]
fn stale_live_file_hides_nothing() {
    for layout in LAYOUTS {
        for (said, records) in [(1, 2), (1, 3), (1, 40), (5, 6), (20, 40), (39, 40)] {
            let what = format!("{layout:?}, {records} records, live says {said}");
            let device = MemStorage::new();
            let log: Bytes = options(1, layout).open_in(storage(&device)).unwrap();
            append(&log, layout, 1..=said);
            let stale = device.bytes("live").unwrap();
            append(&log, layout, said + 1..=records);
            let died = device.detach(|_| false);
            if died.bytes("live").is_none() {
                died.copy_raw("manifest", "live");
            }
            died.edit("live", |bytes| bytes.clone_from(&stale));
            assert_eq!(settled(&died, layout, &what), records, "{what}");
            let killed = device.kill();
            killed.edit("live", |bytes| bytes.clone_from(&stale));
            assert_eq!(settled(&killed, layout, &what), records, "{what}, killed");
            drop(log);
        }
    }
}

/// The image: from some record on, writes of `live` fail, or everything done to it fails.
#[test]
fn unwritable_live_file_hides_nothing() {
    for layout in LAYOUTS {
        for refused in [Refused::Writes, Refused::All] {
            for (said, records) in [(0, 1), (1, 2), (1, 30), (20, 40)] {
                let what = format!("{layout:?}, {refused:?}, {records} records, {said} told");
                let device = MemStorage::new();
                let mute = Mute::new(device.clone());
                let log: Bytes = options(1, layout).open_in(Arc::new(mute.clone())).unwrap();
                append(&log, layout, 1..=said);
                mute.refuse(refused);
                append(&log, layout, said + 1..=records);
                assert!(log.stats().live_failures >= records - said, "{what}");
                assert_eq!(shown(&device, &what), records, "{what}, beside the writer");
                let killed = device.kill();
                assert_eq!(settled(&killed, layout, &what), records, "{what}");
                // Once `live` can be written again, it is.
                mute.refuse(Refused::Nothing);
                append(&log, layout, records + 1..=records + 1);
                assert_eq!(shown(&device, &what), records + 1, "{what}, told again");
                drop(log);
            }
        }
    }
}

/// The same, and the segment that `live` names was pruned since.
#[test]
fn pruning_with_a_stale_live_file_hides_nothing() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let mute = Mute::new(device.clone());
        let log: Bytes = options(1, layout).open_in(Arc::new(mute.clone())).unwrap();
        append(&log, layout, 1..=3);
        let stale = device.bytes("live").unwrap();
        mute.refuse(Refused::All);
        append(&log, layout, 4..=60);
        let oldest = log.truncate_before(lsn(55)).unwrap();
        assert!(oldest.get() > 30, "{oldest}");
        assert_eq!(shown(&device, "beside the writer"), 60);
        let killed = device.kill();
        killed.edit("live", |bytes| bytes.clone_from(&stale));
        assert_eq!(settled(&killed, layout, "killed"), 60);
        drop(log);
    }
}

/// The image: a writer without a boot id, as in a container without `/proc`, next to readers that
/// have one. `live` was written by the previous writer.
#[test]
fn writer_without_a_boot_id_hides_nothing() {
    for layout in LAYOUTS {
        let device = MemStorage::new();
        let log: Bytes = options(1, layout).open_in(storage(&device)).unwrap();
        append(&log, layout, 1..=20);
        let device = device.kill();
        let mute = Mute::without_boot_id(device.clone());
        let second: Bytes = options(2, layout).open_in(Arc::new(mute)).unwrap();
        assert_eq!(shown(&device, "nothing appended yet"), 20);
        let reader = LogReader::open_any_in(storage(&device)).unwrap();
        let mut follower = reader.follow(lsn(21)).unwrap();
        for number in 21..=60 {
            append(&second, layout, number..=number);
            assert_eq!(shown(&device, "beside the writer"), number);
            let next = follower.next_within(std::time::Duration::from_secs(20)).unwrap();
            assert_eq!(next.map(|(lsn, _)| lsn.get()), Some(number));
        }
        assert_eq!(settled(&device.kill(), layout, "killed"), 60);
        drop((log, second));
    }
}

/// The image: `live` is from before a truncation, and new records have the numbers of truncated
/// ones.
#[test]
fn live_file_from_before_a_truncation_shows_no_truncated_record() {
    for layout in LAYOUTS {
        for (records, kept, more) in [(3, 1, 1), (40, 20, 5), (40, 39, 30), (40, 2, 60), (5, 0, 2)]
        {
            let what = format!("{layout:?}, {records} records, cut behind {kept}, then {more}");
            let device = MemStorage::new();
            let log: Bytes = options(1, layout).open_in(storage(&device)).unwrap();
            append(&log, layout, 1..=records);
            let stale = device.bytes("live").unwrap();
            log.truncate_after(Lsn::new(kept)).unwrap();
            for number in kept + 1..=kept + more {
                log.append(&payload_in(layout, (number, 2), 120)).unwrap();
            }
            let killed = device.kill();
            killed.edit("live", |bytes| bytes.clone_from(&stale));
            assert_eq!(settled(&killed, layout, &what), kept + more, "{what}");
            let reader = LogReader::open_any_in(storage(&killed)).unwrap();
            let found = Found::take(reader.read_from(Lsn::FIRST).unwrap()).unwrap();
            assert_eq!(found.records, read_own(&log).records, "{what}");
            drop(log);
        }
    }
}

/// A killed log of four records. Nothing on the disk confirms the last one.
fn killed() -> MemStorage {
    let device = MemStorage::new();
    let log: Bytes = again(1).open_in(storage(&device)).unwrap();
    append(&log, Layout::Binary, 1..=4);
    let killed = device.kill();
    drop(log);
    killed.remove_raw("live");
    killed
}

#[test]
fn reader_reports_what_it_cannot_sync() {
    let read = |device: &MemStorage| {
        let reader = LogReader::open_any_in(storage(device)).unwrap();
        let mut entries = reader.read_from(Lsn::FIRST).unwrap();
        let shown: Vec<_> = entries.by_ref().map_while(Result::ok).collect();
        (shown.len(), entries.next())
    };
    for failing in 0..2 {
        let device = killed();
        device.fail_sync(failing, |_| false);
        let reader = LogReader::open_any_in(storage(&device)).unwrap();
        let mut shown = vec![];
        let error = reader.read_from(Lsn::FIRST).unwrap().find_map(|entry| match entry {
            Ok((lsn, _)) => {
                shown.push(lsn.get());
                None
            }
            Err(error) => Some(error),
        });
        assert_eq!(shown, [1, 2, 3], "sync {failing}");
        let named = |error: &Error| match error {
            Error::Unconfirmed { from, to, .. } => Some((from.get(), to.map(Lsn::get))),
            _ => None,
        };
        assert_eq!(error.as_ref().and_then(named), Some((4, Some(4))), "{error:?}");
        let device = killed();
        device.fail_sync(failing, |_| false);
        let reader = LogReader::open_any_in(storage(&device)).unwrap();
        assert!(reader.get(lsn(3)).unwrap().is_some());
        let error = reader.get(lsn(4)).unwrap_err();
        assert_eq!(named(&error), Some((4, Some(4))), "{error}");
        let device = killed();
        device.fail_sync(failing, |_| false);
        let error = Maintenance::on(&storage(&device))
            .back_up_to(&storage(&MemStorage::new()))
            .unwrap_err();
        assert_eq!(named(&error), Some((4, Some(4))), "{error}");
    }
    assert_eq!(read(&killed()).0, 4);
}

#[test]
fn reader_syncs_only_unconfirmed_data() {
    let device = killed();
    assert_eq!(shown(&device.kill(), "killed"), 4);
    let steps = |device: &MemStorage| {
        let before = device.steps();
        let reader = LogReader::open_any_in(storage(device)).unwrap();
        assert_eq!(reader.read_from(Lsn::FIRST).unwrap().count(), 4);
        device.steps() - before
    };
    assert_eq!(steps(&device), 2, "the newest segment and the directory");
    let log: Bytes = again(2).open_in(storage(&device)).unwrap();
    assert_eq!(steps(&device), 0, "beside a writer");
    log.confirm().unwrap();
    assert_eq!(steps(&device.kill()), 0, "confirmed by a mark");
    log.close().unwrap();
    assert_eq!(steps(&device), 0, "closed");
}
