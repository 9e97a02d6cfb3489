//! walogs: its only writer, under a lock. Each append syncs.

use super::lock;
use crate::payload::Check;
use crate::peer::{Discipline, Done, Kind, Peer, Place, Reader};
use std::sync::Mutex;
use walogs::{Lsn, Wal};

pub(super) const KIND: Kind = Kind {
    name: "walogs",
    what: "walogs 0.1.0",
    how: "a lock around it, as it has one writer; its defaults, segments of 64 MiB, deleted \
          between the measured times; read by its iterator",
    better: "under a thousand lines, which can be read in an hour.",
    lacks: &[
        (Discipline::Batches, "each of its appends is a sync of its own"),
        (Discipline::Buffered, "each of its appends syncs"),
    ],
    open,
    reader,
};

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let log = Mutex::new(Wal::open(place.folder)?);
    Ok(Box::new(Writer { log, keeps: place.kept > 0 }))
}

struct Writer {
    log: Mutex<Wal>,
    keeps: bool,
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        let _ = lock(&self.log).append(record)?;
        Ok(())
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        records.iter().try_for_each(|record| self.append(0, record))
    }

    fn settle(&self) -> Done {
        if !self.keeps {
            let mut log = lock(&self.log);
            let Lsn(next) = log.next_lsn();
            let _ = log.checkpoint(Lsn(next.saturating_sub(1)))?;
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Entries(Wal::open(place.folder)?)))
}

struct Entries(Wal);

impl Reader for Entries {
    fn read(&mut self, check: &mut Check) -> Done {
        for entry in self.0.iter() {
            let (_, payload) = entry?;
            if !check.take(&payload) {
                break;
            }
        }
        Ok(())
    }
}
