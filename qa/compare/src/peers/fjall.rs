//! fjall: a keyspace with numbers as keys. A commit syncs its journal.

use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use seawall_io::{Clock, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const KIND: Kind = Kind {
    name: "fjall",
    what: "fjall 3.1.13",
    how: "an insert under the next number, then persist(SyncData); a set is one write batch; read \
          by iterating over all keys",
    better: "it is a store: keys, ranges, snapshots, transactions, compression and compaction; its \
             journal is only the part that a log does.",
    lacks: &[],
    open,
    reader,
};

fn start(place: &Place<'_>) -> Done<(Database, Keyspace)> {
    let store = Database::builder(place.folder).open()?;
    let records = store.keyspace("log", KeyspaceCreateOptions::default)?;
    Ok((store, records))
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let (store, records) = start(place)?;
    let is_synced = place.level == Level::Synced;
    Ok(Box::new(Writer { store, records, next: AtomicU64::new(0), is_synced }))
}

struct Writer {
    store: Database,
    records: Keyspace,
    next: AtomicU64,
    is_synced: bool,
}

impl Writer {
    fn key(&self) -> [u8; 8] {
        self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes()
    }
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.records.insert(self.key(), record)?;
        if self.is_synced {
            self.store.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let mut batch = self.store.batch().durability(Some(PersistMode::SyncData));
        for record in records {
            batch.insert(&self.records, self.key(), *record);
        }
        Ok(batch.commit()?)
    }

    fn settle(&self) -> Done {
        self.store.persist(PersistMode::SyncData)?;
        let clock = SystemClock::new();
        // Compaction would slow the slices of other logs. The wait is bounded, because some
        // compaction may never end.
        while clock.now() < Duration::from_secs(1)
            && (self.store.outstanding_flushes() > 0 || self.store.active_compactions() > 0)
        {
            clock.sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    let (store, records) = start(place)?;
    Ok(Box::new(Keys { _store: store, records }))
}

struct Keys {
    _store: Database,
    records: Keyspace,
}

impl Reader for Keys {
    fn read(&mut self, check: &mut Check) -> Done {
        for record in self.records.iter() {
            if !check.take(&record.value()?) {
                break;
            }
        }
        Ok(())
    }
}
