//! Direct writes, which bypass the page cache where the file system supports it.

use std::fs::File;
use std::io;

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::io::Errno;

/// The smallest direct write in bytes. Shorter ones gain little, and the next reader would have to
/// read from the device.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST: usize = 64 << 10;

/// A second descriptor of the same file for direct writes, opened at the first use.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay {
    file: std::sync::OnceLock<Option<File>>,
    is_refused: std::sync::atomic::AtomicBool,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl DirectWay {
    /// Writes the part of `bytes` that a direct write can take and returns its length in bytes;
    /// that part is durable. The caller writes the rest through the cache.
    pub(crate) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        use std::sync::atomic::Ordering;
        if !is_aligned(bytes, offset) || self.is_refused.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let Some(way) = self.file.get_or_init(|| open_again(file)) else { return Ok(0) };
        match way.write_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) if is_refused(&error) => {
                self.is_refused.store(true, Ordering::Relaxed);
                Ok(0)
            }
            written => written,
        }
    }
}

/// Returns whether memory, offset and length are aligned and the write is long enough.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    use crate::aligned::DIRECT_ALIGNMENT;
    let offset = usize::try_from(offset).unwrap_or(1);
    bytes.len() >= LEAST
        && [bytes.as_ptr().addr(), bytes.len(), offset]
            .iter()
            .all(|number| number.is_multiple_of(DIRECT_ALIGNMENT))
}

/// Opens the same file again, whatever its name is now, with a sync in each write.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn open_again(file: &File) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(rustix::fs::CWD, path.as_str(), flags, Mode::empty());
    rustix::io::retry_on_intr(open).ok().map(File::from)
}

/// Returns whether the file system does not support direct writes to this file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// This system has no direct writes.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl DirectWay {
    pub(crate) fn write(&self, _: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }
}
