//! Ways to rebuild a store from a log. Each turn is a whole replay into a new store, from opening
//! the log to the flush of the store.

use super::workload::{self, Keys, OperationLog};
use super::{Hall, New, Ways};
use crate::failure::Failure;
use seawall::format::RecordId;
use seawall::{Level, Log, Lsn, Options, Retention};
use seawall_measure::contest::Entry;
use seawall_measure::human::to_f64;
use seawall_measure::machine::Stopwatch;
use seawall_measure::slice::{Slice, nanoseconds};
use seawall_replay::{Batch, Change, Edit, Operation, Replay, Source, Store, StoreError, Write};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

/// Names of the upper bounds: what the store alone and the log alone can do.
pub(super) const CEILING: &str = "ceiling, sorted";
pub(super) const CEILING_OF_TWO: &str = "ceiling, 2 threads";
pub(super) const READING: &str = "reading alone";
/// Batch size in the report.
const BATCH: usize = 100;
/// Retention of the log to which all entries are logged again, in bytes.
const KEPT: u64 = 64 << 20;

/// The ways of the report, and Seawall's replay.
pub(super) fn of_helios<'a>(hall: &'a Hall<'_>, count: u64) -> Result<Ways<'a>, Failure> {
    let source = Rc::new(workload::log(&hall.folder.join("helios"), Keys::Each, count)?);
    let path = hall.folder.join("again");
    let retention = Retention::new().max_bytes(KEPT).without_checkpoints();
    let options = Options::new().level(Level::Buffered).retention(retention).idle_mark(None);
    let again: Log<Operation> = options.open(&path).map_err(|error| of_log(hall, &error))?;
    let theirs = |again: Option<Log<Operation>>, size| {
        let source = source.clone();
        move |store: &dyn Store| their_replay(&source, store, (again.as_ref(), size))
    };
    Ok(vec![
        whole(hall, "each, logged again", (count, theirs(Some(again), 1))),
        whole(hall, "each", (count, theirs(None, 1))),
        whole(hall, "batches of 100", (count, theirs(None, BATCH))),
        ours(hall, "seawall replay", (count, &source, Replay::new())),
    ])
}

/// One by one, in batches, by Seawall, and the upper bounds of the store and of the log.
pub(super) fn of_many<'a>(hall: &'a Hall<'_>, keys: Keys) -> Result<Ways<'a>, Failure> {
    let (name, count) = (format!("{keys:?}"), hall.args.count);
    let source = Rc::new(workload::log(&hall.folder.join(name), keys, count)?);
    let New { store, _folder: folder } = hall.fresh.make()?;
    let (partitions_max, ingests) = (store.partitions_max(), store.ingestion().is_some());
    let in_our_batches = Replay::new().bulk_from(u64::MAX);
    let tried = in_our_batches.run(&*source, &*store).map_err(|error| of_replay(hall, &error))?;
    // Free the store first: it takes as much memory as the sorted batches.
    drop((store, folder));
    let sorted = sorted(&source, tried.batch_changes).map_err(|error| of_log(hall, &error))?;
    let in_batches = |size| {
        let source = source.clone();
        move |store: &dyn Store| {
            let read = |entry: seawall::Result<(RecordId, Option<Operation>)>| {
                entry.map(|(record, operation)| Some((record.lsn, operation?)))
            };
            let entries = source.operations(Lsn::FIRST)?.filter_map(move |it| read(it).transpose());
            apply(entries, store, size)
        }
    };
    let mut ways = vec![
        whole(hall, "one by one", (count, in_batches(1))),
        whole(hall, "batches of 100", (count, in_batches(BATCH))),
        whole(hall, "as large, not sorted", (count, in_batches(tried.batch_changes))),
        ours(hall, "seawall replay", (count, &source, Replay::new())),
    ];
    if ingests {
        ways.push(ours(hall, "the same, in batches", (count, &source, in_our_batches.clone())));
    }
    if partitions_max >= 2 {
        let replay = in_our_batches.partitions(2);
        ways.push(ours(hall, "in batches, 2 threads", (count, &source, replay)));
        let halves = halved(&sorted);
        let write = move |store: &dyn Store| Ok(write_at_once(&halves, store)?);
        ways.push(whole(hall, CEILING_OF_TWO, (count, write)));
    }
    let ceiling = move |store: &dyn Store| {
        sorted.iter().try_for_each(|batch| store.write(batch))?;
        Ok(store.flush()?)
    };
    ways.push(whole(hall, CEILING, (count, ceiling)));
    let read = move |_: &dyn Store| {
        source.operations(Lsn::FIRST)?.try_for_each(|entry| entry.map(drop)).map_err(Trouble::from)
    };
    ways.push(whole(hall, READING, (count, read)));
    Ok(ways)
}

