//! Detects use of a log handle in a forked child, where the background threads do not exist and
//! writing would race with the parent.

use crate::base::error::{Error, Result};
use seawall_io::process_token;

/// The process that opened a log.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    id: u32,
    /// The process id alone is not enough: in another pid namespace a child may have its parent's
    /// id.
    pub(crate) token: u64,
}

impl ForkGuard {
    /// The current process.
    pub(crate) fn current() -> Self {
        Self { id: std::process::id(), token: process_token() }
    }

    /// Refuses a forked child: the parent writes this log, and its threads do not exist here.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        let Self { id, token } = *self;
        if process_token() == token {
            return Ok(());
        }
        Err(Error::Forked { log: None, opened_in: id })
    }
}
