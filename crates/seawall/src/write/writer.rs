//! The writer of the tail segment: one write and one sync per batch. Each log has one, and the
//! leader holds it.

pub(crate) mod counts;
#[cfg(feature = "encryption")]
mod encryption;
mod enter;
mod name_check;
pub(crate) mod run_once;
pub(crate) mod seal_thread;
pub(crate) mod streaming;

use crate::base::env::Env;
use crate::base::error::{Damage, Error, Result};
use crate::base::num::to_u64;
use crate::base::options::Failover;
use crate::base::retention::RetentionState;
use crate::base::spare_files::{SpareFile, may_be_spare};
use crate::files::live::LiveFile;
use crate::files::manifest::{ManifestFile, SEQUENCE_MAX};
use crate::parity::writer::{ParityFlush, ParityWriter};
use crate::write::direct_io::Blocks;
use crate::write::group_commit::Room;
use crate::write::in_flight::AHEAD;
use crate::write::pending::{BatchInFlight, LaunchedBatch, PlacedBatch};
use crate::write::pending::{RewriteBatch, WrittenBatch};
use crate::write::preallocation::file::{PreallocatedSegment, length_for};
use crate::write::preallocation::reused::prepare;
use crate::write::rotation::{Predecessor, Rotated, RotationPlan, next_id, rotate};
use crate::write::tail::TailSegment;
use crate::write::tail::batch_encoder::{Overhead, cannot_encrypt};
use crate::write::truncation::removal::SegmentRemoval;
use crate::write::writer::counts::Counts;
use crate::write::writer::run_once::RunOnce;
use crate::write::writer::seal_thread::SealThread;
use seawall_format::batch::{BodyKind, Spec};
use seawall_format::before::SectorSums;
use seawall_format::{
    Closed, Finished, Lsn, Mark, Offset, SegmentHeader, SegmentId, SegmentRef, next_lsn,
};
use seawall_io::Lock;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

/// Buffers kept for reuse: as many as one block of small batches frees at once.
const BUFFERS_MAX: usize = 64;
/// Up to this size, in bytes, many buffers are kept.
const BUFFER_SIZE_MAX: usize = 256 << 10;
/// Up to this size, in bytes, as many buffers are kept as batches may be launched: a stream has one
/// more, the open batch.
const LARGE_BUFFER_MAX: usize = 4 << 20;

/// Maximum number of full segments whose checksums are kept, half a mebibyte for a segment of 64
/// MiB. The file of any other is read before it is reused, which takes as long as a stream takes to
/// fill it (ADR 16).
const SUMS_MAX: usize = 64;

/// The only writer of a log.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) env: Env,
    pub(crate) manifest: ManifestFile,
    /// The write of the manifest that was left to the preallocator. The next write of the manifest
    /// and exclusive operations wait for it.
    pub(crate) deferred_write: Option<RunOnce>,
    pub(crate) live: LiveFile,
    pub(crate) tail: TailSegment,
    /// The live segments before the tail, oldest first.
    pub(crate) chain: Vec<SegmentHeader>,
    /// The missing segments between those, each with the records that are lost. The segment before
    /// such a gap ends before the first of these, whatever batches follow in it.
    pub(crate) gaps: Vec<Damage>,
    /// The last record; everything up to it is durable.
    pub(crate) last: Option<Lsn>,
    /// The chain value of the batch that holds `last`, or 0 if this process has not seen that
    /// batch.
    pub(crate) last_chain: u64,
    /// Batches in the block where the next one begins, oldest first.
    pub(crate) recent: VecDeque<WrittenBatch>,
    /// Computes parity for what is written, if the log has parity.
    pub(crate) parity: Option<ParityWriter>,
    /// Parity that is written but not synced.
    pub(crate) parity_flushes: Vec<ParityFlush>,
    /// Seals the tail while the next segment gets its first batch, from the first such rotation on.
    pub(crate) seal_thread: Option<Arc<SealThread>>,
    /// Preallocated files of the next segment.
    pub(crate) spare: Option<PreallocatedSegment>,
    /// The checksums of the content of full segments.
    pub(crate) sums: BTreeMap<SegmentId, SectorSums>,
    /// Buffers for reuse.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Memory for block-aligned writes.
    pub(crate) blocks: Vec<Blocks>,
    /// The batches that are written without the writer, after the durable ones, oldest first.
    pub(crate) in_flight: VecDeque<LaunchedBatch>,
    pub(crate) max_id: Option<SegmentId>,
    /// Minimum size of a segment, in bytes.
    pub(crate) segment_min: u64,
    pub(crate) counts: Counts,
    pub(crate) retained: RetentionState,
    /// Files of pruned segments, for the preallocator to remove.
    pub(crate) removals: Vec<SegmentRemoval>,
    /// Failures that the log survived, to be reported to the hook.
    pub(crate) failovers: Vec<Failover>,
    /// The file lock, held as long as the writer exists.
    pub(crate) lock: Box<dyn Lock>,
}

