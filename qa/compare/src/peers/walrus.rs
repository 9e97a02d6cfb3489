//! walrus-rust: a topic for each thread, which allows the threads to write concurrently.

use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use seawall_io::{PosixStorage, Storage};
use std::collections::VecDeque;
use std::path::Path;
use walrus_rust::{Entry, FsyncSchedule, ReadConsistency, Walrus};

pub(super) const KIND: Kind = Kind {
    name: "walrus",
    what: "walrus-rust 0.2.0",
    how: "a topic for each thread; SyncEach; sets by batch_append_for_topic, through io_uring; \
          buffered with its default, a sync each 200 ms, through its memory map, as its files are \
          opened to be synced by each write otherwise; read by batches of 1 MiB",
    better: "topics with cursors of readers that are kept for you, and files that go once they are \
             read. Its buffered append is a copy into a memory map.",
    lacks: &[],
    open,
    reader,
};

/// Keeps cursors in memory, so that a log can be read more than once.
const CONSISTENCY: ReadConsistency = ReadConsistency::AtLeastOnce { persist_every: u32::MAX };
/// Bytes of one read call.
const READ: usize = 1 << 20;
/// The folder for all logs. Only an environment variable can change it.
const ROOT: &str = "wal_files";

fn start(place: &Place<'_>) -> Done<Walrus> {
    let schedule = match place.level {
        Level::Synced => {
            walrus_rust::enable_fd_backend();
            FsyncSchedule::SyncEach
        }
        Level::Buffered => {
            walrus_rust::disable_fd_backend();
            FsyncSchedule::Milliseconds(200)
        }
    };
    Ok(Walrus::with_consistency_and_schedule_for_key(&key(place), CONSISTENCY, schedule)?)
}

/// A key for the log: the full path, so that runs never share one.
fn key(place: &Place<'_>) -> String {
    let text = place.folder.display().to_string();
    text.trim_start_matches('/').replace('/', "_")
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let topics = (0..place.threads).map(topic).collect();
    Ok(Box::new(Writer { log: start(place)?, topics }))
}

fn topic(thread: usize) -> String {
    format!("t{thread}")
}

struct Writer {
    log: Walrus,
    topics: Vec<String>,
}

impl Peer for Writer {
    fn append(&self, thread: usize, record: &[u8]) -> Done {
        let topic = self.topics.get(thread).ok_or("there is no such thread")?;
        Ok(self.log.append_for_topic(topic, record)?)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let topic = self.topics.first().ok_or("there is no thread")?;
        Ok(self.log.batch_append_for_topic(topic, records)?)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other peers open files here")]
fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Cursors {
        log: None,
        key: key(place),
        topics: (0..place.threads).map(topic).collect(),
        at: 0,
        waiting: VecDeque::new(),
        read: 0,
    }))
}

/// Reads all topics through one instance before opening the next: cursors cannot go back, and an
/// instance never ends its threads.
struct Cursors {
    log: Option<Walrus>,
    key: String,
    topics: Vec<String>,
    /// Index of the topic that is being read.
    at: usize,
    /// Entries that were read but not delivered yet.
    waiting: VecDeque<Entry>,
    read: u64,
}

impl Reader for Cursors {
    fn rewind(&mut self) -> Done<u64> {
        if self.log.is_some() && self.at < self.topics.len() {
            return Ok(self.read);
        }
        self.log = None;
        let folder = Path::new(ROOT).join(&self.key).canonicalize()?;
        let storage = PosixStorage::open(&folder)?;
        for name in storage.list()? {
            if name.ends_with("_index.db") {
                storage.remove(&name)?;
            }
        }
        self.log = Some(Walrus::with_consistency_and_schedule_for_key(
            &self.key,
            CONSISTENCY,
            FsyncSchedule::SyncEach,
        )?);
        (self.at, self.read) = (0, 0);
        Ok(0)
    }

    fn read(&mut self, check: &mut Check) -> Done {
        let log = self.log.as_ref().ok_or("it is not open")?;
        while let Some(topic) = self.topics.get(self.at) {
            while let Some(entry) = self.waiting.pop_front() {
                self.read += 1;
                if !check.take(&entry.data) {
                    return Ok(());
                }
            }
            self.waiting = log.batch_read_for_topic(topic, READ, true)?.into();
            if self.waiting.is_empty() {
                self.at += 1;
            }
        }
        Ok(())
    }
}
