//! How far the writer in this process says that the log is durable.

use crate::base::error::Result;
use seawall_format::{Live, Lsn};
use seawall_io::{Clock, Storage};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// The writer in this process, as readers beside it see it.
pub(crate) trait LocalWriter: Debug + Send + Sync {
    /// Refuses to go on in a forked child.
    fn check_process(&self) -> Result<()>;

    /// The log's files.
    fn storage(&self) -> &Arc<dyn Storage>;

    /// The clock that deadlines of [`wait_beyond`](Self::wait_beyond) refer to.
    fn clock(&self) -> &dyn Clock;

    /// Up to where a reader in this process may read.
    fn live(&self) -> Live;

    /// How often records were truncated off the end.
    fn truncations(&self) -> u64;

    /// Waits for the writer's turn between two batches, where no truncation is under way.
    fn wait_for_turn(self: Arc<Self>) -> Result<()>;

    /// Refuses a position that is neither that of a record nor the next one.
    fn check_position(&self, from: Lsn) -> Result<()>;

    /// Waits until record `next` is durable, or was truncated, and something has changed since
    /// `seen`; `None` at the deadline, or when the log is closed.
    fn wait_beyond(
        &self,
        next: Lsn,
        seen: Option<Live>,
        deadline: Duration,
    ) -> Result<Option<Live>>;
}
