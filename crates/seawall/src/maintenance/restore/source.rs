//! A source of repairs: a replica or parity.

use crate::base::error::{Damage, Result};
use crate::files::overlay::Patch;
use crate::maintenance::verify::Verification;
use seawall_format::Lsn;
use seawall_io::Storage;
use std::fmt::Debug;
use std::sync::Arc;

/// Something that knows bytes which damage took.
pub(crate) trait PatchSource: Debug {
    /// Bytes that may mend what was found. They are not believed before the log was judged with
    /// them, so a guess does no harm.
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>>;

    /// Files of which nothing is left in the log, though nothing there shows what was in them: the
    /// last resort.
    fn lost_files(&self, _: &Arc<dyn Storage>, _: &Verification) -> Result<Vec<Patch>> {
        Ok(vec![])
    }

    /// Whether it is of the same history up to behind this place, even if a part of the place
    /// stays damaged: then the other parts can be believed by their own checksums.
    fn shares_history(&self, _log: &Arc<dyn Storage>, _damage: &Damage) -> Result<bool> {
        Ok(false)
    }

    /// Whether it was made of this very log, by its writer: a cut that it shows was made here.
    fn is_of_this_log(&self) -> bool {
        false
    }

    /// Files that stand where the log had none.
    fn orphan_files(&self, _log: &Arc<dyn Storage>, _found: &Verification) -> Result<Vec<String>> {
        Ok(vec![])
    }

    /// The last record that it has.
    fn last(&self) -> Option<Lsn> {
        None
    }
}
