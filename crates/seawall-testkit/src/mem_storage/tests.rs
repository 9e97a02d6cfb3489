//! Tests of the simulated device: what a crash may leave, and what it must not leave.

use super::*;
use crate::mem_storage::pending::What;
use seawall_io::{Access, File, Recycled, Storage};

const SECTOR: u64 = 4;

/// Creates a device with sectors of four bytes and a durable file `f` that contains `bytes`.
fn device_with(bytes: &[u8]) -> (MemStorage, Arc<dyn File>) {
    let device = MemStorage::with_sector(usize::try_from(SECTOR).unwrap());
    let file = device.create("f").unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    device.sync_dir().unwrap();
    assert!(device.pending().is_empty());
    (device, file)
}

fn item(file: &str, what: What) -> Pending {
    Pending { file: file.to_owned(), what }
}

fn found(device: &MemStorage) -> Vec<u8> {
    device.bytes("f").unwrap()
}

#[test]
fn unsynced_sector_is_kept_or_lost_by_choice() {
    let (device, file) = device_with(b"aaaabbbb");
    file.write_at(b"ZZZZ", 2).unwrap();
    let pending = [item("f", What::Sector(0)), item("f", What::Sector(1))];
    assert_eq!(device.pending(), pending);
    assert_eq!(found(&device), b"aaZZZZbb");
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaabbbb");
    assert_eq!(found(&device.power_cut(|item| item.what == What::Sector(0))), b"aaZZbbbb");
    assert_eq!(found(&device.power_cut(|item| item.what == What::Sector(1))), b"aaaaZZbb");
    assert_eq!(found(&device.power_cut(|_| true)), b"aaZZZZbb");
}

