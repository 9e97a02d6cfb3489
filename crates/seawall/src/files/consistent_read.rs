//! Consistent reads: when a reader believes damage, or a missing file.
//!
//! Readers take no lock. A writer can truncate, prune or rotate while one reads, and the result
//! then looks like damage. Every reader follows this rule:
//!
//! 1. Get the watermark, then read. A result without damage is returned at once.
//! 2. After damage, get the watermark again. If it is the same, the damage is real: a writer moves
//!    its watermark before it truncates or reuses LSNs (R16).
//! 3. Without the watermark of a running writer a change does not show, so damage counts only if a
//!    second read finds damage, too.
//! 4. A missing file proves nothing: pruning does not move the watermark. Read again; the next
//!    catalog tells a pruned segment from a lost one.
//! 5. Each further read uses the watermark that was read after the last one, never an older one. A
//!    writer in this process is between two batches when it answers.
//! 6. After [`RETRIES_MAX`] further reads the last result counts.

use crate::base::error::{Error, Result};
use crate::files::directory::is_not_found;
use crate::files::live::{LiveSource, Watermark};
use std::{error, fmt, io};

/// How often one read is repeated.
pub(crate) const RETRIES_MAX: u32 = 8;

/// The result of one read.
#[derive(Debug)]
pub(crate) enum Reading<T> {
    /// No damage, or none that a writer can have caused.
    Certain(T),
    /// Shows damage, or contradicts the watermark.
    Doubtful(T),
}

/// Why a result may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The log changed during the read, or a file is missing.
    Moved,
    /// Damage, while the log may have changed.
    Damage(Change),
}

/// Whether the log changed between two points in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Yes,
    No,
    /// No running writer publishes a watermark.
    Unknown,
}

impl Change {
    pub(crate) fn between(before: Option<&Watermark>, now: Option<&Watermark>) -> Self {
        match now {
            _ if before != now => Self::Yes,
            Some(now) if now.is_running() => Self::No,
            _ => Self::Unknown,
        }
    }
}

/// Reads until the result is consistent with the log, as the module describes. `read` gets the
/// watermark to read by. An [`Error::Damaged`] is doubtful; other errors are returned at once,
/// except for a missing file and [`moved`].
pub(crate) fn read_consistent<T>(
    source: LiveSource<'_>,
    read: impl FnMut(Option<&Watermark>) -> Result<Reading<T>>,
) -> Result<T> {
    Retries::default().read(source, source.now()?, read)
}

/// Counts how often a read was repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retries {
    made: u32,
}

impl Retries {
    /// Like [`read_consistent`], starting with a watermark that the caller has just read, and
    /// within the retries that are left.
    pub(crate) fn read<T>(
        &mut self,
        source: LiveSource<'_>,
        mut watermark: Option<Watermark>,
        mut read: impl FnMut(Option<&Watermark>) -> Result<Reading<T>>,
    ) -> Result<T> {
        loop {
            let found = read(watermark.as_ref());
            let is_damage = match &found {
                Ok(Reading::Doubtful(_)) | Err(Error::Damaged { .. }) => true,
                Err(error) if is_moved(error) => false,
                Ok(Reading::Certain(_)) | Err(_) => return found.map(Reading::value),
            };
            let now = source.settled()?;
            let change = Change::between(watermark.as_ref(), now.as_ref());
            if !self.again(if is_damage { Doubt::Damage(change) } else { Doubt::Moved }) {
                return found.map(Reading::value);
            }
            watermark = now;
        }
    }

    /// Whether to read again. Counts the retry.
    pub(crate) fn again(&mut self, doubt: Doubt) -> bool {
        let again = match doubt {
            Doubt::Moved | Doubt::Damage(Change::Yes) => true,
            Doubt::Damage(Change::Unknown) => self.made == 0,
            Doubt::Damage(Change::No) => false,
        };
        let again = again && self.made < RETRIES_MAX;
        self.made += u32::from(again);
        again
    }
}

impl<T> Reading<T> {
    fn value(self) -> T {
        match self {
            Self::Certain(value) | Self::Doubtful(value) => value,
        }
    }
}

/// The error of a read that noticed itself that the writer changed the log meanwhile.
pub(crate) fn moved(what: impl Into<String>) -> Error {
    Error::io(what)(io::Error::new(io::ErrorKind::ResourceBusy, Moved))
}

/// Whether the error is [`moved`] or a missing file.
pub(crate) fn is_moved(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    let inner = source.get_ref().and_then(|inner| inner.downcast_ref::<Moved>());
    inner.is_some() || is_not_found(error)
}

