//! The order in which writes in flight are acknowledged, as a pure state machine: oldest first.
//! After a failure no write is acknowledged. Once all have returned, their batches are written
//! again, including those before the failed one: a device that fails to flush its cache may lose
//! what other writes left there.

pub(crate) mod chain_value;
pub(crate) mod landing_turn;
pub(crate) mod write_slots;

use std::collections::VecDeque;

/// Number of batches that are completed ahead while the maximum number is being written.
pub(crate) const AHEAD: u8 = 1;

/// The writes in flight, each with the result that its thread leaves when it returns.
#[derive(Debug)]
pub(crate) struct WritesInFlight<W> {
    /// The number of the oldest, counted by this process.
    oldest: u64,
    /// Oldest first; `None` for a write that has not returned.
    writes: VecDeque<Option<Returned<W>>>,
    /// Number of writes that have neither returned nor been abandoned.
    on_their_way: usize,
}

/// A write that has returned.
#[derive(Debug)]
struct Returned<W> {
    write: W,
    is_durable: bool,
}

/// What to do with the writer next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Landing<W> {
    /// Acknowledge the oldest write.
    Acknowledge(W),
    /// A write failed and all have returned: write the batches of all of them again.
    FailOver(Vec<W>),
}

impl<W> Default for WritesInFlight<W> {
    fn default() -> Self {
        Self { oldest: 0, writes: VecDeque::new(), on_their_way: 0 }
    }
}

impl<W> WritesInFlight<W> {
    /// Adds a write. Returns its number.
    pub(crate) fn launch(&mut self) -> u64 {
        self.writes.push_back(None);
        self.on_their_way += 1;
        self.oldest + u64::try_from(self.writes.len() - 1).expect("fits in 64 bits")
    }

    /// Notes that the write with this number has returned.
    pub(crate) fn returned(&mut self, number: u64, write: W, is_durable: bool) {
        let index = usize::try_from(number - self.oldest).expect("few writes are in flight");
        let place = self.writes.get_mut(index).expect("a write returns once");
        *place = Some(Returned { write, is_durable });
        self.on_their_way -= 1;
    }

    /// Notes that a write never returns: its thread has panicked, or had nothing to write. It is
    /// never acknowledged.
    pub(crate) fn abandoned(&mut self) {
        self.on_their_way -= 1;
    }

    /// Takes what to do next, if anything.
    pub(crate) fn next_landing(&mut self) -> Option<Landing<W>> {
        if !self.can_land() {
            return None;
        }
        if self.may_launch() {
            let oldest = self.writes.pop_front().flatten()?;
            self.oldest += 1;
            return Some(Landing::Acknowledge(oldest.write));
        }
        self.oldest += u64::try_from(self.writes.len()).expect("fits in 64 bits");
        let writes = self.writes.drain(..).flatten().map(|returned| returned.write).collect();
        Some(Landing::FailOver(writes))
    }

    /// Whether there is something to do next.
    pub(crate) fn can_land(&self) -> bool {
        let Some(Some(_)) = self.writes.front() else { return false };
        self.may_launch() || self.writes.iter().all(Option::is_some)
    }

    /// Whether another write may begin: none has failed.
    pub(crate) fn may_launch(&self) -> bool {
        self.writes.iter().flatten().all(|returned| returned.is_durable)
    }

    /// Whether every write has been acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether a thread is writing.
    pub(crate) fn is_writing(&self) -> bool {
        self.on_their_way > 0
    }
}

#[cfg(test)]
mod tests {
    use super::Landing::{Acknowledge, FailOver};
    use super::*;

    #[test]
    fn writes_are_acknowledged_in_order() {
        let mut writes = WritesInFlight::default();
        let [a, b, c] = [writes.launch(), writes.launch(), writes.launch()];
        writes.returned(c, "c", true);
        writes.returned(b, "b", true);
        assert_eq!((writes.next_landing(), writes.can_land()), (None, false), "a is on its way");
        writes.returned(a, "a", true);
        assert!(writes.can_land() && !writes.is_writing() && !writes.is_empty());
        let landings = [writes.next_landing(), writes.next_landing(), writes.next_landing()];
        assert_eq!(landings, ["a", "b", "c"].map(|write| Some(Acknowledge(write))));
        assert_eq!((writes.next_landing(), writes.is_empty()), (None, true));
        assert_eq!(writes.launch(), c + 1);
    }

    #[test]
    fn after_a_failure_all_return_before_their_batches_are_written_again() {
        let mut writes = WritesInFlight::default();
        let [a, b, c] = [writes.launch(), writes.launch(), writes.launch()];
        writes.returned(b, "b", false);
        assert!(!writes.may_launch() && !writes.can_land());
        writes.returned(a, "a", true);
        assert_eq!((writes.next_landing(), writes.can_land()), (None, false), "c may still write");
        writes.returned(c, "c", true);
        assert!(writes.can_land());
        assert_eq!(writes.next_landing(), Some(FailOver(vec!["a", "b", "c"])));
        assert!(writes.is_empty() && writes.may_launch());
        assert_eq!(writes.launch(), c + 1);
    }

    #[test]
    fn write_whose_thread_panicked_is_never_acknowledged() {
        let mut writes = WritesInFlight::default();
        let [_, b] = [writes.launch(), writes.launch()];
        writes.returned(b, "b", true);
        writes.abandoned();
        assert_eq!((writes.next_landing(), writes.is_writing()), (None, false));
    }
}
