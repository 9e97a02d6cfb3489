//! Direct reads and writes, which bypass the page cache where the file system supports it.

use std::fs::File;
use std::io;

#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::status;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::transfer::read_fully;
#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::io::Errno;

/// The smallest direct write in bytes. Shorter ones gain little, and the next reader would have to
/// read from the device.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST: usize = 64 << 10;

/// Another descriptor of the same file for direct access, opened at the first use.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay {
    /// Whether each write is durable when it returns.
    is_synced: bool,
    file: std::sync::OnceLock<Option<File>>,
    is_refused: std::sync::atomic::AtomicBool,
    has_written: std::sync::atomic::AtomicBool,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl DirectWay {
    pub(crate) fn new(is_synced: bool) -> Self {
        Self { is_synced, ..Self::default() }
    }

    /// Writes the part of `bytes` that a direct write can take and returns its length in bytes;
    /// that part is durable if `is_synced`. The caller writes the rest through the cache.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        use std::sync::atomic::Ordering;
        if bytes.len() < LEAST || !is_aligned(bytes, offset) {
            return Ok(0);
        }
        let Some(way) = self.way(file) else { return Ok(0) };
        match way.write_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if is_refused(&error) => {
                self.is_refused.store(true, Ordering::Relaxed);
                Ok(0)
            }
            written => {
                if written.is_ok() {
                    self.has_written.store(true, Ordering::Relaxed);
                }
                written
            }
        }
    }

    /// Whether a direct write succeeded, and none was refused.
    pub(crate) fn has_written(&self) -> bool {
        use std::sync::atomic::Ordering;
        self.has_written.load(Ordering::Relaxed) && !self.is_refused.load(Ordering::Relaxed)
    }

    /// Writes all of `bytes` without the cache.
    pub(crate) fn write_all(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let way = self.way(file).filter(|_| is_aligned(bytes, offset));
        way.ok_or(io::ErrorKind::Unsupported)?.write_all_at(bytes, offset)
    }

    /// Reads from the device until `buffer` is full or the file ends and returns the bytes read.
    /// Returns `None` if that is not possible.
    pub(crate) fn read(
        &self,
        file: &File,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<Option<usize>> {
        use std::os::unix::fs::FileExt;
        use std::sync::atomic::Ordering;
        if !is_aligned(buffer, offset) {
            return Ok(None);
        }
        let Some(way) = self.way(file) else { return Ok(None) };
        let read = read_fully(buffer, offset, |rest, at| {
            // Only the last block of the file is read in part.
            if is_aligned(rest, at) { way.read_at(rest, at) } else { end_at(way, at) }
        });
        match read {
            Err(error) if is_refused(&error) => {
                self.is_refused.store(true, Ordering::Relaxed);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// The descriptor. `None` if there is none, or if the file system refused to use it.
    pub(crate) fn way(&self, file: &File) -> Option<&File> {
        if self.is_refused.load(std::sync::atomic::Ordering::Relaxed) {
            return None;
        }
        self.file.get_or_init(|| open_again(file, self.is_synced)).as_ref()
    }
}

/// Returns zero, the number of bytes that follow, if the file ends at or before `offset`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn end_at(file: &File, offset: u64) -> io::Result<usize> {
    if status::length(file)?.is_some_and(|length| length > offset) {
        return Err(io::Error::other("the device returned a part of a block"));
    }
    Ok(0)
}

/// Returns whether memory, offset and length are aligned.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    use crate::memory::DIRECT_ALIGNMENT;
    let offset = usize::try_from(offset).unwrap_or(1);
    let numbers = [bytes.as_ptr().addr(), bytes.len(), offset];
    numbers.iter().all(|number| number.is_multiple_of(DIRECT_ALIGNMENT))
}

/// Opens the same file again, whatever its name is now.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_again(file: &File, is_synced: bool) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    // Not `self`: a thread can have descriptors of its own, and `self` is the first thread.
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let sync = if is_synced { OFlags::DSYNC } else { OFlags::empty() };
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | sync;
    let open = || rustix::fs::openat(rustix::fs::CWD, path.as_str(), flags, Mode::empty());
    let again = rustix::io::retry_on_intr(open).ok().map(File::from)?;
    // What /proc says may be of another process or thread.
    status::is_same_file(file, &again).then_some(again)
}

/// Returns whether the file system does not support direct access to this file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// This system has no direct access.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl DirectWay {
    pub(crate) fn new(_: bool) -> Self {
        Self
    }

    pub(crate) fn write(&self, _: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }

    pub(crate) fn has_written(&self) -> bool {
        false
    }

    pub(crate) fn write_all(&self, _: &File, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn read(&self, _: &File, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
}
