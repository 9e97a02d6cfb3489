//! Waiting for an event without holding a lock.

use crate::base::sync::{AtomicU32, Ordering, fence};

#[cfg(all(target_os = "linux", not(seawall_scheduled)))]
use by_futex::Waiters;
#[cfg(not(all(target_os = "linux", not(seawall_scheduled))))]
use by_lock::Waiters;

/// An event count: a wait returns at the next notification after the caller read the epoch.
///
/// A waiter reads [`EventCount::epoch`], checks its condition, and if it does not hold calls
/// [`EventCount::wait`] with that epoch. A notification since then makes the wait return at once,
/// so no wake-up is lost. A notifier first makes the condition true, then notifies.
///
/// Unlike a condition variable it belongs to no lock: threads that wake together do not queue up
/// for one.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    epoch_counter: AtomicU32,
    /// How many threads sleep here, or are about to: to wake nobody costs a system call, too.
    asleep: AtomicU32,
    waiters: Waiters,
}

impl EventCount {
    /// How often it was opened, to be taken before a look at what is waited for.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch_counter.load(Ordering::Acquire)
    }

    /// Returns once it was opened since `seen` was taken, or sooner: look again.
    pub(crate) fn wait(&self, seen: u32) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        // A sleeper counts itself, then compares the number of openings. A thread that opens counts
        // the opening, then looks for sleepers. The fences ensure that one sees the other.
        fence(Ordering::SeqCst);
        self.waiters.sleep(&self.epoch_counter, seen);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets everybody through.
    pub(crate) fn notify_all(&self) {
        self.notify(u32::MAX);
    }

    /// Lets one of those through who sleep there, and whoever is about to.
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

    /// Who sleeps at the word, known to the kernel.
    #[derive(Debug, Default)]
    pub(crate) struct Waiters;

    impl Waiters {
        #[expect(clippy::unused_self, reason = "the others need it")]
        pub(crate) fn sleep(&self, watermark: &AtomicU32, seen: u32) {
            futex_wait(watermark, seen);
        }

        #[expect(clippy::unused_self, reason = "the others need it")]
        pub(crate) fn wake(&self, watermark: &AtomicU32, count: u32) {
            futex_wake(watermark, count);
        }
    }
}

/// The same by a lock that guards nothing: where there is no futex, and where a scheduler tries
/// interleavings.
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
        pub(crate) fn sleep(&self, watermark: &AtomicU32, seen: u32) {
            let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if watermark.load(Ordering::Relaxed) == seen {
                drop(self.woken.wait(held).unwrap_or_else(PoisonError::into_inner));
            }
        }

        pub(crate) fn wake(&self, _: &AtomicU32, count: u32) {
            // Who found the word unchanged sleeps by the time the lock is had.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            if count == 1 { self.woken.notify_one() } else { self.woken.notify_all() }
        }
    }
}
