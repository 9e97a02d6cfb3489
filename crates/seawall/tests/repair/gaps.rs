//! Gaps: a log with a lost segment continues or is truncated. The segment before the lost one still
//! has records that were truncated; they never come back.

use super::*;

/// Options with which all records of a test fit into one segment.
fn roomy(seed: u64, layout: Layout) -> Options {
    let size = 24 * 512;
    laid_out(of_any_size(seed), layout).geometry(GEOMETRY, size).segment_size(size)
}

/// Truncates a new log after each pair's first number, then appends the second number of records.
/// Loses the second segment then.
fn with_second_lost(layout: Layout, acts: &[(u64, u64)]) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&roomy(1, layout), &device).unwrap();
    for (life, (kept, count)) in (1..).zip(acts) {
        log.truncate_after(Lsn::new(*kept)).unwrap();
        for lsn in kept + 1..=kept + count {
            log.append(&payload_in(layout, (lsn, life), 30)).unwrap();
        }
    }
    log.close().unwrap();
    let damaged = device.power_cut(|_| false);
    let lost = damaged.names().into_iter().filter(|name| name.starts_with("000000000002"));
    lost.for_each(|name| damaged.remove_raw(&name));
    damaged
}

fn salvaging(layout: Layout, device: &MemStorage) -> Bytes {
    open(&roomy(2, layout).mode(OpenMode::Salvage), device).unwrap()
}

/// Every record up to `end` is delivered or reported, and those delivered before are the same.
fn nothing_came_back(before: &Found, device: &MemStorage, end: u64) {
    let after = read(device, true).unwrap();
    let found = judge(device).unwrap();
    let lost = |lsn: u64| found.damage.iter().any(|one| one.lost.is_some_and(|l| names(&l, lsn)));
    for lsn in 1..=end {
        let (old, new) = (before.records.get(&lsn), after.records.get(&lsn));
        assert_eq!(new.is_none(), lost(lsn), "record {lsn}: {found:?}");
        assert!(old == new || Some(lsn) > before.end(), "record {lsn}: {new:?}");
    }
}

/// Found by review: the log was verified as clean afterwards.
#[test]
fn truncation_into_a_gap_is_refused() {
    for layout in layouts() {
        let damaged = with_second_lost(layout, &[(0, 10), (5, 4), (8, 2)]);
        for last in 1..=9 {
            let device = damaged.kill();
            let mut before = read(&device, true).unwrap();
            assert_eq!(before.records.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 9, 10]);
            let log = salvaging(layout, &device);
            let done = log.truncate_after(Some(lsn(last)));
            let is_inside = last == 6 || last == 7;
            match done {
                Err(Error::Damaged { damage, .. }) => {
                    assert!(is_inside, "{last}: {damage}");
                    let lost = damage.lost.unwrap();
                    assert_eq!((lost.from, lost.to), (lsn(6), Some(lsn(8))));
                }
                done => assert_eq!((done.unwrap(), is_inside), ((), false), "{last}"),
            }
            let end = if is_inside { 10 } else { last };
            before.records.retain(|lsn, _| *lsn <= end);
            assert_eq!(log.append(&payload_in(layout, (end + 1, 4), 30)).unwrap(), lsn(end + 1));
            log.close().unwrap();
            nothing_came_back(&before, &device.power_cut(|_| false), end + 1);
        }
    }
}

/// Found by review: an empty newest segment was replaced by one that followed the segment before
/// the lost one.
#[test]
fn log_with_an_empty_segment_after_a_gap_continues_after_it() {
    for layout in layouts() {
        for kept in 6..=8 {
            let damaged = with_second_lost(layout, &[(0, 10), (5, 4), (kept, 0)]);
            let before = read(&damaged, true).unwrap();
            let lost = judge(&damaged).unwrap().damage;
            let mut device = damaged.kill();
            for count in 1..=3 {
                let log = salvaging(layout, &device);
                let next = log.append(&payload_in(layout, (kept + count, 4), 30)).unwrap();
                assert_eq!(next, lsn(kept + count));
                log.close().unwrap();
                device = device.power_cut(|_| false);
                assert_eq!(judge(&device).unwrap().damage, lost);
                nothing_came_back(&before, &device, kept + count);
            }
        }
    }
}

