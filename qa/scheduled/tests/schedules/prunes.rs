//! Retention removes segments while other batches are in flight.

use std::sync::Arc;

use scheduler::time;
use seawall::{Error, Retention};
use seawall_testkit::MemStorage;

use crate::world::{SEGMENT_MAX, Witness, any, below, coin, join, open, record, tasks};

/// The least number of records in a full segment. Nine of its 14 blocks hold records, and each
/// record takes at most two.
const RECORDS_MIN: u64 = 4;

/// Retention that keeps the newest records, up to this many full segments.
fn ring(segments: u64) -> Retention {
    Retention::new().max_bytes(segments * SEGMENT_MAX).without_checkpoints()
}

/// The least number of records that a prune leaves: one in the newest segment, where the rule is
/// applied after the first batch, and those of each full segment before it.
fn kept_min(segments: u64) -> u64 {
    1 + segments * RECORDS_MIN
}

/// Appends until many segments are full. Returns the error of each task.
fn append_much(log: &Arc<crate::world::Bytes>, witness: &Arc<Witness>) -> Vec<Option<Error>> {
    let (inside, by) = (Arc::clone(log), Arc::clone(witness));
    join(tasks(3, move |task| {
        (0..7).find_map(|turn| {
            let mut bytes = record(task, turn);
            bytes.resize(bytes.len().max(600), b'.');
            by.append(&inside, &bytes).err()
        })
    }))
}

pub(crate) fn a_close_leaves_no_file_of_a_pruned_segment() {
    time::flow();
    let device = MemStorage::new();
    let segments = below(2);
    let log = open(&any().retention(ring(segments)), &device);
    let witness = Witness::new();
    let errors = append_much(&log, &witness);
    assert!(errors.iter().all(Option::is_none), "{errors:?}");
    let stats = log.stats();
    assert!(stats.pruned + 4 > stats.rolls, "{stats:?}");
    Arc::into_inner(log).expect("this is the only handle").close().unwrap();
    let files = device.names().into_iter().filter(|name| name.contains(".seg")).count();
    let live = stats.rolls + 1 - stats.pruned;
    assert_eq!(u64::try_from(files).unwrap(), live, "{:?}", device.names());
    assert_eq!(witness.check_pruned(&device, kept_min(segments)), 21);
}

pub(crate) fn a_prune_takes_no_other_record_whatever_fails() {
    time::flow();
    let device = MemStorage::new();
    let segments = below(2);
    let log = open(&any().retention(ring(segments)), &device);
    let witness = Witness::new();
    if coin() {
        device.stop_after(device.steps() + below(200));
    } else {
        device.fail_sync(below(30), |_| false);
    }
    for error in append_much(&log, &witness).into_iter().flatten() {
        assert!(matches!(error, Error::Poisoned { .. } | Error::Io { .. }), "{error}");
    }
    // A failover may leave a segment behind that has few records, and counts as a full one.
    let kept_min = if log.stats().failovers == 0 { kept_min(segments) } else { 1 };
    witness.check_pruned(&device, kept_min);
    drop(log);
    witness.check_pruned(&device, kept_min);
}
