//! Measures one table: all logs do the same task in turns.

use crate::payload::{Check, Order, Payloads};
use crate::peer::{Discipline, Done, Kind, Level, Peer, Place, Reader, Trouble};
use seawall_measure::contest::{Entry, Standings, hold_in_slices};
use seawall_measure::slice::{Slice, by_threads};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Records in a set.
pub(crate) const SET: usize = 1_000;
/// The name of the upper bound for readers: the records are in memory and are only checked.
pub(crate) const CEILING: &str = "nothing read, only checked";
/// Maximum warm-up time of each log before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Number of different payloads, which are appended in turn.
const PAYLOADS: usize = 4 * SET;

/// The task of all logs in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) discipline: Discipline,
    pub(crate) writers: usize,
    /// Bytes in a record.
    pub(crate) size: usize,
    /// Number of records that are read back.
    pub(crate) records: usize,
    pub(crate) time: Duration,
}

/// The name of a log, and the reason why it has no result.
pub(crate) type Absent = (&'static str, String);

/// The results of a table.
#[derive(Debug)]
pub(crate) struct Raced {
    pub(crate) task: Task,
    pub(crate) standings: Standings,
    /// Logs that are not measured in this task.
    pub(crate) left_out: Vec<Absent>,
    /// Logs that failed, or returned wrong records.
    pub(crate) failed: Vec<Absent>,
}

/// Measures all logs, in folders below `folder`. The others are compared with the first of `kinds`.
///
/// # Errors
///
/// If the first log fails.
pub(crate) fn run(kinds: &[&'static Kind], task: Task, folder: &Path) -> Done<Raced> {
    let mut left_out = vec![];
    let mut made: Vec<(&'static str, Box<dyn Way>)> = vec![];
    let failed = RefCell::new(vec![]);
    for (place, kind) in kinds.iter().enumerate() {
        if let Some(why) = kind.lack(task.discipline) {
            left_out.push((kind.name, why.to_owned()));
            continue;
        }
        let home = folder.join(format!("{}-{place}", key(task)));
        match caught(|| way(kind, task, &home)) {
            Ok(way) => made.push((kind.name, way)),
            Err(error) if place == 0 => return Err(error),
            Err(error) => failed.borrow_mut().push((kind.name, error.to_string())),
        }
    }
    if task.discipline == Discipline::Read {
        made.push((CEILING, Box::new(Reading::new(Box::new(Memory::new(task)), task))));
    }
    let mut standings = {
        let mut entries: Vec<_> =
            made.iter_mut().map(|(name, way)| entry_of(name, way.as_mut(), &failed)).collect();
        // Warm up, so that files have grown and threads have started before the measurement.
        for entry in &mut entries {
            (entry.act)((task.time / 20).min(WARM_UP))?;
        }
        hold_in_slices(&mut entries, task.time, slice_max(task.discipline))?
    };
    for (name, way) in made {
        let closed = caught(|| way.end());
        note(&failed, name, closed.err());
    }
    let failed = failed.into_inner();
    let ours = kinds.first().map(|kind| kind.name);
    if let Some((_, why)) = failed.iter().find(|(name, _)| Some(*name) == ours) {
        return Err(why.clone().into());
    }
    // Drop the results of logs that failed during the measurement: they are incomplete.
    standings.rows.retain(|row| failed.iter().all(|(name, _)| *name != row.name));
    Ok(Raced { task, standings, left_out, failed })
}

/// Short slices, so that neighbours are comparable. Streams need longer ones, or background writes
/// and compaction would fall into the slices of other logs.
fn slice_max(discipline: Discipline) -> Duration {
    match discipline {
        Discipline::Batches | Discipline::Buffered => Duration::from_secs(1),
        Discipline::Synced | Discipline::Read => Duration::from_millis(50),
    }
}

/// A short name for the folders of a task.
pub(crate) fn key(task: Task) -> String {
    match task.discipline {
        Discipline::Synced => format!("synced-{}", task.writers),
        Discipline::Batches => "batches".to_owned(),
        Discipline::Buffered => "buffered".to_owned(),
        Discipline::Read => "read".to_owned(),
    }
}

/// How a log does the task.
trait Way {
    fn slice(&mut self, time: Duration) -> Done<Slice>;

    fn end(self: Box<Self>) -> Done {
        Ok(())
    }
}

fn entry_of<'a>(
    name: &'static str,
    way: &'a mut dyn Way,
    failed: &'a RefCell<Vec<Absent>>,
) -> Entry<'a, Trouble> {
    let mut is_out = false;
    Entry::new(name, move |time| {
        if !is_out {
            match caught(|| way.slice(time)) {
                Ok(slice) => return Ok(slice),
                Err(error) => note(failed, name, Some(error)),
            }
            is_out = true;
        }
        // The failed log does no more work, and the others continue.
        Ok(Slice { per_second: 0.0, times: vec![] })
    })
}

fn note(failed: &RefCell<Vec<Absent>>, name: &'static str, error: Option<Trouble>) {
    if let Some(error) = error {
        failed.borrow_mut().push((name, error.to_string()));
    }
}

/// Runs `act` and converts a panic of a peer into an error.
fn caught<T>(act: impl FnOnce() -> Done<T>) -> Done<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("without a word")).into())
    })
}

