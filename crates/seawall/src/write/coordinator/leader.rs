//! The leader: writes a batch, or makes room for one, with the lock released.

use crate::base::error::Result;
use crate::base::event_count::EventCount;
use crate::base::sync::{Ordering, yield_now};
use crate::write::coordinator::Coordinator;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::lease::{LockedLease, WriterLease};
use crate::write::coordinator::publish::{DurableBatch, Outcome};
use crate::write::group_commit::{TakenBatch, WaitFor};
use crate::write::preallocation::file::cannot_create;
use crate::write::truncation::removal::SegmentRemoval;
use crate::write::writer::Writer;
use seawall_format::Level;
use std::sync::Arc;
use std::time::Duration;

/// After this many yields without a new waiter, the leader assumes that no more committers come.
const YIELDS_MAX: u32 = if cfg!(seawall_scheduled) { 1 } else { 200 };
/// Bounds the spin in case the clock does not advance.
const SPINS_MAX: u32 = if cfg!(seawall_scheduled) { 2 } else { 10_000 };

/// A waiter of a stream spins for at most this long: a large batch takes 300 us on a fast device.
const WAITER_SPIN_MAX: Duration = Duration::from_micros(400);

/// A yield that takes longer has let another program run.
const YIELD_MAX: Duration = Duration::from_millis(1);
/// Number of spins to skip in a stream after such a yield.
const SPINS_TO_SKIP: u32 = 100;

impl Coordinator {
    /// Commit delay: waits briefly, with the lock released and the writer in hand, for other
    /// committers to join the batch. A mark alone waits for no one.
    pub(crate) fn wait_for_group<'a>(&self, mut locked: LockedLease<'a>) -> LockedLease<'a> {
        if !locked.state.in_flight.is_empty() || !locked.state.commit.has_open_batch() {
            return locked;
        }
        let Some(next_delay) = locked.state.commit_delay.next_delay() else { return locked };
        let before = locked.state.commit_delay.waiters();
        let writer = locked.unlock();
        let (begin, mut open_batch_waiters, mut idle) = (self.clock.now(), before, 0);
        while open_batch_waiters < next_delay.target_waiters && idle < YIELDS_MAX {
            if self.clock.now().saturating_sub(begin) > next_delay.max_wait {
                break;
            }
            yield_now();
            let seen = std::mem::replace(
                &mut open_batch_waiters,
                self.open_batch_waiters.load(Ordering::Relaxed),
            );
            idle = if open_batch_waiters == seen { idle + 1 } else { 0 };
        }
        let mut locked = writer.lock();
        locked.state.commit_delay.wait_finished(before);
        locked
    }

    /// Spins, yielding, until `event` is notified or `limit` has passed. Returns whether it was
    /// notified.
    pub(super) fn spin_wait(&self, (event, seen): (&EventCount, u32), limit: Duration) -> bool {
        let begin = self.clock.now();
        for _ in 0..SPINS_MAX {
            if event.epoch() != seen {
                return true;
            }
            if self.clock.now().saturating_sub(begin) > limit {
                return false;
            }
            yield_now();
        }
        false
    }

    /// Lets one waiter of a stream spin until `event` is notified, so that its thread can start the
    /// next batch immediately. Returns whether it was notified.
    pub(super) fn spin_as_waiter(&self, event: (&EventCount, u32)) -> bool {
        let is_first = self.spinning_waiters.fetch_add(1, Ordering::Relaxed) == 0;
        let is_notified = is_first && self.spin_in_stream(event, WAITER_SPIN_MAX);
        self.spinning_waiters.fetch_sub(1, Ordering::Relaxed);
        is_notified
    }

    /// Spins between two batches of a stream, unless other programs keep the processors busy: then
    /// a thread that sleeps continues sooner than one that yields.
    pub(crate) fn spin_in_stream(
        &self,
        (event, seen): (&EventCount, u32),
        limit: Duration,
    ) -> bool {
        let skipped = self.spins_to_skip.load(Ordering::Relaxed);
        if skipped > 0 || self.cpu_count < 2 {
            self.spins_to_skip.store(skipped.saturating_sub(1), Ordering::Relaxed);
            return false;
        }
        let mut now = self.clock.now();
        let end = now + limit;
        for _ in 0..SPINS_MAX {
            if event.epoch() != seen || now > end {
                break;
            }
            yield_now();
            let before = std::mem::replace(&mut now, self.clock.now());
            if now.saturating_sub(before) > YIELD_MAX {
                self.spins_to_skip.store(SPINS_TO_SKIP, Ordering::Relaxed);
                break;
            }
        }
        event.epoch() != seen
    }

    /// Writes the open batch with the lock released, then publishes the outcome.
    pub(crate) fn lead(self: &Arc<Self>, locked: LockedLease<'_>, goal: WaitFor) {
        self.write_open_batch(locked, goal).run();
    }

    /// Like [`lead`](Self::lead), but leaves the user's code for the caller to run.
    pub(crate) fn write_open_batch<'a>(
        self: &'a Arc<Self>,
        mut locked: LockedLease<'a>,
        goal: WaitFor,
    ) -> Callbacks<'a> {
        let is_alone = locked.state.in_flight.is_empty();
        let mark = is_alone && (goal == WaitFor::Confirmed || self.level == Level::Confirmed);
        let launches = !mark && locked.may_launch();
        assert!(is_alone || launches, "a batch that follows one in flight is launched, too");
        let batch = locked.state.commit.take();
        locked.state.commit_delay.batch_taken();
        self.open_batch_waiters.store(0, Ordering::Relaxed);
        if batch.is_some() {
            self.wake_for_room(&locked.state);
            locked.state.launched_bytes = if launches { locked.state.launched_bytes } else { 0 };
        }
        let begin = self.clock.now();
        let preallocation = locked.state.preallocation.made.take();
        let mut writer = locked.unlock();
        writer.take_preallocated(preallocation);
        let batch = match batch {
            Some(batch) if launches => return self.launch(writer, batch, begin),
            batch => batch,
        };
        let is_idle = batch.is_none();
        let outcome = write_batch(&mut writer, batch, mark);
        let is_durable = matches!(outcome, Outcome::Durable { .. });
        // Without a batch, the log is idle or a caller waits for confirmation: complete the parity.
        writer.update_parity(is_idle && is_durable, !self.preallocate);
        self.finish_batch(writer, outcome, begin)
    }

    /// Returns the writer after a batch, hands over the work that follows one, and publishes the
    /// outcome.
    pub(super) fn finish_batch<'a>(
        self: &'a Arc<Self>,
        writer: WriterLease<'a>,
        outcome: Outcome,
        begin: Duration,
    ) -> Callbacks<'a> {
        let mut locked = writer.lock();
        let LockedLease { state, writer } = &mut locked;
        state.commit_delay.batch_completed(self.clock.now().saturating_sub(begin));
        // After a failure it is unknown which segment is the newest.
        if !matches!(outcome, Outcome::Failed(_)) {
            self.request_preallocation(state, writer);
        }
        self.hand_over_parity(state, writer);
        self.hand_over_removals(state, writer);
        self.request_deferred_deletes(state);
        let failovers = std::mem::take(&mut writer.failovers);
        locked.finish(outcome).with_failovers(failovers)
    }
}

