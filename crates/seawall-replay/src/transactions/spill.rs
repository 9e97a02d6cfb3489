//! A scratch file for data that does not fit in memory. It has no name, so a crash leaves nothing
//! on the disk.

use crate::error::{Error, Result};
use seawall_io::{File, PosixStorage, Storage};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of file names tried, in case other processes use some.
const NAMES: u32 = 10_000;

/// The directory of scratch files.
#[derive(Clone, Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

/// Appends bytes to a scratch file, and reads them back by position.
#[derive(Debug)]
pub(crate) struct Spill {
    file: Arc<dyn File>,
    end: u64,
}

/// The position of stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    at: u64,
    size: usize,
}

impl Folder {
    /// Creates a scratch file in this directory.
    pub(crate) fn make(&self) -> Result<Spill> {
        let Self(folder) = self;
        let file = nameless(folder).map_err(|error| {
            let what = format!("cannot create a file in {}: {error}", folder.display());
            Error::Spill(io::Error::new(error.kind(), what))
        })?;
        Ok(Spill { file, end: 0 })
    }
}

fn nameless(folder: &Path) -> io::Result<Arc<dyn File>> {
    let folder = PosixStorage::open(folder)?;
    let names = (0..NAMES).map(|n| format!("seawall-scratch-{}-{n}", std::process::id()));
    for name in names {
        match folder.create(&name) {
            Ok(file) => {
                folder.remove(&name)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all file names are in use"))
}

impl Spill {
    /// Appends bytes and returns their position.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<Place> {
        self.file.write_at(bytes, self.end).map_err(Error::Spill)?;
        let place = Place { at: self.end, size: bytes.len() };
        self.end += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(place)
    }

    /// Reads the bytes at a position.
    pub(crate) fn get(&self, place: Place) -> Result<Vec<u8>> {
        let mut bytes = vec![0; place.size];
        match self.file.read_at(&mut bytes, place.at) {
            Ok(read) if read == place.size => Ok(bytes),
            Ok(_) => Err(Error::Spill(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(Error::Spill(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_are_read_back() {
        let mut scratch = Folder(std::env::temp_dir()).make().unwrap();
        let places = [&b"one"[..], b"", b"three"].map(|bytes| scratch.put(bytes).unwrap());
        let read = places.map(|place| scratch.get(place).unwrap());
        assert_eq!(read, [b"one".to_vec(), vec![], b"three".to_vec()]);
    }

    #[test]
    fn error_names_a_missing_directory() {
        let error = Folder("/nowhere/at/all".into()).make().unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("/nowhere/at/all"), "{said}");
    }
}
