//! How much of a log is kept by itself: a rule, and a pure function that says how many of the
//! oldest segments it gives up.

use seawall_format::{Lsn, SegmentId};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much of a log is kept: what is more, or older, is given up by itself, in whole segments and
/// the oldest first.
///
/// Nothing goes that a checkpoint may need: only segments whose records all stand before the older
/// of the two kept [checkpoints](crate::Log::checkpoint), and nothing at all where there is none.
/// [`without_checkpoints`](Self::without_checkpoints) lifts that. The segment that is being written
/// always stays.
///
/// The log is looked at when it is opened, after each roll to a new segment, and after each
/// checkpoint; one that idles stays as it is. What goes is given up as by
/// [`truncate_before`](crate::Log::truncate_before): durably, and a crash in between leaves the log
/// as it was before or as it is after.
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
/// log.checkpoint(lsn)?; // what stands before may go, once it is more than that
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
    /// Keeps everything, until a bound is set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps so many bytes of files beside the segment that is being written: the log may exceed
    /// this by one segment, and by what a checkpoint may need.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.bytes_max = Some(bytes);
        self
    }

    /// Keeps a segment as long as any of its records may be younger than that.
    ///
    /// A segment is as old as its newest record at least: the time since the next one was made, by
    /// the wall clock. A clock that was set back keeps records longer; one that jumps ahead can age
    /// them all.
    #[must_use]
    pub fn max_age(mut self, age: Duration) -> Self {
        self.age_max = Some(age);
        self
    }

    /// Gives up also what no checkpoint gave up: the log is a ring of the newest records, and
    /// whoever needs one of them reads it in time.
    #[must_use]
    pub fn without_checkpoints(mut self) -> Self {
        self.is_ring = true;
        self
    }

    /// How many of the oldest segments go. `live` is oldest first and ends with the tail; `now_us`
    /// is in microseconds since 1970.
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

    /// Whether lengths of files play a part.
    pub(crate) fn asks_for_lengths(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// How many may go at most.
    fn allowed(&self, live: &[LiveSegment], checkpoints: [Option<Lsn>; 2]) -> usize {
        if self.is_ring {
            return live.len().saturating_sub(1);
        }
        // Of two the older: the newest may turn out to be unusable.
        let Some(needed) = checkpoints.into_iter().flatten().min() else { return 0 };
        live.iter().rposition(|segment| segment.base <= needed).unwrap_or(0)
    }
}

/// What is known of a live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveSegment {
    /// The length of its file, in bytes.
    pub(crate) length: u64,
    /// Its first record.
    pub(crate) base: Lsn,
    /// When it was made, in microseconds since 1970; no record of the segment before is younger.
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
    // Behind one that is young enough all are, whatever a clock said in between.
    ages.take_while(|age| *age > age_max).count()
}

/// A log's rule, and what it has found out to follow it.
#[derive(Debug)]
pub(crate) struct RetentionState {
    pub(crate) rule: Option<Retention>,
    /// The lengths of files that nothing is written to any more, in bytes.
    pub(crate) lengths: BTreeMap<SegmentId, u64>,
    /// The log has rolled since it was looked at.
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

    /// Four segments of ten records and a hundred bytes each, made at the seconds 1 to 4.
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
    fn without_a_bound_nothing_goes() {
        assert_eq!(ring().excess(&live(), at(40), u64::MAX), 0);
    }

    #[test]
    fn as_many_go_as_are_too_much_beside_the_tail() {
        let gone = |bytes| ring().max_bytes(bytes).excess(&live(), at(40), 0);
        assert_eq!([1000, 300, 299, 200, 100, 99, 0].map(gone), [0, 0, 1, 1, 2, 3, 3]);
    }

    #[test]
    fn a_segment_goes_when_the_next_was_made_too_long_ago() {
        let old =
            |age| ring().max_age(Duration::from_secs(age)).excess(&live(), at(40), 5 * SECOND);
        assert_eq!([4, 3, 2, 1, 0].map(old), [0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_what_it_cannot_judge() {
        let keep = ring().max_age(Duration::from_secs(1));
        assert_eq!(keep.excess(&live(), at(40), 0), 0);
        let mut jumped = live();
        jumped[1].time_us = 90 * SECOND;
        assert_eq!(keep.excess(&jumped, at(40), 50 * SECOND), 0);
    }

    #[test]
    fn nothing_goes_that_the_older_checkpoint_needs() {
        let keep = Retention::new().max_bytes(0);
        let gone = |checkpoints: [u64; 2]| keep.excess(&live(), checkpoints.map(Lsn::new), 0);
        assert_eq!(gone([0, 0]), 0, "no checkpoint, nothing");
        assert_eq!([[10, 0], [11, 0], [20, 0], [41, 0]].map(gone), [0, 1, 1, 3]);
        assert_eq!([[41, 10], [41, 11], [41, 31]].map(gone), [0, 1, 3]);
    }

    #[test]
    fn the_tail_never_goes() {
        let keep = ring().max_bytes(0).max_age(Duration::ZERO);
        assert_eq!(keep.excess(&live()[3..], at(99), u64::MAX), 0);
        assert_eq!(keep.excess(&[], at(99), u64::MAX), 0);
    }
}
