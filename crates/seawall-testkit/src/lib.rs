//! Tests for programs that use a Seawall log: crashes and failing disks.
//!
//! - [`crash_test`] tries every crash of a workload, and second crashes during its recovery.
//! - [`FaultDisk`] is a device in memory with planned or random faults.
//! - [`MemStorage`] is a device in memory whose power can be cut.
//! - [`harm`] damages its bytes at rest.
//!
//! All random choices come from seeds ([`Dice`]), so every failure can be reproduced. `examples/`
//! has a key-value store with a bug in its recovery, and the test that finds it.

#![forbid(unsafe_code)]

mod crash;
mod dice;
mod disk;
mod fault;
mod file;
mod harm;
mod injector;
mod mem_storage;

pub use crash::{Case, Crash, CrashTest, Failure, Left, Tried, crash_test, cuts};
pub use dice::{Dice, each_seed};
pub use disk::FaultDisk;
pub use fault::{Fault, Injected, Kind};
pub use harm::{Decay, Harm, Harmed, harm};
pub use mem_storage::MemStorage;
pub use mem_storage::pending::{CrashOutcome, Pending, What};
