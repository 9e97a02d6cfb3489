//! Disk images at any path: a file or a block device, and the creation of image files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};

use seawall_io::{File, PosixFile};

/// Added to the name of a new image until it is complete.
const SUFFIX: &str = ".seawall-new";

/// The kind of object at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// A file.
    File,
    /// A block device.
    BlockDevice,
    /// Not an image: a directory, a terminal and so on.
    Other,
}

impl ImageKind {
    /// Looks at `path` without opening it. A symbolic link is followed.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`]; otherwise the device's error.
    pub fn of(path: &Path) -> io::Result<Self> {
        let kind = fs::metadata(path)?.file_type();
        Ok(match (kind.is_file(), kind.is_block_device()) {
            (true, _) => Self::File,
            (_, true) => Self::BlockDevice,
            _ => Self::Other,
        })
    }
}

mod mark;

/// An image that this process has locked. Other processes that use the same lock are excluded; a
/// block device can also not be mounted.
#[derive(Clone, Debug)]
pub struct Image {
    file: Arc<PosixFile>,
}

impl Image {
    /// Opens and locks the file or block device at `path`. A symbolic link is followed. Returns
    /// `None` if another process holds the lock.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`]; [`io::ErrorKind::InvalidInput`] if it is neither a file nor a
    /// block device; otherwise the device's error.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let is_device = ImageKind::of(path)? == ImageKind::BlockDevice;
        // Without NONBLOCK, opening a pipe could wait. For a device, EXCL refuses one in use.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = if is_device { flags | OFlags::EXCL } else { flags };
        let file = match retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty())) {
            Ok(file) => fs::File::from(file),
            Err(Errno::BUSY) => return Ok(None),
            Err(Errno::ISDIR) => return Err(no_image()),
            Err(error) => return Err(error.into()),
        };
        let kind = file.metadata()?.file_type();
        if !(kind.is_file() || is_device && kind.is_block_device()) {
            return Err(no_image());
        }
        Self::lock(file, path)
    }

    fn lock(file: fs::File, path: &Path) -> io::Result<Option<Self>> {
        let file = PosixFile::new(file, path.display().to_string());
        Ok(file.try_lock()?.then(|| Self { file: Arc::new(file) }))
    }

    /// The image's contents. The lock ends when the image and all of these handles are dropped.
    #[must_use]
    pub fn file(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    /// Identifies this image among others at the same path as far as the system can: by a file's
    /// inode number and creation time, or a device's serial number. It survives renames, writes and
    /// restarts. A copy has a different identity.
    ///
    /// Returns `None` if the device has no such identification.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn identity(&self) -> io::Result<Option<String>> {
        let status = self.file.as_std().metadata()?;
        if status.file_type().is_block_device() {
            return Ok(device_identity(status.rdev()));
        }
        let inode = status.ino();
        let since = status.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born =
            since.map(|since| format!(" of {}.{:09}", since.as_secs(), since.subsec_nanos()));
        Ok(Some(format!("file {inode}{}", born.unwrap_or_default())))
    }
}

