//! A path, split into its directory and a name there.

use seawall_io::{Access, PosixStorage, Storage};
use std::io;
use std::path::Path;

/// The location of a file that exists or will be created.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) storage: PosixStorage,
    pub(crate) name: String,
}

impl Place {
    /// Opens the parent directory of `path`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| {
            let what = "this path does not end in a UTF-8 file name";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let storage = PosixStorage::open(&parent.unwrap_or(Path::new(".")).canonicalize()?)?;
        Ok(Self { storage, name })
    }
}

/// Maximum size of a text file. The files read here are smaller.
const TEXT_MAX: u64 = 16 << 20;

/// Reads a whole text file.
pub(crate) fn read_text(place: &Place) -> io::Result<String> {
    let file = place.storage.open(&place.name, Access::Read)?;
    let length = file.len()?;
    if length > TEXT_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "more than 16 MiB"));
    }
    let mut bytes = vec![0; usize::try_from(length).expect("16 MiB at most")];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
