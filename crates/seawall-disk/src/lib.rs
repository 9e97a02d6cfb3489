//! A virtual disk for the log of an unmodified database: it acknowledges at memory speed, and loses
//! nothing as long as what it holds can still reach the device when the power fails.
//!
//! What is here: the two state machines that decide this. [`Ring`] holds what is not on the device
//! yet, in memory of a fixed size; [`Budget`] says how much of it may be acknowledged early, and
//! when nothing may. They take time and bytes as arguments and do no I/O, and so does the format of
//! what is written when the power fails ([`compose`], [`find`]). The device and the server are not
//! built yet: `docs/adr/0009-the-virtual-log-disk.md` has the plan.
//!
//! The paper that it follows: Gernot Heiser and others, "`RapiLog`: Reducing System Complexity
//! Through Verification", `EuroSys` 2013.

#![forbid(unsafe_code)]

mod budget;
mod buffer;
mod dump;
mod ring;

pub use budget::{Budget, Calibration, Disarmed, Supply};
pub use dump::{Dump, Extent, Label, LabelError, SECTOR_SIZE, area_size, compose, find};
pub use ring::{BLOCK_SIZE, Flight, Full, Ring};
