//! A virtual disk for the log of an unmodified database. It acknowledges at memory speed and loses
//! nothing as long as the acknowledged bytes can still reach the device when the power fails.
//!
//! [`Ring`] holds the bytes that are not on the device yet, in memory of a fixed size. [`Budget`]
//! decides how many of them may be acknowledged early. [`compose`] and [`find`] write and read the
//! dump that is made when the power fails. None of these does I/O. [`Disk`] drives them over two
//! files, with a thread that drains. [`nbd`] serves a disk over NBD and connects to other NBD
//! servers. [`device`] is a disk for tests whose power can be cut.
//! `docs/adr/0009-the-virtual-log-disk.md` has the design.
//!
//! It follows the paper by Gernot Heiser and others, "`RapiLog`: Reducing System Complexity Through
//! Verification", `EuroSys` 2013.

#![forbid(unsafe_code)]

mod budget;
pub mod device;
mod disk;
mod dump;
mod files;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod fuse;
#[cfg(target_os = "linux")]
pub mod keeper;
mod layout;
pub mod nbd;
mod options;
mod ring;
mod sync;
#[cfg(all(feature = "vhost-user", target_os = "linux"))]
pub mod vhost_user;
mod volume;

pub use budget::{Budget, Calibration, Disarmed, Supply};
pub use disk::{Counts, Disk, Emergency, Status};
pub use dump::{Dump, Extent, Label, LabelError, Stamp, area_size, compose, find};
pub use files::{Files, Inspected, Recovered, inspect};
pub use layout::{BLOCK_SIZE, SECTOR_SIZE};
pub use options::Options;
pub use ring::kept::{BUFFERS_MAX, Identity, Kept, KeptError, kept_size};
pub use ring::{Flight, Full, Haste, Ring};
pub use volume::Volume;
