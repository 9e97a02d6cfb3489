//! A view of a log of which the device refuses to read headers, marks, seals or the manifest. It
//! shows other bytes in their place, which are as invalid as changed ones.

use crate::base::error::{Corruption, Damage, Result};
use crate::base::num::to_u64;
use crate::files::directory::{MANIFEST, MANIFEST_MAX, list, open_if_exists};
use crate::files::overlay::{Overlay, Patch, RepairSource};
use crate::files::segment_reader::read_header;
use seawall_format::{Offset, SECTOR, STORED_MAX, SegmentId};
use seawall_io::{File, Storage};
use std::ops::Range;
use std::sync::Arc;

/// Neither zero, which would read as a slot that was never written, nor a valid byte of one.
const UNREADABLE: u8 = 0xEE;

/// The view, and the places that it replaces.
type Readable = (Arc<dyn Storage>, Vec<Damage>);

/// Returns `None` if the device reads all of them.
pub(crate) fn view(log: &Arc<dyn Storage>) -> Result<Option<Readable>> {
    let (mut patches, mut damage) = (vec![], vec![]);
    for name in list(&**log)? {
        let segment = SegmentId::from_file_name(&name);
        let size = match segment {
            // Without the header nothing tells where marks and seal are.
            Some(id) => read_header(&**log, id)?
                .map_or(to_u64(STORED_MAX), |header| 4 * u64::from(header.geometry.block)),
            None if name == MANIFEST => to_u64(MANIFEST_MAX),
            None => continue,
        };
        let Some(file) = open_if_exists(&**log, &name)? else { continue };
        for range in unreadable(&*file, size) {
            let length = usize::try_from(range.end - range.start).expect("a part of a head");
            let content = (vec![0; length], vec![UNREADABLE; length]);
            // Nothing reports where the bytes of this view come from.
            patches.push(Patch::new(name.clone(), range.start, content, RepairSource::Parity));
            let (offset, bytes) = (Offset(range.start), range.end - range.start);
            damage.push(Damage { segment, offset, bytes, ..Damage::new(Corruption::Unreadable) });
        }
    }
    let view = || Arc::new(Overlay::new(log.clone(), &patches)) as Arc<dyn Storage>;
    Ok(Some(damage).filter(|damage| !damage.is_empty()).map(|damage| (view(), damage)))
}

/// The parts of the first `size` bytes that the device cannot read.
fn unreadable(file: &dyn File, size: u64) -> Vec<Range<u64>> {
    let reads = |range: &Range<u64>| {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
        file.read_at(&mut bytes, range.start).is_ok()
    };
    let mut found: Vec<Range<u64>> = vec![];
    if reads(&(0..size)) {
        return found;
    }
    let sectors = (0..size).step_by(SECTOR).map(|start| start..(start + to_u64(SECTOR)).min(size));
    for sector in sectors.filter(|sector| !reads(sector)) {
        match found.last_mut().filter(|last| last.end == sector.start) {
            Some(last) => last.end = sector.end,
            None => found.push(sector),
        }
    }
    found
}
