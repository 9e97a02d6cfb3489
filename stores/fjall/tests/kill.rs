//! Exactly-once replay: a replay is killed repeatedly at any moment and then runs to its end. Two
//! stores with separate watermarks must fail this test.
//!
//! The child process is this test binary itself: the test `child` does nothing without a task.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a panic is the report of a test"
)]

mod common;

use common::Folder;
use seawall::versioned::Upgraded;
use seawall::{Log, LogReader, Lsn};
use seawall_fjall::{FjallStore, fjall};
use seawall_replay::{
    Batch, Bounds, Change, Operation, Operators, Replay, Store, StoreError, TxId, Watermark,
};
use seawall_testkit::Dice;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The task of the child: store kind, folder, partitions, changes per batch, and the write and
/// point at which it aborts.
const TASK: &str = "SEAWALL_FJALL_TASK";

/// Printed by the child after opening the store, followed by the last commit in it.
const OPENED: &str = "opened at ";

const TRANSACTIONS: u64 = 6_000;
const KILLS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The real store.
    Together,
    /// The watermark is written in a separate batch after the rows.
    Later,
    /// The watermark is written to another keyspace before the rows.
    Elsewhere,
}

/// The point of a write at which the process aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Never,
    Before,
    /// Between rows and watermark, which the real store writes together.
    Between,
    After,
}

const KINDS: [Kind; 3] = [Kind::Together, Kind::Later, Kind::Elsewhere];
const POINTS: [Point; 4] = [Point::Never, Point::Before, Point::Between, Point::After];

fn points(kind: Kind) -> &'static [Point] {
    match kind {
        Kind::Together => &[Point::Before, Point::After],
        // At the critical point, so that the bug is always found.
        Kind::Later | Kind::Elsewhere => &[Point::Between],
    }
}

#[test]
fn every_change_is_applied_once_despite_kills() {
    for seed in 1..=8 {
        assert_eq!(wrong_keys(Kind::Together, seed), 0, "seed {seed}");
    }
}

#[test]
fn store_killed_during_creation_is_created_by_the_next_open() {
    let mut dice = Dice::new(1);
    let mut early = 0;
    for number in 0..40 {
        let folder = Folder::new(&format!("make-{number}"));
        let task = format!("Together 1 1 Never 0 {}", folder.0.display());
        let mut child = child_for(&task);
        pause(Duration::from_micros(dice.below(30_000)));
        child.kill().unwrap();
        let said = child.wait_with_output().unwrap().stdout;
        early += usize::from(!String::from_utf8_lossy(&said).contains(OPENED));
        assert!(FjallStore::open(folder.0.join("store")).unwrap().tables().is_empty());
    }
    println!("killed 40 times, {early} of them before the store was open");
    assert!(early > 0);
}

#[test]
fn watermark_written_after_the_batch_is_caught() {
    let wrong: usize = (1..=2).map(|seed| wrong_keys(Kind::Later, seed)).sum();
    assert!(wrong > 0);
}

#[test]
fn watermark_in_another_keyspace_is_caught() {
    let wrong: usize = (1..=2).map(|seed| wrong_keys(Kind::Elsewhere, seed)).sum();
    assert!(wrong > 0);
}

/// Replays a log with many kills, then to its end; returns the number of wrong keys.
fn wrong_keys(kind: Kind, seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let folder = Folder::new(&format!("kill-{kind:?}-{seed}"));
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
        let point = if number % 2 == 0 { Point::Never } else { *dice.pick(points(kind)).unwrap() };
        let task = Task { kind, partitions, changes_max, point, write: dice.below(100) };
        let delay = (point == Point::Never).then(|| Duration::from_micros(dice.below(10_000)));
        let (ended, stands) = run(&task, &folder.0, delay);
        stood.insert(stands);
        match delay {
            Some(_) => timed += usize::from(!ended.success()),
            None => aborted += usize::from(!ended.success()),
        }
    }
    let task = Task { kind, partitions: 2, changes_max: 20, point: Point::Never, write: 0 };
    let (ended, stands) = run(&task, &folder.0, None);
    assert!(ended.success(), "the last run is left alone");
    stood.insert(stands);
    let wrong = compare(&folder.0.join("store"), &expected(&operations));
    println!(
        "{kind:?}, seed {seed}: killed {timed} times and aborted {aborted}, {wrong} wrong keys; \
         begun again after the commits {stood:?} of a log of {} records",
        operations.len()
    );
    // The kills must have happened, and at different commits.
    assert!(timed > 0 && aborted > 0 && stood.len() > 2, "a test without kills shows nothing");
    wrong
}

