//! Exactly-once replay: a replay is killed repeatedly at any moment and then runs to its end. Two
//! stores with separate watermarks must fail this test.
//!
//! The child process is the test binary itself: its test `child` does nothing without a task.

use crate::folder::Folder;
use crate::workload::{Content, expected, operations};
use seawall::versioned::Upgraded;
use seawall::{Log, LogReader, Lsn};
use seawall_replay::{
    Batch, Bounds, Ingest, NewRow, Operation, Replay, SortedRows, Store, StoreError, Watermark,
};
use seawall_tables::{Engine, Tables};
use seawall_testkit::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The task of the child: store kind, partitions, changes per batch, the point and the write at
/// which it aborts, whether it ingests, and the folder.
const TASK: &str = "SEAWALL_STORE_TASK";

/// Printed by the child after opening the store, followed by the last commit in it.
const OPENED: &str = "opened at ";

const KILLS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The real store.
    Together,
    /// The watermark is written in a separate batch after the rows.
    Later,
    /// The watermark is written to another database before the rows.
    Elsewhere,
}

/// The point of a write at which the process aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Never,
    Before,
    /// Between the rows and the watermark, which the real store writes together. In an ingestion,
    /// after some rows.
    Between,
    After,
}

const KINDS: [Kind; 3] = [Kind::Together, Kind::Later, Kind::Elsewhere];
const POINTS: [Point; 4] = [Point::Never, Point::Before, Point::Between, Point::After];

fn points(kind: Kind, ingests: bool) -> &'static [Point] {
    match kind {
        Kind::Together if ingests => &[Point::Before, Point::Between, Point::After],
        Kind::Together => &[Point::Before, Point::After],
        // Aborts at the critical point, so that the bug is always found.
        Kind::Later | Kind::Elsewhere => &[Point::Between],
    }
}

/// Kills replays of eight logs, twelve times each.
///
/// # Panics
///
/// If a key is wrong afterwards.
pub fn every_change_is_applied_once_despite_kills<E: Engine>() {
    for seed in 1..=8 {
        assert_eq!(wrong_keys::<E>(Kind::Together, false, seed), 0, "seed {seed}");
    }
}

/// Kills bulk recoveries of eight logs, twelve times each: before, within and after ingestions, and
/// at any time.
///
/// # Panics
///
/// If a key is wrong afterwards.
pub fn every_change_is_ingested_once_despite_kills<E: Engine>() {
    for seed in 1..=8 {
        assert_eq!(wrong_keys::<E>(Kind::Together, true, seed), 0, "seed {seed}");
    }
}

/// Returns whether this mistake leaves a wrong key in one of twelve logs. One log is not enough:
/// most kills come at a moment when the mistake does no harm.
fn is_caught<E: Engine>(kind: Kind, in_bulk: bool) -> bool {
    (1..=12).any(|seed| wrong_keys::<E>(kind, in_bulk, seed) > 0)
}

/// Checks that the test detects a watermark written after the ingestion.
///
/// # Panics
///
/// If the mistake is not caught.
pub fn watermark_written_after_the_ingestion_is_caught<E: Engine>() {
    assert!(is_caught::<E>(Kind::Later, true));
}

/// Kills a process while it creates a store.
///
/// # Panics
///
/// If the store cannot be opened afterwards.
pub fn store_killed_during_creation_is_created_by_the_next_open<E: Engine>() {
    let mut dice = Dice::new(1);
    let mut early = 0;
    for number in 0..40 {
        let folder = Folder::new(&format!("make-{}-{number}", E::NAME));
        let task = format!("Together 1 1 Never 0 false {}", folder.0.display());
        let mut child = child_for(&task);
        pause(Duration::from_micros(dice.below(30_000)));
        child.kill().unwrap();
        let said = child.wait_with_output().unwrap().stdout;
        early += usize::from(!String::from_utf8_lossy(&said).contains(OPENED));
        assert!(Tables::<E>::open(folder.0.join("store")).unwrap().tables().is_empty());
    }
    println!("killed 40 times, {early} of them before the store was open");
    assert!(early > 0);
}

/// Checks that the test detects a watermark written after the batch.
///
/// # Panics
///
/// If the mistake is not caught.
pub fn watermark_written_after_the_batch_is_caught<E: Engine>() {
    assert!(is_caught::<E>(Kind::Later, false));
}

/// Checks that the test detects a watermark in another database.
///
/// # Panics
///
/// If the mistake is not caught.
pub fn watermark_in_another_database_is_caught<E: Engine>() {
    assert!(is_caught::<E>(Kind::Elsewhere, false));
}

