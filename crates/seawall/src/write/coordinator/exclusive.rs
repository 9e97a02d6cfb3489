//! Exclusive use of the writer: one operation between two batches.

use crate::base::error::{Error, Result};
use crate::base::sync::MutexGuard;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::lease::LockedLease;
use crate::write::coordinator::publish::Outcome;
use crate::write::coordinator::{Coordinator, State};
use crate::write::group_commit::{Commit, WaitFor};
use crate::write::truncation::removal::SegmentRemoval;
use crate::write::writer::Writer;
use crate::write::writer::run_once::RunOnce;
use std::sync::{Arc, PoisonError};

impl Coordinator {
    /// Runs `act` between two batches; no record is enqueued meanwhile.
    ///
    /// A device error poisons the log: only reopening shows how much of the operation was done.
    ///
    /// # Errors
    ///
    /// [`Error::Reentrant`] in the failover hook.
    pub(crate) fn with_exclusive_writer<R>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Writer, &mut Commit) -> Result<R>,
    ) -> Result<R> {
        self.lock_checked()?.check_hook()?;
        self.exclusively(|writer, state| act(writer, &mut state.commit))
    }

    /// Like [`with_exclusive_writer`](Self::with_exclusive_writer). Then runs the removal that
    /// `act` returns, while other threads commit: freeing many files takes seconds.
    pub(crate) fn with_removal<R>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Writer, &mut Commit) -> Result<(R, Option<SegmentRemoval>)>,
    ) -> Result<R> {
        self.lock_checked()?.check_hook()?;
        let (done, removal) = self.exclusively(|writer, state| {
            let (done, removal) = act(writer, &mut state.commit)?;
            let removal = removal.map(|removal| RunOnce::new(|| removal.run()));
            state.removals.extend(removal.clone());
            Ok((done, removal))
        })?;
        removal.map_or(Ok(()), |removal| self.finish_removal(&removal))?;
        Ok(done)
    }

    /// Removes the files of a truncation, unless close has done so. A failure poisons the log.
    fn finish_removal(self: &Arc<Self>, removal: &RunOnce) -> Result<()> {
        let removed = removal.finish();
        let mut state = self.lock();
        state.removals.retain(|other| !other.is(removal));
        self.request_deferred_deletes(&mut state);
        let calls_preallocator = std::mem::take(&mut state.calls_preallocator);
        drop(state);
        if calls_preallocator {
            self.preallocator_work.notify_one();
        }
        removed.inspect_err(|error| {
            let cause = error.cause().into();
            // Fails if the log is closed or poisoned already.
            let _ = self.exclusively(|_, _| Err::<(), _>(Error::Poisoned { log: None, cause }));
        })
    }

    /// Like [`with_exclusive_writer`](Self::with_exclusive_writer), also in the failover hook.
    pub(super) fn exclusively<R>(
        self: &Arc<Self>,
        act: impl FnOnce(&mut Writer, &mut State) -> Result<R>,
    ) -> Result<R> {
        let mut callbacks = Callbacks::none(self);
        // The lock stays held until the writer is returned, so no record is enqueued.
        let leased = self.lease_exclusively(&mut callbacks);
        let done = leased.and_then(|locked| self.run((locked, &mut callbacks), act));
        callbacks.run();
        done
    }

    /// Takes the writer, with no open batch. The caller is next in line: only the batch in flight
    /// and the open batch are written before. No record is enqueued while other threads wait for
    /// this one, so the user's code is left to the caller.
    pub(super) fn lease_exclusively<'a>(
        self: &'a Arc<Self>,
        callbacks: &mut Callbacks<'a>,
    ) -> Result<LockedLease<'a>> {
        let mut state = self.lock_checked()?;
        state.exclusive_waiters += 1;
        loop {
            if let Err(error) = state.commit.check() {
                self.stop_waiting(&mut state);
                return Err(error);
            }
            let leased =
                if state.in_flight.is_empty() { self.lease_first(state) } else { Err(state) };
            state = match leased {
                Ok(mut locked) if locked.state.commit.has_open_batch() => {
                    locked.state.draining += 1;
                    callbacks.add(self.write_open_batch(locked, WaitFor::Durable));
                    let mut state = self.lock();
                    state.draining -= 1;
                    state
                }
                Ok(mut locked) => {
                    locked.state.exclusive_waiters -= 1;
                    return Ok(locked);
                }
                Err(state) => self.writer_idle.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Waits until the writer is returned. No new leader starts meanwhile.
    pub(super) fn wait_for_writer<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.exclusive_waiters += 1;
        let mut state = self.writer_idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.stop_waiting(&mut state);
        state
    }

    /// Stops counting this thread as one that waits for exclusive use, and wakes the threads that
    /// could not lead because of it: this thread may not use the writer, which would wake them.
    fn stop_waiting(&self, state: &mut State) {
        state.exclusive_waiters -= 1;
        if state.exclusive_waiters == 0 {
            self.wake_leaders(state);
        }
    }

    fn run<'a, R>(
        self: &'a Arc<Self>,
        (mut locked, callbacks): (LockedLease<'a>, &mut Callbacks<'a>),
        act: impl FnOnce(&mut Writer, &mut State) -> Result<R>,
    ) -> Result<R> {
        // The manifest on disk must agree with what the operation relies on or calls removed.
        let settled = locked.writer.finish_deferred_write();
        let done = settled.and_then(|()| act(&mut locked.writer, &mut locked.state));
        self.request_deferred_deletes(&mut locked.state);
        match done {
            // It is unknown how much of the operation was done: `Io` would promise that nothing
            // was.
            Err(error @ (Error::Io { .. } | Error::Poisoned { .. })) => {
                let cause = error.cause();
                callbacks.add(locked.finish(Outcome::Failed(cause.clone())));
                Err(Error::Poisoned { log: None, cause: cause.into() })
            }
            done => {
                callbacks.add(locked.finish(Outcome::Exclusive));
                done
            }
        }
    }
}