struct Task {
    kind: Kind,
    partitions: u64,
    changes_max: usize,
    point: Point,
    write: u64,
}

/// Runs the child. With a delay, it is killed that long after it has opened the store. Returns its
/// exit status and the last commit in the store when it was opened.
fn run(task: &Task, folder: &Path, delay: Option<Duration>) -> (ExitStatus, u64) {
    let Task { kind, partitions, changes_max, point, write } = task;
    let folder = folder.display();
    let mut child =
        child_for(&format!("{kind:?} {partitions} {changes_max} {point:?} {write} {folder}"));
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut said, mut stands) = (String::new(), None);
    while stands.is_none() && stdout.read_line(&mut said).unwrap() > 0 {
        // The test's name may precede it.
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

#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let words: Vec<&str> = task.splitn(6, ' ').collect();
    let [kind, partitions, changes_max, point, write, folder] = words[..] else {
        panic!("no task: {task}")
    };
    let folder = Path::new(folder);
    let store = FjallStore::open(folder.join("store")).unwrap();
    let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind).unwrap();
    let point = POINTS.into_iter().find(|known| format!("{known:?}") == point).unwrap();
    let marks = store.database().keyspace("marks", Default::default).unwrap();
    let written = AtomicU64::new(0);
    let store = Killed { store, marks, kind, abort: (point, write.parse().unwrap()), written };
    let stands = store.watermarks().unwrap().iter().map(Watermark::applied_lsn).max();
    println!("{OPENED}{}", stands.flatten().map_or(0, Lsn::get));

    let reader: LogReader<Operation, Upgraded> = LogReader::open(folder.join("log")).unwrap();
    let changes_max = changes_max.parse().unwrap();
    let bounds = Bounds { changes_min: 1, changes_max, ..Bounds::default() };
    let replay = Replay::new().partitions(partitions.parse().unwrap()).batches(bounds);
    if kind == Kind::Together {
        replay.run(&reader, &store).unwrap();
    } else if let Err(error) = replay.run(&reader, &store) {
        // A store whose watermarks do not match its rows may refuse a table.
        println!("{error}");
    }
}

/// A store that aborts the process in one of its writes.
struct Killed {
    store: FjallStore,
    marks: fjall::Keyspace,
    kind: Kind,
    abort: (Point, u64),
    written: AtomicU64,
}

impl Killed {
    fn at(&self, point: Point, number: u64) {
        if self.abort == (point, number) {
            std::process::abort();
        }
    }

    fn write_apart(&self, batch: &Batch, number: u64) -> Result<(), StoreError> {
        let rows = Batch { writes: batch.writes.clone(), watermarks: vec![] };
        if self.kind == Kind::Later {
            self.store.write(&rows)?;
            self.at(Point::Between, number);
            let marks = Batch { writes: vec![], watermarks: batch.watermarks.clone() };
            return self.store.write(&marks);
        }
        for (partition, mark) in &batch.watermarks {
            let marked = self.marks.insert(partition.to_be_bytes(), mark.to_bytes());
            marked.map_err(StoreError::failed)?;
        }
        self.at(Point::Between, number);
        self.store.write(&rows)
    }
}

impl Store for Killed {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        if self.kind != Kind::Elsewhere {
            return self.store.watermarks();
        }
        self.marks.iter().map(|mark| Watermark::from_bytes(&mark.value().unwrap())).collect()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        let number = self.written.fetch_add(1, Ordering::SeqCst);
        self.at(Point::Before, number);
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

    /// Partitions are not faster with this store, but must work.
    fn partitions_max(&self) -> usize {
        4
    }
}

