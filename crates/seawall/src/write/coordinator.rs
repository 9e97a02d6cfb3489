//! Coordinates appends. One mutex guards the state; the first waiter that finds the writer idle
//! becomes the leader and writes the open batch for all waiters.
//!
//! [`group_commit`](crate::write::group_commit) decides what enters a batch,
//! [`writer`](crate::write::writer) does the I/O. The leader holds the writer as a
//! [`WriterLease`](lease::WriterLease) and releases the lock while it writes, so records that
//! arrive meanwhile enter the next batch. At the end it returns the writer with an outcome, and
//! [`publish`](Coordinator::publish) wakes every thread that the outcome concerns.
//!
//! | shared | waits on it | notified or stored by |
//! |---|---|---|
//! | `state`: mutex | every call | its holder; exclusive users hold it during I/O |
//! | `batch_done`: event counts | committers, by even or odd batch | `publish`, without lock |
//! | `room`: condvar | appends that find the open batch full | `publish`: a batch, new space |
//! | `writer_idle`: condvar | exclusive users, and close | `publish`, always |
//! | `new_records`: condvar | followers in this process | `publish`: a batch |
//! | `flusher_work`: condvar | the flusher | `publish`; unawaited records; a full batch; close |
//! | `preallocator_work`: condvar | the preallocator | `publish`, without lock; close |
//! | `wakers`, in the state | tasks that await tickets | the caller of `publish`, last |
//! | `reached`: atomics | committers read it after `batch_done` | `publish`, before `batch_done` |
//! | `open_batch_waiters`: atomic | the leader, in the commit delay | committers; the leader |
//! | `truncation_count`: atomic | followers compare it | truncations |
//!
//! A thread that stops waiting for exclusive use wakes those that could not lead because of it. A
//! failure, an exclusive operation and close notify everything except `preallocator_work`.

pub(crate) mod callbacks;
mod close;
mod exclusive;
mod launch;
mod leader;
pub(crate) mod lease;
mod local_readers;
mod publish;
mod room_request;
mod try_enqueue;
pub(crate) mod waiting_flushers;

use crate::base::deferred_delete::DeferredDelete;
use crate::base::error::{Error, Result};
use crate::base::event_count::EventCount;
use crate::base::options::{FailoverHook, Options};
use crate::base::sync::{
    AtomicU32, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, ThreadId, cpu_count,
    current,
};
use crate::files::live::NO_BOOT;
use crate::files::unlock::{LogFiles, Unlocker};
use crate::write::commit_delay::CommitDelay;
use crate::write::coordinator::room_request::RoomRequest;
use crate::write::coordinator::waiting_flushers::{LeftCallbacks, WaitingFlushers};
use crate::write::fork_guard::ForkGuard;
use crate::write::group_commit::{BatchSizes, Commit, Enqueued, Position, WaitFor};
use crate::write::in_flight::WritesInFlight;
use crate::write::in_flight::landing_turn::LandingTurn;
use crate::write::in_flight::write_slots::WriteSlots;
use crate::write::preallocation::state::PreallocationState;
use crate::write::record_set::EncodedRecords;
use crate::write::wakers::Wakers;
use crate::write::writer::Writer;
use crate::write::writer::counts::Counts;
use crate::write::writer::run_once::RunOnce;
use crate::write::writer::streaming::LaunchedWrite;
use seawall_format::{Level, Live, LogId, Lsn, SegmentRef, lsn_or_zero};
use seawall_io::Clock;
use std::sync::{Arc, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

/// Size at which a batch takes no more records, in bytes. A larger one does not improve throughput,
/// adds latency, and falls out of the CPU cache before it is checksummed and copied into blocks.
const TARGET_BATCH_BYTES: usize = 2 << 20;

/// The same limit where several writes may be in flight: two smaller batches keep the device as
/// busy, and stay in the cache.
const STREAM_BATCH_BYTES: usize = 768 << 10;

/// In a stream, the flusher takes a small batch that a task awaits only after this time.
const STREAM_GATHER_TIME: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) files: LogFiles,
    pub(crate) level: Level,
    /// Checked before each device access and before each wait for another thread.
    pub(crate) fork_guard: ForkGuard,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) idle_mark: Option<Duration>,
    pub(crate) buffered_delay: Duration,
    pub(crate) buffered_bytes: usize,
    /// At level `Buffered`: an append waits once this many records are not durable.
    sync_every: Option<u64>,
    /// Like `buffered_bytes`, where several writes may be in flight: the device works while a
    /// stream fills the next batch.
    stream_bytes: usize,
    state: Mutex<State>,
    /// Waiters for batches with even and odd numbers, so that one batch does not wake the waiters
    /// of the next.
    batch_done: [EventCount; 2],
    /// Durable and confirmed LSN, readable without the lock by threads woken from `batch_done`.
    /// Stored under the lock, before `batch_done` is notified.
    reached: [AtomicU64; 2],
    /// The bounds in the state, for a forked child that cannot take the lock.
    bounds: [AtomicU64; 2],
    /// The log's id.
    pub(crate) id: LogId,
    /// Number of truncations at the end of the log. A follower may still hold truncated records in
    /// memory.
    truncation_count: AtomicU64,
    /// Waiters for the open batch; the leader watches this number during the commit delay.
    open_batch_waiters: AtomicU32,
    /// Signals that the open batch takes records again.
    room: Condvar,
    /// Wakes the flusher.
    pub(crate) flusher_work: Condvar,
    /// Ends the spin of a flusher.
    pub(crate) flusher_called: EventCount,
    /// Wakes the preallocator.
    pub(crate) preallocator_work: Condvar,
    /// When each write of a stream may begin.
    write_slots: WriteSlots,
    /// Signals that the writer was returned.
    writer_idle: Condvar,
    /// Signals followers that records became durable.
    new_records: Condvar,
    pub(crate) preallocate: bool,
    /// Waiters of a stream that spin.
    spinning_waiters: AtomicU32,
    /// Number of spins to skip in a stream, because the processors were busy.
    spins_to_skip: AtomicU32,
    /// Number of processors that this process may use.
    pub(crate) cpu_count: usize,
    /// Removed segments whose space has not been freed yet.
    pub(crate) deferred_delete: Arc<DeferredDelete>,
    /// Called for each failure that the log survived.
    on_failover: Option<FailoverHook>,
}

