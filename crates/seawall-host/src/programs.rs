//! Runs programs for tests while other tests of this process reopen files they have just closed.
//!
//! Until a child process has executed its program, it has a copy of every descriptor, and with them
//! the locks that tests have meanwhile released. It closes them only after its start has returned.

use std::io;
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock};

static RUNNING: RwLock<()> = RwLock::new(());

/// Runs `command` to its end, without input.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let _running = RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    command.output()
}

/// Waits until no program is running: locks that were released before are free.
pub(crate) fn wait_for_programs() {
    drop(RUNNING.write().unwrap_or_else(PoisonError::into_inner));
}
