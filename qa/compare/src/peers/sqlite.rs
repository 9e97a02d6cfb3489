//! `SQLite` with its write-ahead log, synced at each commit.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Mutex;

pub(super) const KIND: Kind = Kind {
    name: "sqlite",
    what: "SQLite in WAL mode, by rusqlite 0.41.1",
    how: "journal_mode=WAL, synchronous=FULL, NORMAL where it is buffered; one connection under a \
          lock, as one writes at a time anyway and would poll for its turn; a prepared insert; a \
          set is a transaction",
    better: "SQL: queries, indices, constraints, transactions over all of it, in the best-tested \
             file format there is, read by everything.",
    lacks: &[],
    open,
    reader,
};

const FILE: &str = "log.sqlite";
const INSERT: &str = "INSERT INTO log(payload) VALUES (?1)";

fn start(folder: &Path, level: Level) -> Done<Connection> {
    let store = Connection::open(folder.join(FILE))?;
    let mode: String =
        store.query_row("PRAGMA journal_mode=WAL", [], |row| row.get::<_, String>(0))?;
    if mode != "wal" {
        return Err(format!("its journal mode is {mode}").into());
    }
    store.execute_batch(match level {
        Level::Synced => "PRAGMA synchronous=FULL",
        Level::Buffered => "PRAGMA synchronous=NORMAL",
    })?;
    Ok(store)
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    seawall_io::PosixStorage::create(place.folder)?;
    let store = start(place.folder, place.level)?;
    store.execute_batch("CREATE TABLE log(lsn INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
    Ok(Box::new(Writer { store: Mutex::new(store), level: place.level }))
}

struct Writer {
    store: Mutex<Connection>,
    level: Level,
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        lock(&self.store).prepare_cached(INSERT)?.execute([record])?;
        Ok(())
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let mut store = lock(&self.store);
        let transaction = store.transaction()?;
        {
            let mut insert = transaction.prepare_cached(INSERT)?;
            for record in records {
                insert.execute([record])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn settle(&self) -> Done {
        if self.level == Level::Buffered {
            lock(&self.store).query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Rows(start(place.folder, place.level)?)))
}

struct Rows(Connection);

impl Reader for Rows {
    fn read(&mut self, check: &mut Check) -> Done {
        let mut select = self.0.prepare_cached("SELECT payload FROM log ORDER BY lsn")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            if !check.take(row.get_ref(0)?.as_blob()?) {
                break;
            }
        }
        Ok(())
    }
}