/// The reason why a turn failed.
pub(super) enum Trouble {
    Log(seawall::Error),
    Store(StoreError),
    Replay(seawall_replay::Error),
}

impl From<seawall::Error> for Trouble {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<seawall_replay::Error> for Trouble {
    fn from(error: seawall_replay::Error) -> Self {
        Self::Replay(error)
    }
}

/// A way that rebuilds a new store from `count` operations in each turn. `act` ends with a flush.
pub(super) fn whole<'a>(
    hall: &'a Hall<'_>,
    name: &'static str,
    (count, act): (u64, impl Fn(&dyn Store) -> Result<(), Trouble> + 'a),
) -> Entry<'a, Failure> {
    Entry::new(name, move |_| {
        let New { store, _folder: folder } = hall.fresh.make()?;
        let watch = Stopwatch::start();
        let done = act(&*store);
        let took = watch.elapsed();
        drop(store);
        drop(folder);
        match done {
            Ok(()) => Ok(slice(count, took)),
            Err(Trouble::Log(error)) => Err(of_log(hall, &error)),
            Err(Trouble::Replay(error)) => Err(of_replay(hall, &error)),
            Err(Trouble::Store(error)) => Err(cannot(hall, &error)),
        }
    })
}

/// Seawall's replay, with these options.
fn ours<'a>(
    hall: &'a Hall<'_>,
    name: &'static str,
    (count, source, replay): (u64, &Rc<OperationLog>, Replay),
) -> Entry<'a, Failure> {
    let source = source.clone();
    let act = move |store: &dyn Store| Ok(replay.run(&*source, store).map(drop)?);
    whole(hall, name, (count, act))
}

/// The result of a turn, with the time per 1,000 operations as its latency.
fn slice(count: u64, took: Duration) -> Slice {
    let seconds = took.as_secs_f64().max(1e-9);
    let thousand = Duration::from_secs_f64(seconds * 1e3 / to_f64(count.max(1)));
    Slice { per_second: to_f64(count) / seconds, times: vec![nanoseconds(thousand)] }
}

/// Replays as the report describes it: reads all entries, searches them for aborted transactions,
/// then applies them. Each entry was also logged again, until a flag prevented that.
fn their_replay(
    source: &OperationLog,
    store: &dyn Store,
    (again, size): (Option<&Log<Operation>>, usize),
) -> Result<(), Trouble> {
    let entries = source.operations(Lsn::FIRST)?.collect::<seawall::Result<Vec<_>>>()?;
    let aborted = entries.iter().filter_map(|(_, operation)| match operation {
        Some(Operation::Abort(tx)) => Some(*tx),
        _ => None,
    });
    let aborted: Vec<_> = aborted.collect();
    let applied =
        entries.into_iter().filter_map(|(record, operation)| Some((record.lsn, operation?)));
    let applied = applied.filter(|(_, operation)| match operation {
        Operation::Change(tx, _) => !aborted.contains(tx),
        _ => true,
    });
    let logged = applied.map(|(lsn, operation)| {
        again.map_or(Ok(()), |log| log.append(&operation).map(drop))?;
        Ok((lsn, operation))
    });
    apply(logged, store, size)
}

/// Writes the changes in batches of this size, in the order of the log, then flushes.
fn apply(
    entries: impl Iterator<Item = seawall::Result<(Lsn, Operation)>>,
    store: &dyn Store,
    size: usize,
) -> Result<(), Trouble> {
    let mut batch = Batch::default();
    for entry in entries {
        let (lsn, operation) = entry?;
        batch.writes.extend(writes(lsn, operation));
        if batch.writes.len() >= size {
            store.write_mut(&mut batch)?;
            batch.writes.clear();
        }
    }
    if !batch.writes.is_empty() {
        store.write_mut(&mut batch)?;
    }
    Ok(store.flush()?)
}

/// The rows that an operation puts. These logs have no other changes.
fn writes(lsn: Lsn, operation: Operation) -> impl Iterator<Item = Write> {
    let changes = match operation {
        Operation::Atomic(changes) => changes,
        Operation::Change(_, change) => vec![change],
        _ => vec![],
    };
    changes.into_iter().filter_map(move |change| match change {
        Change::Put { table, key, value } => {
            Some(Write { lsn, table, edit: Edit::Put { key, value } })
        }
        _ => None,
    })
}