#[test]
fn synced_sector_survives() {
    let (device, file) = device_with(b"aaaa");
    file.write_at(b"bbbbcc", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(found(&device.power_cut(|_| false)), b"bbbbcc");
}

#[test]
fn older_image_of_a_sector_may_reach_the_disk_without_the_newer() {
    let (device, file) = device_with(b"aaaa");
    file.write_at(b"b", 0).unwrap();
    file.write_at(b"c", 1).unwrap();
    let mut choice = [true, false].into_iter();
    assert_eq!(found(&device.power_cut(|_| choice.next().unwrap())), b"baaa");
    assert_eq!(found(&device.power_cut(|_| true)), b"bcaa");
}

#[test]
fn bytes_equal_to_the_disk_are_not_pending() {
    let (device, file) = device_with(b"aaaa");
    file.write_at(b"aa", 1).unwrap();
    assert!(device.pending().is_empty());
    file.write_at(b"b", 0).unwrap();
    file.write_at(b"a", 0).unwrap();
    assert_eq!(device.pending().len(), 2, "the second change is pending too");
    file.sync().unwrap();
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaa");
}

#[test]
fn truncated_file_rewritten_with_the_same_bytes_survives_after_sync() {
    let (device, file) = device_with(b"aaaa");
    file.set_len(0).unwrap();
    file.write_at(b"aaaa", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaa");
}

#[test]
fn length_is_a_separate_pending_item() {
    let (device, file) = device_with(b"aaaa");
    file.write_at(b"bb", 4).unwrap();
    assert_eq!(device.pending(), [item("f", What::Sector(1)), item("f", What::Length(6))]);
    let grown = device.power_cut(|item| item.what == What::Length(6));
    assert_eq!(found(&grown), b"aaaa\0\0");
    file.sync().unwrap();
    file.set_len(2).unwrap();
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaabb");
    assert_eq!(found(&device.power_cut(|_| true)), b"aa");
}

#[test]
fn zero_filling_is_pending_as_a_length_only() {
    let (device, _) = device_with(b"");
    let zeros = device.create("zeros").unwrap();
    device.sync_dir().unwrap();
    zeros.fill_with_zeros(9).unwrap();
    assert_eq!(device.pending(), [item("zeros", What::Length(9))]);
    assert_eq!(device.bytes("zeros").unwrap(), [0; 9]);
    let refused = zeros.fill_with_zeros(10).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn synced_file_without_a_durable_name_is_lost() {
    let device = MemStorage::new();
    let file = device.create("new").unwrap();
    file.write_at(b"bytes", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(device.pending(), [item("new", What::Directory)]);
    assert!(device.power_cut(|_| false).names().is_empty());
    device.sync_dir().unwrap();
    assert_eq!(device.power_cut(|_| false).bytes("new").unwrap(), b"bytes");
}

#[test]
fn rename_is_lost_or_complete_until_the_directory_is_synced() {
    let (device, _) = device_with(b"new");
    device.create("g").unwrap();
    device.sync_dir().unwrap();
    device.rename("f", "g").unwrap();
    assert_eq!(device.pending(), [item("g", What::Directory)]);
    assert_eq!(device.power_cut(|_| false).names(), ["f", "g"]);
    assert_eq!(device.power_cut(|_| false).bytes("g").unwrap(), b"");
    assert_eq!(device.power_cut(|_| true).names(), ["g"]);
    device.sync_dir().unwrap();
    assert_eq!(device.power_cut(|_| false).bytes("g").unwrap(), b"new");
}

#[test]
fn rename_after_a_lost_creation_does_nothing() {
    let (device, _) = device_with(b"old");
    device.remove("f").unwrap();
    device.create("f").unwrap();
    device.rename("f", "g").unwrap();
    let mut choice = [false, false, true].into_iter();
    let after = device.power_cut(|_| choice.next().unwrap());
    assert_eq!(after.names(), ["f"]);
    assert_eq!(found(&after), b"old");
}

#[test]
fn removed_file_may_reappear_until_the_directory_is_synced() {
    let (device, file) = device_with(b"aaaa");
    device.remove("f").unwrap();
    let mut bytes = [0; 4];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 4, "an open handle keeps the content");
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaa");
    device.sync_dir().unwrap();
    assert!(device.power_cut(|_| false).names().is_empty());
}

#[test]
fn directory_sync_covers_only_its_own_directory() {
    let device = MemStorage::new();
    let folder = device.folder("q").unwrap();
    device.create("outside").unwrap();
    folder.create("inside").unwrap();
    folder.sync_dir().unwrap();
    assert_eq!(device.pending(), [item("outside", What::Directory)]);
    assert_eq!(device.power_cut(|_| false).names(), ["q/inside"]);
    assert_eq!(folder.list().unwrap(), ["inside"]);
    assert_eq!(device.list().unwrap(), ["outside"]);
}

#[test]
fn after_a_failed_sync_the_cache_shows_what_the_disk_lacks() {
    let (device, file) = device_with(b"aaaabbbb");
    device.fail_sync(1, |item| item.what == What::Sector(1));
    device.sync_dir().unwrap();
    file.write_at(b"ZZZZYYYY", 0).unwrap();
    let error = file.sync().unwrap_err();
    assert!(error.to_string().starts_with("cannot sync memory/f: "), "{error}");
    assert_eq!(found(&device), b"ZZZZYYYY");
    assert!(device.pending().is_empty());
    file.sync().unwrap();
    assert_eq!(found(&device.power_cut(|_| true)), b"aaaaYYYY");
}

#[test]
fn failed_directory_sync_drops_the_names() {
    let (device, _) = device_with(b"");
    device.fail_sync(0, |_| false);
    device.rename("f", "g").unwrap();
    device.sync_dir().unwrap_err();
    device.sync_dir().unwrap();
    assert_eq!(device.names(), ["g"]);
    assert_eq!(device.power_cut(|_| true).names(), ["f"]);
}

#[test]
fn two_planned_failures_fail_two_syncs() {
    let (device, file) = device_with(b"");
    device.fail_sync(0, |_| true);
    device.fail_sync(2, |_| true);
    let before = (device.steps(), device.syncs().len());
    let results = [(); 4].map(|()| file.sync().is_ok());
    assert_eq!(results, [false, true, false, true]);
    assert_eq!(device.syncs()[before.1..], [1, 2, 3, 4].map(|count| before.0 + count));
}

#[test]
fn kill_keeps_the_cache_pending_items_and_boot_but_no_lock() {
    let (device, file) = device_with(b"aaaa");
    let held = device.lock("lock").unwrap().unwrap();
    file.write_at(b"b", 0).unwrap();
    let killed = device.kill();
    assert_eq!(found(&killed), b"baaa");
    assert_eq!(killed.pending(), device.pending());
    assert_eq!((killed.boot_id(), killed.steps()), (device.boot_id(), 0));
    assert!(!killed.is_locked("lock").unwrap());
    assert!(device.is_locked("lock").unwrap());
    drop(held);
}

#[test]
fn power_cut_returns_an_independent_device_on_a_new_boot() {
    let (device, _) = device_with(b"aaaa");
    let after = device.power_cut(|_| true);
    after.open("f", Access::ReadWrite).unwrap().write_at(b"b", 0).unwrap();
    assert_eq!((found(&device), found(&after)), (b"aaaa".to_vec(), b"baaa".to_vec()));
    assert_ne!(device.boot_id(), after.boot_id());
}

#[test]
fn clone_is_a_handle_to_the_same_device() {
    let (device, file) = device_with(b"aaaa");
    let other = device.clone();
    file.write_at(b"b", 0).unwrap();
    assert_eq!(found(&other), b"baaa");
}

/// Performs each operation that counts as a step once.
fn workload(device: &MemStorage) -> io::Result<()> {
    let file = device.create("f")?;
    file.fill_with_zeros(8)?;
    file.write_at(b"ab", 0)?;
    file.sync()?;
    device.sync_dir()?;
    device.rename("f", "g")?;
    file.set_len(1)?;
    device.folder("q")?.create("inside")?;
    device.remove("g")
}

#[test]
fn power_is_off_from_the_chosen_step_on() {
    let device = MemStorage::new();
    workload(&device).unwrap();
    let all = device.steps();
    assert_eq!(all, 10);
    for stop in 0..all {
        let (cut, whole) = (MemStorage::new(), MemStorage::new());
        cut.stop_after(stop);
        assert_eq!(workload(&cut).unwrap_err().to_string(), "the power is off");
        whole.stop_after(stop + 1);
        let _ = workload(&whole);
        assert_eq!((cut.steps(), whole.steps()), (stop, stop + 1));
        cut.list().expect_err("reads fail as well");
        cut.lock("lock").unwrap_err();
        assert!(!cut.names().contains(&"lock".to_owned()));
    }
}

#[test]
fn reads_and_locks_are_not_steps() {
    let (device, file) = device_with(b"aaaa");
    let before = device.steps();
    file.read_at(&mut [0; 2], 0).unwrap();
    file.len().unwrap();
    device.list().unwrap();
    device.lock("lock").unwrap().unwrap();
    device.is_locked("lock").unwrap();
    device.folder("q").unwrap();
    device.folder("q").unwrap();
    assert_eq!(device.steps(), before + 1, "only the new folder");
}

#[test]
fn reserved_space_can_be_used_on_a_full_disk_until_it_is_freed() {
    let device = MemStorage::new();
    device.limit(100);
    let (text, other) = (device.create("text").unwrap(), device.create("other").unwrap());
    assert!(text.reserve_space(60).unwrap());
    assert_eq!((text.len().unwrap(), device.used()), (0, 60));
    other.write_at(&[1; 40], 0).unwrap();
    text.write_at(&[2; 60], 0).unwrap();
    let full = io::ErrorKind::StorageFull;
    assert_eq!(text.write_at(&[2; 61], 0).unwrap_err().kind(), full);
    assert_eq!(text.reserve_space(61).unwrap_err().kind(), full);
    text.set_len(10).unwrap();
    assert_eq!(device.used(), 50);
    assert!(text.reserve_space(60).unwrap());
    text.set_len(10).unwrap();
    assert_eq!(
        (text.len().unwrap(), device.used()),
        (10, 50),
        "setting the same length frees it too"
    );
    device.reserve_nothing();
    assert!(!text.reserve_space(60).unwrap());
    assert_eq!(device.used(), 50);
}

#[test]
fn full_disk_refuses_growth_and_changes_nothing() {
    let (device, file) = device_with(b"aaaa");
    device.limit(6);
    let refused = [file.write_at(b"bbb", 4), file.set_len(7), file.write_at(b"", 9)];
    let kinds = refused.map(|result| result.map_err(|error| error.kind()));
    let full = Err(io::ErrorKind::StorageFull);
    assert_eq!(kinds, [full, full, Ok(())]);
    let zeros = device.create("zeros").unwrap();
    let error = zeros.fill_with_zeros(3).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!((found(&device), device.bytes("zeros").unwrap()), (b"aaaa".to_vec(), vec![]));
    assert_eq!(device.pending(), [item("zeros", What::Directory)]);
    file.write_at(b"bbbb", 2).unwrap();
    device.remove("f").unwrap();
    zeros.fill_with_zeros(6).unwrap();
}

#[test]
fn reading_unreadable_bytes_fails() {
    let (device, file) = device_with(b"aaaa");
    device.fail_read("f", 1..2);
    let error = file.read_at(&mut [0; 3], 0).unwrap_err();
    assert!(error.to_string().starts_with("cannot read memory/f: "), "{error}");
    file.read_at(&mut [0; 1], 0).unwrap();
    file.read_at(&mut [0; 2], 2).unwrap();
    file.write_at(b"b", 0).unwrap();
}

#[test]
fn writes_fail_until_they_are_permitted_again() {
    let (device, file) = device_with(b"aaaa");
    device.refuse_writes("f", true);
    let error = file.write_at(b"b", 0).unwrap_err();
    assert!(error.to_string().starts_with("cannot write memory/f: "), "{error}");
    assert_eq!(found(&device), b"aaaa");
    device.refuse_writes("f", false);
    file.write_at(b"b", 0).unwrap();
    assert_eq!(found(&device), b"baaa");
}

#[test]
fn edit_is_durable_and_final() {
    let (device, file) = device_with(b"aaaa");
    file.write_at(b"bbbb", 0).unwrap();
    device.edit("f", |bytes| bytes.truncate(2));
    file.sync().unwrap();
    assert_eq!(found(&device), b"bb");
    assert_eq!(found(&device.power_cut(|_| true)), b"bb");
}

#[test]
fn raw_removals_and_copies_are_durable_at_once() {
    let (device, _) = device_with(b"old");
    device.create("g").unwrap();
    device.copy_raw("f", "g");
    device.remove_raw("f");
    let after = device.power_cut(|_| true);
    assert_eq!(after.names(), ["g"]);
    assert_eq!(after.bytes("g").unwrap(), b"old");
}

#[test]
fn spoiled_sync_corrupts_the_whole_block_on_the_disk_only() {
    let storage = MemStorage::new();
    let file = storage.create("a").unwrap();
    file.write_at(&[1; 2048], 0).unwrap();
    file.sync().unwrap();
    storage.sync_dir().unwrap();
    storage.spoil_sync(0, 1024);
    file.write_at(&[2; 10], 600).unwrap();
    assert!(file.sync().is_err());
    assert_eq!(storage.bytes("a").unwrap()[600..610], [2; 10], "the cache shows what was written");
    let after = storage.power_cut(|_| true).bytes("a").unwrap();
    assert!(after[..1024].iter().all(|byte| *byte != 1 && *byte != 2));
    assert!(after[1024..].iter().all(|byte| *byte == 1));
}

#[test]
fn power_cut_can_corrupt_a_whole_block_whatever_was_written_in_it() {
    for sectors in 1..=2 {
        let (device, file) = device_with(b"aaaabbbbccccdddd");
        file.write_at(&b"ZZZZZZZZ"[..4 * sectors], 0).unwrap();
        let after = found(&device.power_cut(|_| CrashOutcome::Garbled(8)));
        assert!(after[..8].iter().all(|byte| !b"abZ".contains(byte)), "{after:?}");
        assert_eq!(after[8..], *b"ccccdddd");
    }
}

#[test]
fn sector_can_be_torn_at_any_byte() {
    let (device, file) = device_with(b"aaaabbbb");
    file.write_at(b"ZZZZ", 4).unwrap();
    assert_eq!(found(&device.power_cut(|_| CrashOutcome::First(1))), b"aaaaZbbb");
    assert_eq!(found(&device.power_cut(|_| CrashOutcome::Behind(1))), b"aaaabZZZ");
    file.write_at(b"cc", 8).unwrap();
    assert_eq!(found(&device.power_cut(|_| CrashOutcome::First(1))), b"aaaaZbbbc\0");
}

#[test]
fn lost_writes_stay_visible_in_the_cache_until_evicted() {
    let (device, file) = device_with(b"aaaabbbb");
    file.write_at(b"ZZZZZZZZ", 0).unwrap();
    device.lie_at_sync(0, |item| item.what == What::Sector(1));
    file.sync().unwrap();
    assert!(device.pending().is_empty());
    assert_eq!(found(&device), b"ZZZZZZZZ");
    assert_eq!(found(&device.power_cut(|_| false)), b"aaaaZZZZ");
    file.write_at(b"c", 4).unwrap();
    device.evict();
    assert_eq!(found(&device), b"aaaacZZZ", "pending changes stay");
}

#[test]
fn misdirected_sector_overwrites_another() {
    let (device, file) = device_with(b"aaaabbbb");
    file.write_at(b"ZZZZ", 0).unwrap();
    let astray = |file: &str, sector| CrashOutcome::Astray { file: file.to_owned(), sector };
    let cut = |fate: &CrashOutcome| found(&device.power_cut(|_| fate.clone()));
    assert_eq!(cut(&astray("f", 1)), b"aaaaZZZZ");
    assert_eq!(cut(&astray("f", 2)), b"aaaabbbb", "there is no such sector");
    assert_eq!(cut(&astray("g", 0)), b"aaaabbbb", "there is no such file");
}

#[test]
fn edit_of_the_disk_is_visible_after_the_cache_is_evicted() {
    let (device, file) = device_with(b"aaaa");
    device.edit_disk("f", |bytes| bytes[3] = b'!');
    assert_eq!(found(&device), b"aaaa");
    assert_eq!(found(&device.power_cut(|_| false)), b"aaa!");
    file.write_at(b"bb", 0).unwrap();
    assert_eq!(found(&device.power_cut(|_| true)), b"bbaa", "a sector is written whole");
    device.evict();
    assert_eq!(found(&device), b"bbaa");
}

#[test]
fn retire_returns_a_file_without_readers_and_its_name_can_be_reused() {
    let (device, file) = device_with(b"aaaabbbb");
    let readers = [0, 1].map(|_| device.open("f", Access::Read).unwrap());
    assert!(device.retire("f").unwrap().is_none());
    drop(readers);
    let device = device.power_cut(|_| false);
    let readers = [0, 1].map(|_| device.open("f", Access::Read).unwrap());
    let [one, other] = readers;
    drop(one);
    let cut = device.power_cut(|_| false);
    let rest = cut.retire("f").unwrap().expect("the file has no readers");
    rest.set_len(4).unwrap();
    assert!(cut.bytes("f").is_none());
    // The removal and the truncation are separate pending items.
    let lands = |what: fn(What) -> bool| found(&cut.power_cut(|item| what(item.what)));
    assert_eq!(lands(|_| false), b"aaaabbbb");
    assert_eq!(lands(|what| what == What::Length(4)), b"aaaa");
    assert!(device.retire("f").unwrap().is_none(), "another name is left");
    drop(other);
    assert_eq!(file.len().unwrap(), 8);
}

#[test]
fn detached_device_loses_unsynced_changes_on_the_same_boot() {
    let (device, file) = device_with(b"aaaabbbb");
    file.write_at(b"ZZZZ", 2).unwrap();
    device.create("unnamed").unwrap();
    let lock = device.lock("lock").unwrap().unwrap();
    let after = device.detach(|item| item.what == What::Sector(0));
    assert_eq!(found(&after), b"aaZZbbbb");
    assert_eq!(after.names(), ["f", "lock"]);
    assert_eq!(after.boot_id(), device.boot_id());
    assert!(after.pending().is_empty());
    assert!(!after.is_locked("lock").unwrap(), "the holder has ended");
    drop(lock);
    assert_ne!(device.power_cut(|_| true).boot_id(), device.boot_id());
    assert_eq!(
        after.detach(|_| false).power_cut(|_| false).boot_id(),
        device.power_cut(|_| true).boot_id()
    );
}

#[test]
fn copy_on_write_overwrite_needs_space_until_it_is_synced() {
    let (device, file) = device_with(b"aaaabbbbcccc");
    device.limit(12);
    file.write_at(b"X", 0).unwrap();
    file.sync().unwrap();
    device.copy_on_write();
    let refused = file.write_at(b"Y", 0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    device.limit(12 + SECTOR);
    file.write_at(b"Y", 0).unwrap();
    file.write_at(b"Z", 1).unwrap();
    let refused = file.write_at(b"Y", 4).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "the old place is not free yet");
    file.sync().unwrap();
    file.write_at(b"Y", 4).unwrap();
    assert_eq!(found(&device), b"YZaaYbbbcccc");
}

#[test]
fn recycled_file_gets_its_old_name_back_if_the_rename_is_lost() {
    let (device, _) = device_with(b"aaaabbbb");
    let Recycled::Renamed(file) = device.recycle("f", "spare").unwrap() else {
        panic!("the file has no readers");
    };
    file.write_at(b"ZZZZ", 0).unwrap();
    assert_eq!(device.names(), ["spare"]);
    let pending = [item("spare", What::Directory), item("spare", What::Sector(0))];
    assert_eq!(device.pending(), pending);
    let undone = device.power_cut(|item| item.what != What::Directory);
    assert_eq!((undone.names(), found(&undone)), (vec!["f".to_owned()], b"ZZZZbbbb".to_vec()));
    device.sync_dir().unwrap();
    let after = device.power_cut(|_| false);
    assert_eq!(after.names(), ["spare"]);
    assert_eq!(after.bytes("spare").unwrap(), b"aaaabbbb");
}

#[test]
fn file_with_a_reader_or_on_a_copying_device_is_not_recycled() {
    let (device, _) = device_with(b"aaaa");
    let reader = device.open("f", Access::Read).unwrap();
    let recycled = device.recycle("f", "spare").unwrap();
    assert!(matches!(recycled, Recycled::Removed(None)), "{recycled:?}");
    let mut bytes = [0; 4];
    assert_eq!((reader.read_at(&mut bytes, 0).unwrap(), &bytes), (4, b"aaaa"));
    assert!(device.names().is_empty());
    // A power cut can lose both changes, or only the removal of the new name.
    assert_eq!(device.power_cut(|_| false).names(), ["f"]);
    let mut lands = [true, false].into_iter();
    assert_eq!(device.power_cut(|_| lands.next().unwrap()).names(), ["spare"]);

    let (device, _) = device_with(b"aaaa");
    device.copy_on_write();
    let Recycled::Removed(Some(rest)) = device.recycle("f", "spare").unwrap() else {
        panic!("an overwrite needs space");
    };
    rest.set_len(0).unwrap();
    assert!(device.names().is_empty());
}

#[test]
fn uncached_read_shows_what_a_failed_sync_left_on_the_disk() {
    let (device, file) = device_with(b"aaaabbbb");
    let uncached = || {
        let mut bytes = [b'-'; 16];
        let count = file.read_uncached(&mut bytes, 0).unwrap();
        bytes[..count].to_vec()
    };
    file.write_at(b"ZZZZZZZZcc", 0).unwrap();
    assert_eq!(uncached(), b"ZZZZZZZZcc", "unsynced changes reach the device first");
    assert_eq!(device.pending().len(), 4);
    device.fail_sync(0, |item| item.what == What::Sector(1));
    file.sync().unwrap_err();
    assert_eq!(found(&device), b"ZZZZZZZZcc");
    assert_eq!(uncached(), b"aaaaZZZZ\0\0", "the length is known");
    file.write_at(b"Y", 0).unwrap();
    assert_eq!(uncached(), b"YZZZZZZZ\0\0", "a sector is written whole");
    let mut part = [0; 3];
    assert_eq!((file.read_uncached(&mut part, 6).unwrap(), &part), (3, b"ZZ\0"));
    assert_eq!(file.read_uncached(&mut part, 10).unwrap(), 0);
    device.fail_read("f", 9..10);
    file.read_uncached(&mut part, 7).unwrap_err();
}
