//! Group commit as a pure state machine: records enter the open batch, the leader takes it to the
//! device and reports the outcome. No I/O, no threads, no clock: time is an argument.

mod truncations;

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::write::group_commit::truncations::Truncations;
use crate::write::record_set::EncodedRecords;
use crate::write::tail::batch_encoder::Overhead;
use seawall_format::batch::HEADER_SIZE;
use seawall_format::{Lsn, frame, lsn_or_zero, next_lsn};
use seawall_io::prefetch_for_write;
use std::sync::Arc;
use std::time::Duration;

/// Buffers kept for reuse: writes in flight may be acknowledged together.
const BUFFERS_MAX: usize = 2;

/// Distance from the end of the open batch to the memory that is prefetched, in bytes. It holds a
/// few short records: while they are added, the memory arrives.
const PREFETCH_DISTANCE: usize = 1024;

/// Bytes that are prefetched for one set at most.
const PREFETCH_MAX: usize = 4096;

/// How far a record must be for its waiter to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A sync that covers the record has returned.
    Durable,
    /// Durable, and evidence of that is durable in another place on the device.
    Confirmed,
}

/// LSN and batch of an enqueued record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The record's LSN; of an atomic set, the last one.
    pub(crate) lsn: Lsn,
    /// The batch, as counted by this process.
    pub(crate) batch_seq: u64,
}

/// Space on the device that is certain to be available, in bytes. A record is enqueued only if it
/// fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Left in the tail segment.
    pub(crate) tail: u64,
    /// In the preallocated segment; 0 without one.
    pub(crate) spare: u64,
    /// Maximum number of bytes there that fill the last block of the first batch.
    pub(crate) spare_padding: u64,
}

/// Outcome of enqueueing an atomic set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enqueued {
    /// The set has LSNs and is in the open batch.
    In(Position),
    /// The open batch is full; the leader must take it first.
    BatchFull,
    /// A batch of this many bytes has no space on the device.
    NoRoom(u64),
}

/// A batch on its way to the device.
#[derive(Debug)]
pub(crate) struct TakenBatch {
    /// Space for the batch header, then frames without LSNs.
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) batch_seq: u64,
}

/// Limits of a batch, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSizes {
    /// The largest batch.
    pub(crate) batch_max: usize,
    /// From this many bytes of frames on, the open batch takes no more.
    pub(crate) target_batch_bytes: usize,
    /// Like `target_batch_bytes`, where several writes may be in flight.
    pub(crate) stream_batch_bytes: usize,
}

/// The open batch, the batch in flight, and how far the log is durable.
#[derive(Debug)]
pub(crate) struct Commit {
    open: Vec<u8>,
    count: u32,
    /// Buffers of earlier batches, for reuse.
    buffers: Vec<Vec<u8>>,
    next: Lsn,
    batch_seq: u64,
    sizes: BatchSizes,
    /// How much larger than its frames a batch can be on the device.
    overhead: Overhead,
    /// Maximum size of any batch on the device, without `padding`.
    size_max: u64,
    /// Maximum number of bytes that fill the last block of a batch.
    padding: u64,
    /// Whether several batches may be in flight.
    takes_stream: bool,
    room: Room,
    /// Size of the batch in flight.
    in_flight_bytes: u64,
    durable: Option<Lsn>,
    confirmed: Option<Lsn>,
    /// Batches with lower numbers were durable before the last truncation.
    truncated_before: u64,
    truncations: Truncations,
    /// When the first record without a waiter entered the open batch.
    no_waiter_since: Option<Duration>,
    /// A task, not a thread, awaits a record of the open batch, or a record found it full.
    has_async_waiter: bool,
    completed_at: Duration,
    failure: Option<Arc<str>>,
    closed: bool,
}