/// After a failed sync of the directory, only the page cache may have the name of a segment that no
/// seal names. Damage elsewhere does not change that.
#[test]
fn unnamed_segment_of_a_damaged_log_is_carried() {
    let device = MemStorage::new();
    let log = open(&tiny(1), &device).unwrap();
    for number in 1..=16 {
        log.append(&payload(number, 1, 200)).unwrap();
    }
    log.close().unwrap();
    let damaged = device.power_cut(|_| false);
    let segments: Vec<_> =
        damaged.names().into_iter().filter(|name| name.starts_with('0')).collect();
    let [first, .., before, newest] = segments.as_slice() else { panic!("{segments:?}") };
    let (_, batches) = batches(&damaged, first);
    damaged.edit(first, |bytes| bytes[batches[0].1 - 20] ^= 1);
    damaged.edit(before, |bytes| bytes[3 * 512..4 * 512].fill(0));
    let lost = judge(&damaged).unwrap().damage;
    let kept = read(&damaged, true).unwrap();
    let left = damaged.kill();
    let log = open(&again(2).mode(OpenMode::Salvage), &left).unwrap();
    assert_eq!(log.append(b"after").unwrap(), lsn(17));
    log.close().unwrap();
    assert!(!left.names().contains(newest), "{:?}", left.names());
    let left = left.power_cut(|_| false);
    assert_eq!(judge(&left).unwrap().damage, lost);
    nothing_came_back(&kept, &left, 17);
}

/// A killed log of eight records in one segment. Changes the byte `back` before the second byte of
/// padding after record `damaged`.
fn killed_and_damaged((level, layout): Kind, (damaged, back): (u64, usize)) -> MemStorage {
    let device = MemStorage::new();
    let log = open(&roomy(1, layout).level(level), &device).unwrap();
    let is_data = |name: &String| name.starts_with('0') && !name.contains(".head");
    let mut at = None;
    for number in 1..=8 {
        log.append(&payload_in(layout, (number, 1), 197)).unwrap();
        log.flush().unwrap();
        let name = device.names().into_iter().rfind(is_data).unwrap();
        let bytes = device.bytes(&name).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        at = at.or_else(|| (number == damaged).then_some((name, end + 2 - back)));
    }
    let killed = device.kill();
    drop(log);
    let (name, at) = at.unwrap();
    killed.edit(&name, |bytes| {
        let at = at.min(bytes.len() - 1);
        bytes[at] ^= 1;
    });
    killed
}

/// Only `live` tells of a lost end until a new segment begins after it.
#[test]
fn killed_salvage_open_still_reports_the_lost_end() {
    for layout in layouts() {
        let damaged = killed_and_damaged((Level::Synced, layout), (8, 20));
        let lost = |device: &MemStorage| judge(device).unwrap().damage[0].lost.unwrap();
        assert_eq!(lost(&damaged).from, lsn(8));
        let whole = damaged.kill();
        drop(salvaging(layout, &whole));
        for stop in 0..=whole.steps() {
            let stopped = damaged.kill();
            stopped.stop_after(stop);
            drop(open(&roomy(2, layout).mode(OpenMode::Salvage), &stopped));
            let killed = stopped.kill();
            assert!(names(&lost(&killed), 8), "{layout:?}, step {stop}: {:?}", judge(&killed));
            let refused = open(&roomy(3, layout), &killed.kill());
            assert!(matches!(refused, Err(Error::Damaged { .. })), "{layout:?}, step {stop}");
            let log = salvaging(layout, &killed);
            let next = log.append(&payload_in(layout, (9, 1), 30)).unwrap();
            assert_eq!(next, lsn(9), "{layout:?}, step {stop}");
        }
    }
}

/// The records after the last confirmed one are carried to a new segment, but the lost ones among

#[test]
fn salvage_open_keeps_or_reports_every_record() {
    let mut correctable = 0;
    let places = [1, 20, 212, 218, 224, 230, 236, 242, 248];
    for (kind, back) in KINDS.into_iter().flat_map(|kind| places.map(|back| (kind, back))) {
        for damaged in 1..=8 {
            let device = killed_and_damaged(kind, (damaged, back));
            let before = read(&device, true).unwrap();
            let verdict = judge(&device).unwrap().verdict;
            correctable += u64::from(verdict == Verdict::Correctable);
            let is_lost = matches!(verdict, Verdict::Lost | Verdict::Correctable);
            assert!(is_lost || damaged == 8, "{kind:?}, record {damaged}");
            for count in 0..=2 {
                let left = device.kill();
                let log = salvaging(kind.1, &left);
                for next in 9..9 + count * u64::from(is_lost) {
                    let number = log.append(&payload_in(kind.1, (next, 2), 100)).unwrap();
                    assert_eq!(number, lsn(next), "{kind:?}, record {damaged}");
                    log.flush().unwrap();
                }
                let end = if is_lost { 8 + count } else { before.end().unwrap() };
                drop(log);
                nothing_came_back(&before, &left.power_cut(|_| false), end);
                nothing_came_back(&before, &left.kill(), end);
            }
        }
    }
    assert!(correctable > 0);
}
