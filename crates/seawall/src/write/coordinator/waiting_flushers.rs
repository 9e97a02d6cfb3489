//! The flushers that wait for work, how one of them is called, and those that take none meanwhile.

use crate::write::coordinator::State;
use std::time::Duration;

/// The flushers that wait for work or run the user's code.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlushers {
    /// Until when each of those that wait sleeps or spins, unless it is called.
    asleep: Vec<Duration>,
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

impl State {
    /// Whether a flusher runs that does not run the user's code.
    pub(crate) fn has_free_flusher(&self) -> bool {
        self.background.len() > self.flushers.in_callbacks
    }

    /// Whether no flusher looks for work at `due`, so that one has to be called. One that works
    /// looks again afterwards, but while a write is in flight that may take long. One that waits
    /// for the writer is called once the writer is returned.
    pub(crate) fn all_sleep_past(&self, due: Duration) -> bool {
        let WaitingFlushers { asleep, in_callbacks, .. } = &self.flushers;
        let works = self.background.len() > in_callbacks + asleep.len();
        let is_covered = self.wants_writer || (works && self.in_flight.is_empty());
        !is_covered && asleep.iter().all(|until| due < *until)
    }
}
