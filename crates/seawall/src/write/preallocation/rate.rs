//! Pace of preallocation: unhurried, unless the tail would be full first. Where zeros cannot be
//! written as fast as the tail fills, the file is used without them. Pure: the caller passes in
//! progress and time.

use std::time::Duration;

/// Fastest useful rate, in bytes per microsecond. If the tail fills so fast that the file would
/// have to grow faster, zeros would compete with commits: without them a stream is no slower, and
/// the device writes half as much (ADR 8).
const RATE_MAX: u64 = 256;
/// How long the fill rate of the tail is measured.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(5);

/// What to do with a file that is being filled with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Write the next zeros after a pause.
    Unhurried,
    /// Write them at once: otherwise the tail is full first.
    Hurried,
    /// Write nothing for now: the tail fills so fast that zeros would only compete with commits.
    Waiting,
    /// Use the file as it is, since the tail is nearly full: allocated, only partly zeros on disk.
    Done,
}

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

    /// The same file, until the first sample under the assumption that the tail still fills as it
    /// did when the file before was made.
    pub(crate) fn following(self, before: &Self) -> Self {
        Self { cannot_keep_up: before.cannot_keep_up, ..self }
    }

    /// Decides at `now`, with `written` bytes of the file and `left` bytes of the tail. The file is
    /// due when three quarters of the space are used.
    ///
    /// If the log has rotated meanwhile, the file is late and the new tail is the measure.
    pub(crate) fn pace(&mut self, written: u64, left: u64, now: Duration) -> Pace {
        let (before, then) = self.last_sample;
        let elapsed = now.saturating_sub(then);
        if elapsed >= SAMPLE_INTERVAL {
            let possible = elapsed.as_micros() * u128::from(RATE_MAX);
            self.cannot_keep_up = self.due(before.saturating_sub(left)) > possible;
            self.last_sample = (left, now);
        }
        let due = self.due(self.left_at_start.saturating_sub(left));
        let has_rotated = left > self.left_at_start;
        if self.cannot_keep_up {
            let is_due = has_rotated || due >= u128::from(self.size);
            if is_due { Pace::Done } else { Pace::Waiting }
        } else if u128::from(written) < due {
            Pace::Hurried
        } else {
            Pace::Unhurried
        }
    }

    /// Bytes of the file that are due once `used` bytes of the tail were written.
    fn due(&self, used: u64) -> u128 {
        u128::from(self.size) * u128::from(used) / u128::from(self.left_at_start / 4 * 3).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace::{Done, Hurried, Unhurried, Waiting};
    use super::*;

    const BEGAN: Duration = Duration::from_secs(7);
    const MIB: u64 = 1 << 20;

    /// The pace for a file of 2,000 bytes, started with 800 bytes left in the tail, after 1 s.
    fn pace(written: u64, left: u64) -> Pace {
        PreallocationRate::new(2000, 800, BEGAN).pace(written, left, BEGAN + Duration::from_secs(1))
    }

    /// A file of 64 MiB, started with 64 MiB left in the tail, and a function that returns its pace
    /// for the milliseconds since then and the MiB left now.
    fn stream() -> (PreallocationRate, impl Fn(&mut PreallocationRate, u64, u64) -> Pace) {
        let rate = PreallocationRate::new(64 * MIB, 64 * MIB, BEGAN);
        (rate, |rate, ms, left| rate.pace(0, left * MIB, BEGAN + Duration::from_millis(ms)))
    }

    #[test]
    fn idle_tail_never_puts_the_file_behind_schedule() {
        for written in [0, 1, 1000, 1999] {
            assert_eq!(pace(written, 800), Unhurried, "{written}");
        }
    }

    #[test]
    fn a_file_is_done_when_three_quarters_of_what_was_left_are_used() {
        for (left, written) in [(700, 333), (500, 1000), (201, 1996), (200, 2000)] {
            assert_eq!(pace(written - 1, left), Hurried, "{left}");
            assert_eq!(pace(written, left), Unhurried, "{left}");
        }
    }

    #[test]
    fn late_file_is_measured_by_the_next_tail() {
        let mut rate = PreallocationRate::new(2000, 800, BEGAN);
        let paces = [(100, Hurried), (4000, Unhurried), (801, Unhurried), (100, Hurried)];
        for (left, expected) in paces {
            assert_eq!(rate.pace(500, left, BEGAN), expected, "{left}");
        }
    }

    #[test]
    fn stream_that_fills_the_tail_too_fast_is_not_raced_until_it_slows_down() {
        let (mut rate, after) = stream();
        assert_eq!(after(&mut rate, 4, 56), Hurried, "not sampled yet");
        // The tail takes 1,678 bytes per microsecond (8 MiB in 5 ms); the file would need 2,237.
        assert_eq!(after(&mut rate, 5, 56), Waiting);
        assert_eq!(after(&mut rate, 9, 55), Waiting);
        // The tail takes 1 MiB in 10 ms; the file needs 140 bytes per microsecond.
        assert_eq!(after(&mut rate, 15, 55), Hurried);
        assert_eq!(after(&mut rate, 19, 20), Hurried, "the last sample still counts");
        assert_eq!(after(&mut rate, 20, 20), Waiting);
        assert_eq!(after(&mut rate, 1000, 20), Hurried);
    }

    #[test]
    fn file_that_cannot_keep_up_is_used_as_it_is_before_the_tail_is_full() {
        let (mut rate, after) = stream();
        assert_eq!(after(&mut rate, 5, 56), Waiting);
        assert_eq!(after(&mut rate, 24, 17), Waiting);
        assert_eq!(after(&mut rate, 25, 16), Done);
        // The log has rotated without it: it is needed at once.
        let (mut rate, after) = stream();
        assert_eq!((after(&mut rate, 5, 56), after(&mut rate, 6, 65)), (Waiting, Done));
        // A stream that ended fills no tail: its file gets its zeros.
        let (mut rate, after) = stream();
        assert_eq!((after(&mut rate, 5, 56), after(&mut rate, 10, 56)), (Waiting, Hurried));
    }

    #[test]
    fn next_file_expects_the_stream_to_continue() {
        let (mut before, after) = stream();
        assert_eq!(after(&mut before, 5, 56), Waiting);
        let (rate, _) = stream();
        let mut rate = rate.following(&before);
        assert_eq!(after(&mut rate, 4, 60), Waiting);
        assert_eq!(after(&mut rate, 10, 63), Hurried, "it does not");
    }

    #[test]
    fn largest_sizes_and_a_clock_that_goes_back_do_not_overflow() {
        let mut rate = PreallocationRate::new(u64::MAX, u64::MAX, BEGAN);
        assert_eq!(rate.pace(u64::MAX, 0, Duration::ZERO), Hurried);
        assert_eq!(rate.pace(u64::MAX / 3, u64::MAX / 2, Duration::ZERO), Hurried);
        assert_eq!(rate.pace(0, 0, Duration::MAX), Hurried);
        assert_eq!(PreallocationRate::new(0, 0, BEGAN).pace(0, 0, Duration::MAX), Unhurried);
    }
}
