//! Writes patches in place. A segment header and a file length, which reveal missing bytes, are
//! restored last: after a crash in between the log still reports its damage.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::files::directory::{MANIFEST, is_preallocated, list};
use crate::files::overlay::{Overlay, Patch, is_manifest, part};
use crate::scan::quarantine;
use crate::write::preallocation::file::replace;
use seawall_format::{SECTOR, SegmentId};
use seawall_io::Access;
use std::io;

/// Writes and syncs the patches of segments.
///
/// # Errors
///
/// Stops at the first failed write or sync. Writing the same blocks again is unsafe, because their
/// contents are unknown after a failure.
pub(super) fn patches(env: &Env, patches: &[Patch]) -> Result<()> {
    let mut files: Vec<_> = patches.iter().filter(|one| !is_manifest(one)).collect();
    files.sort_by_key(|patch| (is_head(&patch.file), patch.file.clone(), patch.offset));
    let mut headers = vec![];
    // A text file before its head, because the head says that the text file must exist.
    for of_file in files.chunk_by(|one, next| one.file == next.file) {
        let Some(file) = of_file.first().map(|patch| patch.file.as_str()) else { continue };
        if is_rebuilt(env, of_file)? {
            rebuild(env, file, patches)?;
            continue;
        }
        let sector = to_u64(SECTOR);
        let (first, rest): (Vec<_>, Vec<_>) = of_file
            .iter()
            .flat_map(|patch| {
                let inner = sector.clamp(patch.offset, patch.end());
                [part(patch, patch.offset..inner), part(patch, inner..patch.end())]
            })
            .flatten()
            .partition(|patch| patch.offset < sector && !is_text(file));
        in_place(env, file, &rest)?;
        headers.push((file, first));
    }
    for (file, first) in headers {
        in_place(env, file, &first)?;
    }
    // Even without a rename now: an interrupted repair may have renamed without a sync.
    let synced = env.storage.sync_dir();
    synced.map_err(Error::io(format!("sync {}", env.storage.place())))
}

/// Replaces the manifest atomically.
pub(super) fn manifest(env: &Env, patches: &[Patch]) -> Result<()> {
    if patches.iter().any(is_manifest) { rebuild(env, MANIFEST, patches) } else { Ok(()) }
}

/// Moves files to quarantine.
pub(super) fn orphan_files(env: &Env, names: &[String]) -> Result<Vec<String>> {
    let mut kept = vec![];
    for name in names {
        let copy = quarantine::keep_file(env, name);
        kept.push(copy.map_err(Error::io(format!("keep {name} in quarantine")))?);
        let gone = env.storage.remove(name).and_then(|()| env.storage.sync_dir());
        gone.map_err(Error::io(format!("remove {name}")))?;
    }
    Ok(kept)
}

/// Removes the temporary files of an interrupted repair.
pub(super) fn clear(env: &Env) -> Result<()> {
    for name in list(&*env.storage)?.iter().filter(|name| is_preallocated(name)) {
        env.storage.remove(name).map_err(Error::io(format!("remove {name}")))?;
    }
    Ok(())
}

/// Whether `file` is the head file of a segment.
fn is_head(file: &str) -> bool {
    SegmentId::from_any_name(file).is_some_and(|id| id.head_name() == file)
}

fn is_text(file: &str) -> bool {
    SegmentId::from_any_name(file).is_some_and(|id| id.text_name() == file)
}

/// Whether a patched file is missing or grows. Such a file is rebuilt under a temporary name.
fn is_rebuilt(env: &Env, of_file: &[&Patch]) -> Result<bool> {
    let Some(first) = of_file.first() else { return Ok(false) };
    let length = match env.storage.open(&first.file, Access::Read) {
        Ok(file) => file.len().map_err(Error::io(format!("get the length of {}", first.file)))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(Error::io(format!("open {}", first.file))(error)),
    };
    // True even if the file has its full length by now: after a failed directory sync the new name
    // is visible but may be lost.
    let grows = |patch: &&Patch| patch.old.len() < patch.new.len();
    Ok(of_file.iter().any(|patch| patch.end() > length || grows(patch)))
}

fn in_place(env: &Env, name: &str, patches: &[Patch]) -> Result<()> {
    if patches.is_empty() {
        return Ok(());
    }
    let write = || {
        let file = env.storage.open(name, Access::ReadWrite)?;
        for patch in patches {
            file.write_at(&patch.new, patch.offset)?;
        }
        file.sync()
    };
    write().map_err(failed(name))
}

/// Replaces a file by its patched copy.
fn rebuild(env: &Env, name: &str, patches: &[Patch]) -> Result<()> {
    let view = Overlay::new(env.storage.clone(), patches);
    let source = seawall_io::Storage::open(&view, name, Access::Read).map_err(failed(name))?;
    replace(env, &*source, name).map_err(failed(name))
}

fn failed(name: &str) -> impl FnOnce(io::Error) -> Error {
    Error::io_in(format!(
        "repair {name}: stopped there; the original bytes are in quarantine; check the device, \
         then repair again"
    ))
}
