//! Deterministic simulation of the real log: many lives of one log on a failing disk, all from one
//! seed, and an oracle that knows what was promised.
//!
//! The log is the source of `seawall`, compiled with a scheduler's locks and threads. The seed
//! decides which task continues, the disk's failures, the crashes, and the time.

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
