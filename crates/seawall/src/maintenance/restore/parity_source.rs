//! Parity as a source of patches.

use crate::base::error::{Damage, Result};
use crate::maintenance::restore::source::PatchSource;
use crate::maintenance::verify::Verification;
use crate::parity::reconstruct::FoundPatches;
use crate::read::read_repair::ReadRepair;
use seawall_io::Storage;
use std::sync::Arc;

/// Offers patches computed from parity.
#[derive(Debug)]
pub(crate) struct ParitySource;

impl PatchSource for ParitySource {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<FoundPatches> {
        let mut read_repair = ReadRepair::default();
        read_repair.view(log, found.doubtful())?;
        let ReadRepair { patches, unknown, .. } = read_repair;
        Ok(FoundPatches { patches, unknown })
    }

    fn shares_history(&self, _: &Arc<dyn Storage>, _: &Damage) -> Result<bool> {
        // Parity was computed from this very segment.
        Ok(true)
    }

    fn is_of_this_log(&self) -> bool {
        true
    }
}
