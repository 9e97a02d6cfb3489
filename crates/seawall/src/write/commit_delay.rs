//! Whether who leads a batch waits a moment for others who commit at the same time, and whether who
//! waits for it stays awake. Pure: threads and time are told to it.
//!
//! Those whose batch came back are about to append again. If the next batch leaves without them,
//! half of all threads share each flight to the device; if it waits until they have come, which
//! takes them microseconds, all of them do. A thread that commits alone never waits.

use std::time::Duration;

/// Who waits in vain so often in a row waits less and less: not at all for up to 2 to the power of
/// this many batches.
const BACKOFF_EXPONENT_MAX: u32 = 6;
/// It takes some 40 us to wake a thread: next to flights that take longer than this it is nothing.
const SPIN_LATENCY_MAX: Duration = Duration::from_micros(500);

/// The threads that stand by batches of one log.
#[derive(Debug, Default)]
pub(crate) struct CommitDelay {
    /// By the open batch.
    waiters: u32,
    /// By the one under way, or the last one that was.
    previous_waiters: u32,
    /// By either, when the last one came back.
    expected_waiters: u32,
    /// How long that took.
    latency: Duration,
    /// How many waits in a row brought nobody.
    fruitless_waits: u32,
    /// How many batches leave without a wait.
    batches_to_skip: u32,
}

/// How long to wait, if others keep coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelayLimit {
    /// Until so many threads stand by the open batch.
    pub(crate) target_waiters: u32,
    /// Longer than this costs more than it brings.
    pub(crate) max_wait: Duration,
}

impl CommitDelay {
    /// A thread stands by the open batch; how many do.
    pub(crate) fn add_waiter(&mut self) -> u32 {
        self.waiters += 1;
        self.waiters
    }

    /// The open batch leaves.
    pub(crate) fn batch_taken(&mut self) {
        self.previous_waiters = std::mem::take(&mut self.waiters);
    }

    /// It came back after so long.
    pub(crate) fn batch_completed(&mut self, latency: Duration) {
        self.expected_waiters = self.previous_waiters + self.waiters;
        self.latency = latency;
    }

    /// How long who leads the open batch should wait, if at all.
    pub(crate) fn next_delay(&mut self) -> Option<DelayLimit> {
        if self.waiters >= self.expected_waiters {
            return None;
        }
        if self.batches_to_skip > 0 {
            self.batches_to_skip -= 1;
            return None;
        }
        Some(DelayLimit { target_waiters: self.expected_waiters, max_wait: self.latency / 2 })
    }

    /// That wait is over; `before` it so many stood by the open batch.
    pub(crate) fn wait_finished(&mut self, before: u32) {
        if self.waiters > before {
            self.fruitless_waits = 0;
        } else {
            self.fruitless_waits = (self.fruitless_waits + 1).min(BACKOFF_EXPONENT_MAX);
            self.batches_to_skip = (1 << self.fruitless_waits) - 1;
        }
    }

    /// How long one who stands by a batch should stay awake until it comes back, if at all: only
    /// where two commit, and there is a processor for each.
    pub(crate) fn spin_limit(&self, cpu_count: usize) -> Option<Duration> {
        let is_worth_it =
            self.latency <= SPIN_LATENCY_MAX && self.expected_waiters == 2 && cpu_count >= 2;
        is_worth_it.then(|| self.latency * 2)
    }

    /// How many stand by the open batch.
    pub(crate) fn waiters(&self) -> u32 {
        self.waiters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_micros(100);

    fn add_waiter(commit_delay: &mut CommitDelay, count: u32) {
        for _ in 0..count {
            commit_delay.add_waiter();
        }
    }

    fn complete_batch(commit_delay: &mut CommitDelay) {
        commit_delay.batch_taken();
        commit_delay.batch_completed(LATENCY);
    }

    #[test]
    fn single_committer_never_waits() {
        let mut commit_delay = CommitDelay::default();
        for _ in 0..10 {
            commit_delay.add_waiter();
            assert_eq!(commit_delay.next_delay(), None);
            complete_batch(&mut commit_delay);
        }
    }

    #[test]
    fn first_returning_committer_waits_for_the_others() {
        let mut commit_delay = CommitDelay::default();
        add_waiter(&mut commit_delay, 3);
        commit_delay.batch_taken();
        add_waiter(&mut commit_delay, 2);
        commit_delay.batch_completed(LATENCY);
        let next_delay = DelayLimit { target_waiters: 5, max_wait: LATENCY / 2 };
        assert_eq!(commit_delay.next_delay(), Some(next_delay), "three are about to come again");
        add_waiter(&mut commit_delay, 3);
        commit_delay.wait_finished(2);
        assert_eq!(commit_delay.next_delay(), None, "all are there");
        complete_batch(&mut commit_delay);
        add_waiter(&mut commit_delay, 1);
        assert_eq!(commit_delay.next_delay(), Some(next_delay));
    }

    #[test]
    fn one_of_two_committers_spins_while_writes_are_fast() {
        let beside = |count, latency| {
            let mut commit_delay = CommitDelay::default();
            add_waiter(&mut commit_delay, count);
            commit_delay.batch_taken();
            commit_delay.batch_completed(latency);
            commit_delay
        };
        assert_eq!(CommitDelay::default().spin_limit(2), None, "nothing is known yet");
        assert_eq!(beside(2, LATENCY).spin_limit(2), Some(LATENCY * 2));
        assert_eq!(beside(2, LATENCY).spin_limit(1), None, "the leader needs the processor");
        assert_eq!(beside(1, LATENCY).spin_limit(64), None);
        assert_eq!(beside(3, LATENCY).spin_limit(64), None, "one processor is enough to take");
        assert_eq!(beside(2, SPIN_LATENCY_MAX).spin_limit(2), Some(SPIN_LATENCY_MAX * 2));
        assert_eq!(beside(2, SPIN_LATENCY_MAX + LATENCY).spin_limit(2), None, "a slow disk");
    }

    #[test]
    fn fruitless_waits_become_rare_and_a_fruitful_one_resets_the_backoff() {
        let mut commit_delay = CommitDelay::default();
        let mut waits = vec![];
        for batch in 0..200 {
            add_waiter(&mut commit_delay, 2);
            complete_batch(&mut commit_delay);
            add_waiter(&mut commit_delay, 1);
            if commit_delay.next_delay().is_some() {
                commit_delay.wait_finished(1);
                waits.push(batch);
            }
            complete_batch(&mut commit_delay);
        }
        assert_eq!(waits, [0, 2, 6, 14, 30, 62, 126, 190]);
        add_waiter(&mut commit_delay, 2);
        complete_batch(&mut commit_delay);
        commit_delay.batches_to_skip = 0;
        add_waiter(&mut commit_delay, 1);
        assert!(commit_delay.next_delay().is_some());
        commit_delay.add_waiter();
        commit_delay.wait_finished(1);
        complete_batch(&mut commit_delay);
        add_waiter(&mut commit_delay, 1);
        assert!(commit_delay.next_delay().is_some(), "the next one waits again");
    }
}
