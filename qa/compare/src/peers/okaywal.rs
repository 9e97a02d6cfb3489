//! okaywal: an entry for each record or set. Reads by its recovery.

use super::lock;
use crate::payload::Check;
use crate::peer::{Discipline, Done, Kind, Peer, Place, Reader};
use okaywal::{
    Configuration, Entry, EntryId, LogManager, ReadChunkResult, SegmentReader, WriteAheadLog,
};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(super) const KIND: Kind = Kind {
    name: "okaywal",
    what: "okaywal 0.3.1",
    how: "segments of 64 MiB, filled with zeros and used again after an empty checkpoint; a set is \
          an entry of many chunks; read by recovery, its only way to read all",
    better: "a smaller interface: entries of chunks, and a checkpoint that calls you with what is \
             about to go. Chunks are streamed, so an entry need not fit in memory.",
    lacks: &[(Discipline::Buffered, "every commit of its entries syncs")],
    open,
    reader,
};

const SEGMENT: u32 = 64 << 20;

/// Makes segments large enough for all records to read: an open drops all segments but the last.
fn configuration(place: &Place<'_>) -> Configuration {
    let kept = u64::try_from(place.kept * (place.size + 64)).expect("fits in 64 bits");
    let ahead = u64::from(SEGMENT).max(kept);
    Configuration::default_for(place.folder)
        .preallocate_bytes(u32::try_from(ahead).unwrap_or(u32::MAX))
        .checkpoint_after_bytes(ahead - (4 << 20))
}

fn open(place: &Place<'_>) -> Done<Box<dyn Peer>> {
    Ok(Box::new(Writer(configuration(place).open(Forgetful)?)))
}

struct Writer(WriteAheadLog);

impl Peer for Writer {
    fn append(&self, _: usize, record: &[u8]) -> Done {
        self.append_set(&[record])
    }

    fn append_set(&self, records: &[&[u8]]) -> Done {
        let mut entry = self.0.begin_entry()?;
        for record in records {
            entry.write_chunk(record)?;
        }
        entry.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Done {
        Ok(self.0.shutdown()?)
    }
}

/// A log manager that ignores all entries.
#[derive(Debug)]
struct Forgetful;

impl LogManager for Forgetful {
    fn recover(&mut self, _: &mut Entry<'_>) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other peers open files here")]
fn reader(place: &Place<'_>) -> Done<Box<dyn Reader>> {
    Ok(Box::new(Recovery { folder: place.folder.to_owned(), configuration: configuration(place) }))
}

struct Recovery {
    folder: PathBuf,
    configuration: Configuration,
}

impl Reader for Recovery {
    fn read(&mut self, check: &mut Check) -> Done {
        // Recovery takes ownership of its log manager, so the check is moved in and back out.
        let taken = Arc::new(Mutex::new(std::mem::take(check)));
        let reading = Reading { check: taken.clone(), chunk: vec![] };
        let opened = self.configuration.clone().open(reading);
        *check = std::mem::take(&mut lock(&taken));
        match opened {
            Ok(log) => Ok(log.shutdown()?),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(format!("{}: {error}", self.folder.display()).into()),
        }
    }
}

#[derive(Debug)]
struct Reading {
    check: Arc<Mutex<Check>>,
    chunk: Vec<u8>,
}

impl LogManager for Reading {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        let mut check = lock(&self.check);
        while let ReadChunkResult::Chunk(mut chunk) = entry.read_chunk()? {
            self.chunk.clear();
            chunk.read_to_end(&mut self.chunk)?;
            if !chunk.check_crc()? {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if !check.take(&self.chunk) {
                // An error is the only way to stop a recovery. It changes no files.
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}
