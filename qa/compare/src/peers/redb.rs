//! redb: a table with numbers as keys. Each commit is a transaction.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::sync::Mutex;

pub(super) const KIND: Kind = Kind {
    name: "redb",
    what: "redb 4.5.0",
    how: "a write transaction for each record or set, durability Immediate; None where it is \
          buffered; read by iterating over the table",
    better: "it is a store: typed tables, ranges, transactions with savepoints, and readers that \
             never wait, in one file.",
    lacks: &[],
    open,
    reader,
};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const FILE: &str = "log.redb";

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    seawall_io::PosixStorage::create(place.folder)?;
    let store = Database::create(place.folder.join(FILE))?;
    Ok(Box::new(Writer { store, next: Mutex::new(0), level: place.level }))
}

struct Writer {
    store: Database,
    next: Mutex<u64>,
    level: Level,
}

impl Writer {
    fn write(&self, records: &[&[u8]], level: Level) -> Done {
        // redb allows one writer at a time, so this lock is held for the whole transaction.
        let mut next = lock(&self.next);
        let mut transaction = self.store.begin_write()?;
        if level == Level::Buffered {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut table = transaction.open_table(TABLE)?;
            for record in records {
                table.insert(*next, *record)?;
                *next += 1;
            }
        }
        Ok(transaction.commit()?)
    }
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.write(&[record], self.level)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.write(records, Level::Synced)
    }

    fn settle(&self) -> Done {
        if self.level == Level::Buffered { self.write(&[], Level::Synced) } else { Ok(()) }
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Rows(Database::open(place.folder.join(FILE))?)))
}

struct Rows(Database);

impl Reader for Rows {
    fn read(&mut self, check: &mut Check) -> Done {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        for row in table.iter()? {
            if !check.take(row?.1.value()) {
                break;
            }
        }
        Ok(())
    }
}
