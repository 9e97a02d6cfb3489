//! When each write of a stream may begin: as many at a time as a segment allows. Has a lock of its
//! own, because appends hold the log's lock almost all the time.

use crate::base::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// The writes that may be on the device, by number.
#[derive(Debug, Default)]
pub(crate) struct WriteSlots {
    order: Mutex<WriteOrder>,
    changed: Condvar,
}

/// The order of writes, as a pure state machine.
#[derive(Debug, Default)]
struct WriteOrder {
    /// Number of the oldest write that has not returned.
    oldest: u64,
    /// Whether each write from `oldest` on has returned.
    returned: VecDeque<bool>,
    /// A write has failed: none begins until the batches are in another segment.
    has_failed: bool,
    /// Number of threads that wait. Without any, there is no system call to wake them.
    waiting: usize,
}

impl WriteSlots {
    /// Waits until the write with this number may begin, where at most `max` may be in flight.
    /// Returns `false` if it must not begin, because an earlier one has failed.
    pub(crate) fn wait(&self, number: u64, max: u8) -> bool {
        let mut order = self.lock();
        loop {
            if let Some(begins) = order.begins(number, max) {
                return begins;
            }
            order.waiting += 1;
            order = self.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
            order.waiting -= 1;
        }
    }

    /// Notes that the write with this number has returned, or will not begin.
    pub(crate) fn returned(&self, number: u64, is_durable: bool) {
        let mut order = self.lock();
        order.returned(number, is_durable);
        let is_awaited = order.waiting > 0;
        drop(order);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Notes that all writes have returned, and that the failed ones were written elsewhere.
    pub(crate) fn recovered(&self) {
        self.lock().has_failed = false;
    }

    fn lock(&self) -> MutexGuard<'_, WriteOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteOrder {
    /// Whether this write may begin; `None` means not yet. Writes after one that has not returned
    /// count as in flight, since a crash may find any of them on the device.
    fn begins(&self, number: u64, max: u8) -> Option<bool> {
        if self.has_failed {
            return Some(false);
        }
        (number < self.oldest + u64::from(max)).then_some(true)
    }

    fn returned(&mut self, number: u64, is_durable: bool) {
        self.has_failed |= !is_durable;
        let index = usize::try_from(number - self.oldest).expect("few writes are in flight");
        if self.returned.len() <= index {
            self.returned.resize(index + 1, false);
        }
        *self.returned.get_mut(index).expect("just made") = true;
        while self.returned.front() == Some(&true) {
            self.returned.pop_front();
            self.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_begins_when_those_before_it_leave_room() {
        let mut order = WriteOrder::default();
        let begin = |order: &WriteOrder| [0, 1, 2, 3].map(|number| order.begins(number, 2));
        assert_eq!(begin(&order), [Some(true), Some(true), None, None]);
        order.returned(1, true);
        assert_eq!(begin(&order), [Some(true), Some(true), None, None], "0 is on its way");
        order.returned(0, true);
        assert_eq!(begin(&order), [Some(true); 4]);
        order.returned(2, true);
        assert_eq!(order.begins(5, 2), None);
    }

    #[test]
    fn no_write_begins_after_a_failed_one_until_its_batch_is_elsewhere() {
        let slots = WriteSlots::default();
        slots.returned(1, false);
        assert!(!slots.wait(0, 2) && !slots.wait(2, 2) && !slots.wait(3, 2));
        slots.returned(0, false);
        slots.returned(2, false);
        assert!(!slots.wait(3, 2));
        slots.recovered();
        assert!(slots.wait(3, 2) && slots.wait(4, 2));
        assert_eq!(slots.lock().begins(5, 2), None);
    }
}
