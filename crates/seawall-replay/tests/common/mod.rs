//! Typical operation logs, the state that a store must have after them, and a store that simulates
//! crashes.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test uses a part of this module, and a panic reports a failure"
)]

/// Selects a sample of the cases, a new one each day: shared with the tests of the log.
#[allow(unreachable_pub, clippy::print_stdout, reason = "another program reads the output")]
#[path = "../../../seawall/tests/common/sample.rs"]
pub(crate) mod sample;

/// The divisor of a sample's size, for `sample`: 1, because these logs are not encoded.
pub(crate) fn sample_divisor() -> u64 {
    1
}

use seawall::{Log, LogReader, Lsn, Options};
use seawall_io::Storage;
use seawall_replay::{
    Batch, Change, Edit, Ingest, Logged, MemoryStore, Operation, SortedRows, Store, StoreError,
    TxId, Watermark, Write,
};
use seawall_testkit::{Dice, MemStorage};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tables with their rows.
pub(crate) type Rows = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The random numbers that select a sample.
#[derive(Debug)]
pub(crate) struct Random(Dice);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }
}

/// Creates a log in memory with these operations.
pub(crate) fn log_of(operations: &[Operation]) -> LogReader<Operation> {
    let (log, reader) = open_log();
    let mut rest = operations;
    while !rest.is_empty() {
        let (some, others) = rest.split_at(rest.len().min(100));
        log.append_batch(some).unwrap();
        rest = others;
    }
    log.close().unwrap();
    reader
}

/// Creates an empty log in memory, and a reader of it.
pub(crate) fn open_log() -> (Log<Operation>, LogReader<Operation>) {
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let quiet = Options::new().preallocate(false).idle_mark(None);
    let log = quiet.open_in(disk.clone()).unwrap();
    (log, LogReader::open_in(disk).unwrap())
}

/// Generates the interleaved operations of several clients. Transactions have one to four changes.
/// Three quarters of these are puts, the others additions, which would count twice if applied
/// twice. Some transactions abort, some never end, and sometimes a table is created or dropped.
pub(crate) fn operations(seed: u64, count: usize) -> Vec<Operation> {
    let mut dice = Dice::new(seed);
    let mut open: Vec<(TxId, u64)> = Vec::new();
    let mut operations = vec![Change::create_table("t", "rows").into()];
    let mut has_side = false;
    while operations.len() < count {
        let turn = dice.below(20);
        if open.len() < 6 && (open.is_empty() || turn < 4) {
            // Numbers are reused, also those of transactions that never ended.
            let tx = TxId(dice.below(12));
            open.retain(|(other, _)| *other != tx);
            open.push((tx, 1 + dice.below(4)));
            operations.push(Operation::Begin(tx));
        } else if turn == 4 {
            has_side = !has_side;
            let (change, key) = if has_side {
                (Change::create_table("side", ""), "k0")
            } else {
                (Change::drop_table("side"), "k1")
            };
            let mut changes = vec![change, Change::merge("t", key, ("add", 1u64.to_le_bytes()))];
            if has_side {
                changes.push(Change::merge("side", key, ("add", 1u64.to_le_bytes())));
            }
            operations.push(Operation::Atomic(changes));
        } else if turn < 7 {
            operations.push(change(&mut dice).into());
        } else {
            let at = usize::try_from(dice.below(open.len() as u64)).unwrap();
            let (tx, left) = &mut open[at];
            let tx = *tx;
            if *left > 0 {
                *left -= 1;
                operations.push(Operation::Change(tx, change(&mut dice)));
            } else {
                open.remove(at);
                operations.push(match dice.below(6) {
                    0 => Operation::Abort(tx),
                    1 => continue, // This transaction never ends.
                    _ => Operation::Commit(tx),
                });
            }
        }
    }
    operations
}

fn change(dice: &mut Dice) -> Change {
    let key = key(dice.below(40));
    match dice.below(8) {
        0 | 1 => Change::merge("t", key, ("add", (1 + dice.below(100)).to_le_bytes())),
        2 => Change::delete("t", key),
        _ => Change::put("t", key, dice.any().to_le_bytes()),
    }
}

/// Returns a key. A quarter of the keys differ only after many bytes.
pub(crate) fn key(number: u64) -> String {
    if number % 4 == 3 { format!("key that is long {number}") } else { format!("k{number}") }
}

