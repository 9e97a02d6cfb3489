//! Moves orphan files to quarantine.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::scan::catalog::Orphan;
use crate::scan::quarantine;
use seawall_format::SegmentId;
use std::io;

/// Moves orphan files to quarantine, since new segments may need their ids. Returns warnings, and
/// the segments that could not be moved.
///
/// # Errors
///
/// The directory could not be synced.
pub(crate) fn quarantine_orphans(
    env: &Env,
    orphans: &[Orphan],
) -> Result<(Vec<String>, Vec<SegmentId>)> {
    let (mut warnings, mut left) = (vec![], vec![]);
    for orphan in orphans {
        match orphan.files.iter().try_for_each(|file| quarantine_file(env, file)) {
            Ok(()) => warnings.push(format!("{orphan}, not part of the log: moved to quarantine")),
            Err(error) => {
                warnings.push(format!(
                    "{orphan}, not part of the log; cannot move it to quarantine: {error}"
                ));
                left.push(orphan.segment);
            }
        }
    }
    if !orphans.is_empty() {
        env.storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    }
    Ok((warnings, left))
}

fn quarantine_file(env: &Env, file: &str) -> io::Result<()> {
    quarantine::keep_file(env, file)?;
    env.storage.remove(file)
}
