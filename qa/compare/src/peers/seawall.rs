//! Seawall itself, with its defaults.

use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use seawall::{Log, LogReader, Lsn, Options, Raw, Retention};

pub(super) const KIND: Kind = Kind {
    name: "seawall",
    what: concat!("seawall ", env!("CARGO_PKG_VERSION")),
    how: "one log for all threads; sets by append_batch; read by a cursor of a reader",
    better: "",
    lacks: &[],
    open,
    reader,
};

/// Retention of a log that is not read back, in bytes. Other logs reuse their files, too.
const KEPT: u64 = 1 << 30;

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    let level = match place.level {
        Level::Synced => seawall::Level::Synced,
        Level::Buffered => seawall::Level::Buffered,
    };
    // Writing idle marks would disturb the slices of other logs.
    let mut options = Options::new().level(level).idle_mark(None);
    if place.kept == 0 {
        options = options.retention(Retention::new().max_bytes(KEPT).without_checkpoints());
    }
    Ok(Box::new(Ours(options.open(place.folder)?)))
}

struct Ours(Log<[u8], Raw>);

impl Peer for Ours {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.0.append(record)?;
        Ok(())
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.0.append_batch(records.iter().copied())?;
        Ok(())
    }

    fn settle(&self) -> Done {
        self.0.flush()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Done {
        Ok(self.0.close()?)
    }
}

fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Cursor(LogReader::open(place.folder)?)))
}

struct Cursor(LogReader<[u8], Raw>);

impl Reader for Cursor {
    fn read(&mut self, check: &mut Check) -> Done {
        let mut cursor = self.0.cursor(Lsn::FIRST)?;
        while let Some(record) = cursor.next_record()? {
            if !check.take(record.payload) {
                break;
            }
        }
        Ok(())
    }
}
