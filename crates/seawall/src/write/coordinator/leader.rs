//! What the thread does that has the writer: it takes a batch to the device, or makes room there,
//! with the lock released, and tells those who wait what came of it.

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

/// Who leads lets others run so often before it is sure that no more come.
const YIELDS_MAX: u32 = if cfg!(seawall_scheduled) { 1 } else { 200 };
/// Who stays awake looks so often at most, should time stand still.
const SPINS_MAX: u32 = if cfg!(seawall_scheduled) { 2 } else { 10_000 };

impl Coordinator {
    /// Waits a moment, with the lock released and the writer in hand, for others who are about to
    /// append: they then share one flight.
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

    /// Stays awake until the gate is opened, but lets others run; whether it was opened in time.
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

    /// Takes the open batch to the device with the lock released, and tells what came of it.
    pub(crate) fn lead(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        writer: Box<Writer>,
        goal: WaitFor,
    ) {
        let failovers = self.write_open_batch(state, writer, goal);
        self.report_failovers(&failovers);
    }

    /// The same; returns what the failover hook is yet to hear of.
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
        // With nothing to write the log idles, or somebody wants to be sure.
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
        // Without the lock: those who are let through are about to take it for their next record.
        match batch_seq {
            // A mark concerns whoever waits for a confirmation, of an older batch too. At level
            // `Confirmed` nobody does: each batch comes with its own.
            Some(batch_seq) if !mark || self.level == Level::Confirmed => {
                // One of those in the next batch leads it; first, as to wake many takes long.
                self.batch_event(batch_seq + 1).notify_one();
                self.batch_event(batch_seq).notify_all();
            }
            _ => self.batch_done.iter().for_each(EventCount::notify_all),
        }
        wake(wakers);
        failovers
    }

    /// Sees to it that a batch of `size` bytes has a place on the device, with the lock released.
    pub(super) fn make_room<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut writer: Box<Writer>,
        size: u64,
    ) -> Result<MutexGuard<'a, State>> {
        let preallocation = state.preallocation.made.take();
        drop(state);
        let guard = PanicGuard(self);
        writer.take_preallocated(preallocation);
        let made = if writer.room().spare >= size { Ok(()) } else { writer.make_room(size) };
        std::mem::forget(guard);
        let mut state = self.lock();
        state.return_writer(writer);
        self.wake_for_writer(&state);
        self.wake_for_room(&state);
        // Whose records are in the open batch found no writer meanwhile: one of them leads it now,
        // as this thread may end with an error.
        self.batch_done.iter().for_each(EventCount::notify_all);
        if state.wants_writer {
            self.flusher_work.notify_all();
        }
        match made {
            Ok(()) => Ok(state),
            Err(source) if is_full(&source) => Err(Error::DiskFull { source }),
            Err(source) => Err(Error::io_in("make a file for the next segment")(source)),
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

/// The number of a durable batch, its records, and a buffer for another one.
type Written = (u64, u32, Vec<u8>);

/// Whether the device said that there is no room, in one of the ways in which it can.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    [StorageFull, FileTooLarge, QuotaExceeded].contains(&error.kind())
}