/// The state that the mutex guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) commit: Commit,
    commit_delay: CommitDelay,
    /// `None` while a leader holds it.
    pub(crate) writer: Option<Box<Writer>>,
    /// The newest segment, for readers in this process.
    newest: SegmentRef,
    counts: Counts,
    /// The first record that is not pruned, and the newest checkpoint.
    bounds: (Lsn, Option<Lsn>),
    wakers: Wakers,
    /// The flushers: one, or as many as batches may be launched.
    pub(crate) background: Vec<JoinHandle<()>>,
    /// Writes that were launched and not acknowledged.
    in_flight: WritesInFlight<LaunchedWrite>,
    /// The thread that acknowledges writes which have returned.
    landing: LandingTurn,
    /// Size of the last batch that was launched, in bytes.
    launched_bytes: u64,
    pub(crate) preallocation: PreallocationState,
    /// Files that truncations are removing while other threads commit. Close waits for them.
    removals: Vec<RunOnce>,
    /// Threads that wait for exclusive use of the writer. While there are any, no new leader
    /// starts.
    exclusive_waiters: u32,
    /// Number of exclusive users and closes that first write the open batch; no record enters the
    /// batch meanwhile.
    draining: u32,
    /// Callers that wait for room in the open batch.
    room_waiters: u32,
    /// Threads that are running the failover hook.
    pub(crate) in_hook: Vec<ThreadId>,
    /// Followers that wait for new records.
    followers: u32,
    /// The flusher has work and waits for the writer.
    pub(crate) wants_writer: bool,
    /// The preallocator has work: `publish` wakes it once the lock is released.
    pub(crate) calls_preallocator: bool,
    /// Flushers that wait for work, and those that run the user's code.
    pub(crate) flushers: WaitingFlushers,
    /// The user's code that the latter run next.
    pub(crate) left_callbacks: LeftCallbacks,
    /// Space that the flusher is to make for calls that must not block.
    pub(crate) room_request: RoomRequest,
    pub(crate) stopping: bool,
}

