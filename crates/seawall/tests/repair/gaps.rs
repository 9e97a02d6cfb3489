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
