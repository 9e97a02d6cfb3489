//! Group commit as a pure state machine: records enter the open batch, the leader takes it to the
//! device and reports the outcome. No I/O, no threads, no clock: time is an argument.

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::write::record_set::EncodedRecords;
use seawall_format::batch::HEADER_SIZE;
use seawall_format::{Lsn, lsn_or_zero, next_lsn};
use std::sync::Arc;
use std::time::Duration;

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

/// The open batch, the batch in flight, and how far the log is durable.
#[derive(Debug)]
pub(crate) struct Commit {
    open: Vec<u8>,
    count: u32,
    /// The buffer of the last batch, for reuse.
    buffer: Vec<u8>,
    next: Lsn,
    batch_seq: u64,
    batch_max: usize,
    /// From this many bytes of frames on, the open batch takes no more.
    target_batch_bytes: usize,
    /// Bytes that a record takes at most on the device in addition to its frame.
    overhead: u64,
    room: Room,
    /// Size of the batch in flight.
    in_flight_bytes: u64,
    durable: Option<Lsn>,
    confirmed: Option<Lsn>,
    /// Batches with lower numbers were durable before the last truncation.
    truncated_before: u64,
    /// When the first record without a waiter entered the open batch.
    no_waiter_since: Option<Duration>,
    /// A task, not a thread, awaits a record of the open batch, or a record found it full.
    has_async_waiter: bool,
    completed_at: Duration,
    failure: Option<Arc<str>>,
    closed: bool,
}

impl Commit {
    /// A log that is durable and confirmed up to these LSNs. A batch has at most `batch_max` bytes,
    /// and takes no more records from `target_batch_bytes` on.
    pub(crate) fn new(
        durable: Option<Lsn>,
        confirmed: Option<Lsn>,
        (batch_max, target_batch_bytes): (usize, usize),
    ) -> Self {
        let room = Room { tail: 0, spare: 0 };
        Self {
            open: vec![0; HEADER_SIZE],
            count: 0,
            buffer: vec![],
            next: next_lsn(durable),
            batch_seq: 0,
            batch_max,
            target_batch_bytes,
            overhead: 0,
            room,
            in_flight_bytes: 0,
            durable,
            confirmed,
            truncated_before: 0,
            no_waiter_since: None,
            has_async_waiter: false,
            completed_at: Duration::ZERO,
            failure: None,
            closed: false,
        }
    }

    pub(crate) fn set_overhead(&mut self, bytes: u64) {
        self.overhead = bytes;
    }

    /// Moves an atomic set into the open batch, if it fits there and space on the device is
    /// certain. The set is empty afterwards.
    pub(crate) fn enqueue(&mut self, set: &mut impl EncodedRecords) -> Result<Enqueued> {
        self.check()?;
        let (size, max) = (set.size(), self.batch_max - HEADER_SIZE);
        if size > max {
            return Err(Error::TooLarge { log: None, size, max });
        }
        let open = self.open.len() - HEADER_SIZE;
        if open + size > max || open >= self.target_batch_bytes {
            return Ok(Enqueued::BatchFull);
        }
        let count = u32::try_from(set.count()).expect("a frame takes 8 bytes of at most 64 MiB");
        let batch = self.size_on_device(self.open.len() + size, self.count + count);
        if !self.has_room_for(batch) {
            return Ok(Enqueued::NoRoom(batch));
        }
        if self.next.get().checked_add(u64::from(count)).is_none() {
            return Err(Error::Poisoned { log: None, cause: "all LSNs are used".into() });
        }
        set.move_to(&mut self.open);
        self.count += count;
        self.next = self.next.plus(u64::from(count));
        let lsn = self.next.previous().expect("a set holds a record");
        Ok(Enqueued::In(Position { lsn, batch_seq: self.batch_seq }))
    }

    /// Size of a batch with `bytes` of frames, at most, on the device.
    fn size_on_device(&self, bytes: usize, count: u32) -> u64 {
        to_u64(bytes) + u64::from(count) * self.overhead
    }

