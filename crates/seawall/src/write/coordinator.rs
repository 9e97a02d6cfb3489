//! The shared half of an open log: one mutex, a leader that takes each batch to the device, and
//! those who wait. [`commit`](crate::commit) decides, [`writer`](crate::writer) does the I/O.
//!
//! A lone committer leads at once, in its own thread. Who comes while a batch is on its way joins
//! the next one and waits; when the device is free, one of them leads.

mod exclusive;
mod leader;
mod local_readers;

use crate::base::deferred_delete::DeferredDelete;
use crate::base::error::{Error, Result};
use crate::base::event_count::EventCount;
use crate::base::options::{Failover, FailoverHook, Options};
use crate::base::sync::{
    AtomicU32, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, ThreadId, cpu_count,
    current,
};
use crate::files::live::NO_BOOT;
use crate::write::commit_delay::CommitDelay;
use crate::write::fork_guard::ForkGuard;
use crate::write::group_commit::{Commit, Enqueued, Position, WaitFor};
use crate::write::preallocation::state::PreallocationState;
use crate::write::record_set::EncodedRecords;
use crate::write::tail::overhead_max;
use crate::write::wakers::Wakers;
use crate::write::writer::{Counts, Writer};
use seawall_format::{Layout, Level, Live, Lsn, SegmentRef, lines, lsn_or_zero};
use seawall_io::{Clock, Storage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// What a stream puts into one batch, in bytes. More fills the device no better, waits longer, and
/// is in no cache any more when it gets its checksum and is put into blocks.
const TARGET_BATCH_BYTES: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) level: Level,
    /// How the records stand in the files.
    layout: Layout,
    /// Asked before anything that touches the device or waits for a thread.
    pub(crate) fork_guard: ForkGuard,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) idle_mark: Option<Duration>,
    pub(crate) buffered_delay: Duration,
    pub(crate) buffered_bytes: usize,
    state: Mutex<State>,
    /// Waiters for batches with even and odd numbers: one batch's return wakes nobody else.
    batch_done: [EventCount; 2],
    /// Up to here everything is durable, and confirmed: for who was let through a gate and needs
    /// no lock. Written under the lock, before a gate is opened.
    reached: [AtomicU64; 2],
    /// How often records were cut off. A follower may still hold such records in memory.
    truncation_count: AtomicU64,
    /// How many threads stand by the open batch: for who leads it and waits for more.
    open_batch_waiters: AtomicU32,
    /// Waiters for room in the open batch.
    room: Condvar,
    /// The background thread.
    pub(crate) flusher_work: Condvar,
    /// The preparer.
    pub(crate) preallocator_work: Condvar,
    /// Those who want the writer to themselves.
    writer_idle: Condvar,
    /// Those who follow.
    new_records: Condvar,
    pub(crate) preallocate: bool,
    /// How many processors this process may run on.
    cpu_count: usize,
    /// What was removed and not given back yet.
    pub(crate) deferred_delete: Arc<DeferredDelete>,
    /// Told of each failure that the log survives.
    on_failover: Option<FailoverHook>,
}

/// What the mutex guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) commit: Commit,
    commit_delay: CommitDelay,
    /// Not here while somebody leads.
    pub(crate) writer: Option<Box<Writer>>,
    /// The newest segment, and which log: for readers in this process.
    newest: (SegmentRef, seawall_format::LogId),
    counts: Counts,
    /// The first record that was not given up, and the newest checkpoint.
    bounds: (Lsn, Option<Lsn>),
    wakers: Wakers,
    pub(crate) background: Option<JoinHandle<()>>,
    pub(crate) preallocation: PreallocationState,
    /// How many wait for the writer to themselves: one of them has it next.
    exclusive_waiters: u32,
    /// How many of those take the open batch to the device first: nothing enters it meanwhile.
    draining: u32,
    /// How many wait for room in the open batch.
    room_waiters: u32,
    /// Threads that run the failover hook.
    in_hook: Vec<ThreadId>,
    /// How many wait for something new to read.
    followers: u32,
    /// When the background thread wakes up by itself, if it sleeps.
    pub(crate) sleeps_until: Option<Duration>,
    /// The background thread waits for the device.
    pub(crate) wants_writer: bool,
    pub(crate) stopping: bool,
}

