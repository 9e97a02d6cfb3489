//! Those who await records: found by number, without a look at all the others.

use crate::Lsn;
use crate::commit::Place;
use std::collections::BTreeMap;
use std::task::Waker;

/// Wakers by batch and record. A ticket may have clones, awaited by as many tasks: each record has
/// as many wakers as there are different ones, told apart by a number.
#[derive(Debug, Default)]
pub(crate) struct Wakers(BTreeMap<(u64, Lsn, u32), Waker>);

impl Wakers {
    /// Notes who is to be woken for the record at `place`; whether that was not known.
    pub(crate) fn add(&mut self, place: Place, waker: &Waker) -> bool {
        let key = |number| (place.group, place.lsn, number);
        let mut free = 0;
        for known in self.0.range(key(0)..=key(u32::MAX)).map(|(_, known)| known) {
            if known.will_wake(waker) {
                return false;
            }
            free += 1;
        }
        self.0.insert(key(free), waker.clone());
        true
    }

    /// Whether the newest record is awaited by the task that this waker wakes.
    pub(crate) fn newest_is(&self, waker: &Waker) -> bool {
        self.0.last_key_value().is_some_and(|(_, newest)| newest.will_wake(waker))
    }

    /// Those of all places that `reached` says yes to: what was admitted first comes first, so
    /// none lies behind the first no.
    pub(crate) fn take(&mut self, reached: impl Fn(Place) -> bool) -> Vec<Waker> {
        let mut taken = vec![];
        while let Some(first) = self.0.first_entry() {
            let (group, lsn, _) = *first.key();
            if !reached(Place { lsn, group }) {
                break;
            }
            taken.push(first.remove());
        }
        taken
    }

    /// All of them.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    /// Each is another one.
    struct Bell;

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {}
    }

    fn waker() -> Waker {
        Waker::from(Arc::new(Bell))
    }

    fn place(group: u64, lsn: u64) -> Place {
        Place { lsn: Lsn::new(lsn).expect("not 0"), group }
    }

    #[test]
    fn each_task_that_awaits_a_record_is_woken_once() {
        let (one, other, later) = (waker(), waker(), waker());
        let mut wakers = Wakers::default();
        assert!(wakers.add(place(0, 1), &one));
        assert!(wakers.add(place(0, 1), &other), "a clone of the ticket, in another task");
        assert!(!wakers.add(place(0, 1), &other), "polled once more");
        assert!(!wakers.add(place(0, 1), &one));
        assert!(wakers.add(place(0, 2), &one), "another record");
        assert!(wakers.add(place(1, 3), &later));
        assert!(wakers.newest_is(&later) && !wakers.newest_is(&one));
        let taken = wakers.take(|place| place.group == 0);
        assert_eq!(taken.len(), 3);
        assert!(taken.iter().any(|taken| taken.will_wake(&other)));
        assert!(wakers.take(|place| place.group == 0).is_empty());
        assert!(wakers.take_all().next().is_some_and(|left| left.will_wake(&later)));
        assert!(wakers.take_all().next().is_none());
    }

    #[test]
    fn a_number_that_is_given_again_after_a_cut_is_another_record() {
        let (before, after) = (waker(), waker());
        let mut wakers = Wakers::default();
        wakers.add(place(4, 9), &before);
        wakers.add(place(5, 3), &after);
        let taken = wakers.take(|place| place.group < 5);
        assert!(taken.len() == 1 && taken.iter().all(|taken| taken.will_wake(&before)));
    }
}