/// Computes the rows after the commits up to `until`, one by one.
pub(crate) fn expected(operations: &[Operation], until: Option<Lsn>) -> Rows {
    let mut open: BTreeMap<TxId, Vec<Change>> = BTreeMap::new();
    let mut rows = Rows::from([(String::new(), BTreeMap::new())]);
    for (lsn, operation) in (1..).filter_map(Lsn::new).zip(operations) {
        if until.is_some_and(|until| lsn > until) {
            break;
        }
        match operation.clone().operation().unwrap() {
            Operation::Begin(tx) => drop(open.insert(tx, vec![])),
            Operation::Change(tx, change) => open.get_mut(&tx).unwrap().push(change),
            Operation::Abort(tx) => drop(open.remove(&tx)),
            Operation::Commit(tx) => {
                for change in open.remove(&tx).unwrap() {
                    apply(&mut rows, change);
                }
            }
            Operation::Atomic(changes) => {
                for change in changes {
                    apply(&mut rows, change);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    rows
}

fn apply(rows: &mut Rows, change: Change) {
    match change {
        Change::CreateTable { table, .. } => drop(rows.insert(table, BTreeMap::new())),
        Change::DropTable { table } => drop(rows.remove(&table)),
        Change::Put { table, key, value } => drop(rows.get_mut(&table).unwrap().insert(key, value)),
        Change::Delete { table, key } => drop(rows.get_mut(&table).unwrap().remove(&key)),
        Change::Merge { table, key, operand, .. } => {
            let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
            let has = rows.get_mut(&table).unwrap().entry(key).or_insert(vec![0; 8]);
            *has = number(has).wrapping_add(number(&operand)).to_le_bytes().to_vec();
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the rows of a store.
pub(crate) fn found(store: &MemoryStore) -> Rows {
    let names = store.tables().into_iter().map(|(name, _)| name).chain([String::new()]);
    names.map(|name| (name.clone(), store.rows(&name))).collect()
}

/// Counts the keys that differ.
pub(crate) fn wrong_keys(one: &Rows, other: &Rows) -> usize {
    let empty = BTreeMap::new();
    let tables = one.keys().chain(other.keys()).collect::<std::collections::BTreeSet<_>>();
    let wrong_in = |table: &&String| {
        let (one, other) = (one.get(*table).unwrap_or(&empty), other.get(*table).unwrap_or(&empty));
        let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
        keys.iter().filter(|key| one.get(**key) != other.get(**key)).count()
    };
    tables.iter().map(wrong_in).sum()
}

/// How a store writes a batch and its watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Atomically, as the contract requires.
    Together,
    /// The watermark in a separate write after the batch: the first negative control.
    Apart,
    /// The watermark in another part of the store, which loses its newest writes independently: the
    /// second negative control.
    Elsewhere,
}

/// A store that crashes at a chosen write, and keeps a random number of the newest unflushed
/// writes.
pub(crate) struct DyingStore {
    manner: Manner,
    store: MemoryStore,
    /// All writes in order. Rows and watermarks are separate in the second control.
    written: Mutex<[Vec<Batch>; 2]>,
    writes: AtomicU64,
    dies_at: u64,
}

impl DyingStore {
    /// Creates a store that crashes at write number `dies_at`.
    pub(crate) fn new(manner: Manner, dies_at: u64) -> Self {
        Self::of(manner, [vec![], vec![]], dies_at)
    }

    fn of(manner: Manner, written: [Vec<Batch>; 2], dies_at: u64) -> Self {
        let store = MemoryStore::new();
        written.iter().flatten().for_each(|batch| store.write(batch).unwrap());
        Self { manner, store, written: Mutex::new(written), writes: AtomicU64::new(0), dies_at }
    }

    /// Reopens the store after a crash; the next crash is at write `dies_at`. `kept` returns how
    /// many of the given number of unflushed writes survive.
    pub(crate) fn reopened(self, dies_at: u64, mut kept: impl FnMut(usize) -> usize) -> Self {
        let mut written = self.written.into_inner().unwrap();
        for part in &mut written {
            let left = kept(part.len());
            part.truncate(left);
        }
        Self::of(self.manner, written, dies_at)
    }

    /// The number of writes since the store was opened.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    pub(crate) fn rows(&self) -> Rows {
        found(&self.store)
    }

    fn step(&self) -> Result<(), StoreError> {
        if self.writes.fetch_add(1, Ordering::Relaxed) < self.dies_at {
            Ok(())
        } else {
            Err(StoreError::failed("the process was killed"))
        }
    }

    fn put(&self, part: usize, batch: &Batch) -> Result<(), StoreError> {
        assert!(is_sorted(batch), "{batch:?}");
        // All threads share one journal, as in real stores.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        self.step()?;
        self.store.write(batch)?;
        written[part].push(batch.clone());
        Ok(())
    }
}

/// Returns whether a batch is sorted by table and key, each key once, or changes tables.
fn is_sorted(batch: &Batch) -> bool {
    let key = |write: &Write| match &write.edit {
        Edit::Put { key, .. } | Edit::Delete { key } => Some((write.table.clone(), key.clone())),
        Edit::Create { .. } | Edit::Drop => None,
    };
    let keys = batch.writes.iter().map(key).collect::<Option<Vec<_>>>();
    keys.is_none_or(|keys| keys.is_sorted_by(|one, next| one < next))
}

impl Store for DyingStore {
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
        self.store.watermarks()
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(table, key)
    }

    fn write(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.manner == Manner::Together {
            return self.put(0, batch);
        }
        let part = usize::from(self.manner == Manner::Elsewhere);
        self.put(0, &Batch { writes: batch.writes.clone(), watermarks: vec![] })?;
        self.put(part, &Batch { writes: vec![], watermarks: batch.watermarks.clone() })
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.step()
    }

    fn partitions_max(&self) -> usize {
        4
    }

    fn ingestion(&self) -> Option<&dyn Ingest> {
        Some(self)
    }
}

/// Rows are ingested as they are written: atomically, or apart from their watermarks.
impl Ingest for DyingStore {
    /// Sorts the tables in descending order: a store may choose any order.
    fn sort_tables(&self, tables: &mut [String]) {
        tables.sort_by(|one, other| other.cmp(one));
    }

    fn ingest(
        &self,
        rows: &mut dyn SortedRows,
        watermarks: &[(u32, Watermark)],
    ) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        while let Some(row) = rows.next_row()? {
            self.step()?;
            writes.push(row.to_write());
        }
        let row = |write: &Write| match &write.edit {
            Edit::Put { key, .. } | Edit::Delete { key } => {
                (Reverse(write.table.clone()), key.clone())
            }
            other => panic!("{other:?} is no row"),
        };
        assert!(writes.iter().map(row).is_sorted_by(|one, other| one < other), "{writes:?}");
        let mut batch = Batch { writes, watermarks: watermarks.to_vec() };
        batch.writes.sort_by(|one, other| one.table.cmp(&other.table));
        self.write(&batch)
    }
}