impl Commit {
    /// A log that is durable and confirmed up to these LSNs.
    pub(crate) fn new(durable: Option<Lsn>, confirmed: Option<Lsn>, sizes: BatchSizes) -> Self {
        let room = Room { tail: 0, spare: 0, spare_padding: 0 };
        Self {
            open: vec![0; HEADER_SIZE],
            count: 0,
            buffers: vec![],
            next: next_lsn(durable),
            batch_seq: 0,
            sizes,
            overhead: Overhead::NONE,
            size_max: to_u64(sizes.batch_max),
            padding: 0,
            takes_stream: false,
            room,
            in_flight_bytes: 0,
            durable,
            confirmed,
            truncated_before: 0,
            truncations: Truncations::default(),
            no_waiter_since: None,
            has_async_waiter: false,
            completed_at: Duration::ZERO,
            failure: None,
            closed: false,
        }
    }

    pub(crate) fn set_overhead(&mut self, overhead: Overhead) {
        self.overhead = overhead;
        let bytes = self.sizes.batch_max;
        let frames = u32::try_from(bytes / frame::HEADER_SIZE).unwrap_or(u32::MAX);
        self.size_max = overhead.size_max(bytes, frames);
    }

    /// Moves an atomic set into the open batch, if it fits there and space on the device is
    /// certain. The set is empty afterwards.
    #[inline]
    pub(crate) fn enqueue(&mut self, set: &mut impl EncodedRecords) -> Result<Enqueued> {
        self.check()?;
        let (size, max) = (set.size(), self.sizes.batch_max - HEADER_SIZE);
        if size > max {
            return Err(Error::TooLarge { log: None, size, max });
        }
        let open = self.open.len() - HEADER_SIZE;
        let BatchSizes { target_batch_bytes, stream_batch_bytes, .. } = self.sizes;
        let target = if self.takes_stream { stream_batch_bytes } else { target_batch_bytes };
        if open + size > max || open >= target {
            return Ok(Enqueued::BatchFull);
        }
        let count = u32::try_from(set.count()).expect("a frame takes 8 bytes of at most 64 MiB");
        if !self.has_room_for_any() {
            let batch = self.size_on_device(self.open.len() + size, self.count + count);
            if !self.has_room_for(batch) {
                return Ok(Enqueued::NoRoom(batch));
            }
        }
        if self.next.get().checked_add(u64::from(count)).is_none() {
            return Err(Error::Poisoned { log: None, cause: "all LSNs are used".into() });
        }
        set.move_to(&mut self.open);
        prefetch_after(&mut self.open, size);
        self.count += count;
        self.next = self.next.plus(u64::from(count));
        let lsn = self.next.previous().expect("a set holds a record");
        Ok(Enqueued::In(Position { lsn, batch_seq: self.batch_seq }))
    }

    /// Size of a batch with `bytes` of frames, at most, on the device.
    #[inline]
    fn size_on_device(&self, bytes: usize, count: u32) -> u64 {
        self.overhead.size_max(bytes, count) + self.padding
    }

    /// Whether even the largest batch fits in the tail after the batch in flight. Saves calculating
    /// the size of an encrypted batch for each record.
    #[inline]
    fn has_room_for_any(&self) -> bool {
        self.in_flight_bytes + self.size_max + self.padding <= self.room.tail
    }

    /// Whether the open batch, grown to this size, fits on the device together with the batch in
    /// flight.
    #[inline]
    fn has_room_for(&self, batch: u64) -> bool {
        let Room { tail, spare, spare_padding } = self.room;
        let after_in_flight = self.in_flight_bytes + batch <= tail;
        let before = self.in_flight_bytes + spare_padding;
        let in_spare = if self.in_flight_bytes <= tail { batch } else { before + batch };
        after_in_flight || in_spare <= spare
    }

    /// Sets the room, and the maximum of it that each batch takes to fill its last block.
    pub(crate) fn set_room(&mut self, room: Room, padding: u64) {
        (self.room, self.padding) = (room, padding);
    }