/// The part of a device's identity in Linux that stays the same when its device number changes.
fn device_identity(number: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let sys = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let text = |name: &str| {
        let text = fs::read_to_string(sys.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let names = ["wwid", "device/wwid", "device/serial", "serial", "dm/uuid", "loop/backing_file"];
    let own = || names.iter().find_map(|name| text(name));
    // A partition is identified by its disk and its first sector.
    let disk = || names.iter().find_map(|name| text(&format!("../{name}")));
    match text("start") {
        Some(start) => Some(format!("device {} from {start}", disk()?)),
        None => Some(format!("device {}", own()?)),
    }
}

/// A new image under construction. It gets its name when it is complete. A crash leaves
/// `NAME.seawall-new`, which the next draft removes.
///
/// # Examples
///
/// ```
/// use seawall_host::ImageDraft;
/// use seawall_io::File;
///
/// # let path = std::env::temp_dir().join(format!("seawall-io-image-{}", std::process::id()));
/// let draft = ImageDraft::create(&path, 8192)?.expect("no other process creates it");
/// assert!(!path.exists());
/// let image = draft.finish()?;
/// assert_eq!(image.file().len()?, 8192);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ImageDraft {
    image: Option<Image>,
    partial: PathBuf,
    target: PathBuf,
}

impl ImageDraft {
    /// Creates a file of `size` zeros that only its owner can access, which will be called
    /// `target`. Its contents are durable when this returns; its name is not yet. Returns `None` if
    /// another process is creating the same image.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken; otherwise the device's error.
    pub fn create(target: &Path, size: u64) -> io::Result<Option<Self>> {
        let name = target.file_name().ok_or_else(no_image)?;
        if target.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let mut partial = OsString::from(name);
        partial.push(SUFFIX);
        let partial = target.with_file_name(partial);
        if !remove_abandoned(&partial)? {
            return Ok(None);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made =
            retry_on_intr(|| rustix::fs::openat(CWD, &partial, flags, Mode::RUSR | Mode::WUSR))?;
        let file = fs::File::from(made);
        let made = (file.metadata()?.dev(), file.metadata()?.ino());
        let Some(image) = Image::lock(file, target)? else { return Ok(None) };
        // Between creation and locking, another process could have removed the file as abandoned.
        let named = fs::symlink_metadata(&partial).map(|named| (named.dev(), named.ino()));
        if named.ok() != Some(made) {
            return Ok(None);
        }
        let draft = Self { image: Some(image), partial, target: target.to_owned() };
        let file = draft.image()?.file();
        file.fill_with_zeros(size)?;
        file.sync()?;
        Ok(Some(draft))
    }

    /// The image under its temporary name.
    ///
    /// # Errors
    ///
    /// None while the draft exists.
    pub fn image(&self) -> io::Result<&Image> {
        self.image.as_ref().ok_or_else(no_image)
    }

    /// Renames the image to its final name and makes the name durable. It never replaces an
    /// existing file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name was taken meanwhile; otherwise the device's
    /// error.
    pub fn finish(mut self) -> io::Result<Image> {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, &self.partial, CWD, &self.target, flags) {
            // The file system cannot rename without replacing. Use a hard link, which never
            // replaces a file.
            Err(Errno::INVAL | Errno::NOSYS) => {
                let flags = AtFlags::empty();
                rustix::fs::linkat(CWD, &self.partial, CWD, &self.target, flags)?;
                rustix::fs::unlink(&self.partial)?;
            }
            other => other?,
        }
        let image = self.image.take().ok_or_else(no_image)?;
        let parent = self.target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = parent.unwrap_or(Path::new("."));
        let parent = retry_on_intr(|| rustix::fs::openat(CWD, parent, flags, Mode::empty()))?;
        fs::File::from(parent).sync_all()?;
        Ok(image)
    }
}

impl Drop for ImageDraft {
    fn drop(&mut self) {
        if self.image.is_some() {
            // If removal fails, the next draft removes it.
            let _ = rustix::fs::unlink(&self.partial);
        }
    }
}

/// Removes the file that a killed creator left, and returns whether the name is free now. It
/// removes only the name: the file is not truncated, because it may have another name.
fn remove_abandoned(partial: &Path) -> io::Result<bool> {
    // Check first: opening a device can have effects.
    if fs::symlink_metadata(partial).is_ok_and(|found| !found.is_file()) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = match retry_on_intr(|| rustix::fs::openat(CWD, partial, flags, Mode::empty())) {
        Ok(file) => PosixFile::new(file.into(), partial.display().to_string()),
        Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    if !file.try_lock()? {
        return Ok(false);
    }
    let (held, named) = (file.as_std().metadata()?, fs::symlink_metadata(partial)?);
    if (held.dev(), held.ino()) == (named.dev(), named.ino()) {
        rustix::fs::unlink(partial)?;
    }
    Ok(true)
}

fn no_image() -> io::Error {
    let why = "it is neither a file nor a block device";
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests;
