//! A log's directory and files on a real file system.

use std::fs::{self, TryLockError};
use std::io::{self, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, StatVfsMountFlags};
use rustix::io::{Errno, retry_on_intr};

pub(crate) mod draft;
mod in_place;
mod label;
mod lock;
mod own_name;
mod permissions;
mod removed;
mod reserve;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod room;

use label::Label;
use reserve::Reserve;

use crate::direct::DirectWay;
use crate::failure::{check_name, check_size, explain};
use crate::memory::DIRECT_ALIGNMENT;
use crate::status;
use crate::storage::{Access, File, Lock, Recycled, Storage};
use crate::transfer::{advance, read_fully, write_fully};

/// A directory of the file system.
///
/// It stays open: all later operations go to this directory, even if its path is renamed or
/// replaced. The path may contain symbolic links; links inside the directory are refused.
///
/// # Examples
///
/// ```
/// use seawall_io::{Access, File, PosixStorage, Storage};
///
/// # let path = std::env::temp_dir().join(format!("seawall-io-example-{}", std::process::id()));
/// let storage = PosixStorage::create(&path)?;
/// let file = storage.create("notes")?;
/// file.write_at(b"kept", 0)?;
/// file.sync()?;
/// storage.sync_dir()?;
///
/// let mut bytes = [0; 4];
/// PosixStorage::open(&path)?.open("notes", Access::Read)?.read_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"kept");
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PosixStorage {
    directory: OwnedFd,
    path: PathBuf,
    /// Filled while the lock is held.
    reserve: Reserve,
}

impl PosixStorage {
    fn over(directory: OwnedFd, path: PathBuf) -> Self {
        Self { directory, path, reserve: Reserve::default() }
    }