/// Content and minimum size of a new segment.
pub(crate) struct NewSegment {
    pub(crate) carry: Vec<RewriteBatch>,
    pub(crate) size_min: u64,
    /// Bytes that must fit after `carry`.
    pub(crate) reserve: u64,
    /// How many writes may be in flight.
    pub(crate) in_flight_max: u8,
    /// Whether the seal of the tail failed.
    pub(crate) seal_failed: bool,
}

impl Writer {
    /// Writes a batch (space for its header, then frames without LSNs) and returns once it is
    /// durable. Returns a buffer for reuse. No other batch may be in flight.
    pub(crate) fn write(&mut self, bytes: Vec<u8>, count: u32) -> Result<Vec<u8>> {
        self.retain_if_due()?;
        let size = self.size_max(bytes.len(), count);
        let is_full = self.tail.is_full_for(size);
        if is_full && self.can_enter_next(size) {
            self.enter_next(bytes, count)?;
        } else {
            if is_full {
                self.rotate(size)?;
            }
            self.write_in_tail(bytes, count)?;
        }
        self.retain_if_due()?;
        Ok(self.buffers.pop().unwrap_or_default())
    }

    /// Writes a batch after those of the tail.
    fn write_in_tail(&mut self, bytes: Vec<u8>, count: u32) -> Result<()> {
        let (batch, text) = self.prepare(bytes, count)?;
        let mut blocks = self.blocks.pop().unwrap_or_default();
        let written = self.write_synced(&batch, text.as_deref(), &mut blocks);
        self.blocks.push(blocks);
        match written {
            Ok(()) => self.acknowledge(batch),
            Err(error) => self.fail_over(&error, vec![batch]),
        }
    }

    /// Maximum size of a batch on the device, without the padding of its last block.
    fn size_max(&self, bytes: usize, count: u32) -> u64 {
        self.overhead().size_max(bytes, count)
    }

    /// How much larger than their frames batches can be on the device.
    pub(crate) fn overhead(&self) -> Overhead {
        Overhead::of(&self.env, &self.manifest.content)
    }

    /// Completes a batch in memory for the place after the last one; none is in flight. Also
    /// returns its text, in the layout that has one.
    pub(super) fn prepare(
        &mut self,
        bytes: Vec<u8>,
        count: u32,
    ) -> Result<(BatchInFlight, Option<Vec<u8>>)> {
        assert!(self.in_flight.is_empty(), "a batch that follows one in flight is launched");
        let mut placed = self.place(bytes, count);
        placed.spec.chain = self.tail.chain;
        self.encode(&mut placed)?;
        let (bytes, at) = (&mut placed.bytes, placed.at);
        let Finished { end, chain, text } = self.tail.finish(bytes, placed.spec, at);
        Ok((placed.complete(end, (chain, self.last_chain)), text))
    }

