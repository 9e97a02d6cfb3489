//! Several writes in flight: a stream of large batches does not wait for the device between two.
//!
//! The leader prepares a batch, returns the writer, and writes the batch without it. Another leader
//! can prepare the next batch meanwhile. Batches are acknowledged in order.

use crate::base::error::{Error, Result};
use crate::base::options::Streaming;
use crate::write::direct_io::Blocks;
use crate::write::writer::Writer;
use seawall_format::Offset;
use seawall_format::before::SectorSums;
use seawall_io::File;
use std::sync::Arc;
use std::time::Duration;

/// The write of one batch, which needs no writer.
#[derive(Debug)]
pub(crate) struct DirectWrite {
    file: Arc<dyn File>,
    /// The name of the file.
    name: String,
    offset: u64,
    blocks: Blocks,
    length: usize,
    /// The checksums of its sectors, if they are noted.
    sums: Option<SectorSums>,
}

/// A batch that was launched, with the outcome of its write.
#[derive(Debug)]
pub(crate) struct LaunchedWrite {
    pub(crate) write: DirectWrite,
    pub(crate) outcome: Result<()>,
    pub(crate) batch_seq: u64,
    pub(crate) count: u32,
    /// When its leader took it.
    pub(crate) begin: Duration,
}

impl DirectWrite {
    /// Writes the batch and returns once it is durable.
    pub(crate) fn run(&mut self) -> Result<()> {
        let written = self.file.write_direct(self.blocks.first(self.length), self.offset);
        written.map_err(|error| Error::io(format!("write {}", self.name))(error))
    }
}

impl Writer {
    /// Where the next batch begins.
    pub(crate) fn next_at(&self) -> Offset {
        self.in_flight.back().map_or(self.tail.at, |batch| batch.sent.end)
    }

    /// Bytes that a batch takes at most to fill its last block.
    pub(crate) fn padding(&self) -> u64 {
        let block = u64::from(self.tail.header.geometry.block);
        if self.tail.takes_stream() || self.env.fills_blocks { block - 1 } else { 0 }
    }

    /// Whether a batch of this many bytes can be written while others are in flight.
    pub(crate) fn may_launch(&self, bytes: u64) -> bool {
        let (tail, at) = (&self.tail, self.next_at());
        self.in_flight.len() < usize::from(tail.header.in_flight_max)
            && tail.takes_stream()
            && bytes >= self.env.streaming.batch_min
            && tail.rest_of_block(at) == 0
            && self.overhead().size_max(usize::try_from(bytes).unwrap_or(usize::MAX), 0)
                <= tail.room_after(at)
            && !self.retained.is_due
            && self.takes_direct_writes()
    }

    /// Completes a batch in memory. The caller runs the write, then calls [`land`](Self::land), or
    /// [`fail_over`](Self::fail_over) if it failed.
    ///
    /// # Errors
    ///
    /// The batch could not be encrypted, and nothing was written.
    pub(crate) fn launch(&mut self, bytes: Vec<u8>, count: u32) -> Result<DirectWrite> {
        let mut blocks = self.blocks.pop().unwrap_or_default();
        let (mut length, mut sums) = (0, None);
        let (batch, _) = self.prepare(bytes, count, |tail, bytes, spec, at| {
            let completed = blocks.complete(bytes, (spec, at, &tail.life), tail.sums.is_some());
            (length, sums) = (completed.1, completed.2);
            completed.0
        })?;
        let offset = batch.at.0;
        self.counts.overlapped += u64::from(!self.in_flight.is_empty());
        self.in_flight.push_back(batch);
        let (file, name) = (self.tail.file.clone(), self.tail.header.data_name());
        Ok(DirectWrite { file, name, offset, blocks, length, sums })
    }

    /// Acknowledges the oldest batch in flight, whose write succeeded. Returns its number of
    /// records and a buffer for reuse.
    pub(crate) fn land(&mut self, write: DirectWrite) -> Result<(u32, Vec<u8>)> {
        let DirectWrite { blocks, sums, .. } = write;
        let batch = self.in_flight.pop_front().expect("the batch that was written");
        let count = batch.sent.count;
        self.tail.note_sums(sums.as_ref());
        self.note_written(&batch, None);
        self.blocks.push(blocks);
        self.acknowledge(batch)?;
        Ok((count, self.buffers.pop().unwrap_or_default()))
    }

    /// How many writes may be in flight in the next segment: more than one if the tail holds a
    /// stream of large batches.
    pub(crate) fn next_in_flight_max(&self) -> u8 {
        let Streaming { in_flight_max, batch_min, .. } = self.env.streaming;
        let (header, written) = (&self.tail.header, self.tail.written);
        let is_stream = written.bytes >= written.batches.max(1) * batch_min;
        let fits = header.geometry.batch_max.is_multiple_of(header.geometry.block);
        let is_possible = header.layout.has_batch_headers() && fits && self.takes_direct_writes();
        if is_stream && is_possible { in_flight_max } else { 1 }
    }

    fn takes_direct_writes(&self) -> bool {
        let block = usize::try_from(self.tail.header.geometry.block).expect("at most 64 KiB");
        self.tail.file.direct_alignment().is_some_and(|size| block.is_multiple_of(size))
    }
}
