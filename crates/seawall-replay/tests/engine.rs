//! Crashes the example engine at every step: committed transactions are applied exactly once,
//! aborted and unfinished ones not at all.
//!
//! The log is on a simulated disk. The store loses the newest batches in a crash, as real stores
//! do. After each crash the engine is opened with a store that lost none, half or all of them.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

#[allow(dead_code, unreachable_pub, missing_docs, reason = "the example is included unchanged")]
#[path = "../examples/engine.rs"]
mod example;

use crate::common::sample::{is_long, seed};
use example::{Engine, Error};
use seawall::Options;
use seawall_io::Storage;
use seawall_replay::{Batch, MemoryStore, Store, StoreError, Watermark};
use seawall_testkit::MemStorage;
use seawall_testkit::{CrashTest, Tried};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// All batches written to a store, so that the store can be rebuilt without the newest ones.
#[derive(Debug, Default)]
struct History {
    batches: Arc<Mutex<Vec<Batch>>>,
    store: MemoryStore,
}

impl History {
    /// Creates a store with the first `count` batches. It records later batches in `batches`.
    fn of(batches: Arc<Mutex<Vec<Batch>>>, count: usize) -> Self {
        let store = MemoryStore::new();
        let mut kept = lock(&batches);
        kept.truncate(count);
        kept.iter().for_each(|batch| store.write(batch).unwrap());
        drop(kept);
        Self { batches, store }
    }
}