    /// Opens an existing directory. Symbolic links in `path` are followed, including the last
    /// component.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if nothing exists there, [`io::ErrorKind::NotADirectory`] if it
    /// is not a directory; otherwise the device's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path: PathBuf = path.components().collect();
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        match retry_on_intr(|| rustix::fs::openat(CWD, &path, flags, Mode::empty())) {
            Ok(directory) => Ok(Self::over(directory, path)),
            Err(error) => Err(not_a_directory(&path, error)),
        }
    }

    /// Creates a directory that only its owner can access, and makes it durable.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken; otherwise the device's error. After
    /// an error, or a crash during the call, a directory that exists may not be durable: see
    /// [`PosixStorage::sync_parent`].
    pub fn create(path: &Path) -> io::Result<Self> {
        rustix::fs::mkdir(path, Mode::RWXU)
            .map_err(|error| explain("create", &path.display().to_string(), error))?;
        let storage = Self::open(path)?;
        storage.sync_parent()?;
        Ok(storage)
    }

    /// Returns once this directory itself survives a power cut, not only its contents.
    ///
    /// Call this before relying on a directory that holds nothing durable yet: its creator may have
    /// crashed before its own sync.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn sync_parent(&self) -> io::Result<()> {
        let open = || rustix::fs::openat(&self.directory, "..", DIRECTORY, Mode::empty());
        retry_on_intr(open)
            .and_then(|parent| retry_on_intr(|| sync_all(&parent)))
            .map_err(|error| explain("sync", &format!("the parent of {}", self.place()), error))
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<fs::File> {
        check_name(name)?;
        if !flags.contains(OFlags::EXCL) {
            self.check_kind(name)?;
        }
        // Without NONBLOCK, opening a pipe would wait for its other end.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = match retry_on_intr(|| rustix::fs::openat(&self.directory, name, flags, mode)) {
            Ok(descriptor) => fs::File::from(descriptor),
            Err(Errno::LOOP) => return Err(invalid("it is a symbolic link")),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.is_file() { Ok(file) } else { Err(invalid(NOT_REGULAR)) }
    }

    /// Refuses anything but a regular file before it is opened: opening a device can have effects,
    /// such as rewinding a tape or starting a watchdog.
    fn check_kind(&self, name: &str) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let status = match rustix::fs::statat(&self.directory, name, flags) {
            Ok(status) => status,
            // The open call reports this.
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => Ok(()),
            FileType::Symlink => Err(invalid("it is a symbolic link")),
            _ => Err(invalid(NOT_REGULAR)),
        }
    }

    /// Refills the reserve if it was used.
    fn refill(&self) {
        self.reserve.fill(&self.directory);
    }

    fn wrap(&self, file: fs::File, name: &str) -> Arc<dyn File> {
        let label = Label::of_entry(self.label(name));
        Arc::new(PosixFile { label, ..PosixFile::new(file, String::new()) })
    }

    fn label(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn rename_without_replacing(&self, from: &str, to: &str) -> rustix::io::Result<()> {
        let directory = &self.directory;
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(directory, from, directory, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            other => return other,
        }
        // The file system cannot rename without replacing. Use a hard link, which never replaces a
        // file.
        match rustix::fs::linkat(directory, from, directory, to, AtFlags::empty()) {
            Ok(()) => return rustix::fs::unlinkat(directory, from, AtFlags::empty()),
            Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK) => {}
            other => return other,
        }
        // Hard links are not supported, either. No other process creates files here: the caller
        // holds the lock.
        match rustix::fs::statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => rustix::fs::renameat(directory, from, directory, to),
            Ok(_) => Err(Errno::EXIST),
            Err(error) => Err(error),
        }
    }

    fn is_regular(&self, entry: &rustix::fs::DirEntry) -> io::Result<bool> {
        if entry.file_type() != FileType::Unknown {
            return Ok(entry.file_type() == FileType::RegularFile);
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::statat(&self.directory, entry.file_name(), flags) {
            Ok(status) => Ok(FileType::from_raw_mode(status.st_mode) == FileType::RegularFile),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of all entries in this directory that are not regular files: directories, links,
    /// pipes.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn list_others(&self) -> io::Result<Vec<String>> {
        self.names(false).map_err(|error| explain("list", &self.place(), error))
    }

    fn names(&self, regular: bool) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let read = || Ok(retry_on_intr(|| Dir::read_from(&self.directory))?);
        for entry in self.reserve.open(read)? {
            let entry = entry?;
            // All names of a log are UTF-8.
            if let Ok(name) = entry.file_name().to_str()
                && ![".", ".."].contains(&name)
                && self.is_regular(&entry)? == regular
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

const NOT_REGULAR: &str = "it is not a regular file";

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Storage for PosixStorage {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        let opened = match access {
            // A reader can retry, and leaves the reserve to the writer.
            Access::Read => self.open_shared(name),
            Access::ReadWrite => self.reserve.open(|| self.open_file(name, flags)),
        };
        opened
            .map(|file| self.wrap(file, name))
            .map_err(|error| explain("open", &self.label(name), error))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.refill();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.reserve
            .open(|| self.open_file(name, flags))
            .map(|file| self.wrap(file, name))
            .map_err(|error| explain("create", &self.label(name), error))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
            .map_err(|error| explain("rename", &self.label(&format!("{from} to {to}")), error))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.rename_without_replacing(from, to)
            .map_err(|error| explain("rename", &self.label(&format!("{from} to {to}")), error))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
            .map_err(|error| explain("remove", &self.label(name), error))
    }

    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        // A process without write permission may still remove the file.
        let file = self.open_file(name, OFlags::RDWR).ok();
        self.remove(name)?;
        Ok(file.and_then(|file| self.if_abandoned(file, name)))
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        check_name(name)?;
        check_name(spare)?;
        self.keep_or_remove(name, spare)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.names(true).map_err(|error| explain("list", &self.place(), error))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.refill();
        retry_on_intr(|| sync_all(&self.directory))
            .or_else(|error| nothing_to_sync(&self.directory, error))
            .map_err(|error| explain("sync", &self.place(), error))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        for _ in 0..LOCK_ATTEMPTS {
            match self.try_lock(name) {
                Ok(Some(lock)) => {
                    self.reserve.begin(&self.directory);
                    return Ok(Some(Box::new(lock)));
                }
                Ok(None) => pause(),
                Err(error) => return Err(explain("lock", &self.label(name), error)),
            }
        }
        Ok(None)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.probe_lock(name).map_err(|error| explain("lock", &self.label(name), error))
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let locked = self.try_lock_file(name);
        let locked = locked.map_err(|error| explain("lock", &self.label(name), error))?;
        Ok(locked.map(|lock| Box::new(lock) as Box<dyn Lock>))
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.probe_file_lock(name).map_err(|error| explain("lock", &self.label(name), error))
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        check_name(name)?;
        match rustix::fs::mkdirat(&self.directory, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(explain("create", &self.label(name), error)),
        }
        // Sync even if it existed: its creator may have crashed before its own sync.
        self.sync_dir()?;
        let path = self.path.join(name);
        let open = || rustix::fs::openat(&self.directory, name, DIRECTORY, Mode::empty());
        match retry_on_intr(open) {
            Ok(directory) => Ok(Arc::new(Self::over(directory, path))),
            Err(error) => Err(not_a_directory(&path, error)),
        }
    }

    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        check_name(name)?;
        let path = self.path.join(name);
        let open = || rustix::fs::openat(&self.directory, name, DIRECTORY, Mode::empty());
        match retry_on_intr(open) {
            Ok(directory) => Ok(Some(Arc::new(Self::over(directory, path)))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(not_a_directory(&path, error)),
        }
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        boot_id()
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Returns whether a lock was taken. Unlike other calls, std does not repeat this one after a
/// signal.
pub(crate) fn uninterrupted(
    mut attempt: impl FnMut() -> Result<(), TryLockError>,
) -> io::Result<bool> {
    loop {
        match attempt() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// How often a lock is tried: [`Storage::is_locked`] also holds it, for a few microseconds.
const LOCK_ATTEMPTS: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(4);

#[expect(
    clippy::disallowed_methods,
    reason = "no event reports that another process released the lock"
)]
fn pause() {
    std::thread::sleep(LOCK_PAUSE);
}

/// One open file of the file system.
///
/// # Examples
///
/// ```
/// use seawall_io::{File, PosixFile};
///
/// # let path = std::env::temp_dir().join(format!("seawall-io-file-{}", std::process::id()));
/// let opened = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
/// let file = PosixFile::new(opened, path.display().to_string());
/// file.write_at(b"kept", 0)?;
/// assert_eq!(file.len()?, 4);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PosixFile {
    file: fs::File,
    direct: DirectWay,
    uncached: DirectWay,
    label: Label,
}

impl PosixFile {
    /// Wraps `file`; errors name it `label`.
    #[must_use]
    pub fn new(file: fs::File, label: String) -> Self {
        let label = Label::fixed(label);
        Self { file, direct: DirectWay::new(true), uncached: DirectWay::new(false), label }
    }

    /// The file as a standard library type.
    #[must_use]
    pub fn as_std(&self) -> &fs::File {
        &self.file
    }

    /// Takes the exclusive lock of the file and returns whether that succeeded. The lock ends when
    /// the file is closed.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn try_lock(&self) -> io::Result<bool> {
        uninterrupted(|| self.file.try_lock())
    }

    fn explain(&self, act: &'static str, error: impl Into<io::Error>) -> io::Error {
        explain(act, &self.label.now(&self.file), error)
    }

    /// Refuses bytes beyond the process's limit on file sizes.
    fn check_end(&self, act: &'static str, end: u64) -> io::Result<()> {
        match check_size(act, || self.label.now(&self.file), end) {
            // Block devices have no limit.
            Err(_) if status::length(&self.file) == Ok(None) => Ok(()),
            checked => checked,
        }
    }

    fn check_write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_end("write", advance(offset, bytes.len())?)
    }
}

