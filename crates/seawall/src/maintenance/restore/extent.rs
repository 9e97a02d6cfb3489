//! Computes which bytes of a file a damage covers.

use crate::base::error::{Corruption, Damage, Result};
use crate::base::num::to_u64;
use crate::files::segment_reader::read_around;
use seawall_format::SegmentId;
use seawall_io::{Access, Storage};
use std::io;
use std::ops::Range;

/// The page size of the device, the unit of unreadable bytes.
pub(crate) const PAGE: u64 = 4096;

/// Whether a whole file is damaged or missing.
pub(crate) fn is_whole(damage: &Damage) -> bool {
    damage.offset.0 == 0 && damage.bytes == 0
}

/// The bytes of a damage. Extends to the end of the file if the end of the damage is unknown or
/// only zeros follow.
pub(crate) fn place_of(log: &dyn Storage, damage: &Damage) -> Result<Range<u64>> {
    let start = damage.offset.0;
    let is_open = damage.lost.is_some_and(|lost| lost.to.is_none());
    if is_whole(damage) || is_open || damage.cause == Corruption::CutShort {
        return Ok(start..u64::MAX);
    }
    let end = start.saturating_add(damage.bytes);
    if !goes_on(log, damage.segment, end)? {
        return Ok(start..u64::MAX);
    }
    Ok(match damage.cause {
        Corruption::Unreadable => start / PAGE * PAGE..end.next_multiple_of(PAGE),
        _ => start..end,
    })
}

/// Whether the segment has bytes other than zero from `from` on.
pub(crate) fn goes_on(log: &dyn Storage, segment: Option<SegmentId>, from: u64) -> Result<bool> {
    let Some(id) = segment else { return Ok(false) };
    for name in [id.file_name(), id.text_name()] {
        let file = match log.open(&name, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(crate::base::error::Error::io(format!("open {name}")))?,
        };
        let mut at = from;
        loop {
            let (bytes, refused) = read_around(&*file, at, PAGE * 16)?;
            if bytes.is_empty() {
                break;
            }
            if !refused.is_empty() || bytes.iter().any(|byte| *byte != 0) {
                return Ok(true);
            }
            at += to_u64(bytes.len());
        }
    }
    Ok(false)
}
