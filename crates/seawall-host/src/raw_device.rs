//! A file for measuring a device: each method is one system call and nothing more.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use seawall_io::{File as _, PosixFile, explain};

/// How many names are tried.
const NAMES_MAX: u32 = 1000;

/// A file that is written and synced with single calls. A new one has no name, and its space is
/// freed when it is closed.
///
/// Logs are not written with this type. It measures the cost of each kind of durable write in a
/// directory. A short call is an error here, and no call is repeated.
///
/// # Examples
///
/// ```
/// use seawall_host::RawFile;
///
/// let file = RawFile::create(&std::env::temp_dir(), false)?;
/// file.fill(8192)?;
/// file.write(&[1; 4096], 4096)?;
/// file.sync_data()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RawFile {
    file: PosixFile,
    /// The same file opened for direct writes, if requested.
    direct: Option<File>,
}

impl RawFile {
    /// A new file in the directory `folder`. With `direct`, writes bypass the cache.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] if this file system has no direct writes; otherwise the
    /// device's error.
    pub fn create(folder: &Path, direct: bool) -> io::Result<Self> {
        let (path, made) = create_unused(folder)?;
        let opened = direct.then(|| open_direct(&path)).transpose();
        rustix::fs::unlink(&path)?;
        let file = PosixFile::new(made.into(), path.display().to_string());
        Ok(Self { file, direct: opened? })
    }

    /// Opens an existing file again.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`]; otherwise the device's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let file = PosixFile::new(opened.into(), path.display().to_string());
        Ok(Self { file, direct: None })
    }

    fn target(&self) -> &File {
        self.direct.as_ref().unwrap_or(self.file.as_std())
    }

    /// Writes once at `offset`, without a sync.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WriteZero`] if the write was short; [`io::ErrorKind::Unsupported`] if a
    /// direct write is refused; otherwise the device's error.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        whole(bytes, self.target().write_at(bytes, offset))
    }

    /// Writes once at `offset` with a call that returns when the bytes survive a power cut.
    ///
    /// # Errors
    ///
    /// As [`RawFile::write`]; also [`io::ErrorKind::Unsupported`] if the system has no such call.
    pub fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        whole(bytes, write_synced(self.target(), bytes, offset))
    }

    /// Syncs the data, as a log does for its segments.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn sync_data(&self) -> io::Result<()> {
        self.target().sync_data()
    }

    /// Syncs the data and all metadata of the file, including its times.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn sync_all(&self) -> io::Result<()> {
        self.target().sync_all()
    }

    /// Fills the empty file with `length` written zeros, as a log does for its segments.
    ///
    /// # Errors
    ///
    /// The file is not empty, or the disk is full.
    pub fn fill(&self, length: u64) -> io::Result<()> {
        self.file.fill_with_zeros(length)?;
        self.sync_all()
    }

    /// Truncates the file, and then allocates `length` bytes without writing them.
    ///
    /// # Errors
    ///
    /// The disk is full. [`io::ErrorKind::Unsupported`] if this file system can only write them.
    pub fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        if length > 0 {
            if !self.file.reserve_space(length)? {
                return Err(unsupported("allocation without writing"));
            }
            self.file.allocate(length)?;
        }
        self.sync_all()
    }

    /// The longest write in bytes that a power cut leaves either done or not begun; 0 if the file
    /// system or the device has none. `None` if the system does not tell.
    #[must_use]
    pub fn atomic_write_max(&self) -> Option<u32> {
        atomic_write_max(self.target())
    }

    /// Reads at `offset`; returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Syncs the file and asks the system to drop its cached pages, so that the next read comes
    /// from the device.
    ///
    /// This is advice: the system may keep pages that are in use without reporting it. A device, or
    /// the host of a virtual machine, has its own cache, which cannot be dropped from here.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] on systems without this advice; otherwise the device's error.
    pub fn forget_cached(&self) -> io::Result<()> {
        // Dirty pages would not be dropped.
        self.sync_data()?;
        forget_cached(self.file.as_std())
    }
}

