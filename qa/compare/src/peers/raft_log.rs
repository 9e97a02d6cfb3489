//! raft-log: one Raft log for all threads, which wait for its flushes together.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use raft_log::api::raft_log_writer::RaftLogWriter;
use raft_log::{Config, RaftLog, Types};
use seawall_io::PosixStorage;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

pub(super) const KIND: Kind = Kind {
    name: "raft-log",
    what: "raft-log 0.4.6",
    how: "a lock around append and flush, as both want it alone, and none around the wait; its \
          defaults, which wait up to 1 ms for more before a sync; a set is one append; purged \
          between the measured times; read by groups of 1,000 entries, from its cache",
    better: "a whole Raft log: votes, committed index, truncation and purge, each a record; \
             callbacks when a flush is done, so a caller goes on meanwhile.",
    lacks: &[],
    open,
    reader,
};

const GROUP: u64 = 1_000;
const TERM: u64 = 1;

/// The types of the log. Entries are bytes; the vote and the user data are not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bytes;

impl Types for Bytes {
    type LogId = (u64, u64);
    type LogPayload = Vec<u8>;
    type Vote = (u64, u64);
    type Callback = SyncSender<io::Result<()>>;
    type UserData = String;

    fn log_index((_, index): &Self::LogId) -> u64 {
        *index
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        u64::try_from(payload.len()).unwrap_or(u64::MAX)
    }
}

fn start(place: &Place<'_>) -> Done<RaftLog<Bytes>> {
    if !place.folder.is_dir() {
        PosixStorage::create(place.folder)?;
    }
    Ok(RaftLog::open(Arc::new(Config::new(place.folder.display())))?)
}

fn next_index(log: &RaftLog<Bytes>) -> u64 {
    Bytes::next_log_index(log.log_state().last())
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let log = Mutex::new(start(place)?);
    let (is_synced, keeps) = (place.level == Level::Synced, place.kept > 0);
    Ok(Box::new(Writer { log, is_synced, keeps }))
}

struct Writer {
    log: Mutex<RaftLog<Bytes>>,
    is_synced: bool,
    keeps: bool,
}

impl Writer {
    fn write(&self, records: &[&[u8]], is_synced: bool) -> Done {
        let mut log = lock(&self.log);
        let indexes = next_index(&log)..;
        let entries = indexes.zip(records).map(|(index, bytes)| ((TERM, index), bytes.to_vec()));
        log.append(entries.collect::<Vec<_>>())?;
        if !is_synced {
            return Ok(log.flush(false, None)?);
        }
        let flushed = flush(&mut log)?;
        drop(log);
        Ok(flushed.recv()??)
    }
}

/// Starts a flush and returns a receiver of its result.
fn flush(log: &mut RaftLog<Bytes>) -> Done<Receiver<io::Result<()>>> {
    let (sender, receiver) = sync_channel(1);
    log.flush(true, Some(sender))?;
    Ok(receiver)
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.write(&[record], self.is_synced)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.write(records, true)
    }

    fn settle(&self) -> Done {
        let mut log = lock(&self.log);
        let last = log.log_state().last().copied();
        if let Some(last) = last.filter(|_| !self.keeps) {
            log.purge(last)?;
        }
        Ok(flush(&mut log)?.recv()??)
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Entries(start(place)?)))
}

struct Entries(RaftLog<Bytes>);

impl Reader for Entries {
    fn read(&mut self, check: &mut Check) -> Done {
        let (mut next, end) = (0, next_index(&self.0));
        let mut failed = Ok(());
        while next < end {
            let group = next..end.min(next + GROUP);
            for entry in self.0.read(group.start, group.end) {
                match entry {
                    Ok((_, payload)) if !check.take(&payload) => return Ok(()),
                    Ok(_) => {}
                    // Entries are read by index, so those after a damaged one can be read.
                    Err(error) => failed = failed.and(Err(error.into())),
                }
            }
            next = group.end;
        }
        failed
    }
}
