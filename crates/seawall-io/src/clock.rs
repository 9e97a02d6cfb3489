//! Time as an argument: the log never asks the machine directly.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the log takes the time from.
pub trait Clock: Debug + Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// Microseconds since 1970 by the wall clock, for people to read: nothing is decided by it but
    /// which segments a log is told to keep by their age.
    fn wall_us(&self) -> u64;

    /// Returns after that time.
    fn sleep(&self, time: Duration);
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam that the rule points to")]
    fn wall_us(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands still until it is told to move, for tests and simulation.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use seawall_io::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_millis(10));
/// assert_eq!(clock.now(), Duration::from_millis(10));
/// assert_eq!(clock.wall_us(), 10_000);
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    times: Mutex<Times>,
}

#[derive(Debug, Default)]
struct Times {
    now: Duration,
    wall: Duration,
}

impl ManualClock {
    /// A clock that stands at zero, and at 1970.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets time pass on both clocks.
    ///
    /// # Panics
    ///
    /// If that is more than a [`Duration`] can hold.
    pub fn advance(&self, time: Duration) {
        let mut times = self.times();
        times.now += time;
        times.wall += time;
    }

    /// Sets the wall clock, also back, as people do.
    pub fn set_wall_us(&self, microseconds: u64) {
        self.times().wall = Duration::from_micros(microseconds);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    /// Moves this clock on by `time`, and rests for a moment of real time.
    #[expect(clippy::disallowed_methods, reason = "who polls must not keep a processor busy")]
    fn sleep(&self, time: Duration) {
        self.advance(time);
        std::thread::sleep(Duration::from_millis(1));
    }

    fn now(&self) -> Duration {
        self.times().now
    }

    fn wall_us(&self) -> u64 {
        u64::try_from(self.times().wall.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_time_never_goes_back() {
        let clock = SystemClock::new();
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.wall_us() > 1_600_000_000_000_000);
    }

    #[test]
    fn setting_the_wall_clock_back_leaves_the_time() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(5));
        clock.set_wall_us(3);
        assert_eq!((clock.now(), clock.wall_us()), (Duration::from_secs(5), 3));
    }
}