fn lock(batches: &Mutex<Vec<Batch>>) -> MutexGuard<'_, Vec<Batch>> {
    batches.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for History {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        self.store.write(batch)?;
        lock(&self.batches).push(batch.clone());
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The acknowledged state, and the states allowed while a commit is in progress.
#[derive(Debug, Default)]
struct Witness {
    promised: Rows,
    may_be: Option<Rows>,
    has_table: bool,
}

impl Witness {
    /// Runs a commit that leads to `rows`. When it returns, the new state is acknowledged.
    fn commits<T>(
        &mut self,
        rows: Rows,
        commit: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(), Error> {
        self.may_be = Some(rows.clone());
        commit()?;
        (self.promised, self.may_be) = (rows, None);
        Ok(())
    }
}

fn rows(rows: &[(&str, u64)]) -> Rows {
    let row = |(key, number): &(&str, u64)| (key.as_bytes().to_vec(), number.to_le_bytes().into());
    rows.iter().map(row).collect()
}

/// Opens the engine without background threads, so that all runs take the same steps.
fn open(disk: &Arc<dyn Storage>, store: History) -> Result<Engine<History>, Error> {
    Engine::open_in(
        disk,
        &Options::new().preallocate(false).idle_mark(None).segment_size(1 << 20),
        store,
    )
}

fn put(
    transaction: &example::Transaction<'_, History>,
    key: &str,
    number: u64,
) -> Result<(), Error> {
    transaction.insert("t", key.as_bytes(), &number.to_le_bytes())
}

fn first_life(
    disk: &Arc<dyn Storage>,
    batches: &Arc<Mutex<Vec<Batch>>>,
    witness: &mut Witness,
) -> Result<(), Error> {
    let engine = open(disk, History::of(batches.clone(), 0))?;
    engine.create_table("t", b"numbers")?;
    witness.has_table = true;
    let (one, two, three) = (engine.begin()?, engine.begin()?, engine.begin()?);
    put(&one, "a", 1)?;
    put(&two, "b", 10)?;
    put(&three, "c", 100)?;
    one.add("t", b"a", 1)?;
    witness.commits(rows(&[("a", 2)]), || one.commit())?;
    // A long transaction commits.
    let four = engine.begin()?;
    four.add("t", b"a", 5)?;
    witness.commits(rows(&[("a", 7)]), || four.commit())?;
    two.add("t", b"b", 1)?;
    three.abort();
    witness.commits(rows(&[("a", 7), ("b", 11)]), || two.commit())?;
    // This transaction never ends. After a crash its number is reused.
    let five = engine.begin()?;
    five.delete("t", b"a")?;
    put(&five, "d", 1000)?;
    std::mem::forget(five);
    Ok(())
}

fn second_life(
    disk: &Arc<dyn Storage>,
    batches: &Arc<Mutex<Vec<Batch>>>,
    witness: &mut Witness,
) -> Result<(), Error> {
    let kept = lock(batches).len() / 2;
    let engine = open(disk, History::of(batches.clone(), kept))?;
    let transaction = engine.begin()?;
    transaction.add("t", b"a", 1)?;
    transaction.add("t", b"b", 1)?;
    witness.commits(rows(&[("a", 8), ("b", 12)]), || transaction.commit())?;
    let transaction = engine.begin()?;
    transaction.delete("t", b"b")?;
    put(&transaction, "b", 3)?;
    transaction.update("t", b"a", &9u64.to_le_bytes())?;
    witness.commits(rows(&[("a", 9), ("b", 3)]), || transaction.commit())?;
    let transaction = engine.begin()?;
    transaction.delete("t", b"a")?;
    witness.commits(rows(&[("b", 3)]), || transaction.commit())
}

/// Opens the engine with a store that kept `kept` batches, and returns its content.
fn recover(disk: &Arc<dyn Storage>, batches: &[Batch], kept: usize) -> Result<Recovered, Error> {
    let engine = open(disk, History::of(Arc::new(Mutex::new(batches.to_vec())), kept))?;
    let has_table = engine.definition("t")?.is_some();
    Ok(Recovered { kept, has_table, rows: engine.store().store.rows("t") })
}

#[derive(Debug)]
struct Recovered {
    kept: usize,
    has_table: bool,
    rows: Rows,
}

fn check(witness: &Witness, found: &Recovered) -> Result<(), String> {
    if witness.has_table && !found.has_table {
        return Err(format!("the table is lost: {found:?}"));
    }
    if found.rows == witness.promised || Some(&found.rows) == witness.may_be.as_ref() {
        return Ok(());
    }
    let Recovered { kept, rows, .. } = found;
    let found = format!("{rows:?} over a store of {kept} batches");
    Err(format!("{found} is not an allowed state: {witness:?}"))
}

fn every_crash() -> Result<Tried, seawall_testkit::Failure> {
    let batches = Arc::new(Mutex::new(Vec::new()));
    let long = CrashTest::new().cuts_max(5).second(256, 1);
    let usual = CrashTest::new().cuts_max(2).second(192, 1).seed(seed());
    if is_long() { long } else { usual }.run(
        |disk, witness: &mut Witness| {
            first_life(&disk, &batches, witness)?;
            second_life(&disk, &batches, witness)
        },
        |disk| {
            let all = lock(&batches).clone();
            let count = all.len();
            let kept = BTreeSet::from([count, count / 2, 0]);
            kept.into_iter().map(|kept| recover(&disk, &all, kept)).collect()
        },
        |witness, found: &Vec<Recovered>| found.iter().try_for_each(|one| check(witness, one)),
    )
}

#[test]
fn committed_transactions_survive_every_crash_once_and_others_do_not() {
    let tried = every_crash().unwrap();
    println!("{tried:?}");
    let least = if is_long() { (300, 50) } else { (150, 0) };
    assert!(tried.states > least.0 && tried.second >= least.1, "{tried:?}");
}

#[test]
fn refused_operation_changes_nothing() {
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let engine = open(&disk, History::default()).unwrap();
    engine.create_table("t", b"numbers").unwrap();
    let refused = |result: Result<(), Error>| result.unwrap_err().to_string();
    assert_eq!(
        engine.create_table("t", b"").unwrap_err().to_string(),
        "the table `t` already exists"
    );
    engine.create_table("", b"").unwrap_err();
    let one = engine.begin().unwrap();
    assert_eq!(refused(one.insert("u", b"k", b"v")), "no such table: `u`");
    assert_eq!(refused(one.update("t", b"k", b"v")), "no such row");
    assert_eq!(refused(one.delete("t", b"k")), "no such row");
    one.insert("t", b"k", b"v").unwrap();
    assert_eq!(refused(one.insert("t", b"k", b"w")), "the row already exists");
    assert_eq!(refused(one.add("t", b"k", 1)), "wrong type of value: 1 bytes, not 8");
    let two = engine.begin().unwrap();
    assert_eq!(
        refused(two.insert("t", b"k", b"w")),
        "conflict with transaction 1, which has changed this row"
    );
    assert_eq!(one.get("t", b"k").unwrap(), Some(b"v".to_vec()));
    assert_eq!((two.get("t", b"k").unwrap(), engine.get("t", b"k").unwrap()), (None, None));
    one.abort();
    two.insert("t", b"k", b"w").unwrap();
    two.commit().unwrap();
    assert_eq!(engine.get("t", b"k").unwrap(), Some(b"w".to_vec()));
}

#[test]
fn store_that_lost_nothing_needs_no_replay() {
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let (batches, mut witness) = (Arc::new(Mutex::new(Vec::new())), Witness::default());
    first_life(&disk, &batches, &mut witness).unwrap();
    let count = lock(&batches).len();
    for (kept, applied) in [(count, 0), (count - 1, 1), (0, 4)] {
        let store = History::of(Arc::new(Mutex::new(lock(&batches).clone())), kept);
        let engine = open(&disk, store).unwrap();
        let report = engine.recovered();
        assert_eq!((report.applied, report.unfinished), (applied, 1), "{report:?}");
        assert_eq!(engine.store().store.rows("t"), witness.promised);
    }
}