impl Coordinator {
    pub(crate) fn new(
        options: &Options,
        writer: Writer,
        confirmed: Option<Lsn>,
        level: Level,
    ) -> Self {
        let geometry = writer.manifest.content.geometry;
        let batch_max = usize::try_from(geometry.batch_max).expect("at most 64 MiB");
        let newest = (writer.tail.header.reference(), writer.manifest.content.log);
        let bounds = writer.bounds();
        let reached = [writer.last, confirmed];
        // Who asks for more in memory has it.
        let target_batch_bytes = TARGET_BATCH_BYTES.max(options.buffered_bytes);
        let mut commit = Commit::new(writer.last, confirmed, (batch_max, target_batch_bytes));
        commit.set_room(writer.room());
        commit.set_overhead(overhead_max(writer.manifest.content.layout));
        let counts = writer.counts;
        let layout = writer.manifest.content.layout;
        Self {
            layout,
            storage: writer.env.storage.clone(),
            deferred_delete: writer.env.deferred_delete.clone(),
            on_failover: options.on_failover.clone(),
            level,
            fork_guard: ForkGuard::current(),
            clock: options.clock.clone(),
            idle_mark: options.idle_mark,
            buffered_delay: options.buffered_delay,
            buffered_bytes: options.buffered_bytes,
            state: Mutex::new(State {
                commit,
                commit_delay: CommitDelay::default(),
                writer: Some(Box::new(writer)),
                newest,
                bounds,
                counts,
                wakers: Wakers::default(),
                background: None,
                preallocation: PreallocationState::default(),
                exclusive_waiters: 0,
                draining: 0,
                room_waiters: 0,
                in_hook: vec![],
                followers: 0,
                sleeps_until: None,
                wants_writer: false,
                stopping: false,
            }),
            batch_done: [EventCount::default(), EventCount::default()],
            reached: reached.map(|lsn| AtomicU64::new(lsn_or_zero(lsn))),
            truncation_count: AtomicU64::new(0),
            open_batch_waiters: AtomicU32::new(0),
            room: Condvar::new(),
            flusher_work: Condvar::new(),
            preallocator_work: Condvar::new(),
            writer_idle: Condvar::new(),
            new_records: Condvar::new(),
            preallocate: options.preallocate,
            cpu_count: cpu_count(),
        }
    }

    /// What the log's level asks for before `append` returns; `None`: nothing.
    pub(crate) fn goal(&self) -> Option<WaitFor> {
        match self.level {
            Level::Buffered => None,
            Level::Synced => Some(WaitFor::Durable),
            Level::Confirmed => Some(WaitFor::Confirmed),
        }
    }

    pub(crate) fn durable(&self) -> Option<Lsn> {
        self.lock().commit.durable()
    }

    /// Notes that records were cut off.
    pub(crate) fn note_truncation(&self) {
        self.truncation_count.fetch_add(1, Ordering::Release);
    }

