//! A small engine: tables with a catalog over any store, with Seawall as its log.
//!
//! Each change is logged before it is done. Those of a transaction reach the store when the record
//! of its commit is durable, in one batch with the number of that record; so the store, whatever it
//! lost in a crash, knows what it lacks, and [`Engine::open`] replays that and no more.
//!
//! No two open transactions change the same row; what others read is what was committed. Commits go
//! one after the other, each with a sync of its own.

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

/// The table of tables: a row for each, by name.
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
    /// A record or a batch failed, and what became of it is known only after the next open.
    is_broken: bool,
}

/// Its table and its key.
type Row = (String, Vec<u8>);

/// A transaction that has not ended.
#[derive(Debug)]
struct Open {
    begin: Lsn,
    /// What it changes: the record, and the new value; none for a row that goes.
    rows: BTreeMap<Row, (Lsn, Option<Vec<u8>>)>,
}

/// What the engine does not do, and why.
#[derive(Debug)]
pub enum Error {
    /// The table is not there.
    NoTable(String),
    /// The table is there already, or its name cannot be one.
    TableExists(String),
    /// The row is there already.
    RowExists,
    /// The row is not there.
    NoRow,
    /// Another transaction, which is open, changes this row.
    Conflict(TxId),
    /// What the row has cannot be changed like this.
    Value(String),
    /// The log failed: open the engine again.
    Log(seawall::Error),
    /// The store failed: open the engine again.
    Store(StoreError),
    /// The store cannot be brought back.
    Replay(seawall_replay::Error),
    /// Something failed before: open the engine again.
    Broken,
}

type Result<T, E = Error> = std::result::Result<T, E>;

impl<S: Store> Engine<S> {
    /// Opens the log in the folder `path`, or makes one, and brings `store` to where the log is.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], [`Error::Replay`].
    pub fn open(path: impl AsRef<Path>, store: S) -> Result<Self> {
        let log = Log::open(&path)?;
        Self::recover(log, &LogReader::open(&path)?, store)
    }

    /// The same for a log on another kind of storage.
    ///
    /// # Errors
    ///
    /// As [`Engine::open`].
    pub fn open_in(disk: &Arc<dyn Storage>, options: &Options, store: S) -> Result<Self> {
        let log = options.open_in(disk.clone())?;
        Self::recover(log, &LogReader::open_in(disk.clone())?, store)
    }

    /// Opening the log has judged what a crash left of it. What the store lacks comes through a
    /// reader, so that nothing can be logged by replaying it.
    fn recover(
        log: Log<Operation, Upgraded>,
        reader: &LogReader<Operation, Upgraded>,
        store: S,
    ) -> Result<Self> {
        let recovered = Replay::new().run(reader, &store).map_err(Error::Replay)?;
        Ok(Self { log, store, state: Mutex::default(), recovered })
    }

    /// What was replayed when it was opened.
    pub fn recovered(&self) -> &Report {
        &self.recovered
    }

    /// The store, to read from.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What was committed last for this row.
    ///
    /// # Errors
    ///
    /// [`Error::NoTable`], [`Error::Store`].
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.definition(table)?.ok_or_else(|| Error::NoTable(table.to_owned()))?;
        Ok(self.store.get(table, key)?)
    }

    /// What was said of a table when it was created; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn definition(&self, table: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.store.get(CATALOG, table.as_bytes())?)
    }

    /// Creates a table: a transaction of its own, in one record.
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
        // From one again after each open: what was under way before has ended with that.
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

    /// Logs what decides, and waits until that and all before it is durable.
    fn durable(&self, state: &mut State, operation: &Operation) -> Result<Lsn> {
        let appended = self.log.append(operation);
        state.is_broken |= appended.is_err();
        Ok(appended?)
    }

    /// Does what is durable in the log. Called in the order of commits, under the lock.
    fn apply(&self, state: &mut State, lsn: Lsn, writes: Vec<Write>) -> Result<Lsn> {
        // Who replays behind this commit needs the transactions that are open from their begin.
        let restart = state.open.values().map(|open| open.begin).fold(lsn.next(), Lsn::min);
        let written = self.write(lsn, restart, writes);
        // The next one may not go in without this one.
        state.is_broken |= written.is_err();
        written?;
        Ok(lsn)
    }

    /// Writes what the commit `lsn` does, and with it which record of which log that is.
    fn write(&self, lsn: Lsn, restart: Lsn, writes: Vec<Write>) -> Result<()> {
        let mark = Watermark::new(self.log.id(), self.log.record_id(lsn)?, restart);
        Ok(self.store.write(&Batch { writes, watermarks: vec![(0, mark)] })?)
    }
}

