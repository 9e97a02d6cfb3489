//! Time is an argument: the log never reads the system clock directly.

use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The source of time for the log.
pub trait Clock: Debug + Send + Sync {
    /// Time since a fixed moment; it never goes back.
    fn now(&self) -> Duration;

    /// Microseconds since 1970 by the wall clock. They are for people to read; only the retention
    /// by age depends on them.
    fn wall_us(&self) -> u64;

    /// Returns after `time` has passed.
    fn sleep(&self, time: Duration);
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts at zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the rule points here")]
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
    #[expect(clippy::disallowed_methods, reason = "the rule points here")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the rule points here")]
    fn wall_us(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when the program moves it, for tests and simulation.
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
    /// A clock at zero whose wall clock shows the start of 1970.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves both clocks forward by `time`.
    ///
    /// # Panics
    ///
    /// If the sum does not fit into a [`Duration`].
    pub fn advance(&self, time: Duration) {
        let mut times = self.times();
        times.now += time;
        times.wall += time;
    }

    /// Sets the wall clock, possibly back.
    pub fn set_wall_us(&self, microseconds: u64) {
        self.times().wall = Duration::from_micros(microseconds);
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    /// Moves this clock forward by `time`, and pauses for a moment of real time.
    #[expect(
        clippy::disallowed_methods,
        reason = "a polling thread must not keep a processor busy"
    )]
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
    fn monotonic_time_never_goes_back() {
        let clock = SystemClock::new();
        let before = clock.now();
        assert!(clock.now() >= before);
        assert!(clock.wall_us() > 1_600_000_000_000_000);
    }

    #[test]
    fn setting_the_wall_clock_back_does_not_change_the_monotonic_time() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(5));
        clock.set_wall_us(3);
        assert_eq!((clock.now(), clock.wall_us()), (Duration::from_secs(5), 3));
    }
}
