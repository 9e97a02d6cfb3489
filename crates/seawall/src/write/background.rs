//! The background threads, started on first use. The flusher writes batches without a waiter, and
//! marks when the log is idle; while it runs wakers or the failover hook, another flusher takes
//! over. The preallocator creates the next segment's file, syncs parity, and removes and frees
//! files of removed segments.

use crate::base::error::{Error, Result};
use crate::base::sync::{Builder, MutexGuard, current};
use crate::parity::writer::ParityFlush;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::lease::LockedLease;
use crate::write::coordinator::waiting_flushers::WaitingFlushers;
use crate::write::coordinator::{Coordinator, State};
use crate::write::group_commit::WaitFor;
use crate::write::preallocation::file::{Filling, PreallocatedFile, PreallocatedSegment};
use crate::write::preallocation::rate::{Pace, PreallocationRate};
use crate::write::preallocation::reused::prepare;
use crate::write::preallocation::state::Request;
use crate::write::truncation::removal::SegmentRemoval;
use crate::write::writer::Writer;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Pause of the preallocator after each chunk of 64 KiB.
const PREALLOCATOR_PAUSE: Duration = Duration::from_micros(500);

/// A flusher spins for at most this long between two batches of a stream, since it takes about 50
/// us to wake it.
const FLUSHER_SPIN_MAX: Duration = Duration::from_micros(300);

/// While this many flushers run and all others run the user's code, the last one keeps writing.
const FLUSHERS_MAX: usize = 4;

