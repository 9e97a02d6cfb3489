//! Pace of preallocation: unhurried, unless the tail would be full first. Pure: the caller passes
//! in progress and time.

use std::time::Duration;

/// Fastest useful rate, in bytes per microsecond. If the tail fills so fast that the file would
/// have to grow faster, preallocation cannot keep up; trying would only compete with commits.
const RATE_MAX: u64 = 512;
/// How long the fill rate of the tail is measured.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// Progress of one file that is created while the tail fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreallocationRate {
    /// Final size of the file, in bytes.
    size: u64,
    /// Bytes left in the tail when the file was started.
    left_at_start: u64,
    /// Bytes left in the tail at the last sample, and the time of that sample.
    last_sample: (u64, Duration),
    /// Whether the tail filled too fast before the last sample.
    cannot_keep_up: bool,
}

impl PreallocationRate {
    /// A file of `size` bytes, started `now`, with `left` bytes left in the tail.
    pub(crate) fn new(size: u64, left: u64, now: Duration) -> Self {
        Self { size, left_at_start: left, last_sample: (left, now), cannot_keep_up: false }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the preallocator must skip its pause: with `written` bytes of the file and `left`
    /// bytes of the tail, the file will not be done when three quarters of the space are used, but
    /// still can be.
    ///
    /// If the log has rotated meanwhile, the file is late and the new tail is the measure.
    pub(crate) fn is_behind_schedule(&mut self, written: u64, left: u64, now: Duration) -> bool {
        let (before, then) = self.last_sample;
        let elapsed = now.saturating_sub(then);
        if elapsed >= SAMPLE_INTERVAL {
            let possible = elapsed.as_micros() * u128::from(RATE_MAX);
            self.cannot_keep_up = self.due(before.saturating_sub(left)) > possible;
            self.last_sample = (left, now);
        }
        !self.cannot_keep_up
            && u128::from(written) < self.due(self.left_at_start.saturating_sub(left))
    }

    /// Bytes of the file that are due once `used` bytes of the tail were written.
    fn due(&self, used: u64) -> u128 {
        u128::from(self.size) * u128::from(used) / u128::from(self.left_at_start / 4 * 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(7);

    /// Whether a file of 2,000 bytes, started with 800 bytes left in the tail, is late after 1 s.
    fn is_behind_schedule(written: u64, left: u64) -> bool {
        PreallocationRate::new(2000, 800, BEGAN).is_behind_schedule(
            written,
            left,
            BEGAN + Duration::from_secs(1),
        )
    }

    #[test]
    fn idle_tail_never_puts_the_file_behind_schedule() {
        for written in [0, 1, 1000, 1999] {
            assert!(!is_behind_schedule(written, 800), "{written}");
        }
    }

    #[test]
    fn a_file_is_done_when_three_quarters_of_what_was_left_are_used() {
        for (left, written) in [(700, 333), (500, 1000), (201, 1996), (200, 2000)] {
            assert!(is_behind_schedule(written - 1, left), "{left}");
            assert!(!is_behind_schedule(written, left), "{left}");
        }
    }

    #[test]
    fn late_file_is_measured_by_the_next_tail() {
        let mut rate = PreallocationRate::new(2000, 800, BEGAN);
        for (left, hurries) in [(100, true), (4000, false), (801, false), (100, true)] {
            assert_eq!(rate.is_behind_schedule(500, left, BEGAN), hurries, "{left}");
        }
    }

    #[test]
    fn stream_that_fills_the_tail_too_fast_is_not_raced_until_it_slows_down() {
        const MIB: u64 = 1 << 20;
        let mut rate = PreallocationRate::new(64 * MIB, 64 * MIB, BEGAN);
        let mut after =
            |ms, left| rate.is_behind_schedule(0, left * MIB, BEGAN + Duration::from_millis(ms));
        assert!(after(4, 56), "not sampled yet");
        // The tail takes 1,678 bytes per microsecond (8 MiB in 5 ms); the file would need 2,237.
        assert!(!after(5, 56));
        assert!(!after(9, 55));
        // The tail takes 1 MiB in 5 ms; the file needs 280 bytes per microsecond.
        assert!(after(10, 55));
        assert!(after(14, 20), "the last sample still counts");
        assert!(!after(15, 20));
        assert!(after(1000, 20));
    }

    #[test]
    fn largest_sizes_and_a_clock_that_goes_back_do_not_overflow() {
        let mut rate = PreallocationRate::new(u64::MAX, u64::MAX, BEGAN);
        assert!(rate.is_behind_schedule(u64::MAX, 0, Duration::ZERO));
        assert!(rate.is_behind_schedule(u64::MAX / 3, u64::MAX / 2, Duration::ZERO));
        assert!(rate.is_behind_schedule(0, 0, Duration::MAX));
        assert!(!PreallocationRate::new(0, 0, BEGAN).is_behind_schedule(0, 0, Duration::MAX));
    }
}
