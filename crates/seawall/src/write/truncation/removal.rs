//! Removes the files of segments that the log no longer contains. Some are kept to become new
//! segments.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::spare_files::SpareFile;
use crate::files::directory::list;
use crate::write::writer::run_once::RunOnce;
use seawall_format::before::SectorSums;
use seawall_format::{SegmentHeader, SegmentId};
use seawall_io::{File, Recycled};
use std::io;
use std::sync::Arc;

/// Files to be removed. The removal needs no writer.
#[derive(Debug)]
pub(crate) struct SegmentRemoval {
    pub(crate) env: Env,
    /// The write of the manifest without these segments, if it is not done yet.
    pub(crate) manifest: Option<RunOnce>,
    pub(crate) segments: RemovedSegments,
    /// Removed segments whose files are kept for reuse, each with the checksums of its content if
    /// they are known.
    pub(crate) spares: Vec<(SegmentHeader, Option<SectorSums>)>,
    /// Whether files give their space back at once: without reserved space a write may need it.
    pub(crate) frees_at_once: bool,
}

/// The segments whose files are removed.
#[derive(Debug)]
pub(crate) enum RemovedSegments {
    /// All before the first one that stays.
    Before(SegmentId),
    /// These alone: one with a number between them may have been kept for a repair.
    Listed(Vec<SegmentId>),
}

impl RemovedSegments {
    fn contains(&self, id: SegmentId) -> bool {
        match self {
            Self::Before(oldest) => id < *oldest,
            Self::Listed(ids) => ids.contains(&id),
        }
    }
}

impl SegmentRemoval {
    /// Removes the files, durably, after the manifest is durable.
    ///
    /// # Errors
    ///
    /// The manifest cannot be written: then all files stay. Or the directory cannot be listed or
    /// synced: a crash may bring files back, which the next open removes.
    pub(crate) fn run(self) -> Result<()> {
        let Self { env, manifest, segments, spares, frees_at_once } = self;
        manifest.map_or(Ok(()), |write| write.finish())?;
        remove_files(&env, |id| segments.contains(id), spares, frees_at_once)
    }

    /// Removes the files and ignores errors: what stays, or comes back in a crash, costs space
    /// until the next open. If the manifest cannot be written, the writer's next write of it fails;
    /// if the directory cannot be synced, the next rotation fails.
    pub(crate) fn run_in_background(self) {
        let _ = self.run();
    }
}

/// Unlinks the files of segments that `is_removed` selects. Keeps the files of `spares`, which are
/// among these segments, for reuse.
pub(super) fn remove_files(
    env: &Env,
    is_removed: impl Fn(SegmentId) -> bool,
    mut spares: Vec<(SegmentHeader, Option<SectorSums>)>,
    frees_at_once: bool,
) -> Result<()> {
    let storage = &*env.storage;
    let names = list(storage)?;
    // Sorted by name, a head is removed before its text.
    let gone = |name: &&String| SegmentId::from_any_name(name).is_some_and(&is_removed);
    let (mut removed, mut deferred, mut kept) = (false, vec![], vec![]);
    let deferred_max = if frees_at_once { 0 } else { env.deferred_delete.room() };
    let is_table = |name: &&String| {
        SegmentId::from_any_name(name).is_some_and(|id| **name == id.before_name())
    };
    let (tables, others): (Vec<_>, Vec<_>) = names.iter().filter(gone).partition(is_table);
    for name in others {
        let spare = spares.iter().position(|(header, _)| header.data_name() == **name);
        let retired = match spare.map(|index| spares.swap_remove(index)) {
            Some(spare) => recycle(env, name, spare, &mut kept),
            None => storage.retire(name),
        };
        // A file that cannot be removed costs space; the next truncation tries again.
        let Ok(file) = retired else { continue };
        removed = true;
        // Other files are freed at once: open ones would take file descriptors of the process.
        deferred.extend(file.filter(|_| deferred.len() < deferred_max));
    }
    if removed {
        env.sync_dir().map_err(Error::io("sync the log's directory"))?;
    }
    // After the files of their segments, whose end is unknown without the table.
    for table in tables {
        let _ = storage.remove(table);
    }
    // After the directory sync only: a file that a crash brings back must be complete.
    for spare in kept {
        env.spare_files.add(spare, storage);
    }
    for file in deferred {
        env.deferred_delete.add(file);
    }
    Ok(())
}

/// Renames the file of a removed segment and adds it to `kept`. If it cannot be used again, removes
/// it and returns it as [`Storage::retire`](seawall_io::Storage::retire) does.
fn recycle(
    env: &Env,
    name: &str,
    (header, sums): (SegmentHeader, Option<SectorSums>),
    kept: &mut Vec<SpareFile>,
) -> io::Result<Option<Arc<dyn File>>> {
    let spare = env.spare_name();
    match env.storage.recycle(name, &spare)? {
        Recycled::Removed(file) => Ok(file),
        Recycled::Renamed(file) if file.len().is_ok_and(|length| length == header.size) => {
            kept.push(SpareFile { name: spare, file, header, sums });
            Ok(None)
        }
        // The file was shortened after its last record.
        Recycled::Renamed(file) => {
            env.storage.remove(&spare)?;
            Ok(Some(file))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::Options;
    use seawall_io::Storage;
    use seawall_testkit::MemStorage;

    #[test]
    fn file_is_not_freed_if_its_removal_is_not_durable() {
        for fails in [false, true] {
            let storage = MemStorage::new();
            let env = Env::new(&Options::new(), Arc::new(storage.clone()));
            let file = storage.create(&SegmentId::FIRST.file_name()).expect("a free name");
            file.set_len(1 << 20).expect("the device has room");
            drop(file);
            if fails {
                storage.fail_sync(0, |_| false);
            }
            let removed = remove_files(&env, |_| true, vec![], false);
            assert_eq!((removed.is_err(), env.deferred_delete.is_empty()), (fails, fails));
        }
    }
}