    /// Gives a batch its numbers and its place after those in flight. It has no chain value yet.
    fn place(&self, bytes: Vec<u8>, count: u32) -> PlacedBatch {
        let first = next_lsn(self.in_flight.back().map_or(self.last, |batch| Some(batch.last)));
        let (time_us, kind) = (self.env.clock.wall_us(), BodyKind::Frames);
        let spec = Spec { first, count, kind, confirmed: self.last, chain: 0, time_us };
        PlacedBatch { at: self.next_at(), spec, plain_bytes: to_u64(bytes.len()), bytes }
    }

    /// Encodes a batch if the tail has an encoder, and fills its last block if that is required.
    fn encode(&mut self, placed: &mut PlacedBatch) -> Result<()> {
        let PlacedBatch { at, spec, bytes, .. } = placed;
        if self.tail.encoder.is_some() {
            let mut stored = self.buffers.pop().unwrap_or_default();
            let encoded = self.tail.encode((bytes, *spec), *at, &mut stored);
            if let Some(encoded) = encoded.map_err(cannot_encrypt(spec.first))? {
                (stored, *spec) = (std::mem::replace(bytes, stored), encoded);
            }
            self.keep_buffer(stored);
        }
        bytes.resize(self.size_in_place(bytes.len(), *at), 0);
        Ok(())
    }

    /// The size on the device of an encoded batch of `size` bytes at `at`, which may fill its last
    /// block.
    fn size_in_place(&self, size: usize, at: Offset) -> usize {
        let tail = &self.tail;
        if tail.pads(at) || self.env.fills_blocks { tail.padded(size, at) } else { size }
    }

    /// Writes and syncs a batch, together with the batches that share its first block.
    fn write_synced(
        &mut self,
        batch: &BatchInFlight,
        text: Option<&[u8]>,
        blocks: &mut Blocks,
    ) -> Result<()> {
        let (at, bytes, tail) = (batch.at, &batch.sent.bytes, &self.tail);
        let filled;
        let (start, whole) = if let Some(text) = text {
            (at.0, text)
        } else {
            let block = tail.header.geometry.block;
            match blocks.covering((at, bytes), &self.recent, block) {
                Some(blocks) => blocks,
                // In a reused file, the rest of the block holds bytes of an earlier segment.
                None if tail.header.is_reused => {
                    filled = [&bytes[..], &tail.zeros_after(batch.sent.end)].concat();
                    (at.0, filled.as_slice())
                }
                None => (at.0, bytes.as_slice()),
            }
        };
        let written = tail.file.write_synced(whole, start);
        written.map_err(|e| Error::io(format!("write {}", tail.header.data_name()))(e))?;
        self.tail.note_written((start, whole));
        self.note_written(batch, text);
        Ok(())
    }

    /// Adds a batch that is on the device to chain and parity.
    pub(super) fn note_written(&mut self, batch: &BatchInFlight, text: Option<&[u8]>) {
        let tail = &mut self.tail;
        tail.chain = batch.chain;
        if let Some(parity) = &mut self.parity {
            let written = (batch.at.0, text.unwrap_or(&batch.sent.bytes));
            self.parity_flushes.extend(parity.follow(&tail.covered(&self.env.storage), written));
            self.counts.parity_stripes = parity.stripes;
            self.counts.parity_failures = parity.failures;
        }
    }

    /// Counts a batch that is on the device as durable, and tells readers.
    pub(super) fn acknowledge(&mut self, batch: BatchInFlight) -> Result<()> {
        self.check_tail()?;
        self.take_in(batch);
        self.tell_readers();
        Ok(())
    }

    /// Counts a batch that is on the device as durable.
    fn take_in(&mut self, batch: BatchInFlight) {
        self.count(&batch);
        let BatchInFlight { chain, plain_bytes, sent, .. } = batch;
        (self.tail.at, self.last_chain) = (sent.end, chain);
        self.tail.written.batches += 1;
        self.tail.written.bytes += plain_bytes;
        self.recent.push_back(sent);
        self.forget_whole_blocks();
    }

