//! Confining a thread confines a process only if it is the only one.

use std::io;

/// Refuses a process with several threads. One that is confined already cannot look.
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
