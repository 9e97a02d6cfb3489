//! logdb: one log for all threads. Each commit is an append followed by `flush`.

use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use logdb::{Config, DurabilityMode, LogDb, RetentionPolicy};
use std::time::Duration;

pub(super) const KIND: Kind = Kind {
    name: "logdb",
    what: "logdb 0.6.0",
    how: "DurabilityMode::Sync and a flush after each append; sets by append_batch; buffered with \
          its default, Batch; retention of 1 GiB where nothing is read back; read by replay_from",
    better: "encryption, compression and a chain of hashes that shows tampering; appends go into \
             a ring without a lock; named readers whose place is kept for them.",
    lacks: &[],
    open,
    reader,
};

const KEPT: u64 = 1 << 30;
const CLOSE_MAX: Duration = Duration::from_secs(30);

fn start(place: &Place<'_>) -> Done<LogDb> {
    let durability_mode = match place.level {
        Level::Synced => DurabilityMode::Sync,
        Level::Buffered => DurabilityMode::Batch,
    };
    let retention =
        if place.kept > 0 { RetentionPolicy::KeepAll } else { RetentionPolicy::MaxBytes(KEPT) };
    let data_dir = place.folder.to_owned();
    Ok(LogDb::open(Config { data_dir, durability_mode, retention, ..Config::default() })?)
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    Ok(Box::new(Writer { log: start(place)?, is_synced: place.level == Level::Synced }))
}

struct Writer {
    log: LogDb,
    is_synced: bool,
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.log.append(record)?;
        if self.is_synced { Ok(self.log.flush()?) } else { Ok(()) }
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.log.append_batch(records)?;
        Ok(self.log.flush()?)
    }

    fn settle(&self) -> Done {
        Ok(self.log.flush()?)
    }

    fn close(self: Box<Self>) -> Done {
        self.log.shutdown(CLOSE_MAX)?;
        Ok(())
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Records(start(place)?)))
}

struct Records(LogDb);

impl Reader for Records {
    fn read(&mut self, check: &mut Check) -> Done {
        for record in self.0.replay_from(0)? {
            if !check.take(&record?.content) {
                break;
            }
        }
        Ok(())
    }
}
