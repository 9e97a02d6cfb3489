//! Creates a directory with its contents atomically: in a temporary directory that is renamed at
//! the end.

use crate::base::error::{Error, Result};
use seawall_io::{Draft, Storage};
use std::path::Path;
use std::sync::Arc;

/// Creates the directory `target` with what `fill` writes, durably or not at all. Refuses a target
/// inside `source`, the log that is read.
pub(crate) fn create_dir_atomically<T>(
    source: &Path,
    target: &Path,
    fill: impl FnOnce(Arc<dyn Storage>) -> Result<T>,
) -> Result<T> {
    if is_inside(source, target) {
        let why = format!("{} is inside the log {}", target.display(), source.display());
        return Err(Error::InvalidOption { log: None, why });
    }
    let creating = || Error::io(format!("create {}", target.display()));
    let draft = Draft::create(target).map_err(creating())?;
    let filled = fill(draft.storage())?;
    draft.finish().map_err(creating())?;
    Ok(filled)
}

/// Whether `target` would be inside `source`. If the parent of `target` does not exist, creating
/// the directory reports it later.
fn is_inside(source: &Path, target: &Path) -> bool {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    source.canonicalize().is_ok_and(|source| parent.is_ok_and(|parent| parent.starts_with(source)))
}
