//! Followers: records as they become durable. The writer in the same process wakes a follower; in
//! another process the follower polls.

use crate::base::codec::{Codec, MessagePack};
use crate::base::error::log_path::NamesLog;
use crate::base::error::{Error, Result};
use crate::files::live::read_watermark;
use crate::files::local_writer::LocalWriter;
use crate::read::entries::Records;
use seawall_format::Lsn;
use seawall_io::{Clock, Storage};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often a follower in another process polls.
const POLL: Duration = Duration::from_millis(50);

/// Yields the records of a log without end: the existing ones, then new ones.
///
/// Only durable records are shown. To resume later, persist [`position`](Follower::position) and
/// start there. A position implies that every record before it was seen; if the log ends before it,
/// [`Error::BeyondEnd`](crate::Error::BeyondEnd) reports that.
///
/// # Examples
///
/// ```
/// use seawall::{Log, Lsn};
/// use std::time::Duration;
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-fol-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// let mut follower = log.follow(Lsn::FIRST)?;
/// log.append(&7)?;
/// assert_eq!(follower.next_within(Duration::from_secs(5))?, Some((Lsn::FIRST, 7)));
/// assert_eq!(follower.next_within(Duration::ZERO)?, None);
/// assert_eq!(follower.position().get(), 2);
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower<T: ?Sized, C = MessagePack> {
    new_records: NewRecords,
    entries: Records<T, C>,
    /// Whether the last call returned an error or panicked.
    has_failed: bool,
    /// Number of truncations by the writer in this process, when the cursor last checked.
    truncations: u64,
}

/// How a follower learns of new records.
pub(crate) enum NewRecords {
    /// The writer in this process wakes the follower.
    InProcess(Arc<dyn LocalWriter>),
    /// The follower polls the log's files.
    Polling(Arc<dyn Storage>, Arc<dyn Clock>),
}

impl NewRecords {
    fn now(&self) -> Duration {
        match self {
            Self::InProcess(coordinator) => coordinator.clock().now(),
            Self::Polling(_, clock) => clock.now(),
        }
    }
}

impl NewRecords {
    /// Number of truncations by the writer in this process.
    pub(crate) fn truncations(&self) -> u64 {
        match self {
            Self::InProcess(coordinator) => coordinator.truncations(),
            Self::Polling(..) => 0,
        }
    }

    /// The lowest LSN that a truncation after the first `seen` ones gave up.
    fn truncated_since(&self, seen: u64) -> Option<Lsn> {
        match self {
            Self::InProcess(coordinator) => coordinator.truncated_since(seen),
            Self::Polling(..) => None,
        }
    }
}

impl<T: ?Sized, C: Codec<T>> Follower<T, C> {
    /// `truncations` is the number of truncations before `entries` was created. If another one came
    /// meanwhile, the first read restarts the cursor.
    pub(crate) fn new(new_records: NewRecords, entries: Records<T, C>, truncations: u64) -> Self {
        Self { new_records, entries, has_failed: false, truncations }
    }

    /// Waits for the next record and returns it; `None` once the handle in this process closed the
    /// log.
    ///
    /// # Errors
    ///
    /// As the iterator of [`LogReader::read_from`](crate::LogReader::read_from), and
    /// [`Error::Rewound`](crate::Error::Rewound) if records that were read have been truncated.
    pub fn next_record(&mut self) -> Result<Option<(Lsn, C::Item)>> {
        self.next_within(Duration::MAX)
    }

    /// Returns the next record, or `None` if there is none within `time`.
    ///
    /// # Errors
    ///
    /// As [`next_record`](Self::next_record). A later call retries at the same position.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<(Lsn, C::Item)>> {
        // Until this call succeeds: a codec may panic.
        let has_failed = std::mem::replace(&mut self.has_failed, true);
        let next = self.restart_if_truncated(has_failed).and_then(|_| self.find_within(time));
        self.has_failed = next.is_err();
        next.of_log(&**self.entries.cursor().files())
    }

    /// Restarts the cursor if it `has_failed`, or if records were truncated since it last checked:
    /// it may hold some of them in memory. Returns whether it did.
    ///
    /// # Errors
    ///
    /// [`Error::Rewound`](crate::Error::Rewound), then also in later calls.
    fn restart_if_truncated(&mut self, has_failed: bool) -> Result<bool> {
        let truncations = self.new_records.truncations();
        if truncations != self.truncations {
            // A position implies that every record before it was seen. Since the truncation, the
            // log may have grown past it.
            let given_up = self.new_records.truncated_since(self.truncations);
            if let Some(next) = given_up.filter(|next| *next < self.entries.position()) {
                return Err(Error::rewound(next));
            }
        } else if !has_failed {
            return Ok(false);
        }
        self.truncations = truncations;
        self.entries.restart_after_error()?;
        Ok(true)
    }

    fn find_within(&mut self, time: Duration) -> Result<Option<(Lsn, C::Item)>> {
        let deadline = self.new_records.now().saturating_add(time);
        loop {
            if let Some(entry) = self.entries.next() {
                return entry.map(Some);
            }
            let cursor = self.entries.cursor_mut();
            match &self.new_records {
                NewRecords::InProcess(coordinator) => {
                    let (next, seen) = (cursor.next_lsn(), (cursor.live(), self.truncations));
                    let live = coordinator.wait_beyond(next, seen, deadline)?;
                    let Some(live) = live else { return Ok(None) };
                    if !self.restart_if_truncated(false)? {
                        self.entries.cursor_mut().continue_to(live)?;
                    }
                }
                NewRecords::Polling(storage, clock) => {
                    if !cursor.poll_end(read_watermark(&**storage)?)? {
                        let left = deadline.saturating_sub(clock.now());
                        if left.is_zero() {
                            return Ok(None);
                        }
                        clock.sleep(left.min(POLL));
                    }
                }
            }
        }
    }

    /// The LSN of the next record. An error does not change the position.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.entries.position()
    }
}

impl<T: ?Sized, C> fmt::Debug for Follower<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}
