//! Descriptors in reserve: a writer that must go on in a new file is not stopped by a program that
//! has used up all others.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// What the largest step needs at once: a head and its text.
const COUNT: usize = 2;

/// Descriptors that are only there to be closed; none until [`Reserve::begin`].
#[derive(Debug, Default)]
pub(super) struct Reserve {
    is_wanted: AtomicBool,
    kept: Mutex<Vec<OwnedFd>>,
}

impl Reserve {
    /// From now on some are kept: further descriptors of the open file `of`.
    pub(super) fn begin(&self, of: impl AsFd) {
        self.is_wanted.store(true, Ordering::Relaxed);
        self.fill(of);
    }

    /// Takes what is missing of them, as far as there are any.
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

    /// Opens something; where no descriptor is free, in the place of those in reserve.
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
