//! `crash_test` accepts a correct store, finds the bug in an incorrect one, and replays the failure
//! from its text.

#[allow(dead_code, unreachable_pub, missing_docs, reason = "the example is included unchanged")]
#[path = "../examples/kv_store_bug.rs"]
mod kv_store;

use kv_store::{Compaction, try_every_crash};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use seawall_testkit::{Case, CrashTest, Left, crash_test};
use std::io;
use std::sync::Arc;

#[test]
fn correct_store_survives_every_crash() {
    let tried = try_every_crash(Compaction::AtOnce).unwrap();
    assert!(tried.states > 100 && tried.second > 100, "{tried:?}");
}

#[test]
fn bug_in_the_recovery_is_found() {
    let failure = try_every_crash(Compaction::OneByOne).unwrap_err();
    assert!(failure.to_string().contains("is lost"), "{failure}");
    let case = failure.case.unwrap();
    assert_eq!(case.to_string().parse::<Case>(), Ok(case));
}

/// A program that overwrites its only copy. It loses data only if its recovery crashes.
fn overwrite(disk: &Arc<dyn Storage>) -> io::Result<()> {
    let file = disk.open("state", seawall_io::Access::ReadWrite)?;
    file.write_at(&[0; 512], 0)?;
    file.sync()?;
    file.write_at(&[7; 512], 0)?;
    file.sync()
}

fn first_byte(disk: &Arc<dyn Storage>) -> io::Result<u8> {
    let mut byte = [0];
    disk.open("state", seawall_io::Access::Read)?.read_at(&mut byte, 0)?;
    Ok(byte[0])
}

fn create(disk: &Arc<dyn Storage>) -> io::Result<()> {
    let file = disk.create("state")?;
    file.write_at(&[7; 512], 0)?;
    file.sync()?;
    disk.sync_dir()
}

#[test]
fn second_crash_during_the_recovery_is_tried_and_replayed() {
    let workload = |disk: Arc<dyn Storage>, is_there: &mut bool| {
        create(&disk)?;
        *is_there = true;
        Ok(())
    };
    let recover = |disk: Arc<dyn Storage>| {
        let found = first_byte(&disk).unwrap_or(7);
        let _ = overwrite(&disk);
        Ok::<u8, io::Error>(found)
    };
    let check = |is_there: &bool, found: &u8| match (is_there, found) {
        (true, 0) => Err("overwritten".to_owned()),
        _ => Ok(()),
    };
    let every = CrashTest::new().second(1, 8);
    let failure = every.run(workload, recover, check).unwrap_err();
    let case = failure.case.unwrap();
    assert!(case.second.is_some(), "{case}");
    let again: Case = case.to_string().parse().unwrap();
    assert_eq!(CrashTest::replay(again, workload, recover, check), Err(failure));
    CrashTest::new().second(0, 0).run(workload, recover, check).unwrap();
}

#[test]
fn failure_without_a_crash_is_reported_as_such_and_panics_are_failures() {
    let failure =
        crash_test(|_, (): &mut ()| Err(io::Error::other("no")), |_| Ok(()), |(), ()| Ok(()));
    assert_eq!(failure.unwrap_err().case, None);
    let failure = crash_test(
        |disk, (): &mut ()| create(&disk),
        |disk: Arc<dyn Storage>| {
            assert!(disk.list()?.is_empty(), "a file");
            Ok(())
        },
        |(), ()| Ok(()),
    );
    assert!(failure.unwrap_err().to_string().contains("a panic: a file"));
}

#[test]
fn panic_of_a_crashed_workload_is_a_failure_and_replayed() {
    let workload = |disk: Arc<dyn Storage>, (): &mut ()| {
        create(&disk).expect("a device never fails");
        Ok::<(), io::Error>(())
    };
    let (recover, check) = (|_: Arc<dyn Storage>| Ok(()), |(): &(), (): &()| Ok(()));
    let failure = crash_test(workload, recover, check).unwrap_err();
    assert!(failure.why.contains("crashed workload failed: a panic: a device"), "{failure}");
    let case = failure.case.unwrap();
    assert_eq!(case.second, None);
    assert_eq!(CrashTest::replay(case, workload, recover, check), Err(failure));
}

#[test]
fn panic_of_a_crashed_recovery_is_a_failure_and_replayed() {
    let workload = |disk: Arc<dyn Storage>, (): &mut ()| create(&disk);
    let recover = |disk: Arc<dyn Storage>| {
        if let Ok(file) = disk.open("state", seawall_io::Access::ReadWrite) {
            let _ = file.write_at(&[7; 512], 0);
            file.sync().expect("a device never fails");
        }
        Ok::<(), io::Error>(())
    };
    let check = |(): &(), (): &()| Ok(());
    let failure = CrashTest::new().second(1, 8).run(workload, recover, check).unwrap_err();
    assert!(failure.why.contains("crashed recovery failed: a panic: a device"), "{failure}");
    let case = failure.case.unwrap();
    assert!(case.second.is_some(), "{case}");
    assert_eq!(CrashTest::replay(case, workload, recover, check), Err(failure));
}

#[test]
fn each_choice_gives_a_different_state() {
    let device = MemStorage::new();
    device.create("a").unwrap().write_at(&[1; 1024], 0).unwrap();
    assert_eq!(device.pending().len(), 4, "two sectors, a length, a name");
    let named = Left::Cut(0b1111).of(&device);
    assert_eq!(named.bytes("a"), Some(vec![1; 1024]));
    assert_eq!(Left::Cut(0b1110).of(&device).bytes("a"), None);
    assert_eq!(seawall_testkit::cuts(4, 64, 1).len(), 16);
    assert_eq!(seawall_testkit::cuts(10, 64, 1).len(), 64);
}
