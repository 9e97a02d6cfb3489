//! Planned faults occur, and are reproducible.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use seawall_io::{Access, Recycled, Storage};
use seawall_testkit::MemStorage;
use seawall_testkit::{Decay, Dice, Fault, FaultDisk, Harm, Kind, harm};
use std::io::ErrorKind;

/// Creates a disk with a durable file `f` of four sectors.
fn disk() -> FaultDisk {
    let device = MemStorage::new();
    let file = device.create("f").unwrap();
    let bytes: Vec<u8> = (0..2048_u32).map(|at| at.to_le_bytes()[1] + 1).collect();
    file.write_at(&bytes, 0).unwrap();
    file.sync().unwrap();
    device.sync_dir().unwrap();
    FaultDisk::new(device)
}

fn fault(kind: Kind) -> Fault {
    Fault { kind, seed: 5 }
}

/// Opens the file, plans a fault for the next matching call, and returns the result of `act`.
fn with<T>(kind: Kind, act: impl FnOnce(&FaultDisk, &dyn seawall_io::File) -> T) -> T {
    let disk = disk();
    let file = disk.open("f", Access::ReadWrite).unwrap();
    disk.plan(0, fault(kind));
    act(&disk, &*file)
}

fn read(file: &dyn seawall_io::File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 2048];
    file.read_at(&mut bytes, 0).map(|_| bytes)
}

#[test]
fn error_occurs_once_and_lasting_error_stays() {
    with(Kind::ReadError, |_, file| {
        read(file).unwrap_err();
        read(file).unwrap();
    });
    with(Kind::LastingError, |disk, file| {
        read(file).unwrap_err();
        read(file).unwrap_err();
        file.write_at(&[0], 0).unwrap_err();
        read(&*disk.open("f", Access::Read).unwrap()).unwrap_err();
    });
}

#[test]
fn failed_write_may_be_partly_done() {
    with(Kind::WriteError, |disk, file| {
        assert!(file.write_at(&[0xEE; 2048], 0).is_err());
        let done = disk.device().bytes("f").unwrap();
        let part = done.iter().take_while(|byte| **byte == 0xEE).count();
        assert!(part > 0 && part < 2048 && !done[part..].contains(&0xEE), "{part}");
    });
}

/// Whether or not the rename happened, the new name is not durable.
#[test]
fn failed_recycling_may_have_renamed_the_file() {
    let names_after = |seed| {
        let disk = disk();
        disk.plan(0, Fault { kind: Kind::WriteError, seed });
        disk.recycle("f", "spare").unwrap_err();
        assert_eq!(disk.device().power_cut(|_| false).names(), ["f"]);
        disk.device().names().join(" ")
    };
    let mut seen: Vec<String> = (0..16).map(names_after).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["f", "spare"]);
}

#[test]
fn recycled_file_has_faults_under_its_new_name() {
    let disk = disk();
    disk.plan_for(0, fault(Kind::LastingError), |name| name == "spare");
    let Recycled::Renamed(file) = disk.recycle("f", "spare").unwrap() else {
        panic!("the file has no readers");
    };
    file.write_at(&[0], 0).unwrap_err();
    assert_eq!(disk.injected()[0].file, "spare");
    assert_eq!(disk.steps(), 2);
    disk.plan(0, fault(Kind::ReadError));
    disk.create("other").unwrap().write_at(&[7; 512], 0).unwrap();
    let reader = disk.open("other", Access::Read).unwrap();
    reader.read_uncached(&mut [0; 512], 0).unwrap_err();
    let recycled = disk.recycle("other", "another").unwrap();
    assert!(matches!(recycled, Recycled::Removed(None)), "{recycled:?}");
}

#[test]
fn failed_sync_drops_changes_that_the_cache_shows() {
    with(Kind::FailedSync, |disk, file| {
        file.write_at(&[0xEE; 2048], 0).unwrap();
        file.sync().unwrap_err();
        assert!(disk.device().pending().is_empty());
        assert!(disk.device().power_cut(|_| true).bytes("f") != disk.device().bytes("f"));
    });
}

