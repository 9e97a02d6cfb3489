//! Readers in the same process: they learn the durable end from the coordinator, not from a file.

use crate::base::error::{Error, Result};
use crate::base::sync::Ordering;
use crate::files::local_writer::LocalWriter;
use crate::files::unlock::LogFiles;
use crate::write::coordinator::Coordinator;
use seawall_format::{Live, Lsn};
use seawall_io::Clock;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl LocalWriter for Coordinator {
    fn check_process(&self) -> Result<()> {
        self.fork_guard.check()
    }

    fn files(&self) -> &LogFiles {
        &self.files
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn is_closed(&self) -> bool {
        self.fork_guard.check().is_ok() && self.lock().commit.is_closed()
    }

    fn live(&self) -> Live {
        self.lock().live(self.id)
    }

    fn truncations(&self) -> u64 {
        self.truncation_count.load(Ordering::Acquire)
    }

    fn truncated_since(&self, seen: u64) -> Option<Lsn> {
        self.lock().commit.truncated_since(seen)
    }

    fn wait_for_turn(self: Arc<Self>) -> Result<()> {
        self.with_exclusive_writer(|_, _| Ok(()))
    }

    fn check_position(&self, from: Lsn) -> Result<()> {
        let state = self.lock_checked()?;
        let next = state.commit.next_lsn();
        if from > next { Err(Error::BeyondEnd { log: None, from, next }) } else { Ok(()) }
    }

    fn wait_beyond(
        &self,
        next: Lsn,
        (seen, truncations): (Option<Live>, u64),
        deadline: Duration,
    ) -> Result<Option<Live>> {
        let mut state = self.lock_checked()?;
        loop {
            let is_durable = state.commit.durable() >= Some(next);
            let is_cut_off = state.commit.next_lsn() < next;
            // An unchanged watermark would make the follower loop without progress.
            let live = state.live(self.id);
            let is_truncated = self.truncations() != truncations;
            if is_truncated || ((is_durable || is_cut_off) && Some(live) != seen) {
                return Ok(Some(live));
            }
            let left = deadline.saturating_sub(self.clock.now());
            match state.commit.check() {
                Ok(()) if !left.is_zero() => state.check_hook()?,
                Ok(()) | Err(Error::Closed { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
            state.followers += 1;
            let waited = self.new_records.wait_timeout(state, left.min(Duration::from_secs(3600)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.followers -= 1;
        }
    }
}
