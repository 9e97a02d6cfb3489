//! Deterministic simulation of the real log: many lives of one log on a failing disk, all derived
//! from one seed, and an oracle that knows what the log promised.
//!
//! The log is the source code of `seawall`, compiled with the locks and threads of a scheduler. The
//! seed decides which task runs next, which disk calls fail, when the log crashes, and how time
//! passes.

#![forbid(unsafe_code)]

mod crash;
mod describe;
mod evidence;
mod exhaustive;
mod keyed;
mod ledger;
mod look;
mod payload;
mod plan;
mod run;
mod task;
mod world;

pub use exhaustive::{Exhausted, exhaustive};
pub use plan::draw::draw;
pub use plan::shrink::shrink;
pub use plan::{Act, Beside, Cut, End, Keep, Life, Next, Plan, Unit};
pub use run::{Outcome, run, tell};
