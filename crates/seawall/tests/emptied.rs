//! Truncation that keeps no record, of logs whose first records were pruned before.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Log, LogReader, Lsn, Maintenance, Options, Raw};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::sync::Arc;

type TestLog = Log<[u8], Raw>;

fn open(storage: &MemStorage) -> TestLog {
    let geometry = Geometry { block: 512, reach: 1024, batch_max: 1024 };
    let options = Options::new()
        .geometry(geometry, 4608)
        .segment_size(4608)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(ManualClock::new()), Arc::new(SeededEntropy::new(storage.steps() + 1)));
    options.open_in(Arc::new(storage.clone())).unwrap()
}

/// A log of 60 records whose first records were pruned, and its oldest record.
fn pruned(storage: &MemStorage) -> (TestLog, Lsn) {
    let log = open(storage);
    for number in 0..60 {
        log.append(format!("old {number} {}", "x".repeat(90)).as_bytes()).unwrap();
    }
    let oldest = log.truncate_before(Lsn::new(40).unwrap()).unwrap();
    assert!(oldest.get() > 20, "{oldest}");
    (log, oldest)
}

#[test]
fn truncate_after_none_empties_a_pruned_log() {
    for is_closed in [false, true] {
        let storage = MemStorage::new();
        let (mut log, oldest) = pruned(&storage);
        log.checkpoint(Lsn::new(50).unwrap()).unwrap();
        if is_closed {
            log.close().unwrap();
            log = open(&storage);
        }
        log.truncate_after(None).unwrap();
        assert_eq!((log.durable(), log.oldest()), (oldest.previous(), oldest));
        assert_eq!(log.replay_start(), oldest);
        let steps = storage.steps();
        log.truncate_after(None).unwrap();
        assert_eq!(storage.steps(), steps, "there is nothing left to cut");
        drop(log);

        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let found = Maintenance::on(&shared).verify().unwrap();
        assert_eq!((found.verdict, found.records), (Verdict::Clean, 0));
        let reader: LogReader<[u8], Raw> = LogReader::open_in(shared).unwrap();
        assert_eq!(reader.read_from(oldest).unwrap().count(), 0);

        // The log is empty after a power cut, too, and the numbers of pruned records are not used
        // again.
        let log = open(&storage.power_cut(|_| false));
        assert_eq!((log.durable(), log.recovery().first), (oldest.previous(), None));
        let refused = log.read_from(Lsn::FIRST).unwrap_err();
        assert!(matches!(refused, Error::Pruned { oldest: o, .. } if o == oldest), "{refused}");
        assert_eq!(log.append(b"new").unwrap(), oldest);
        let shown: Vec<_> = log.read_from(oldest).unwrap().map(Result::unwrap).collect();
        assert_eq!(shown, [(oldest, b"new".to_vec())]);
    }
}