impl Coordinator {
    pub(crate) fn new(
        options: &Options,
        writer: Writer,
        (confirmed, level): (Option<Lsn>, Level),
        unlocker: Arc<Unlocker>,
    ) -> Self {
        let batch_max = writer.overhead().plain_max();
        let (newest, id) = (writer.tail.header.reference(), writer.manifest.content.log);
        let bounds = writer.bounds();
        let reached = [writer.last, confirmed];
        // A larger buffer that the caller configured takes precedence.
        let target_batch_bytes = TARGET_BATCH_BYTES.max(options.buffered_bytes);
        let is_larger = target_batch_bytes > TARGET_BATCH_BYTES;
        let stream_batch_bytes = if is_larger { target_batch_bytes } else { STREAM_BATCH_BYTES };
        let sizes = BatchSizes { batch_max, target_batch_bytes, stream_batch_bytes };
        let mut commit = Commit::new(writer.last, confirmed, sizes);
        commit.set_room(writer.room(), writer.padding());
        commit.set_takes_stream(writer.takes_stream());
        commit.set_overhead(writer.overhead());
        let counts = writer.counts;
        Self {
            files: LogFiles::new(writer.env.storage.clone(), unlocker),
            deferred_delete: writer.env.deferred_delete.clone(),
            on_failover: options.on_failover.clone(),
            level,
            fork_guard: ForkGuard::current(),
            clock: options.clock.clone(),
            idle_mark: options.idle_mark,
            buffered_delay: options.buffered_delay,
            buffered_bytes: options.buffered_bytes,
            sync_every: options.sync_every,
            stream_bytes: options.streaming.flush_bytes,
            state: Mutex::new(State {
                commit,
                commit_delay: CommitDelay::default(),
                writer: Some(Box::new(writer)),
                newest,
                bounds,
                counts,
                wakers: Wakers::default(),
                background: vec![],
                in_flight: WritesInFlight::default(),
                landing: LandingTurn::default(),
                launched_bytes: 0,
                preallocation: PreallocationState::default(),
                removals: vec![],
                exclusive_waiters: 0,
                draining: 0,
                room_waiters: 0,
                in_hook: vec![],
                followers: 0,
                wants_writer: false,
                calls_preallocator: false,
                flushers: WaitingFlushers::default(),
                left_callbacks: LeftCallbacks::default(),
                room_request: RoomRequest::default(),
                stopping: false,
            }),
            batch_done: [EventCount::default(), EventCount::default()],
            reached: reached.map(|lsn| AtomicU64::new(lsn_or_zero(lsn))),
            bounds: [Some(bounds.0), bounds.1].map(|lsn| AtomicU64::new(lsn_or_zero(lsn))),
            id,
            truncation_count: AtomicU64::new(0),
            open_batch_waiters: AtomicU32::new(0),
            room: Condvar::new(),
            flusher_work: Condvar::new(),
            flusher_called: EventCount::default(),
            spinning_waiters: AtomicU32::new(0),
            spins_to_skip: AtomicU32::new(0),
            preallocator_work: Condvar::new(),
            write_slots: WriteSlots::default(),
            writer_idle: Condvar::new(),
            new_records: Condvar::new(),
            preallocate: options.next.preallocate,
            cpu_count: cpu_count(),
        }
    }

    /// What `append` waits for at the log's level; `None`: nothing.
    #[inline]
    pub(crate) fn goal(&self) -> Option<WaitFor> {
        match self.level {
            Level::Buffered => None,
            Level::Synced => Some(WaitFor::Durable),
            Level::Confirmed => Some(WaitFor::Confirmed),
        }
    }

    /// What `append` waits for after its last record entered a batch at `position`.
    #[inline]
    pub(crate) fn goal_at(&self, position: Position) -> Option<WaitFor> {
        self.goal().or_else(|| {
            let [durable, _] = &self.reached;
            let open = position.lsn.get().saturating_sub(durable.load(Ordering::Acquire));
            self.sync_every.filter(|records| open >= *records).map(|_| WaitFor::Durable)
        })
    }

    pub(crate) fn durable(&self) -> Option<Lsn> {
        let [durable, _] = &self.reached;
        Lsn::new(durable.load(Ordering::Acquire))
    }

    /// Counts a truncation at the end of the log.
    pub(crate) fn note_truncation(&self) {
        self.truncation_count.fetch_add(1, Ordering::Release);
    }

