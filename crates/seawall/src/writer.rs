//! The writer of the tail segment: one batch, one write, one barrier. Whoever leads a group commit
//! holds it; there is one.

use crate::directory::MANIFEST;
use crate::roll::{Machine, Plan, Pred, TailSegment, roll};
use crate::{Error, Lsn, Result, SegmentId};
use seawall_format::batch::{self, Spec};
use seawall_format::{Closed, Live, Manifest, Mark, next_lsn};
use seawall_io::{File, Lock};
use std::sync::Arc;

/// The one writer of a log.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) machine: Machine,
    pub(crate) manifest: ManifestFile,
    pub(crate) live: Option<LiveFile>,
    pub(crate) tail: TailSegment,
    /// The last record; everything up to here is durable.
    pub(crate) last: Option<Lsn>,
    /// The chain value of the batch that holds it, or 0 if this process never saw that batch.
    pub(crate) last_chain: u64,
    pub(crate) max_id: SegmentId,
    /// Held as long as the writer is.
    pub(crate) _lock: Box<dyn Lock>,
}

impl Writer {
    /// Writes a batch (room for its header, then unbound frames) and returns once it is durable.
    pub(crate) fn write(&mut self, bytes: &mut [u8], count: u32) -> Result<()> {
        let size = u64::try_from(bytes.len()).expect("fits in 64 bits");
        if self.tail.at.plus(size).0 > self.tail.header.size {
            self.roll(size)?;
        }
        let tail = &mut self.tail;
        let spec = Spec {
            first: next_lsn(self.last),
            count,
            confirmed: self.last,
            chain: tail.chain,
            time_us: self.machine.clock.wall_us(),
        };
        let chain = batch::finish(bytes, spec, tail.at, &tail.life);
        let name = || tail.header.id.file_name();
        tail.file
            .write_at(bytes, tail.at.0)
            .map_err(|e| Error::io(format!("write {}", name()))(e))?;
        tail.file.sync().map_err(|e| Error::io(format!("sync {}", name()))(e))?;
        (tail.at, tail.chain, self.last_chain) = (tail.at.plus(size), chain, chain);
        self.last = Some(spec.first.plus(u64::from(count) - 1));
        self.tell_readers();
        Ok(())
    }

    /// Goes on in a new segment, twice the size, that holds a batch of `size` bytes.
    fn roll(&mut self, size: u64) -> Result<()> {
        let geometry = self.manifest.content.geometry;
        let doubled = (self.tail.header.size * 2).min(self.manifest.content.segment_max);
        let id = self.max_id.next();
        let plan = Plan {
            id,
            base: next_lsn(self.last),
            carry: vec![],
            pred: Some(Pred {
                header: &self.tail.header,
                file: &*self.tail.file,
                chain: self.last_chain,
            }),
            least: geometry.segment_size(size, doubled),
        };
        self.tail = roll(&self.machine, &self.manifest.content, plan)?;
        self.max_id = id;
        Ok(())
    }

    /// Writes evidence, away from the data, that everything so far is durable. Alone in flight.
    pub(crate) fn mark(&mut self) -> Result<()> {
        let sequence = self.tail.marks + 1;
        let mark = Mark { confirmed: self.last, sequence, time_us: self.machine.clock.wall_us() };
        let header = &self.tail.header;
        let offset = mark.slot().offset(header.geometry);
        let written = self.tail.file.write_at(&mark.encode(header), offset.0);
        let written = written.and_then(|()| self.tail.file.sync());
        written.map_err(Error::io(format!("mark {}", header.id.file_name())))?;
        self.tail.marks = sequence;
        Ok(())
    }

    /// A clean close: the manifest says where the log ends. It stays true whatever follows.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.manifest.content.closed =
            Some(Closed { last: self.last, segment: self.tail.header.reference() });
        self.manifest.write_both(self.machine.clock.wall_us())
    }

    /// Tells readers on this boot what is durable: before any acknowledgement (R16).
    ///
    /// A failure is not an error: readers then lag behind.
    pub(crate) fn tell_readers(&self) {
        let Some(LiveFile { file, boot_id }) = &self.live else { return };
        let live = Live {
            log: self.manifest.content.log,
            boot_id: *boot_id,
            segment: self.tail.header.reference(),
            durable: self.last,
            time_us: self.machine.clock.wall_us(),
        };
        let _ = file.write_at(&live.encode(), 0);
    }
}

/// The file that tells readers, and the run of the machine that it is about.
#[derive(Debug)]
pub(crate) struct LiveFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) boot_id: [u8; 16],
}

/// The manifest and its file.
#[derive(Debug)]
pub(crate) struct ManifestFile {
    pub(crate) content: Manifest,
    pub(crate) file: Arc<dyn File>,
}

impl ManifestFile {
    /// Writes one slot, syncs, then the other, syncs.
    pub(crate) fn write_both(&mut self, time_us: u64) -> Result<()> {
        for _ in 0..2 {
            self.content.sequence += 1;
            self.content.time_us = time_us;
            let written = self.file.write_at(&self.content.encode(), self.content.offset().0);
            let written = written.and_then(|()| self.file.sync());
            written.map_err(Error::io(format!("write {MANIFEST}")))?;
        }
        Ok(())
    }
}
