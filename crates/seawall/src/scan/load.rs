//! Loads the catalog: reads the manifest and every segment header, and builds the chain from them.
//! format.md sections 4 and 6.
//!
//! A missing or misplaced file is reported in the catalog as a gap; the segments on both sides of
//! the gap stay readable.

use crate::base::error::{Error, Result};
use crate::files::consistent_read::{Change, Doubt, Retries, is_moved, moved};
use crate::files::directory::{list, lone_file, segment_ids};
use crate::files::live::{Watermark, read_watermark};
use crate::files::manifest::read_manifest;
use crate::files::unlock::{Unlocker, stored_keys};
use crate::scan::catalog::{Catalog, ChainTop, FoundManifest, KeysLost, log_id};
use crate::scan::chain::Headers;
use seawall_format::encryption::KeyError;
use seawall_format::{SegmentHeader, SegmentId};
use seawall_io::Storage;
use std::sync::Arc;

/// Reads the directory. The watermark of a running writer decides which segment is the newest; that
/// of a writer that has exited only proves that segments and records existed. `None`: the caller
/// follows no writer, and `live` counts as that of a writer that has exited.
///
/// A segment that seems to be missing may have been pruned or created during the load. So a fault
/// counts only if a second load finds the same names and manifest: these change with every segment,
/// and the watermark does not.
///
/// # Errors
///
/// [`moved`] if the writer has pruned the segment that `watermark` names: the caller needs a newer
/// watermark.
pub(crate) fn load_catalog(
    storage: &Arc<dyn Storage>,
    watermark: Option<&Watermark>,
) -> Result<Catalog> {
    load_unlocked(storage, watermark, &Unlocker::locked())
}

/// Like [`load_catalog`], with the keys of an encrypted log.
///
/// # Errors
///
/// Also [`Error::Key`].
pub(crate) fn load_unlocked(
    storage: &Arc<dyn Storage>,
    watermark: Option<&Watermark>,
    unlocker: &Unlocker,
) -> Result<Catalog> {
    let (mut retries, mut before) = (Retries::default(), None);
    loop {
        let found = load_once(storage, watermark, unlocker);
        let doubt = match &found {
            // The log uses a newer key than the cached ones.
            Err(Error::Key { source: KeyError::NoSuchKey(_), .. }) => {
                unlocker.set_known(None);
                Doubt::Damage(Change::Unknown)
            }
            Ok(None) => return Err(superseded()),
            Ok(Some(found)) if found.first_fault().is_some() => {
                let sequence = found.manifest().map(|manifest| manifest.sequence);
                let seen = Some((sequence, found.names.clone()));
                let change = if before == seen { Change::No } else { Change::Yes };
                before = seen;
                Doubt::Damage(change)
            }
            // A file was removed after it was listed.
            Err(error) if is_moved(error) => Doubt::Moved,
            Ok(Some(_)) | Err(_) => return found?.ok_or_else(superseded),
        };
        if !retries.again(doubt) {
            return found?.ok_or_else(superseded);
        }
    }
}

/// The error for a watermark that names a segment older than the oldest one.
fn superseded() -> Error {
    moved("find the segment that the writer named")
}

/// Whether `catalog` still matches the directory. Used where no watermark shows changes: every
/// change creates a file, removes one, or writes the manifest.
pub(crate) fn still_holds(storage: &dyn Storage, catalog: &Catalog) -> Result<bool> {
    let names = list(storage)?;
    let ids: Vec<_> = segment_ids(&names).collect();
    let slots = read_manifest(storage, &ids)?;
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    Ok(names == catalog.names && manifest.as_ref() == catalog.manifest())
}

