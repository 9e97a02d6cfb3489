//! The two background threads of a log, started when they are first needed: the flusher (batches
//! that nobody stands by, marks when the log idles) and the preparer (the next segment's file, and
//! what is left of the last).

use crate::base::sync::{Builder, MutexGuard};
use crate::parity::writer::ParityFlush;
use crate::write::coordinator::{Coordinator, PanicGuard, State};
use crate::write::group_commit::WaitFor;
use crate::write::preallocation::file::{PreallocatedFile, PreallocatedSegment};
use crate::write::preallocation::rate::PreallocationRate;
use crate::write::writer::Writer;
use seawall_format::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long the preparer rests after each chunk of 64 KiB.
const PREALLOCATOR_PAUSE: Duration = Duration::from_micros(500);

/// How long it leaves the device alone after an error.
const PREALLOCATOR_RETRY: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Starts the background thread when it is first needed; wakes it if it would sleep too long.
    pub(crate) fn wake_background(self: &Arc<Self>, state: &mut State) {
        if state.background.is_some() {
            let due = self.next_due(state);
            if due.zip(state.sleeps_until).is_some_and(|(due, until)| due < until) {
                // Once is enough: it looks again before it sleeps again.
                state.sleeps_until = None;
                self.flusher_work.notify_one();
            }
            return;
        }
        // A forked child's thread would write beside the parent.
        if state.stopping || self.fork_guard.check().is_err() {
            return;
        }
        let coordinator = Arc::clone(self);
        let name = "seawall-flusher".to_owned();
        let thread = Builder::new().name(name).spawn(move || coordinator.run_background());
        // Without it a record that nobody waits for is written with the next one that somebody
        // does, or at the close; the mark likewise.
        state.background = thread.ok();
    }

    /// The background thread: batches that nobody stands by, and marks when the log idles.
    pub(crate) fn run_background(self: Arc<Self>) {
        let guard = PanicGuard(&self);
        let mut state = self.lock();
        while !state.stopping {
            let now = self.clock.now();
            state.wants_writer = false;
            let due = self.next_due(&state);
            let writer = if due.is_some_and(|due| due <= now) { state.take_writer() } else { None };
            state = match (due, writer) {
                (_, Some(writer)) => {
                    let flush = state.commit.has_open_batch();
                    let goal = if flush { WaitFor::Durable } else { WaitFor::Confirmed };
                    let state = self.wait_for_group(state);
                    self.lead(state, writer, goal);
                    self.lock()
                }
                (Some(due), None) if due > now => {
                    state.sleeps_until = Some(due);
                    let waited = self.flusher_work.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (due, None) => {
                    state.wants_writer = due.is_some();
                    state.sleeps_until = due.is_none().then_some(Duration::MAX);
                    self.flusher_work.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
            };
            state.sleeps_until = None;
        }
        drop(state);
        std::mem::forget(guard);
    }

    /// Has the next segment's file made once an eighth of the tail is used: a log that stays short
    /// needs none.
    pub(crate) fn request_preallocation(self: &Arc<Self>, state: &mut State, writer: &Writer) {
        let room = writer.room();
        let has_spare = writer.spare.is_some() || state.preallocation.made.is_some();
        let has_begun = room.tail < writer.tail.header.size / 8 * 7;
        let may = self.preallocate && !state.preallocation.is_busy && !state.stopping;
        // The files of a text are made quickly: none of them is written.
        let is_text = writer.tail.header.layout == Layout::Text;
        if is_text || !may || has_spare || !has_begun {
            return;
        }
        let began = self.clock.now();
        if began < state.preallocation.retry_after {
            return;
        }
        let rate = PreallocationRate::new(writer.next_size(), room.tail, began);
        state.preallocation.wanted = Some((writer.env.clone(), rate));
        state.preallocation.is_busy = true;
        self.wake_preallocator(state);
    }

    /// Has parity made durable: by the preparer, as far as there is to be one.
    pub(crate) fn hand_over_parity(self: &Arc<Self>, state: &mut State, writer: &mut Writer) {
        if self.preallocate && !state.stopping && !writer.parity_flushes.is_empty() {
            for flush in writer.parity_flushes.drain(..) {
                // What waits for the same file is part of it: one for each segment at most.
                state.preallocation.parity_flushes.retain(|other| !flush.includes(other));
                state.preallocation.parity_flushes.push_back(flush);
            }
            self.wake_preallocator(state);
        }
    }

    /// Has what the log removed given back.
    pub(crate) fn request_deferred_deletes(self: &Arc<Self>, state: &mut State) {
        let is_new = state.preallocation.thread.is_none() || state.preallocation.is_asleep;
        if is_new && !state.stopping && !self.deferred_delete.is_empty() {
            self.wake_preallocator(state);
        }
    }

    fn wake_preallocator(self: &Arc<Self>, state: &mut State) {
        if state.preallocation.thread.is_some() {
            self.preallocator_work.notify_one();
            return;
        }
        let coordinator = Arc::clone(self);
        let name = "seawall-preparer".to_owned();
        let thread = Builder::new().name(name).spawn(move || coordinator.run_preallocator());
        // Without it the file is made when it is needed, and all is given back at once.
        state.preallocation.thread = thread.ok();
        if state.preallocation.thread.is_none() {
            self.deferred_delete.drain();
        }
    }

    /// The second background thread. A panic costs the piece of work that it was at, as an error
    /// would.
    fn run_preallocator(self: Arc<Self>) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.preallocate_until_stopped())) {
            std::mem::forget(panic);
            let mut state = self.lock();
            state.preallocation.is_busy = false;
            state.preallocation.retry_after = self.clock.now() + PREALLOCATOR_RETRY;
        }
    }

    /// Makes one file ahead and gives back others, unhurried.
    fn preallocate_until_stopped(&self) {
        let mut state = self.lock();
        while !state.stopping {
            state = self.flush_pending_parity(state);
            if state.stopping {
                break;
            }
            let Some((env, mut rate)) = state.preallocation.wanted.take() else {
                if self.deferred_delete.is_empty() {
                    state.preallocation.is_asleep = true;
                    state =
                        self.preallocator_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.preallocation.is_asleep = false;
                } else {
                    drop(state);
                    self.pause_between_chunks(|_| false);
                    state = self.lock();
                }
                continue;
            };
            drop(state);
            let made = PreallocatedFile::create_in_background(&env, rate.size(), |written| {
                let now = self.clock.now();
                self.pause_between_chunks(|state| {
                    rate.is_behind_schedule(written, state.commit.room().tail, now)
                })
            });
            state = self.lock();
            state.preallocation.is_busy = false;
            // An error shows again, to somebody who can be told, when the file is needed.
            match made {
                Ok(spare) => state.preallocation.made = spare.map(PreallocatedSegment::binary),
                Err(_) => state.preallocation.retry_after = self.clock.now() + PREALLOCATOR_RETRY,
            }
        }
    }

    /// Makes durable what waits for that, until nothing does.
    fn flush_pending_parity<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        while !state.stopping {
            let Some(flush) = state.preallocation.parity_flushes.pop_front() else { break };
            drop(state);
            flush.run();
            state = self.lock();
        }
        state
    }

    /// What the preparer was to make durable, and did not come to.
    pub(crate) fn take_parity_flushes(state: &mut State) -> Vec<ParityFlush> {
        state.preallocation.parity_flushes.drain(..).collect()
    }

    /// A piece of what was removed, and a pause between two chunks, so that no commit waits behind
    /// them, nor parity; neither if it `is_behind_schedule`. Whether to go on.
    fn pause_between_chunks(&self, is_behind_schedule: impl FnOnce(&State) -> bool) -> bool {
        let state = self.flush_pending_parity(self.lock());
        if state.stopping || is_behind_schedule(&state) {
            return !state.stopping;
        }
        drop(state);
        self.deferred_delete.truncate_step();
        let mut state = self.lock();
        if !state.stopping {
            let waited = self.preallocator_work.wait_timeout(state, PREALLOCATOR_PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.stopping
    }
}
