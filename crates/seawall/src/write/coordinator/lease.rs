//! Ownership of the writer: a thread takes it out of the state, uses it, and returns it together
//! with the outcome.

use crate::base::error::Result;
use crate::base::sync::MutexGuard;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::publish::Outcome;
use crate::write::coordinator::{Coordinator, PANICKED, State};
use crate::write::writer::Writer;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// The writer, held without the lock.
///
/// Dropping the lease poisons the log, returns the writer, and wakes all waiters: the thread
/// panicked while it was writing, and nothing is known of the batch. [`LockedLease::finish`] and
/// [`close`](Self::close) end it properly.
pub(crate) struct WriterLease<'a> {
    coordinator: &'a Arc<Coordinator>,
    /// `None` once the lease has ended properly.
    writer: Option<Box<Writer>>,
}

/// The writer and the lock.
///
/// The order of the fields matters in a panic: the lock is released first, since a dropped lease
/// takes it.
pub(crate) struct LockedLease<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) writer: WriterLease<'a>,
}

impl Coordinator {
    /// Takes the writer to lead a batch. Returns the lock if the writer is in use, or another user
    /// goes first, or a batch is in flight and the open one cannot follow it yet.
    pub(crate) fn lease<'a>(
        self: &'a Arc<Self>,
        state: MutexGuard<'a, State>,
    ) -> Result<LockedLease<'a>, MutexGuard<'a, State>> {
        let is_next = state.exclusive_waiters == 0 && !state.landing.waits_for_writer();
        let may_lead = state.in_flight.is_empty() || self.can_launch(&state);
        if is_next && may_lead { self.lease_first(state) } else { Err(state) }
    }

    /// Takes the writer ahead of threads that wait for exclusive use.
    pub(super) fn lease_first<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> Result<LockedLease<'a>, MutexGuard<'a, State>> {
        match state.writer.take() {
            Some(writer) => {
                let writer = WriterLease { coordinator: self, writer: Some(writer) };
                Ok(LockedLease { state, writer })
            }
            None => Err(state),
        }
    }
}

impl<'a> WriterLease<'a> {
    /// Takes the lock.
    pub(super) fn lock(self) -> LockedLease<'a> {
        LockedLease { state: self.coordinator.lock(), writer: self }
    }

    /// Closes the log cleanly, and releases its files and the file lock.
    pub(super) fn close(mut self) -> Result<()> {
        let mut writer = self.writer.take().expect(HELD);
        let closed = catch_unwind(AssertUnwindSafe(|| writer.close()));
        drop(writer);
        closed.unwrap_or_else(|panic| {
            self.coordinator.poison_after_panic();
            resume_unwind(panic)
        })
    }

    /// Releases the files and the file lock without writing anything.
    pub(super) fn release(mut self) {
        drop(self.writer.take());
    }
}

impl<'a> LockedLease<'a> {
    /// Releases the lock and keeps the writer.
    pub(super) fn unlock(self) -> WriterLease<'a> {
        let Self { state, writer } = self;
        drop(state);
        writer
    }

    /// Returns the writer, publishes the outcome, and releases the lock.
    pub(super) fn finish(mut self, outcome: Outcome) -> Callbacks<'a> {
        let writer = self.writer.writer.take().expect(HELD);
        let (bounds, coordinator) = (self.state.bounds, self.writer.coordinator);
        self.state.return_writer(writer);
        if self.state.bounds != bounds {
            coordinator.store_bounds(&self.state);
        }
        coordinator.publish(self.state, outcome)
    }
}

impl Drop for WriterLease<'_> {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        let mut state = self.coordinator.lock();
        state.commit.fail(PANICKED);
        // The writer holds the file lock. Close releases it, after the writes in flight.
        state.writer = Some(writer);
        self.coordinator.wake_all(state).run();
    }
}

const HELD: &str = "a lease holds the writer until it ends";

impl Deref for WriterLease<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        self.writer.as_ref().expect(HELD)
    }
}

impl DerefMut for WriterLease<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.writer.as_mut().expect(HELD)
    }
}
