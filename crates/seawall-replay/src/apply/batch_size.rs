//! Adaptive batch size: chooses how many changes a batch holds, within bounds, to minimize the time
//! per change. A pure state machine whose input is the duration of each batch.
//!
//! The size starts small so that the store has work immediately, and grows with each batch: four
//! times while a batch takes a small part of the permitted time, otherwise twice. Growth ends when
//! a change becomes clearly more expensive. From then on each size is measured for two batches. The
//! size doubles while a change costs about the same or less at the larger size: within the bounds
//! one large batch is better for a store than two small ones, which a short measurement may not
//! show. The size halves only if a change is clearly cheaper at the smaller size. Then the size
//! stays, and a neighbouring size is tried from time to time, because a store's costs change as it
//! grows. Costs also change during a trial, so a trial that favours smaller batches is compared
//! with batches before and after it.

use std::time::Duration;

/// The limits of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The minimum number of changes in a batch.
    pub changes_min: usize,
    /// The maximum number of changes in a batch.
    pub changes_max: usize,
    /// The approximate memory limit for the changes of a batch, in bytes. A transaction is never
    /// split, so a batch may be larger.
    pub bytes_max: usize,
    /// The longest time that a batch may take. A killed process loses at most this much work.
    pub time_max: Duration,
}

impl Default for Bounds {
    /// 64 to 65,536 changes, 32 MiB, 200 ms.
    fn default() -> Self {
        let time_max = Duration::from_millis(200);
        Self { changes_min: 64, changes_max: 65_536, bytes_max: 32 << 20, time_max }
    }
}

/// The initial batch size, and the maximum size of the initial growth, in changes.
const FIRST: usize = 256;
const JUDGED: usize = 16_384;
/// A batch that takes less than one part in this many of the permitted time lets the size grow
/// fourfold.
const QUICK: u32 = 8;
/// Batches measured per size. The fastest counts, because stores pause from time to time.
const SAMPLES: u32 = 2;
/// Batches that can be queued or built when the size changes.
const QUEUED_MAX: u32 = 4;
/// Measurements between two trials of a neighbouring size.
const REST: u32 = 4;
/// Percentage: a larger size is kept if a change there costs less than this share of the old cost.
const NO_WORSE: (u128, u128) = (125, 100);
/// Percentage: a smaller size is kept if a change there costs less than this share of the old cost.
const BETTER: (u128, u128) = (95, 100);

/// Chooses the size of the next batch from the duration of earlier ones.
///
/// # Examples
///
/// ```
/// use seawall_replay::{BatchSize, Bounds};
/// use std::time::Duration;
///
/// // In a store where every batch costs 1 ms, the largest batches are best.
/// let mut size = BatchSize::new(Bounds::default());
/// for _ in 0..100 {
///     size.took(size.changes(), Duration::from_millis(1));
/// }
/// assert_eq!(size.changes(), 65_536);
/// ```
#[derive(Clone, Debug)]
pub struct BatchSize {
    bounds: Bounds,
    changes: usize,
    /// The number of changes to apply, if there are at most [`JUDGED`].
    few: Option<usize>,
    /// Batches that may have been queued before the size shrank.
    queued: u32,
    /// The number of full batches at this size, and the cost of the cheapest.
    samples: u32,
    least: Option<Cost>,
    course: Course,
}

/// A cost: nanoseconds, and the number of changes.
type Cost = (u128, u128);

#[derive(Clone, Copy, Debug)]
enum Course {
    /// The initial growth, with the cost of the previous batch.
    Begin(Option<Cost>),
    /// Measures the cost of this size.
    Look,
    /// Tries a neighbour of `from`, whose cost is `cost`.
    Try { from: usize, cost: Cost },
    /// Measures this size again, after a trial of `tried` gave `cost`.
    Compare { tried: usize, cost: Cost },
    /// Keeps the size for `rest` measurements, then tries a larger or a smaller one.
    Stay { rest: u32, up_next: bool },
}

