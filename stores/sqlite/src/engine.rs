//! SQLite as a database of sorted keys.

use rusqlite::TransactionBehavior;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags as Flags, OptionalExtension};
use seawall_replay::StoreError;
use seawall_tables::{Edits, Engine, OpenError, Place, Range, Result, Row};
use std::fmt;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In exclusive mode the file stays locked from the first write on. Without that, two replays at
/// the same time would both apply the same transactions. With `NORMAL`, commits are not synced: a
/// power cut may lose only the newest ones.
const START: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = NORMAL";
const MAKE: &str = r#"
CREATE TABLE IF NOT EXISTS seawall(key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS seawall_rows("table", key, value) AS
SELECT '', substr(key, 10), value FROM seawall
    WHERE key >= x'010000000000000000' AND key < x'010000000000000001'
UNION ALL
SELECT CAST(substr(t.key, 2) AS TEXT), substr(r.key, 10), r.value FROM seawall t, seawall r
    WHERE t.key >= x'02' AND t.key < x'03'
    AND r.key >= x'01' || substr(t.value, 1, 8) AND r.key < x'02'
    AND substr(r.key, 2, 8) = substr(t.value, 1, 8)
"#;
const FOREIGN: &str =
    "SELECT name FROM sqlite_schema WHERE name NOT IN ('seawall', 'seawall_rows')";
const COUNT: &str = "SELECT count(*) FROM sqlite_schema";
const GET: &str = "SELECT value FROM seawall WHERE key = ?1";
const PUT: &str = "INSERT OR REPLACE INTO seawall(key, value) VALUES (?1, ?2)";
const REMOVE: &str = "DELETE FROM seawall WHERE key = ?1";
const PAGE: &str = "SELECT key, value FROM seawall WHERE key > ?1 ORDER BY key LIMIT 256";
const FIRST: &str = "SELECT key, value FROM seawall WHERE key >= ?1 ORDER BY key LIMIT 1";
/// Syncs all commits, and moves them from SQLite's write-ahead log into the database.
const SYNC: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// A SQLite database in a locked file.
pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Sqlite {
    const NAME: &'static str = "sqlite";
    // SQLITE_MAX_LENGTH, for the key and the value of a row together.
    const VALUE_MAX: usize = 999_900_000;

    type Rows<'a> = Rows<'a>;

    fn open(path: &Path) -> Result<Self> {
        // Before anything is changed.
        Self::exists(path)?;
        // An absolute path, because SQLite takes some names for a database in memory.
        let file = absolute(path).map_err(OpenError::io(path))?;
        let flags = Flags::SQLITE_OPEN_READ_WRITE | Flags::SQLITE_OPEN_CREATE;
        let flags = flags | Flags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(failed(path))?;
        let start = || {
            // Leaves the write-ahead log of another program's database alone.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            connection.execute_batch(START)?;
            let foreign = name_of_other_content(&connection)?;
            if foreign.is_none() {
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
                connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            }
            Ok(foreign)
        };
        start().map_err(failed(path)).and_then(|foreign| refuse(foreign, path))?;
        let make = format!("BEGIN EXCLUSIVE; {MAKE}; COMMIT");
        connection.execute_batch(&make).map_err(failed(path))?;
        Ok(Self(Mutex::new(connection)))
    }

    fn exists(path: &Path) -> Result<bool> {
        if Place::find_file(path)?.is_none_or(|size| size == 0) {
            return Ok(false);
        }
        let uri = immutable(path).map_err(OpenError::io(path))?;
        let flags = Flags::SQLITE_OPEN_READ_ONLY | Flags::SQLITE_OPEN_URI;
        let found = Connection::open_with_flags(uri, flags).and_then(|connection| {
            let count = connection.query_row(COUNT, [], |row| row.get::<_, i64>(0))?;
            Ok((count, name_of_other_content(&connection)?))
        });
        match found.map_err(failed(path)) {
            Ok((_, foreign @ Some(_))) => refuse(foreign, path).map(|()| true),
            // All tables of a store can be in its write-ahead log.
            Ok((0, _)) => Ok(Place::find_file(&log_of(path))?.is_some_and(|size| size > 0)),
            Err(error @ OpenError::Foreign { .. }) => Err(error),
            // Another program may be changing the file. `open` finds out.
            Ok(_) | Err(_) => Ok(true),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let connection = self.connection();
        let mut get = connection.prepare_cached(GET).map_err(StoreError::failed)?;
        get.query_row([key], |row| row.get(0)).optional().map_err(StoreError::failed)
    }

    fn scan(&self, (from, to): Range) -> Result<Rows<'_>, StoreError> {
        Ok(Rows { engine: self, from, to, page: vec![].into_iter(), has_ended: false })
    }

    fn write(
        &self,
        _count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(StoreError::failed)?;
        let statement = |sql| transaction.prepare_cached(sql).map_err(StoreError::failed);
        let mut batch = Batch { put: statement(PUT)?, remove: statement(REMOVE)? };
        // If this fails, the transaction is rolled back.
        fill(&mut batch)?;
        drop(batch);
        transaction.commit().map_err(StoreError::failed)
    }

    /// After a failed sync, the next one writes all commits into the database again: SQLite counts
    /// them as moved only once the database is synced.
    fn flush(&self) -> Result<(), StoreError> {
        let busy = self.connection().query_row(SYNC, [], |row| row.get::<_, i64>(0));
        match busy.map_err(StoreError::failed)? {
            0 => Ok(()),
            _ => Err(StoreError::failed("another program reads the database: close it, and retry")),
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}

/// Returns the URI of a file that SQLite only reads: without locks, its write-ahead log, and new
/// files next to it.
fn immutable(path: &Path) -> io::Result<String> {
    let path = absolute(path)?;
    let encoded = path.as_os_str().as_encoded_bytes().iter().map(|byte| match byte {
        b'/' | b'.' | b'_' | b'-' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("%{byte:02x}"),
    });
    Ok(format!("file:{}?immutable=1", encoded.collect::<String>()))
}

/// Returns the path of SQLite's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

fn name_of_other_content(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection.query_row(FOREIGN, [], |row| row.get(0)).optional()
}

fn refuse(foreign: Option<String>, path: &Path) -> Result<()> {
    let Some(name) = foreign else { return Ok(()) };
    let why = format!("the database has other content: `{name}`");
    Err(OpenError::Foreign { path: path.to_owned(), why })
}

struct Batch<'a> {
    put: CachedStatement<'a>,
    remove: CachedStatement<'a>,
}

impl Edits for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put.execute([key, value]).map(drop).map_err(StoreError::failed)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.remove.execute([key]).map(drop).map_err(StoreError::failed)
    }
}