    /// Counts a batch that is durable.
    fn count(&mut self, batch: &BatchInFlight) {
        let BatchInFlight { at, plain_bytes, sent, .. } = batch;
        self.last = Some(sent.last());
        self.counts.bytes += sent.end.0 - at.0;
        self.counts.plain_bytes += plain_bytes;
        self.counts.batches += 1;
        self.counts.compressed += u64::from(sent.kind == BodyKind::Encoded);
        self.counts.records += u64::from(sent.count);
    }

    /// Handles a failed write: the file gets no more writes, and every batch in the blocks that the
    /// writes in flight touched goes into a new segment, from memory (R8). All writes must have
    /// returned: `in_flight` are their batches, oldest first.
    pub(crate) fn fail_over(&mut self, error: &Error, in_flight: Vec<BatchInFlight>) -> Result<()> {
        self.counting(|writer| writer.carry_in_flight(error, in_flight))
    }

    fn carry_in_flight(&mut self, error: &Error, in_flight: Vec<BatchInFlight>) -> Result<()> {
        let (life, keys) = (self.tail.life, self.env.keys_of(&self.tail.header)?);
        let before = (&life, keys.as_deref());
        // It is unknown what the write left.
        self.tail.sums = None;
        self.in_flight.clear();
        let oldest = self.recent.front().or(in_flight.first().map(|batch| &batch.sent));
        let oldest = oldest.expect("the batch whose write failed");
        let (base, chain_before) = (oldest.first, oldest.chain_before);
        let unsealed = self.recent.drain(..).map(|sent| sent.unseal(before));
        let mut carry = unsealed.collect::<Result<Vec<_>>>()?;
        for batch in in_flight {
            self.count(&batch);
            carry.push(batch.sent.unseal(before)?);
        }
        let new = NewSegment { carry, ..self.empty_segment() };
        self.switch_segment(base, chain_before, new)?;
        self.note_failover(error);
        self.forget_whole_blocks();
        self.tell_readers();
        Ok(())
    }

    fn note_failover(&mut self, error: &Error) {
        self.counts.failovers += 1;
        let (cause, segment) = (format!("{error:#}"), self.tail.header.id);
        self.failovers.push(Failover { cause, segment });
    }

    /// Rotates to a segment of twice the size that has space for a batch of `size` bytes.
    fn rotate(&mut self, size: u64) -> Result<()> {
        let in_flight_max = self.next_in_flight_max();
        // The manifest first: programs that do not know several writes must refuse the log.
        if in_flight_max > self.manifest.content.in_flight_max {
            self.manifest.content.in_flight_max = in_flight_max;
            self.write_manifest()?;
        }
        let size_min = self.next_size();
        let empty = self.empty_segment();
        let new = NewSegment { size_min, reserve: size, in_flight_max, ..empty };
        self.switch_segment(next_lsn(self.last), self.last_chain, new)?;
        self.counts.rolls += 1;
        self.retained.is_due = self.retained.rule.is_some();
        Ok(())
    }

    /// Size of the file of the next segment in an ordinary rotation, in bytes.
    pub(crate) fn next_size(&self) -> u64 {
        let log = &self.manifest.content;
        length_for(log, 0, (self.tail.soft_limit * 2).min(log.segment_max))
    }

    /// The first record that is not pruned, and the newest checkpoint.
    pub(crate) fn bounds(&self) -> (Lsn, Option<Lsn>) {
        let content = &self.manifest.content;
        (content.oldest_base, content.newest_checkpoint())
    }

    /// Space on the device that is certain to be available.
    pub(crate) fn room(&self) -> Room {
        let start = self.tail.header.data_start();
        let room =
            |spare: &PreallocatedSegment| spare.reserved.map_or(u64::MAX, |size| size - start);
        let tail = self.tail.room_after(self.next_at());
        let spare = self.spare.as_ref().map_or(0, room);
        let block = u64::from(self.manifest.content.geometry.block);
        let is_named = self.spare.as_ref().is_some_and(|spare| spare.named.is_some());
        Room { tail, spare, spare_padding: if is_named { block - 1 } else { 0 } }
    }

