//! A small storage engine: tables with a catalog over any store, with Seawall as its log.
//!
//! Each change is logged before it is applied. When the record of a commit is durable, the changes
//! of the transaction are written to the store in one batch, together with the LSN of that record.
//! So a store that lost its newest batches in a crash knows which transactions it lacks, and
//! [`Engine::open`] replays exactly those.
//!
//! Two open transactions cannot change the same row. Other transactions see only committed rows.
//! Commits are serialized, each with its own sync.

#![forbid(unsafe_code)]

use seawall::versioned::Upgraded;
use seawall::{Log, LogReader, Lsn, Options};
use seawall_io::Storage;
use seawall_replay::{
    Batch, Change, Edit, MemoryStore, Operation, Operators, Replay, Report, Store, StoreError,
    TxId, Watermark, Write,
};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as Output;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The table that lists the tables, with a row for each.
const CATALOG: &str = "";

/// Tables over the store `S`.
#[derive(Debug)]
pub struct Engine<S> {
    log: Log<Operation, Upgraded>,
    store: S,
    state: Mutex<State>,
    recovered: Report,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<TxId, Open>,
    begun: u64,
    /// A record or a batch failed. Only the next open shows what became of it.
    is_broken: bool,
}

/// A table and a key.
type Row = (String, Vec<u8>);

/// An open transaction.
#[derive(Debug)]
struct Open {
    begin: Lsn,
    /// Its changes: the record, and the new value or `None` for a deleted row.
    rows: BTreeMap<Row, (Lsn, Option<Vec<u8>>)>,
}

/// The errors of the engine.
#[derive(Debug)]
pub enum Error {
    /// The table does not exist.
    NoTable(String),
    /// The table already exists, or its name is invalid.
    TableExists(String),
    /// The row already exists.
    RowExists,
    /// The row does not exist.
    NoRow,
    /// Another open transaction has changed this row.
    Conflict(TxId),
    /// The row's value does not permit this operation.
    Value(String),
    /// The log failed. Open the engine again.
    Log(seawall::Error),
    /// The store failed. Open the engine again.
    Store(StoreError),
    /// The replay failed.
    Replay(seawall_replay::Error),
    /// An earlier operation failed. Open the engine again.
    Broken,
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl<S: Store> Engine<S> {
    /// Opens the log in the directory `path`, creates it if it is missing, and brings `store` up to
    /// date.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::Replay`].
    pub fn open(path: impl AsRef<Path>, store: S) -> Result<Self> {
        let log = Log::open(&path)?;
        Self::recover(log, &LogReader::open(&path)?, store)
    }

    /// Opens a log on another kind of storage.
    ///
    /// # Errors
    ///
    /// As [`Engine::open`].
    pub fn open_in(disk: &Arc<dyn Storage>, options: &Options, store: S) -> Result<Self> {
        let log = options.open_in(disk.clone())?;
        Self::recover(log, &LogReader::open_in(disk.clone())?, store)
    }

    /// Opening the log has already repaired its tail. The replay uses a reader, so it cannot
    /// append.
    fn recover(
        log: Log<Operation, Upgraded>,
        reader: &LogReader<Operation, Upgraded>,
        store: S,
    ) -> Result<Self> {
        let recovered = Replay::new().run(reader, &store).map_err(Error::Replay)?;
        Ok(Self { log, store, state: Mutex::default(), recovered })
    }

    /// Returns the report of the replay at open.
    pub fn recovered(&self) -> &Report {
        &self.recovered
    }

    /// Returns the store, for reading.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the last committed value of this row.
    ///
    /// # Errors
    ///
    /// [`Error::NoTable`], [`Error::Store`].
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.definition(table)?.ok_or_else(|| Error::NoTable(table.to_owned()))?;
        Ok(self.store.get(table, key)?)
    }

