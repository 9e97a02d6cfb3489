//! Files of removed segments, kept to become new segments. Writing again to a file that was written
//! before is faster than to a new one: the file system has no space to find and no metadata to
//! change.

use crate::base::sync::{Mutex, MutexGuard};
use seawall_format::before::SectorSums;
use seawall_format::{Manifest, SegmentHeader};
use seawall_io::{File, Storage};
use std::sync::{Arc, PoisonError};

/// Maximum number of files to keep: more would only take space.
const SPARES_MAX: usize = 2;

/// Whether the file of this segment is large enough for any segment of `log` in a plain rotation,
/// and is encrypted exactly if `log` is: the old content stays in the file for a time.
pub(crate) fn may_be_spare(header: &SegmentHeader, log: &Manifest) -> bool {
    header.fixed_length().is_some_and(|length| length >= log.segment_max)
        && header.geometry == log.geometry
        && header.authenticator.is_some() == log.authenticator.is_some()
}

/// The file of a removed segment under a temporary name. It has no other name and no reader.
#[derive(Debug)]
pub(crate) struct SpareFile {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// The header of the removed segment.
    pub(crate) header: SegmentHeader,
    /// Checksums of the file's content, if this process has written all of it.
    pub(crate) sums: Option<SectorSums>,
}

impl SpareFile {
    /// Removes the file, ignoring errors: it is not part of the log.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        let _ = storage.remove(&self.name);
    }
}

/// The spare files of one log.
#[derive(Debug)]
pub(crate) struct SpareFiles {
    is_on: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the log removes segments, so that spare files are expected.
    are_expected: bool,
    files: Vec<SpareFile>,
}

impl SpareFiles {
    /// Creates an empty set, which stays empty unless `is_on`.
    pub(crate) fn new(is_on: bool) -> Self {
        Self { is_on, state: Mutex::default() }
    }

    /// Whether removed files may be kept.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes that the log removes segments.
    pub(crate) fn expect(&self) {
        self.lock().are_expected = true;
    }

    /// Whether checksums of written sectors are needed. A log that removes no segments saves their
    /// time and memory.
    pub(crate) fn need_sums(&self) -> bool {
        self.is_on && self.lock().are_expected
    }

    /// How many more files may be kept.
    pub(crate) fn room(&self) -> usize {
        if self.is_on { SPARES_MAX.saturating_sub(self.lock().files.len()) } else { 0 }
    }

    /// Keeps a file, or discards it if there are enough.
    pub(crate) fn add(&self, spare: SpareFile, storage: &dyn Storage) {
        let files = &mut self.lock().files;
        if files.len() < SPARES_MAX {
            files.push(spare);
        } else {
            spare.discard(storage);
        }
    }

    /// Takes a file of at least `size` bytes.
    pub(crate) fn take(&self, size: u64) -> Option<SpareFile> {
        let files = &mut self.lock().files;
        let large_enough = files.iter().position(|spare| spare.header.size >= size)?;
        Some(files.remove(large_enough))
    }

    /// Removes all files. Returns whether there were any.
    pub(crate) fn discard_all(&self, storage: &dyn Storage) -> bool {
        let files = std::mem::take(&mut self.lock().files);
        let had_any = !files.is_empty();
        for spare in files {
            spare.discard(storage);
        }
        had_any
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