#[test]
fn sync_that_loses_writes_succeeds() {
    for kind in [Kind::LostWrite, Kind::MisdirectedWrite] {
        with(kind, |disk, file| {
            file.write_at(&[0xEE; 2048], 0).unwrap();
            file.sync().unwrap();
            assert!(read(file).unwrap() == [0xEE; 2048]);
            let after = disk.device().power_cut(|_| true);
            assert!(after.bytes("f").unwrap() != [0xEE; 2048], "{kind:?}");
        });
    }
}

#[test]
fn faulty_read_is_correct_the_next_time() {
    for kind in [Kind::FlippedRead, Kind::MisdirectedRead] {
        with(kind, |disk, file| {
            let wrong = read(file).unwrap();
            let right = read(file).unwrap();
            assert!(wrong != right, "{kind:?}");
            assert!(Some(right) == disk.device().bytes("f"));
        });
    }
}

#[test]
fn full_disk_refuses_only_growth_for_some_time() {
    with(Kind::Full, |_, file| {
        assert_eq!(file.len().unwrap(), 2048);
        assert_eq!(file.write_at(&[1], 2048).unwrap_err().kind(), ErrorKind::StorageFull);
        file.write_at(&[1], 2047).unwrap();
        assert!((0..50).any(|_| file.write_at(&[1], 2048).is_ok()), "the disk has space again");
    });
}

#[test]
fn reserved_space_can_be_used_on_a_full_disk() {
    with(Kind::Full, |disk, file| {
        assert_eq!(file.reserve_space(4096).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!((0..50).any(|_| file.reserve_space(4096).is_ok()), "the disk has space again");
        disk.plan(disk.steps(), fault(Kind::Full));
        assert_eq!(file.write_at(&[1], 4096).unwrap_err().kind(), ErrorKind::StorageFull);
        file.write_at(&[1; 2048], 2048).unwrap();
    });
}

#[test]
fn full_copy_on_write_disk_refuses_overwrites_for_some_time() {
    with(Kind::FullCopying, |_, file| {
        assert_eq!(file.write_at(&[1], 0).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(file.len().unwrap(), 2048);
        assert!((0..50).any(|_| file.write_at(&[1], 0).is_ok()), "the disk has space again");
    });
}

#[test]
fn steps_are_counted_until_the_power_is_off() {
    let disk = disk();
    disk.stop_after(2);
    disk.list().unwrap();
    assert!(!disk.is_stopped());
    disk.open("f", Access::Read).unwrap();
    assert!(disk.is_stopped() && disk.list().is_err() && disk.steps() == 2);
}

#[test]
fn same_seed_gives_the_same_faults() {
    let run = |seed| {
        let disk = disk();
        disk.draw(seed, 4, &Kind::ALL);
        let file = disk.open("f", Access::ReadWrite).unwrap();
        let mut dice = Dice::new(5);
        for _ in 0..200 {
            let _ = file.write_at(&[1; 100], dice.below(4000));
            let _ = (read(&*file), file.sync());
        }
        (disk.trace(), disk.injected())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert!(run(1).1.len() > 20, "{:?}", run(1).1);
}

#[test]
fn faults_and_harms_are_parsed_from_their_text() {
    for kind in Kind::ALL {
        assert_eq!(fault(kind).to_string().parse(), Ok(fault(kind)));
    }
    for decay in Decay::ALL {
        let how = Harm { decay, reach: 512, seed: 0x1F };
        assert_eq!(how.to_string().parse(), Ok(how));
    }
}

#[test]
fn harm_changes_one_run_of_one_file() {
    let earlier = disk().device().kill();
    earlier.edit("f", |bytes| bytes.fill(0xEE));
    let mut seen = 0;
    for (decay, seed) in Decay::ALL.into_iter().flat_map(|d| (0..20).map(move |seed| (d, seed))) {
        let device = disk().device().kill();
        device.copy_raw("f", "g");
        device.edit("g", |bytes| bytes.fill(0xDD));
        let before = [device.bytes("f").unwrap(), device.bytes("g").unwrap()];
        let how = Harm { decay, reach: 512, seed };
        let Some(harmed) = harm(&device, &earlier, how, |_| true) else { continue };
        for (name, before) in ["f", "g"].into_iter().zip(before) {
            let after = device.bytes(name).unwrap_or_default();
            let changed = (0..2048).filter(|at| after.get(*at) != before.get(*at));
            let inside = |at: usize| name == harmed.file && harmed.bytes.contains(&at);
            assert!(changed.clone().all(inside), "{how}: {harmed:?}");
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}
