//! Small files of a directory: opened if they exist, read from the start, replaced as a whole.

use seawall_io::{Access, File, PosixStorage, Storage};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The directory that holds `path`, and the name of `path` in it; `None` if that is not a name in
/// UTF-8.
#[must_use]
pub fn folder_and_name(path: &Path) -> Option<(&Path, &str)> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some((folder.unwrap_or(Path::new(".")), name))
}

/// Opens a file of a directory; `None` if there is none of this name.
///
/// # Errors
///
/// The device's error.
pub fn open_if_any(
    folder: &dyn Storage,
    name: &str,
    access: Access,
) -> io::Result<Option<Arc<dyn File>>> {
    match folder.open(name, access) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a stored file from its start, up to `size_max` bytes.
///
/// # Errors
///
/// The device's error.
pub fn read_start(file: &dyn File, size_max: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.len()?.min(size_max)).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces the file `name`, or creates it, by way of the new file `temporary`: a crash leaves the
/// old content or the new. Which one survives a power cut is certain once the directory is synced.
/// The new file has the permissions of the old one, and its owner if this process may set it.
///
/// # Errors
///
/// [`io::ErrorKind::AlreadyExists`] if there is a file `temporary`; otherwise the device's error.
/// The old content stays.
pub fn replace_file(
    folder: &PosixStorage,
    (name, temporary): (&str, &str),
    bytes: &[u8],
) -> io::Result<()> {
    let file = folder.create(temporary)?;
    let replaced = folder.copy_permissions(name, temporary).and_then(|()| {
        file.write_at(bytes, 0)?;
        // Otherwise the new name could be durable before the bytes.
        file.sync()?;
        folder.rename(temporary, name)
    });
    replaced.inspect_err(|_| drop(folder.remove(temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        let found = |path| folder_and_name(Path::new(path));
        assert_eq!(found("a/b"), Some((Path::new("a"), "b")));
        assert_eq!(found("/b"), Some((Path::new("/"), "b")));
        assert_eq!(found("b"), Some((Path::new("."), "b")));
        assert_eq!(["", "/", "..", "a/.."].map(found), [None; 4]);
    }

    /// A directory that is removed when the test ends.
    struct Scratch(std::path::PathBuf, PosixStorage);

    impl Scratch {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("seawall-{test}-{}", std::process::id()));
            let folder = PosixStorage::create(&path).unwrap();
            Self(path, folder)
        }

        fn read(&self, name: &str) -> Vec<u8> {
            read_start(&*self.1.open(name, Access::Read).unwrap(), 99).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_replaced_file_has_the_new_bytes_and_nothing_else_is_left() {
        let scratch = Scratch::new("stored");
        let folder = &scratch.1;
        assert!(open_if_any(folder, "note", Access::Read).unwrap().is_none());
        for bytes in [&b"a long one"[..], b"short"] {
            replace_file(folder, ("note", "new"), bytes).unwrap();
            let file = open_if_any(folder, "note", Access::Read).unwrap().unwrap();
            assert_eq!(read_start(&*file, 99).unwrap(), bytes);
            assert_eq!(read_start(&*file, 3).unwrap(), bytes[..3]);
        }
        assert_eq!(folder.list().unwrap(), ["note"]);
    }

    #[test]
    fn file_with_the_temporary_name_is_kept() {
        let scratch = Scratch::new("stored-taken");
        scratch.1.create("new").unwrap().write_at(b"mine", 0).unwrap();
        let refused = replace_file(&scratch.1, ("note", "new"), b"1").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(
            (scratch.read("new"), scratch.1.list().unwrap()),
            (b"mine".into(), vec!["new".into()])
        );
    }

    #[test]
    fn replaced_file_keeps_its_permissions() {
        let scratch = Scratch::new("stored-mode");
        let mode = || scratch.0.join("note").metadata().unwrap().permissions().mode() & 0o7777;
        replace_file(&scratch.1, ("note", "new"), b"1").unwrap();
        assert_eq!(mode(), 0o600);
        set_permissions(scratch.0.join("note"), Permissions::from_mode(0o664)).unwrap();
        replace_file(&scratch.1, ("note", "new"), b"2").unwrap();
        assert_eq!((mode(), scratch.read("note")), (0o664, b"2".into()));
    }

    /// Only root can give a file to another user.
    #[test]
    fn replaced_file_keeps_its_owner() {
        let scratch = Scratch::new("stored-owner");
        replace_file(&scratch.1, ("note", "new"), b"1").unwrap();
        let note = scratch.0.join("note");
        let owner = || note.metadata().map(|found| (found.uid(), found.gid(), found.mode()));
        if chown(&note, Some(12_345), Some(54_321)).is_err() {
            eprintln!("not root: the owner of a replaced file was NOT checked");
            return;
        }
        let before = owner().unwrap();
        replace_file(&scratch.1, ("note", "new"), b"2").unwrap();
        assert_eq!((owner().unwrap(), scratch.read("note")), (before, b"2".into()));
        assert_eq!((before.0, before.1), (12_345, 54_321));
    }
}
