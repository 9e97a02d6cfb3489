//! A process that `fork` made holds a copy of the handle and none of its threads, beside the one
//! that writes: there the copy is good for nothing, and says so.

use crate::{Error, Result};

/// The process that a log was opened in.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: u32,
}

impl Process {
    /// The one that runs this.
    pub(crate) fn current() -> Self {
        Self { id: std::process::id() }
    }

    /// Refuses a forked child: another process writes this log, and here no thread of it is left to
    /// wait for.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { id } = *self;
        if std::process::id() == id { Ok(()) } else { Err(Error::Forked { opened_in: id }) }
    }
}