    /// Takes a file that the next segment can reuse, and the id of that segment, which is
    /// reserved from now on.
    pub(crate) fn take_spare_file(&mut self) -> Option<(SpareFile, SegmentId)> {
        let spare = self.env.spare_files.take(self.next_size())?;
        let Ok(id) = next_id(self.max_id) else {
            spare.discard(&*self.env.storage);
            return None;
        };
        self.max_id = Some(id);
        Some((spare, id))
    }

    /// Adopts preallocated files; discards them if there are some already.
    pub(crate) fn take_preallocated(&mut self, preallocation: Option<PreallocatedSegment>) {
        let Some(preallocation) = preallocation else { return };
        match &self.spare {
            Some(_) => preallocation.discard(&self.env),
            None => self.spare = Some(preallocation),
        }
        self.renew_spare();
    }

    /// Gives the preallocated segment another id if the tail is no longer the segment before it.
    /// Under its old name, a removal of older segments would remove it, and a rotation on a full
    /// disk could not write its table again. Discards it if that is not possible now.
    pub(crate) fn renew_spare(&mut self) {
        let tail = self.tail.header.reference();
        let is_late = |spare: &mut PreallocatedSegment| {
            let follows_another = |named: &SegmentHeader| named.pred != Some(tail);
            spare.named.as_ref().is_some_and(follows_another)
                || spare.life.is_some_and(|life| life.id <= tail.id)
        };
        let Some(mut spare) = self.spare.take_if(is_late) else { return };
        let renewed = next_id(self.max_id).is_ok_and(|id| {
            self.max_id = Some(id);
            let log = &self.manifest.content;
            spare.take_name(&self.env).and_then(|()| spare.rebind(&self.env, log, id)).is_ok()
        });
        if renewed {
            self.spare = Some(spare);
        } else {
            spare.discard(&self.env);
        }
    }

    /// Creates a preallocated segment with space for a batch of `size` bytes: of the usual size, or
    /// as small as possible if the disk is too full. A smaller one is kept until then.
    pub(crate) fn make_room(&mut self, size: u64) -> io::Result<()> {
        let log = &self.manifest.content;
        let size_min = length_for(log, size, self.segment_min);
        let usual = length_for(log, size, self.next_size());
        let large = if let Some(reused) = self.reuse_now(usual) {
            reused
        } else {
            let log = &self.manifest.content;
            PreallocatedSegment::create_now(&self.env, log, (usual, size_min))?
        };
        let large = if let Ok(large) = self.name_now(large) {
            large
        } else {
            // The next rotation names it.
            let log = &self.manifest.content;
            PreallocatedSegment::create_now(&self.env, log, (usual, size_min))?
        };
        if let Some(small) = self.spare.replace(large) {
            small.discard(&self.env);
        }
        Ok(())
    }

    /// Names the segment ahead, if no thread prepares files in advance.
    fn name_now(&mut self, large: PreallocatedSegment) -> io::Result<PreallocatedSegment> {
        let reserved = large.life.map(|life| life.id);
        let next = if self.env.has_preallocator { None } else { self.next_named_ahead(reserved) };
        match next {
            Some(next) => large.name_ahead(&self.env, &next),
            None => Ok(large),
        }
    }

    /// Prepares a spare file of at least `size` bytes, if no thread prepares files in advance.
    fn reuse_now(&mut self, size: u64) -> Option<PreallocatedSegment> {
        if self.env.has_preallocator || self.next_size() < size {
            return None;
        }
        let (spare, id) = self.take_spare_file()?;
        prepare(&self.env, spare, id, |_| true).ok().flatten()
    }

    /// Removes the preallocated segment.
    pub(crate) fn discard_spare(&mut self) {
        if let Some(spare) = self.spare.take() {
            spare.discard(&self.env);
        }
    }