    /// Gives an atomic set its LSNs and takes it into the open batch; waits for room.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        set: &mut impl EncodedRecords,
        has_waiter: bool,
    ) -> Result<Position> {
        if self.layout == Layout::Text {
            set.payloads().try_for_each(check_text_payload)?;
        }
        let mut state = self.lock_checked()?;
        state.check_hook()?;
        loop {
            if state.draining > 0 && state.commit.check().is_ok() {
                self.fork_guard.check()?;
                state = self.wait_for_room(state);
                continue;
            }
            let admission = state.commit.enqueue(set)?;
            if let Enqueued::In(position) = admission {
                if has_waiter {
                    self.open_batch_waiters
                        .store(state.commit_delay.add_waiter(), Ordering::Relaxed);
                } else {
                    state.commit.schedule_flush(|| self.clock.now());
                    self.wake_background(&mut state);
                }
                return Ok(position);
            }
            self.fork_guard.check()?;
            // If the device is free, take the open batch there or make room there, else wait.
            state = match (state.take_writer(), admission) {
                (Some(writer), Enqueued::NoRoom(size)) => self.make_room(state, writer, size)?,
                (Some(writer), _) => {
                    self.lead(state, writer, WaitFor::Durable);
                    self.lock()
                }
                (None, _) => self.wait_for_room(state),
            };
        }
    }

    /// Returns once the record has come that far; leads if nobody does.
    pub(crate) fn wait(self: &Arc<Self>, position: Position, goal: WaitFor) -> Result<Lsn> {
        self.lock_checked()?.check_hook()?;
        self.wait_until(position, goal)
    }

    /// The same for a record that was just admitted with somebody to stand by it.
    pub(crate) fn wait_until(self: &Arc<Self>, position: Position, goal: WaitFor) -> Result<Lsn> {
        let mut state = self.lock();
        loop {
            if state.commit.reached(position, goal) {
                return Ok(position.lsn);
            }
            state.commit.check()?;
            if let Some(writer) = state.take_writer() {
                let state = self.wait_for_group(state);
                self.lead(state, writer, goal);
            } else {
                let event = self.batch_event(position.batch_seq);
                let seen = event.epoch();
                let spin_limit = state.commit_delay.spin_limit(self.cpu_count);
                drop(state);
                if !spin_limit.is_some_and(|limit| self.spin_wait((event, seen), limit)) {
                    event.wait(seen);
                }
            }
            if self.has_reached(position, goal) {
                return Ok(position.lsn);
            }
            state = self.lock();
        }
    }

    /// Everything admitted so far has come that far when this returns.
    pub(crate) fn wait_for_all(self: &Arc<Self>, goal: WaitFor) -> Result<Option<Lsn>> {
        self.lock_checked()?.check_hook()?;
        self.flush_all(goal)
    }

    fn flush_all(self: &Arc<Self>, goal: WaitFor) -> Result<Option<Lsn>> {
        let last = self.lock_checked()?.commit.last_enqueued();
        last.map(|position| self.wait_until(position, goal)).transpose()
    }

    /// Whether the record has come that far; if not, `waker` is called when that changes, in the
    /// place of the one that the same ticket left before: `ticket` is its number among all.
    pub(crate) fn poll(
        self: &Arc<Self>,
        (position, goal): (Position, WaitFor),
        ticket: &mut Option<u64>,
        waker: &Waker,
    ) -> Option<Result<Lsn>> {
        if let Err(error) = self.fork_guard.check() {
            return Some(Err(error));
        }
        if self.has_reached(position, goal) {
            return Some(Ok(position.lsn));
        }
        // Cloning and dropping a waker is foreign code: not under the lock.
        let waker = waker.clone();
        let mut state = self.lock();
        if state.commit.reached(position, goal) {
            return Some(Ok(position.lsn));
        }
        if let Err(error) = state.commit.check().and_then(|()| state.check_hook()) {
            return Some(Err(error));
        }
        // One task that awaits many records is not many that are about to append.
        let is_another = !state.wakers.newest_is(&waker);
        let replaced = state.wakers.add(position, ticket, waker);
        if state.commit.note_async_waiter(position.lsn) && replaced.is_none() && is_another {
            self.open_batch_waiters.store(state.commit_delay.add_waiter(), Ordering::Relaxed);
        }
        state.commit.schedule_flush(|| self.clock.now());
        self.wake_background(&mut state);
        drop(state);
        drop(replaced);
        None
    }

    /// Nobody awaits the record by this ticket any more.
    pub(crate) fn forget(&self, position: Position, ticket: u64) {
        if self.fork_guard.check().is_ok() {
            let waker = self.lock().wakers.remove(position, ticket);
            // Not under the lock.
            drop(waker);
        }
    }

    /// Calls the failover hook, with nothing held that another thread waits for.
    fn report_failovers(&self, failovers: &[Failover]) {
        let Some(FailoverHook(hook)) = &self.on_failover else { return };
        if failovers.is_empty() {
            return;
        }
        let thread = current().id();
        self.lock().in_hook.push(thread);
        for failover in failovers {
            ignore_panic(|| hook(failover));
        }
        let mut state = self.lock();
        let mine = state.in_hook.iter().position(|known| *known == thread);
        mine.map(|mine| state.in_hook.swap_remove(mine));
    }

    /// The first record that was not given up, and the newest checkpoint.
    pub(crate) fn bounds(&self) -> (Lsn, Option<Lsn>) {
        self.lock().bounds
    }

    /// What the writer has done so far.
    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Ends the log: everything admitted is written, the close is noted, the lock is given up.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if let Err(error) = self.fork_guard.check() {
            self.release_in_child();
            return Err(error);
        }
        let threads = {
            let mut state = self.lock();
            state.stopping = true;
            self.flusher_work.notify_all();
            self.preallocator_work.notify_all();
            [state.background.take(), state.preallocation.thread.take()]
        };
        for thread in threads.into_iter().flatten() {
            // A waker may drop the log in the background thread itself.
            if thread.thread().id() != current().id() {
                let _ = thread.join();
            }
        }
        self.deferred_delete.drain();
        let prepared = self.lock().preallocation.made.take();
        let flushed = self.flush_all(WaitFor::Durable);
        let mut state = self.lock();
        // A ticket's owner may lead; a leader always brings the writer back, or panics.
        while state.writer.is_none() && state.commit.check().is_ok() {
            state = self.wait_for_writer(state);
        }
        let parity_flushes = Self::take_parity_flushes(&mut state);
        if let Some(writer) = &mut state.writer {
            writer.take_preallocated(prepared);
            writer.parity_flushes.splice(..0, parity_flushes);
        }
        // A poisoned log writes no more: a manifest that failed would be written again, and begin
        // with the slot that is sound.
        let flushed = flushed.and_then(|last| state.commit.check().map(|()| last));
        let closed = match (flushed, state.writer.take()) {
            (Ok(_), Some(mut writer)) => {
                drop(state);
                let guard = PanicGuard(self);
                let closed = writer.close();
                drop(writer);
                std::mem::forget(guard);
                state = self.lock();
                closed
            }
            (flushed, _) => flushed.map(drop),
        };
        state.commit.close();
        self.wake_all(state);
        closed
    }

    /// Lets go of a forked child's copies of the open files, as its copy of the lock would keep
    /// others out; nothing is written, and the parent keeps its own.
    fn release_in_child(&self) {
        // If some thread of the parent held this or the writer, it goes with the process.
        if let Ok(mut state) = self.state.try_lock() {
            drop(state.writer.take());
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock but assertions of the commit machine; the
        // leader's guard has poisoned the log then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, unless this is a forked child.
    fn lock_checked(&self) -> Result<MutexGuard<'_, State>> {
        self.fork_guard.check()?;
        Ok(self.lock())
    }

    /// Whether the record has come that far, for who has no lock. If numbers were given anew
    /// meanwhile, it had come all the way.
    fn has_reached(&self, position: Position, goal: WaitFor) -> bool {
        let [durable, confirmed] = &self.reached;
        let reached = if goal == WaitFor::Durable { durable } else { confirmed };
        position.lsn.get() <= reached.load(Ordering::Acquire)
    }

    /// Tells those who have no lock how far everything is.
    fn publish(&self, state: &State) {
        let [durable, confirmed] = &self.reached;
        durable.store(lsn_or_zero(state.commit.durable()), Ordering::Release);
        confirmed.store(lsn_or_zero(state.commit.confirmed()), Ordering::Release);
    }

    /// How many wait for the writer to themselves.
    #[cfg(test)]
    pub(crate) fn exclusive_waiters(&self) -> u32 {
        self.lock().exclusive_waiters
    }

    fn batch_event(&self, batch_seq: u64) -> &EventCount {
        let [even, odd] = &self.batch_done;
        if batch_seq.is_multiple_of(2) { even } else { odd }
    }

    /// Waits until somebody brings the writer back.
    fn wait_for_writer<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.exclusive_waiters += 1;
        let mut state = self.writer_idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.exclusive_waiters -= 1;
        state
    }

    fn wake_for_writer(&self, state: &State) {
        if state.exclusive_waiters > 0 {
            self.writer_idle.notify_all();
        }
    }

    /// Waits until the open batch may take records again.
    fn wait_for_room<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.room_waiters += 1;
        let mut state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.room_waiters -= 1;
        state
    }

    fn wake_for_room(&self, state: &State) {
        if state.room_waiters > 0 {
            self.room.notify_all();
        }
    }

    fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        let wakers = state.wakers.take_all();
        self.batch_done.iter().for_each(EventCount::notify_all);
        self.wake_for_room(&state);
        self.flusher_work.notify_all();
        self.writer_idle.notify_all();
        self.new_records.notify_all();
        drop(state);
        wake(wakers);
    }

    /// When the background thread has something to do, if ever.
    pub(crate) fn next_due(&self, state: &State) -> Option<Duration> {
        state.commit.check().ok()?;
        let flush = state.commit.flush_due(self.buffered_delay, self.buffered_bytes);
        flush.or_else(|| state.commit.mark_due(self.idle_mark))
    }
}