/// A transaction that is open. Dropped without a commit it is aborted.
#[derive(Debug)]
pub struct Transaction<'a, S: Store> {
    engine: &'a Engine<S>,
    id: TxId,
}

impl<S: Store> Transaction<'_, S> {
    /// The row as this transaction sees it.
    ///
    /// # Errors
    ///
    /// As [`Engine::get`].
    pub fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = self.engine.state()?;
        self.value(&state, table, key)
    }

    /// Puts a row that is not there.
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

    /// Gives a row that is there another value.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn update(&self, table: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let new = |has: Option<&[u8]>| has.map(|_| Some(value.to_vec())).ok_or(Error::NoRow);
        self.change(Change::put(table, key, value), new)
    }

    /// Adds to a number of 64 bits; logged as what it does, and not as what comes of it.
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

    /// Removes a row that is there.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`], [`Error::Conflict`], and as [`Engine::get`].
    pub fn delete(&self, table: &str, key: &[u8]) -> Result<()> {
        self.change(Change::delete(table, key), |has| has.map(|_| None).ok_or(Error::NoRow))
    }

    /// Commits, and returns the number of the record when that is durable and the store has it.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]: whether it was committed is known after the next open. [`Error::Store`]: it
    /// was, and the next open brings it to the store. [`Error::Broken`]: it was not.
    pub fn commit(self) -> Result<Lsn> {
        let mut state = self.engine.state()?;
        let lsn = self.engine.durable(&mut state, &Operation::Commit(self.id))?;
        let rows = state.open.remove(&self.id).map(|open| open.rows).unwrap_or_default();
        // By table and key, and each key once, as a store wants them.
        let writes = rows.into_iter().map(|((table, key), (lsn, value))| match value {
            Some(value) => Write { lsn, table, edit: Edit::Put { key, value } },
            None => Write { lsn, table, edit: Edit::Delete { key } },
        });
        self.engine.apply(&mut state, lsn, writes.collect())
    }

    /// Aborts: nothing that it changed was ever in the store.
    pub fn abort(self) {
        drop(self);
    }

    /// Checks that a row may be changed, logs the change, and notes what the row has then.
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
        // It need not be durable yet: the commit behind it will be, and is nothing without it.
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
            // Without this record it is one that never ended, which comes to the same.
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
            Self::NoTable(table) => write!(f, "there is no table `{table}`"),
            Self::TableExists(table) => write!(f, "the table `{table}` is there already"),
            Self::RowExists => f.write_str("the row is there already"),
            Self::NoRow => f.write_str("there is no such row"),
            Self::Conflict(tx) => write!(f, "transaction {tx} changes this row"),
            Self::Value(why) => write!(f, "the row has something else: {why}"),
            Self::Log(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Replay(error) => error.fmt(f),
            Self::Broken => f.write_str("something failed before: open the engine again"),
        }
    }
}

impl std::error::Error for Error {}

/// What a demonstration may fail with.
pub type Any = Box<dyn std::error::Error>;

/// Opens a bank, pays, stops in the middle of paying again, and comes back.
///
/// # Errors
///
/// The log, the store or the output fails.
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
    // As if the process stopped here: nobody says what is to become of this one.
    std::mem::forget(pay(&bank)?);
    drop(bank);

    let bank = Engine::open(log, open_store()?)?;
    let Report { applied, unfinished, .. } = bank.recovered();
    writeln!(out, "back again: {applied} transactions replayed, {unfinished} never ended")?;
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
