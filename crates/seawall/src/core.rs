//! The shared half of an open log: one mutex, a leader that takes each batch to the device, and
//! those who wait. [`commit`](crate::commit) decides, [`writer`](crate::writer) does the I/O.
//!
//! A lone committer leads at once, in its own thread. Who comes while a batch is on its way joins
//! the next one and waits; when the device is free, one of them leads.

use crate::commit::{Commit, Goal, Group, Place};
use crate::writer::Writer;
use crate::{Level, Lsn, Options, Result};
use seawall_format::{Live, SegmentRef};
use seawall_io::{Clock, Storage};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) level: Level,
    clock: Arc<dyn Clock>,
    idle_mark: Option<Duration>,
    buffered_delay: Duration,
    buffered_bytes: usize,
    state: Mutex<State>,
    /// Waiters for batches with even and odd numbers: one batch's return wakes nobody else.
    turns: [Condvar; 2],
    /// Waiters for room in the open batch.
    room: Condvar,
    /// The background thread.
    work: Condvar,
}

#[derive(Debug)]
struct State {
    commit: Commit,
    /// Not here while somebody leads.
    writer: Option<Box<Writer>>,
    /// The newest segment, and which log: for readers in this process.
    newest: (SegmentRef, seawall_format::LogId),
    wakers: Vec<(Lsn, Waker)>,
    background: Option<JoinHandle<()>>,
    /// The background thread waits without a deadline.
    asleep: bool,
    /// The background thread waits for the device.
    wants_turn: bool,
    stopping: bool,
}

impl Core {
    pub(crate) fn new(
        options: &Options,
        writer: Writer,
        confirmed: Option<Lsn>,
        level: Level,
    ) -> Self {
        let geometry = writer.manifest.content.geometry;
        let batch_max = usize::try_from(geometry.batch_max).expect("at most 64 MiB");
        let newest = (writer.tail.header.reference(), writer.manifest.content.log);
        Self {
            storage: writer.machine.storage.clone(),
            level,
            clock: options.clock.clone(),
            idle_mark: options.idle_mark,
            buffered_delay: options.buffered_delay,
            buffered_bytes: options.buffered_bytes,
            state: Mutex::new(State {
                commit: Commit::new(writer.last, confirmed, batch_max),
                writer: Some(Box::new(writer)),
                newest,
                wakers: vec![],
                background: None,
                asleep: false,
                wants_turn: false,
                stopping: false,
            }),
            turns: [Condvar::new(), Condvar::new()],
            room: Condvar::new(),
            work: Condvar::new(),
        }
    }

    /// What the log's level asks for before `append` returns; `None`: nothing.
    pub(crate) fn goal(&self) -> Option<Goal> {
        match self.level {
            Level::Buffered => None,
            Level::Synced => Some(Goal::Durable),
            Level::Confirmed => Some(Goal::Confirmed),
        }
    }

    pub(crate) fn durable(&self) -> Option<Lsn> {
        self.lock().commit.durable()
    }

    /// Up to where a reader in this process may go.
    pub(crate) fn live(&self) -> Live {
        let state = self.lock();
        let (segment, log) = state.newest;
        Live { log, boot_id: [0; 16], segment, durable: state.commit.durable(), time_us: 0 }
    }

