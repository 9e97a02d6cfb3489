//! The environment of a directory: its file system, the device below, and the limits of this
//! process.
//!
//! This is information for people: no log depends on it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub(crate) mod mounts;

use mounts::Mount;

/// The environment of a directory. Unknown facts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostInfo {
    /// The kernel's name and release.
    pub kernel: Option<String>,
    /// The mount of the directory's file system.
    pub mount: Option<Mount>,
    /// For an overlay, the mount of the file system that receives writes.
    pub upper: Option<Mount>,
    /// The write cache mode that the block device reports: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Free space on the file system for this process, in bytes.
    pub free: Option<u64>,
    /// Whether a file can be created in the directory.
    pub writable: Writable,
    /// Whether a file there can be opened for direct I/O.
    pub direct: Option<bool>,
    /// The number of files that this process may open; `None` if unlimited.
    pub open_files_max: Option<u64>,
    /// The number of bytes that this process may lock in memory; `None` if unlimited.
    pub locked_max: Option<u64>,
    /// The largest file size for this process in bytes; `None` if unlimited.
    pub file_size_max: Option<u64>,
}

/// Whether a file can be created in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writable {
    /// A file without a name was created and is gone again.
    Yes,
    /// The system refused it, with this message.
    No(String),
    /// This file system does not support files without a name, the only test that leaves no trace.
    #[default]
    Unknown,
}

impl HostInfo {
    /// Examines the existing directory `path` without leaving a trace in it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if it does not exist, [`io::ErrorKind::NotADirectory`] if it is
    /// not a directory. Other facts that cannot be found out are `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_host::{HostInfo, Writable};
    ///
    /// let found = HostInfo::of(&std::env::temp_dir())?;
    /// assert_eq!(found.writable == Writable::Yes, found.direct.is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let mounts = read_text(Path::new("/proc/self/mountinfo")).unwrap_or_default();
        let mount = Mount::find(&mounts, &path);
        let upper = mount.as_ref().and_then(Mount::upper);
        let (writable, direct) = try_files(&path);
        Ok(Self {
            kernel: kernel(),
            upper: upper.and_then(|upper| Mount::find(&mounts, &upper.canonicalize().ok()?)),
            write_cache: mount.as_ref().and_then(write_cache),
            mount,
            free: free(&path),
            writable,
            direct,
            ..limits()
        })
    }
}

impl HostInfo {
    /// Returns whether files written here are lost without power: the file system, or the upper
    /// layer of an overlay, is in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        let upper =
            self.upper.as_ref().filter(|_| self.mount.as_ref().is_some_and(Mount::is_overlay));
        upper.or(self.mount.as_ref()).is_some_and(Mount::is_in_memory)
    }
}

fn kernel() -> Option<String> {
    let read = |name: &str| read_text(&Path::new("/proc/sys/kernel").join(name));
    Some(format!("{} {}", read("ostype")?.trim(), read("osrelease")?.trim()))
}

/// Reads the cache mode from the queue directory of the mount's block device, or of the disk if it
/// is a partition.
fn write_cache(mount: &Mount) -> Option<String> {
    let device = PathBuf::from(format!("/sys/dev/block/{}", mount.device));
    let queues = ["queue/write_cache", "../queue/write_cache"];
    let found = queues.into_iter().find_map(|queue| read_text(&device.join(queue)))?;
    Some(found.trim().to_owned())
}

fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Tries whether files can be created and opened for direct I/O, with files without a name.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn try_files(path: &Path) -> (Writable, Option<bool>) {
    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let open = |flags| {
        let made = || rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
        rustix::io::retry_on_intr(made).map(drop)
    };
    match open(flags) {
        Ok(()) => (Writable::Yes, Some(open(flags | OFlags::DIRECT).is_ok())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => (by_permission(path), None),
        Err(error) => (Writable::No(io::Error::from(error).to_string()), None),
    }
}

/// Decides by permissions where files without a name cannot be tried.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn by_permission(path: &Path) -> Writable {
    use rustix::fs::Access;
    match rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Writable::Unknown,
        Err(error) => Writable::No(io::Error::from(error).to_string()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn try_files(_: &Path) -> (Writable, Option<bool>) {
    (Writable::Unknown, None)
}

fn limits() -> HostInfo {
    use rustix::process::{Resource, getrlimit};
    HostInfo {
        open_files_max: getrlimit(Resource::Nofile).current,
        locked_max: getrlimit(Resource::Memlock).current.filter(|_| !may_lock_memory()),
        file_size_max: getrlimit(Resource::Fsize).current,
        ..HostInfo::default()
    }
}

/// Returns whether this process is exempt from the limit on locked memory.
#[cfg(target_os = "linux")]
fn may_lock_memory() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

#[cfg(not(target_os = "linux"))]
fn may_lock_memory() -> bool {
    false
}

/// The most bytes to read, more than any of these files has: thousands of mounts have a line each.
const TEXT_MAX: u64 = 16 << 20;

/// Reads a file of the kernel, which reports no length. Bytes that are not UTF-8 are replaced.
#[expect(clippy::disallowed_methods, reason = "the rule points to this crate")]
pub(crate) fn read_text(path: &Path) -> Option<String> {
    let mut bytes = vec![];
    fs::File::open(path).ok()?.take(TEXT_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_info_leaves_no_files() {
        let folder = std::env::temp_dir().join(format!("seawall-io-around-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let found = HostInfo::of(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert!(found.free.is_some(), "{found:?}");
        fs::remove_dir(&folder).unwrap();
        let gone = HostInfo::of(&folder).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn host_info_of_a_file_is_refused() {
        let program = std::env::current_exe().unwrap();
        let refused = HostInfo::of(&program).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
    }
}
