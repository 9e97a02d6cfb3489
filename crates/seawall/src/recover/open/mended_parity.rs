//! Makes the parity durable from which an open restored records: nothing else holds them.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::files::overlay::Patch;
use crate::files::parity_file::read_head;
use crate::recover::remaining::RemainingLog;
use crate::write::preallocation::file::replace;
use seawall_format::SegmentId;
use seawall_io::{Access, File};
use std::collections::BTreeMap;

/// Replaces the parity files on which the log relies, unless they are known to be durable. The page
/// cache may show what a failed sync did not write, and another sync would succeed without writing
/// it, so a copy is synced instead.
///
/// # Errors
///
/// [`Error::Io`], [`Error::DiskFull`]: the records that were restored may be lost in a power cut.
pub(super) fn make_durable(env: &Env, log: &RemainingLog<'_>) -> Result<()> {
    let newest = log.newest().segment.header.id;
    let mut mended: BTreeMap<SegmentId, u64> = BTreeMap::new();
    for patch in &log.found.mended {
        if let Some(id) = SegmentId::from_any_name(&patch.file).filter(|id| *id <= newest) {
            let end = mended.entry(id).or_default();
            *end = (*end).max(Patch::end(patch));
        }
    }
    for (id, end) in mended {
        let name = id.parity_name();
        let made = env.storage.open(&name, Access::Read).and_then(|parity| {
            if is_durable(&*parity, end) { Ok(()) } else { replace(env, &*parity, &name) }
        });
        made.map_err(Error::io_in(format!("make {name} durable, which restores damaged records")))?;
    }
    Ok(())
}

/// Whether the slots for the first `end` bytes of the segment are durable: a head states what its
/// slots cover after their sync.
fn is_durable(parity: &dyn File, end: u64) -> bool {
    let head = read_head(parity).ok().flatten();
    head.is_some_and(|head| head.covered > head.header.data_start() && head.covered >= end)
}
