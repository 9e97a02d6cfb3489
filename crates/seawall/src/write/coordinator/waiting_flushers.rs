//! The flushers that wait for work, how one of them is called, and those that take none meanwhile.

/// The flushers that wait for work or run wakers.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlushers {
    /// How many wait: they sleep or spin.
    pub(crate) asleep: usize,
    /// One of them was called and has not looked for work yet.
    pub(crate) is_called: bool,
    /// One of them spins.
    pub(crate) is_spinning: bool,
    /// How many run wakers. A flusher whose waker appends can count twice.
    pub(crate) in_wakers: usize,
}
