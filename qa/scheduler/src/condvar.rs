//! A condition variable whose timed waits end by the simulated clock.

use crate::time;
use std::sync::{Arc, LockResult, PoisonError};
use std::time::Duration;

use shuttle::sync::MutexGuard;

/// Works like [`std::sync::Condvar`], with [`time::now`] as the clock.
#[derive(Debug, Default)]
pub struct Condvar(Arc<shuttle::sync::Condvar>);

/// Whether a wait ended because of its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the wait timed out.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable without waiters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for a notification.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Waits for a notification, at most for `time`.
    ///
    /// # Errors
    ///
    /// If the mutex is poisoned.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let alarm = time::Alarm::set(&self.0, time);
        let waited = self.0.wait(guard);
        let result = WaitTimeoutResult(alarm.is_due());
        match waited {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
