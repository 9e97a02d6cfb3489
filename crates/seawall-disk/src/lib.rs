//! A virtual disk for the log of an unmodified database: it acknowledges at memory speed, and loses
//! nothing as long as what it holds can still reach the device when the power fails.
//!
//! What is here: [`Ring`] holds what is not on the device yet, in memory of a fixed size;
//! [`Budget`] says how much of it may be acknowledged early, and when nothing may; [`compose`] and
//! [`find`] make and read what is written when the power fails. None of them does I/O. [`Disk`]
//! drives them over two files, with a thread that drains. [`nbd`] serves such a disk to whoever
//! speaks NBD, and reaches one that another server has. [`device`] is one for tests: its power can
//! be cut. `docs/adr/0009-the-virtual-log-disk.md` has the plan, and what of it is there.
//!
//! The paper that it follows: Gernot Heiser and others, "`RapiLog`: Reducing System Complexity
//! Through Verification", `EuroSys` 2013.

#![forbid(unsafe_code)]

mod budget;
mod buffer;
pub mod device;
mod disk;
mod dump;
mod files;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod fuse;
mod layout;
pub mod nbd;
mod options;
mod ring;
mod sync;

pub use budget::{Budget, Calibration, Disarmed, Supply};
pub use disk::{Counts, Disk, Emergency, Status};
pub use dump::{Dump, Extent, Label, LabelError, area_size, compose, find};
pub use files::{Files, Inspected, Recovered, inspect};
pub use layout::{BLOCK_SIZE, SECTOR_SIZE};
pub use options::Options;
pub use ring::{Flight, Full, Ring};
