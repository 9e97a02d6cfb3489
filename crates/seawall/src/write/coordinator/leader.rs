//! The leader: writes a batch or makes room for one with the lock released, then publishes the
//! outcome and wakes the waiters.

use crate::base::error::{Error, Result};
use crate::base::event_count::EventCount;
use crate::base::options::Failover;
use crate::base::sync::{MutexGuard, Ordering, yield_now};
use crate::write::coordinator::{Coordinator, PanicGuard, State, wake};
use crate::write::group_commit::{TakenBatch, WaitFor};
use crate::write::writer::Writer;
use seawall_format::Level;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// After this many yields without a new waiter, the leader assumes that no more committers come.
const YIELDS_MAX: u32 = if cfg!(seawall_scheduled) { 1 } else { 200 };
/// Bounds the spin in case the clock does not advance.
const SPINS_MAX: u32 = if cfg!(seawall_scheduled) { 2 } else { 10_000 };

impl Coordinator {
    /// Commit delay: waits briefly, with the lock released and the writer in hand, for other
    /// committers to join the batch.
    pub(crate) fn wait_for_group<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let Some(next_delay) = state.commit_delay.next_delay() else { return state };
        let before = state.commit_delay.waiters();
        drop(state);
        let guard = PanicGuard(self);
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
        std::mem::forget(guard);
        let mut state = self.lock();
        state.commit_delay.wait_finished(before);
        state
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

    /// Writes the open batch with the lock released, then publishes the outcome.
    pub(crate) fn lead(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        writer: Box<Writer>,
        goal: WaitFor,
    ) {
        let failovers = self.write_open_batch(state, writer, goal);
        self.report_failovers(&failovers);
    }

    /// Like [`lead`](Self::lead), but returns the failovers for the caller to report.
    #[must_use]
    pub(super) fn write_open_batch(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        mut writer: Box<Writer>,
        goal: WaitFor,
    ) -> Vec<Failover> {
        let batch = state.commit.take();
        state.commit_delay.batch_taken();
        self.open_batch_waiters.store(0, Ordering::Relaxed);
        let begin = self.clock.now();
        let mark = goal == WaitFor::Confirmed || self.level == Level::Confirmed;
        let preallocation = state.preallocation.made.take();
        drop(state);
        let guard = PanicGuard(self);
        writer.take_preallocated(preallocation);
        let is_idle = batch.is_none();
        let mut outcome = Ok(None);
        if let Some(TakenBatch { bytes, count, batch_seq }) = batch {
            outcome = writer.write(bytes, count).map(|buffer| Some((batch_seq, count, buffer)));
        }
        if mark && outcome.is_ok() {
            let marked = writer.mark();
            outcome = outcome.and_then(|written| marked.map(|()| written));
        }
        // Without a batch, the log is idle or a caller waits for confirmation: complete the parity.
        writer.update_parity(is_idle && outcome.is_ok(), !self.preallocate);
        std::mem::forget(guard);
        let mut state = self.lock();
        state.commit_delay.batch_completed(self.clock.now().saturating_sub(begin));
        self.request_preallocation(&mut state, &writer);
        self.hand_over_parity(&mut state, &mut writer);
        self.request_deferred_deletes(&mut state);
        let failovers = std::mem::take(&mut writer.failovers);
        state.return_writer(writer);
        self.wake_for_writer(&state);
        let written = match outcome {
            Ok(written) => written,
            Err(error) => {
                state.commit.fail(&error.cause());
                self.wake_all(state);
                return failovers;
            }
        };
        let batch_seq = written.as_ref().map(|written| written.0);
        self.complete_batch(&mut state, written, mark);
        let goal = if mark { WaitFor::Confirmed } else { WaitFor::Durable };
        let State { wakers, commit, .. } = &mut *state;
        let wakers = wakers.take(|position| commit.reached(position, goal));
        drop(state);
        // Waiters take the lock for their next record as soon as they wake, so it is released
        // first.
        match batch_seq {
            // A mark also confirms older batches, whose waiters may wait on either event. Not at
            // level `Confirmed`: there each batch has its own mark.
            Some(batch_seq) if !mark || self.level == Level::Confirmed => {
                // One waiter of the next batch leads it. It goes first, because waking many takes
                // long.
                self.batch_event(batch_seq + 1).notify_one();
                self.batch_event(batch_seq).notify_all();
            }
            _ => self.batch_done.iter().for_each(EventCount::notify_all),
        }
        wake(wakers);
        failovers
    }

    /// Makes sure that a batch of `size` bytes has space on the device, with the lock released.
    pub(super) fn make_room<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut writer: Box<Writer>,
        size: u64,
    ) -> Result<MutexGuard<'a, State>> {
        let preallocation = state.preallocation.made.take();
        // Records of the open batch may need the smaller segment, so it stays until a larger one
        // exists. Without such records it goes first: its space may be all that is left.
        let is_spare_free = state.commit.release_spare();
        drop(state);
        let guard = PanicGuard(self);
        writer.take_preallocated(preallocation);
        let is_large = writer.room().spare >= size;
        if is_spare_free && !is_large {
            writer.discard_spare();
        }
        let made = if is_large { Ok(()) } else { writer.make_room(size) };
        std::mem::forget(guard);
        let mut state = self.lock();
        state.return_writer(writer);
        self.wake_for_writer(&state);
        self.wake_for_room(&state);
        // The waiters of the open batch found no writer meanwhile. Wake them so that one leads it:
        // this thread may return an error.
        self.batch_done.iter().for_each(EventCount::notify_all);
        if state.wants_writer {
            self.flusher_work.notify_all();
        }
        match made {
            Ok(()) => Ok(state),
            Err(source) if is_full(&source) => Err(Error::DiskFull { source }),
            Err(source) => Err(Error::io_in("create a file for the next segment")(source)),
        }
    }

    fn complete_batch(self: &Arc<Self>, state: &mut State, written: Option<Written>, marked: bool) {
        if let Some((_, count, buffer)) = written {
            state.commit.complete(count, buffer, self.clock.now());
        }
        if marked {
            state.commit.confirm();
        }
        self.publish(state);
        if state.followers > 0 {
            self.new_records.notify_all();
        }
        self.wake_for_room(state);
        if state.wants_writer {
            self.flusher_work.notify_all();
        } else if self.next_due(state).is_some() {
            self.wake_background(state);
        }
    }
}

/// Number of a durable batch, its record count, and a buffer for reuse.
type Written = (u64, u32, Vec<u8>);

/// Whether `error` is one of the ways in which a device reports that it is full.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    [StorageFull, FileTooLarge, QuotaExceeded].contains(&error.kind())
}