impl BatchSize {
    /// Starts at 256 changes, or at the nearest bound.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let changes = FIRST.clamp(bounds.changes_min, bounds.changes_max.max(bounds.changes_min));
        let (few, course) = (None, Course::Begin(None));
        Self { bounds, changes, few, queued: 0, samples: 0, least: None, course }
    }

    /// Lets the second batch take all that remains of `changes` changes, if there are few and the
    /// first batch shows that the second one will be quick.
    pub(crate) fn of_all(mut self, changes: u64) -> Self {
        self.few = usize::try_from(changes).ok().filter(|changes| *changes <= JUDGED);
        self
    }

    /// Returns the number of changes for the next batch.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Returns the bounds.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns whether a batch of `changes` changes that take `bytes` bytes is large enough to
    /// write.
    #[must_use]
    pub fn is_full(&self, changes: usize, bytes: usize) -> bool {
        changes >= self.changes || bytes >= self.bounds.bytes_max
    }

    /// Records that a batch of `changes` changes took `time`.
    pub fn took(&mut self, changes: usize, time: Duration) {
        if time > self.bounds.time_max {
            // Shrink immediately: the next batch might take as long. Not again for batches that
            // were queued before, or that are one large transaction.
            let is_larger = changes >= self.changes.saturating_mul(2);
            self.go(if is_larger { self.changes } else { self.changes / 2 });
            self.course = Course::Stay { rest: REST, up_next: false };
            return;
        }
        let cost = (time.as_nanos(), u128::try_from(changes).unwrap_or(u128::MAX));
        if let Course::Begin(before) = self.course {
            self.begin(before, cost, time);
            return;
        }
        if changes * 4 < self.changes * 3 {
            // Not a full batch of this size: the last one of the log, one with large values, or one
            // that was queued before the size grew.
            return;
        }
        if self.queued > 0 && changes * 3 > self.changes * 4 {
            // Queued before the size shrank.
            self.queued -= 1;
            return;
        }
        let least = self.least.filter(|least| !is_below(cost, *least, (1, 1))).unwrap_or(cost);
        (self.samples, self.least) = (self.samples + 1, Some(least));
        if self.samples == SAMPLES {
            (self.samples, self.least) = (0, None);
            self.judge(least);
        }
    }

    /// Grows if a change costs no more than in the previous batch.
    fn begin(&mut self, before: Option<Cost>, cost: Cost, time: Duration) {
        let is_worse = before.is_some_and(|before| !is_below(cost, before, NO_WORSE));
        let size = self.changes;
        if !is_worse {
            let times = if time < self.bounds.time_max / QUICK { 4 } else { 2 };
            let is_quick = |all: &usize| {
                let quick = (self.bounds.time_max / QUICK).as_nanos();
                is_below(cost, (quick, u128::try_from(*all).unwrap_or(u128::MAX)), (1, 1))
            };
            let all = self.few.filter(is_quick).unwrap_or(0);
            self.go((size * times).max(all).min(JUDGED.max(size)));
        }
        self.course = if self.changes == size { Course::Look } else { Course::Begin(Some(cost)) };
    }

    fn judge(&mut self, cost: Cost) {
        match self.course {
            Course::Begin(_) | Course::Look => self.look_beside(true, cost),
            Course::Try { from, cost: before }
                if self.changes > from && is_taken(cost, before, true) =>
            {
                self.look_beside(true, cost);
            }
            Course::Try { from, cost: before } => {
                let (tried, is_up) = (self.changes, self.changes > from);
                self.go(from);
                // A smaller size that costs more even now needs no comparison.
                self.course = if is_up || is_taken(cost, before, false) {
                    Course::Compare { tried, cost }
                } else {
                    Course::Stay { rest: REST, up_next: true }
                };
            }
            Course::Compare { tried, cost: there } => {
                let is_up = tried > self.changes;
                if is_taken(there, cost, is_up) {
                    self.go(tried);
                    self.look_beside(is_up, there);
                } else {
                    self.course = Course::Stay { rest: REST, up_next: !is_up };
                }
            }
            Course::Stay { rest: 0, up_next } => self.look_beside(up_next, cost),
            Course::Stay { rest, up_next } => {
                self.course = Course::Stay { rest: rest - 1, up_next };
            }
        }
    }

    fn look_beside(&mut self, is_up: bool, cost: Cost) {
        let from = self.changes;
        self.go(if is_up { from * 2 } else { from / 2 });
        self.course = if self.changes == from {
            Course::Stay { rest: REST, up_next: !is_up }
        } else {
            Course::Try { from, cost }
        };
    }

    fn go(&mut self, changes: usize) {
        let Bounds { changes_min, changes_max, .. } = self.bounds;
        let changes = changes.clamp(changes_min, changes_max.max(changes_min));
        self.queued = if changes < self.changes { QUEUED_MAX } else { 0 };
        self.changes = changes;
        (self.samples, self.least) = (0, None);
    }
}

fn is_taken(cost: Cost, before: Cost, is_up: bool) -> bool {
    is_below(cost, before, if is_up { NO_WORSE } else { BETTER })
}

