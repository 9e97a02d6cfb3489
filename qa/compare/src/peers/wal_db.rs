//! wal-db: one segmented log for all threads. Each commit is a call of `append_and_sync`.

use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use wal_db::{Lsn, OpenPolicy, SegmentedStore, Wal, WalConfig};

pub(super) const KIND: Kind = Kind {
    name: "wal-db",
    what: "wal-db 1.1.0",
    how: "segments of 64 MiB, truncated between the measured times; a set is its appends and one \
          sync; read by its iterator",
    better: "appends without a lock, at byte offsets; Windows and macOS; typed records behind a \
             feature; a small interface.",
    lacks: &[],
    open: |place| open(place, OpenPolicy::TruncateTail),
    reader: |place| reader(place, OpenPolicy::TruncateTail),
};

/// Differs from [`KIND`] only in how damage is handled.
pub(super) const STRICT: Kind = Kind {
    name: "wal-db, strict",
    what: "wal-db 1.1.0, strict",
    how: "the same, opened with its strict policy",
    open: |place| open(place, OpenPolicy::Strict),
    reader: |place| reader(place, OpenPolicy::Strict),
    ..KIND
};

const SEGMENT: u64 = 64 << 20;

fn start(place: &Place<'_>, policy: OpenPolicy) -> Done<Wal<SegmentedStore>> {
    let config = WalConfig::new().with_open_policy(policy);
    Ok(Wal::open_segmented_with(place.folder, SEGMENT, config)?)
}

fn open(place: &Place<'_>, policy: OpenPolicy) -> Done<Box<dyn Peer>> {
    let log = start(place, policy)?;
    Ok(Box::new(Writer { log, is_synced: place.level == Level::Synced, keeps: place.kept > 0 }))
}

struct Writer {
    log: Wal<SegmentedStore>,
    is_synced: bool,
    keeps: bool,
}

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        let _ = if self.is_synced {
            self.log.append_and_sync(record)?
        } else {
            self.log.append(record)?
        };
        Ok(())
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        for record in records {
            let _ = self.log.append(record)?;
        }
        Ok(self.log.sync()?)
    }

    fn settle(&self) -> Done {
        self.log.sync()?;
        if !self.keeps {
            let _ = self.log.truncate_before(Lsn::new(self.log.len()))?;
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>, policy: OpenPolicy) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Records(start(place, policy)?)))
}

struct Records(Wal<SegmentedStore>);

impl Reader for Records {
    fn read(&mut self, check: &mut Check) -> Done {
        for record in self.0.iter()? {
            if !check.take(record?.data()) {
                break;
            }
        }
        Ok(())
    }
}