/// The rows of a range of keys, read a page at a time. Each page shows complete batches; later
/// pages may show later batches.
pub struct Rows<'a> {
    engine: &'a Sqlite,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    page: std::vec::IntoIter<Row>,
    has_ended: bool,
}

impl Rows<'_> {
    fn read(&mut self) -> rusqlite::Result<()> {
        let (sql, from) = match &self.from {
            Bound::Excluded(last) => (PAGE, last.as_slice()),
            Bound::Included(first) => (FIRST, first.as_slice()),
            Bound::Unbounded => (FIRST, &[][..]),
        };
        let connection = self.engine.connection();
        let mut rows = connection.prepare_cached(sql)?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let page = rows.query_map([from], row)?.collect::<rusqlite::Result<Vec<Row>>>()?;
        match page.last() {
            Some((key, _)) => self.from = Bound::Excluded(key.clone()),
            None => self.has_ended = true,
        }
        self.page = page.into_iter();
        Ok(())
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        if self.page.as_slice().is_empty()
            && let Err(error) = self.read()
        {
            self.has_ended = true;
            return Some(Err(StoreError::failed(error)));
        }
        let row = self.page.next()?;
        let is_within = match &self.to {
            Bound::Included(last) => row.0 <= *last,
            Bound::Excluded(end) => row.0 < *end,
            Bound::Unbounded => true,
        };
        self.has_ended = !is_within;
        is_within.then_some(Ok(row))
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| match source.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenError::Locked { path: path.clone() }
        }
        Some(ErrorCode::NotADatabase) => {
            let why = "the file is not a SQLite database".to_owned();
            OpenError::Foreign { path: path.clone(), why }
        }
        _ => OpenError::database(&path)(source),
    }
}
