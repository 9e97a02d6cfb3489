//! A simulated device, and wrappers of files that slow down, count or hold up calls.

#![allow(dead_code, reason = "each test uses a part of it")]

mod folder;

pub(crate) use folder::Folder;
use seawall_disk::{Files, Options};
use seawall_io::{Clock, File, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::fmt::{self, Debug, Formatter};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reports what is not tested here.
pub(crate) fn skipped(what: &str) {
    // Unlike `eprintln`, this is not captured.
    let _ = writeln!(io::stderr(), "SKIPPED: {what}");
}

/// A device with a zeroed disk of `size` bytes and its dump area.
pub(crate) fn made(size: u64, options: &Options) -> MemStorage {
    let device = MemStorage::new();
    let home = device.create("home").unwrap();
    home.fill_with_zeros(size).unwrap();
    home.sync().unwrap();
    let area = device.create("area").unwrap();
    Files { home, area }.prepare(7, options).unwrap();
    device.sync_dir().unwrap();
    device
}

/// A call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The number of bytes.
    Write(usize),
    Sync,
    Read,
}

/// A file whose writes fail, and leave only their first bytes, as long as `is_broken`.
#[derive(Debug)]
struct Failing {
    file: Arc<dyn File>,
    is_broken: Arc<AtomicBool>,
}

/// Wraps a file so that a write stores only its first 8 KiB and fails, as long as `is_broken`.
pub(crate) fn failing(file: Arc<dyn File>, is_broken: Arc<AtomicBool>) -> Arc<dyn File> {
    Arc::new(Failing { file, is_broken })
}

impl File for Failing {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if !self.is_broken.load(Ordering::SeqCst) {
            return self.file.write_at(bytes, offset);
        }
        self.file.write_at(bytes.get(..8192).unwrap_or(bytes), offset)?;
        self.file.sync()?;
        Err(io::Error::other("a bad sector"))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.file.has_name()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.file.fill_with_zeros(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
}

/// A file, and a function to call before each write and sync and after each read.
struct Guarded<F> {
    file: Arc<dyn File>,
    on: F,
}

/// Wraps a file so that `on` is called before each write and sync, and after each read.
pub(crate) fn guarded(
    file: Arc<dyn File>,
    on: impl Fn(Call) + Send + Sync + 'static,
) -> Arc<dyn File> {
    Arc::new(Guarded { file, on })
}

/// Wraps a file so that each flush takes this long.
pub(crate) fn slow(file: Arc<dyn File>, flush: Duration) -> Arc<dyn File> {
    guarded(file, move |call| {
        if call == Call::Sync {
            SystemClock::new().sleep(flush);
        }
    })
}

impl<F> Debug for Guarded<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl<F: Fn(Call) + Send + Sync> File for Guarded<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset);
        (self.on)(Call::Read);
        read
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_uncached(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        (self.on)(Call::Write(bytes.len()));
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        (self.on)(Call::Sync);
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.file.has_name()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.file.fill_with_zeros(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
}
