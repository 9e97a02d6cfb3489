//! Several writes in flight: a stream of large batches does not wait for the device between two.
//!
//! The leader gives a batch its place, returns the writer, then completes and writes the batch
//! without it. Another leader can do the same with the next batch meanwhile. One more batch is
//! completed than may be written at a time, so that the device does not wait for it. Batches are
//! acknowledged in order.

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::base::options::Streaming;
use crate::write::direct_io::{Blocks, CompletedBlocks};
use crate::write::in_flight::AHEAD;
use crate::write::in_flight::chain_value::{ChainValue, ChainValueSetter};
use crate::write::pending::{BatchInFlight, LaunchedBatch, PlacedBatch};
use crate::write::tail::batch_encoder::cannot_encrypt;
use crate::write::writer::Writer;
use seawall_format::Offset;
use seawall_format::batch::{Life, Spec};
use seawall_format::before::SectorSums;
use seawall_format::encrypted::Encryptor;
use seawall_io::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A batch to be completed and written, which needs no writer.
#[derive(Debug)]
pub(crate) struct DirectWrite {
    file: Arc<dyn File>,
    /// The name of the file.
    name: String,
    life: Life,
    batch: PlacedBatch,
    /// Where the batch ends.
    end: Offset,
    encryption: Option<Encryption>,
    before: BatchBefore,
    chain: ChainValueSetter,
    blocks: Blocks,
    needs_sums: bool,
}

/// How a batch is encrypted without the writer.
#[derive(Debug)]
struct Encryption {
    encryptor: Arc<Encryptor>,
    /// The size of the encrypted batch, in bytes, before it fills its last block.
    size: usize,
    /// Memory for it.
    memory: Vec<u8>,
}

/// The batch before a launched one.
#[derive(Debug)]
enum BatchBefore {
    /// It is durable: the chain value of the tail, and that of the last batch as the writer knows
    /// it.
    Durable(u64, u64),
    /// It is in flight, too.
    InFlight(ChainValue),
}

/// A batch that was launched and completed, and the outcome of its write.
#[derive(Debug)]
pub(crate) struct LaunchedWrite {
    file: Arc<dyn File>,
    name: String,
    pub(crate) batch: BatchInFlight,
    pub(crate) outcome: WriteOutcome,
    blocks: Blocks,
    /// Size of the blocks, in bytes.
    length: usize,
    /// The checksums of its sectors, if they are noted.
    sums: Option<SectorSums>,
    /// Memory for reuse.
    buffer: Vec<u8>,
    pub(crate) batch_seq: u64,
    /// When its leader took it.
    pub(crate) begin: Duration,
}

/// The outcome of the write of a batch.
#[derive(Debug)]
pub(crate) enum WriteOutcome {
    /// It has not begun.
    NotWritten,
    Durable,
    Failed(Error),
}

impl LaunchedWrite {
    /// Writes the batch and returns once it is durable or the write has failed.
    pub(crate) fn write(&mut self) {
        let written = self.file.write_direct(self.blocks.first(self.length), self.batch.at.0);
        self.outcome = match written {
            Ok(()) => WriteOutcome::Durable,
            Err(error) => WriteOutcome::Failed(Error::io(format!("write {}", self.name))(error)),
        };
    }

    pub(crate) fn is_durable(&self) -> bool {
        matches!(self.outcome, WriteOutcome::Durable)
    }
}

impl BatchBefore {
    /// The chain value of the batch, and the one that the writer knows. Waits until the batch is
    /// completed.
    fn chain_values(&self) -> Result<(u64, u64)> {
        match self {
            Self::Durable(chain, known) => Ok((*chain, *known)),
            Self::InFlight(value) => value.wait().map(|chain| (chain, chain)).ok_or_else(|| {
                let why = io::Error::other("the batch before could not be completed");
                Error::io("complete a batch")(why)
            }),
        }
    }
}

impl DirectWrite {
    /// Completes the batch in memory.
    ///
    /// # Errors
    ///
    /// The batch could not be completed, and nothing was written.
    pub(crate) fn complete(self, batch_seq: u64, begin: Duration) -> Result<LaunchedWrite> {
        let Self { file, name, life, mut batch, encryption, before, .. } = self;
        let (at, mut blocks, mut buffer) = (batch.at, self.blocks, vec![]);
        if let Some(Encryption { encryptor, size, memory: mut stored }) = encryption {
            let chunks = encryptor.encrypt((&batch.bytes, batch.spec), (at, &life), &mut stored);
            let chunks = chunks.map_err(cannot_encrypt(batch.spec.first))?;
            let (chain, _) = before.chain_values()?;
            batch.spec = encryptor.authenticate(chunks, chain, (at, &mut stored));
            assert!(stored.len() == size, "its place is as large");
            stored.resize(usize::try_from(self.end.0 - at.0).expect("a batch"), 0);
            buffer = std::mem::replace(&mut batch.bytes, stored);
        }
        let (spec, bytes) = (batch.spec, &mut batch.bytes);
        let body = blocks.complete_body(bytes, (&spec, at, &life), self.needs_sums);
        // Last, since the batch before may not be completed yet.
        let (chain, chain_before) = before.chain_values()?;
        let completed = blocks.complete(bytes, (Spec { chain, ..spec }, at, &life), body);
        let CompletedBlocks { chain, length, sums } = completed;
        self.chain.set(chain);
        let batch = batch.complete(self.end, (chain, chain_before));
        let outcome = WriteOutcome::NotWritten;
        Ok(LaunchedWrite {
            file,
            name,
            batch,
            outcome,
            blocks,
            length,
            sums,
            buffer,
            batch_seq,
            begin,
        })
    }
}