    /// Notes that the batch in flight has its place: the room no longer includes its space.
    pub(crate) fn placed(&mut self) {
        self.in_flight_bytes = 0;
    }

    /// Bytes of the open batch; 0 if it has no record.
    pub(crate) fn open_bytes(&self) -> u64 {
        if self.has_open_batch() { to_u64(self.open.len()) } else { 0 }
    }

    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// Takes the preallocated segment out of the room, unless the open batch holds records that may
    /// need it. Returns whether it did.
    pub(crate) fn release_spare(&mut self) -> bool {
        let is_free = !self.has_open_batch();
        if is_free {
            self.room.spare = 0;
        }
        is_free
    }

    /// Refuses when the log is poisoned or closed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match &self.failure {
            Some(cause) => Err(Error::Poisoned { log: None, cause: cause.clone() }),
            None if self.closed => Err(Error::Closed { log: None }),
            None => Ok(()),
        }
    }

    /// Whether the record at `position` reached `goal`. A record that was truncated since counts as
    /// reached, even if its LSN has been reused.
    pub(crate) fn reached(&self, position: Position, goal: WaitFor) -> bool {
        let so_far = match goal {
            WaitFor::Durable => self.durable,
            WaitFor::Confirmed => self.confirmed,
        };
        position.batch_seq < self.truncated_before || Some(position.lsn) <= so_far
    }

    /// Takes the open batch for writing. Later records enter the next one.
    pub(crate) fn take(&mut self) -> Option<TakenBatch> {
        if self.count == 0 {
            return None;
        }
        let mut fresh = self.buffers.pop().unwrap_or_default();
        fresh.clear();
        fresh.resize(HEADER_SIZE, 0);
        let bytes = std::mem::replace(&mut self.open, fresh);
        self.in_flight_bytes = self.size_on_device(bytes.len(), self.count);
        let taken = TakenBatch { bytes, count: self.count, batch_seq: self.batch_seq };
        (self.count, self.no_waiter_since, self.has_async_waiter) = (0, None, false);
        self.batch_seq += 1;
        Some(taken)
    }

    /// Notes that the oldest `count` records in flight are durable; keeps `buffer` for reuse.
    pub(crate) fn complete(&mut self, count: u32, buffer: Vec<u8>, now: Duration) {
        let last = lsn_or_zero(self.durable) + u64::from(count);
        assert!(last < self.next.get(), "a batch is completed once, in order");
        self.durable = Lsn::new(last);
        self.completed_at = now;
        if self.buffers.len() < BUFFERS_MAX {
            self.buffers.push(buffer);
        }
        self.in_flight_bytes = 0;
    }

    /// Notes that evidence for all durable records is durable.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = self.durable;
    }

    /// Notes a durable truncation after `last`. The caller ensures that no batch is open or in
    /// flight.
    pub(crate) fn truncate(&mut self, last: Option<Lsn>) {
        assert!(self.count == 0, "the log is truncated between batches");
        (self.durable, self.confirmed, self.next) = (last, last, next_lsn(last));
        self.truncated_before = self.batch_seq;
        self.truncations.push(self.next);
    }

    /// The lowest LSN that a truncation after the first `seen` ones gave up.
    pub(crate) fn truncated_since(&self, seen: u64) -> Option<Lsn> {
        self.truncations.lowest_since(seen)
    }

    /// Poisons the log: a write or sync failed, and no record is acknowledged from now on.
    pub(crate) fn fail(&mut self, cause: &str) {
        self.failure.get_or_insert_with(|| cause.into());
    }

    /// Refuses records from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the log was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Schedules the open batch: it holds a record without a waiting thread. Reads the clock once
    /// per batch, for the first such record, and then returns true.
    #[inline]
    pub(crate) fn schedule_flush(&mut self, now: impl FnOnce() -> Duration) -> bool {
        let is_first = self.count > 0 && self.no_waiter_since.is_none();
        if is_first {
            self.no_waiter_since = Some(now());
        }
        is_first
    }

    /// Size of the open batch with the space for its header, in bytes.
    #[inline]
    pub(crate) fn open_len(&self) -> usize {
        self.open.len()
    }

    /// Schedules the open batch at once: a record found no room in it.
    pub(crate) fn schedule_flush_at_once(&mut self, now: impl FnOnce() -> Duration) {
        self.schedule_flush(now);
        self.has_async_waiter |= self.count > 0;
    }

    /// Notes that a task awaits this record. Returns whether the record is in the open batch.
    pub(crate) fn note_async_waiter(&mut self, lsn: Lsn) -> bool {
        let first_open = self.next.get() - u64::from(self.count);
        let is_open = self.count > 0 && lsn.get() >= first_open;
        self.has_async_waiter |= is_open;
        is_open
    }

    pub(crate) fn durable(&self) -> Option<Lsn> {
        self.durable
    }

    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next
    }

    pub(crate) fn confirmed(&self) -> Option<Lsn> {
        self.confirmed
    }

    /// The last record that was enqueued, and its batch.
    pub(crate) fn last_enqueued(&self) -> Option<Position> {
        let batch_seq =
            if self.count > 0 { self.batch_seq } else { self.batch_seq.saturating_sub(1) };
        self.next.previous().map(|lsn| Position { lsn, batch_seq })
    }

    /// Sets whether several batches may be in flight.
    pub(crate) fn set_takes_stream(&mut self, takes_stream: bool) {
        self.takes_stream = takes_stream;
    }

    /// Whether several batches may be in flight.
    #[inline]
    pub(crate) fn takes_stream(&self) -> bool {
        self.takes_stream
    }

    /// Whether the batch with this number is open.
    pub(crate) fn is_open_batch(&self, batch_seq: u64) -> bool {
        batch_seq == self.batch_seq
    }

    /// Whether the record at `position` is in the open batch.
    pub(crate) fn is_open(&self, position: Position) -> bool {
        position.batch_seq == self.batch_seq
    }

    pub(crate) fn has_open_batch(&self) -> bool {
        self.count > 0
    }

    /// Whether durable records are not confirmed yet.
    pub(crate) fn wants_mark(&self) -> bool {
        self.confirmed < self.durable
    }

    /// When the flusher must take the open batch. From `bytes_max` on: at once. If a task awaits a
    /// record: `gather` after the record came and the device was ready for it. Else after `delay`.
    pub(crate) fn flush_due(
        &self,
        (delay, gather): (Duration, Duration),
        bytes_max: usize,
    ) -> Option<Duration> {
        let since = self.no_waiter_since?;
        let has_async_waiter = self.has_async_waiter;
        let at_once = (has_async_waiter && gather.is_zero()) || self.open.len() >= bytes_max;
        Some(match () {
            () if at_once => Duration::ZERO,
            () if has_async_waiter => since.max(self.completed_at).saturating_add(gather),
            () => since.saturating_add(delay),
        })
    }

    /// When the log has been idle long enough to write a mark.
    pub(crate) fn mark_due(&self, idle: Option<Duration>) -> Option<Duration> {
        let idle = idle.filter(|_| self.wants_mark() && !self.has_open_batch())?;
        Some(self.completed_at.saturating_add(idle))
    }
}

/// Prefetches memory that later records will fill, as much as a set of `size` bytes has taken. The
/// flusher, on another processor, has read and written an earlier batch there. Without this, stores
/// wait until its cache returns each line, which takes 200 ns between distant processors (ADR 22).
#[inline]
fn prefetch_after(batch: &mut Vec<u8>, size: usize) {
    let ahead = batch.spare_capacity_mut().get_mut(PREFETCH_DISTANCE..).unwrap_or_default();
    let size = size.min(PREFETCH_MAX).min(ahead.len());
    if let Some(ahead) = ahead.get_mut(..size) {
        prefetch_for_write(ahead);
    }
}

#[cfg(test)]
mod tests;
