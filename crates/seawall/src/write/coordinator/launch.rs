//! Batches of a stream: the leader returns the writer before it writes, so that the next batch can
//! follow while this one is on its way.

use crate::base::num::to_u64;
use crate::base::sync::MutexGuard;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::lease::{LockedLease, WriterLease};
use crate::write::coordinator::publish::{DurableBatch, Outcome};
use crate::write::coordinator::{Coordinator, State};
use crate::write::group_commit::TakenBatch;
use crate::write::in_flight::{AHEAD, Landing};
use crate::write::writer::Writer;
use crate::write::writer::streaming::{LaunchedWrite, WriteOutcome};
use seawall_format::Level;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl Coordinator {
    /// Whether the open batch can be written while another one is in flight: it is large, and the
    /// tail has space for it. A small one waits until it has grown, or nothing is in flight.
    pub(super) fn can_launch(&self, state: &State) -> bool {
        let bytes = state.commit.open_bytes();
        self.level != Level::Confirmed
            && bytes >= (state.launched_bytes / 4 * 3).min(to_u64(self.stream_bytes))
            && state.in_flight.may_launch()
            && state.writer.as_ref().is_some_and(|writer| writer.may_launch(bytes))
    }

    /// Calls a flusher if the open batch can follow those in flight, and is due.
    pub(crate) fn call_to_launch(&self, state: &mut State) {
        if state.flushers.can_call()
            && !state.in_flight.is_empty()
            && self.can_launch(state)
            && self.next_due(state) == Some(Duration::ZERO)
        {
            self.call_flusher(state);
        }
    }

    /// Completes and writes a batch without the writer, so that the next one can follow. Afterwards
    /// acknowledges the writes that have returned.
    pub(super) fn launch<'a>(
        self: &'a Arc<Self>,
        mut writer: WriterLease<'a>,
        batch: TakenBatch,
        begin: Duration,
    ) -> Callbacks<'a> {
        let TakenBatch { bytes, count, batch_seq } = batch;
        let size = to_u64(bytes.len());
        let write = match writer.launch(bytes, count) {
            Ok(write) => write,
            Err(error) => {
                return self.finish_batch(writer, Outcome::Failed(error.cause()), begin);
            }
        };
        let in_flight_max = writer.in_flight_max();
        let mut locked = writer.lock();
        let number = locked.state.in_flight.launch();
        locked.state.launched_bytes = size;
        self.add_flusher(&mut locked.state, in_flight_max + AHEAD);
        let LockedLease { state, writer } = &mut locked;
        self.request_preallocation(state, writer);
        locked.finish(Outcome::Launched { batch_seq }).run();
        let guard = WriteGuard(self, number);
        let launched = write.complete(batch_seq, begin).map(|mut launched| {
            if self.write_slots.wait(number, in_flight_max) {
                launched.write();
            }
            launched
        });
        std::mem::forget(guard);
        let is_durable = launched.as_ref().is_ok_and(LaunchedWrite::is_durable);
        self.write_slots.returned(number, is_durable);
        let mut state = self.lock();
        match launched {
            Ok(launched) => state.in_flight.returned(number, launched, is_durable),
            Err(error) => {
                state.in_flight.abandoned();
                return self.publish(state, Outcome::Failed(error.cause()));
            }
        }
        let (is_sound, is_waiting) =
            (state.commit.check().is_ok(), state.landing.waits_for_writer());
        let turn = if is_sound { state.landing.take() } else { None };
        if turn.is_none() || is_waiting {
            // Close waits for writes in flight even if the log is poisoned. A thread that has lost
            // its turn need not wait for the writer.
            self.writer_idle.notify_all();
        }
        turn.map_or_else(|| Callbacks::none(self), |turn| self.land_all(state, turn))
    }

    /// Acknowledges the writes that have returned, oldest first, and those that return meanwhile:
    /// their threads leave that to this thread, which therefore runs no user code before the end of
    /// its turn.
    fn land_all<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        turn: u64,
    ) -> Callbacks<'a> {
        let mut callbacks = Callbacks::none(self);
        while state.landing.is_held(turn)
            && state.commit.check().is_ok()
            && state.in_flight.can_land()
        {
            match self.lease_first(state) {
                Ok(locked) => {
                    callbacks.add(self.land(locked));
                    state = self.lock();
                    state.landing.landed(turn, !callbacks.is_empty());
                }
                Err(locked) => {
                    state = locked;
                    state.landing.set_waiting(turn, true);
                    state = self.writer_idle.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.landing.set_waiting(turn, false);
                }
            }
        }
        state.landing.end(turn);
        callbacks
    }

    fn land<'a>(self: &'a Arc<Self>, mut locked: LockedLease<'a>) -> Callbacks<'a> {
        let landing = locked.state.in_flight.next_landing().expect("the caller has checked");
        let mut writer = locked.unlock();
        let begin = match &landing {
            Landing::Acknowledge(launched) => Some(launched.begin),
            Landing::FailOver(launched) => launched.first().map(|launched| launched.begin),
        };
        let fails_over = matches!(landing, Landing::FailOver(_));
        let outcome = land_in(&mut writer, landing);
        if fails_over {
            self.write_slots.recovered();
        }
        writer.update_parity(false, !self.preallocate);
        self.finish_batch(writer, outcome, begin.unwrap_or_default())
    }
}

impl LockedLease<'_> {
    /// Whether the open batch can be written without the writer.
    pub(super) fn may_launch(&self) -> bool {
        self.writer.may_launch(self.state.commit.open_bytes())
    }
}

/// Acknowledges the oldest write, or writes the batches in flight again.
fn land_in(writer: &mut Writer, landing: Landing<LaunchedWrite>) -> Outcome {
    let done = match landing {
        Landing::Acknowledge(launched) => {
            let batch_seq = Some(launched.batch_seq);
            let landed = writer.land(launched);
            landed.map(|(count, buffer)| DurableBatch { batch_seq, count, buffer })
        }
        Landing::FailOver(launched) => {
            let count = launched.iter().map(|launched| launched.batch.sent.count).sum();
            let (batches, outcomes): (Vec<_>, Vec<_>) =
                launched.into_iter().map(|launched| (launched.batch, launched.outcome)).unzip();
            let failed = outcomes.into_iter().find_map(|outcome| match outcome {
                WriteOutcome::Failed(error) => Some(error),
                WriteOutcome::NotWritten | WriteOutcome::Durable => None,
            });
            let error = failed.expect("one of them failed");
            let batch = DurableBatch { batch_seq: None, count, buffer: vec![] };
            writer.fail_over(&error, batches).map(|()| batch)
        }
    };
    match done {
        Ok(batch) => Outcome::Durable { batch: Some(batch), is_marked: false },
        Err(error) => Outcome::Failed(error.cause()),
    }
}

/// Poisons the log if the thread panics while it writes.
struct WriteGuard<'a>(&'a Coordinator, u64);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let Self(coordinator, number) = *self;
        coordinator.write_slots.returned(number, false);
        coordinator.lock().in_flight.abandoned();
        coordinator.poison_after_panic();
    }
}
