//! raft-engine: a Raft group for each thread, all in one physical log.

use super::lock;
use crate::payload::Check;
use crate::peer::{Done, Kind, Level, Peer, Place, Reader};
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use raft_proto::eraftpb;
use std::ops::Range;
use std::sync::Mutex;

pub(super) const KIND: Kind = Kind {
    name: "raft-engine",
    what: "raft-engine 0.4.2",
    how: "a Raft group for each thread; its defaults, but without compression, as these payloads \
          cannot be compressed; sets are one batch; read by groups of 1,000 entries",
    better: "many logs share one file and one sync, each with its own numbers, a compaction of \
             its own and key-values beside; entries are found by index without reading others. It \
             compresses, recycles files, and carries TiKV in production.",
    lacks: &[],
    open: |place| open(place, Files::Growing),
    reader: |place| reader(place, Files::Growing),
};

pub(super) const PREFILLED: Kind = Kind {
    name: "raft-engine, prefilled",
    what: "raft-engine 0.4.2 with prefill-for-recycle",
    how: "the same with 768 MiB of files filled with zeros at its start, and used again",
    better: "what raft-engine does; here with files that were written before, as Seawall's are.",
    lacks: &[],
    open: |place| open(place, Files::Prefilled),
    reader: |place| reader(place, Files::Prefilled),
};

/// With prefilling, the size of the files in use before they are recycled, in bytes. raft-engine
/// creates half as many bytes again.
const PREFILLED_BYTES: u64 = 512 << 20;
const GROUP: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Growing,
    Prefilled,
}

struct Ext;

impl MessageExt for Ext {
    type Entry = eraftpb::Entry;

    fn index(entry: &eraftpb::Entry) -> u64 {
        entry.index
    }
}

fn config(place: &Place<'_>, files: Files) -> Config {
    let mut config = Config {
        dir: place.folder.display().to_string(),
        batch_compression_threshold: ReadableSize(0),
        ..Config::default()
    };
    if files == Files::Prefilled {
        config.target_file_size = ReadableSize::mb(64);
        config.purge_threshold = ReadableSize(PREFILLED_BYTES);
        config.prefill_for_recycle = true;
    }
    config
}

fn open(place: &Place<'_>, files: Files) -> Done<Box<dyn Peer>> {
    let group = |id| Mutex::new(Group { id, last: 0, batch: LogBatch::default() });
    let threads = u64::try_from(place.threads)?;
    Ok(Box::new(Writer {
        engine: Engine::open(config(place, files))?,
        groups: (1..=threads).map(group).collect(),
        is_synced: place.level == Level::Synced,
        keeps: place.kept > 0,
    }))
}

struct Writer {
    engine: Engine,
    groups: Vec<Mutex<Group>>,
    is_synced: bool,
    keeps: bool,
}

struct Group {
    id: u64,
    last: u64,
    batch: LogBatch,
}

impl Writer {
    fn write(&self, thread: usize, records: &[&[u8]], is_synced: bool) -> Done {
        let mut group = lock(self.groups.get(thread).ok_or("there is no such thread")?);
        let Group { id, last, batch } = &mut *group;
        let entry = |record: &&[u8]| {
            *last += 1;
            eraftpb::Entry { index: *last, data: record.to_vec().into(), ..Default::default() }
        };
        let entries: Vec<_> = records.iter().map(entry).collect();
        batch.add_entries::<Ext>(*id, &entries)?;
        self.engine.write(batch, is_synced)?;
        Ok(())
    }
}

impl Peer for Writer {
    fn append(&self, thread: usize, record: &[u8]) -> Done {
        self.write(thread, &[record], self.is_synced)
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        self.write(0, records, true)
    }

    fn settle(&self) -> Done {
        self.engine.sync()?;
        if !self.keeps {
            for group in &self.groups {
                let group = lock(group);
                self.engine.compact_to(group.id, group.last);
            }
            // Frees files once they exceed the purge threshold.
            self.engine.purge_expired_files()?;
        }
        Ok(())
    }
}

fn reader(place: &Place<'_>, files: Files) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Entries { engine: Engine::open(config(place, files))?, found: vec![] }))
}

struct Entries {
    engine: Engine,
    found: Vec<eraftpb::Entry>,
}

impl Entries {
    /// Reads the entries in `range` and returns their number.
    fn fetch(&mut self, group: u64, range: Range<u64>) -> Done<u64> {
        let Self { engine, found } = self;
        found.clear();
        let Range { start, end } = range;
        let count = engine.fetch_entries_to::<Ext>(group, start, end, None, found)?;
        Ok(u64::try_from(count)?)
    }
}

impl Reader for Entries {
    fn read(&mut self, check: &mut Check) -> Done {
        let mut failed = Ok(());
        for group in self.engine.raft_groups() {
            let last = self.engine.last_index(group).unwrap_or(0);
            let mut next = self.engine.first_index(group).unwrap_or(1);
            let mut entries = GROUP;
            while next <= last {
                match self.fetch(group, next..(next + entries).min(last + 1)) {
                    Ok(0) => {
                        return Err(format!("entry {next} of group {group} does not come").into());
                    }
                    Ok(_) if !self.found.iter().all(|entry| check.take(&entry.data)) => {
                        return Ok(());
                    }
                    Ok(count) => next += count,
                    // Entries are read by index, so those around a damaged one can be read.
                    Err(_) if entries > 1 => entries = 1,
                    Err(error) => {
                        failed = failed.and(Err(error));
                        next += 1;
                    }
                }
            }
        }
        failed
    }
}
