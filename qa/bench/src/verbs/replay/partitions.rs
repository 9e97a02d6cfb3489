//! The speedup from several threads, with a store that waits: it sleeps for each write.

use super::ways::whole;
use super::workload::{self, Keys};
use super::{Hall, Ways};
use crate::args;
use crate::failure::Failure;
use seawall_io::{Clock, SystemClock};
use seawall_replay::{Batch, Bounds, Replay, Store, StoreError, Watermark};
use std::rc::Rc;
use std::time::Duration;

/// Numbers of threads that apply, and their names in the table.
pub(super) const THREADS: [(u32, &str); 4] =
    [(1, "1 thread"), (2, "2 threads"), (4, "4 threads"), (8, "8 threads")];
/// Approximate time that a single thread sleeps in a turn, in microseconds.
const TURN: u64 = 1_000_000;

const MANY_KEYS: &str = "Each thread has keys of its own, and they sleep at the same time. That is \
                         so for a store that waits, for a device or a network. One that computes \
                         gains no more than there are processors, and one that takes one batch at \
                         a time gains nothing.";
const ONE_KEY: &str = "All changes of a key go to one thread: here the others have nothing to do. \
                       Each change is a batch of its own, to show what depends on each other; \
                       in larger batches changes of one key become one write.";

/// Explains how to read the results.
pub(super) fn about(keys: Keys) -> &'static str {
    if keys == Keys::One { ONE_KEY } else { MANY_KEYS }
}

/// The number of operations that take one thread about a second.
pub(super) fn count(args: &args::Replay, cost_us: u64) -> u64 {
    (TURN / cost_us.max(1)).clamp(512, args.count.max(512))
}

/// The same replay with 1, 2, 4 and 8 threads.
pub(super) fn ways<'a>(hall: &'a Hall<'_>, keys: Keys) -> Result<Ways<'a>, Failure> {
    let cost_us = hall.args.apply_cost.unwrap_or_default();
    let (cost, count) = (Duration::from_micros(cost_us), count(hall.args, cost_us));
    let path = hall.folder.join(format!("partitions-{keys:?}"));
    let source = Rc::new(workload::log(&path, keys, count)?);
    let one = Bounds { changes_min: 1, changes_max: 1, ..Bounds::default() };
    let bounds = if keys == Keys::One { one } else { Bounds::default() };
    let way = |(threads, name): (u32, &'static str)| {
        let (source, replay) = (source.clone(), Replay::new().partitions(threads).batches(bounds));
        let act = move |store: &dyn Store| {
            let waits = Waits { store, cost, clock: SystemClock::new() };
            Ok(replay.run(&*source, &waits).map(drop)?)
        };
        whole(hall, name, (count, act))
    };
    Ok(THREADS.into_iter().map(way).collect())
}

/// A store that sleeps for each write of a batch, while other threads can write.
struct Waits<'a> {
    store: &'a dyn Store,
    cost: Duration,
    clock: SystemClock,
}

impl Store for Waits<'_> {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.write(batch)?;
        let writes = u32::try_from(batch.writes.len()).unwrap_or(u32::MAX);
        if writes > 0 {
            self.clock.sleep(self.cost * writes);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    fn partitions_max(&self) -> usize {
        usize::MAX
    }
}
