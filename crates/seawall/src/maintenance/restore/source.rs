//! The interface of a source of patches: a replica or parity.

use crate::base::error::{Damage, Lost, Result};
use crate::files::overlay::Patch;
use crate::maintenance::verify::Verification;
use crate::parity::reconstruct::FoundPatches;
use seawall_format::Lsn;
use seawall_io::Storage;
use std::fmt::Debug;
use std::sync::Arc;

/// Offers the bytes that damage destroyed.
pub(crate) trait PatchSource: Debug {
    /// Patches that may repair the damage. The planner verifies the log with them before it accepts
    /// any, so a wrong patch does no harm.
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<FoundPatches>;

    /// Files that are completely lost here and that nothing in the log proves: the last resort.
    fn lost_files(&self, _: &Arc<dyn Storage>, _: &Verification) -> Result<Vec<Patch>> {
        Ok(vec![])
    }

    /// Whether the source has the same history as the log past this damage. Then each part of the
    /// damage can be restored on its own, proven by its checksums.
    fn shares_history(&self, _log: &Arc<dyn Storage>, _damage: &Damage) -> Result<bool> {
        Ok(false)
    }

    /// Whether the writer of this very log created the source: then the source also proves where a
    /// truncation ended the log.
    fn is_of_this_log(&self) -> bool {
        false
    }

    /// Files in the log that do not belong there.
    fn orphan_files(&self, _log: &Arc<dyn Storage>, _found: &Verification) -> Result<Vec<String>> {
        Ok(vec![])
    }

    /// The records that are intact in the source.
    fn intact(&self) -> &[Lost] {
        &[]
    }

    /// The last record of the source.
    fn last(&self) -> Option<Lsn> {
        None
    }
}