/// Replays a log with many kills, then to its end; returns the number of wrong keys.
fn wrong_keys<E: Engine>(kind: Kind, ingests: bool, seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let folder = Folder::new(&format!("kill-{}-{kind:?}-{ingests}-{seed}", E::NAME));
    let operations = operations(&mut dice);
    let log: Log<Operation, Upgraded> = Log::open(folder.0.join("log")).unwrap();
    for some in operations.chunks(1000) {
        log.append_batch(some).unwrap();
    }
    log.close().unwrap();

    let (mut timed, mut aborted, mut stood) = (0, 0, BTreeSet::new());
    for number in 0..KILLS {
        let partitions = 1 + dice.below(4);
        let changes_max = *dice.pick(&[1, 3, 20, 100]).unwrap();
        let point =
            if number % 2 == 0 { Point::Never } else { *dice.pick(points(kind, ingests)).unwrap() };
        // An ingestion covers all changes between two changes of tables, many more than a batch.
        let (writes, delay_us) = if ingests { (10, 100_000) } else { (100, 10_000) };
        let write = dice.below(writes);
        let task = Task { kind, partitions, changes_max, point, write, ingests };
        let delay = (point == Point::Never).then(|| Duration::from_micros(dice.below(delay_us)));
        let (ended, stands) = run(&task, &folder.0, delay);
        stood.insert(stands);
        match delay {
            Some(_) => timed += usize::from(!ended.success()),
            None => aborted += usize::from(!ended.success()),
        }
    }
    let (partitions, changes_max, point, write) = (2, 20, Point::Never, 0);
    let task = Task { kind, partitions, changes_max, point, write, ingests };
    let (ended, stands) = run(&task, &folder.0, None);
    assert!(ended.success(), "the last run is left alone");
    stood.insert(stands);
    let wrong = compare::<E>(&folder.0.join("store"), &expected(&operations));
    println!(
        "{kind:?}, seed {seed}: killed {timed} times and aborted {aborted}, {wrong} wrong keys; \
         begun again after the commits {stood:?} of a log of {} records",
        operations.len()
    );
    // Kills must have happened, and at different commits. A store with a mistake may refuse the
    // same table in every run.
    let has_advanced = stood.len() > 2 || kind != Kind::Together;
    assert!(timed > 0 && aborted > 0 && has_advanced, "a test without kills shows nothing");
    wrong
}

struct Task {
    kind: Kind,
    partitions: u64,
    changes_max: usize,
    point: Point,
    write: u64,
    ingests: bool,
}

/// Runs the child. With a delay, it is killed that long after it has opened the store. Returns its
/// exit status and the last commit in the store when it was opened.
fn run(task: &Task, folder: &Path, delay: Option<Duration>) -> (ExitStatus, u64) {
    let Task { kind, partitions, changes_max, point, write, ingests } = task;
    let folder = folder.display();
    let task = format!("{kind:?} {partitions} {changes_max} {point:?} {write} {ingests} {folder}");
    let mut child = child_for(&task);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut said, mut stands) = (String::new(), None);
    while stands.is_none() && stdout.read_line(&mut said).unwrap() > 0 {
        // The name of the test may precede the message.
        let line = said.split_once(OPENED).map(|(_, line)| line.trim());
        stands = line.map(|stands| stands.parse().unwrap());
    }
    if let Some(delay) = delay {
        pause(delay);
        child.kill().unwrap();
    }
    let (_, output) = (io::copy(&mut stdout, &mut io::sink()), child.wait_with_output().unwrap());
    // The child may be killed, abort, or succeed, but must not fail a test.
    let why = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(101), "a test in the child failed: {why}");
    (output.status, stands.expect("the child opens the store after every kill"))
}

fn child_for(task: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test must let the other process run")]
fn pause(delay: Duration) {
    std::thread::sleep(delay);
}

/// Runs the task in the environment, if there is one.
///
/// # Panics
///
/// If the task fails.
pub fn child<E: Engine>() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(7, ' ').collect();
    let [kind, partitions, changes_max, point, write, ingests, folder] = words[..] else {
        panic!("no task: {task}")
    };
    let folder = Path::new(folder);
    let store = Tables::<E>::open(folder.join("store")).unwrap();
    let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind).unwrap();
    let point = POINTS.into_iter().find(|known| format!("{known:?}") == point).unwrap();
    let marks = (kind == Kind::Elsewhere).then(|| Tables::open(folder.join("marks")).unwrap());
    let written = AtomicU64::new(0);
    let store = Killed { store, marks, kind, abort: (point, write.parse().unwrap()), written };
    let stands = store.watermarks().unwrap().iter().map(Watermark::applied_lsn).max();
    println!("{OPENED}{}", stands.flatten().map_or(0, Lsn::get));

    let reader: LogReader<Operation, Upgraded> = LogReader::open(folder.join("log")).unwrap();
    let changes_max = changes_max.parse().unwrap();
    let bounds = Bounds { changes_min: 1, changes_max, ..Bounds::default() };
    // Limits the memory, so that ingestions merge runs of a scratch file.
    let bulk_from = if ingests == "true" { 20 } else { u64::MAX };
    let replay = Replay::new().partitions(partitions.parse().unwrap()).batches(bounds);
    let replay = replay.bulk_from(bulk_from).memory(20_000);
    if kind == Kind::Together {
        replay.run(&reader, &store).unwrap();
    } else if let Err(error) = replay.run(&reader, &store) {
        // A store whose watermarks do not match its rows may refuse a table.
        println!("{error}");
    }
}

