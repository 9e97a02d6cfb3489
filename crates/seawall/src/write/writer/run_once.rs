//! Work that several threads may need done: the first one does it, the others wait.

use crate::base::error::{Error, Result};
use crate::base::sync::Mutex;
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Work to be done once, by the first thread that calls [`finish`](Self::finish).
#[derive(Clone)]
pub(crate) struct RunOnce(Arc<Mutex<Progress>>);

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

enum Progress {
    Waiting(Work),
    Done,
    /// With the cause.
    Failed(Arc<str>),
}

impl RunOnce {
    pub(crate) fn new(work: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Progress::Waiting(Box::new(work)))))
    }

    /// Does the work, or waits until another thread has done it.
    ///
    /// # Errors
    ///
    /// The same one for each caller: work that failed is never repeated.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let panicked = Progress::Failed("a thread of the log panicked".into());
        *progress = match std::mem::replace(&mut *progress, panicked) {
            Progress::Waiting(work) => match work() {
                Ok(()) => Progress::Done,
                Err(error) => Progress::Failed(error.cause().into()),
            },
            done => done,
        };
        match &*progress {
            Progress::Failed(cause) => Err(Error::Poisoned { log: None, cause: cause.clone() }),
            Progress::Waiting(_) | Progress::Done => Ok(()),
        }
    }

    /// Whether `other` is the same work.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for RunOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunOnce")
    }
}
