//! Automatic retention: a rule, and a pure function that computes how many of the oldest segments
//! to remove.

use seawall_format::{Lsn, SegmentId};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a log is kept. Older records are removed automatically, in whole segments, oldest
/// first.
///
/// Records that a checkpoint may need are kept: a segment is removed only if all its records
/// precede the older of the two stored [checkpoints](crate::Log::checkpoint). Without a checkpoint
/// nothing is removed, unless [`without_checkpoints`](Self::without_checkpoints) is set. The
/// segment being written is always kept.
///
/// The rule is applied when the log is opened, after each rotation and after each checkpoint, but
/// not while the log is idle. Removal works like
/// [`truncate_before`](crate::Log::truncate_before): a crash leaves the log as it was either before
/// or after. After a rotation, a background thread makes it durable and removes the files; if the
/// device fails there, the next removal, checkpoint or close reports it.
///
/// # Examples
///
/// ```
/// use seawall::{Log, Lsn, Options, Retention};
/// use std::time::Duration;
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-keep-{}", std::process::id()));
/// let week = Duration::from_secs(7 * 24 * 60 * 60);
/// let keep = Retention::new().max_bytes(1 << 30).max_age(week);
/// let log: Log<String> = Options::new().retention(keep).open(&folder)?;
/// let lsn = log.append(&"transfer 10 from A to B".to_owned())?;
/// log.checkpoint(lsn)?; // earlier records may be removed once a bound is exceeded
/// assert_eq!(log.stats().pruned, 0);
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    bytes_max: Option<u64>,
    age_max: Option<Duration>,
    is_ring: bool,
}

impl Retention {
    /// Keeps everything until a bound is set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps at most this many bytes of files besides the segment being written. The log may exceed
    /// the bound by one segment, and by the segments that a checkpoint may need.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.bytes_max = Some(bytes);
        self
    }

    /// Keeps a segment as long as any of its records may be younger than `age`.
    ///
    /// The age of a segment is the wall-clock time since the next segment was created, so no record
    /// in it is younger. Setting the clock back keeps records longer; a jump ahead can expire all
    /// segments.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.age_max = Some(age);
        self
    }

    /// Also removes records that no checkpoint covers: the log becomes a ring of the newest
    /// records, and consumers must read them in time.
    #[must_use]
    pub fn without_checkpoints(mut self) -> Self {
        self.is_ring = true;
        self
    }

    /// How many of the oldest segments to remove. `live` is ordered oldest first and ends with the
    /// segment being written; `now_us` is in microseconds since 1970.
    pub(crate) fn excess(
        &self,
        live: &[LiveSegment],
        checkpoints: [Option<Lsn>; 2],
        now_us: u64,
    ) -> usize {
        let too_many = self.bytes_max.map_or(0, |max| too_many(live, max));
        let too_old = self.age_max.map_or(0, |max| too_old(live, max, now_us));
        too_many.max(too_old).min(self.allowed(live, checkpoints))
    }

    /// Whether the rule depends on file lengths.
    pub(crate) fn needs_lengths(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// How many segments the checkpoints allow to remove.
    fn allowed(&self, live: &[LiveSegment], checkpoints: [Option<Lsn>; 2]) -> usize {
        if self.is_ring {
            return live.len().saturating_sub(1);
        }
        // The older of the two: the newest may turn out to be unusable.
        let Some(needed) = checkpoints.into_iter().flatten().min() else { return 0 };
        live.iter().rposition(|segment| segment.base <= needed).unwrap_or(0)
    }
}

/// A live segment, as far as retention needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSegment {
    /// Length of its file in bytes.
    pub(crate) length: u64,
    /// Its first record.
    pub(crate) base: Lsn,
    /// Creation time in microseconds since 1970; no record of the previous segment is younger.
    pub(crate) time_us: u64,
}

fn too_many(live: &[LiveSegment], bytes_max: u64) -> usize {
    let sealed = live.split_last().map_or(live, |(_, sealed)| sealed);
    let mut kept = 0_u64;
    let fits = sealed.iter().rev().take_while(|segment| {
        kept = kept.saturating_add(segment.length);
        kept <= bytes_max
    });
    sealed.len() - fits.count()
}

fn too_old(live: &[LiveSegment], age_max: Duration, now_us: u64) -> usize {
    let successors = live.iter().skip(1);
    let ages = successors.map(|next| Duration::from_micros(now_us.saturating_sub(next.time_us)));
    // After the first segment that is young enough, later ones are kept whatever the clock said.
    ages.take_while(|age| *age > age_max).count()
}

/// The retention rule of a log, and cached file lengths.
#[derive(Debug)]
pub(crate) struct RetentionState {
    pub(crate) rule: Option<Retention>,
    /// File lengths in bytes of segments that are no longer written.
    pub(crate) lengths: BTreeMap<SegmentId, u64>,
    /// Whether a rotation happened since the rule was last applied.
    pub(crate) is_due: bool,
}

impl RetentionState {
    pub(crate) fn new(rule: Option<Retention>) -> Self {
        Self { rule, lengths: BTreeMap::new(), is_due: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Four segments of ten records and a hundred bytes each, created at seconds 1 to 4.
    fn live() -> Vec<LiveSegment> {
        let segment = |number: u64| LiveSegment {
            length: 100,
            base: Lsn::new(number * 10 + 1).unwrap(),
            time_us: (number + 1) * SECOND,
        };
        (0..4).map(segment).collect()
    }

    fn at(lsn: u64) -> [Option<Lsn>; 2] {
        [Lsn::new(lsn), None]
    }

    fn ring() -> Retention {
        Retention::new().without_checkpoints()
    }

    #[test]
    fn without_a_limit_nothing_is_removed() {
        assert_eq!(ring().excess(&live(), at(40), u64::MAX), 0);
    }

    #[test]
    fn segments_beyond_the_size_limit_are_removed() {
        let gone = |bytes| ring().max_bytes(bytes).excess(&live(), at(40), 0);
        assert_eq!([1000, 300, 299, 200, 100, 99, 0].map(gone), [0, 0, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn segment_is_removed_when_its_successor_is_too_old() {
        let old =
            |age| ring().max_age(Duration::from_secs(age)).excess(&live(), at(40), 5 * SECOND);
        assert_eq!([4, 3, 2, 1, 0].map(old), [0, 0, 1, 2, 3]);
    }

    #[test]
    fn clock_set_back_keeps_segments_of_unknown_age() {
        let keep = ring().max_age(Duration::from_secs(1));
        assert_eq!(keep.excess(&live(), at(40), 0), 0);
        let mut jumped = live();
        jumped[1].time_us = 90 * SECOND;
        assert_eq!(keep.excess(&jumped, at(40), 50 * SECOND), 0);
    }

    #[test]
    fn segments_needed_by_the_older_checkpoint_are_kept() {
        let keep = Retention::new().max_bytes(0);
        let gone = |checkpoints: [u64; 2]| keep.excess(&live(), checkpoints.map(Lsn::new), 0);
        assert_eq!(gone([0, 0]), 0, "no checkpoint, nothing");
        assert_eq!([[10, 0], [11, 0], [20, 0], [41, 0]].map(gone), [0, 1, 1, 3]);
        assert_eq!([[41, 10], [41, 11], [41, 31]].map(gone), [0, 1, 3]);
    }

    #[test]
    fn newest_segment_is_never_removed() {
        let keep = ring().max_bytes(0).max_age(Duration::ZERO);
        assert_eq!(keep.excess(&live()[3..], at(99), u64::MAX), 0);
        assert_eq!(keep.excess(&[], at(99), u64::MAX), 0);
    }
}
