//! Which thread acknowledges the writes that have returned, as a pure state machine.
//!
//! Other threads leave their writes to the one that has the turn, so it runs no user code before
//! its turn ends. While writes return as fast as they are acknowledged, the turn would not end, and
//! tasks would be woken late. So from then on the next thread whose write returns takes the turn.

/// The turn is overdue after this many acknowledgements, counted from the first one with user code.
const LANDINGS_MAX: u8 = 2;

/// The turn of the one thread that acknowledges.
#[derive(Debug, Default)]
pub(crate) struct LandingTurn {
    /// The number of the newest turn, counted by this process.
    number: u64,
    thread: LandingThread,
    /// Number of acknowledgements in this turn since user code is due.
    late: u8,
}

/// What the thread does that has the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LandingThread {
    /// No thread has it.
    #[default]
    None,
    /// It acknowledges.
    Busy,
    /// It waits for the writer, ahead of the next leader.
    WaitsForWriter,
}

impl LandingTurn {
    /// Gives the turn to a thread whose write has returned, if no thread has it or it is overdue.
    /// Returns its number.
    pub(crate) fn take(&mut self) -> Option<u64> {
        if self.thread != LandingThread::None && self.late < LANDINGS_MAX {
            return None;
        }
        *self = Self { number: self.number + 1, thread: LandingThread::Busy, late: 0 };
        Some(self.number)
    }

    /// Whether the thread with this number still has the turn.
    pub(crate) fn is_held(&self, number: u64) -> bool {
        self.number == number
    }

    /// Notes that the thread with this number waits for the writer, or no longer does.
    pub(crate) fn set_waiting(&mut self, number: u64, waits: bool) {
        if self.is_held(number) {
            self.thread = if waits { LandingThread::WaitsForWriter } else { LandingThread::Busy };
        }
    }

    /// Whether the thread that has the turn waits for the writer.
    pub(crate) fn waits_for_writer(&self) -> bool {
        self.thread == LandingThread::WaitsForWriter
    }

    /// Notes an acknowledgement by the thread with this number.
    pub(crate) fn landed(&mut self, number: u64, is_user_code_due: bool) {
        if self.is_held(number) && is_user_code_due {
            self.late = self.late.saturating_add(1);
        }
    }

    /// Ends the turn of the thread with this number, unless another thread has taken it.
    pub(crate) fn end(&mut self, number: u64) {
        if self.is_held(number) {
            (self.thread, self.late) = (LandingThread::None, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_without_user_code_is_kept_to_its_end() {
        let mut turn = LandingTurn::default();
        let first = turn.take().unwrap();
        for _ in 0..1000 {
            turn.landed(first, false);
            assert_eq!(turn.take(), None);
        }
        turn.end(first);
        assert!(turn.take().is_some());
    }

    #[test]
    fn turn_with_user_code_is_taken_over_after_two_landings() {
        let mut turn = LandingTurn::default();
        let first = turn.take().unwrap();
        turn.landed(first, true);
        assert_eq!(turn.take(), None);
        turn.landed(first, true);
        turn.set_waiting(first, true);
        let second = turn.take().unwrap();
        assert!(!turn.is_held(first) && turn.is_held(second) && !turn.waits_for_writer());
        // The first thread has not noticed yet.
        turn.landed(first, true);
        turn.landed(first, true);
        turn.set_waiting(first, true);
        turn.end(first);
        assert!(turn.take().is_none() && turn.is_held(second) && !turn.waits_for_writer());
    }
}
