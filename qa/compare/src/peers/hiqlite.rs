//! hiqlite-wal: the log store of one Raft node, as openraft calls it.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use hiqlite_wal::{LogStore, LogSync};
use openraft::storage::{RaftLogReader, RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId};
use std::future::Future;
use std::io::Cursor;
use std::sync::Mutex;
use tokio::runtime::{Builder, Runtime};

pub(super) const KIND: Kind = Kind {
    name: "hiqlite-wal",
    what: "hiqlite-wal 0.15.1",
    how: "a lock around it, as openraft appends one batch after the other; LogSync::Immediate, \
          buffered with IntervalMillis(200); files of 16 MiB; purged between the measured times; \
          read by groups of 1,000 entries",
    better: "openraft takes it as it is; files are made ahead and have one size; a checksum for \
             each entry, and a full check after a crash.",
    lacks: &[],
    open,
    reader,
};

const FILE: u32 = 16 << 20;
const GROUP: u64 = 1_000;

openraft::declare_raft_types!(
    Bytes:
        D = Vec<u8>,
        R = (),
);

type Store = LogStore<Bytes>;

/// A store, and a runtime for its asynchronous functions.
struct Log {
    runtime: Runtime,
    store: Store,
}

fn start(place: &Place<'_>) -> Done<Log> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sync = match place.level {
        Level::Synced => LogSync::Immediate,
        Level::Buffered => LogSync::IntervalMillis(200),
    };
    let store = runtime.block_on(Store::start(place.folder.display().to_string(), sync, FILE))?;
    Ok(Log { runtime, store })
}

impl Log {
    /// Runs one call and waits for its result.
    fn act<'a, F: Future>(&'a mut self, act: impl FnOnce(&'a mut Store) -> F) -> F::Output {
        let Self { runtime, store } = self;
        runtime.block_on(act(store))
    }

    fn last(&mut self) -> Done<Option<LogId<u64>>> {
        Ok(self.act(|store| store.get_log_state())?.last_log_id)
    }
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let mut log = start(place)?;
    let next = log.last()?.map_or(0, |last| last.index + 1);
    Ok(Box::new(Writer { inner: Mutex::new(Inner { log, next }), keeps: place.kept > 0 }))
}

struct Writer {
    inner: Mutex<Inner>,
    keeps: bool,
}

struct Inner {
    log: Log,
    next: u64,
}

fn id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 1), index)
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.append_set(&[record])
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let Inner { log, next } = &mut *lock(&self.inner);
        let entry = |(index, record): (u64, &&[u8])| Entry {
            log_id: id(index),
            payload: EntryPayload::Normal(record.to_vec()),
        };
        let entries: Vec<Entry<Bytes>> = (*next..).zip(records).map(entry).collect();
        *next += u64::try_from(entries.len())?;
        Ok(log.act(|store| store.blocking_append(entries))?)
    }

    fn settle(&self) -> Done {
        let Inner { log, next } = &mut *lock(&self.inner);
        match next.checked_sub(1).filter(|_| !self.keeps) {
            Some(last) => Ok(log.act(|store| store.purge(id(last)))?),
            None => Ok(()),
        }
    }

    fn close(self: Box<Self>) -> Done {
        let Log { runtime, store } = self.inner.into_inner().map_err(|_| "a panic before")?.log;
        Ok(runtime.block_on(store.stop())?)
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Entries(start(place)?)))
}

struct Entries(Log);

impl Reader for Entries {
    fn read(&mut self, check: &mut Check) -> Done {
        let end = self.0.last()?.map_or(0, |last| last.index + 1);
        let (mut next, mut count) = (0, GROUP);
        let mut failed = Ok(());
        while next < end {
            let group = next..end.min(next + count);
            match self.0.act(|store| store.try_get_log_entries(group.clone())) {
                Ok(entries) => {
                    if !entries.iter().all(|entry| check.take(bytes(entry))) {
                        return Ok(());
                    }
                    next = group.end;
                }
                // Entries are read by index, so those around a damaged one can be read.
                Err(_) if count > 1 => count = 1,
                Err(error) => {
                    failed = failed.and(Err(error.into()));
                    next = group.end;
                }
            }
        }
        failed
    }
}

fn bytes(entry: &Entry<Bytes>) -> &[u8] {
    match &entry.payload {
        EntryPayload::Normal(bytes) => bytes,
        EntryPayload::Blank | EntryPayload::Membership(_) => &[],
    }
}
