//! commitlog: one log under a lock. commitlog never syncs, so the caller syncs the segment's file.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use commitlog::message::{MessageBuf, MessageSet};
use commitlog::{CommitLog, LogOptions, ReadLimit};
use seawall_io::{Access, File, PosixStorage, Storage};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(super) const KIND: Kind = Kind {
    name: "commitlog",
    what: "commitlog 0.2.0",
    how: "a lock around it, as its append wants it alone; its flush does not sync, so the file of \
          the segment is synced beside it, its index never; a set is one buffer of messages; read \
          by 256 KiB",
    better: "reads are one copy of a range of the file, found through a memory-mapped index, which \
             can be sent on as they are, as Kafka does.",
    lacks: &[],
    open,
    reader,
};

const READ: usize = 256 << 10;
/// Bytes before the payload of a message.
const MESSAGE_HEAD: usize = 20;
/// Bytes before the first message of a segment.
const HEAD: usize = 2;
/// The default segment size of commitlog.
const SEGMENT_MAX: usize = 1_000_000_000;
/// Maximum bytes of an append: more than a set of the largest records.
const MESSAGES_MAX: usize = SEGMENT_MAX - HEAD;

fn start(folder: &Path) -> Done<CommitLog> {
    let mut options = LogOptions::new(folder);
    options.message_max_bytes(MESSAGES_MAX).segment_max_bytes(SEGMENT_MAX);
    Ok(CommitLog::new(options)?)
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let log = start(place.folder)?;
    let storage = PosixStorage::open(&place.folder.canonicalize()?)?;
    let file = newest(&storage)?;
    let inner = Mutex::new(Inner { log, storage, file, position: HEAD });
    Ok(Box::new(Writer { inner, is_synced: place.level == Level::Synced }))
}

/// Opens the newest segment, which receives the appends.
fn newest(storage: &PosixStorage) -> Done<Arc<dyn File>> {
    let is_segment = |name: &String| Path::new(name).extension().is_some_and(|end| end == "log");
    let last = storage.list()?.into_iter().rfind(is_segment).ok_or("it has no segment")?;
    Ok(storage.open(&last, Access::ReadWrite)?)
}

struct Writer {
    inner: Mutex<Inner>,
    is_synced: bool,
}

struct Inner {
    log: CommitLog,
    storage: PosixStorage,
    file: Arc<dyn File>,
    /// The offset at which the next message is written.
    position: usize,
}

impl Inner {
    fn write(&mut self, records: &[&[u8]], is_synced: bool) -> Done {
        let mut messages = MessageBuf::default();
        for record in records {
            messages.push(record).map_err(|_| "a message is too large")?;
        }
        let size = messages.bytes().len();
        self.log.append(&mut messages)?;
        // commitlog starts a new segment by the same rule, without reporting it.
        if self.position + size > SEGMENT_MAX {
            self.file.sync()?;
            self.storage.sync_dir()?;
            (self.file, self.position) = (newest(&self.storage)?, HEAD);
        }
        self.position += size;
        if is_synced { Ok(self.file.sync()?) } else { Ok(()) }
    }
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        lock(&self.inner).write(&[record], self.is_synced)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        lock(&self.inner).write(records, true)
    }

    fn settle(&self) -> Done {
        Ok(lock(&self.inner).file.sync()?)
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Messages { log: start(place.folder)?, one: 2 * (MESSAGE_HEAD + place.size) - 1 }))
}

struct Messages {
    log: CommitLog,
    /// A read limit that fits one message, but not two, in bytes.
    one: usize,
}

impl Reader for Messages {
    fn read(&mut self, check: &mut Check) -> Done {
        let (mut next, mut limit, mut failed) = (0, READ, Ok(()));
        while self.log.last_offset().is_some_and(|last| next <= last) {
            match self.log.read(next, ReadLimit::max_bytes(limit)) {
                Ok(messages) => {
                    let count = u64::try_from(messages.len())?;
                    if !messages.iter().all(|message| check.take(message.payload())) || count == 0 {
                        break;
                    }
                    next += count;
                }
                // Messages are read by offset, so those around a damaged one may be readable.
                Err(_) if limit > self.one => limit = self.one,
                Err(error) => {
                    failed = failed.and(Err(error.into()));
                    next += 1;
                }
            }
        }
        failed
    }
}
