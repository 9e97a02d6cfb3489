//! A file to measure a device with: each method is one system call, with nothing around it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use seawall_io::{File as _, PosixFile};

/// A file that is written and synced by single calls; a new one has no name, and takes room as long
/// as it is open.
///
/// No log is written by this. It shows what durable writes cost in a place, by every way to make
/// them; a call that falls short is an error here, and none is repeated.
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
    /// The same file past the cache, if that was asked for.
    direct: Option<File>,
}

impl RawFile {
    /// A new file in the directory `folder`; if it is to be `direct`, writes go past the cache.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] if this file system has no direct writes; whatever the device
    /// says.
    pub fn create(folder: &Path, direct: bool) -> io::Result<Self> {
        let path = folder.join(format!("seawall-bare-{}.tmp", std::process::id()));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?;
        let opened = direct.then(|| open_direct(&path)).transpose();
        rustix::fs::unlink(&path)?;
        let file = PosixFile::new(made.into(), path.display().to_string());
        Ok(Self { file, direct: opened? })
    }

    /// A file that is there, opened once more.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`]; whatever the device says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let file = PosixFile::new(opened.into(), path.display().to_string());
        Ok(Self { file, direct: None })
    }

    fn target(&self) -> &File {
        self.direct.as_ref().unwrap_or(self.file.as_std())
    }

    /// Writes once, at `offset`, and syncs nothing.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WriteZero`] if not all was written; [`io::ErrorKind::Unsupported`] if a
    /// direct write is refused; whatever the device says.
    pub fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        whole(bytes, self.target().write_at(bytes, offset))
    }

    /// Writes once, at `offset`; the same call returns when that survives a power cut.
    ///
    /// # Errors
    ///
    /// As [`RawFile::write`], and [`io::ErrorKind::Unsupported`] where there is no such call.
    pub fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        whole(bytes, write_synced(self.target(), bytes, offset))
    }

    /// The barrier of a log's segments.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    pub fn sync_data(&self) -> io::Result<()> {
        self.target().sync_data()
    }

    /// A barrier for everything that belongs to the file, its times too.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    pub fn sync_all(&self) -> io::Result<()> {
        self.target().sync_all()
    }

    /// Makes the empty file that many bytes of zeros that are written, as a log's segments are.
    ///
    /// # Errors
    ///
    /// If it is not empty; a full disk.
    pub fn fill(&self, length: u64) -> io::Result<()> {
        self.file.fill_with_zeros(length)?;
        self.sync_all()
    }

    /// Makes it empty, and then that many bytes whose room is set aside and not written.
    ///
    /// # Errors
    ///
    /// A full disk.
    pub fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        if length > 0 {
            self.file.allocate(length)?;
        }
        self.sync_all()
    }

    /// Reads what is there.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Writes out what there is to write, and lets the system forget what it keeps of the file in
    /// memory, so that it is read from below.
    ///
    /// That is advice: the system may keep pages that others use, and says nothing of it. And a
    /// device, or the host of a virtual one, has memory of its own, which nobody can reach from
    /// here.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] where systems cannot be told so; whatever the device says.
    pub fn forget_cached(&self) -> io::Result<()> {
        // Pages that are still to be written would stay.
        self.sync_data()?;
        forget_cached(self.file.as_std())
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

/// Opens a file for writes past the cache.
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

/// Whether the file system has no such call, or not for this file.
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
    Err(unsupported("way to forget a file"))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn write_synced(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
    Err(unsupported("writes that sync"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::{AlignedMemory, DIRECT_ALIGNMENT};

    #[test]
    fn what_is_written_is_there_and_the_name_is_not() {
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
            file.allocate(1 << 12).unwrap();
            assert_eq!(file.read(&mut found, 0).unwrap(), 1 << 12);
            assert_eq!(found[0], 0);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_not_aligned_is_refused_by_name() {
        let Ok(file) = RawFile::create(&std::env::temp_dir(), true) else { return };
        file.fill(4 << 12).unwrap();
        if let Err(error) = file.write(&[1; 100], 5) {
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        }
    }
}
