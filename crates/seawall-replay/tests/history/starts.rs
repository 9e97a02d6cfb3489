//! A new store that was loaded with the state before some record is checked from its first replay
//! on.

use super::{log_of, lsn, open, put, reader, replay};
use seawall_replay::{Change, Error, MemoryStore, Operation, Replay, Store, TxId};

#[test]
fn start_after_the_end_of_the_log_is_refused() {
    let (disk, store) = (log_of("k", 10), MemoryStore::new());
    let from = |number| Replay::new().from(lsn(number));
    for start in [12, 40] {
        let refused = from(start).run(&reader(&disk), &store).unwrap_err();
        let ends = |error: &Error| match error {
            Error::Ahead { applied, last } => Some((applied.next(), *last)),
            _ => None,
        };
        assert_eq!(ends(&refused), Some((lsn(start), Some(lsn(10)))), "{refused}");
        from(start).plan(&reader(&disk), &store).unwrap_err();
        from(start).transactions(&reader(&disk), None).unwrap_err();
        assert_eq!(store.watermarks().unwrap(), []);
    }
    assert_eq!(from(11).run(&reader(&disk), &store).unwrap().applied, 0);
    put(&open(&disk), "n", 3);
    assert_eq!(replay(&disk, &store).unwrap(), 3);
}

#[test]
fn start_of_a_store_that_applied_nothing_is_compared_with_the_log() {
    for partitions in [1, 3] {
        let (disk, store) = (log_of("k", 10), MemoryStore::new());
        let first = Replay::new().from(lsn(11)).partitions(partitions);
        assert_eq!(first.run(&reader(&disk), &store).unwrap().applied, 0);
        let log = open(&disk);
        log.truncate_after(Some(lsn(5))).unwrap();
        let refused = replay(&disk, &store).unwrap_err();
        assert!(matches!(refused, Error::Ahead { applied, .. } if applied == lsn(10)), "{refused}");
        put(&log, "n", 10);
        let refused = replay(&disk, &store).unwrap_err();
        assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
        assert!(store.rows("").is_empty());
    }
}

#[test]
fn transaction_that_begins_just_before_the_start_is_applied_whole() {
    let (disk, store) = (log_of("k", 2), MemoryStore::new());
    let log = open(&disk);
    let tx = TxId(1);
    let change = |key: &str| Operation::Change(tx, Change::put("", key, "v"));
    log.append(&Operation::Begin(tx)).unwrap();
    let replay = Replay::new().from(lsn(4));
    assert_eq!(replay.run(&reader(&disk), &store).unwrap().applied, 0);
    log.append_batch(&[change("a"), change("b"), Operation::Commit(tx)]).unwrap();
    assert_eq!(replay.run(&reader(&disk), &store).unwrap().applied, 1);
    assert_eq!(store.rows("").len(), 2);
}