/// Pause of the preallocator after an error.
const PREALLOCATOR_RETRY: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Starts the flusher on first use; wakes it if it would sleep past the next due time.
    pub(crate) fn wake_background(self: &Arc<Self>, state: &mut State) {
        if state.has_free_flusher() {
            let due = self.next_due(state);
            if due.is_some_and(|due| state.all_sleep_past(due)) {
                self.call_flusher(state);
            }
            return;
        }
        // If it cannot start, callers write their records themselves, and a mark waits for the next
        // batch or for close.
        let _ = self.require_flusher(state);
    }

    /// Starts a flusher, unless one is free or the log is being closed, which writes everything.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system starts no thread: then no record may be left to a flusher.
    #[inline]
    pub(crate) fn require_flusher(self: &Arc<Self>, state: &mut State) -> Result<()> {
        if !state.has_free_flusher() {
            self.start_flusher(state).map_err(Error::io("start a thread of the log"))?;
        }
        Ok(())
    }

    /// Wakes a flusher that sleeps or spins, unless one is about to look for work.
    pub(crate) fn call_flusher(&self, state: &mut State) {
        if state.flushers.can_call() {
            state.wants_writer = false;
            state.flushers.is_called = true;
            if state.flushers.is_spinning {
                self.flusher_called.notify_all();
            } else {
                self.flusher_work.notify_one();
            }
        }
    }

    /// Whether this thread leaves the full batch of a stream to a flusher and continues meanwhile.
    /// If so, a flusher is about to look for work.
    pub(crate) fn leave_to_flusher(&self, state: &mut State) -> bool {
        let is_left = state.commit.takes_stream()
            && !state.stopping
            && state.has_free_flusher()
            && !Self::is_flusher(state)
            && self.next_due(state) == Some(Duration::ZERO);
        if is_left && state.writer.is_some() {
            self.call_flusher(state);
        }
        is_left
    }

    /// Whether this thread is a flusher: it looks for work before it sleeps.
    pub(crate) fn is_flusher(state: &State) -> bool {
        state.background.iter().any(|flusher| flusher.thread().id() == current().id())
    }

    /// Starts a flusher, unless the log is being closed.
    fn start_flusher(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        // In a forked child the flusher would write concurrently with the parent.
        if state.stopping || self.fork_guard.check().is_err() {
            return Ok(());
        }
        let coordinator = Arc::clone(self);
        let name = "seawall-flusher".to_owned();
        let thread = Builder::new().name(name).spawn(move || coordinator.run_background())?;
        state.background.push(thread);
        Ok(())
    }

    /// Starts another flusher, if the records of a stream have no waiters and fewer flushers run
    /// than batches may be launched.
    pub(crate) fn add_flusher(self: &Arc<Self>, state: &mut State, launched_max: u8) {
        if (1..usize::from(launched_max)).contains(&state.background.len()) {
            // Those that run are enough to write every batch.
            let _ = self.start_flusher(state);
        }
    }

    /// Runs the flusher: batches without a waiter, and marks when the log is idle.
    pub(crate) fn run_background(self: Arc<Self>) {
        let guard = PanicGuard(&self);
        let mut state = self.lock();
        let mut may_spin = false;
        while !state.stopping {
            let now = self.clock.now();
            state.wants_writer = false;
            let due = self.next_due(&state);
            let is_due = due.is_some_and(|due| due <= now);
            let leased = if is_due { self.lease(state) } else { Err(state) };
            state = match leased {
                Ok(locked) => {
                    may_spin = true;
                    self.flush(locked);
                    self.lock()
                }
                Err(mut state) => {
                    state.wants_writer = is_due;
                    let until = due.filter(|_| !is_due);
                    let spins = may_spin && self.may_spin(&state);
                    let time = until.map(|until| until - now);
                    let until = until.unwrap_or(Duration::MAX);
                    state.flushers.fall_asleep(until);
                    let mut state = if spins { self.spin(state) } else { self.sleep(state, time) };
                    state.flushers.wake_up(until);
                    may_spin = std::mem::take(&mut state.flushers.is_called);
                    state
                }
            };
        }
        drop(state);
        std::mem::forget(guard);
    }

    /// Whether a flusher should spin until the next batch of a stream: only one flusher at a time,
    /// and only if another processor is left for the stream.
    fn may_spin(&self, state: &State) -> bool {
        self.cpu_count > 1 && state.is_streaming() && !state.flushers.is_spinning
    }

    /// Spins until a flusher is called, at most for a short time.
    fn spin<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.flushers.is_spinning = true;
        let event = (&self.flusher_called, self.flusher_called.epoch());
        drop(state);
        self.spin_in_stream(event, FLUSHER_SPIN_MAX);
        let mut state = self.lock();
        state.flushers.is_spinning = false;
        state
    }

    /// Sleeps until a flusher is called, or for `time`.
    fn sleep<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match time {
            Some(time) => {
                let waited = self.flusher_work.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.flusher_work.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Uses the writer as the flusher: makes the space that was requested, else writes the open
    /// batch, else a mark.
    fn flush(self: &Arc<Self>, locked: LockedLease<'_>) {
        if let Some(size) = locked.state.room_request.size {
            return self.make_requested_room(locked, size);
        }
        let has_batch = locked.state.commit.has_open_batch();
        let goal = if has_batch { WaitFor::Durable } else { WaitFor::Confirmed };
        self.run_callbacks(self.write_open_batch(self.wait_for_group(locked), goal));
    }

    /// Runs the user's code on a flusher. That code may take long, or wait for a record that only a
    /// flusher writes, so another flusher takes over. If the number of flushers allows for none, a
    /// flusher that already runs such code continues with this.
    fn run_callbacks<'a>(self: &'a Arc<Self>, mut callbacks: Callbacks<'a>) {
        if callbacks.is_empty() {
            return;
        }
        let mut state = self.lock();
        let flushers = state.background.len();
        if flushers >= FLUSHERS_MAX && flushers == state.flushers.in_callbacks + 1 {
            return callbacks.leave(&mut state.left_callbacks);
        }
        state.flushers.in_callbacks += 1;
        if self.next_due(&state).is_some() {
            self.wake_background(&mut state);
        }
        if !state.has_free_flusher() {
            // Waiting appends must not leave their batch to this flusher.
            self.wake_for_room(&state);
        }
        while !callbacks.is_empty() {
            drop(state);
            callbacks.run();
            state = self.lock();
            callbacks = Callbacks::of_left(self, &mut state.left_callbacks);
        }
        state.flushers.in_callbacks -= 1;
    }

    /// Requests the next segment's file once an eighth of the tail is used: a short log needs none.
    pub(crate) fn request_preallocation(self: &Arc<Self>, state: &mut State, writer: &mut Writer) {
        let room = writer.room();
        let has_spare = writer.spare.is_some() || state.preallocation.made.is_some();
        let has_begun = room.tail < writer.tail.header.size / 8 * 7;
        let may = self.preallocate && !state.preallocation.is_busy && !state.stopping;
        // The next segment may use one of these files again.
        let removes = state.preallocation.is_removing || !state.preallocation.removals.is_empty();
        // Files of the text layout are reserved, not filled with zeros, so they are created on
        // demand.
        let grows = writer.tail.header.layout.has_growing_file();
        if grows || !may || removes || has_spare || !has_begun {
            return;
        }
        let began = self.clock.now();
        if began < state.preallocation.retry_after {
            return;
        }
        let rate = PreallocationRate::new(writer.next_size(), room.tail, began);
        let reuse = writer.take_spare_file();
        let next = writer.next_named_ahead(reuse.as_ref().map(|(_, id)| *id));
        let (env, data_start) = (writer.env.clone(), writer.tail.header.data_start());
        state.preallocation.wanted = Some(Request { env, rate, data_start, reuse, next });
        state.preallocation.is_busy = true;
        self.call_preallocator(state);
    }

    /// Queues parity for the preallocator to sync.
    pub(crate) fn hand_over_parity(self: &Arc<Self>, state: &mut State, writer: &mut Writer) {
        if self.preallocate && !state.stopping && !writer.parity_flushes.is_empty() {
            for flush in writer.parity_flushes.drain(..) {
                // A newer flush of the same file covers the queued one, so there is at most one per
                // segment.
                state.preallocation.parity_flushes.retain(|other| !flush.includes(other));
                state.preallocation.parity_flushes.push_back(flush);
            }
            self.call_preallocator(state);
        }
    }

    /// Queues the files of pruned segments for the preallocator to remove.
    pub(crate) fn hand_over_removals(self: &Arc<Self>, state: &mut State, writer: &mut Writer) {
        if writer.removals.is_empty() {
            return;
        }
        state.preallocation.removals.extend(writer.removals.drain(..));
        if !state.stopping {
            self.call_preallocator(state);
        }
    }

    /// Wakes the preallocator to free removed segments.
    pub(crate) fn request_deferred_deletes(self: &Arc<Self>, state: &mut State) {
        let is_new = state.preallocation.thread.is_none() || state.preallocation.is_asleep;
        if is_new && !state.stopping && !self.deferred_delete.is_empty() {
            self.call_preallocator(state);
        }
    }

    /// Starts the preallocator on first use; otherwise `publish` wakes it. Woken here, it would
    /// wait for the lock, and releasing a lock with a waiter takes another system call.
    fn call_preallocator(self: &Arc<Self>, state: &mut State) {
        if state.preallocation.thread.is_some() {
            state.calls_preallocator = true;
            return;
        }
        let coordinator = Arc::clone(self);
        let name = "seawall-prealloc".to_owned();
        let thread = Builder::new().name(name).spawn(move || coordinator.run_preallocator());
        state.preallocation.thread = thread.ok();
        if state.preallocation.thread.is_none() {
            self.do_without_preallocator(state);
        }
    }

    /// Does the preallocator's work at once, because it cannot start. The next segment's file is
    /// created on demand.
    fn do_without_preallocator(&self, state: &mut State) {
        let preallocation = &mut state.preallocation;
        if let Some(Request { env, reuse, .. }) = preallocation.wanted.take() {
            if let Some((spare, _)) = reuse {
                spare.discard(&*env.storage);
            }
            preallocation.is_busy = false;
            preallocation.retry_after = self.clock.now() + PREALLOCATOR_RETRY;
        }
        preallocation.parity_flushes.drain(..).for_each(|flush| flush.run_in_background());
        preallocation.removals.drain(..).for_each(SegmentRemoval::run_in_background);
        self.deferred_delete.drain();
    }

    /// Runs the preallocator. A panic costs the current piece of work, as an error would.
    fn run_preallocator(self: Arc<Self>) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.preallocate_until_stopped())) {
            std::mem::forget(panic);
            let mut state = self.lock();
            (state.preallocation.is_busy, state.preallocation.is_removing) = (false, false);
            state.preallocation.retry_after = self.clock.now() + PREALLOCATOR_RETRY;
        }
    }

    /// Creates one file at a time and frees others in small steps, so that commits do not stall.
    fn preallocate_until_stopped(&self) {
        let (mut state, mut last) = (self.lock(), None::<PreallocationRate>);
        while !state.stopping {
            state = self.finish_queued(state);
            if state.stopping {
                break;
            }
            let Some(Request { env, rate, data_start, reuse, next }) =
                state.preallocation.wanted.take()
            else {
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
            let mut rate = last.map_or(rate, |last| rate.following(&last));
            let size = rate.size();
            let made = match reuse {
                Some((spare, id)) => prepare(&env, spare, id, |read| {
                    let now = self.clock.now();
                    self.pause_between_chunks(|state| {
                        rate.pace(read, state.commit.room().tail, now) == Pace::Hurried
                    })
                }),
                None => PreallocatedFile::create_in_background(&env, size, |written| {
                    self.wait_for_next_zeros(&mut rate, written)
                })
                .map(|file| file.map(|file| PreallocatedSegment::zeros(&env, file, data_start))),
            };
            last = Some(rate);
            let made = made.and_then(|made| match (made, next) {
                (Some(made), Some(next)) => made.name_ahead(&env, &next).map(Some),
                (made, _) => Ok(made),
            });
            state = self.lock();
            state.preallocation.is_busy = false;
            // An error recurs when the file is needed, and then a caller learns of it.
            match made {
                Ok(spare) => state.preallocation.made = spare,
                Err(_) => state.preallocation.retry_after = self.clock.now() + PREALLOCATOR_RETRY,
            }
        }
    }

    /// Syncs the queued parity and removes the queued files until nothing of them is left.
    fn finish_queued<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while !state.stopping {
            if let Some(flush) = state.preallocation.parity_flushes.pop_front() {
                drop(state);
                flush.run_in_background();
                state = self.lock();
            } else if let Some(removal) = state.preallocation.removals.pop_front() {
                state.preallocation.is_removing = true;
                drop(state);
                removal.run_in_background();
                state = self.lock();
                state.preallocation.is_removing = false;
            } else {
                break;
            }
        }
        state
    }

    /// Takes the parity that the preallocator has not synced.
    pub(crate) fn take_parity_flushes(state: &mut State) -> Vec<ParityFlush> {
        state.preallocation.parity_flushes.drain(..).collect()
    }

    /// Waits until the next zeros of a file are to be written, if any more are.
    fn wait_for_next_zeros(&self, rate: &mut PreallocationRate, written: u64) -> Filling {
        loop {
            let (now, mut pace) = (self.clock.now(), Pace::Waiting);
            let continues = self.pause_between_chunks(|state| {
                pace = rate.pace(written, state.commit.room().tail, now);
                matches!(pace, Pace::Hurried | Pace::Done)
            });
            match pace {
                _ if !continues => return Filling::Stop,
                Pace::Waiting => {}
                Pace::Unhurried | Pace::Hurried => return Filling::Continue,
                Pace::Done => return Filling::Enough,
            }
        }
    }

    /// Frees a piece of the removed segments and pauses, so that commits do not queue up behind the
    /// chunks; skips both if `is_urgent`. Returns whether to continue.
    fn pause_between_chunks(&self, is_urgent: impl FnOnce(&State) -> bool) -> bool {
        let state = self.finish_queued(self.lock());
        if state.stopping || is_urgent(&state) {
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

impl State {
    /// Whether a flusher runs that does not run the user's code.
    pub(crate) fn has_free_flusher(&self) -> bool {
        self.background.len() > self.flushers.in_callbacks
    }

    /// Whether no flusher looks for work at `due`, so that one has to be called. One that works
    /// looks again afterwards: another that is called beside it for each batch of a stream costs a
    /// fifth of the rate. One that waits for the writer is called once the writer is returned.
    pub(crate) fn all_sleep_past(&self, due: Duration) -> bool {
        let WaitingFlushers { asleep, in_callbacks, .. } = &self.flushers;
        let works = self.background.len() > in_callbacks + asleep.len();
        !self.wants_writer && !works && asleep.iter().all(|until| due < *until)
    }
}

/// Poisons the log if the flusher panics, since records without a waiter rely on it.
struct PanicGuard<'a>(&'a Coordinator);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        self.0.poison_after_panic();
    }
}
