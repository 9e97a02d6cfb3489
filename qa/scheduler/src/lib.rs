//! The synchronisation primitives of the log's threads when shuttle schedules them: many tasks run
//! in one OS thread, and the scheduler chooses the next one, always the same one for the same seed.
//!
//! qa/scheduled compiles the log with this crate in place of std, so the modules have std's names.
//! Shuttle has no clock; [`time`] adds one, so that a timed wait ends.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use seawall_scheduler::{config, shuttle, time};
//!
//! let schedulers = shuttle::scheduler::RandomScheduler::new_from_seed(1, 100);
//! shuttle::Runner::new(schedulers, config()).run(|| {
//!     let sleeper = shuttle::thread::spawn(|| time::sleep(Duration::from_secs(3600)));
//!     time::flow(); // or time::advance, step by step
//!     sleeper.join().unwrap();
//!     assert_eq!(time::now(), Duration::from_secs(3600));
//! });
//! ```

#![forbid(unsafe_code)]

mod condvar;
pub mod time;

pub use shuttle;

/// Replaces `std::sync`.
pub mod sync {
    pub use crate::condvar::{Condvar, WaitTimeoutResult};
    pub use shuttle::sync::{Mutex, MutexGuard, atomic};
}

/// Replaces `std::thread`.
pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, ThreadId, current, yield_now};
}

/// Lets the scheduler choose the next task, which may be the caller. Called where a device takes
/// time. Unlike a yield, this does not prefer another task.
pub fn switch() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

/// Returns shuttle's default configuration without its warnings. They say that all atomics are
/// sequentially consistent here, whatever ordering the code requests (loom checks that better), and
/// that lazy statics, here the time, end with each execution, which is intended.
#[must_use]
pub fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    config.stack_size = STACK_SIZE;
    config
}

/// The stack size of a task, in bytes: opening a log needs more than shuttle's default.
const STACK_SIZE: usize = 256 << 10;
