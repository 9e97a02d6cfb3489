//! Copies of a log's files in memory.

use seawall::format::SegmentId;
use seawall_io::{Access, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Files that belong to the running writer and do not survive a power cut.
const OF_ONE_RUN: [&str; 2] = ["live", "lock"];

/// The files of a log as a power cut or a shutdown leaves them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Image {
    files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// Reads a log's directory; the log may be open.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let storage = PosixStorage::open(folder)?;
        let mut image = Self::default();
        for name in storage.list()? {
            if !OF_ONE_RUN.contains(&name.as_str()) {
                let file = storage.open(&name, Access::Read)?;
                let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
                let read = file.read_at(&mut bytes, 0)?;
                bytes.truncate(read);
                image.files.insert(name, bytes);
            }
        }
        Ok(image)
    }

    /// Writes the files to an empty folder.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let storage = PosixStorage::open(folder)?;
        for (name, bytes) in &self.files {
            storage.create(name)?.write_at(bytes, 0)?;
        }
        Ok(())
    }

    /// The names of the segments, oldest first.
    pub(super) fn segments(&self) -> impl Iterator<Item = &str> {
        let names = self.files.keys().map(String::as_str);
        names.filter(|name| SegmentId::from_file_name(name).is_some())
    }

    /// The content of a file.
    pub(super) fn file(&self, name: &str) -> Option<&Vec<u8>> {
        self.files.get(name)
    }

    /// The content of a file, mutable.
    pub(super) fn file_mut(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        self.files.get_mut(name)
    }

    /// A range of a file.
    pub(super) fn part(&self, name: &str, range: Range<usize>) -> Option<&[u8]> {
        self.files.get(name)?.get(range)
    }

    /// A range of a file, mutable.
    pub(super) fn part_mut(&mut self, name: &str, range: Range<usize>) -> Option<&mut [u8]> {
        self.files.get_mut(name)?.get_mut(range)
    }

    /// Adds or replaces a file.
    pub(super) fn put(&mut self, name: &str, bytes: Vec<u8>) {
        self.files.insert(name.to_owned(), bytes);
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, name: &str) -> Option<Vec<u8>> {
        self.files.remove(name)
    }
}