    /// Returns the definition of a table; `None` if the table does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn definition(&self, table: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.store.get(CATALOG, table.as_bytes())?)
    }

    /// Creates a table, as a transaction of its own in one record.
    ///
    /// # Errors
    ///
    /// [`Error::TableExists`], [`Error::Log`], [`Error::Store`].
    pub fn create_table(&self, table: &str, definition: &[u8]) -> Result<Lsn> {
        let mut state = self.state()?;
        if table == CATALOG || self.definition(table)?.is_some() {
            return Err(Error::TableExists(table.to_owned()));
        }
        let create = Change::create_table(table, definition);
        let entry = Change::put(CATALOG, table, definition);
        let lsn = self.durable(&mut state, &Operation::Atomic(vec![create, entry]))?;
        let create = Edit::Create { definition: definition.to_vec() };
        let entry = Edit::Put { key: table.as_bytes().to_vec(), value: definition.to_vec() };
        let write = |table: &str, edit| Write { lsn, table: table.to_owned(), edit };
        self.apply(&mut state, lsn, vec![write(table, create), write(CATALOG, entry)])
    }

    /// Begins a transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::Broken`].
    pub fn begin(&self) -> Result<Transaction<'_, S>> {
        let mut state = self.state()?;
        // Restarts at one after each open: transactions from before the crash have ended.
        state.begun += 1;
        let id = TxId(state.begun);
        let begin = self.log.submit(&Operation::Begin(id))?.lsn();
        state.open.insert(id, Open { begin, rows: BTreeMap::new() });
        Ok(Transaction { engine: self, id })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_broken { Err(Error::Broken) } else { Ok(state) }
    }

    /// Logs the operation and waits until it and all records before it are durable.
    fn durable(&self, state: &mut State, operation: &Operation) -> Result<Lsn> {
        let appended = self.log.append(operation);
        state.is_broken |= appended.is_err();
        Ok(appended?)
    }

    /// Applies a transaction that is durable in the log. Called in commit order, with the lock
    /// held.
    fn apply(&self, state: &mut State, lsn: Lsn, writes: Vec<Write>) -> Result<Lsn> {
        // A replay after this commit must read the begins of all open transactions.
        let restart = state.open.values().map(|open| open.begin).fold(lsn.next(), Lsn::min);
        let written = self.write(lsn, restart, writes);
        // Later transactions must not be applied without this one.
        state.is_broken |= written.is_err();
        written?;
        Ok(lsn)
    }

    /// Writes the changes of the commit `lsn`, with a watermark that identifies the log and the
    /// record.
    fn write(&self, lsn: Lsn, restart: Lsn, writes: Vec<Write>) -> Result<()> {
        let mark = Watermark::new(self.log.id(), self.log.record_id(lsn)?, restart);
        Ok(self.store.write(&Batch { writes, watermarks: vec![(0, mark)] })?)
    }
}

/// An open transaction. Dropping it without a commit aborts it.
#[derive(Debug)]
pub struct Transaction<'a, S: Store> {
    engine: &'a Engine<S>,
    id: TxId,
}

impl<S: Store> Transaction<'_, S> {
    /// Returns the row as this transaction sees it.
    ///
    /// # Errors
    ///
    /// As [`Engine::get`].
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.engine.state()?;
        self.value(&state, table, key)
    }

    /// Inserts a new row.
    ///
    /// # Errors
    ///
    /// [`Error::RowExists`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn insert(&self, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(Change::put(table, key, value), |has| match has {
            Some(_) => Err(Error::RowExists),
            None => Ok(Some(value.to_vec())),
        })
    }

    /// Replaces the value of a row.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn update(&self, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let new = |has: Option<&[u8]>| has.map(|_| Some(value.to_vec())).ok_or(Error::NoRow);
        self.change(Change::put(table, key, value), new)
    }

    /// Adds to a 64-bit number. Logs the operation, not its result.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`], [`Error::Value`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn add(&self, table: &str, key: &[u8], number: u64) -> Result<()> {
        let operand = number.to_le_bytes();
        self.change(Change::merge(table, key, ("add", operand)), |has| {
            let sum = Operators::new().merge("add", Some(has.ok_or(Error::NoRow)?), &operand);
            sum.map(Some).map_err(Error::Value)
        })
    }

    /// Deletes a row.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn delete(&self, table: &str, key: &[u8]) -> Result<()> {
        self.change(Change::delete(table, key), |has| has.map(|_| None).ok_or(Error::NoRow))
    }

    /// Commits. Returns the LSN of the commit when it is durable and the store has the changes.
    ///
    /// # Errors
    ///
    /// After [`Error::Log`], only the next open shows whether the transaction was committed. After
    /// [`Error::Store`] it is committed, and the next open applies it. After [`Error::Broken`] it
    /// is not committed.
    pub fn commit(self) -> Result<Lsn> {
        let mut state = self.engine.state()?;
        let lsn = self.engine.durable(&mut state, &Operation::Commit(self.id))?;
        let rows = state.open.remove(&self.id).map(|open| open.rows).unwrap_or_default();
        // Sorted by table and key, one write per key, as a store requires.
        let writes = rows.into_iter().map(|((table, key), (lsn, value))| match value {
            Some(value) => Write { lsn, table, edit: Edit::Put { key, value } },
            None => Write { lsn, table, edit: Edit::Delete { key } },
        });
        self.engine.apply(&mut state, lsn, writes.collect())
    }

    /// Aborts. The store has never seen the changes.
    pub fn abort(self) {
        drop(self);
    }

    /// Checks that the row may be changed, logs the change, and records the new value.
    fn change(
        &self,
        change: Change,
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let mut state = self.engine.state()?;
        let row = (change.table().to_owned(), change.key().unwrap_or_default().to_vec());
        let mut others = state.open.iter().filter(|(id, _)| **id != self.id);
        if let Some((other, _)) = others.find(|(_, open)| open.rows.contains_key(&row)) {
            return Err(Error::Conflict(*other));
        }
        let value = new(self.value(&state, &row.0, &row.1)?.as_deref())?;
        // No sync needed: the commit will follow it, and without the commit it has no effect.
        let lsn = self.engine.log.submit(&Operation::Change(self.id, change))?.lsn();
        if let Some(open) = state.open.get_mut(&self.id) {
            open.rows.insert(row, (lsn, value));
        }
        Ok(())
    }

    fn value(&self, state: &State, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let own = state.open.get(&self.id).map(|open| &open.rows);
        match own.and_then(|rows| rows.get(&(table.to_owned(), key.to_vec()))) {
            Some((_, value)) => Ok(value.clone()),
            None => self.engine.get(table, key),
        }
    }
}

