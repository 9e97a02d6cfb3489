//! A process that `fork` made holds a copy of the handle and none of its threads, beside the one
//! that writes: there the copy is good for nothing, and says so.

use crate::base::error::{Error, Result};
use seawall_io::process_token;

/// The process that a log was opened in.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    id: u32,
    /// A child may have its parent's id: it may be in another pid namespace.
    pub(crate) token: u64,
}

impl ForkGuard {
    /// The one that runs this.
    pub(crate) fn current() -> Self {
        Self { id: std::process::id(), token: process_token() }
    }

    /// Refuses a forked child: another process writes this log, and here no thread of it is left to
    /// wait for.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { id, token } = *self;
        if process_token() == token { Ok(()) } else { Err(Error::Forked { opened_in: id }) }
    }
}
