//! The status of a file without its times: whether it has a name, and its length.
//!
//! From Linux 6.13 on, a call that asks for a file's times, such as `fstat`, makes the next write
//! take a new time. The sync of that write then writes the inode as well, which costs commits a
//! third of their speed. So no call that may come between two writes to a segment asks for them.

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use std::fs;

/// Whether a file has a name.
pub(crate) fn is_linked(file: &fs::File) -> Result<bool, Errno> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(found) = without_times(file, StatxFlags::NLINK)? {
        return Ok(found.stx_nlink > 0);
    }
    fstat(file).map(|found| found.st_nlink > 0)
}

/// The length of a file, in bytes; `None` if it is a block device.
pub(crate) fn length(file: &fs::File) -> Result<Option<u64>, Errno> {
    let of = |kind: FileType, size| (kind != FileType::BlockDevice).then_some(size);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(found) = without_times(file, StatxFlags::TYPE | StatxFlags::SIZE)? {
        return Ok(of(FileType::from_raw_mode(found.stx_mode.into()), found.stx_size));
    }
    let found = fstat(file)?;
    let size = u64::try_from(found.st_size).map_err(|_| Errno::OVERFLOW)?;
    Ok(of(FileType::from_raw_mode(found.st_mode), size))
}

/// Whether both are descriptors of the same file.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn is_same_file(one: &fs::File, other: &fs::File) -> bool {
    let identity = |file| match without_times(file, StatxFlags::INO) {
        Ok(Some(found)) => {
            let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
            Some((device, found.stx_ino))
        }
        Ok(None) => fstat(file).map(|found| (found.st_dev, found.st_ino)).ok(),
        Err(_) => None,
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// `None` on Linux before 4.11, and in a sandbox that does not know the call.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn without_times(file: &fs::File, asked: StatxFlags) -> Result<Option<Statx>, Errno> {
    match statx(file, "", AtFlags::EMPTY_PATH, asked) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn length_and_name_are_as_the_file_says() {
        let path = std::env::temp_dir().join(format!("seawall-io-status-{}", std::process::id()));
        #[expect(clippy::disallowed_methods, reason = "any kind of file will do")]
        let mut file = fs::File::create(&path).unwrap();
        assert_eq!((length(&file), is_linked(&file)), (Ok(Some(0)), Ok(true)));
        file.write_all(&[7; 5000]).unwrap();
        assert_eq!(length(&file), Ok(Some(5000)));
        #[expect(clippy::disallowed_methods, reason = "any kind of file will do")]
        fs::remove_file(&path).unwrap();
        assert_eq!((length(&file), is_linked(&file)), (Ok(Some(5000)), Ok(false)));
    }
}
