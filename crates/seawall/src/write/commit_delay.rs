//! Whether who leads a batch waits a moment for others who commit at the same time, and whether who
//! waits for it stays awake. Pure: threads and time are told to it.
//!
//! Those whose batch came back are about to append again. If the next batch leaves without them,
//! half of all threads share each flight to the device; if it waits until they have come, which
//! takes them microseconds, all of them do. A thread that commits alone never waits.

use std::time::Duration;

/// Who waits in vain so often in a row waits less and less: not at all for up to 2 to the power of
/// this many batches.
const IN_VAIN_MAX: u32 = 6;
/// It takes some 40 us to wake a thread: next to flights that take longer than this it is nothing.
const WATCHED_MAX: Duration = Duration::from_micros(500);

/// The threads that stand by batches of one log.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// By the open batch.
    standing: u32,
    /// By the one under way, or the last one that was.
    stood: u32,
    /// By either, when the last one came back.
    crowd: u32,
    /// How long that took.
    flight: Duration,
    /// How many waits in a row brought nobody.
    in_vain: u32,
    /// How many batches leave without a wait.
    skipped: u32,
}

/// How long to wait, if others keep coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Until so many threads stand by the open batch.
    pub(crate) until: u32,
    /// Longer than this costs more than it brings.
    pub(crate) at_most: Duration,
}

impl Siblings {
    /// A thread stands by the open batch; how many do.
    pub(crate) fn join(&mut self) -> u32 {
        self.standing += 1;
        self.standing
    }

    /// The open batch leaves.
    pub(crate) fn leave(&mut self) {
        self.stood = std::mem::take(&mut self.standing);
    }

    /// It came back after so long.
    pub(crate) fn come_back(&mut self, flight: Duration) {
        self.crowd = self.stood + self.standing;
        self.flight = flight;
    }

    /// How long who leads the open batch should wait, if at all.
    pub(crate) fn patience(&mut self) -> Option<Patience> {
        if self.standing >= self.crowd {
            return None;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return None;
        }
        Some(Patience { until: self.crowd, at_most: self.flight / 2 })
    }

    /// That wait is over; `before` it so many stood by the open batch.
    pub(crate) fn waited(&mut self, before: u32) {
        if self.standing > before {
            self.in_vain = 0;
        } else {
            self.in_vain = (self.in_vain + 1).min(IN_VAIN_MAX);
            self.skipped = (1 << self.in_vain) - 1;
        }
    }

    /// How long one who stands by a batch should stay awake until it comes back, if at all: only
    /// where two commit, and there is a processor for each.
    pub(crate) fn watch(&self, processors: usize) -> Option<Duration> {
        let is_worth_it = self.flight <= WATCHED_MAX && self.crowd == 2 && processors >= 2;
        is_worth_it.then(|| self.flight * 2)
    }

    /// How many stand by the open batch.
    pub(crate) fn standing(&self) -> u32 {
        self.standing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLIGHT: Duration = Duration::from_micros(100);

    fn join(siblings: &mut Siblings, count: u32) {
        for _ in 0..count {
            siblings.join();
        }
    }

    fn fly(siblings: &mut Siblings) {
        siblings.leave();
        siblings.come_back(FLIGHT);
    }

    #[test]
    fn who_commits_alone_never_waits() {
        let mut siblings = Siblings::default();
        for _ in 0..10 {
            siblings.join();
            assert_eq!(siblings.patience(), None);
            fly(&mut siblings);
        }
    }

    #[test]
    fn the_first_to_come_again_waits_for_the_others() {
        let mut siblings = Siblings::default();
        join(&mut siblings, 3);
        siblings.leave();
        join(&mut siblings, 2);
        siblings.come_back(FLIGHT);
        let patience = Patience { until: 5, at_most: FLIGHT / 2 };
        assert_eq!(siblings.patience(), Some(patience), "three are about to come again");
        join(&mut siblings, 3);
        siblings.waited(2);
        assert_eq!(siblings.patience(), None, "all are there");
        fly(&mut siblings);
        join(&mut siblings, 1);
        assert_eq!(siblings.patience(), Some(patience));
    }

    #[test]
    fn one_of_two_stays_awake_until_a_quick_flight_is_back() {
        let beside = |count, flight| {
            let mut siblings = Siblings::default();
            join(&mut siblings, count);
            siblings.leave();
            siblings.come_back(flight);
            siblings
        };
        assert_eq!(Siblings::default().watch(2), None, "nothing is known yet");
        assert_eq!(beside(2, FLIGHT).watch(2), Some(FLIGHT * 2));
        assert_eq!(beside(2, FLIGHT).watch(1), None, "the leader needs the processor");
        assert_eq!(beside(1, FLIGHT).watch(64), None);
        assert_eq!(beside(3, FLIGHT).watch(64), None, "one processor is enough to take");
        assert_eq!(beside(2, WATCHED_MAX).watch(2), Some(WATCHED_MAX * 2));
        assert_eq!(beside(2, WATCHED_MAX + FLIGHT).watch(2), None, "a slow disk");
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_that_brings_somebody_makes_up_for_them() {
        let mut siblings = Siblings::default();
        let mut waits = vec![];
        for batch in 0..200 {
            join(&mut siblings, 2);
            fly(&mut siblings);
            join(&mut siblings, 1);
            if siblings.patience().is_some() {
                siblings.waited(1);
                waits.push(batch);
            }
            fly(&mut siblings);
        }
        assert_eq!(waits, [0, 2, 6, 14, 30, 62, 126, 190]);
        join(&mut siblings, 2);
        fly(&mut siblings);
        siblings.skipped = 0;
        join(&mut siblings, 1);
        assert!(siblings.patience().is_some());
        siblings.join();
        siblings.waited(1);
        fly(&mut siblings);
        join(&mut siblings, 1);
        assert!(siblings.patience().is_some(), "the next one waits again");
    }
}
