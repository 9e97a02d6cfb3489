//! Deterministic simulation of the log as it is: many lives of one log on a disk that fails, one
//! seed for all of it, and an oracle that knows what was promised.
//!
//! The log is the source of `seawall`, compiled with a scheduler's locks and threads: which task
//! continues is a choice that follows from the seed, as are the disk's failures, crashes, and time.

#![forbid(unsafe_code)]

mod beside;
mod crash;
mod describe;
mod draw;
mod ends;
mod evidence;
mod exhaustive;
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
pub use plan::{Act, Beside, Cut, End, Keep, Life, Plan, Unit};
pub use run::{Outcome, run, tell};
pub use shrink::shrink;
