//! Locks a log for exclusive use by a repair.

use crate::base::error::{Error, Result};
use crate::files::directory::{LOCK, is_in_use};
use crate::scan::load::load_catalog;
use seawall_io::{Lock, Storage};
use std::sync::Arc;

/// Takes the writer lock of a log.
pub(crate) fn take(storage: &Arc<dyn Storage>) -> Result<Box<dyn Lock>> {
    load_catalog(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    locked.ok_or(Error::Busy { log: None })
}

/// Refuses a log that a writer has open: a log that is being written can look damaged.
pub(crate) fn refuse_in_use(storage: &dyn Storage) -> Result<()> {
    if is_in_use(storage)? { Err(Error::Busy { log: None }) } else { Ok(()) }
}