/// A store that aborts the process in one of its writes.
struct Killed<E> {
    store: Tables<E>,
    marks: Option<Tables<E>>,
    kind: Kind,
    abort: (Point, u64),
    written: AtomicU64,
}

impl<E: Engine> Killed<E> {
    fn at(&self, point: Point, number: u64) {
        // `>=`, because a batch can lack this point; an ingestion has all of them.
        if self.abort.0 == point && number >= self.abort.1 {
            std::process::abort();
        }
    }

    fn number(&self) -> u64 {
        let number = self.written.fetch_add(1, Ordering::SeqCst);
        self.at(Point::Before, number);
        number
    }

    fn write_apart(&self, batch: &Batch, number: u64) -> Result<(), StoreError> {
        let rows = Batch { writes: batch.writes.clone(), watermarks: vec![] };
        if self.kind == Kind::Later {
            self.store.write(&rows)?;
            self.at(Point::Between, number);
            let marks = Batch { writes: vec![], watermarks: batch.watermarks.clone() };
            return self.store.write(&marks);
        }
        if let Some(marks) = &self.marks {
            marks.write(&Batch { writes: vec![], watermarks: batch.watermarks.clone() })?;
        }
        self.at(Point::Between, number);
        self.store.write(&rows)
    }
}

impl<E: Engine> Store for Killed<E> {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.marks.as_ref().unwrap_or(&self.store).watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let number = self.number();
        match self.kind {
            Kind::Together => self.store.write(batch)?,
            Kind::Later | Kind::Elsewhere => self.write_apart(batch, number)?,
        }
        self.at(Point::After, number);
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()
    }

    /// Always four: partitions do not make every store faster, but must work with all of them.
    fn partitions_max(&self) -> usize {
        4
    }

    fn ingestion(&self) -> Option<&dyn Ingest> {
        self.store.ingestion().map(|_| self as &dyn Ingest)
    }
}

impl<E: Engine> Ingest for Killed<E> {
    fn sort_tables(&self, tables: &mut [String]) {
        self.store.sort_tables(tables);
    }

    fn ingest(
        &self,
        rows: &mut dyn SortedRows,
        watermarks: &[(u32, Watermark)],
    ) -> Result<(), StoreError> {
        let number = self.number();
        if self.kind == Kind::Together {
            let before = || self.at(Point::Between, number);
            self.store.ingest(&mut Tenth { rows, count: 0, before }, watermarks)?;
        } else {
            self.store.ingest(rows, &[])?;
            self.at(Point::Between, number);
            self.store.write(&Batch { writes: vec![], watermarks: watermarks.to_vec() })?;
        }
        self.at(Point::After, number);
        Ok(())
    }
}

/// Sorted rows that call `before` before the tenth row.
struct Tenth<'a, F> {
    rows: &'a mut dyn SortedRows,
    count: u32,
    before: F,
}

impl<F: Fn()> SortedRows for Tenth<'_, F> {
    fn next_row(&mut self) -> Result<Option<NewRow<'_>>, StoreError> {
        self.count += 1;
        if self.count == 10 {
            (self.before)();
        }
        self.rows.next_row()
    }
}

/// Returns the number of keys that are wrong, missing or unexpected.
fn compare<E: Engine>(path: &Path, expected: &Content) -> usize {
    let store = Tables::<E>::open(path).unwrap();
    let named = expected.keys().filter(|name| !name.is_empty());
    let has_tables = store.tables().iter().map(|(name, _)| name).eq(named);
    let wrong = |(name, rows): (&String, &BTreeMap<Vec<u8>, Vec<u8>>)| {
        let found: BTreeMap<_, _> = store.rows(name).map(Result::unwrap).collect();
        let changed = rows.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
        changed + found.keys().filter(|key| !rows.contains_key(*key)).count()
    };
    expected.iter().map(wrong).sum::<usize>() + usize::from(!has_tables)
}
