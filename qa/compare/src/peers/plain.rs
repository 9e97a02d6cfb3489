//! Plain files without a log: each record is written and synced under a lock.

use super::lock;
use crate::payload::Check;
use crate::peer::{Discipline, Done, Kind, Level, Peer, Place, Reader};
use seawall_io::{Access, File, PosixStorage, Storage};
use std::sync::{Arc, Mutex};

pub(super) const GROWING: Kind = Kind {
    name: "plain, growing",
    what: "write and fdatasync",
    how: "a lock, a write at the end of one file, and its sync; a set is one write; read by 256 \
          KiB",
    better: "nothing stands between you and the file. It has no checksums, no recovery, no sets \
             that are whole or not there.",
    lacks: &[],
    open: |place| open(place, 0),
    reader,
};

pub(super) const WRITTEN: Kind = Kind {
    name: "plain, written before",
    what: "write and fdatasync",
    how: "the same, over and over 64 MiB that were filled with zeros before",
    better: "the same; a sync changes no metadata, so this is what the disk can do for one writer.",
    lacks: &[(Discipline::Read, "it reads as the growing one does")],
    open: |place| open(place, ROUND),
    reader,
};

const FILE: &str = "plain";
const ROUND: u64 = 64 << 20;
const READ: usize = 256 << 10;

fn open(place: &Place<'_>, round: u64) -> Done<Box<dyn Peer>> {
    let storage = PosixStorage::create(place.folder)?;
    let file = storage.create(FILE)?;
    if round > 0 {
        file.fill_with_zeros(round)?;
    }
    file.sync()?;
    storage.sync_dir()?;
    let is_synced = place.level == Level::Synced;
    Ok(Box::new(Writer { file, at: Mutex::new(0), round, is_synced }))
}

struct Writer {
    file: Arc<dyn File>,
    at: Mutex<u64>,
    /// The offset at which writing wraps around to the start; 0 for never.
    round: u64,
    is_synced: bool,
}

impl Writer {
    fn write(&self, bytes: &[u8], is_synced: bool) -> Done {
        let mut at = lock(&self.at);
        let size = u64::try_from(bytes.len())?;
        if self.round > 0 && *at + size > self.round {
            *at = 0;
        }
        self.file.write_at(bytes, *at)?;
        *at += size;
        if is_synced {
            self.file.sync()?;
        }
        Ok(())
    }
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.write(record, self.is_synced)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.write(&records.concat(), true)
    }

    fn settle(&self) -> Done {
        Ok(self.file.sync()?)
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    let file = PosixStorage::open(&place.folder.canonicalize()?)?.open(FILE, Access::Read)?;
    let records = (READ / place.size).max(1);
    let buffer = vec![0; records * place.size];
    Ok(Box::new(Blocks { file, buffer, size: place.size, kept: place.kept }))
}

struct Blocks {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    size: usize,
    /// Number of records to read. Bytes after them are not records.
    kept: usize,
}

impl Reader for Blocks {
    fn read(&mut self, check: &mut Check) -> Done {
        let (mut at, mut left) = (0, self.kept);
        loop {
            let read = self.file.read_at(&mut self.buffer, at)?;
            at += u64::try_from(read)?;
            let records = self.buffer.get(..read).unwrap_or_default().chunks_exact(self.size);
            let count = (read / self.size).min(left);
            if count == 0 || !records.take(count).all(|record| check.take(record)) {
                return Ok(());
            }
            left -= count;
        }
    }
}