    /// Continues in a new segment. All rotations of an open log go through here.
    pub(crate) fn switch_segment(
        &mut self,
        base: Lsn,
        chain_before: u64,
        new: NewSegment,
    ) -> Result<()> {
        self.check_names()?;
        let size_min = new.size_min.max(self.segment_min);
        let spare = self.spare.take();
        let NewSegment { carry, reserve, in_flight_max, seal_failed, .. } = new;
        let pred = Some(Predecessor { seal_failed, ..Predecessor::of(&self.tail) });
        let plan = RotationPlan {
            base,
            carry,
            pred,
            chain_before,
            size_min,
            reserve,
            spare,
            in_flight_max,
        };
        let rotated = rotate(&self.env, &self.manifest.content, plan, &mut self.max_id)?;
        let Rotated { tail, sent, skipped_segments } = rotated;
        if !sent.is_empty() {
            self.last_chain = tail.chain;
        }
        self.counts.reused += u64::from(tail.header.is_reused);
        let before = std::mem::replace(&mut self.tail, tail);
        self.leave(before, skipped_segments);
        self.recent = sent.into();
        Ok(())
    }

    /// Adds the full segment to the chain, and the skipped segments between it and the tail.
    fn leave(&mut self, mut before: TailSegment, skipped_segments: Vec<SegmentHeader>) {
        // A whole file may be used again when its segment is removed.
        if self.may_reuse(&before) {
            self.keep_sums(&mut before);
            self.retained.lengths.insert(before.header.id, before.size());
        } else {
            before.truncate_after_last_batch();
        }
        self.chain.push(before.header);
        self.chain.extend(skipped_segments);
    }

    /// Keeps the checksums of a full segment until it is removed.
    fn keep_sums(&mut self, full: &mut TailSegment) {
        if let Some(sums) = full.sums.take().filter(|_| self.sums.len() < SUMS_MAX) {
            self.sums.insert(full.header.id, sums);
        }
    }

    /// Whether the file of a full segment is worth reusing.
    fn may_reuse(&self, full: &TailSegment) -> bool {
        let log = &self.manifest.content;
        self.env.spare_files.is_on()
            && may_be_spare(&full.header, log)
            && full.room() < full.header.size / 8
    }

    /// Starts a new segment if the tail does not fit the settings of the log: records of another
    /// schema (a segment's header has the schema of all its records), compressed or encrypted
    /// batches, or batches that share no block with the durable ones.
    pub(crate) fn enter_settings(&mut self) -> Result<()> {
        let (tail, log) = (&self.tail.header, &self.manifest.content);
        let has_schema = tail.record_type.schema == log.record_type.schema;
        let is_encrypted = tail.authenticator.is_some() || log.authenticator.is_none();
        let is_at_block = !self.env.fills_blocks || self.tail.rest_of_block(self.tail.at) == 0;
        let is_compressed = tail.compression_max >= log.compression;
        if has_schema && is_encrypted && is_compressed && is_at_block {
            return Ok(());
        }
        let empty = self.empty_segment();
        self.switch_segment(next_lsn(self.last), self.last_chain, empty)
    }

    /// A segment as small as possible, which begins without records.
    pub(crate) fn empty_segment(&self) -> NewSegment {
        let in_flight_max = self.tail.header.in_flight_max;
        NewSegment { carry: vec![], size_min: 0, reserve: 0, in_flight_max, seal_failed: false }
    }

    /// Drops batches that share no block with the next one: its write cannot damage them.
    fn forget_whole_blocks(&mut self) {
        let block = u64::from(self.tail.header.geometry.block);
        let start = self.tail.at.0 / block * block;
        while self.recent.front().is_some_and(|sent| sent.end.0 <= start) {
            let sent = self.recent.pop_front().expect("just looked at");
            self.keep_buffer(sent.bytes);
        }
    }

