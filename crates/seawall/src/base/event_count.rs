//! Where threads wait until something has come to pass, without holding a lock.

use crate::base::sync::{AtomicU32, Ordering, fence};

#[cfg(all(target_os = "linux", not(seawall_scheduled)))]
use by_futex::Sleepers;
#[cfg(not(all(target_os = "linux", not(seawall_scheduled))))]
use by_lock::Sleepers;

/// A gate that is opened again and again; who waits is let through by the next opening.
///
/// Who waits for something takes [`Gate::seen`], looks whether it has come to pass, and if not
/// calls [`Gate::wait`] with what was taken: an opening since then lets it through at once, so none
/// is missed. Whoever makes it come to pass does that first, and opens then.
///
/// Unlike a condition variable it belongs to no lock: many who are let through at once do not
/// queue up for one.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    openings: AtomicU32,
    /// How many threads sleep here, or are about to: to wake nobody costs a system call, too.
    asleep: AtomicU32,
    sleepers: Sleepers,
}

impl Gate {
    /// How often it was opened, to be taken before a look at what is waited for.
    pub(crate) fn seen(&self) -> u32 {
        self.openings.load(Ordering::Acquire)
    }

    /// Returns once it was opened since `seen` was taken, or sooner: look again.
    pub(crate) fn wait(&self, seen: u32) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        // A sleeper counts itself, then compares the number of openings. A thread that opens counts
        // the opening, then looks for sleepers. The fences ensure that one sees the other.
        fence(Ordering::SeqCst);
        self.sleepers.sleep(&self.openings, seen);
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets everybody through.
    pub(crate) fn open(&self) {
        self.open_for(u32::MAX);
    }

    /// Lets one of those through who sleep there, and whoever is about to.
    pub(crate) fn open_for_one(&self) {
        self.open_for(1);
    }

    fn open_for(&self, count: u32) {
        self.openings.fetch_add(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.sleepers.wake(&self.openings, count);
        }
    }
}

#[cfg(all(target_os = "linux", not(seawall_scheduled)))]
mod by_futex {
    use crate::base::sync::AtomicU32;
    use seawall_io::{futex_wait, futex_wake};

    /// Who sleeps at the word, known to the kernel.
    #[derive(Debug, Default)]
    pub(crate) struct Sleepers;

    impl Sleepers {
        #[expect(clippy::unused_self, reason = "the others need it")]
        pub(crate) fn sleep(&self, word: &AtomicU32, seen: u32) {
            futex_wait(word, seen);
        }

        #[expect(clippy::unused_self, reason = "the others need it")]
        pub(crate) fn wake(&self, word: &AtomicU32, count: u32) {
            futex_wake(word, count);
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
    pub(crate) struct Sleepers {
        lock: Mutex<()>,
        woken: Condvar,
    }

    impl Sleepers {
        pub(crate) fn sleep(&self, word: &AtomicU32, seen: u32) {
            let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if word.load(Ordering::Relaxed) == seen {
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
