//! The mount over an empty file or folder at which a disk appears, and its removal.

use crate::nbd::locked_path::{LockedPath, split};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{OpenOptions, read_to_string};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file system type of these mounts in the system's table.
const KIND: &str = "fuse.seawall";
/// The most dead mounts at one path that are removed; each was left by a killed server.
const DEAD_MAX: usize = 64;

/// The name of the locked file in an empty folder, below the mount.
const LOCK: &str = "seawall-mount";

/// The kind of object at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Folder,
}

/// A path on which nothing is mounted yet: absolute, without symbolic links, and with an empty file
/// that is locked, or an empty folder with a locked file.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    locked: LockedPath,
    shape: Shape,
}

/// A mount at a [`Place`]. Dropping it unmounts and removes the empty file or folder.
#[derive(Debug)]
pub(super) struct Mount {
    place: Place,
    is_there: bool,
}

impl Place {
    /// Creates an empty file or folder at `path`, or takes over the one that an earlier server left
    /// with its dead mount.
    pub(super) fn take(path: &Path, shape: Shape) -> io::Result<Self> {
        let (folder, name) = split(path)?;
        let path = folder.canonicalize()?.join(name);
        clean_up(&path)?;
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => shape.make(&path)?,
            Err(error) => return Err(error),
            // Others are refused: mounting would hide their bytes, and stopping would remove them.
            Ok(_) if shape.is_empty_at(&path) => {}
            Ok(_) => {
                let why = format!(
                    "{} exists and is not an empty {}; give a path that does not exist",
                    path.display(),
                    shape.name()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
        }
        let locked = LockedPath::take(&shape.locked(&path), "")?;
        let locked = locked.ok_or_else(|| in_use(&path))?;
        Ok(Self { path, locked, shape })
    }

    /// Mounts, and returns the channel for requests. Until they are answered, any access to the
    /// path blocks.
    pub(super) fn mount(self) -> io::Result<(OwnedFd, Mount)> {
        let mut mounted = Mount { place: self, is_there: false };
        let device = open_device()?;
        let owner = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let number = device.as_raw_fd();
        // The root of the mount must be of the same kind as the object at the path.
        let (mode, others) = match mounted.place.shape {
            Shape::File => ("100600", ""),
            Shape::Folder => ("40755", ",allow_other"),
        };
        let ids = format!("fd={number},rootmode={mode},user_id={owner},group_id={group}");
        let data = format!("{ids},default_permissions{others}");
        let data = CString::new(data).map_err(io::Error::other)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
        let done = mount("seawall", mounted.path(), KIND, flags, Some(&*data));
        done.map_err(|error| cannot_mount(mounted.path(), error))?;
        mounted.is_there = true;
        Ok((device, mounted))
    }

    /// Removes the empty file or folder.
    fn remove(&self) {
        if self.shape.is_empty_at(&self.path) && self.locked.remove().is_ok() {
            self.shape.remove(&self.path);
        }
    }
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Folder => "folder",
        }
    }

    /// Creates an empty folder. An empty file is created when it is locked.
    fn make(self, path: &Path) -> io::Result<()> {
        match self {
            Self::File => Ok(()),
            Self::Folder => std::fs::create_dir(path),
        }
    }

    fn locked(self, path: &Path) -> PathBuf {
        match self {
            Self::File => path.to_owned(),
            Self::Folder => path.join(LOCK),
        }
    }

    /// Returns whether the path is an empty file or folder.
    fn is_empty_at(self, path: &Path) -> bool {
        match self {
            Self::File => {
                path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0)
            }
            Self::Folder => {
                let is_lock = |name: &io::Result<std::fs::DirEntry>| {
                    name.as_ref().is_ok_and(|name| name.file_name() == LOCK)
                };
                path.symlink_metadata().is_ok_and(|found| found.is_dir())
                    && path.read_dir().is_ok_and(|mut names| names.all(|name| is_lock(&name)))
            }
        }
    }

    /// Removes the folder. A file was already removed with its lock.
    fn remove(self, path: &Path) {
        if self == Self::Folder {
            // If this fails, the next server finds an empty folder.
            let _ = std::fs::remove_dir(path);
        }
    }
}

