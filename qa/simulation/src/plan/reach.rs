//! The reach of the simulated log: how far one fault is assumed to spoil neighbouring bytes.

use std::cell::Cell;

use crate::world::BLOCK;

thread_local! {
    /// The reach of the run in this thread, in bytes.
    static REACH: Cell<u32> = const { Cell::new(BLOCK) };
}

/// Sets the reach of the log of the run that begins.
pub(crate) fn begin(reach: u32) {
    REACH.set(reach);
}

/// Returns the reach of the log of this run.
pub(crate) fn get() -> u32 {
    REACH.get()
}