impl File for PosixFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully(buffer, offset, |rest, at| self.file.read_at(rest, at))
            .map_err(|error| self.explain("read", error))
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.direct.read(&self.file, buffer, offset);
        match read.map_err(|error| self.explain("read", error))? {
            Some(count) => Ok(count),
            None => self.read_at(buffer, offset),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_write(bytes, offset)?;
        write_fully(bytes, offset, |rest, at| self.file.write_at(rest, at))
            .map_err(|error| self.explain("write", error))
    }

    fn sync(&self) -> io::Result<()> {
        retry_on_intr(|| sync_data(&self.file))
            .or_else(|error| nothing_to_sync(&self.file, error))
            .map_err(|error| self.explain("sync", error))
    }

    fn write_uncached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_write(bytes, offset)?;
        let written = self.uncached.write(&self.file, bytes, offset);
        let written = written.map_err(|error| self.explain("write", error))?;
        let (_, rest) = bytes.split_at(written);
        if rest.is_empty() { Ok(()) } else { self.write_at(rest, advance(offset, written)?) }
    }

    fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_write(bytes, offset)?;
        let durable = self.direct.write(&self.file, bytes, offset);
        let durable = durable.map_err(|error| self.explain("write", error))?;
        let (_, rest) = bytes.split_at(durable);
        if rest.is_empty() {
            return Ok(());
        }
        self.write_at(rest, advance(offset, durable)?)?;
        self.sync()
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.direct.has_written().then_some(DIRECT_ALIGNMENT)
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_write(bytes, offset)?;
        self.direct
            .write_all(&self.file, bytes, offset)
            .map_err(|error| self.explain("write", error))
    }

    fn len(&self) -> io::Result<u64> {
        let length = status::length(&self.file).map_err(|error| self.explain("look at", error))?;
        if let Some(length) = length {
            return Ok(length);
        }
        // A block device. Nothing else uses the file position.
        let end = (&self.file).seek(io::SeekFrom::End(0));
        end.map_err(|error| self.explain("look at", error))
    }

    fn has_name(&self) -> io::Result<bool> {
        status::is_linked(&self.file).map_err(|error| self.explain("look at", error))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        // Reads and writes pass their offset, so nothing else uses the file position that this
        // moves.
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(_) => Ok(Some(offset)),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length > self.len()? {
            self.check_end("change the length of", length)?;
        }
        retry_on_intr(|| rustix::fs::ftruncate(&self.file, length))
            .map_err(|error| self.explain("change the length of", error))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.check_end("allocate", length)?;
        match room::allocate(&self.file, length) {
            Ok(true) => Ok(()),
            // The file system cannot allocate: write zeros instead.
            Ok(false) => self.fill_with_zeros(length),
            Err(error) => Err(self.explain("allocate", error)),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.fill_with_zeros(length)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        // The system checks this limit only when the file grows.
        self.check_end("reserve space for", length)?;
        let reserved = room::reserve(&self.file, length);
        reserved.map_err(|error| self.explain("reserve space for", error))
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        if !self.is_empty()? {
            return Err(self.explain("zero-fill", invalid("it is not empty")));
        }
        self.check_end("zero-fill", length)?;
        in_place::prefer_in_place(&self.file);
        let zeros = vec![0; ZEROS_SIZE];
        let mut offset = 0;
        while offset < length {
            let left = usize::try_from(length - offset).unwrap_or(usize::MAX);
            let part = zeros.get(..left).unwrap_or(&zeros);
            write_fully(part, offset, |rest, at| self.file.write_at(rest, at))
                .map_err(|error| self.explain("zero-fill", error))?;
            offset += u64::try_from(part.len()).expect("a part is short");
        }
        Ok(())
    }
}