/// A log of transactions with one to four changes, several at the same time: committed, aborted,
/// and unfinished; and atomic ones that drop a table and create it again.
fn operations(dice: &mut Dice) -> Vec<Operation> {
    let mut operations = vec![
        Change::create_table("sum", "numbers").into(),
        Change::create_table("mixed", "").into(),
        Change::create_table("anew", "").into(),
    ];
    let mut open: Vec<(TxId, u64)> = Vec::new();
    let mut begun = 0;
    while begun < TRANSACTIONS || !open.is_empty() {
        if begun < TRANSACTIONS && (open.len() < 5 || dice.one_in(3)) {
            begun += 1;
            let tx = TxId(begun);
            open.push((tx, 1 + dice.below(4)));
            operations.push(Operation::Begin(tx));
        }
        let at = usize::try_from(dice.below(u64::try_from(open.len()).unwrap())).unwrap();
        let (tx, left) = open[at];
        if left > 0 {
            open[at].1 -= 1;
            operations.push(Operation::Change(tx, change(dice)));
            continue;
        }
        open.remove(at);
        match dice.below(10) {
            0 => operations.push(Operation::Abort(tx)),
            // Unfinished. Not among the first ones, because reading would always start there.
            1 if begun > TRANSACTIONS / 2 => {}
            _ => operations.push(Operation::Commit(tx)),
        }
        if dice.one_in(200) {
            operations.push(Operation::Atomic(table_anew(dice)));
        }
    }
    operations
}

fn change(dice: &mut Dice) -> Change {
    let (key, value) = (dice_number(dice.any()), (1 + dice.below(99)).to_le_bytes());
    let add = |table: &str| Change::merge(table, key, ("add", value));
    match dice.below(8) {
        0..4 => add("sum"),
        4 => add("mixed"),
        5 => Change::put("mixed", key, value),
        6 => Change::delete("mixed", key),
        _ => Change::put("", key, value),
    }
}

fn dice_number(number: u64) -> [u8; 8] {
    (number % 500).to_le_bytes()
}

/// Drops and recreates a table twice in one record, so that two tables get ids of the same record.
fn table_anew(dice: &mut Dice) -> Vec<Change> {
    let row = |key: u64| Change::merge("anew", dice_number(key), ("add", 1u64.to_le_bytes()));
    let anew = [Change::drop_table("anew"), Change::create_table("anew", dice_number(dice.any()))];
    let rows = [row(dice.any()), row(dice.any())];
    [&anew[..], &rows[..1], &anew[..], &rows[1..]].concat()
}

type Tables = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The expected content after the replay.
fn expected(operations: &[Operation]) -> Tables {
    let mut tables = Tables::new();
    let mut open: BTreeMap<TxId, Vec<Change>> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::Begin(tx) => drop(open.insert(*tx, vec![])),
            Operation::Change(tx, change) => open.get_mut(tx).unwrap().push(change.clone()),
            Operation::Commit(tx) => apply(&mut tables, &open.remove(tx).unwrap()),
            Operation::Abort(tx) => drop(open.remove(tx)),
            Operation::Atomic(changes) => apply(&mut tables, changes),
            other => panic!("{other:?} is not made here"),
        }
    }
    tables
}

fn apply(tables: &mut Tables, changes: &[Change]) {
    for change in changes {
        let rows = tables.entry(change.table().to_owned()).or_default();
        match change.clone() {
            Change::Put { key, value, .. } => drop(rows.insert(key, value)),
            Change::Delete { key, .. } => drop(rows.remove(&key)),
            Change::Merge { key, operator, operand, .. } => {
                let has = rows.get(&key).map(Vec::as_slice);
                let value = Operators::new().merge(&operator, has, &operand).unwrap();
                rows.insert(key, value);
            }
            _ => rows.clear(),
        }
    }
}

/// The number of keys with a wrong value, and of missing and unexpected ones.
fn compare(path: &Path, expected: &Tables) -> usize {
    let store = FjallStore::open(path).unwrap();
    let named = expected.keys().filter(|name| !name.is_empty());
    let has_tables = store.tables().iter().map(|(name, _)| name).eq(named);
    let wrong = |(name, rows): (&String, &BTreeMap<Vec<u8>, Vec<u8>>)| {
        let found: BTreeMap<_, _> = store.rows(name).map(Result::unwrap).collect();
        let changed = rows.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
        changed + found.keys().filter(|key| !rows.contains_key(*key)).count()
    };
    expected.iter().map(wrong).sum::<usize>() + usize::from(!has_tables)
}
