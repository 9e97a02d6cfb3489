//! What `live` says to readers: which segment the writer writes, and how far it is durable.
//! FORMAT.md section 5.

use crate::Result;
use crate::directory::{LIVE, MANIFEST, MANIFEST_MAX, is_in_use, list, read_small, segment_ids};
use seawall_format::{Closed, Live, Manifest};
use seawall_io::Storage;

/// In the place of a boot id: the word of the writer in this process, which is never stale.
pub(crate) const OWN_WORD: [u8; 16] = [0; 16];

/// How often `live` is read again because the writer wrote it meanwhile.
const ATTEMPTS: u32 = 8;

/// What `live` says, if it speaks of this boot.
///
/// The writer may not have been able to write it (R16): then the clean close, which is evidence,
/// says more once nobody has the log open.
pub(crate) fn read_live(storage: &dyn Storage) -> Result<Option<Live>> {
    let found = read_whole_live(storage)?;
    let Some(live) = found.filter(|live| Some(live.boot_id) == storage.boot_id()) else {
        return Ok(None);
    };
    if is_in_use(storage)? {
        return Ok(Some(live));
    }
    let Some(closed) = newest_close(storage, &live)? else { return Ok(Some(live)) };
    let is_later = closed.segment.id > live.segment.id;
    let says_more =
        is_later || (closed.segment.id == live.segment.id && closed.last > live.durable);
    // It says nothing of a writer that came later. Its own segment may be lost.
    if !says_more || segment_ids(&list(storage)?).max() > Some(closed.segment.id) {
        return Ok(Some(live));
    }
    Ok(Some(Live { segment: closed.segment, durable: closed.last, ..live }))
}

/// A look at `live` while it is written may see a part of that: such a one is taken again, as
/// without a word a reader would go further than the writer is.
fn read_whole_live(storage: &dyn Storage) -> Result<Option<Live>> {
    for _ in 0..ATTEMPTS {
        let bytes = read_small(storage, LIVE, 64)?.unwrap_or_default();
        let found = Live::decode(&bytes);
        if found.is_some() || bytes.is_empty() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn newest_close(storage: &dyn Storage, live: &Live) -> Result<Option<Closed>> {
    let bytes = read_small(storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
    let slots = Manifest::decode_file(&bytes).into_iter().flatten();
    let slots = slots.filter(|slot| slot.log == live.log);
    Ok(slots.max_by_key(|slot| slot.sequence).and_then(|slot| slot.closed))
}