/// Loads the catalog once. `None` if the writer has pruned the segment that `watermark` names.
fn load_once(
    storage: &Arc<dyn Storage>,
    watermark: Option<&Watermark>,
    unlocker: &Unlocker,
) -> Result<Option<Catalog>> {
    // Read before the directory, so that the files hold at least what it says. A file `live` that
    // cannot be read tells nothing.
    let past = || read_watermark(&**storage).ok().flatten().map(Watermark::of_the_past);
    let watermark = watermark.copied().or_else(past);
    let watermark = watermark.as_ref();
    let names = list(&**storage)?;
    let ids: Vec<_> = segment_ids(&names).collect();
    let slots = read_manifest(&**storage, &ids)?;
    let both_slots = slots.iter().all(Option::is_some);
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    // A second time if no slot can be read: a device may return other bytes once.
    let unlock = || unlocker.unlock(&**storage, manifest.as_ref());
    let keys = unlock()?.map_or_else(unlock, |keys| Ok(Some(keys)))?;
    let oldest = manifest.as_ref().map(|manifest| manifest.oldest.id);
    let running = watermark.filter(|watermark| watermark.is_running());
    let newest = running.map(|watermark| watermark.live.segment.id);
    if newest.is_some() && newest < oldest {
        return Ok(None);
    }
    // The writer may have rotated after the watermark was read; its successor counts, too.
    let next = newest.and_then(|newest| ids.iter().copied().filter(|id| *id > newest).min());
    let last = next.or(newest);
    let mut headers = Headers::default();
    for name in &names {
        let id = SegmentId::from_file_name(name);
        if let Some(id) = id.filter(|id| oldest.is_none_or(|oldest| *id >= oldest)) {
            // A bad header above `last` is ignored: the seal of the newest segment may name a file
            // that an interrupted recovery left under construction.
            let is_beyond = last.is_some_and(|last| id > last);
            let log = (manifest.as_ref(), keys.as_ref());
            headers.read(storage, (id, name, is_beyond), log)?;
        }
    }
    let manifest = manifest.map(|manifest| headers.with_proven_start(manifest));
    let found_manifest = match manifest.clone() {
        Some(manifest) => FoundManifest::Readable { manifest, both_slots },
        None if headers.hold_something()? => FoundManifest::Lost,
        None if lone_file(&**storage, &names)?.is_some() => FoundManifest::Lost,
        None => FoundManifest::Never,
    };
    headers.place_named_ahead(manifest.as_ref(), watermark)?;
    let end_is_doubtful = headers.end_is_doubtful();
    let (chain, top) = match found_manifest {
        FoundManifest::Never => (vec![], ChainTop::Complete),
        _ => headers.build_chain((manifest.as_ref(), &names), watermark)?,
    };
    let highest = headers.highest_named(&top, (manifest.as_ref(), watermark))?;
    let (keys_lost, published, max_id) = (None, None, None);
    let mut found = Catalog {
        found_manifest,
        chain,
        top,
        end_is_doubtful,
        keys_lost,
        published,
        max_id,
        names,
    };
    found.published = watermark.and_then(|watermark| found.durable_per(&watermark.live));
    let has_keys = keys.map(|_| true).or(unlocker.has_key().then_some(false));
    found.keys_lost = keys_lost_in(&**storage, &found, has_keys)?;
    let is_orphan = |id: &SegmentId| found.orphans().iter().any(|orphan| orphan.segment == *id);
    let used = found.names.iter().filter_map(|name| SegmentId::from_any_name(name));
    found.max_id = used.filter(|id| !is_orphan(id)).max().max(highest);
    Ok(Some(found))
}

/// The records that cannot be decrypted because the file `keys` cannot be read, or could not be
/// read when the log was to be unlocked. `has_keys`: whether that worked, if there is a key.
fn keys_lost_in(
    storage: &dyn Storage,
    found: &Catalog,
    has_keys: Option<bool>,
) -> Result<Option<KeysLost>> {
    let Some(log) = log_id(found).filter(|_| found.is_encrypted()) else { return Ok(None) };
    let encrypts = found.manifest().is_none_or(|manifest| manifest.authenticator.is_some());
    let lacks_keys = has_keys == Some(false) && encrypts;
    if stored_keys(storage, log)?.is_some() && !lacks_keys {
        return Ok(None);
    }
    let mut headers = found.chain.iter().map(|link| &link.segment.header);
    Ok(match headers.find(|header| header.authenticator.is_some()) {
        Some(encrypted) => Some(KeysLost::From(encrypted.base)),
        // Keys in memory still serve the records to come.
        None => Some(KeysLost::ToCome).filter(|_| has_keys != Some(true)),
    })
}

/// Returns the records whose key the file `keys` lacks, although a slot of it can be read: it is an
/// older copy. This takes no key of the user; with one, such a segment is refused.
pub(crate) fn keys_lacking(storage: &dyn Storage, found: &Catalog) -> Result<Option<KeysLost>> {
    let Some(log) = log_id(found).filter(|_| found.is_encrypted()) else { return Ok(None) };
    let Some(stored) = stored_keys(storage, log)? else { return Ok(None) };
    let headers = || found.chain.iter().map(|link| &link.segment.header);
    let lacks = |header: &&SegmentHeader| header.log_key().is_some_and(|key| !stored.has(key));
    if headers().find(lacks).is_none() {
        return Ok(None);
    }
    // A writer removes a key after it has pruned the segments that need it.
    let ids: Vec<_> = segment_ids(&found.names).collect();
    let slots = read_manifest(storage, &ids)?;
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    let oldest = manifest.map(|manifest| manifest.oldest.id);
    let mut kept = headers().filter(|header| oldest.is_none_or(|oldest| header.id >= oldest));
    Ok(kept.find(lacks).map(|header| KeysLost::From(header.base)))
}
