//! Checks that a process has one thread: confining a thread does not confine the others.

use std::io;

/// Refuses a process with several threads. A process that is already confined cannot list its
/// threads, and passes.
pub(super) fn check_single() -> io::Result<()> {
    let threads = match std::fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.count(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => 1,
        Err(error) => return Err(error),
    };
    if threads == 1 {
        return Ok(());
    }
    let why = format!("it has {threads} threads, and one would be confined");
    Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
}