/// Reads the whole log as batches of this many changes, each sorted, with one write per key.
fn sorted(source: &OperationLog, size: usize) -> seawall::Result<Vec<Batch>> {
    let (mut batches, mut rows, mut held) = (vec![], BTreeMap::new(), 0);
    let mut put_away = |rows: &mut BTreeMap<Vec<u8>, Write>| {
        let writes: Vec<Write> = std::mem::take(rows).into_values().collect();
        batches.push(Batch { writes, watermarks: vec![] });
    };
    for entry in source.operations(Lsn::FIRST)? {
        let (RecordId { lsn, .. }, operation) = entry?;
        for write in operation.into_iter().flat_map(|operation| writes(lsn, operation)) {
            if let Edit::Put { key, .. } = &write.edit {
                rows.insert(key.clone(), write);
            }
            held += 1;
        }
        if held >= size {
            held = 0;
            put_away(&mut rows);
        }
    }
    put_away(&mut rows);
    Ok(batches)
}

/// Splits the writes for two threads, so that each key belongs to one of them.
fn halved(batches: &[Batch]) -> [Vec<Batch>; 2] {
    let is_second = |write: &Write| match &write.edit {
        Edit::Put { key, .. } => key.iter().map(|byte| byte.count_ones()).sum::<u32>() % 2 == 1,
        _ => false,
    };
    [false, true].map(|second| {
        let half = |batch: &Batch| {
            let writes = batch.writes.iter().filter(|write| is_second(write) == second);
            Batch { writes: writes.cloned().collect(), watermarks: vec![] }
        };
        batches.iter().map(half).collect()
    })
}

/// Writes each half in its own thread, then flushes the store.
fn write_at_once(halves: &[Vec<Batch>; 2], store: &dyn Store) -> Result<(), StoreError> {
    let write = |half: &[Batch]| half.iter().try_for_each(|batch| store.write(batch));
    let [one, other] = halves;
    thread::scope(|scope| {
        let other = scope.spawn(|| write(other));
        let done = write(one);
        other.join().unwrap_or_else(|panic| resume_unwind(panic)).and(done)
    })?;
    store.flush()
}

fn of_log(hall: &Hall<'_>, error: &seawall::Error) -> Failure {
    cannot(hall, error)
}

fn of_replay(hall: &Hall<'_>, error: &seawall_replay::Error) -> Failure {
    cannot(hall, error)
}

fn cannot(hall: &Hall<'_>, error: &dyn std::fmt::Display) -> Failure {
    let next = "choose another directory with --dir or --store";
    Failure::new(format!("cannot measure: {error}"), hall.args.common.dir.display(), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::scratch::Scratch;
    use seawall_replay::MemoryStore;

    /// The ways must do the same work, or their times could not be compared.
    #[test]
    fn every_way_leaves_the_same_rows() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-replay-ways").unwrap();
        for keys in [Keys::Each, Keys::Few, Keys::One] {
            let path = scratch.path().join(format!("{keys:?}"));
            let source = workload::log(&path, keys, 3_050).unwrap();
            let rows = |act: &dyn Fn(&MemoryStore)| {
                let store = MemoryStore::new();
                act(&store);
                store.rows("")
            };
            let expected = rows(&|store| {
                Replay::new().run(&source, store).unwrap();
            });
            assert!(expected.len() <= 3_050 && !expected.is_empty());
            let again: Log<Operation> = Log::open(scratch.path().join("again")).unwrap();
            for how in [(Some(&again), 1), (None, 1), (None, BATCH)] {
                let theirs = rows(&|store| assert!(their_replay(&source, store, how).is_ok()));
                assert_eq!(theirs, expected);
            }
            let batches = sorted(&source, 1_000).unwrap();
            assert_eq!(batches.len(), 4);
            let ceiling = rows(&|store| {
                batches.iter().try_for_each(|batch| store.write(batch)).unwrap();
            });
            assert_eq!(ceiling, expected);
            let halves = halved(&batches);
            let is_used = |half: &Vec<Batch>| half.iter().any(|batch| !batch.writes.is_empty());
            assert_eq!(halves.iter().all(is_used), keys != Keys::One);
            assert_eq!(rows(&|store| write_at_once(&halves, store).unwrap()), expected);
            drop(again);
        }
    }
}
