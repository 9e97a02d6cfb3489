//! Adaptive commit delay: how long the leader waits for more committers to join its batch, and
//! whether a waiter spins instead of sleeping. Pure: the caller passes in threads and time.
//!
//! Committers whose batch completed are about to append again. If the next batch leaves without
//! them, half of all threads share each write; if it waits the few microseconds until they arrive,
//! all of them do. A thread that commits alone never waits.

use std::time::Duration;

/// After n fruitless waits in a row, the delay is skipped for 2^n - 1 batches; n is capped here.
const BACKOFF_EXPONENT_MAX: u32 = 6;
/// Waking a thread takes about 40 us, which does not matter next to writes slower than this.
const SPIN_LATENCY_MAX: Duration = Duration::from_micros(500);

/// Waiters of recent batches, and the backoff after fruitless waits.
#[derive(Debug, Default)]
pub(crate) struct CommitDelay {
    /// Waiters for the open batch.
    waiters: u32,
    /// Waiters for the batch in flight, or for the last one.
    previous_waiters: u32,
    /// Waiters for both, when the last batch completed.
    expected_waiters: u32,
    /// How long the last batch took.
    latency: Duration,
    /// Consecutive waits during which no committer arrived.
    fruitless_waits: u32,
    /// Batches that leave without a delay.
    batches_to_skip: u32,
}

/// Bounds of one commit delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelayLimit {
    /// The wait ends when this many threads wait for the open batch.
    pub(crate) target_waiters: u32,
    /// Waiting longer costs more than sharing the write saves.
    pub(crate) max_wait: Duration,
}

impl CommitDelay {
    /// Counts a waiter for the open batch; returns their number.
    pub(crate) fn add_waiter(&mut self) -> u32 {
        self.waiters += 1;
        self.waiters
    }

    /// Notes that the leader took the open batch.
    pub(crate) fn batch_taken(&mut self) {
        self.previous_waiters = std::mem::take(&mut self.waiters);
    }

    /// Notes that the batch in flight completed after `latency`.
    pub(crate) fn batch_completed(&mut self, latency: Duration) {
        self.expected_waiters = self.previous_waiters + self.waiters;
        self.latency = latency;
    }

    /// How long the leader should wait before it takes the open batch, if at all.
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

    /// Notes the end of a wait that began with `before` waiters.
    pub(crate) fn wait_finished(&mut self, before: u32) {
        if self.waiters > before {
            self.fruitless_waits = 0;
        } else {
            self.fruitless_waits = (self.fruitless_waits + 1).min(BACKOFF_EXPONENT_MAX);
            self.batches_to_skip = (1 << self.fruitless_waits) - 1;
        }
    }

    /// How long a waiter should spin before it sleeps, if at all: only with two committers and a
    /// processor for each.
    pub(crate) fn spin_limit(&self, cpu_count: usize) -> Option<Duration> {
        let is_worth_it =
            self.latency <= SPIN_LATENCY_MAX && self.expected_waiters == 2 && cpu_count >= 2;
        is_worth_it.then(|| self.latency * 2)
    }

    /// The number of waiters for the open batch.
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