#[derive(Debug)]
struct Moved;

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a writer changed the log meanwhile; try again")
    }
}

impl error::Error for Moved {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{Corruption, missing_segment};
    use crate::files::local_writer::LocalWriter;
    use crate::files::unlock::LogFiles;
    use seawall_format::{Epoch, Live, LogId, Lsn, SegmentId, SegmentRef};
    use seawall_io::Clock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A writer whose watermark advances by one record in each of its next `moves` turns.
    #[derive(Debug, Default)]
    struct Writer {
        durable: AtomicU64,
        moves: Mutex<u32>,
    }

    impl LocalWriter for Writer {
        fn check_process(&self) -> Result<()> {
            Ok(())
        }

        fn files(&self) -> &LogFiles {
            unreachable!("a read of the test has no files")
        }

        fn is_closed(&self) -> bool {
            false
        }

        fn clock(&self) -> &dyn Clock {
            unreachable!("a read does not wait for a time")
        }

        fn live(&self) -> Live {
            let segment = SegmentRef { id: SegmentId::FIRST, epoch: Epoch(1) };
            let durable = Lsn::new(self.durable.load(Ordering::Relaxed));
            Live { log: LogId(1), boot_id: [0; 16], segment, durable, time_us: 0 }
        }

        fn truncated_since(&self, _: u64) -> Option<Lsn> {
            unreachable!("a read does not follow")
        }

        fn truncations(&self) -> u64 {
            0
        }

        fn wait_for_turn(self: Arc<Self>) -> Result<()> {
            let mut moves = self.moves.lock().expect("no panic");
            if let Some(left) = moves.checked_sub(1) {
                *moves = left;
                self.durable.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }

        fn check_position(&self, _: Lsn) -> Result<()> {
            Ok(())
        }

        fn wait_beyond(&self, _: Lsn, _: (Option<Live>, u64), _: Duration) -> Result<Option<Live>> {
            Ok(None)
        }
    }

    fn damaged() -> Error {
        let damage = missing_segment(SegmentId::FIRST, Corruption::SegmentMissing, None);
        Error::damaged(damage)
    }

    /// Reads with `result` as the outcome of each attempt, while the watermark advances `moves`
    /// times. Returns the durable LSN at each attempt.
    fn reads(moves: u32, result: impl Fn() -> Result<Reading<()>>) -> Vec<u64> {
        let writer = Writer { durable: AtomicU64::new(1), moves: Mutex::new(moves) };
        let writer: Arc<dyn LocalWriter> = Arc::new(writer);
        let mut seen = vec![];
        let _ = read_consistent(LiveSource::InProcess(&writer), |watermark| {
            let durable = watermark.and_then(|watermark| watermark.live.durable);
            seen.push(durable.map_or(0, Lsn::get));
            result()
        });
        seen
    }

    #[test]
    fn result_without_damage_is_returned_at_once() {
        assert_eq!(reads(9, || Ok(Reading::Certain(()))), [1]);
    }

    #[test]
    fn damage_is_believed_when_the_watermark_stays() {
        assert_eq!(reads(0, || Ok(Reading::Doubtful(()))), [1]);
        assert_eq!(reads(0, || Err(damaged())), [1]);
    }

    #[test]
    fn damage_is_read_again_by_the_new_watermark_while_the_watermark_moves() {
        assert_eq!(reads(2, || Ok(Reading::Doubtful(()))), [1, 2, 3]);
        assert_eq!(reads(2, || Err(damaged())), [1, 2, 3]);
    }

    #[test]
    fn missing_file_is_read_again_by_a_new_watermark_although_the_watermark_stays() {
        let missing = || Error::io("open")(io::ErrorKind::NotFound.into());
        assert_eq!(reads(1, || Err(missing())), [1, 2, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(reads(0, || Err(moved("copy"))).len(), 9, "eight retries");
    }

    #[test]
    fn other_errors_are_returned_at_once() {
        assert_eq!(reads(9, || Err(Error::Closed { log: None })), [1]);
    }

    #[test]
    fn reads_beside_a_writer_that_never_stops_end() {
        assert_eq!(reads(99, || Ok(Reading::Doubtful(()))), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn damage_without_a_running_writer_is_read_twice() {
        let (mut retries, unknown) = (Retries::default(), Change::between(None, None));
        assert!(retries.again(Doubt::Damage(unknown)));
        assert!(!retries.again(Doubt::Damage(unknown)));
    }
}
