//! Spare segment files: made ahead, so that a roll neither waits for zeros nor finds the disk full.
//!
//! A spare is a file of zeros, or an empty one, under a temporary name. It has no header and is no
//! part of the log; one that is found at open is removed.

use crate::base::env::Env;
use seawall_format::{Layout, Manifest};
use seawall_io::{File, Storage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger files are allocated, not written, when somebody waits for them.
const FILL_MAX: u64 = 2 << 20;
/// What is written, and what is synced, between two pauses of the preparer.
const CHUNK: u64 = 64 << 10;
const SYNC_EVERY: u64 = 1 << 20;
/// How many names that are taken are passed over for one file.
const NAMES_MAX: u32 = 10_000;

/// A file of zeros, allocated to its full length.
#[derive(Debug)]
pub(crate) struct PreallocatedFile {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// Its length, in bytes.
    pub(crate) size: u64,
}

/// The files of a segment that is yet to be made.
#[derive(Debug)]
pub(crate) struct PreallocatedSegment {
    /// For header, marks and seal; in the binary layout for the records, too.
    pub(crate) head: PreallocatedFile,
    /// For the records, where they have a file of their own.
    pub(crate) text: Option<PreallocatedFile>,
    /// Up to this length the file with the records has its space on the device; `None`: a text on a
    /// file system that cannot reserve any.
    pub(crate) reserved: Option<u64>,
}

impl PreallocatedSegment {
    pub(crate) fn binary(file: PreallocatedFile) -> Self {
        let reserved = Some(file.size);
        Self { head: file, text: None, reserved }
    }

    /// Makes one of `usual` bytes, or of `size_min` if there is no room for that.
    pub(crate) fn create_now(
        env: &Env,
        log: &Manifest,
        (usual, size_min): (u64, u64),
    ) -> io::Result<Self> {
        let attempt = |size| match log.layout {
            Layout::Text => Self::text(env, log.geometry.head_size(), size),
            _ => PreallocatedFile::create_now(env, size).map(Self::binary),
        };
        match attempt(usual) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && size_min < usual => {
                attempt(size_min)
            }
            made => made,
        }
    }

    fn text(env: &Env, head_size: u64, size: u64) -> io::Result<Self> {
        let head = PreallocatedFile::create_now(env, head_size)?;
        match PreallocatedFile::text(env, size) {
            Ok((text, is_reserved)) => {
                Ok(Self { head, text: Some(text), reserved: is_reserved.then_some(size) })
            }
            Err(error) => {
                head.discard(&*env.storage);
                Err(error)
            }
        }
    }

    /// Removes its files, as far as that works.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        self.head.discard(storage);
        if let Some(text) = self.text {
            text.discard(storage);
        }
    }
}

/// How long the file with the records has to be for a segment of a log that holds `data` bytes of
/// them: `size_min` at the least.
pub(crate) fn length_for(log: &Manifest, data: u64, size_min: u64) -> u64 {
    match log.layout {
        Layout::Text => data.max(size_min),
        _ => log.geometry.segment_size(data, size_min),
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

impl PreallocatedFile {
    /// Makes one at once: somebody waits. A short one is written, a long one allocated only, which
    /// costs later syncs but not the wait.
    pub(crate) fn create_now(env: &Env, size: u64) -> io::Result<Self> {
        env.deferred_delete.retry_after_reclaim(|| {
            let spare = Self::create(env, size)?;
            let made = if size <= FILL_MAX {
                spare.file.fill_with_zeros(size)
            } else {
                spare.file.allocate(size)
            };
            spare.keep_if(env, made)
        })
    }

    /// Makes an empty one: it grows.
    pub(crate) fn empty(env: &Env) -> io::Result<Self> {
        Self::create(env, 0)
    }

    /// Makes an empty one, for a text, with space for `size` bytes beyond its end; whether the file
    /// system reserves any.
    fn text(env: &Env, size: u64) -> io::Result<(Self, bool)> {
        env.deferred_delete.retry_after_reclaim(|| {
            let spare = Self::create(env, 0)?;
            match spare.file.reserve_space(size) {
                Ok(is_reserved) => Ok((spare, is_reserved)),
                Err(error) => spare.keep_if(env, Err(error)).map(|spare| (spare, false)),
            }
        })
    }

    /// Makes one in the background: chunk by chunk, synced as it grows so that no commit's sync
    /// waits for megabytes. `go_on` gets the number of bytes written so far, and pauses.
    pub(crate) fn create_in_background(
        env: &Env,
        size: u64,
        mut continue_after: impl FnMut(u64) -> bool,
    ) -> io::Result<Option<Self>> {
        let spare = Self::create(env, size)?;
        let zeros = vec![0; usize::try_from(CHUNK).expect("a short chunk")];
        let mut stopped = false;
        let mut written = 0;
        let mut fill = || -> io::Result<()> {
            // The room first: better to hear of a full disk now than halfway.
            env.deferred_delete.retry_after_reclaim(|| spare.file.allocate(size))?;
            while written < size && !stopped {
                let part = zeros.get(..usize::try_from(size - written).unwrap_or(usize::MAX));
                let part = part.unwrap_or(&zeros);
                spare.file.write_at(part, written)?;
                written += u64::try_from(part.len()).expect("a short chunk");
                if written.is_multiple_of(SYNC_EVERY) {
                    spare.file.sync()?;
                }
                stopped = !continue_after(written);
            }
            spare.file.sync()
        };
        let filled = fill();
        let spare = spare.keep_if(env, filled)?;
        if stopped {
            spare.discard(&*env.storage);
            return Ok(None);
        }
        Ok(Some(spare))
    }

    /// Removes it, as far as that works: it is not part of the log.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        let _ = storage.remove(&self.name);
    }

    fn create(env: &Env, size: u64) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let number = env.spares.fetch_add(1, Ordering::Relaxed);
            let name = format!("spare-{number}.tmp");
            match env.storage.create(&name) {
                // What an open could not remove: a directory, another's file.
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
