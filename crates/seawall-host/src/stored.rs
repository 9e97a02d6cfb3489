//! Small files of a directory: opened if they exist, read from the start, replaced as a whole.

use seawall_io::{Access, File, Storage};
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

/// Replaces the file `name`, or creates it, by way of `NAME.new`: a crash leaves the old content or
/// the new. Which one survives a power cut is certain once the directory is synced.
///
/// # Errors
///
/// The device's error. The old content stays.
pub fn replace_file(folder: &dyn Storage, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.new");
    match folder.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = folder.create(&temporary)?;
    file.write_at(bytes, 0)?;
    // Otherwise the new name could be durable before the bytes.
    file.sync()?;
    folder.rename(&temporary, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::PosixStorage;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        let found = |path| folder_and_name(Path::new(path));
        assert_eq!(found("a/b"), Some((Path::new("a"), "b")));
        assert_eq!(found("/b"), Some((Path::new("/"), "b")));
        assert_eq!(found("b"), Some((Path::new("."), "b")));
        assert_eq!(["", "/", "..", "a/.."].map(found), [None; 4]);
    }

    #[test]
    fn a_replaced_file_has_the_new_bytes_and_nothing_else_is_left() {
        let path = std::env::temp_dir().join(format!("seawall-stored-{}", std::process::id()));
        let folder = PosixStorage::create(&path).unwrap();
        assert!(open_if_any(&folder, "note", Access::Read).unwrap().is_none());
        for bytes in [&b"a long one"[..], b"short"] {
            // The leftover of an interrupted replacement must not prevent the next one.
            folder.create("note.new").unwrap();
            replace_file(&folder, "note", bytes).unwrap();
            let file = open_if_any(&folder, "note", Access::Read).unwrap().unwrap();
            assert_eq!(read_start(&*file, 99).unwrap(), bytes);
            assert_eq!(read_start(&*file, 3).unwrap(), bytes[..3]);
        }
        assert_eq!(folder.list().unwrap(), ["note"]);
        std::fs::remove_dir_all(&path).unwrap();
    }
}
