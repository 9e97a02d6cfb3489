//! Writes past the cache, where the file system has them.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;

/// Shorter ones gain little, and whoever reads them next would have to ask the device.
#[cfg(any(target_os = "linux", target_os = "android"))]
const LEAST: usize = 64 << 10;

/// The way past the cache into a file: the same file, opened once more when that is first used.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay {
    file: std::sync::OnceLock<Option<File>>,
    is_refused: std::sync::atomic::AtomicBool,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl DirectWay {
    /// Writes what can go that way; how many bytes are durable then. The rest is to go through the
    /// cache.
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

/// Whether that are whole blocks, in memory and in the file, and worth it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    use crate::DIRECT_ALIGNMENT;
    let offset = usize::try_from(offset).unwrap_or(1);
    bytes.len() >= LEAST
        && [bytes.as_ptr().addr(), bytes.len(), offset]
            .iter()
            .all(|number| number.is_multiple_of(DIRECT_ALIGNMENT))
}

/// The same file, whatever its name is by now, with a barrier in each write.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn open_again(file: &File) -> Option<File> {
    use rustix::fs::OFlags;
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open_direct(Path::new(&path), OFlags::DSYNC).ok()
}

/// Opens a file for writes past the cache.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] if this file system has none; whatever the device says.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn open_direct(path: &Path, more: rustix::fs::OFlags) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | more;
    match rustix::io::retry_on_intr(|| openat(CWD, path, flags, Mode::empty())) {
        Ok(file) => Ok(file.into()),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Err(unsupported("direct writes")),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file system has no such call, or not of a file like this one.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

pub(crate) fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("this file system has no {what}"))
}

/// There is none here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Default)]
pub(crate) struct DirectWay;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl DirectWay {
    pub(crate) fn write(&self, _: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Ok(0)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn open_direct(_: &Path, _: rustix::fs::OFlags) -> io::Result<File> {
    Err(unsupported("direct writes"))
}