    /// Whether the open batch, grown to this size, fits on the device together with the batch in
    /// flight.
    fn has_room_for(&self, batch: u64) -> bool {
        let Room { tail, spare } = self.room;
        let after_in_flight = self.in_flight_bytes + batch <= tail;
        let in_spare =
            if self.in_flight_bytes <= tail { batch } else { self.in_flight_bytes + batch };
        after_in_flight || in_spare <= spare
    }

    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
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
        let mut fresh = std::mem::take(&mut self.buffer);
        fresh.clear();
        fresh.resize(HEADER_SIZE, 0);
        let bytes = std::mem::replace(&mut self.open, fresh);
        self.in_flight_bytes = self.size_on_device(bytes.len(), self.count);
        let taken = TakenBatch { bytes, count: self.count, batch_seq: self.batch_seq };
        (self.count, self.no_waiter_since, self.has_async_waiter) = (0, None, false);
        self.batch_seq += 1;
        Some(taken)
    }

    /// Notes that the batch in flight is durable; keeps `buffer` for reuse.
    pub(crate) fn complete(&mut self, count: u32, buffer: Vec<u8>, now: Duration) {
        let last = lsn_or_zero(self.durable) + u64::from(count);
        assert!(last < self.next.get(), "a batch is completed once, in order");
        self.durable = Lsn::new(last);
        self.completed_at = now;
        self.buffer = buffer;
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
    }

    /// Poisons the log: a write or sync failed, and no record is acknowledged from now on.
    pub(crate) fn fail(&mut self, cause: &str) {
        self.failure.get_or_insert_with(|| cause.into());
    }

    /// Refuses records from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Schedules the open batch: it holds a record without a waiting thread. Reads the clock once
    /// per batch.
    pub(crate) fn schedule_flush(&mut self, now: impl FnOnce() -> Duration) {
        if self.count > 0 {
            self.no_waiter_since.get_or_insert_with(now);
        }
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

    pub(crate) fn has_open_batch(&self) -> bool {
        self.count > 0
    }

    /// Whether durable records are not confirmed yet.
    pub(crate) fn wants_mark(&self) -> bool {
        self.confirmed < self.durable
    }

    /// When the flusher must take the open batch.
    pub(crate) fn flush_due(&self, delay: Duration, bytes_max: usize) -> Option<Duration> {
        let since = self.no_waiter_since?;
        let at_once = self.has_async_waiter || self.open.len() >= bytes_max;
        Some(if at_once { Duration::ZERO } else { since + delay })
    }

    /// When the log has been idle long enough to write a mark.
    pub(crate) fn mark_due(&self, idle: Option<Duration>) -> Option<Duration> {
        let idle = idle.filter(|_| self.wants_mark() && !self.has_open_batch())?;
        Some(self.completed_at + idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::record_set::RecordSet;

    const NOW: Duration = Duration::from_secs(1);

    fn commit() -> Commit {
        let mut commit = Commit::new(Lsn::new(7), Lsn::new(7), (256, 256));
        commit.set_room(Room { tail: 10_000, spare: 0 });
        commit
    }

    fn enqueue(commit: &mut Commit, payload: &[u8]) -> Position {
        match commit.enqueue(&mut RecordSet::of(&[payload])).unwrap() {
            Enqueued::In(position) => position,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_spare_is_free_only_while_no_open_record_can_rely_on_it() {
        let mut commit = commit();
        commit.set_room(Room { tail: 0, spare: 200 });
        assert!(commit.release_spare());
        let refused = commit.enqueue(&mut RecordSet::of(&[b"a"])).unwrap();
        assert!(matches!(refused, Enqueued::NoRoom(_)), "{refused:?}");
        commit.set_room(Room { tail: 0, spare: 200 });
        enqueue(&mut commit, b"a");
        assert!(!commit.release_spare());
        enqueue(&mut commit, b"b");
    }

    #[test]
    fn records_are_numbered_in_order_and_reached_when_their_batch_is() {
        let mut commit = commit();
        let first = enqueue(&mut commit, b"a");
        let taken = commit.take().unwrap();
        let second = enqueue(&mut commit, b"b");
        assert_eq!((first.lsn.get(), second.lsn.get()), (8, 9));
        assert!(!commit.reached(first, WaitFor::Durable));
        commit.complete(taken.count, taken.bytes, NOW);
        assert!(commit.reached(first, WaitFor::Durable));
        assert!(!commit.reached(second, WaitFor::Durable));
        assert!(!commit.reached(first, WaitFor::Confirmed));
        commit.confirm();
        assert!(commit.reached(first, WaitFor::Confirmed));
        assert!(!commit.reached(second, WaitFor::Confirmed));
    }

    #[test]
    fn truncated_record_counts_as_reached_and_its_successor_does_not() {
        let mut commit = commit();
        let truncated = enqueue(&mut commit, b"a");
        let taken = commit.take().unwrap();
        commit.complete(taken.count, taken.bytes, NOW);
        commit.truncate(Lsn::new(7));
        assert!(commit.reached(truncated, WaitFor::Confirmed));
        let next = enqueue(&mut commit, b"b");
        assert_eq!(next.lsn, truncated.lsn);
        assert!(!commit.reached(next, WaitFor::Durable));
    }

    #[test]
    fn a_full_batch_takes_nothing_more_and_loses_nothing() {
        let mut commit = commit();
        enqueue(&mut commit, &[1; 100]);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&[2; 100]])).unwrap(), Enqueued::BatchFull);
        assert_eq!(commit.take().unwrap().count, 1);
        assert_eq!(enqueue(&mut commit, &[2; 100]).lsn.get(), 9);
    }

    #[test]
    fn batch_of_the_target_size_is_full_and_a_large_set_may_exceed_it() {
        let mut commit = Commit::new(None, None, (256, 100));
        commit.set_room(Room { tail: 10_000, spare: 0 });
        // Frames of 8 + 80 bytes, 8 + 8 bytes, 8 + 104 bytes.
        enqueue(&mut commit, &[1; 80]);
        enqueue(&mut commit, &[2; 8]);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[b""])).unwrap(), Enqueued::BatchFull);
        assert_eq!(commit.take().unwrap().count, 2);
        enqueue(&mut commit, &[1; 80]);
        enqueue(&mut commit, &[3; 104]);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[b""])).unwrap(), Enqueued::BatchFull);
        assert_eq!(commit.take().unwrap().count, 2);
    }

    #[test]
    fn record_without_reserved_space_is_refused() {
        // A batch of one such record has 48 + 8 + 56 bytes.
        let record = [1; 56];
        let mut commit = commit();
        commit.set_room(Room { tail: 112, spare: 0 });
        enqueue(&mut commit, &record);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(176));
        let taken = commit.take().unwrap();
        assert_eq!(
            commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(),
            Enqueued::NoRoom(112),
            "one is in flight"
        );
        commit.set_room(Room { tail: 112, spare: 112 });
        enqueue(&mut commit, &record);
        commit.complete(taken.count, taken.bytes, NOW);
        commit.set_room(Room { tail: 0, spare: 112 });
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(176));
    }

    #[test]
    fn overhead_of_a_text_line_needs_room_too() {
        let record = [1; 56];
        let mut commit = commit();
        commit.set_overhead(100);
        commit.set_room(Room { tail: 212 + 311, spare: 0 });
        enqueue(&mut commit, &record);
        commit.take().unwrap();
        assert_eq!(
            commit.enqueue(&mut RecordSet::of(&[&record, &record])).unwrap(),
            Enqueued::NoRoom(376)
        );
        enqueue(&mut commit, &record);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(376));
    }

    #[test]
    fn a_set_that_no_batch_holds_is_refused_before_it_has_a_number() {
        let mut commit = commit();
        assert!(matches!(
            commit.enqueue(&mut RecordSet::of(&[&[0; 150], &[0; 150]])),
            Err(Error::TooLarge { .. })
        ));
        assert_eq!(enqueue(&mut commit, b"next").lsn.get(), 8);
    }

    /// LSNs left to assign. Only a forged header brings a log this close to the end.
    #[test]
    fn a_record_for_which_there_is_no_number_is_refused_and_those_before_are_kept() {
        let mut commit = Commit::new(Lsn::new(u64::MAX - 3), None, (256, 256));
        commit.set_room(Room { tail: 10_000, spare: 0 });
        assert_eq!(enqueue(&mut commit, b"a").lsn.get(), u64::MAX - 2);
        assert!(matches!(
            commit.enqueue(&mut RecordSet::of(&[b"b", b"c"])),
            Err(Error::Poisoned { .. })
        ));
        assert_eq!(enqueue(&mut commit, b"d").lsn.get(), u64::MAX - 1);
        assert!(matches!(commit.enqueue(&mut RecordSet::of(&[b"e"])), Err(Error::Poisoned { .. })));
        let taken = commit.take().unwrap();
        commit.complete(taken.count, taken.bytes, NOW);
        assert_eq!(commit.durable(), Lsn::new(u64::MAX - 1));
    }

    #[test]
    fn after_a_failure_nothing_is_admitted_and_the_first_cause_is_told() {
        let mut commit = commit();
        commit.fail("the sync failed");
        commit.fail("something later");
        let refused = commit.enqueue(&mut RecordSet::of(&[b"x"])).unwrap_err();
        assert!(matches!(refused, Error::Poisoned { cause, .. } if &*cause == "the sync failed"));
    }

    #[test]
    fn batch_without_a_waiter_is_due_after_its_delay_and_an_awaited_one_at_once() {
        let delay = Duration::from_millis(10);
        let mut commit = commit();
        let position = enqueue(&mut commit, b"x");
        assert_eq!(commit.flush_due(delay, 1000), None);
        commit.schedule_flush(|| NOW);
        commit.schedule_flush(|| NOW * 2);
        assert_eq!(commit.flush_due(delay, 1000), Some(NOW + delay));
        assert_eq!(commit.flush_due(delay, 10), Some(Duration::ZERO));
        commit.note_async_waiter(position.lsn);
        assert_eq!(commit.flush_due(delay, 1000), Some(Duration::ZERO));
    }

    #[test]
    fn a_mark_is_due_only_when_the_log_idles_with_something_to_confirm() {
        let idle = Some(Duration::from_millis(100));
        let mut commit = commit();
        assert_eq!(commit.mark_due(idle), None);
        enqueue(&mut commit, b"x");
        let taken = commit.take().unwrap();
        commit.complete(taken.count, taken.bytes, NOW);
        assert_eq!(commit.mark_due(idle), Some(NOW + Duration::from_millis(100)));
        enqueue(&mut commit, b"y");
        assert_eq!(commit.mark_due(idle), None, "a commit comes first");
    }

    #[test]
    fn a_batch_is_filled_to_its_last_byte_and_no_further() {
        // A batch of 256 bytes has a header of 48, and frames of 8 plus a multiple of 8.
        let mut commit = commit();
        enqueue(&mut commit, &[1; 200]);
        assert_eq!(commit.take().unwrap().bytes.len(), 256);
        match commit.enqueue(&mut RecordSet::of(&[&[1; 201]])) {
            Err(Error::TooLarge { size, max, .. }) => assert_eq!((size, max), (216, 208)),
            other => panic!("{other:?}"),
        }
        enqueue(&mut commit, &[1; 96]);
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&[2; 97]])).unwrap(), Enqueued::BatchFull);
        enqueue(&mut commit, &[2; 96]);
        assert_eq!(commit.take().unwrap().bytes.len(), 256);
    }

    #[test]
    fn set_gets_consecutive_lsns_and_marks_its_last_record() {
        let mut commit = commit();
        let set: [&[u8]; 3] = [b"a", b"", b"ccccccccc"];
        let Enqueued::In(position) = commit.enqueue(&mut RecordSet::of(&set)).unwrap() else {
            panic!()
        };
        assert_eq!((position.lsn.get(), position.batch_seq), (10, 0));
        assert_eq!(enqueue(&mut commit, b"alone").lsn.get(), 11);
        let taken = commit.take().unwrap();
        let frames = seawall_format::frame::Frames::new(
            &taken.bytes[HEADER_SIZE..],
            Lsn::FIRST,
            taken.count,
        );
        let found: Vec<_> = frames.map(|frame| (frame.payload.len(), frame.goes_on)).collect();
        assert_eq!(found, [(1, true), (0, true), (9, false), (5, false)]);
    }

    #[test]
    fn batches_are_counted_and_an_empty_one_is_not_taken() {
        let mut commit = commit();
        assert!(commit.take().is_none());
        assert_eq!(
            commit.last_enqueued(),
            Some(Position { lsn: Lsn::new(7).unwrap(), batch_seq: 0 })
        );
        for number in 0..3 {
            let position = enqueue(&mut commit, b"x");
            assert_eq!(position.batch_seq, number);
            assert_eq!(commit.last_enqueued(), Some(position));
            assert!(commit.has_open_batch());
            let taken = commit.take().unwrap();
            assert_eq!((taken.batch_seq, taken.count), (number, 1));
            assert!(!commit.has_open_batch());
            assert_eq!(commit.last_enqueued(), Some(position), "its batch is in flight");
            commit.complete(taken.count, taken.bytes, NOW);
            assert_eq!(commit.durable(), Some(position.lsn));
        }
    }

    #[test]
    fn durable_records_want_a_mark_until_they_are_confirmed() {
        let mut commit = commit();
        assert!(!commit.wants_mark());
        enqueue(&mut commit, b"x");
        assert!(!commit.wants_mark());
        let taken = commit.take().unwrap();
        commit.complete(taken.count, taken.bytes, NOW);
        assert!(commit.wants_mark());
        assert_eq!(commit.mark_due(None), None, "no marks were requested");
        commit.confirm();
        assert!(!commit.wants_mark());
    }

    #[test]
    fn waiting_for_a_batch_in_flight_does_not_hurry_the_open_batch() {
        let delay = Duration::from_millis(10);
        let mut commit = commit();
        let under_way = enqueue(&mut commit, b"x");
        let _taken = commit.take().unwrap();
        commit.note_async_waiter(under_way.lsn);
        commit.schedule_flush(|| NOW);
        assert_eq!(commit.flush_due(delay, 1000), None, "nothing is open");
        let open = enqueue(&mut commit, b"y");
        commit.schedule_flush(|| NOW * 3);
        commit.note_async_waiter(under_way.lsn);
        assert_eq!(commit.flush_due(delay, 1000), Some(NOW * 3 + delay));
        // A batch of one byte has 48 + 8 + 8 bytes.
        assert_eq!(commit.flush_due(delay, 65), Some(NOW * 3 + delay));
        assert_eq!(commit.flush_due(delay, 64), Some(Duration::ZERO));
        commit.note_async_waiter(open.lsn);
        assert_eq!(commit.flush_due(delay, 1000), Some(Duration::ZERO));
        commit.take().unwrap();
        enqueue(&mut commit, b"z");
        assert_eq!(commit.flush_due(delay, 1000), None, "the next batch has a waiter");
        commit.schedule_flush(|| NOW);
        assert_eq!(commit.flush_due(delay, 1000), Some(NOW + delay), "and no async waiter");
    }

    #[test]
    fn room_counts_the_batch_in_flight_and_the_open_batch_together() {
        let record = [1; 56];
        let mut commit = commit();
        // Both batches fit into the tail, to the last byte.
        commit.set_room(Room { tail: 224, spare: 0 });
        enqueue(&mut commit, &record);
        let taken = commit.take().unwrap();
        enqueue(&mut commit, &record);
        commit.complete(taken.count, taken.bytes, NOW);
        commit.take().unwrap();
        // The batch in flight does not fit into the tail, so both must fit into the preallocated
        // segment.
        commit.set_room(Room { tail: 111, spare: 223 });
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(112));
        commit.set_room(Room { tail: 111, spare: 224 });
        enqueue(&mut commit, &record);
    }

    #[test]
    fn closed_log_reports_closed_unless_it_failed_before() {
        let mut commit = commit();
        commit.close();
        assert!(matches!(commit.enqueue(&mut RecordSet::of(&[b"x"])), Err(Error::Closed { .. })));
        commit.fail("the sync failed");
        assert!(matches!(commit.check(), Err(Error::Poisoned { .. })));
    }
}
