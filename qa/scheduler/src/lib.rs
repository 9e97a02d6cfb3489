//! What the log's threads meet by when shuttle schedules them: many tasks in one thread of the
//! machine, and the scheduler chooses which one continues, the same way for the same seed.
//!
//! qa/scheduled is the log compiled with this in the place of std: the modules have
//! std's names. Shuttle knows no time; [`time`] adds it, so that a timed wait ends.
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

/// As `std::sync`.
pub mod sync {
    pub use crate::condvar::{Condvar, WaitTimeoutResult};
    pub use shuttle::sync::{Mutex, MutexGuard, atomic};
}

/// As `std::thread`.
pub mod thread {
    pub use shuttle::thread::{Builder, JoinHandle, ThreadId, current, yield_now};
}

/// Lets the scheduler choose the next task, which may be the caller: a place where a device takes
/// time. Unlike a yield it does not prefer another task.
pub fn switch() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

/// Shuttle's defaults, without its warnings: atomics are sequentially consistent here whatever
/// they ask for (loom knows better), and that the time of an execution ends with it is
/// what is wanted.
#[must_use]
pub fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    config.stack_size = STACK_SIZE;
    config
}

/// Bytes of a task's stack: opening a log takes more than shuttle's default.
const STACK_SIZE: usize = 256 << 10;
