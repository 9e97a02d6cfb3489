//! Builds parity for existing segments and reports how much is covered.

use crate::base::error::{Error, Result};
use crate::files::directory::{LOCK, list};
use crate::parity::backfill::{Protection, ends, make, needs, soundness};
use crate::scan::catalog::Catalog;
use crate::scan::load::load_catalog;
use seawall_format::parity::Scheme;
use seawall_io::{Access, Storage};
use std::sync::Arc;

/// Reports how much of the log has parity.
pub(crate) fn protection(storage: &Arc<dyn Storage>) -> Result<Protection> {
    let catalog = load_catalog(storage, None)?;
    let mut found = Protection {
        scheme: catalog.manifest().and_then(|manifest| manifest.parity),
        ..Protection::default()
    };
    for link in &catalog.chain {
        let header = &link.segment.header;
        let (from, (sure, end)) = (header.data_start(), ends(storage, &catalog, link)?);
        let (is_sound, sound) = soundness(storage, header);
        let parity = storage.open(&header.id.parity_name(), Access::Read);
        found.parity_bytes += parity.and_then(|parity| parity.len()).unwrap_or(0);
        found.bytes += end - from;
        found.unsure += end - sure;
        if from == end {
            // The segment has no records that could have parity.
        } else if is_sound && !needs(storage, header, end) {
            found.covered += end - from;
        } else {
            found.covered += sound.unwrap_or(from).min(end) - from;
            found.open.push(header.id);
        }
    }
    Ok(found)
}

/// Builds the missing parity of the log, and reports how much has parity then.
pub(crate) fn build_parity(storage: &Arc<dyn Storage>, scheme: Scheme) -> Result<Protection> {
    load_catalog(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let _lock = locked.ok_or(Error::Busy { log: None })?;
    // Load again under the lock: the first load only refuses a directory that is not a log, and a
    // writer may have changed the log since.
    let found = load_catalog(storage, None)?;
    let before = list(&**storage)?;
    let made = make_all(storage, &found, scheme);
    // Also after an error: the files that were made before it count from now on.
    if let Err(error) = storage.sync_dir() {
        // The next attempt must create them again: a second sync can succeed without their names.
        for link in &found.chain {
            let name = link.segment.header.id.parity_name();
            if !before.contains(&name) {
                let _ = storage.remove(&name);
            }
        }
        return Err(Error::io("sync the log's directory")(error));
    }
    made?;
    protection(storage)
}

fn make_all(storage: &Arc<dyn Storage>, found: &Catalog, scheme: Scheme) -> Result<()> {
    for link in &found.chain {
        let (header, end) = (&link.segment.header, ends(storage, found, link)?.0);
        let (is_sound, sound) = soundness(storage, header);
        if end > header.data_start() && (!is_sound || needs(storage, header, end)) {
            let failed = Error::io(format!("build {}", header.id.parity_name()));
            make(storage, (header, scheme), (sound, end)).map_err(failed)?;
        }
    }
    Ok(())
}
