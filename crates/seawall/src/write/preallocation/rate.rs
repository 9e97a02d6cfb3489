//! How fast the next segment's file is made: unhurried, unless the tail would be full before. Pure:
//! what is written, what is left, and the time are told to it.

use std::time::Duration;

/// Whoever fills the tail so fast that the file would have to grow by more bytes in a microsecond
/// is not to be overtaken: hurry would only keep the device from writing records.
const RATE_MAX: u64 = 512;
/// How long who writes is watched before it is said how fast that is.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// A file that is made while the tail fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreallocationRate {
    /// How long the file is to be, in bytes.
    size: u64,
    /// What was left of the tail when it was begun, in bytes.
    left_at_start: u64,
    /// What was left of it when that was looked at last, and when that was.
    last_sample: (u64, Duration),
    /// Whether it filled too fast up to then.
    cannot_keep_up: bool,
}

impl PreallocationRate {
    /// Of a file of `size` bytes, begun `now`, with `left` bytes left in the tail.
    pub(crate) fn new(size: u64, left: u64, now: Duration) -> Self {
        Self { size, left_at_start: left, last_sample: (left, now), cannot_keep_up: false }
    }

    /// How long the file is to be, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the preparer must not rest: with `written` bytes of the file and `left` bytes of the
    /// tail it is not on its way to be done when three quarters of what was left are used, and can
    /// be.
    ///
    /// If the log went on in another segment meanwhile, it is late, and that one is the measure.
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

    /// How much of the file is due for so many bytes of the tail.
    fn due(&self, used: u64) -> u128 {
        u128::from(self.size) * u128::from(used) / u128::from(self.left_at_start / 4 * 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Duration = Duration::from_secs(7);

    /// Of 2,000 bytes while 800 are used, looked at a second later.
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
        assert!(after(4, 56), "nobody knows yet");
        // 8 MiB in 5 ms are 1,678 bytes in a microsecond, and 2,237 for the file.
        assert!(!after(5, 56));
        assert!(!after(9, 55));
        // 1 MiB in 5 ms, and 280 for the file.
        assert!(after(10, 55));
        assert!(after(14, 20), "as long as nobody has looked");
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
