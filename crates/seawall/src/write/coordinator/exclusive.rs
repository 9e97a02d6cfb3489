//! Exclusive use of the writer: one operation between two batches.

use crate::base::error::{Error, Result};
use crate::base::options::Failover;
use crate::base::sync::MutexGuard;
use crate::write::coordinator::{Coordinator, PANICKED, State};
use crate::write::group_commit::{Commit, WaitFor};
use crate::write::writer::Writer;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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
        let mut failovers = vec![];
        let done = self.take_exclusive_writer(&mut failovers).and_then(|(state, writer)| {
            // The lock stays held until the writer is returned, so no record is enqueued.
            self.run_exclusive(state, writer, act)
        });
        self.report_failovers(&failovers);
        done
    }

    /// Takes the writer, with no open batch. The caller is next in line: only the batch in flight
    /// and the open batch are written before.
    pub(super) fn take_exclusive_writer<'a>(
        self: &'a Arc<Self>,
        failovers: &mut Vec<Failover>,
    ) -> Result<(MutexGuard<'a, State>, Box<Writer>)> {
        let mut state = self.lock_checked()?;
        state.exclusive_waiters += 1;
        let writer = loop {
            if let Err(error) = state.commit.check() {
                break Err(error);
            }
            state = match state.writer.take() {
                Some(writer) if state.commit.has_open_batch() => {
                    state.draining += 1;
                    failovers.extend(self.write_open_batch(state, writer, WaitFor::Durable));
                    let mut state = self.lock();
                    state.draining -= 1;
                    state
                }
                Some(writer) => break Ok(writer),
                None => self.writer_idle.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        };
        state.exclusive_waiters -= 1;
        writer.map(|writer| (state, writer))
    }

    pub(super) fn run_exclusive<'a, R>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut writer: Box<Writer>,
        act: impl FnOnce(&mut Writer, &mut Commit) -> Result<R>,
    ) -> Result<R> {
        let acted = catch_unwind(AssertUnwindSafe(|| act(&mut writer, &mut state.commit)));
        let done = match acted {
            Ok(done) => done,
            Err(panic) => {
                state.commit.fail(PANICKED);
                self.wake_all(state);
                resume_unwind(panic)
            }
        };
        state.return_writer(writer);
        self.request_deferred_deletes(&mut state);
        self.publish(&state);
        // How much of it came to pass is unknown: `Io` would promise that nothing did.
        let done = done.map_err(|error| match error {
            Error::Io { .. } | Error::Poisoned { .. } => {
                let cause = error.cause();
                state.commit.fail(&cause);
                Error::Poisoned { cause: cause.into() }
            }
            refused => refused,
        });
        self.wake_all(state);
        done
    }
}