fn way(kind: &Kind, task: Task, home: &Path) -> Done<Box<dyn Way>> {
    let level = match task.discipline {
        Discipline::Buffered => Level::Buffered,
        _ => Level::Synced,
    };
    let kept = if task.discipline == Discipline::Read { task.records } else { 0 };
    let Task { writers: threads, size, .. } = task;
    let place = Place { folder: home, level, threads, size, kept };
    let peer = (kind.open)(&place)?;
    if task.discipline != Discipline::Read {
        let records = Payloads::new(size).first(PAYLOADS);
        return Ok(Box::new(Writing { peer, records, next: AtomicUsize::new(0), task }));
    }
    fill(&*peer, task)?;
    peer.close()?;
    let mut reading = Reading::new((kind.reader)(&place)?, task);
    // Read everything once, to detect lost records and to warm the cache.
    reading.pass(None)?;
    Ok(Box::new(reading))
}

/// Writes the records to read.
fn fill(peer: &dyn Peer, task: Task) -> Done {
    let records = Payloads::new(task.size).first(task.records);
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    records.chunks(SET).try_for_each(|set| peer.append_set(set))
}

/// Appends the same payloads repeatedly.
struct Writing {
    peer: Box<dyn Peer>,
    records: Vec<Vec<u8>>,
    next: AtomicUsize,
    task: Task,
}

impl Way for Writing {
    fn slice(&mut self, time: Duration) -> Done<Slice> {
        let slice = match self.task.discipline {
            Discipline::Batches => self.sets(time),
            _ => by_threads((self.task.writers, time), &|thread| {
                let next = self.next.fetch_add(1, Ordering::Relaxed) % PAYLOADS;
                let record = self.records.get(next).expect("below their number");
                self.peer.append(thread, record)
            }),
        };
        self.peer.settle()?;
        slice
    }

    fn end(self: Box<Self>) -> Done {
        self.peer.close()
    }
}

impl Writing {
    fn sets(&self, time: Duration) -> Done<Slice> {
        let records: Vec<&[u8]> = self.records.iter().map(Vec::as_slice).collect();
        let sets: Vec<&[&[u8]]> = records.chunks(SET).collect();
        let slice = by_threads((1, time), &|_| {
            let next = self.next.fetch_add(1, Ordering::Relaxed) % sets.len();
            self.peer.append_set(sets.get(next).expect("below their number"))
        })?;
        Ok(Slice { per_second: slice.per_second * 1e3, ..slice })
    }
}

/// Reads from the beginning repeatedly.
struct Reading {
    reader: Box<dyn Reader>,
    check: Check,
}

impl Reading {
    fn new(reader: Box<dyn Reader>, task: Task) -> Self {
        Self { reader, check: Check::new(task.records, task.size, Order::Ascending) }
    }

    /// Reads for the duration `until`, or to the end. Returns the number of records and the time.
    fn pass(&mut self, until: Option<Duration>) -> Done<(u64, Duration)> {
        let start = self.reader.rewind()?;
        self.check.begin(start, until);
        self.reader.read(&mut self.check)?;
        Ok(self.check.end()?)
    }
}