/// If a thread panics that others rely on, the log is poisoned and nobody waits for ever.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Coordinator);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.commit.fail(PANICKED);
        self.0.wake_all(state);
    }
}

impl State {
    /// The writer, if it is here and nobody waits for it alone.
    pub(crate) fn take_writer(&mut self) -> Option<Box<Writer>> {
        if self.exclusive_waiters > 0 { None } else { self.writer.take() }
    }

    /// Refuses a thread that runs the failover hook.
    fn check_hook(&self) -> Result<()> {
        let is_in_hook = !self.in_hook.is_empty() && self.in_hook.contains(&current().id());
        if is_in_hook { Err(Error::Reentrant) } else { Ok(()) }
    }

    /// Up to where a reader in this process may go.
    fn live(&self) -> Live {
        let (segment, log) = self.newest;
        Live { log, boot_id: NO_BOOT, segment, durable: self.commit.durable(), time_us: 0 }
    }

    /// The writer is back; what it knows is everybody's.
    fn return_writer(&mut self, writer: Box<Writer>) {
        self.newest.0 = writer.tail.header.reference();
        self.counts = writer.counts;
        self.bounds = writer.bounds();
        self.commit.set_room(writer.room());
        self.writer = Some(writer);
    }
}

/// Refuses what has no place in a line of a readable log.
fn check_text_payload(payload: &[u8]) -> Result<()> {
    if std::str::from_utf8(payload).is_ok_and(lines::is_valid_data) {
        return Ok(());
    }
    let why = "a record of a readable log is one JSON value in one line, without a name twice in \
               an object, and nested no deeper than 127";
    Err(Error::Encode { why: why.to_owned() })
}

/// Runs foreign code that others must not suffer from: a panic ends here.
fn ignore_panic(act: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
        // Dropping what it panicked with is foreign code, too.
        std::mem::forget(panic);
    }
}

/// Wakes each task, whatever the waker of another one does.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(|waker| ignore_panic(|| waker.wake()));
}

const PANICKED: &str = "a thread panicked while it was writing";
