//! Deterministic simulation of the real log: many lives of one log on a failing disk, all derived
//! from one seed, and an oracle that knows what the log promised.
//!
//! The log is the source code of `seawall`, compiled with the locks and threads of a scheduler. The
//! seed decides which task runs next, which disk calls fail, when the log crashes, and how time
//! passes.

#![forbid(unsafe_code)]

mod beside;
mod crash;
mod describe;
mod draw;
mod ends;
mod evidence;
mod exhaustive;
mod given_up;
mod keyed;
mod ledger;
mod look;
mod mend;
mod notation;
mod payload;
mod plan;
mod run;
mod shrink;
mod task;
mod world;

pub use draw::draw;
pub use exhaustive::{Exhausted, exhaustive};
pub use plan::{Act, Beside, Cut, End, Keep, Life, Next, Plan, Unit};
pub use run::{Outcome, run, tell};
pub use shrink::shrink;
