//! The sorted files of an ingestion, beside the database.

use rocksdb::{Options, SstFileWriter};
use seawall_replay::StoreError;
use seawall_tables::NewRow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FOLDER: &str = "ingest";
/// The size of a file, in bytes of rows.
const FILE_SIZE: usize = 64 << 20;

/// A folder for files, empty at first. RocksDB moves them away; others are removed at the end, or
/// by the next ingestion after a crash.
pub(crate) struct SortedFiles<'a> {
    options: &'a Options,
    folder: PathBuf,
}

impl<'a> SortedFiles<'a> {
    /// Creates the folder, in that of the store.
    pub(crate) fn new(options: &'a Options, store: &Path) -> io::Result<Self> {
        let folder = store.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&folder)?,
        }
        Ok(Self { options, folder })
    }

    /// Writes all rows, and returns the files.
    pub(crate) fn write(
        &self,
        rows: &mut dyn Iterator<Item = NewRow>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let mut rows = rows.peekable();
        let mut names = Vec::new();
        while rows.peek().is_some() {
            let name = self.folder.join(format!("{:06}.sst", names.len()));
            let mut writer = SstFileWriter::create(self.options);
            writer.open(&name).map_err(StoreError::failed)?;
            let mut size = 0;
            while size < FILE_SIZE
                && let Some(row) = rows.next()
            {
                let (key, value) = row?;
                size += key.len() + value.as_ref().map_or(0, Vec::len);
                let written = match value {
                    Some(value) => writer.put(key, value),
                    None => writer.delete(key),
                };
                written.map_err(StoreError::failed)?;
            }
            writer.finish().map_err(StoreError::failed)?;
            names.push(name);
        }
        Ok(names)
    }
}

impl Drop for SortedFiles<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
