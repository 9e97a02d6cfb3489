//! The writer in this process, as readers in the same process see it.

use crate::base::error::Result;
use crate::files::unlock::LogFiles;
use seawall_format::{Live, Lsn};
use seawall_io::Clock;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A handle to the writer of this process.
pub(crate) trait LocalWriter: Debug + Send + Sync {
    /// Refuses a call in a forked child.
    fn check_process(&self) -> Result<()>;

    /// The log's directory, and its keys.
    fn files(&self) -> &LogFiles;

    /// The clock that deadlines of [`wait_beyond`](Self::wait_beyond) refer to.
    fn clock(&self) -> &dyn Clock;

    /// Whether the log was closed: then another writer may change it.
    fn is_closed(&self) -> bool;

    /// How far a reader in this process may read.
    fn live(&self) -> Live;

    /// How many truncations removed records from the end.
    fn truncations(&self) -> u64;

    /// The lowest LSN that a truncation after the first `seen` ones gave up.
    fn truncated_since(&self, seen: u64) -> Option<Lsn>;

    /// Waits until the writer is between two batches, when no truncation is in progress.
    fn wait_for_turn(self: Arc<Self>) -> Result<()>;

    /// Refuses a position that is neither an existing record nor the next one.
    fn check_position(&self, from: Lsn) -> Result<()>;

    /// Waits until record `next` is durable or was truncated, and something changed since `seen`,
    /// or the number of truncations did; `None` at the deadline or when the log is closed.
    fn wait_beyond(
        &self,
        next: Lsn,
        seen: (Option<Live>, u64),
        deadline: Duration,
    ) -> Result<Option<Live>>;
}