impl Mount {
    pub(super) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Unmounts, unless a program has the file open.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::ResourceBusy`] if a program has the file open.
    pub(super) fn unmount(&mut self) -> io::Result<()> {
        self.detach(UnmountFlags::empty())
    }

    /// Unmounts. A program that has the file open gets errors from now on.
    pub(super) fn hang_up(&mut self) -> io::Result<()> {
        self.detach(UnmountFlags::FORCE | UnmountFlags::DETACH)
    }

    fn detach(&mut self, flags: UnmountFlags) -> io::Result<()> {
        if self.is_there {
            match unmount(&self.place.path, flags) {
                // `INVAL`: it was unmounted by hand.
                Ok(()) | Err(rustix::io::Errno::INVAL) => self.is_there = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // If this fails, the next server removes the mount, as after a kill.
        if self.hang_up().is_ok() {
            self.place.remove();
        }
    }
}

/// Opens the channel for the requests of a mount.
pub(super) fn open_device() -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.map(OwnedFd::from).map_err(|error| {
        let why = format!("/dev/fuse cannot be opened: {error}");
        io::Error::new(error.kind(), why)
    })
}

/// Removes the mounts of killed servers.
fn clean_up(path: &Path) -> io::Result<()> {
    for _ in 0..DEAD_MAX {
        let table = read_to_string("/proc/self/mountinfo")?;
        let Some(kind) = mounted_at(&table, path) else { return Ok(()) };
        if kind != KIND {
            let why = format!("a file system of type {kind} is mounted at {}", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                unmount(path, UnmountFlags::DETACH)?;
            }
            Ok(_) | Err(_) => return Err(in_use(path)),
        }
    }
    Err(in_use(path))
}

/// The type of the newest mount at this path according to `/proc/self/mountinfo`.
fn mounted_at(table: &str, path: &Path) -> Option<String> {
    let mut rows = table.lines().rev().filter_map(|line| {
        let (front, behind) = line.split_once(" - ")?;
        let place = front.split(' ').nth(4)?;
        (unescaped(place) == path).then(|| behind.split(' ').next().map(str::to_owned))?
    });
    rows.next()
}

/// Decodes a path of `/proc/self/mountinfo`: a backslash and three octal digits encode a byte.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { behind.get(3..).unwrap_or_default() } else { behind };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn in_use(path: &Path) -> io::Error {
    let why = format!("another server already uses {}", path.display());
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

fn cannot_mount(path: &Path, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    let why = if error.kind() == io::ErrorKind::PermissionDenied {
        "mounting requires root"
    } else {
        "the system refused to mount"
    };
    io::Error::new(error.kind(), format!("{why} at {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn newest_mount_at_a_path_counts_and_spaces_are_parsed() {
        let table = "22 1 254:0 / / rw - ext4 /dev/a rw\n\
                     40 22 0:50 / /a\\040b rw,nosuid shared:1 - fuse.seawall seawall rw\n\
                     41 22 0:51 / /c rw - ext4 /dev/loop0 rw\n\
                     42 22 0:52 / /c rw - fuse.seawall seawall rw\n\
                     short\n";
        let at = |path: &str| mounted_at(table, Path::new(path));
        assert_eq!(at("/a b").as_deref(), Some(KIND));
        assert_eq!(at("/c").as_deref(), Some(KIND));
        assert_eq!(at("/").as_deref(), Some("ext4"));
        assert_eq!(at("/a"), None);
    }

    /// The next server removes the mount that a killed server left. Needs root.
    #[test]
    fn dead_mount_is_removed() {
        for shape in [Shape::File, Shape::Folder] {
            let name = format!("seawall-dead-{}-{}", shape.name(), std::process::id());
            let path = std::env::temp_dir().join(name);
            for _ in 0..2 {
                let mounted = Place::take(&path, shape).unwrap().mount();
                let Ok((device, mut mount)) = mounted else {
                    let why = mounted.unwrap_err();
                    // Unlike `eprintln`, this is not captured.
                    let _ = writeln!(io::stderr(), "SKIPPED: dead_mount_is_removed: {why}");
                    return;
                };
                drop(device);
                assert_eq!(path.metadata().unwrap_err().kind(), io::ErrorKind::NotConnected);
                // Simulates a killed server: the system has the mount, this process has forgotten
                // it.
                mount.is_there = false;
            }
            drop(Place::take(&path, shape).unwrap().mount().unwrap());
            path.symlink_metadata().unwrap_err();
        }
    }

    #[test]
    fn backslash_that_escapes_nothing_is_kept() {
        assert_eq!(unescaped("a\\01"), Path::new("a\\01"));
        assert_eq!(unescaped("\\134\\999\\"), Path::new("\\\\999\\"));
        assert_eq!(unescaped("\\777").as_os_str().as_bytes(), b"\\777");
    }
}
