//! Preallocated segment files, so that a rotation neither waits for zeros nor finds the disk full.
//!
//! A preallocated file is filled with zeros, only allocated, or empty. It has a temporary name
//! (`spare-*.tmp`) and no header, and is not part of the log; the next open removes leftovers.

use crate::base::env::{Env, is_full};
use crate::base::error::Error;
use crate::base::num::to_u64;
use seawall_format::before::SectorSums;
use seawall_format::{Epoch, Geometry, Manifest, SegmentHeader, SegmentRef};
use seawall_io::{File, Storage};
use std::io;
use std::sync::Arc;

/// A larger file is allocated, not filled with zeros, when a caller waits for it.
const FILL_MAX: u64 = 2 << 20;
/// Bytes written between two pauses of the preallocator, and bytes between two syncs.
const CHUNK: u64 = 64 << 10;
const SYNC_EVERY: u64 = 1 << 20;
/// Bytes per read of a file that is copied.
const COPY_CHUNK: usize = 1 << 20;
/// How many taken names are skipped to find a free one.
const NAMES_MAX: u32 = 10_000;

/// Whether to go on filling a file with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filling {
    Continue,
    /// Keep the file as it is: all of it is allocated and reads as zeros.
    Enough,
    /// Remove the file.
    Stop,
}

/// A file under a temporary name.
#[derive(Debug)]
pub(crate) struct PreallocatedFile {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// The size that it was created with, in bytes; 0 for one that grows.
    pub(crate) size: u64,
}

/// The files of a future segment.
#[derive(Debug)]
pub(crate) struct PreallocatedSegment {
    /// Holds header, marks and seal; in the binary layout also the records.
    pub(crate) head: PreallocatedFile,
    /// Holds the records in the text layout.
    pub(crate) text: Option<PreallocatedFile>,
    /// Size up to which space for records is reserved on the device; `None` for a text on a file
    /// system that cannot reserve space.
    pub(crate) reserved: Option<u64>,
    /// Of a file that was used before: the segment that its table is for.
    pub(crate) life: Option<SegmentRef>,
    /// Of a file that may be used again: the checksums of what it holds.
    pub(crate) sums: Option<SectorSums>,
    /// Of a segment that was named ahead: its header, which does not say where it begins.
    pub(crate) named: Option<SegmentHeader>,
}

impl PreallocatedSegment {
    pub(crate) fn binary(file: PreallocatedFile) -> Self {
        let reserved = Some(file.size);
        Self { head: file, text: None, reserved, life: None, sums: None, named: None }
    }

    /// A file of zeros, with their checksums if the log needs them. Records begin at `data_start`.
    pub(crate) fn zeros(env: &Env, file: PreallocatedFile, data_start: u64) -> Self {
        let of_zeros = || SectorSums::of_zeros(data_start, file.size);
        let sums = env.spare_files.need_sums().then(of_zeros);
        Self { sums, ..Self::binary(file) }
    }

    /// A file that was used before, ready to become this segment.
    pub(crate) fn reused(file: PreallocatedFile, life: SegmentRef, sums: SectorSums) -> Self {
        Self { life: Some(life), sums: Some(sums), ..Self::binary(file) }
    }

    /// Creates the files of a segment of `usual` bytes, or of `size_min` if the disk is too full.
    pub(crate) fn create_now(
        env: &Env,
        log: &Manifest,
        (usual, size_min): (u64, u64),
    ) -> io::Result<Self> {
        let attempt = |size| {
            if log.layout.has_growing_file() {
                Self::text(env, log.geometry.head_size(), size)
            } else {
                PreallocatedFile::create_now(env, size).map(Self::binary)
            }
        };
        match attempt(usual) {
            Err(error) if is_full(&error) && size_min < usual => attempt(size_min),
            made => made,
        }
    }

    fn text(env: &Env, head_size: u64, size: u64) -> io::Result<Self> {
        let head = PreallocatedFile::create_now(env, head_size)?;
        match PreallocatedFile::text(env, size) {
            Ok((text, is_reserved)) => {
                let reserved = is_reserved.then_some(size);
                let text = Some(text);
                Ok(Self { head, text, reserved, life: None, sums: None, named: None })
            }
            Err(error) => {
                head.discard(&*env.storage);
                Err(error)
            }
        }
    }

    /// The epoch of the segment that these files become.
    pub(crate) fn epoch(&self, env: &Env) -> io::Result<Epoch> {
        self.life.map_or_else(|| env.entropy.random().map(Epoch), |life| Ok(life.epoch))
    }

    /// How many writes may be in flight in the segment that these files become, at most `wanted`.
    /// With more than one, each batch fills its last block. The space promised to the `data` bytes
    /// that must fit, and to the open batch of any size, does not include that filling.
    pub(crate) fn in_flight_max(&self, log: &Manifest, wanted: u8, data: u64) -> u8 {
        let Geometry { block, batch_max, .. } = log.geometry;
        let all = data + u64::from(batch_max) + 2 * u64::from(block);
        if log.geometry.data_start() + all <= self.head.size { wanted } else { 1 }
    }

    /// Removes the files, ignoring errors.
    pub(crate) fn discard(self, env: &Env) {
        self.head.discard(&*env.storage);
        if let Some(text) = self.text {
            text.discard(&*env.storage);
        }
        if let Some(life) = self.life {
            // Removed after the file of a named segment, whose end is unknown without the table.
            if self.named.is_none() || env.sync_dir().is_ok() {
                let _ = env.storage.remove(&life.id.before_name());
            }
        }
    }
}

/// Size of the file that holds `data` bytes of records, but at least `size_min`.
pub(crate) fn length_for(log: &Manifest, data: u64, size_min: u64) -> u64 {
    log.layout.data_file_size(log.geometry, data, size_min)
}

