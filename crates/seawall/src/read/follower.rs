//! Following a log: records as they become durable, by being woken in the writer's process, by
//! looking at the log from another one.

use crate::base::codec::{Codec, MessagePack};
use crate::base::error::Result;
use crate::base::local_writer::LocalWriter;
use crate::files::live::read_watermark;
use crate::read::entries::Records;
use seawall_format::Lsn;
use seawall_io::{Clock, Storage};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often a follower in another process looks.
const POLL: Duration = Duration::from_millis(50);

/// Delivers the records of a log for ever: those that are there, and those that come.
///
/// It shows durable records only. [`position`](Follower::position) is all there is to persist: a
/// follower that starts there goes on where this one stopped. A position claims that every record
/// before it was seen: where the log ends before that,
/// [`Error::BeyondEnd`](crate::Error::BeyondEnd) says so.
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
    /// The last call ended with an error.
    has_failed: bool,
    /// How often the writer in this process had cut records off when the cursor looked last.
    truncations: u64,
}

/// Where a follower hears of new records.
pub(crate) enum NewRecords {
    /// From the writer in this process.
    InProcess(Arc<dyn LocalWriter>),
    /// From the log, by looking.
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
    /// How often the writer in this process has cut records off.
    fn truncations(&self) -> u64 {
        match self {
            Self::InProcess(coordinator) => coordinator.truncations(),
            Self::Polling(..) => 0,
        }
    }
}

impl<T: ?Sized, C: Codec<T>> Follower<T, C> {
    pub(crate) fn new(new_records: NewRecords, entries: Records<T, C>) -> Self {
        // If the log was cut before or during this call, the first read looks again.
        Self { new_records, entries, has_failed: false, truncations: 0 }
    }

    /// The next record; waits for it. `None` when the log was closed by its handle in this process.
    ///
    /// # Errors
    ///
    /// As the iterator of [`LogReader::read_from`](crate::LogReader::read_from), and
    /// [`Error::Rewound`](crate::Error::Rewound) if records that were read have been truncated
    /// away.
    pub fn next_record(&mut self) -> Result<Option<(Lsn, C::Item)>> {
        self.next_within(Duration::MAX)
    }

    /// The next record, if there is one within that time.
    ///
    /// # Errors
    ///
    /// As [`next_record`](Self::next_record). A later call tries again at the same place.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<(Lsn, C::Item)>> {
        let truncations = self.new_records.truncations();
        // The cursor may hold records in memory that were cut off meanwhile.
        let was_truncated = std::mem::replace(&mut self.truncations, truncations) != truncations;
        if std::mem::take(&mut self.has_failed) || was_truncated {
            self.entries
                .cursor_mut()
                .restart_after_error()
                .inspect_err(|_| self.has_failed = true)?;
        }
        let next = self.find_within(time);
        self.has_failed = next.is_err();
        next
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
                    let live =
                        coordinator.wait_beyond(cursor.next_lsn(), cursor.live(), deadline)?;
                    let Some(live) = live else { return Ok(None) };
                    cursor.continue_to(live)?;
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

    /// The number of the record that comes next.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.entries.cursor().next_lsn()
    }
}

impl<T: ?Sized, C> fmt::Debug for Follower<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}
