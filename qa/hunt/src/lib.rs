//! Searches for corruptions, inputs and programs that break a promise of Seawall.
//!
//! | module | what it does |
//! |---|---|
//! | [`sample`] | logs in memory of which every byte is known, in each way that a log can end |
//! | [`change`] | one corruption of such a log: a bit, a run of a mebibyte, a cut |
//! | [`judge`] | what may be asked of the log then, by the evidence that is left |
//! | [`damage`] | a list of kinds of damage on real files, and other logs: docs/damage.md |
//! | [`corrupt`] | the two together, a million times |
//! | [`mend`] | damage to logs with parity, within its strength and beyond |
//! | [`targets`] | what fuzzers throw bytes at, with what is to hold whatever they are |
//! | [`golden`] | the golden files of format 1, made again |
//! | [`fixup`] | checksums corrected after a change, to reach the code after their check |
//! | [`forge`] | the same with the tags and codes of encrypted logs |
//!
//! `cargo run --release -p seawall-hunt -- corrupt` is the long way; the tests of this crate go the
//! short one. A broken promise is a panic here.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is a test bench: a panic is its report"
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
