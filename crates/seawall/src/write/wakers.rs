//! Wakers of tasks that await records, ordered by record so that completed ones are found directly.

use crate::write::group_commit::Position;
use seawall_format::Lsn;
use std::collections::BTreeMap;
use std::task::Waker;

/// Wakers by batch, record and ticket: one per ticket. Clones of a ticket are tickets of their own,
/// since other tasks may await them.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    known: BTreeMap<(u64, Lsn, u64), Waker>,
    /// Number of tickets seen, to number the next one.
    tickets: u64,
}

impl Wakers {
    /// Registers a waker for the record at `position` and numbers the ticket. Returns the waker
    /// that the same ticket registered before.
    pub(crate) fn add(
        &mut self,
        position: Position,
        ticket: &mut Option<u64>,
        waker: Waker,
    ) -> Option<Waker> {
        let number = *ticket.get_or_insert_with(|| {
            self.tickets += 1;
            self.tickets
        });
        self.known.insert((position.batch_seq, position.lsn, number), waker)
    }

    /// Removes the waker of a ticket that is no longer awaited.
    pub(crate) fn remove(&mut self, position: Position, ticket: u64) -> Option<Waker> {
        self.known.remove(&(position.batch_seq, position.lsn, ticket))
    }

    /// Whether `waker` belongs to the task that awaits the newest record.
    pub(crate) fn newest_is(&self, waker: &Waker) -> bool {
        self.known.last_key_value().is_some_and(|(_, newest)| newest.will_wake(waker))
    }

    /// Takes the wakers of all records that `reached` accepts. Records are ordered by when they
    /// were enqueued, so the search ends at the first one that is not.
    pub(crate) fn take(&mut self, reached: impl Fn(Position) -> bool) -> Vec<Waker> {
        let mut taken = vec![];
        while let Some(first) = self.known.first_entry() {
            let (batch_seq, lsn, _) = *first.key();
            if !reached(Position { lsn, batch_seq }) {
                break;
            }
            taken.push(first.remove());
        }
        taken
    }

    /// Takes all wakers.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.known).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    /// Each instance is a different waker.
    struct Bell;

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {}
    }

    fn waker() -> Waker {
        Waker::from(Arc::new(Bell))
    }

    fn position(batch_seq: u64, lsn: u64) -> Position {
        Position { lsn: Lsn::new(lsn).expect("not 0"), batch_seq }
    }

    #[test]
    fn each_ticket_has_one_waker_the_last_registered() {
        let (one, other, later) = (waker(), waker(), waker());
        let mut wakers = Wakers::default();
        let [mut ticket, mut clone, mut second, mut third] = [None; 4];
        assert!(wakers.add(position(0, 1), &mut ticket, one.clone()).is_none());
        assert!(wakers.add(position(0, 1), &mut clone, other.clone()).is_none(), "a clone of it");
        for _ in 0..1000 {
            let replaced = wakers.add(position(0, 1), &mut ticket, waker());
            assert!(replaced.is_some(), "polled once more, each time by another task");
        }
        assert!(wakers.add(position(0, 1), &mut ticket, one.clone()).is_some());
        assert!(wakers.add(position(0, 2), &mut second, one.clone()).is_none(), "another record");
        assert!(wakers.add(position(1, 3), &mut third, later.clone()).is_none());
        assert!(wakers.newest_is(&later) && !wakers.newest_is(&one));
        assert!(wakers.remove(position(0, 2), second.unwrap()).unwrap().will_wake(&one));
        assert!(wakers.remove(position(0, 2), second.unwrap()).is_none());
        let taken = wakers.take(|position| position.batch_seq == 0);
        assert!(matches!(&taken[..], [a, b] if a.will_wake(&one) && b.will_wake(&other)));
        assert!(wakers.take(|position| position.batch_seq == 0).is_empty());
        assert!(wakers.take_all().next().is_some_and(|left| left.will_wake(&later)));
        assert!(wakers.take_all().next().is_none());
    }

    #[test]
    fn lsn_reused_after_a_truncation_is_another_record() {
        let (before, after) = (waker(), waker());
        let mut wakers = Wakers::default();
        wakers.add(position(4, 9), &mut None, before.clone());
        wakers.add(position(5, 3), &mut None, after);
        let taken = wakers.take(|position| position.batch_seq < 5);
        assert!(taken.len() == 1 && taken.iter().all(|taken| taken.will_wake(&before)));
    }
}
