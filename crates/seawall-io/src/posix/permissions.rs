//! The permissions, the owner and the group of a file that replaces another.

use super::PosixStorage;
use crate::failure::{check_name, explain};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchown};
use rustix::io::Errno;
use std::io;

impl PosixStorage {
    /// Gives the new file `to` the permissions of the file `from`, if that exists. It also gets the
    /// owner and the group, as far as this process may set them: otherwise a program of another
    /// user could no longer write a file that root has replaced.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn copy_permissions(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let wanted = match rustix::fs::statat(&self.directory, from, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(explain("look at", &self.label(from), error)),
        };
        let change = || -> rustix::io::Result<()> {
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.directory, to, flags, Mode::empty())?;
            // Another user who may write to the directory could put a link to any file here.
            if rustix::fs::fstat(&file)?.st_nlink > 1 {
                return Err(Errno::MLINK);
            }
            let group = Some(Gid::from_raw(wanted.st_gid));
            let owner = Some(Uid::from_raw(wanted.st_uid));
            let _ = fchown(&file, owner, group).or_else(|_| fchown(&file, None, group));
            rustix::fs::fchmod(&file, Mode::from_raw_mode(wanted.st_mode))
        };
        change().map_err(|error| explain("change the permissions of", &self.label(to), error))
    }
}
