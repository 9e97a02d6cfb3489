//! Snapshot: a log as one reader sees it, from the watermark to the files.

use crate::base::error::Result;
use crate::files::consistent_read::{Reading, read_consistent};
use crate::files::live::{LiveSource, Watermark};
use crate::files::unlock::LogFiles;
use crate::read::read_repair::{ReadRepair, load_repaired_catalog};
use crate::scan::catalog::Catalog;

/// The files of a log at one moment, and the watermark by which they were chosen.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The last watermark of the writer; `None` without one.
    pub(crate) watermark: Option<Watermark>,
    pub(crate) catalog: Catalog,
    /// The directory, or a view of it repaired from parity.
    pub(crate) files: LogFiles,
}

impl Snapshot {
    /// Loads the current snapshot, and what parity repaired for it. If the segment that the
    /// watermark names vanishes during the load, starts over.
    pub(crate) fn load(
        source: LiveSource<'_>,
        log: &LogFiles,
        read_repair: &mut ReadRepair,
    ) -> Result<Self> {
        read_consistent(source, |watermark| {
            // An earlier attempt tried parity for a view that is no longer used.
            *read_repair = ReadRepair::default();
            Self::load_at(watermark, log, read_repair).map(Reading::Certain)
        })
    }

    /// Loads the snapshot of `watermark`.
    ///
    /// # Errors
    ///
    /// [`moved`](crate::files::consistent_read::moved) if `watermark` is too old.
    pub(crate) fn load_at(
        watermark: Option<&Watermark>,
        log: &LogFiles,
        read_repair: &mut ReadRepair,
    ) -> Result<Self> {
        let (catalog, view) = load_repaired_catalog(log, watermark, read_repair)?;
        let files = view.map_or_else(|| log.clone(), |view| log.with_storage(view));
        Ok(Self { watermark: watermark.copied(), catalog, files })
    }

    /// Loads the snapshot of a log whose writer, if any, is in another process.
    pub(crate) fn of_files(log: &LogFiles, read_repair: &mut ReadRepair) -> Result<Self> {
        Self::load(LiveSource::File(&**log), log, read_repair)
    }
}
