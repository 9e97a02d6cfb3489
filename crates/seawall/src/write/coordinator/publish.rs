//! Publishes what was done with the writer, and wakes the threads and tasks that it concerns.

use crate::base::event_count::EventCount;
use crate::base::sync::{MutexGuard, Ordering};
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::{Coordinator, PANICKED, State};
use crate::write::group_commit::WaitFor;
use seawall_format::{Level, lsn_or_zero};
use std::sync::Arc;

/// What a thread did with the writer.
pub(super) enum Outcome {
    /// The batch, if there was one, is durable. With `is_marked`, so is a mark: every durable
    /// record is confirmed.
    Durable { batch: Option<DurableBatch>, is_marked: bool },
    /// The device has space for another batch, or refused it.
    Room,
    /// A batch is on its way to the device.
    Launched { batch_seq: u64 },
    /// An operation between two batches has ended.
    Exclusive,
    /// A write or sync failed, for this cause: the log is poisoned.
    Failed(String),
}

/// Records that were written and synced.
pub(super) struct DurableBatch {
    /// The number of their batch; `None` for several.
    pub(super) batch_seq: Option<u64>,
    pub(super) count: u32,
    /// A buffer for reuse.
    pub(super) buffer: Vec<u8>,
}

impl Coordinator {
    /// Stores the outcome and wakes every thread and task that it concerns, in this order:
    ///
    /// 1. With the lock held: exclusive users, for whom the writer has just been returned.
    /// 2. The durable and confirmed LSN are stored, because committers that wake up in step 5
    ///    read them without the lock.
    /// 3. Followers, appends that wait for room, and the background threads. They need the lock.
    /// 4. The lock is released: committers take it for their next record as soon as they wake.
    /// 5. One waiter of the next batch, which leads it. It goes first, because waking many takes
    ///    long. Then the waiters of this batch.
    /// 6. The preallocator: no caller depends on it.
    /// 7. Tasks, last and by the caller: their wakers are the user's code.
    pub(super) fn publish<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'_, State>,
        outcome: Outcome,
    ) -> Callbacks<'a> {
        let calls_preallocator = std::mem::take(&mut state.calls_preallocator);
        let callbacks = self.publish_outcome(state, outcome);
        if calls_preallocator {
            self.preallocator_work.notify_one();
        }
        callbacks
    }

    /// Steps 1 to 5. Returns the wakers of step 7.
    fn publish_outcome<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'_, State>,
        outcome: Outcome,
    ) -> Callbacks<'a> {
        self.wake_for_writer(&state);
        let (batch_seq, callbacks) = match outcome {
            Outcome::Durable { batch, is_marked } => {
                self.note_durable(&mut state, batch, is_marked)
            }
            Outcome::Launched { batch_seq } => {
                self.note_launched(&mut state);
                let may_follow = self.can_launch(&state);
                drop(state);
                if may_follow {
                    self.batch_event(batch_seq + 1).notify_one();
                }
                return Callbacks::none(self);
            }
            Outcome::Room => {
                self.wake_for_room(&state);
                self.wake_waiting_flusher(&mut state);
                // The waiters of the open batch could not take the writer meanwhile. One of them
                // must lead the batch, because this thread may return an error.
                (None, Callbacks::none(self))
            }
            Outcome::Exclusive => {
                self.store_reached(&state);
                (None, self.wake_all_locked(&mut state))
            }
            Outcome::Failed(cause) => {
                state.commit.fail(&cause);
                self.store_reached(&state);
                (None, self.wake_all_locked(&mut state))
            }
        };
        let has_next = batch_seq.is_some_and(|seq| state.commit.is_open_batch(seq + 1));
        drop(state);
        match batch_seq {
            Some(batch_seq) => {
                if has_next {
                    self.batch_event(batch_seq + 1).notify_one();
                }
                self.batch_event(batch_seq).notify_all();
            }
            None => self.batch_done.iter().for_each(EventCount::notify_all),
        }
        callbacks
    }

    /// Steps 2 and 3 for a batch and a mark. Returns the number of the batch, if waking its waiters
    /// is enough, and the wakers of the tasks whose records have reached their goal.
    fn note_durable<'a>(
        self: &'a Arc<Self>,
        state: &mut State,
        batch: Option<DurableBatch>,
        is_marked: bool,
    ) -> (Option<u64>, Callbacks<'a>) {
        // A mark also confirms older batches, whose waiters may wait on either event. Not at level
        // `Confirmed`: there each batch has its own mark.
        let is_enough = !is_marked || self.level == Level::Confirmed;
        let batch_seq = batch.as_ref().and_then(|batch| batch.batch_seq).filter(|_| is_enough);
        if let Some(DurableBatch { count, buffer, .. }) = batch {
            state.commit.complete(count, buffer, self.clock.now());
        }
        if is_marked {
            state.commit.confirm();
        }
        self.store_reached(state);
        if state.followers > 0 {
            self.new_records.notify_all();
        }
        self.wake_for_room(state);
        let goal = if is_marked { WaitFor::Confirmed } else { WaitFor::Durable };
        let State { wakers, commit, .. } = state;
        let wakers = wakers.take(|position| commit.reached(position, goal));
        // A flusher that runs wakers first may not look for work soon.
        let looks_itself =
            wakers.is_empty() && state.commit.takes_stream() && Self::is_flusher(state);
        if !looks_itself && !self.wake_waiting_flusher(state) && self.next_due(state).is_some() {
            self.wake_background(state);
            self.call_to_launch(state);
        }
        (batch_seq, Callbacks::of(self, wakers))
    }

    /// The records after a launched batch may follow it, if they are a large batch.
    fn note_launched(self: &Arc<Self>, state: &mut State) {
        state.commit.placed();
        self.wake_for_room(state);
        self.call_to_launch(state);
    }

    /// Stores the durable and confirmed LSN for threads that do not take the lock.
    fn store_reached(&self, state: &State) {
        let [durable, confirmed] = &self.reached;
        durable.store(lsn_or_zero(state.commit.durable()), Ordering::Release);
        confirmed.store(lsn_or_zero(state.commit.confirmed()), Ordering::Release);
    }

    /// Stores the bounds for a forked child that cannot take the lock.
    pub(super) fn store_bounds(&self, state: &State) {
        let ([oldest, checkpoint], bounds) = (&self.bounds, state.bounds);
        oldest.store(bounds.0.get(), Ordering::Release);
        checkpoint.store(lsn_or_zero(bounds.1), Ordering::Release);
    }

    /// Wakes the flusher if it has work and waits for the writer. Returns whether it did.
    fn wake_waiting_flusher(&self, state: &mut State) -> bool {
        let waits = state.wants_writer;
        if waits {
            self.call_flusher(state);
        }
        waits
    }

    fn wake_for_writer(&self, state: &State) {
        if state.exclusive_waiters > 0 || state.landing.waits_for_writer() {
            self.writer_idle.notify_all();
        }
    }

    /// Wakes the threads that could not take the writer to lead a batch. One of them must: the
    /// calling thread may not.
    pub(super) fn wake_leaders(&self, state: &mut State) {
        self.wake_for_room(state);
        self.wake_waiting_flusher(state);
        self.batch_done.iter().for_each(EventCount::notify_all);
    }

    pub(crate) fn wake_for_room(&self, state: &State) {
        if state.room_waiters > 0 {
            self.room.notify_all();
        }
    }

    /// Wakes all threads that need the lock, and returns the wakers of all tasks.
    fn wake_all_locked(&self, state: &mut State) -> Callbacks<'_> {
        self.wake_for_room(state);
        self.flusher_work.notify_all();
        self.writer_idle.notify_all();
        self.new_records.notify_all();
        Callbacks::of(self, state.wakers.take_all().collect())
    }

    /// Wakes every waiter: the log is closed or poisoned.
    pub(super) fn wake_all(&self, mut state: MutexGuard<'_, State>) -> Callbacks<'_> {
        let callbacks = self.wake_all_locked(&mut state);
        drop(state);
        self.batch_done.iter().for_each(EventCount::notify_all);
        callbacks
    }

    /// Poisons the log, so that no thread waits forever for one that has panicked.
    pub(crate) fn poison_after_panic(&self) {
        let mut state = self.lock();
        state.commit.fail(PANICKED);
        self.wake_all(state).run();
    }
}
