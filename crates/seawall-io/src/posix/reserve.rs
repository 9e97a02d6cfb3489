//! Reserved file descriptors, so that a writer can create a new file even if the process has used
//! up all other descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// The most descriptors that one step needs: a readable segment has two files.
const COUNT: usize = 2;

/// Descriptors that are kept open only to be closed when one is needed; none before
/// [`Reserve::begin`].
#[derive(Debug, Default)]
pub(super) struct Reserve {
    is_wanted: AtomicBool,
    kept: Mutex<Vec<OwnedFd>>,
}

impl Reserve {
    /// Starts to keep reserves: duplicates of the open file `of`.
    pub(super) fn begin(&self, of: impl AsFd) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.fill(of);
    }

    /// Opens missing reserves if descriptors are available.
    pub(super) fn fill(&self, of: impl AsFd) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.len() < COUNT {
            let Ok(another) = fcntl_dupfd_cloexec(&of, 0) else { return };
            kept.push(another);
        }
    }

    /// Calls `open`. While no descriptor is free, closes a reserve and calls it again.
    pub(super) fn open<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Err(error) if is_used_up(&error) => {
                    let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                    match kept.pop() {
                        Some(one) => drop(one),
                        None => return Err(error),
                    }
                }
                other => return other,
            }
        }
    }
}

fn is_used_up(error: &io::Error) -> bool {
    let used_up = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| used_up.contains(&number))
}
