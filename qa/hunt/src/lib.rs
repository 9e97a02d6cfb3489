//! Searches for corruptions, inputs and programs that break a promise of Seawall.
//!
//! | module | what it does |
//! |---|---|
//! | [`sample`] | logs in memory of which every byte is known, one for each way to end writing |
//! | [`change`] | one corruption of such a log: a bit, a range of 1 MiB, a truncation |
//! | [`judge`] | checks the promises for a corrupted log, given the evidence that remains |
//! | [`damage`] | a list of kinds of damage to real files, also for other logs: docs/damage.md |
//! | [`corrupt`] | corrupts logs and checks the promises, a million times |
//! | [`mend`] | damages logs with parity, within the strength of parity and beyond |
//! | [`targets`] | fuzz targets, with the properties that hold for any input |
//! | [`golden`] | makes the golden files of format 1 |
//! | [`fixup`] | corrects checksums after a change, to reach the code after their check |
//! | [`forge`] | the same for the tags and codes of encrypted logs |
//!
//! `cargo run --release -p seawall-hunt -- corrupt` runs a million corruptions; the tests of this
//! crate run a few thousand. A broken promise causes a panic.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test bench reports failure by panicking"
)]

pub mod change;
pub mod corrupt;
pub mod damage;
pub mod fixup;
pub mod forge;
pub mod golden;
pub mod judge;
pub mod mend;
pub mod random;
pub mod sample;
pub mod targets;
