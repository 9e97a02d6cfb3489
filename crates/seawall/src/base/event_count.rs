//! Waiting for an event without holding a lock.

use crate::base::sync::{AtomicU32, Ordering, fence};

#[cfg(all(target_os = "linux", not(seawall_scheduled)))]
use by_futex::Waiters;
#[cfg(not(all(target_os = "linux", not(seawall_scheduled))))]
use by_lock::Waiters;

/// An event count: a wait returns at the next notification after the caller read the epoch.
///
/// A waiter reads [`EventCount::epoch`] and checks its condition. If the condition is false, it
/// calls [`EventCount::wait`] with that epoch. A notification since then makes the wait return at
/// once, so no wake-up is lost. A notifier first makes the condition true, then notifies.
///
/// Unlike with a condition variable, threads that wake together do not queue for a lock.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    epoch_counter: AtomicU32,
    /// Number of threads that sleep or are about to; saves the notifier a system call if there are
    /// none.
    asleep: AtomicU32,
    waiters: Waiters,
}

impl EventCount {
    /// Number of notifications so far. Read it before checking the condition.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch_counter.load(Ordering::Acquire)
    }

    /// Waits for a notification after `seen` was read. May return early: check the condition again.
    pub(crate) fn wait(&self, seen: u32) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        // A waiter increments `asleep`, then compares the epoch. A notifier increments the epoch,
        // then reads `asleep`. The fences ensure that at least one of them sees the other's write.
        fence(Ordering::SeqCst);
        self.waiters.sleep(&self.epoch_counter, seen);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes all waiters.
    pub(crate) fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    /// Wakes one sleeping waiter, and every waiter that has not fallen asleep yet.
    pub(crate) fn notify_one(&self) {
        self.notify(1);
    }

    fn notify(&self, count: u32) {
        self.epoch_counter.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.waiters.wake(&self.epoch_counter, count);
        }
    }
}

#[cfg(all(target_os = "linux", not(seawall_scheduled)))]
mod by_futex {
    use crate::base::sync::AtomicU32;
    use seawall_io::{futex_wait, futex_wake};

    /// The waiters; the kernel keeps the queue.
    #[derive(Debug, Default)]
    pub(crate) struct Waiters;

    impl Waiters {
        #[expect(clippy::unused_self, reason = "the other implementations need it")]
        pub(crate) fn sleep(&self, epoch: &AtomicU32, seen: u32) {
            futex_wait(epoch, seen);
        }

        #[expect(clippy::unused_self, reason = "the other implementations need it")]
        pub(crate) fn wake(&self, epoch: &AtomicU32, count: u32) {
            futex_wake(epoch, count);
        }
    }
}

/// Fallback without futex, also used by the interleaving scheduler.
#[cfg(not(all(target_os = "linux", not(seawall_scheduled))))]
mod by_lock {
    use crate::base::sync::{AtomicU32, Condvar, Mutex, Ordering};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub(crate) struct Waiters {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Waiters {
        pub(crate) fn sleep(&self, epoch: &AtomicU32, seen: u32) {
            let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if epoch.load(Ordering::Relaxed) == seen {
                drop(self.woken.wait(held).unwrap_or_else(PoisonError::into_inner));
            }
        }

        pub(crate) fn wake(&self, _: &AtomicU32, count: u32) {
            // A waiter that saw the old epoch is in `woken.wait` once this lock is acquired.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
        }
    }
}