/// Creates a file with a name that no other has: a killed process may have left one, also with the
/// id of this process.
fn create_unused(folder: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut number = 0;
    loop {
        let path = folder.join(format!("seawall-bare-{}-{number}.tmp", std::process::id()));
        match rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(made) => return Ok((path, made)),
            Err(Errno::EXIST) if number < NAMES_MAX => number += 1,
            Err(error) => return Err(explain("create", &path.display().to_string(), error)),
        }
    }
}

fn whole(bytes: &[u8], written: io::Result<usize>) -> io::Result<()> {
    match written {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(error) if is_refused(&error) => Err(unsupported("such writes")),
        Err(error) => Err(error),
    }
}

/// Opens a file for direct writes.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    match rustix::io::retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty())) {
        Ok(file) => Ok(file.into()),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Err(unsupported("direct writes")),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn open_direct(_: &Path) -> io::Result<File> {
    Err(unsupported("direct writes"))
}

/// Returns whether the file system does not support the call for this file.
fn is_refused(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
}

fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("this file system has no {what}"))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn write_synced(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    let parts = [io::IoSlice::new(bytes)];
    Ok(pwritev2(file, &parts, offset, ReadWriteFlags::DSYNC)?)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn forget_cached(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn forget_cached(_: &File) -> io::Result<()> {
    Err(unsupported("call to drop a file from the cache"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn write_synced(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
    Err(unsupported("writes that sync"))
}

#[cfg(target_os = "linux")]
fn atomic_write_max(file: &File) -> Option<u32> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    /// `STATX_WRITE_ATOMIC` of statx(2), since Linux 6.11.
    const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);
    let found = statx(file, "", AtFlags::EMPTY_PATH, WRITE_ATOMIC).ok()?;
    let is_told = StatxFlags::from_bits_retain(found.stx_mask).contains(WRITE_ATOMIC);
    is_told.then_some(found.stx_atomic_write_unit_max)
}

#[cfg(not(target_os = "linux"))]
fn atomic_write_max(_: &File) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::{AlignedMemory, DIRECT_ALIGNMENT};

    #[test]
    fn written_data_is_readable_without_a_name() {
        let folder = std::env::temp_dir().join(format!("seawall-bare-test-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for direct in [false, true] {
            let file = match RawFile::create(&folder, direct) {
                Err(error) if direct && error.kind() == io::ErrorKind::Unsupported => continue,
                file => file.unwrap(),
            };
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
            file.fill(4 << 12).unwrap();
            let mut memory = AlignedMemory::default();
            let page = memory.first(DIRECT_ALIGNMENT);
            page.fill(7);
            file.write(page, 1 << 12).unwrap();
            file.sync_data().unwrap();
            match file.write_synced(page, 3 << 12) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
                written => written.unwrap(),
            }
            let mut found = vec![1; 5 << 12];
            assert_eq!(file.read(&mut found, 0).unwrap(), 4 << 12);
            let pages: Vec<u8> = found.chunks(1 << 12).map(|page| page[4095]).collect();
            assert_eq!(pages, [0, 7, 0, 7, 1], "direct: {direct}");
            // If the device reports a maximum, it is 0 or a power of two.
            let atomic = file.atomic_write_max();
            assert!(atomic.is_none_or(|max| max == 0 || max.is_power_of_two()), "{atomic:?}");
            match file.allocate(1 << 12) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
                allocated => allocated.unwrap(),
            }
            assert_eq!(file.read(&mut found, 0).unwrap(), 1 << 12);
            assert_eq!(found[0], 0);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn file_that_a_killed_process_left_is_in_no_way() {
        let name = format!("seawall-bare-left-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let (left, _) = create_unused(&folder).unwrap();
        RawFile::create(&folder, false).unwrap();
        assert!(left.exists());
        std::fs::remove_dir_all(&folder).unwrap();
        let error = RawFile::create(&folder, false).unwrap_err().to_string();
        assert!(error.contains(&format!("{}/", folder.display())), "{error}");
    }

    #[test]
    fn unaligned_access_is_refused_by_name() {
        let Ok(file) = RawFile::create(&std::env::temp_dir(), true) else { return };
        file.fill(4 << 12).unwrap();
        if let Err(error) = file.write(&[1; 100], 5) {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        }
    }
}
