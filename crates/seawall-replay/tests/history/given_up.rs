//! A repair gave up records of the log: no transaction is applied in part, and no other one because
//! it has the same number.

use super::{Disk, lsn, open, put, reader};
use seawall::Maintenance;
use seawall_io::Access;
use seawall_replay::{Change, Error, MemoryStore, Operation, Replay, Report, Store, TxId};
use seawall_testkit::MemStorage;
use std::sync::Arc;

fn begin(tx: u64) -> Operation {
    Operation::Begin(TxId(tx))
}

fn change(tx: u64, key: &str) -> Operation {
    Operation::Change(TxId(tx), Change::put("", key, "v"))
}

fn commit(tx: u64) -> Operation {
    Operation::Commit(TxId(tx))
}

fn abort(tx: u64) -> Operation {
    Operation::Abort(TxId(tx))
}

fn plain(key: &str) -> Operation {
    Change::put("", key, "v").into()
}

/// Creates a log of these operations. Each is a batch of its own.
fn logged(operations: &[Operation]) -> Disk {
    let disk: Disk = Arc::new(MemStorage::new());
    let log = open(&disk);
    for operation in operations {
        log.append(operation).unwrap();
    }
    log.close().unwrap();
    disk
}

/// Damages the records with the LSNs `lost`, and salvages the others.
fn salvaged(disk: &Disk, operations: &[Operation], lost: &[usize]) -> Disk {
    for number in lost {
        let bytes = rmp_serde::to_vec_named(&operations[number - 1]).unwrap();
        let is_same = |other: &&Operation| **other == operations[number - 1];
        let mut before = operations[..number - 1].iter().filter(is_same).count();
        let mut names = disk.list().unwrap();
        names.retain(|name| name.contains(".seg"));
        names.sort();
        for name in names {
            let file = disk.open(&name, Access::ReadWrite).unwrap();
            let mut content = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_at(&mut content, 0).unwrap();
            let places = content.windows(bytes.len()).enumerate();
            let places: Vec<usize> =
                places.filter(|(_, found)| *found == bytes).map(|(at, _)| at).collect();
            match places.get(before) {
                Some(at) => {
                    file.write_at(b"?", u64::try_from(*at).unwrap()).unwrap();
                    break;
                }
                None => before -= places.len(),
            }
        }
    }
    let target: Disk = Arc::new(MemStorage::new());
    let salvaged = Maintenance::on(disk).salvage_to(target.clone()).unwrap();
    let found =
        salvaged.given_up.iter().flat_map(|range| range.from.get()..=range.to.unwrap().get());
    let expected: Vec<u64> = lost.iter().map(|lost| u64::try_from(*lost).unwrap()).collect();
    assert_eq!(found.collect::<Vec<_>>(), expected);
    target
}

/// Replays into a new store. Returns the report and the keys.
fn run(replay: &Replay, disk: &Disk) -> Result<(Report, String), Error> {
    let store = MemoryStore::new();
    let report = replay.run(&reader(disk), &store);
    let keys = store.rows("").into_keys().map(|key| String::from_utf8(key).unwrap());
    let keys = keys.collect::<Vec<_>>().join(" ");
    if report.is_err() {
        assert_eq!(keys, "", "a refused replay applies nothing");
    }
    Ok((report?, keys))
}

/// Three transactions, of which the first two have the same number.
fn accounts() -> Vec<Operation> {
    vec![
        begin(1),
        change(1, "aborted"),
        abort(1),
        begin(1),
        change(1, "second"),
        commit(1),
        begin(2),
        change(2, "alice"),
        change(2, "bob"),
        commit(2),
    ]
}

#[test]
fn transaction_that_may_lack_records_is_refused_or_skipped() {
    let cases: [(&[usize], u64, &str); 5] = [
        (&[3, 4], 6, "alice bob"),    // an abort and the next begin
        (&[3, 4, 6], 0, "alice bob"), // ... and the commit
        (&[8], 10, "second"),
        (&[7], 10, "second"), // a begin
        (&[2, 3], 0, "alice bob second"),
    ];
    for (lost, refused, keys) in cases {
        let disk = salvaged(&logged(&accounts()), &accounts(), lost);
        let memories = [1 << 20, 64]; // in memory, and in the scratch file
        for replay in memories.map(|memory| Replay::new().memory(memory)) {
            match run(&replay, &disk) {
                Err(Error::Incomplete { lsn, lost: named, .. }) => {
                    assert_eq!(lsn.get(), refused, "{lost:?}");
                    assert_eq!(named[0].from.get(), u64::try_from(lost[0]).unwrap());
                }
                other => assert_eq!((refused, other.unwrap().1), (0, keys.to_owned()), "{lost:?}"),
            }
            let (report, found) = run(&replay.skip_incomplete(), &disk).unwrap();
            assert_eq!(found, keys, "{lost:?}");
            assert_eq!(report.incomplete, u64::from(refused > 0), "{lost:?}");
            assert_eq!(report.given_up, u64::try_from(lost.len()).unwrap(), "{lost:?}");
        }
    }
}