/// Returns whether `cost` is below the given share of another cost.
fn is_below(
    (time, changes): Cost,
    (time_before, changes_before): Cost,
    part: (u128, u128),
) -> bool {
    time * changes_before * part.1 < time_before * changes * part.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_testkit::each_seed;

    /// Returns the final size and the largest tried, for a store where a batch of `n` changes takes
    /// `cost(n)` nanoseconds.
    fn settled(bounds: Bounds, cost: impl Fn(usize) -> u64) -> (usize, usize) {
        let mut size = BatchSize::new(bounds);
        let mut largest = 0;
        for _ in 0..60 {
            size.took(size.changes(), Duration::from_nanos(cost(size.changes())));
            largest = largest.max(size.changes());
        }
        (size.changes(), largest)
    }

    fn n(changes: usize) -> u64 {
        u64::try_from(changes).unwrap()
    }

    #[test]
    fn size_grows_while_a_change_costs_no_more() {
        // 100 us per batch and 1 us per change: grows to the bound, or until a batch takes 200 ms.
        let (size, _) = settled(Bounds::default(), |changes| 100_000 + 1_000 * n(changes));
        assert_eq!(size, 65_536);
        let (size, _) = settled(Bounds::default(), |changes| 100_000 + 30_000 * n(changes));
        assert!((2_048..=4_096).contains(&size), "{size}");
    }

    #[test]
    fn few_changes_take_two_batches_unless_the_store_is_slow() {
        let second = |all, first| {
            let mut size = BatchSize::new(Bounds::default()).of_all(all);
            size.took(size.changes(), Duration::from_micros(first));
            size.changes()
        };
        assert_eq!(second(10_000, 256), 10_000);
        // At 10 ms for 256 changes, 10,000 would take 390 ms: too long for one batch.
        assert_eq!(second(10_000, 10_000), 1_024);
        assert_eq!((second(300, 256), second(100_000, 256)), (1_024, 1_024));
    }

    #[test]
    fn size_stays_small_where_large_batches_cost_more() {
        let (size, largest) =
            settled(Bounds::default(), |changes| 1_000 * n(changes) + n(changes) * n(changes));
        assert!(size <= 4096 && largest <= 8192, "{size}, {largest}");
    }

    #[test]
    fn batch_that_takes_too_long_halves_the_size() {
        let mut size = BatchSize::new(Bounds::default());
        size.took(256, Duration::from_millis(201));
        assert_eq!(size.changes(), 128);
        assert!(size.is_full(128, 0) && size.is_full(1, 32 << 20) && !size.is_full(127, 9));
    }

    #[test]
    fn batches_that_were_queued_do_not_halve_the_size_again() {
        let mut size = BatchSize::new(Bounds::default());
        (0..100).for_each(|_| size.took(size.changes(), Duration::from_millis(1)));
        (0..3).for_each(|_| size.took(65_536, Duration::from_millis(201)));
        assert_eq!(size.changes(), 32_768);
    }

    /// Returns the smallest and the largest size after the first `growth` of a million changes, in
    /// a store where a change costs `cost(changes before it)` nanoseconds in a batch of any size.
    /// Two batches are queued.
    fn sizes_after(growth: usize, cost: impl Fn(usize) -> u64) -> (usize, usize) {
        let mut size = BatchSize::new(Bounds::default());
        let mut queue = std::collections::VecDeque::from([256, 256]);
        let (mut before, mut sizes) = (0, (usize::MAX, 0));
        while before < 1_000_000 {
            queue.push_back(size.changes());
            let changes = queue.pop_front().unwrap();
            size.took(changes, Duration::from_nanos(cost(before) * n(changes)));
            before += changes;
            if before > growth {
                sizes = (sizes.0.min(size.changes()), sizes.1.max(size.changes()));
            }
        }
        sizes
    }

    #[test]
    fn size_grows_while_the_store_becomes_slower_by_itself() {
        // Like a skip list: a change takes 1 us at first, and 2.5 us after 500,000 changes.
        let (_, largest) =
            sizes_after(250_000, |before| 1_000 + n(before.min(500_000)) * 3 / 1_000);
        assert_eq!(largest, 65_536);
        // Like a store that moves its rows to a file from time to time. The size never falls below
        // a quarter.
        let (smallest, _) = sizes_after(250_000, |before| 1_000 + n(before % 300_000) / 200);
        assert!(smallest >= 16_384, "{smallest}");
    }

    #[test]
    fn equal_bounds_fix_the_size() {
        let bounds = Bounds { changes_min: 100, changes_max: 100, ..Bounds::default() };
        assert_eq!(settled(bounds, |_| 1_000), (100, 100));
    }

    #[test]
    fn size_shrinks_when_large_batches_become_slower() {
        let mut size = BatchSize::new(Bounds::default());
        (0..100).for_each(|_| size.took(size.changes(), Duration::from_millis(1)));
        let large = size.changes();
        let squared = |changes: usize| Duration::from_nanos(n(changes) * n(changes) / 10);
        (0..1000).for_each(|_| size.took(size.changes(), squared(size.changes())));
        assert!(size.changes() < large, "{} of {large}", size.changes());
    }

    #[test]
    fn size_never_leaves_its_bounds() {
        each_seed(256, |dice| {
            let (min, max) = (1 + dice.index(999), 1 + dice.index(99_999));
            let bounds = Bounds { changes_min: min, changes_max: max, ..Bounds::default() };
            let mut size = BatchSize::new(bounds);
            for _ in 0..dice.below(200) {
                assert!(size.changes() >= min && size.changes() <= max.max(min));
                size.took(size.changes(), Duration::from_nanos(dice.below(200_000_000)));
            }
        });
    }
}