impl<S: Store> Drop for Transaction<'_, S> {
    fn drop(&mut self) {
        let Ok(mut state) = self.engine.state() else { return };
        if state.open.remove(&self.id).is_some() {
            // If this record is lost, the transaction counts as unfinished, with the same effect.
            let _ = self.engine.log.submit(&Operation::Abort(self.id));
        }
    }
}

impl From<seawall::Error> for Error {
    fn from(error: seawall::Error) -> Self {
        Self::Log(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable(table) => write!(f, "no such table: `{table}`"),
            Self::TableExists(table) => write!(f, "the table `{table}` already exists"),
            Self::RowExists => f.write_str("the row already exists"),
            Self::NoRow => f.write_str("no such row"),
            Self::Conflict(tx) => {
                write!(f, "conflict with transaction {tx}, which has changed this row")
            }
            Self::Value(why) => write!(f, "wrong type of value: {why}"),
            Self::Log(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Replay(error) => error.fmt(f),
            Self::Broken => f.write_str("an earlier operation failed: open the engine again"),
        }
    }
}

impl std::error::Error for Error {}

/// The error of a demonstration.
pub type Any = Box<dyn std::error::Error>;

/// Opens a bank, makes a payment, stops in the middle of a second one, and recovers.
///
/// # Errors
///
/// The log, the store or the output failed.
pub fn demonstrate<S: Store>(
    log: &Path,
    open_store: impl Fn() -> std::result::Result<S, Any>,
    out: &mut impl Output,
) -> std::result::Result<(), Any> {
    let bank = Engine::open(log, open_store()?)?;
    bank.create_table("account", b"cents, a number of 64 bits")?;
    let opening = bank.begin()?;
    opening.insert("account", b"ada", &300u64.to_le_bytes())?;
    opening.insert("account", b"bob", &0u64.to_le_bytes())?;
    opening.commit()?;
    let lsn = pay(&bank)?.commit()?;
    writeln!(out, "ada paid bob 1.00 in record {lsn}")?;
    // Simulates a crash: the transaction neither commits nor aborts.
    std::mem::forget(pay(&bank)?);
    drop(bank);

    let bank = Engine::open(log, open_store()?)?;
    let Report { applied, unfinished, .. } = bank.recovered();
    writeln!(out, "recovered: {applied} transactions replayed, {unfinished} unfinished")?;
    for name in ["ada", "bob"] {
        let cents = bank.get("account", name.as_bytes())?.unwrap_or_default();
        writeln!(out, "{name} has {} cents", u64::from_le_bytes(cents.as_slice().try_into()?))?;
    }
    Ok(())
}

fn pay<S: Store>(bank: &Engine<S>) -> Result<Transaction<'_, S>> {
    let payment = bank.begin()?;
    payment.add("account", b"ada", 100u64.wrapping_neg())?;
    payment.add("account", b"bob", 100)?;
    Ok(payment)
}

fn main() -> std::result::Result<(), Any> {
    let name = format!("seawall-engine-{}", std::process::id());
    let log = std::env::temp_dir().join(name);
    let mut out = std::io::stdout().lock();
    demonstrate(&log, || Ok(MemoryStore::new()), &mut out)?;
    Ok(writeln!(out, "the log stays in {}", log.display())?)
}
