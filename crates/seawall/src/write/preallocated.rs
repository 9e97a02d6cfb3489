//! Spare segment files: made ahead, so that a roll neither waits for zeros nor finds the disk full.
//!
//! A spare is a file of zeros, or an empty one, under a temporary name. It has no header and is no
//! part of the log; one that is found at open is removed.

use crate::base::env::Machine;
use seawall_format::{Layout, Manifest};
use seawall_io::{File, Storage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Larger files are allocated, not written, when somebody waits for them.
const WRITTEN_MAX: u64 = 2 << 20;
/// What is written, and what is synced, between two pauses of the preparer.
const CHUNK: u64 = 64 << 10;
const SYNC_EVERY: u64 = 1 << 20;
/// How many names that are taken are passed over for one file.
const NAMES_MAX: u32 = 10_000;

/// A file of zeros, allocated to its full length.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// Its length, in bytes.
    pub(crate) size: u64,
}

/// The files of a segment that is yet to be made.
#[derive(Debug)]
pub(crate) struct SpareSegment {
    /// For header, marks and seal; in the binary layout for the records, too.
    pub(crate) head: Spare,
    /// For the records, where they have a file of their own.
    pub(crate) text: Option<Spare>,
    /// Up to this length the file with the records has its space on the device; `None`: a text on a
    /// file system that cannot reserve any.
    pub(crate) reserved: Option<u64>,
}

impl SpareSegment {
    pub(crate) fn binary(file: Spare) -> Self {
        let reserved = Some(file.size);
        Self { head: file, text: None, reserved }
    }

    /// Makes one of `usual` bytes, or of `least` if there is no room for that.
    pub(crate) fn at_once(
        machine: &Machine,
        log: &Manifest,
        (usual, least): (u64, u64),
    ) -> io::Result<Self> {
        let attempt = |size| match log.layout {
            Layout::Text => Self::readable(machine, log.geometry.head_size(), size),
            _ => Spare::at_once(machine, size).map(Self::binary),
        };
        match attempt(usual) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && least < usual => {
                attempt(least)
            }
            made => made,
        }
    }

    fn readable(machine: &Machine, head_size: u64, size: u64) -> io::Result<Self> {
        let head = Spare::at_once(machine, head_size)?;
        match Spare::text(machine, size) {
            Ok((text, is_reserved)) => {
                Ok(Self { head, text: Some(text), reserved: is_reserved.then_some(size) })
            }
            Err(error) => {
                head.discard(&*machine.storage);
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
/// them: `least` at the least.
pub(crate) fn length_for(log: &Manifest, data: u64, least: u64) -> u64 {
    match log.layout {
        Layout::Text => data.max(least),
        _ => log.geometry.segment_size(data, least),
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

impl Spare {
    /// Makes one at once: somebody waits. A short one is written, a long one allocated only, which
    /// costs later syncs but not the wait.
    pub(crate) fn at_once(machine: &Machine, size: u64) -> io::Result<Self> {
        machine.retired.for_room(|| {
            let spare = Self::create(machine, size)?;
            let made = if size <= WRITTEN_MAX {
                spare.file.fill_with_zeros(size)
            } else {
                spare.file.allocate(size)
            };
            spare.keep_if(machine, made)
        })
    }

    /// Makes an empty one: it grows.
    pub(crate) fn empty(machine: &Machine) -> io::Result<Self> {
        Self::create(machine, 0)
    }

    /// Makes an empty one, for a text, with space for `size` bytes beyond its end; whether the file
    /// system reserves any.
    fn text(machine: &Machine, size: u64) -> io::Result<(Self, bool)> {
        machine.retired.for_room(|| {
            let spare = Self::create(machine, 0)?;
            match spare.file.reserve_space(size) {
                Ok(is_reserved) => Ok((spare, is_reserved)),
                Err(error) => spare.keep_if(machine, Err(error)).map(|spare| (spare, false)),
            }
        })
    }

    /// Makes one in the background: chunk by chunk, synced as it grows so that no commit's sync
    /// stands behind megabytes. `go_on` is told how many bytes are written, and takes the pause.
    pub(crate) fn in_background(
        machine: &Machine,
        size: u64,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> io::Result<Option<Self>> {
        let spare = Self::create(machine, size)?;
        let zeros = vec![0; usize::try_from(CHUNK).expect("a short chunk")];
        let mut stopped = false;
        let mut written = 0;
        let mut fill = || -> io::Result<()> {
            // The room first: better to hear of a full disk now than halfway.
            machine.retired.for_room(|| spare.file.allocate(size))?;
            while written < size && !stopped {
                let part = zeros.get(..usize::try_from(size - written).unwrap_or(usize::MAX));
                let part = part.unwrap_or(&zeros);
                spare.file.write_at(part, written)?;
                written += u64::try_from(part.len()).expect("a short chunk");
                if written.is_multiple_of(SYNC_EVERY) {
                    spare.file.sync()?;
                }
                stopped = !go_on(written);
            }
            spare.file.sync()
        };
        let filled = fill();
        let spare = spare.keep_if(machine, filled)?;
        if stopped {
            spare.discard(&*machine.storage);
            return Ok(None);
        }
        Ok(Some(spare))
    }

    /// Removes it, as far as that works: it is not part of the log.
    pub(crate) fn discard(self, storage: &dyn Storage) {
        let _ = storage.remove(&self.name);
    }

    fn create(machine: &Machine, size: u64) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let number = machine.spares.fetch_add(1, Ordering::Relaxed);
            let name = format!("spare-{number}.tmp");
            match machine.storage.create(&name) {
                // What an open could not remove: a directory, another's file.
                Err(error) if is_taken(&error) && attempt < NAMES_MAX => attempt += 1,
                made => return made.map(|file| Self { name, file, size }),
            }
        }
    }

    fn keep_if(self, machine: &Machine, made: io::Result<()>) -> io::Result<Self> {
        match made {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard(&*machine.storage);
                Err(error)
            }
        }
    }
}