#[test]
fn error_names_the_records_given_up_and_the_transaction() {
    let disk = salvaged(&logged(&accounts()), &accounts(), &[3, 4]);
    let error = run(&Replay::new(), &disk).unwrap_err();
    assert_eq!(
        error.to_string(),
        "LSN 6 commits transaction 1, but a repair of the log gave up records 3 to 4 before it, so \
         changes of the transaction may be missing"
    );
}

/// The log that the program keeps after the repair may be pruned up to `needed_from`.
#[test]
fn skipped_transaction_holds_back_no_record_of_the_log() {
    let disk = salvaged(&logged(&accounts()), &accounts(), &[8]);
    put(&open(&disk), "k", 2);
    let (report, _) = run(&Replay::new().skip_incomplete(), &disk).unwrap();
    assert_eq!((report.applied_lsn, report.needed_from), (Some(lsn(12)), lsn(12)));
}

#[test]
fn store_that_has_the_transaction_continues_after_the_repair() {
    let disk = logged(&accounts());
    let store = MemoryStore::new();
    Replay::new().run(&reader(&disk), &store).unwrap();
    let disk = salvaged(&disk, &accounts(), &[3, 8]);
    put(&open(&disk), "k", 2);
    assert_eq!(Replay::new().run(&reader(&disk), &store).unwrap().applied, 2);
    assert_eq!(store.get("", b"alice").unwrap(), Some(b"v".to_vec()));
}

#[test]
fn plain_changes_around_records_given_up_are_applied() {
    let operations: Vec<Operation> = ["a", "b", "c", "d", "e"].map(plain).into();
    let disk = salvaged(&logged(&operations), &operations, &[2, 3]);
    let (report, keys) = run(&Replay::new(), &disk).unwrap();
    assert_eq!((report.given_up, report.incomplete, keys.as_str()), (2, 0, "a d e"));
}

/// A kill left the partitions at different commits, and a record between them was given up: no
/// replay can give the slower partition its part of it.
#[test]
fn partitions_on_both_sides_of_a_record_given_up_are_refused() {
    let operations: Vec<Operation> = ["a", "b", "c", "d", "e"].map(plain).into();
    let disk = logged(&operations);
    let at = |number| {
        let store = MemoryStore::new();
        let replay = Replay::new().partitions(2).until(lsn(number));
        replay.run(&reader(&disk), &store).unwrap();
        store.watermarks().unwrap()
    };
    let (slow, fast) = (at(2), at(4));
    let store = MemoryStore::new();
    let watermarks = vec![(0, slow[0]), (1, fast[1])];
    store.write(&seawall_replay::Batch { writes: vec![], watermarks }).unwrap();
    let disk = salvaged(&disk, &operations, &[3]);
    for replay in [Replay::new(), Replay::new().skip_incomplete()] {
        let refused = replay.run(&reader(&disk), &store).unwrap_err();
        assert!(matches!(refused, Error::Watermarks { .. }), "{refused}");
        assert!(refused.to_string().contains("gave up record 3 between them"), "{refused}");
    }
}

/// The last commit that the store has applied was given up, and nothing was logged since.
#[test]
fn store_with_a_lost_last_commit_can_be_adopted() {
    let operations: Vec<Operation> = ["a", "b", "c"].map(plain).into();
    let disk = logged(&operations);
    let store = MemoryStore::new();
    Replay::new().run(&reader(&disk), &store).unwrap();
    let disk = salvaged(&disk, &operations, &[3]);
    let refused = Replay::new().run(&reader(&disk), &store).unwrap_err();
    assert!(matches!(refused, Error::Unproven { .. }), "{refused}");
    assert_eq!(Replay::new().adopt().run(&reader(&disk), &store).unwrap().applied, 0);
    put(&open(&disk), "k", 2);
    assert_eq!(Replay::new().adopt().run(&reader(&disk), &store).unwrap().applied, 2);
    assert_eq!(Replay::new().run(&reader(&disk), &store).unwrap().applied, 0);
}

#[test]
fn new_store_can_start_after_a_lost_record() {
    let operations: Vec<Operation> = ["a", "b", "c"].map(plain).into();
    let disk = salvaged(&logged(&operations), &operations, &[2]);
    let (report, keys) = run(&Replay::new().from(lsn(3)), &disk).unwrap();
    assert_eq!((report.applied, keys.as_str()), (1, "c"));
}
