//! File system, clock and entropy for the Seawall log. No other crate of the log calls them
//! directly.
//!
//! The log uses a device through a few small traits that state their promises: [`Storage`] (a
//! directory), [`File`] (positioned reads and writes, and a sync), [`Clock`] and [`Entropy`].
//! [`PosixStorage`] is the one for real directories. `MemStorage` of `seawall-testkit` is a device
//! in memory whose power can be cut, so that a crash is an ordinary unit test.

#![deny(unsafe_code)]

mod aligned;
mod clock;
mod direct;
mod entropy;
mod failure;
#[cfg(target_os = "linux")]
mod futex;
#[expect(unsafe_code, reason = "shared memory is mapped and split by hand")]
mod memory;
mod posix;
#[cfg_attr(
    all(target_arch = "x86_64", not(miri)),
    expect(unsafe_code, reason = "executes an instruction that has no stable function")
)]
mod prefetch;
#[cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "maps a page that a forked child sees as zeros")
)]
mod process;
mod secret;
mod status;
mod storage;
mod transfer;

pub use aligned::AlignedMemory;
pub use clock::{Clock, ManualClock, SystemClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use failure::{check_name, explain, into_parts};
#[cfg(target_os = "linux")]
pub use futex::{futex_wait, futex_wake};
pub use memory::{DIRECT_ALIGNMENT, Memory, MemoryPart};
pub use posix::draft::Draft;
pub use posix::{PosixFile, PosixStorage};
pub use prefetch::prefetch_for_write;
pub use process::process_token;
pub use secret::{read_secret, read_secret_file};
pub use storage::{Access, File, Lock, Recycled, Storage};
