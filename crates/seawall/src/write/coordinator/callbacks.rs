//! The user's code that the log calls: wakers of tasks, and the failover hook.

use crate::base::options::{Failover, FailoverHook};
use crate::base::sync::current;
use crate::write::coordinator::Coordinator;
use crate::write::coordinator::waiting_flushers::LeftCallbacks;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Calls of the user's code that are due. That code may call the log, or wait for another thread
/// that does, so it runs where this thread holds neither the lock nor the writer, and where no
/// thread waits for this one.
///
/// Dropping them runs them, so that no task sleeps forever after a panic.
#[must_use = "run them where no other thread waits for this one"]
pub(crate) struct Callbacks<'a> {
    coordinator: &'a Coordinator,
    wakers: Vec<Waker>,
    failovers: Vec<Failover>,
}

impl<'a> Callbacks<'a> {
    pub(super) fn none(coordinator: &'a Coordinator) -> Self {
        Self::of(coordinator, vec![])
    }

    pub(super) fn of(coordinator: &'a Coordinator, wakers: Vec<Waker>) -> Self {
        Self { coordinator, wakers, failovers: vec![] }
    }

    /// Takes the calls that flushers have left.
    pub(crate) fn of_left(coordinator: &'a Coordinator, left: &mut LeftCallbacks) -> Self {
        let LeftCallbacks { wakers, failovers } = std::mem::take(left);
        Self { coordinator, wakers, failovers }
    }

    /// Leaves the calls to a flusher that runs others.
    pub(crate) fn leave(mut self, left: &mut LeftCallbacks) {
        left.wakers.append(&mut self.wakers);
        left.failovers.append(&mut self.failovers);
    }

    pub(super) fn with_failovers(mut self, mut failovers: Vec<Failover>) -> Self {
        self.failovers.append(&mut failovers);
        self
    }

    /// Whether no call is due.
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.failovers.is_empty()
    }

    /// Adds calls that became due later.
    pub(super) fn add(&mut self, mut later: Self) {
        self.wakers.append(&mut later.wakers);
        self.failovers.append(&mut later.failovers);
    }

    /// Runs the user's code.
    pub(crate) fn run(self) {
        drop(self);
    }
}

impl Drop for Callbacks<'_> {
    fn drop(&mut self) {
        let Self { coordinator, wakers, failovers } = self;
        wakers.drain(..).for_each(|waker| ignore_panic(|| waker.wake()));
        if !failovers.is_empty() {
            coordinator.report_failovers(failovers);
        }
    }
}

impl Coordinator {
    /// Calls the failover hook. The caller holds neither the lock nor the writer.
    fn report_failovers(&self, failovers: &[Failover]) {
        let Some(FailoverHook(hook)) = &self.on_failover else { return };
        let thread = current().id();
        self.lock().in_hook.push(thread);
        for failover in failovers {
            ignore_panic(|| hook(failover));
        }
        let mut state = self.lock();
        let mine = state.in_hook.iter().position(|known| *known == thread);
        mine.map(|mine| state.in_hook.swap_remove(mine));
    }
}

/// Runs the user's code. A panic must not reach this log's threads.
fn ignore_panic(act: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
        // Dropping the panic's payload could panic, too.
        std::mem::forget(panic);
    }
}