impl LockedLease<'_> {
    /// Makes sure that a batch of `size` bytes has space on the device, with the lock released.
    pub(crate) fn make_room(mut self, size: u64) -> Result<()> {
        let preallocation = self.state.preallocation.made.take();
        // Records of the open batch may need the smaller segment, so it stays until a larger one
        // exists. Without such records it goes first: its space may be all that is left.
        let is_spare_free = self.state.commit.release_spare();
        let removals = std::mem::take(&mut self.state.preallocation.removals);
        let mut writer = self.unlock();
        // If the disk is full, the new file may need the space of these segments.
        removals.into_iter().for_each(SegmentRemoval::run_in_background);
        writer.take_preallocated(preallocation);
        let is_large = writer.room().spare >= size;
        if is_spare_free && !is_large {
            writer.discard_spare();
        }
        let made = if is_large { Ok(()) } else { writer.make_room(size) };
        writer.lock().finish(Outcome::Room).run();
        made.map_err(cannot_create)
    }
}

/// Writes `batch`, if there is one, and a mark if it is wanted.
fn write_batch(writer: &mut Writer, batch: Option<TakenBatch>, mark: bool) -> Outcome {
    let mut written = None;
    if let Some(TakenBatch { bytes, count, batch_seq }) = batch {
        match writer.write(bytes, count) {
            Ok(buffer) => {
                written = Some(DurableBatch { batch_seq: Some(batch_seq), count, buffer });
            }
            Err(error) => return Outcome::Failed(error.cause()),
        }
    }
    if mark && let Err(error) = writer.mark() {
        return Outcome::Failed(error.cause());
    }
    Outcome::Durable { batch: written, is_marked: mark }
}
