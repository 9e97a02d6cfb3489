//! Reads a log's directory: manifest and segment headers. format.md sections 4 and 6.
//!
//! A file that is missing or out of place does not end it: the rest stays readable around the
//! hole, and the hole is named.

use crate::base::error::{Error, Result};
use crate::files::directory::{is_not_found, list, segment_ids};
use crate::files::live::Watermark;
use crate::files::manifest::read_manifest;
use crate::scan::catalog::Catalog;
use crate::scan::chain::Headers;
use seawall_format::{Lsn, SegmentId};
use seawall_io::Storage;
use std::io;
use std::sync::Arc;

/// How often a look starts over because the writer wrote or pruned under it.
const ATTEMPTS: u32 = 8;

/// Reads what the directory holds. A running writer says which segment is the newest; one that is
/// gone only which there was.
///
/// What seems to be missing may just have been pruned: the manifest says so first.
pub(crate) fn load_catalog(
    storage: &Arc<dyn Storage>,
    watermark: Option<&Watermark>,
) -> Result<Catalog> {
    let mut before = None;
    for _ in 1..ATTEMPTS {
        match load_once(storage, watermark) {
            // Removed since it was listed.
            Err(error) if is_not_found(&error) => {}
            Ok(found) if found.first_fault().is_some() => {
                // Or a segment was just made: its predecessor names it, and it was not listed.
                let sequence = found.manifest.as_ref().map(|manifest| manifest.sequence);
                let seen = Some((sequence, found.names.clone()));
                if before == seen {
                    return Ok(found);
                }
                before = seen;
            }
            other => return other,
        }
    }
    load_once(storage, watermark)
}

/// Whether a survey still says what is there, where no writer's word tells of changes: each of
/// them makes or removes a file, or writes the manifest.
pub(crate) fn still_holds(storage: &dyn Storage, catalog: &Catalog) -> Result<bool> {
    let names = list(storage)?;
    let ids: Vec<_> = segment_ids(&names).collect();
    let slots = read_manifest(storage, &ids)?;
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    Ok(names == catalog.names && manifest == catalog.manifest)
}

fn load_once(storage: &Arc<dyn Storage>, watermark: Option<&Watermark>) -> Result<Catalog> {
    let names = list(&**storage)?;
    let ids: Vec<_> = segment_ids(&names).collect();
    let used = names.iter().filter_map(|name| SegmentId::from_any_name(name)).max();
    let slots = read_manifest(&**storage, &ids)?;
    let readable = [0, 1].map(|slot| slots.get(slot).is_some_and(Option::is_some));
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    let mut found = Catalog {
        readable,
        chain: vec![],
        missing_tail: None,
        orphans: vec![],
        manifest_lost: false,
        max_id: used,
        names,
        manifest,
    };
    let oldest = found.manifest.as_ref().map(|manifest| manifest.oldest.id);
    let running = watermark.filter(|watermark| watermark.is_running());
    let newest = running.map(|watermark| watermark.live.segment.id);
    if newest.is_some() && newest < oldest {
        // The writer pruned it since it was asked.
        let pruned = io::Error::from(io::ErrorKind::NotFound);
        return Err(Error::io("find the segment that the writer named")(pruned));
    }
    // The one behind what the writer names may have been made since.
    let behind = newest.and_then(|newest| ids.iter().copied().filter(|id| *id > newest).min());
    let last = behind.or(newest);
    let mut headers = Headers::default();
    for name in &found.names {
        let id = SegmentId::from_file_name(name);
        if let Some(id) = id.filter(|id| oldest.is_none_or(|oldest| *id >= oldest)) {
            // It may be what the newest one's seal names: a recovery died and left another there.
            let is_beyond = last.is_some_and(|last| id > last);
            headers.read(storage, (id, name, is_beyond), found.manifest.as_ref())?;
        }
    }
    match &mut found.manifest {
        // Nobody knows which of them is the stranger, nor where the log began.
        Some(manifest) if headers.are_all_foreign() => manifest.oldest_base = Lsn::FIRST,
        Some(manifest) => {
            // Its records are there: nothing of it was given up.
            let base = headers.base_of(manifest.oldest).unwrap_or(manifest.oldest_base);
            manifest.oldest_base = manifest.oldest_base.min(base);
        }
        None => {
            found.manifest_lost = headers.hold_something()?;
            if !found.manifest_lost {
                return Ok(found);
            }
        }
    }
    headers.build_chain(&mut found, watermark)?;
    if !found.orphans.is_empty() {
        let is_orphan = |id: &SegmentId| found.orphans.iter().any(|orphan| orphan.segment == *id);
        let used = found.names.iter().filter_map(|name| SegmentId::from_any_name(name));
        found.max_id = used.filter(|id| !is_orphan(id)).max();
    }
    Ok(found)
}
