//! The system's cache of files: what is read again comes from memory, unless it was forgotten.

use std::io;
use std::path::Path;

/// Writes out what there is to write of the file at `path`, and lets the system forget what it
/// keeps of it in memory.
///
/// That is advice: the system may keep pages that others use, and says nothing of it. What was
/// fetched from below afterwards, [`bytes_from_below`](crate::machine::bytes_from_below) tells. A
/// device, or the host of a virtual one, has memory of its own, which nobody can reach from here.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] where systems cannot be told so; [`io::ErrorKind::NotFound`];
/// whatever the device says.
pub fn forget(path: &Path) -> io::Result<()> {
    forget_by_advice(path)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn forget_by_advice(path: &Path) -> io::Result<()> {
    use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, fdatasync, openat};
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Pages that are still to be written stay.
    fdatasync(&file)?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn forget_by_advice(_: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot be told to forget a file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::bytes_from_below;
    use crate::scratch::Scratch;
    use seawall_io::{Access, PosixStorage, Storage};

    #[test]
    fn what_was_forgotten_is_fetched_again_and_is_the_same() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-forgotten").unwrap();
        let storage = PosixStorage::open(scratch.path()).unwrap();
        let bytes = vec![7; 1 << 20];
        storage.create("file").unwrap().write_at(&bytes, 0).unwrap();
        let path = scratch.path().join("file");
        let fetched = || {
            let before = bytes_from_below()?;
            let mut found = vec![0; 1 << 20];
            storage.open("file", Access::Read).unwrap().read_at(&mut found, 0).unwrap();
            assert!(found == bytes);
            Some(bytes_from_below()? - before)
        };
        match forget(&path) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
            forgotten => forgotten.unwrap(),
        }
        // A file system in memory has nothing below, and some systems do not count.
        let first = fetched();
        let second = fetched();
        assert!(first >= second, "{first:?} and {second:?}");
        let missing = forget(&scratch.path().join("nothing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
