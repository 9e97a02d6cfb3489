//! The flushers that wait for work, how one of them is called, and those that take none meanwhile.

use crate::base::options::Failover;
use std::task::Waker;
use std::time::Duration;

/// The flushers that wait for work or run the user's code.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlushers {
    /// Until when each of those that wait sleeps or spins, unless it is called.
    pub(crate) asleep: Vec<Duration>,
    /// One of them was called and has not looked for work yet.
    pub(crate) is_called: bool,
    /// One of them spins.
    pub(crate) is_spinning: bool,
    /// How many run the user's code.
    pub(crate) in_callbacks: usize,
}

impl WaitingFlushers {
    /// Whether one waits for work and was not called.
    pub(crate) fn can_call(&self) -> bool {
        !self.asleep.is_empty() && !self.is_called
    }

    /// Adds a flusher that waits.
    pub(crate) fn fall_asleep(&mut self, until: Duration) {
        self.asleep.push(until);
    }

    /// Removes a flusher that waited `until` then.
    pub(crate) fn wake_up(&mut self, until: Duration) {
        let index = self.asleep.iter().position(|other| *other == until);
        self.asleep.swap_remove(index.expect("it fell asleep"));
    }
}

/// Calls of the user's code that a flusher has left to others.
#[derive(Debug, Default)]
pub(crate) struct LeftCallbacks {
    pub(crate) wakers: Vec<Waker>,
    pub(crate) failovers: Vec<Failover>,
}
