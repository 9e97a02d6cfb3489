//! open-wal: its only writer, under a lock. Each commit is an append followed by `commit`.

use super::lock;
use crate::payload::Check;
use crate::peer::{Discipline, Done, Kind, Peer, Place, Reader};
use open_wal::{Lsn, Wal, WalConfig};
use std::sync::Mutex;

pub(super) const KIND: Kind = Kind {
    name: "open-wal",
    what: "open-wal 0.2.1",
    how: "a lock around it, as it has one writer; its defaults, segments of 128 MiB, deleted \
          between the measured times; a set is its appends and one commit; read by its reader",
    better: "3,752 lines with two dependencies, numbered invariants, and a first page that says \
             when not to use it.",
    lacks: &[(Discipline::Buffered, "its append only fills memory until a commit, which syncs")],
    open,
    reader,
};

fn start(place: &Place<'_>) -> Done<Wal> {
    let (log, _) = Wal::open(place.folder, WalConfig::default())?;
    Ok(log)
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    Ok(Box::new(Writer { log: Mutex::new(start(place)?), keeps: place.kept > 0 }))
}

struct Writer {
    log: Mutex<Wal>,
    keeps: bool,
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.append_set(&[record])
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let mut log = lock(&self.log);
        for record in records {
            log.append(record)?;
        }
        log.commit()?;
        Ok(())
    }

    fn settle(&self) -> Done {
        let mut log = lock(&self.log);
        let last = log.commit()?;
        if !self.keeps {
            log.checkpoint(last)?;
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Records(start(place)?)))
}

struct Records(Wal);

impl Reader for Records {
    fn read(&mut self, check: &mut Check) -> Done {
        let mut records = self.0.reader_from(Lsn(0))?;
        while let Some(record) = records.next() {
            let (_, payload) = record?;
            if !check.take(payload) {
                break;
            }
        }
        Ok(())
    }
}
