//! Parity as a source of patches.

use crate::base::error::{Damage, Result};
use crate::files::overlay::Patch;
use crate::maintenance::restore::source::PatchSource;
use crate::maintenance::verify::Verification;
use crate::read::read_repair::ReadRepair;
use seawall_io::Storage;
use std::sync::Arc;

/// Offers patches computed from parity.
#[derive(Debug)]
pub(crate) struct ParitySource;

impl PatchSource for ParitySource {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>> {
        let mut read_repair = ReadRepair::default();
        read_repair.view(log, found.doubtful())?;
        Ok(read_repair.patches)
    }

    fn shares_history(&self, _: &Arc<dyn Storage>, _: &Damage) -> Result<bool> {
        // Parity was computed from this very segment.
        Ok(true)
    }

    fn is_of_this_log(&self) -> bool {
        true
    }
}