    /// Assigns LSNs to an atomic set and puts it into the open batch; waits for room.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        set: &mut impl EncodedRecords,
        has_waiter: bool,
    ) -> Result<Position> {
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
                } else if self.require_flusher(&mut state).is_ok() {
                    self.schedule_flush(&mut state);
                } else {
                    // The record would stay in memory, and a task that awaits it forever asleep.
                    drop(state);
                    self.wait_until(position, self.goal().unwrap_or(WaitFor::Durable))?;
                }
                return Ok(position);
            }
            self.fork_guard.check()?;
            // If the writer is idle, this thread makes room itself, unless it leaves that to a
            // flusher. Otherwise this thread waits for room.
            let leaves_it = admission == Enqueued::BatchFull && self.leave_to_flusher(&mut state);
            let leased = if leaves_it { Err(state) } else { self.lease(state) };
            state = match (leased, admission) {
                (Ok(locked), Enqueued::NoRoom(size)) => {
                    locked.make_room(size)?;
                    self.lock()
                }
                (Ok(locked), _) => {
                    self.lead(locked, WaitFor::Durable);
                    self.lock()
                }
                (Err(state), _) => self.wait_for_room(state),
            };
        }
    }

    /// Makes sure that the flusher writes the open batch in time, because the batch holds a record
    /// without a waiter. The due time changes with the first such record, and when the batch is
    /// large enough.
    #[inline]
    fn schedule_flush(self: &Arc<Self>, state: &mut State) {
        let is_first = state.commit.schedule_flush(|| self.clock.now());
        let is_large = state.commit.open_len() >= self.flush_bytes(state);
        if is_first || is_large {
            self.wake_background(state);
        }
        if !state.in_flight.is_empty() {
            self.call_to_launch(state);
        }
    }

    /// Size of the open batch from which on the flusher writes it at once, in bytes.
    #[inline]
    fn flush_bytes(&self, state: &State) -> usize {
        if state.commit.takes_stream() {
            self.stream_bytes.min(self.buffered_bytes)
        } else {
            self.buffered_bytes
        }
    }

    /// Waits until the record at `position` reaches `goal`. The calling thread leads if the writer
    /// is idle.
    pub(crate) fn wait(self: &Arc<Self>, position: Position, goal: WaitFor) -> Result<Lsn> {
        self.lock_checked()?.check_hook()?;
        self.wait_until(position, goal)
    }

    /// Like [`wait`](Self::wait), for a record that was just enqueued with `has_waiter`.
    pub(crate) fn wait_until(self: &Arc<Self>, position: Position, goal: WaitFor) -> Result<Lsn> {
        let mut state = self.lock();
        loop {
            if state.commit.reached(position, goal) {
                return Ok(position.lsn);
            }
            state.commit.check()?;
            // A waiter for a batch in flight does not lead the next one: it would return later.
            let is_taken = !state.commit.is_open(position) && !state.in_flight.is_empty();
            match if is_taken { Err(state) } else { self.lease(state) } {
                Ok(locked) => self.lead(self.wait_for_group(locked), goal),
                // A mark is written only while nothing is in flight.
                Err(locked) if goal == WaitFor::Confirmed && !locked.in_flight.is_empty() => {
                    state = self.wait_for_writer(locked);
                    continue;
                }
                Err(state) => {
                    let event = self.batch_event(position.batch_seq);
                    let seen = event.epoch();
                    let spin_limit = state.commit_delay.spin_limit(self.cpu_count);
                    drop(state);
                    let is_notified = match spin_limit {
                        Some(limit) => self.spin_wait((event, seen), limit),
                        None => is_taken && self.spin_as_waiter((event, seen)),
                    };
                    if !is_notified {
                        event.wait(seen);
                    }
                }
            }
            if self.has_reached(position, goal) {
                return Ok(position.lsn);
            }
            state = self.lock();
        }
    }

    /// Waits until every record enqueued so far reaches `goal`.
    pub(crate) fn wait_for_all(self: &Arc<Self>, goal: WaitFor) -> Result<Option<Lsn>> {
        let state = self.lock_checked()?;
        state.check_hook()?;
        let last = state.commit.last_enqueued();
        drop(state);
        last.map(|position| self.wait_until(position, goal)).transpose()
    }

    /// Returns the outcome if the record reached its goal, else registers `waker`. A ticket has one
    /// waker: it replaces the one of its last poll. `ticket` is the number of the ticket.
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
        // Cloning and dropping a waker runs foreign code, so neither happens under the lock.
        let waker = waker.clone();
        let mut state = self.lock();
        if state.commit.reached(position, goal) {
            return Some(Ok(position.lsn));
        }
        if let Err(error) = state.commit.check().and_then(|()| state.check_hook()) {
            return Some(Err(error));
        }
        // A task that awaits many records counts as one committer.
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

    /// Removes the waker of a ticket that is no longer awaited.
    pub(crate) fn forget(&self, position: Position, ticket: u64) {
        if self.fork_guard.check().is_ok() {
            let waker = self.lock().wakers.remove(position, ticket);
            // Dropping a waker runs foreign code.
            drop(waker);
        }
    }

    /// The first record that is not pruned, and the newest checkpoint.
    pub(crate) fn bounds(&self) -> (Lsn, Option<Lsn>) {
        if let Some(state) = self.lock_to_read() {
            return state.bounds;
        }
        let [oldest, checkpoint] = &self.bounds;
        let oldest = Lsn::new(oldest.load(Ordering::Acquire)).unwrap_or(Lsn::FIRST);
        (oldest, Lsn::new(checkpoint.load(Ordering::Acquire)))
    }

    /// The writer's statistics; zeros in a child that was forked while a thread held the lock.
    pub(crate) fn counts(&self) -> Counts {
        self.lock_to_read().map_or(Counts::default(), |state| state.counts)
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Only assertions of `Commit` can panic under the lock, and then the leader's guard has
        // poisoned the log.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock, but refuses a forked child.
    #[inline]
    fn lock_checked(&self) -> Result<MutexGuard<'_, State>> {
        self.fork_guard.check()?;
        Ok(self.lock())
    }

    /// Takes the lock for a call that returns no error. `None` in a forked child, if another thread
    /// held the lock at the fork: the child has no thread that would release it.
    fn lock_to_read(&self) -> Option<MutexGuard<'_, State>> {
        if self.fork_guard.check().is_ok() {
            return Some(self.lock());
        }
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether the record reached `goal`, judged without the lock. If a truncation has reused its
    /// LSN since, the record was durable before.
    fn has_reached(&self, position: Position, goal: WaitFor) -> bool {
        let [durable, confirmed] = &self.reached;
        let reached = if goal == WaitFor::Durable { durable } else { confirmed };
        position.lsn.get() <= reached.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn exclusive_waiters(&self) -> u32 {
        self.lock().exclusive_waiters
    }

    fn batch_event(&self, batch_seq: u64) -> &EventCount {
        let [even, odd] = &self.batch_done;
        if batch_seq.is_multiple_of(2) { even } else { odd }
    }

    /// Waits until the open batch takes records again.
    fn wait_for_room<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.room_waiters += 1;
        let mut state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.room_waiters -= 1;
        state
    }

    /// When the flusher has something to do next, if at all.
    pub(crate) fn next_due(&self, state: &State) -> Option<Duration> {
        state.commit.check().ok()?;
        if state.room_request.size.is_some() {
            return Some(Duration::ZERO);
        }
        let gather = if state.is_streaming() { STREAM_GATHER_TIME } else { Duration::ZERO };
        let flush = state.commit.flush_due((self.buffered_delay, gather), self.flush_bytes(state));
        flush.or_else(|| state.commit.mark_due(self.idle_mark))
    }
}

impl State {
    /// Refuses a call from within the failover hook.
    #[inline]
    fn check_hook(&self) -> Result<()> {
        let is_in_hook = !self.in_hook.is_empty() && self.in_hook.contains(&current().id());
        if is_in_hook { Err(Error::Reentrant { log: None }) } else { Ok(()) }
    }

    /// Whether the last batch was one of a stream.
    pub(crate) fn is_streaming(&self) -> bool {
        self.launched_bytes > 0 && self.commit.takes_stream()
    }

    /// How far a reader in this process may read.
    fn live(&self, log: LogId) -> Live {
        let (segment, durable) = (self.newest, self.commit.durable());
        Live { log, boot_id: NO_BOOT, segment, durable, time_us: 0 }
    }

    /// Puts the writer back and copies what callers read without it.
    fn return_writer(&mut self, writer: Box<Writer>) {
        self.newest = writer.tail.header.reference();
        self.counts = writer.counts;
        self.bounds = writer.bounds();
        self.commit.set_room(writer.room(), writer.padding());
        self.commit.set_takes_stream(writer.takes_stream());
        self.writer = Some(writer);
    }
}

const PANICKED: &str = "a thread panicked while it was writing";
