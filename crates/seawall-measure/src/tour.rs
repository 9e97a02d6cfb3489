//! Moves a single measured thread over the processors.
//!
//! A device with one queue sends its interrupts to one processor, and a sync from there can take
//! three quarters of the time of a sync from another one. The system leaves a thread on a processor
//! for seconds, so a measurement without moving it would depend on chance, and would not be
//! comparable with several threads, which run on all processors.

use std::time::Duration;

/// The maximum number of processors per slice. More do not improve the result.
const STOPS_MAX: usize = 8;
/// The minimum time on each processor.
const STAY_MIN: Duration = Duration::from_millis(10);

/// Moves the calling thread from processor to processor. After each move, the affinity of the
/// thread is restored, so that threads that it starts may run anywhere. The thread itself usually
/// stays where it was moved to.
#[derive(Debug)]
pub(crate) struct Tour {
    anywhere: Vec<usize>,
    /// The remaining processors, the next one last.
    stops: Vec<usize>,
    stay: Duration,
    /// The time of the next move.
    leaves: Duration,
}

impl Tour {
    /// Starts a tour at `now` that takes `time` in total.
    pub(crate) fn new(now: Duration, time: Duration) -> Self {
        let anywhere = processors();
        let stops = stops(&anywhere, time);
        let count = u32::try_from(stops.len()).expect("the number of stops is small");
        let mut tour = Self { anywhere, stops, stay: time / count.max(1), leaves: now };
        tour.go_on(now);
        tour
    }

    /// Moves to the next processor if it is time; returns whether it moved.
    pub(crate) fn go_on(&mut self, now: Duration) -> bool {
        if now < self.leaves {
            return false;
        }
        let Some(stop) = self.stops.pop() else { return false };
        self.leaves += self.stay;
        system::run_on(&[stop]);
        system::run_on(&self.anywhere);
        true
    }
}

/// Keeps the calling thread, and threads that it starts, on one processor until dropped.
#[derive(Debug)]
pub struct Stay {
    before: Vec<usize>,
}

impl Stay {
    /// Moves to `processor`, if allowed.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_measure::tour::{Stay, processors};
    ///
    /// let here = processors();
    /// if let Some(last) = here.last() {
    ///     let stay = Stay::on(*last);
    ///     assert_eq!(processors(), [*last]);
    ///     drop(stay);
    /// }
    /// assert_eq!(processors(), here);
    /// ```
    #[must_use]
    pub fn on(processor: usize) -> Self {
        let before = processors();
        system::run_on(&[processor]);
        Self { before }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        system::run_on(&self.before);
    }
}

/// The numbers of the processors that the calling thread may use, in order; empty if unknown.
#[must_use]
pub fn processors() -> Vec<usize> {
    system::processors()
}

/// The processors that a long tour visits, in order, spread over a large machine. Empty if there is
/// only one.
#[must_use]
pub fn stations() -> Vec<usize> {
    let mut stations = stops(&processors(), Duration::MAX);
    stations.reverse();
    stations
}

/// Returns the processors that a tour of this length visits, spread over the machine, in reverse
/// order; empty if there is only one.
fn stops(here: &[usize], time: Duration) -> Vec<usize> {
    let fit = usize::try_from(time.as_millis() / STAY_MIN.as_millis()).unwrap_or(STOPS_MAX);
    let count = here.len().min(STOPS_MAX).min(fit);
    if count < 2 {
        return vec![];
    }
    (0..count).rev().filter_map(|stop| here.get(stop * here.len() / count).copied()).collect()
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn processors() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return vec![] };
        (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect()
    }

    /// Restricts this thread to `processors`; does nothing if the thread may not run there.
    pub(super) fn run_on(processors: &[usize]) {
        let mut set = CpuSet::new();
        for number in processors {
            set.set(*number);
        }
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn processors() -> Vec<usize> {
        vec![]
    }

    pub(super) fn run_on(_: &[usize]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(150);

    #[test]
    fn tour_visits_every_processor_that_there_is_time_for() {
        for (here, time, expected) in [
            (0..0, SLICE, vec![]),
            (3..4, SLICE, vec![]),
            (3..5, SLICE, vec![4, 3]),
            (3..5, STAY_MIN, vec![]),
            (0..64, SLICE, vec![56, 48, 40, 32, 24, 16, 8, 0]),
            (0..64, 3 * STAY_MIN, vec![42, 21, 0]),
        ] {
            assert_eq!(stops(&here.collect::<Vec<_>>(), time), expected);
        }
    }

    #[test]
    fn tour_moves_on_in_time_and_resets_the_affinity() {
        let before = processors();
        let mut tour = Tour::new(Duration::ZERO, SLICE);
        let mut left = vec![];
        for at in 1..=150 {
            if tour.go_on(Duration::from_millis(at)) {
                left.push(at);
                assert_eq!(processors(), before);
            }
        }
        let count = u64::try_from(stations().len()).unwrap().max(1);
        let expected: Vec<_> = (1..count).map(|stop| (150 * stop).div_ceil(count)).collect();
        assert_eq!(left, expected);
        assert!(tour.stops.is_empty());
    }
}