/// The error of a call for which there is no file for the next segment.
pub(crate) fn cannot_create(source: io::Error) -> Error {
    if is_full(&source) || source.kind() == io::ErrorKind::FileTooLarge {
        Error::DiskFull { log: None, source }
    } else {
        Error::io_in("create a file for the next segment")(source)
    }
}

/// Replaces the file `name` by a copy of `source`, durably or not at all. The copy is written under
/// a temporary name, which an open would remove.
pub(crate) fn replace(env: &Env, source: &dyn File, name: &str) -> io::Result<()> {
    let spare = PreallocatedFile::empty(env)?;
    let made = copy(source, &*spare.file)
        .and_then(|()| env.storage.rename(&spare.name, name))
        .and_then(|()| env.storage.sync_dir());
    if made.is_err() {
        spare.discard(&*env.storage);
    }
    made
}

/// Copies a whole file and syncs the copy.
fn copy(source: &dyn File, target: &dyn File) -> io::Result<()> {
    let mut at = 0;
    loop {
        let mut bytes = vec![0; COPY_CHUNK];
        let read = source.read_at(&mut bytes, at)?;
        if read == 0 {
            return target.sync();
        }
        target.write_at(bytes.get(..read).unwrap_or_default(), at)?;
        at += to_u64(read);
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

impl PreallocatedFile {
    /// Creates a file while a caller waits. A short one is filled with zeros; a long one is only
    /// allocated, which makes later syncs slower but the wait short.
    pub(crate) fn create_now(env: &Env, size: u64) -> io::Result<Self> {
        env.retry_after_reclaim(|| {
            let spare = Self::create(env, size)?;
            let made = if size <= FILL_MAX {
                spare.file.fill_with_zeros(size)
            } else {
                spare.file.allocate(size)
            };
            spare.keep_if(env, made)
        })
    }

    /// Creates an empty file that grows.
    pub(crate) fn empty(env: &Env) -> io::Result<Self> {
        Self::create(env, 0)
    }

    /// Creates an empty file with `size` bytes reserved after its end. Returns whether the file
    /// system supports that.
    fn text(env: &Env, size: u64) -> io::Result<(Self, bool)> {
        env.retry_after_reclaim(|| {
            let spare = Self::create(env, 0)?;
            match spare.file.reserve_space(size) {
                Ok(is_reserved) => Ok((spare, is_reserved)),
                Err(error) => spare.keep_if(env, Err(error)).map(|spare| (spare, false)),
            }
        })
    }

    /// Creates a file in small chunks, synced as it grows, so that no commit's sync has to wait for
    /// megabytes. `next_step` is called with the bytes written so far, and may pause.
    pub(crate) fn create_in_background(
        env: &Env,
        size: u64,
        mut next_step: impl FnMut(u64) -> Filling,
    ) -> io::Result<Option<Self>> {
        let spare = Self::create(env, size)?;
        let zeros = vec![0; usize::try_from(CHUNK).expect("a short chunk")];
        let (mut step, mut written) = (Filling::Continue, 0);
        let mut fill = || -> io::Result<()> {
            // Allocates first, to find out early that the disk is full.
            env.retry_after_reclaim(|| spare.file.allocate(size))?;
            while written < size && step == Filling::Continue {
                let part = zeros.get(..usize::try_from(size - written).unwrap_or(usize::MAX));
                let part = part.unwrap_or(&zeros);
                spare.file.write_at(part, written)?;
                written += u64::try_from(part.len()).expect("a short chunk");
                if written.is_multiple_of(SYNC_EVERY) {
                    spare.file.sync()?;
                }
                step = next_step(written);
            }
            spare.file.sync()
        };
        let filled = fill();
        let spare = spare.keep_if(env, filled)?;
        if step == Filling::Stop {
            spare.discard(&*env.storage);
            return Ok(None);
        }
        Ok(Some(spare))
    }

    /// Removes the file, ignoring errors: it is not part of the log.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        let _ = storage.remove(&self.name);
    }

    fn create(env: &Env, size: u64) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let name = env.spare_name();
            match env.storage.create(&name) {
                // An entry that the last open could not remove, for example a directory or another
                // user's file.
                Err(error) if is_taken(&error) && attempt < NAMES_MAX => attempt += 1,
                made => return made.map(|file| Self { name, file, size }),
            }
        }
    }

    fn keep_if(self, env: &Env, made: io::Result<()>) -> io::Result<Self> {
        match made {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard(&*env.storage);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::Options;
    use seawall_testkit::{MemStorage, What};

    const SIZE: u64 = 1 << 20;

    fn made(storage: &MemStorage, step: Filling) -> Option<PreallocatedFile> {
        let env = Env::new(&Options::new(), Arc::new(storage.clone()));
        PreallocatedFile::create_in_background(&env, SIZE, |_| step).expect("the device has room")
    }

    #[test]
    fn file_without_all_its_zeros_is_whole_after_a_power_cut() {
        let mut steps = vec![];
        for step in [Filling::Continue, Filling::Enough] {
            let storage = MemStorage::new();
            let name = made(&storage, step).expect("a file").name;
            let after = storage.power_cut(|item| item.what == What::Directory);
            let size = usize::try_from(SIZE).expect("a MiB");
            assert_eq!(after.bytes(&name), Some(vec![0; size]), "{step:?}");
            steps.push(storage.steps());
        }
        assert!(steps[1] < steps[0] / 2, "fewer writes: {steps:?}");
    }

    #[test]
    fn file_that_is_not_wanted_any_more_is_removed() {
        let storage = MemStorage::new();
        assert!(made(&storage, Filling::Stop).is_none());
        assert_eq!(storage.names(), [""; 0]);
    }
}
