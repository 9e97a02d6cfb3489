//! How threads meet: the locks, condition variables, atomics and threads that the log uses.
//!
//! They are std's. qa/scheduled and qa/loom compile this same source with
//! those of a scheduler that tries interleavings (docs/design.md); it has the modules of std.
//! `Arc`, `PoisonError` and thread locals are std's there too: with all tasks in one thread of the
//! machine, a value that is taken out of its thread local while it is used stays one's own.

#[cfg(seawall_scheduled)]
use scheduler as env;
#[cfg(not(seawall_scheduled))]
use std as env;

pub(crate) use env::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use env::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use env::thread::{Builder, JoinHandle, ThreadId, current, yield_now};

/// How many processors this process may run on. A scheduler has as many as it likes.
pub(crate) fn cpu_count() -> usize {
    if cfg!(seawall_scheduled) {
        return 2;
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}
