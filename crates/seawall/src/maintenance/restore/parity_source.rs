//! Parity as a source of repairs.

use crate::base::error::{Damage, Result};
use crate::files::overlay::Patch;
use crate::maintenance::restore::source::Source;
use crate::maintenance::verify::Verification;
use crate::read::healing::Heal;
use seawall_io::Storage;
use std::sync::Arc;

/// Parity as what a repair takes bytes from.
#[derive(Debug)]
pub(crate) struct Beside;

impl Source for Beside {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>> {
        let mut heal = Heal::default();
        heal.view(log, found.doubtful())?;
        Ok(heal.patches)
    }

    fn is_tied(&self, _: &Arc<dyn Storage>, _: &Damage) -> Result<bool> {
        // It was made of this very segment.
        Ok(true)
    }

    fn is_of_this_log(&self) -> bool {
        true
    }
}
