//! A file of another history of the log has taken the place of a segment: only its records are
//! lost, and none of its own is shown.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{
    Bytes, LAYOUTS, again, judge, laid_out, lsn, names, open, payload_in, read, reader, tiny,
};
use seawall::damage::Corruption;
use seawall::format::SegmentId;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Maintenance};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The log `base`, opened again with other random bits, with records up to 24.
fn continued(base: &MemStorage, layout: Layout, seed: u64) -> MemStorage {
    let device = base.kill();
    let log = open(&laid_out(again(seed), layout), &device).unwrap();
    for number in 5..=24 {
        log.append(&payload_in(layout, (number, seed), 300)).unwrap();
    }
    log.close().unwrap();
    device.power_cut(|_| true)
}

/// The files of segment `id`.
fn files_of(device: &MemStorage, id: SegmentId) -> BTreeMap<String, Vec<u8>> {
    let names =
        device.names().into_iter().filter(|name| SegmentId::from_any_name(name) == Some(id));
    names.map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

#[test]
fn segment_of_another_history_hides_no_other_segment() {
    for layout in LAYOUTS {
        let base = MemStorage::new();
        let log = open(&laid_out(tiny(1), layout), &base).unwrap();
        for number in 1..=4 {
            log.append(&payload_in(layout, (number, 1), 300)).unwrap();
        }
        log.close().unwrap();
        let (ours, other) = (continued(&base, layout, 5), continued(&base, layout, 6));
        let (records, mut replaced) = (read(&ours, false).unwrap().records, 0);
        let ids = ours.names().into_iter().filter_map(|name| SegmentId::from_file_name(&name));
        let ids: Vec<_> = ids
            .filter(|id| {
                !files_of(&base, *id).contains_key(&id.head_name())
                    && !files_of(&base, *id).contains_key(&id.file_name())
            })
            .collect();
        for id in &ids {
            let theirs = files_of(&other, *id);
            if theirs.is_empty() {
                continue;
            }
            let what = format!("segment {id} in {layout:?}");
            let device = ours.kill();
            for (name, bytes) in &theirs {
                device.edit(name, |file| file.clone_from(bytes));
            }
            let found = judge(&device).unwrap();
            let damage: Vec<_> = found.damage.iter().map(|one| (one.segment, one.cause)).collect();
            assert_eq!(damage, [(Some(*id), Corruption::SegmentReplaced)], "{what}");
            assert_eq!(found.verdict, Verdict::Lost, "{what}");
            let lost = found.damage.first().and_then(|one| one.lost).unwrap();
            let shown = read(&device, true).unwrap().records;
            let rest: BTreeMap<_, _> = records
                .clone()
                .into_iter()
                .filter(|(lsn, _)| {
                    *lsn < lost.from.get() || lost.to.is_some_and(|to| to.get() < *lsn)
                })
                .collect();
            assert!(shown == rest, "{what}: {:?}", shown.keys());
            assert_eq!(lost.to.is_none(), Some(id) == ids.last(), "{what}");
            let storage: Arc<dyn Storage> = Arc::new(device);
            let copy: Arc<dyn Storage> = Arc::new(MemStorage::new());
            let report = Maintenance::on(&storage).salvage_to(copy).unwrap();
            assert_eq!(report.records, u64::try_from(rest.len()).unwrap(), "{what}");
            replaced += 1;
        }
        assert!(replaced > 2, "{layout:?}");
    }
}

/// Appends records of life `life`.
fn append(log: &Bytes, layout: Layout, (numbers, life): (RangeInclusive<u64>, u64)) {
    for number in numbers {
        log.append(&payload_in(layout, (number, life), 20)).unwrap();
    }
}

#[test]
fn replaced_last_record_of_the_second_newest_segment_is_reported() {
    for layout in LAYOUTS {
        let base = MemStorage::new();
        let log = open(&laid_out(tiny(1), layout), &base).unwrap();
        append(&log, layout, (1..=4, 1));
        log.close().unwrap();
        let (ours, other) = (base.kill(), base.kill());
        let log = open(&laid_out(again(6), layout), &other).unwrap();
        append(&log, layout, (5..=5, 6));
        log.close().unwrap();
        let log = open(&laid_out(again(5), layout), &ours).unwrap();
        append(&log, layout, (5..=6, 5));
        log.truncate_after(Some(lsn(5))).unwrap();
        append(&log, layout, (6..=7, 5));
        log.close().unwrap();
        for (name, bytes) in files_of(&other, SegmentId::FIRST) {
            ours.edit(&name, |file| file.clone_from(&bytes));
        }
        let found = judge(&ours).unwrap();
        let lost: Vec<_> = found.damage.iter().filter_map(|damage| damage.lost).collect();
        assert_eq!((found.verdict, lost.len()), (Verdict::Lost, 1), "{layout:?}: {found:?}");
        assert!(names(&lost[0], 5), "{layout:?}: {lost:?}");
        let shown = read(&ours, true).unwrap();
        assert_eq!((&shown.lost, shown.end()), (&lost, Some(7)), "{layout:?}");
        let stopped = read(&ours, false).unwrap();
        assert_eq!((&stopped.lost, stopped.end()), (&lost, Some(5)), "{layout:?}");
        let reader = reader(Arc::new(ours.clone())).unwrap();
        let get = |number| reader.get(lsn(number));
        assert!(matches!(get(5), Err(Error::Damaged { .. })), "{layout:?}: {:?}", get(5));
        assert!([4, 6, 7].iter().all(|number| get(*number).unwrap().is_some()), "{layout:?}");
    }
}
