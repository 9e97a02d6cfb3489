//! What the thread does that has the writer: it takes a batch to the device, or makes room there,
//! with the lock released, and tells those who wait what came of it.

use crate::base::error::{Error, Result};
use crate::base::event_count::Gate;
use crate::base::options::Failover;
use crate::base::sync::{MutexGuard, Ordering, yield_now};
use crate::write::coordinator::{Core, PanicGuard, State, wake};
use crate::write::group_commit::{Goal, Group};
use crate::write::writer::Writer;
use seawall_format::Level;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Who leads lets others run so often before it is sure that no more come.
const YIELDS: u32 = if cfg!(seawall_scheduled) { 1 } else { 200 };
/// Who stays awake looks so often at most, should time stand still.
const LOOKS: u32 = if cfg!(seawall_scheduled) { 2 } else { 10_000 };

impl Core {
    /// Waits a moment, with the lock released and the writer in hand, for others who are about to
    /// append: they then share one flight.
    pub(crate) fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(patience) = state.siblings.patience() else { return state };
        let before = state.siblings.standing();
        drop(state);
        let guard = PanicGuard(self);
        let (begin, mut standing, mut idle) = (self.clock.now(), before, 0);
        while standing < patience.until && idle < YIELDS {
            if self.clock.now().saturating_sub(begin) > patience.at_most {
                break;
            }
            yield_now();
            let seen = std::mem::replace(&mut standing, self.standing.load(Ordering::Relaxed));
            idle = if standing == seen { idle + 1 } else { 0 };
        }
        std::mem::forget(guard);
        let mut state = self.lock();
        state.siblings.waited(before);
        state
    }

    /// Stays awake until the gate is opened, but lets others run; whether it was opened in time.
    pub(super) fn watch(&self, (gate, seen): (&Gate, u32), at_most: Duration) -> bool {
        let begin = self.clock.now();
        for _ in 0..LOOKS {
            if gate.seen() != seen {
                return true;
            }
            if self.clock.now().saturating_sub(begin) > at_most {
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
        goal: Goal,
    ) {
        let failovers = self.fly(state, writer, goal);
        self.tell(&failovers);
    }

    /// The same; returns what the failover hook is yet to hear of.
    #[must_use]
    pub(super) fn fly(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        mut writer: Box<Writer>,
        goal: Goal,
    ) -> Vec<Failover> {
        let group = state.commit.take();
        state.siblings.leave();
        self.standing.store(0, Ordering::Relaxed);
        let begin = self.clock.now();
        let mark = goal == Goal::Confirmed || self.level == Level::Confirmed;
        let ahead = state.ahead.made.take();
        drop(state);
        let guard = PanicGuard(self);
        writer.take_spare(ahead);
        let is_idle = group.is_none();
        let mut outcome = Ok(None);
        if let Some(Group { bytes, count, number }) = group {
            outcome = writer.write(bytes, count).map(|buffer| Some((number, count, buffer)));
        }
        if mark && outcome.is_ok() {
            let marked = writer.mark();
            outcome = outcome.and_then(|written| marked.map(|()| written));
        }
        // With nothing to write the log idles, or somebody wants to be sure.
        writer.tend_parity(is_idle && outcome.is_ok(), !self.prepare_ahead);
        std::mem::forget(guard);
        let mut state = self.lock();
        state.siblings.come_back(self.clock.now().saturating_sub(begin));
        self.prepare_for(&mut state, &writer);
        self.settle_for(&mut state, &mut writer);
        self.give_back_for(&mut state);
        let failovers = std::mem::take(&mut writer.failovers);
        state.take_back(writer);
        self.wake_for_writer(&state);
        let written = match outcome {
            Ok(written) => written,
            Err(error) => {
                state.commit.fail(&error.cause());
                self.wake_everybody(state);
                return failovers;
            }
        };
        let number = written.as_ref().map(|written| written.0);
        self.succeed(&mut state, written, mark);
        let goal = if mark { Goal::Confirmed } else { Goal::Durable };
        let State { wakers, commit, .. } = &mut *state;
        let wakers = wakers.take(|place| commit.reached(place, goal));
        drop(state);
        // Without the lock: those who are let through are about to take it for their next record.
        match number {
            // A mark concerns whoever waits for a confirmation, of an older batch too. At level
            // `Confirmed` nobody does: each batch comes with its own.
            Some(number) if !mark || self.level == Level::Confirmed => {
                // One of those in the next batch leads it; first, as to wake many takes long.
                self.turn(number + 1).open_for_one();
                self.turn(number).open();
            }
            _ => self.turns.iter().for_each(Gate::open),
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
        let ahead = state.ahead.made.take();
        drop(state);
        let guard = PanicGuard(self);
        writer.take_spare(ahead);
        let made = if writer.room().spare >= size { Ok(()) } else { writer.make_room(size) };
        std::mem::forget(guard);
        let mut state = self.lock();
        state.take_back(writer);
        self.wake_for_writer(&state);
        self.wake_for_room(&state);
        // Whose records are in the open batch found no writer meanwhile: one of them leads it now,
        // as this thread may end with an error.
        self.turns.iter().for_each(Gate::open);
        if state.wants_turn {
            self.work.notify_all();
        }
        match made {
            Ok(()) => Ok(state),
            Err(source) if is_full(&source) => Err(Error::DiskFull { source }),
            Err(source) => Err(Error::io_in("make a file for the next segment")(source)),
        }
    }

    fn succeed(self: &Arc<Self>, state: &mut State, written: Option<Written>, marked: bool) {
        if let Some((_, count, buffer)) = written {
            state.commit.complete(count, buffer, self.clock.now());
        }
        if marked {
            state.commit.confirm();
        }
        self.publish(state);
        if state.followers > 0 {
            self.news.notify_all();
        }
        self.wake_for_room(state);
        if state.wants_turn {
            self.work.notify_all();
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