impl Writer {
    /// Where the next batch begins.
    pub(crate) fn next_at(&self) -> Offset {
        self.in_flight.back().map_or(self.tail.at, |batch| batch.end)
    }

    /// Maximum number of bytes that fill the last block of a batch.
    pub(crate) fn padding(&self) -> u64 {
        let block = u64::from(self.tail.header.geometry.block);
        if self.tail.takes_stream() || self.env.fills_blocks { block - 1 } else { 0 }
    }

    /// How many writes may be in flight: the segment may allow more than the options of this open.
    pub(crate) fn in_flight_max(&self) -> u8 {
        self.tail.header.in_flight_max.min(self.env.streaming.in_flight_max)
    }

    /// Whether several batches may be in flight.
    pub(crate) fn takes_stream(&self) -> bool {
        self.in_flight_max() > 1
    }

    /// Whether a batch of this many bytes can be written while others are in flight.
    pub(crate) fn may_launch(&self, bytes: u64) -> bool {
        let (tail, at) = (&self.tail, self.next_at());
        self.in_flight.len() < usize::from(self.in_flight_max() + AHEAD)
            && self.takes_stream()
            && bytes >= self.env.streaming.batch_min
            && tail.rest_of_block(at) == 0
            && self.overhead().size_max(usize::try_from(bytes).unwrap_or(usize::MAX), 0)
                <= tail.room_after(at)
            && self.takes_direct_writes()
    }

    /// Gives a batch its place. The caller completes and writes it, then calls
    /// [`land`](Self::land), or [`fail_over`](Self::fail_over) if the write failed.
    ///
    /// # Errors
    ///
    /// The batch could not be encrypted, and nothing was written.
    pub(crate) fn launch(&mut self, bytes: Vec<u8>, count: u32) -> Result<DirectWrite> {
        let before = match self.in_flight.back() {
            Some(batch) => BatchBefore::InFlight(batch.chain.clone()),
            None => BatchBefore::Durable(self.tail.chain, self.last_chain),
        };
        let mut batch = self.place(bytes, count);
        let (tail, at) = (&self.tail, batch.at);
        let encoder = tail.encoder.as_ref();
        let later = encoder.and_then(|encoder| encoder.encryptor(&batch.bytes, count, &tail.life));
        let (encryption, size) = if let Some((encryptor, size)) = later {
            let memory = self.buffers.pop().unwrap_or_default();
            (Some(Encryption { encryptor, size, memory }), self.size_in_place(size, at))
        } else {
            if encoder.is_some() {
                // Encryption also authenticates the chain value, so it must be known now.
                (batch.spec.chain, _) = before.chain_values()?;
            }
            self.encode(&mut batch)?;
            (None, batch.bytes.len())
        };
        let (end, chain) = (at.plus(to_u64(size)), ChainValueSetter::new());
        self.counts.overlapped += u64::from(!self.in_flight.is_empty());
        let launched = LaunchedBatch { end, last: batch.last(), chain: chain.value() };
        self.in_flight.push_back(launched);
        let blocks = self.blocks.pop().unwrap_or_default();
        let (file, name) = (self.tail.file.clone(), self.tail.header.data_name());
        let (life, needs_sums) = (self.tail.life, self.tail.sums.is_some());
        Ok(DirectWrite {
            file,
            name,
            life,
            batch,
            end,
            encryption,
            before,
            chain,
            blocks,
            needs_sums,
        })
    }

    /// Acknowledges the oldest batch in flight, whose write succeeded. Returns its number of
    /// records and a buffer for reuse.
    pub(crate) fn land(&mut self, write: LaunchedWrite) -> Result<(u32, Vec<u8>)> {
        let LaunchedWrite { batch, blocks, buffer, sums, .. } = write;
        let launched = self.in_flight.pop_front().expect("the batch that was written");
        assert!(launched.end == batch.sent.end, "batches are acknowledged in order");
        let count = batch.sent.count;
        self.tail.note_sums(sums.as_ref());
        self.note_written(&batch, None);
        self.blocks.push(blocks);
        self.keep_buffer(buffer);
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
