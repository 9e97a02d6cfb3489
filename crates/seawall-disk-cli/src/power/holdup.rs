//! `seawall disk measure-holdup`: how long the machine runs on after a power failure, as another
//! machine sees it.

mod count;
mod sender;
mod witness;

use crate::args::DiskHoldUp;
use seawall_output::report::{Exit, Failure};

/// Runs the sender or the witness, as the arguments say.
pub(crate) fn run(args: &DiskHoldUp) -> Result<Exit, Failure> {
    match (&args.to, args.witness) {
        (Some(address), _) => sender::run(args, address),
        (None, port) => witness::run(args, port.unwrap_or_default()),
    }
}
