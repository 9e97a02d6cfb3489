//! Locks a log for exclusive use by a repair, or notices that a writer opens it.

use crate::base::error::{Error, Result};
use crate::files::directory::{LOCK, MANIFEST, MANIFEST_MAX, is_in_use, read_small};
use crate::scan::load::load_catalog;
use seawall_io::{Lock, Storage};
use std::sync::Arc;

/// Takes the writer lock of a log.
pub(crate) fn take(storage: &Arc<dyn Storage>) -> Result<Box<dyn Lock>> {
    load_catalog(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    locked.ok_or(Error::Busy { log: None })
}

/// A log that no writer has open while it is read: one that is being written can look damaged.
pub(crate) struct AtRest {
    storage: Arc<dyn Storage>,
    /// Every open and every close writes the manifest.
    manifest: Option<Vec<u8>>,
}

impl AtRest {
    /// Refuses a log that a writer has open.
    pub(crate) fn of(storage: &Arc<dyn Storage>) -> Result<Self> {
        refuse_in_use(&**storage)?;
        Ok(Self { storage: storage.clone(), manifest: manifest(&**storage) })
    }

    /// Refuses what was read, or its error, if a writer opened the log meanwhile.
    pub(crate) fn check<T>(&self, read: Result<T>) -> Result<T> {
        refuse_in_use(&*self.storage)?;
        let is_same = manifest(&*self.storage) == self.manifest;
        if is_same { read } else { Err(Error::Busy { log: None }) }
    }
}

fn refuse_in_use(storage: &dyn Storage) -> Result<()> {
    if is_in_use(storage)? { Err(Error::Busy { log: None }) } else { Ok(()) }
}

/// The manifest; `None` if it cannot be read.
fn manifest(storage: &dyn Storage) -> Option<Vec<u8>> {
    read_small(storage, MANIFEST, MANIFEST_MAX).ok().flatten()
}
