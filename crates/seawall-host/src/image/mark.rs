//! What a file records about its past: an extended attribute and its time of change.

use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Image;

const NAME: &str = "user.seawall.disk";
/// A longer mark was not written by us.
const MARK_MAX: usize = 8192;
/// The file system has no attributes or no space for this one, or this process may not set it.
const NO_PLACE: [Errno; 8] = [
    Errno::NOTSUP,
    Errno::NOSYS,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::TOOBIG,
    Errno::RANGE,
    Errno::PERM,
    Errno::ACCESS,
];

impl Image {
    /// Returns the mark that was stored on the file. It survives renames and writes, and a copy of
    /// the bytes does not have it. `None` if there is none, which is always so on a device or a
    /// file system without extended attributes.
    ///
    /// # Errors
    ///
    /// The device's error.
    ///
    /// # Examples
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("seawall-io-mark-{}", std::process::id()));
    /// let image = seawall_host::ImageDraft::create(&path, 4096)?.expect("a new one").finish()?;
    /// if image.set_mark(b"mine")? {
    ///     assert_eq!(image.mark()?, Some(b"mine".to_vec()));
    /// }
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn mark(&self) -> io::Result<Option<Vec<u8>>> {
        if !self.is_file()? {
            return Ok(None);
        }
        let mut mark = vec![0; MARK_MAX];
        match rustix::fs::fgetxattr(self.file.as_std(), NAME, mark.as_mut_slice()) {
            Ok(size) => {
                mark.truncate(size);
                Ok(Some(mark))
            }
            Err(error) if is_missing(error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the mark, durably. Returns `false` if the mark cannot be stored, including for lack
    /// of space or permission.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn set_mark(&self, mark: &[u8]) -> io::Result<bool> {
        if !self.is_file()? {
            return Ok(false);
        }
        let file = self.file.as_std();
        match rustix::fs::fsetxattr(file, NAME, mark, XattrFlags::empty()) {
            Ok(()) => file.sync_all().map(|()| true),
            Err(error) if NO_PLACE.contains(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The time of the last change to the file's contents, name, permissions or mark, in
    /// microseconds since 1970. No program can set it back. `None` for a device, which does not
    /// record it.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn changed_us(&self) -> io::Result<Option<u64>> {
        if !self.is_file()? {
            return Ok(None);
        }
        let status = self.file.as_std().metadata()?;
        let micros = status.ctime().checked_mul(1_000_000);
        let micros = micros.and_then(|micros| micros.checked_add(status.ctime_nsec() / 1000));
        Ok(Some(micros.and_then(|micros| u64::try_from(micros).ok()).unwrap_or_default()))
    }

    /// Like [`Image::changed_us`], after making that time durable: a power cut can no longer set it
    /// back.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn settled_us(&self) -> io::Result<Option<u64>> {
        let changed_us = self.changed_us()?;
        if changed_us.is_some() {
            self.file.as_std().sync_all()?;
        }
        Ok(changed_us)
    }

    fn is_file(&self) -> io::Result<bool> {
        Ok(self.file.as_std().metadata()?.file_type().is_file())
    }
}

/// Returns whether the error says that the attribute, or all attributes, do not exist.
fn is_missing(error: Errno) -> bool {
    // Systems other than Linux call it ENOATTR, number 93.
    let is_absent =
        if cfg!(target_os = "linux") { error == Errno::NODATA } else { error.raw_os_error() == 93 };
    is_absent || [Errno::NOTSUP, Errno::NOSYS].contains(&error)
}
