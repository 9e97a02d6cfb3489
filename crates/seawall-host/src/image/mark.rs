//! What an image's own file tells of its past: an extended attribute, and when it changed last.

use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Image;

const NAME: &str = "user.seawall.disk";
/// A longer mark is none of ours.
const MARK_MAX: usize = 8192;
/// The file system has no attributes, or no room for this one, or we have no right to it.
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
    /// The mark that was left on the file; it stays over renaming and writing, and a copy of the
    /// bytes does not have it. `None`: there is none, and on a device, or on a file system without
    /// such attributes, there never is.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
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

    /// Leaves a mark in place of the one before, durably; `false` if that cannot be, for want of
    /// room or of the right to it, too.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
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

    /// When anything of the file changed last, in microseconds since 1970: its bytes, its name, its
    /// rights or its mark. No program can set it back. `None` of a device, which does not keep it.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    pub fn changed_us(&self) -> io::Result<Option<u64>> {
        if !self.is_file()? {
            return Ok(None);
        }
        let status = self.file.as_std().metadata()?;
        let micros = status.ctime().checked_mul(1_000_000);
        let micros = micros.and_then(|micros| micros.checked_add(status.ctime_nsec() / 1000));
        Ok(Some(micros.and_then(|micros| u64::try_from(micros).ok()).unwrap_or_default()))
    }

    /// The same, when it is durable: no cut of the power gives the file an earlier time any more.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
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

/// Whether that says that there is no such attribute, or none at all.
fn is_missing(error: Errno) -> bool {
    // Others than Linux call it ENOATTR, which is 93.
    let is_absent =
        if cfg!(target_os = "linux") { error == Errno::NODATA } else { error.raw_os_error() == 93 };
    is_absent || [Errno::NOTSUP, Errno::NOSYS].contains(&error)
}
