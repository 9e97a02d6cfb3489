//! Parity does not bring back truncated records.

use super::*;

/// The image: a log was truncated after `last` and continued with these records. The seal that
/// names the segment of the truncation is lost; the truncated records are still in the segment
/// before it. Also returns the names of the two files with their headers.
fn cut_with_lost_seal(
    layout: Layout,
    last: Option<Lsn>,
    records: &[Vec<u8>],
) -> (MemStorage, [String; 2]) {
    let device = MemStorage::new();
    let log = open(&with_parity(1, layout), &device).unwrap();
    append(&log, layout, 1..=4);
    log.truncate_after(last).unwrap();
    for record in records {
        log.append(record).unwrap();
    }
    log.close().unwrap();
    let is_head = |name: &String| matches!(name.rsplit_once('.'), Some((_, "seg" | "head")));
    let heads: Vec<_> = device.names().into_iter().filter(is_head).collect();
    let heads: [String; 2] = heads.try_into().unwrap();
    spoil(&device, &heads[0], 3 * BLOCK..4 * BLOCK, "zeros");
    (device, heads)
}

/// The header of the segment that the truncation created is lost too.
#[test]
fn truncated_records_are_not_shown_if_parity_has_the_new_header() {
    for layout in LAYOUTS {
        let records: Vec<_> = (1..=2).map(|lsn| payload_in(layout, (lsn, 2), 50)).collect();
        let (device, [_, newest]) = cut_with_lost_seal(layout, None, &records);
        let records = (1..).zip(records).collect();
        assert_whole(&device.kill(), layout, &records, "without a seal");
        for how in ["zeros", "garbage", "bit"] {
            let harmed = device.kill();
            spoil(&harmed, &newest, 0..BLOCK, how);
            // Flips a bit that has a meaning.
            spoil(&harmed, &newest, 40..48, "bit");
            let what = format!("{layout:?} {how}");
            assert_whole(&harmed, layout, &records, &what);
            let mends: [fn(&MemStorage) -> MemStorage; 3] = [salvaged, cut, mended];
            for (number, mend) in mends.into_iter().enumerate() {
                assert_whole(&mend(&harmed.kill()), layout, &records, &format!("{what} {number}"));
            }
        }
    }
}

/// A record before the truncation is lost too, and has no parity. The truncation is still detected.
#[test]
fn truncated_records_are_not_counted_next_to_a_lost_one() {
    for layout in LAYOUTS {
        let record = payload_in(layout, (2, 2), 50);
        let only = std::slice::from_ref(&record);
        let (device, [before, newest]) = cut_with_lost_seal(layout, Some(lsn(1)), only);
        device.remove_raw(&format!("{}.parity", before.split_once('.').unwrap().0));
        spoil(&device, &newest, 0..BLOCK, "garbage");
        let (data, start) = data_files_of(&device).remove(0);
        spoil(&device, &data, start + 60..start + 70, "garbage");
        let found = judge(&device).unwrap();
        let lost: Vec<_> = found.damage.iter().filter_map(|damage| damage.lost).collect();
        assert_eq!(lost, [Lost::new(lsn(1), Some(lsn(1)))], "{layout:?}: {found:?}");
        assert_eq!((found.records, found.last_lsn), (1, Some(lsn(2))), "{layout:?}: {found:?}");
        let target = MemStorage::new();
        common::maintenance(&shared(&device)).salvage_to(shared(&target)).unwrap();
        let rescued = read(&target, false).unwrap().records;
        assert_eq!(rescued, BTreeMap::from([(2, record)]), "{layout:?}");
    }
}