const ZEROS_SIZE: usize = 256 * 1024;

/// Accepts the error of a file system that is never written to, such as a CD-ROM, and so has no
/// sync. A file system that became read-only after an error has a sync, which fails with another
/// error.
fn nothing_to_sync(file: impl AsFd, error: Errno) -> rustix::io::Result<()> {
    let is_read_only = || {
        let found = rustix::fs::fstatvfs(file);
        found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    if error == Errno::INVAL && is_read_only() { Ok(()) } else { Err(error) }
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn sync_data(file: &fs::File) -> rustix::io::Result<()> {
    rustix::fs::fdatasync(file)
}

#[cfg(not(target_vendor = "apple"))]
pub(crate) fn sync_all(file: impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::fsync(file)
}

/// On this system a plain sync leaves the bytes in the drive's cache.
#[cfg(target_vendor = "apple")]
pub(crate) fn sync_data(file: &fs::File) -> rustix::io::Result<()> {
    rustix::fs::fcntl_fullfsync(file)
}

#[cfg(target_vendor = "apple")]
pub(crate) fn sync_all(file: impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_fullfsync(file)
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<[u8; 16]> {
    parse_boot_id(&fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<[u8; 16]> {
    None
}

/// Parses 32 hexadecimal digits and ignores dashes.
#[cfg(target_os = "linux")]
fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits = text.trim_end().replace('-', "");
    let all_hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| all_hex)?;
    let mut bytes = number.to_le_bytes();
    bytes.reverse();
    Some(bytes)
}

/// The error for a `path` that cannot be opened as a directory.
fn not_a_directory(path: &Path, error: Errno) -> io::Error {
    // Other errors, such as that of a cycle of links in the path, are clear as they are.
    if !matches!(error, Errno::NOTDIR) {
        return explain("open", &path.display().to_string(), error);
    }
    let place = path.display();
    io::Error::new(io::ErrorKind::NotADirectory, format!("{place} is not a directory"))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests;