    /// Gives an atomic set its LSNs and takes it into the open batch; waits for room.
    pub(crate) fn admit(self: &Arc<Self>, set: &[&[u8]], attended: bool) -> Result<Place> {
        let mut state = self.lock();
        loop {
            if let Some(place) = state.commit.admit(set)? {
                if !attended {
                    state.commit.leave_unattended(self.clock.now());
                    self.wake_background(&mut state);
                }
                return Ok(place);
            }
            // The open batch is full: if the device is free, take it there, else wait.
            state = match state.writer.take() {
                Some(writer) => self.lead(state, writer, Goal::Durable),
                None => self.room.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Returns once the record has come that far; leads if nobody does.
    pub(crate) fn wait(self: &Arc<Self>, place: Place, goal: Goal) -> Result<Lsn> {
        let mut state = self.lock();
        loop {
            if state.commit.reached(place.lsn, goal) {
                return Ok(place.lsn);
            }
            state.commit.check()?;
            state = if let Some(writer) = state.writer.take() {
                self.lead(state, writer, goal)
            } else {
                let turn = self.turn(place.group);
                turn.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// Everything admitted so far has come that far when this returns.
    pub(crate) fn wait_for_all(self: &Arc<Self>, goal: Goal) -> Result<Option<Lsn>> {
        let last = self.lock().commit.last_admitted();
        last.map(|place| self.wait(place, goal)).transpose()
    }

    /// Whether the record has come that far; if not, `waker` is called when that changes.
    pub(crate) fn poll(
        self: &Arc<Self>,
        place: Place,
        goal: Goal,
        waker: &Waker,
    ) -> Option<Result<Lsn>> {
        let mut state = self.lock();
        if state.commit.reached(place.lsn, goal) {
            return Some(Ok(place.lsn));
        }
        if let Err(error) = state.commit.check() {
            return Some(Err(error));
        }
        let known = state.wakers.iter().any(|(lsn, w)| *lsn == place.lsn && w.will_wake(waker));
        if !known {
            state.wakers.push((place.lsn, waker.clone()));
        }
        state.commit.awaits(place.lsn);
        state.commit.leave_unattended(self.clock.now());
        self.wake_background(&mut state);
        None
    }

    /// Ends the log: everything admitted is written, the close is noted, the lock is given up.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        let background = {
            let mut state = self.lock();
            state.stopping = true;
            self.work.notify_all();
            state.background.take()
        };
        // A waker may drop the log in the background thread itself.
        let thread = background.filter(|b| b.thread().id() != std::thread::current().id());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        let flushed = self.wait_for_all(Goal::Durable);
        let mut state = self.lock();
        while state.writer.is_none() {
            // A ticket's owner leads; a leader always brings the writer back, or panics.
            if state.commit.check().is_err() {
                break;
            }
            state.wants_turn = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let closed = match (flushed, state.writer.take()) {
            (Ok(_), Some(mut writer)) => {
                drop(state);
                let closed = writer.close();
                drop(writer);
                state = self.lock();
                closed
            }
            (flushed, _) => flushed.map(drop),
        };
        state.commit.close();
        self.wake_everybody(state);
        closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock but assertions of the commit machine; the
        // leader's guard has poisoned the log then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, group: u64) -> &Condvar {
        let [even, odd] = &self.turns;
        if group.is_multiple_of(2) { even } else { odd }
    }

    /// Takes the open batch to the device with the lock released, and tells what came of it.
    fn lead<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut writer: Box<Writer>,
        goal: Goal,
    ) -> MutexGuard<'a, State> {
        let mut group = state.commit.take();
        let mark = goal == Goal::Confirmed || self.level == Level::Confirmed;
        drop(state);
        let guard = PanicGuard(self);
        let mut outcome =
            group.as_mut().map_or(Ok(()), |group| writer.write(&mut group.bytes, group.count));
        if outcome.is_ok() && mark {
            outcome = writer.mark();
        }
        std::mem::forget(guard);
        let mut state = self.lock();
        state.newest.0 = writer.tail.header.reference();
        state.writer = Some(writer);
        match outcome {
            Ok(()) => self.succeed(&mut state, group, mark),
            Err(error) => {
                state.commit.fail(&error.to_string());
                self.wake_everybody(state);
                return self.lock();
            }
        }
        let wakers = reached_wakers(&mut state, if mark { Goal::Confirmed } else { Goal::Durable });
        if wakers.is_empty() {
            return state;
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.lock()
    }

    fn succeed(self: &Arc<Self>, state: &mut State, group: Option<Group>, marked: bool) {
        let number = group.as_ref().map(|group| group.number);
        if let Some(group) = group {
            state.commit.complete(group, self.clock.now());
        }
        if marked {
            state.commit.confirm();
        }
        self.room.notify_all();
        match number {
            // A mark concerns whoever waits for a confirmation, of an older batch too. At level
            // `Confirmed` nobody does: each batch comes with its own.
            Some(number) if !marked || self.level == Level::Confirmed => {
                self.turn(number).notify_all();
                // One of those in the next batch leads it.
                self.turn(number + 1).notify_one();
            }
            _ => self.turns.iter().for_each(Condvar::notify_all),
        }
        if state.wants_turn || (state.asleep && self.next_due(state).is_some()) {
            self.work.notify_one();
        } else if state.background.is_none() && self.next_due(state).is_some() {
            self.wake_background(state);
        }
    }

    fn wake_everybody(&self, mut state: MutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        self.turns.iter().for_each(Condvar::notify_all);
        self.room.notify_all();
        self.work.notify_all();
        drop(state);
        for (_, waker) in wakers {
            waker.wake();
        }
    }

    /// When the background thread has something to do, if ever.
    fn next_due(&self, state: &State) -> Option<Duration> {
        state.commit.check().ok()?;
        let flush = state.commit.flush_due(self.buffered_delay, self.buffered_bytes);
        flush.or_else(|| state.commit.mark_due(self.idle_mark))
    }

    /// Starts the background thread when it is first needed; wakes it if it may sleep too long.
    fn wake_background(self: &Arc<Self>, state: &mut State) {
        if state.background.is_some() {
            self.work.notify_one();
            return;
        }
        if state.stopping {
            return;
        }
        let core = Arc::clone(self);
        let name = "seawall-flusher".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || core.run_background());
        // Without it a record that nobody waits for is written with the next one that somebody
        // does, or at the close; the mark likewise.
        state.background = thread.ok();
    }

    /// The background thread: batches that nobody stands by, and marks when the log idles.
    fn run_background(self: Arc<Self>) {
        let mut state = self.lock();
        while !state.stopping {
            let now = self.clock.now();
            state.wants_turn = false;
            state = match (self.next_due(&state), state.writer.take()) {
                (Some(due), Some(writer)) if due <= now => {
                    let flush = state.commit.has_open_batch();
                    let goal = if flush { Goal::Durable } else { Goal::Confirmed };
                    self.lead(state, writer, goal)
                }
                (Some(due), writer) if due > now => {
                    state.writer = writer;
                    let waited = self.work.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                (due, writer) => {
                    state.writer = writer;
                    (state.asleep, state.wants_turn) = (due.is_none(), due.is_some());
                    let waited = self.work.wait(state);
                    let mut state = waited.unwrap_or_else(PoisonError::into_inner);
                    state.asleep = false;
                    state
                }
            };
        }
    }
}

/// The wakers of the records that have come as far as that.
fn reached_wakers(state: &mut State, goal: Goal) -> Vec<Waker> {
    let commit = &state.commit;
    let reached = state.wakers.extract_if(.., |(lsn, _)| commit.reached(*lsn, goal));
    reached.map(|(_, waker)| waker).collect()
}

/// If a leader panics, the log is poisoned and nobody waits for ever.
struct PanicGuard<'a>(&'a Core);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.commit.fail("a thread panicked while it was writing");
        self.0.wake_everybody(state);
    }
}
