//! On which processor a lone thread runs while it is measured.
//!
//! A device with one queue has its interrupts taken by one processor, and from there a sync may
//! take three quarters of the time that it takes from another. A thread stays for seconds where the
//! system has put it, so what is measured there would be a matter of luck; and several threads,
//! which run everywhere, would be compared with that.

use std::time::Duration;

/// More stops in one slice tell no more.
const STOPS_MAX: usize = 8;
/// As long as it stays at least.
const STAY_MIN: Duration = Duration::from_millis(10);

/// The calling thread on its way from processor to processor. It is brought to each and let go
/// there, as threads that it starts may run where it may; where it has one for itself it stays.
#[derive(Debug)]
pub(crate) struct Tour {
    anywhere: Vec<usize>,
    /// The processors that it still comes to, the next one last.
    stops: Vec<usize>,
    stay: Duration,
    /// When it goes on.
    leaves: Duration,
}

impl Tour {
    /// Begins at `now` and takes so long in all.
    pub(crate) fn new(now: Duration, time: Duration) -> Self {
        let anywhere = processors();
        let stops = stops(&anywhere, time);
        let count = u32::try_from(stops.len()).expect("there are few");
        let mut tour = Self { anywhere, stops, stay: time / count.max(1), leaves: now };
        tour.go_on(now);
        tour
    }

    /// Goes to the next processor if it is time to; whether it was.
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

/// The calling thread, and those that it starts, on one processor; until this is dropped.
#[derive(Debug)]
pub struct Stay {
    before: Vec<usize>,
}

impl Stay {
    /// Goes there, if it may.
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

/// The numbers of the processors that the calling thread may run on, in order; none where the
/// system does not tell.
#[must_use]
pub fn processors() -> Vec<usize> {
    system::processors()
}

/// Those that a long tour comes to, in order: of a large machine some from each part of it. None if
/// there is only one.
#[must_use]
pub fn stations() -> Vec<usize> {
    let mut stations = stops(&processors(), Duration::MAX);
    stations.reverse();
    stations
}

/// Those of the processors that a tour of that time comes to, from all parts of the machine, the
/// first one last; none if there is only one to come to.
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

    /// Who may not go there stays.
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
    fn a_tour_comes_to_all_parts_of_the_machine_and_to_no_more_than_there_is_time_for() {
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
    fn a_tour_goes_on_in_time_and_leaves_the_thread_free_to_run_anywhere() {
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