    fn keep_buffer(&mut self, buffer: Vec<u8>) {
        let is_large = |buffer: &Vec<u8>| buffer.capacity() > BUFFER_SIZE_MAX;
        let is_wanted = if is_large(&buffer) {
            let large = self.buffers.iter().filter(|buffer| is_large(buffer)).count();
            let is_needed = large < usize::from(self.in_flight_max() + AHEAD);
            buffer.capacity() <= LARGE_BUFFER_MAX && is_needed
        } else {
            self.buffers.len() < BUFFERS_MAX
        };
        if is_wanted {
            self.buffers.push(buffer);
        }
    }

    /// Writes a mark: evidence, away from the data, that everything so far is durable. No write is
    /// in flight meanwhile.
    pub(crate) fn mark(&mut self) -> Result<()> {
        self.check_names()?;
        let sequence = self.tail.marks + 1;
        let mark = Mark { confirmed: self.last, sequence, time_us: self.env.clock.wall_us() };
        let header = &self.tail.header;
        let offset = mark.slot().offset(header.geometry);
        let written = if sequence > SEQUENCE_MAX {
            // As with the manifest, readers reject a higher number.
            Err(io::Error::other("all sequence numbers of marks are used"))
        } else {
            let keys = self.env.keys_of(header)?;
            let bytes = mark.stored(header, keys.as_deref());
            let written = self.tail.head.write_at(&bytes, offset.0);
            written.and_then(|()| self.tail.head.sync())
        };
        if let Err(error) = written {
            let error = Error::io_in(format!("mark {}", header.head_name()))(error);
            // The base of the next segment confirms as much as the mark would have.
            let empty = self.empty_segment();
            self.switch_segment(next_lsn(self.last), self.last_chain, empty)?;
            self.note_failover(&error);
            self.tell_readers();
            return Ok(());
        }
        self.counts.marks += 1;
        self.tail.marks = sequence;
        Ok(())
    }

    /// Writes parity slots: with `complete`, for everything written so far. Syncs them with
    /// `at_once`, else leaves that to the preallocator.
    pub(crate) fn update_parity(&mut self, complete: bool, at_once: bool) {
        let Some(parity) = &mut self.parity else { return };
        if complete {
            self.parity_flushes.extend(parity.complete(&self.tail.covered(&self.env.storage)));
            self.counts.parity_failures = parity.failures;
        }
        if at_once {
            self.parity_flushes.drain(..).for_each(|flush| flush.run_in_background());
        }
    }

    /// Completes and syncs parity, including the names of its files.
    fn flush_parity(&mut self) {
        if self.parity.is_some() {
            self.update_parity(true, true);
            // An error is ignored: the next open creates what is missing.
            let _ = self.env.sync_dir();
        }
    }

    /// Closes cleanly: the manifest records where the log ends.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.discard_spare();
        self.env.spare_files.discard_all(&*self.env.storage);
        self.flush_parity();
        self.tail.release_reserved();
        self.manifest.content.closed =
            Some(Closed { last: self.last, segment: self.tail.header.reference() });
        self.manifest.content.is_closed = true;
        self.write_manifest()
    }

    /// Publishes the durable end to readers on this boot, before any acknowledgement (R16).
    ///
    /// A failure is counted, not returned: readers then sync what they show.
    pub(crate) fn tell_readers(&mut self) {
        let newest = (self.tail.header.reference(), self.last);
        let published = self.live.publish(&self.env, self.manifest.content.log, newest);
        self.counts.live_failures += u64::from(published.is_err());
    }

    /// Tells readers that the log ends with `durable` in `segment`, before later records are
    /// truncated (R10).
    ///
    /// # Errors
    ///
    /// Readers could not be told.
    pub(crate) fn stop_readers(&mut self, segment: SegmentRef, durable: Option<Lsn>) -> Result<()> {
        let published = self.live.stop(&self.env, self.manifest.content.log, (segment, durable));
        // The failed write may have stored nothing or a part.
        published.inspect_err(|_| self.tell_readers())
    }
}
