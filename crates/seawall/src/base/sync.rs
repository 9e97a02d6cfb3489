//! The locks, condition variables, atomics and threads that the log uses.
//!
//! These are the standard library's. qa/scheduled and qa/loom compile the same source with the
//! types of a scheduler that explores interleavings (docs/design.md). `Arc`, `PoisonError` and
//! thread locals always come from std: the scheduler runs all tasks on one OS thread, where a value
//! that is taken out of its thread local while in use belongs to one task only.

#[cfg(seawall_scheduled)]
use scheduler as env;
#[cfg(not(seawall_scheduled))]
use std as env;

pub(crate) use env::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use env::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use env::thread::{Builder, JoinHandle, ThreadId, current, yield_now};
use std::sync::OnceLock;

/// How many processors this process may use. The interleaving scheduler always reports two.
pub(crate) fn cpu_count() -> usize {
    // Counting reads several files of the system, which takes a part of the time to open a log.
    static COUNT: OnceLock<usize> = OnceLock::new();
    if cfg!(seawall_scheduled) {
        return 2;
    }
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