impl Way for Reading {
    fn slice(&mut self, time: Duration) -> Done<Slice> {
        let (mut read, mut spent) = (0, Duration::ZERO);
        while spent < time {
            let (more, took) = self.pass(Some(time.saturating_sub(spent)))?;
            read += more;
            spent += took;
        }
        Ok(self.check.slice(read, spent))
    }
}

/// Payloads in memory, to measure the cost of the check alone.
struct Memory(Vec<Vec<u8>>);

impl Memory {
    fn new(task: Task) -> Self {
        Self(Payloads::new(task.size).first(task.records))
    }
}

impl Reader for Memory {
    fn read(&mut self, check: &mut Check) -> Done {
        let _ = self.0.iter().all(|record| check.take(record));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::OURS;
    use seawall_measure::scratch::Scratch;

    /// Stores nothing. Fails after this many appends, and returns fewer records than were appended.
    struct Bad(AtomicUsize);

    impl Peer for Bad {
        fn append(&self, _: usize, _: &[u8]) -> Done {
            let left = self.0.fetch_sub(1, Ordering::Relaxed);
            if left == 0 { Err("it is broken".into()) } else { Ok(()) }
        }

        fn append_set(&self, _: &[&[u8]]) -> Done {
            panic!("it does not do sets")
        }
    }

    impl Reader for Bad {
        fn read(&mut self, check: &mut Check) -> Done {
            Payloads::new(64).first(10).iter().all(|record| check.take(record));
            Ok(())
        }
    }

    const BAD: &Kind = &Kind {
        name: "bad",
        what: "",
        how: "",
        better: "",
        lacks: &[(Discipline::Buffered, "it has no time")],
        open: |_| Ok(Box::new(Bad(AtomicUsize::new(5)))),
        reader: |_| Ok(Box::new(Bad(AtomicUsize::new(0)))),
    };

    fn raced(discipline: Discipline) -> Raced {
        let scratch = Scratch::new(&std::env::temp_dir(), &format!("seawall-race-{discipline:?}"));
        let scratch = scratch.unwrap();
        let time = Duration::from_millis(100);
        let task = Task { discipline, writers: 2, size: 64, records: 2_000, time };
        run(&[OURS, BAD], task, scratch.path()).unwrap()
    }

    #[test]
    fn a_log_that_fails_is_named_and_the_others_continue() {
        for (discipline, why) in [
            (Discipline::Synced, "it is broken"),
            (Discipline::Batches, "it panicked: it does not do sets"),
        ] {
            let raced = raced(discipline);
            assert_eq!(raced.failed, [("bad", why.to_owned())]);
            let names: Vec<_> = raced.standings.rows.iter().map(|row| row.name.as_ref()).collect();
            assert_eq!(names, ["seawall"]);
            assert!(raced.standings.rows[0].per_second.median > 0.0);
        }
    }

    #[test]
    fn a_log_that_is_not_measured_is_named_with_the_reason() {
        let raced = raced(Discipline::Buffered);
        assert_eq!(raced.left_out, [("bad", "it has no time".to_owned())]);
        assert_eq!((raced.failed.len(), raced.standings.rows.len()), (0, 1));
    }

    #[test]
    fn a_record_that_is_not_read_back_is_a_failure() {
        const LOSES: &Kind = &Kind { open: |_| Ok(Box::new(Quiet)), ..*BAD };
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-race-loses").unwrap();
        let time = Duration::from_millis(50);
        let task =
            Task { discipline: Discipline::Read, writers: 1, size: 64, records: 2_000, time };
        let raced = run(&[OURS, LOSES], task, scratch.path()).unwrap();
        assert_eq!(raced.failed, [("bad", "10 of 2000 records came back".to_owned())]);
        let names: Vec<_> = raced.standings.rows.iter().map(|row| row.name.as_ref()).collect();
        assert_eq!(names, ["seawall", CEILING]);
    }

    /// Acknowledges every append without storing it.
    struct Quiet;

    impl Peer for Quiet {
        fn append(&self, _: usize, _: &[u8]) -> Done {
            Ok(())
        }

        fn append_set(&self, _: &[&[u8]]) -> Done {
            Ok(())
        }
    }
}
