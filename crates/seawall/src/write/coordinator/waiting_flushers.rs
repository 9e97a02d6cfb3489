//! The flushers that wait for work, and how one of them is called.

/// The flushers that wait for work.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlushers {
    /// How many sleep or spin.
    pub(crate) asleep: usize,
    /// One of them was called and has not looked for work yet.
    pub(crate) is_called: bool,
    /// One of them spins.
    pub(crate) is_spinning: bool,
}
