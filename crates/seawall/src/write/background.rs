//! The two background threads of a log, started when they are first needed: the flusher (batches
//! that nobody stands by, marks when the log idles) and the preparer (the next segment's file, and
//! what is left of the last).

use crate::base::sync::{Builder, MutexGuard};
use crate::parity::writer::Settling;
use crate::write::coordinator::{Core, PanicGuard, State};
use crate::write::group_commit::Goal;
use crate::write::preallocated::{Spare, SpareSegment};
use crate::write::preallocation_rate::Pace;
use crate::write::writer::Writer;
use seawall_format::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long the preparer rests after each chunk of 64 KiB.
const PREPARER_PAUSE: Duration = Duration::from_micros(500);

/// How long it leaves the device alone after an error.
const PREPARER_REST: Duration = Duration::from_secs(1);

impl Core {
    /// Starts the background thread when it is first needed; wakes it if it would sleep too long.
    pub(crate) fn wake_background(self: &Arc<Self>, state: &mut State) {
        if state.background.is_some() {
            let due = self.next_due(state);
            if due.zip(state.sleeps_until).is_some_and(|(due, until)| due < until) {
                // Once is enough: it looks again before it sleeps again.
                state.sleeps_until = None;
                self.work.notify_one();
            }
            return;
        }
        // A forked child's thread would write beside the parent.
        if state.stopping || self.process.check().is_err() {
            return;
        }
        let core = Arc::clone(self);
        let name = "seawall-flusher".to_owned();
        let thread = Builder::new().name(name).spawn(move || core.run_background());
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
            state.wants_turn = false;
            let due = self.next_due(&state);
            let writer = if due.is_some_and(|due| due <= now) { state.take_writer() } else { None };
            state = match (due, writer) {
                (_, Some(writer)) => {
                    let flush = state.commit.has_open_batch();
                    let goal = if flush { Goal::Durable } else { Goal::Confirmed };
                    let state = self.gather(state);
                    self.lead(state, writer, goal);
                    self.lock()
                }
                (Some(due), None) if due > now => {
                    state.sleeps_until = Some(due);
                    let waited = self.work.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (due, None) => {
                    state.wants_turn = due.is_some();
                    state.sleeps_until = due.is_none().then_some(Duration::MAX);
                    self.work.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
            };
            state.sleeps_until = None;
        }
        drop(state);
        std::mem::forget(guard);
    }

    /// Has the next segment's file made once an eighth of the tail is used: a log that stays short
    /// needs none.
    pub(crate) fn prepare_for(self: &Arc<Self>, state: &mut State, writer: &Writer) {
        let room = writer.room();
        let has_spare = writer.spare.is_some() || state.ahead.made.is_some();
        let has_begun = room.tail < writer.tail.header.size / 8 * 7;
        let may = self.prepare_ahead && !state.ahead.is_busy && !state.stopping;
        // The files of a text are made quickly: none of them is written.
        let is_text = writer.tail.header.layout == Layout::Text;
        if is_text || !may || has_spare || !has_begun {
            return;
        }
        let began = self.clock.now();
        if began < state.ahead.rests_until {
            return;
        }
        let pace = Pace::new(writer.next_size(), room.tail, began);
        state.ahead.wanted = Some((writer.machine.clone(), pace));
        state.ahead.is_busy = true;
        self.wake_preparer(state);
    }

    /// Has parity made durable: by the preparer, as far as there is to be one.
    pub(crate) fn settle_for(self: &Arc<Self>, state: &mut State, writer: &mut Writer) {
        if self.prepare_ahead && !state.stopping && !writer.unsettled.is_empty() {
            for settling in writer.unsettled.drain(..) {
                // What waits for the same file is part of it: one for each segment at most.
                state.ahead.unsettled.retain(|other| !settling.includes(other));
                state.ahead.unsettled.push_back(settling);
            }
            self.wake_preparer(state);
        }
    }

    /// Has what the log removed given back.
    pub(crate) fn give_back_for(self: &Arc<Self>, state: &mut State) {
        let is_new = state.ahead.thread.is_none() || state.ahead.is_asleep;
        if is_new && !state.stopping && !self.retired.is_empty() {
            self.wake_preparer(state);
        }
    }

    fn wake_preparer(self: &Arc<Self>, state: &mut State) {
        if state.ahead.thread.is_some() {
            self.work_ahead.notify_one();
            return;
        }
        let core = Arc::clone(self);
        let name = "seawall-preparer".to_owned();
        let thread = Builder::new().name(name).spawn(move || core.run_preparer());
        // Without it the file is made when it is needed, and all is given back at once.
        state.ahead.thread = thread.ok();
        if state.ahead.thread.is_none() {
            self.retired.give_back_all();
        }
    }

    /// The second background thread. A panic costs the piece of work that it was at, as an error
    /// would.
    fn run_preparer(self: Arc<Self>) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.prepare_until_stopped())) {
            std::mem::forget(panic);
            let mut state = self.lock();
            state.ahead.is_busy = false;
            state.ahead.rests_until = self.clock.now() + PREPARER_REST;
        }
    }

    /// Makes one file ahead and gives back others, unhurried.
    fn prepare_until_stopped(&self) {
        let mut state = self.lock();
        while !state.stopping {
            state = self.settle(state);
            if state.stopping {
                break;
            }
            let Some((machine, mut pace)) = state.ahead.wanted.take() else {
                if self.retired.is_empty() {
                    state.ahead.is_asleep = true;
                    state = self.work_ahead.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.ahead.is_asleep = false;
                } else {
                    drop(state);
                    self.pause(|_| false);
                    state = self.lock();
                }
                continue;
            };
            drop(state);
            let made = Spare::in_background(&machine, pace.size(), |written| {
                let now = self.clock.now();
                self.pause(|state| pace.must_hurry(written, state.commit.room().tail, now))
            });
            state = self.lock();
            state.ahead.is_busy = false;
            // An error shows again, to somebody who can be told, when the file is needed.
            match made {
                Ok(spare) => state.ahead.made = spare.map(SpareSegment::binary),
                Err(_) => state.ahead.rests_until = self.clock.now() + PREPARER_REST,
            }
        }
    }

    /// Makes durable what waits for that, until nothing does.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.stopping {
            let Some(settling) = state.ahead.unsettled.pop_front() else { break };
            drop(state);
            settling.run();
            state = self.lock();
        }
        state
    }

    /// What the preparer was to make durable, and did not come to.
    pub(crate) fn take_unsettled(state: &mut State) -> Vec<Settling> {
        state.ahead.unsettled.drain(..).collect()
    }

    /// A piece of what was removed, and a pause between two chunks, so that no commit waits behind
    /// them, nor parity; neither if it `must_hurry`. Whether to go on.
    fn pause(&self, must_hurry: impl FnOnce(&State) -> bool) -> bool {
        let state = self.settle(self.lock());
        if state.stopping || must_hurry(&state) {
            return !state.stopping;
        }
        drop(state);
        self.retired.give_back_some();
        let mut state = self.lock();
        if !state.stopping {
            let waited = self.work_ahead.wait_timeout(state, PREPARER_PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !state.stopping
    }
}
