//! What it takes to try a program on a Seawall log against crashes and failing disks.
//!
//! - [`crash_test`]: every crash of a workload, a second one inside its recovery included;
//! - [`FaultDisk`]: a device in memory that fails as devices do, where it was told to or by chance;
//! - [`MemStorage`]: a device in memory whose power can be cut;
//! - [`harm`]: what becomes of its bytes while nobody looks.
//!
//! All chance follows from seeds ([`Dice`]), so whatever was found is found again. `examples/`
//! has a key-value store with a bug in its recovery, and how that is found.

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
