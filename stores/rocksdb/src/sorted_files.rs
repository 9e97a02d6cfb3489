//! The sorted files of an ingestion, in a folder next to the database. One thread merges the rows,
//! and another one writes them.

use rocksdb::{Options, SstFileWriter};
use seawall_replay::StoreError;
use seawall_tables::Edits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};

const FOLDER: &str = "ingest";
/// The size of the rows in a file, in bytes.
const FILE_SIZE: usize = 64 << 20;
/// The size of a chunk of rows, in bytes, and the number of chunks in the queue.
const CHUNK: usize = 64 << 10;
const CHUNKS_AHEAD: usize = 4;

/// A folder for sorted files, empty at first. RocksDB moves the files that it adds. The others are
/// removed at the end, or by the next ingestion after a crash.
pub(crate) struct SortedFiles<'a> {
    options: &'a Options,
    folder: PathBuf,
}

impl<'a> SortedFiles<'a> {
    /// Creates the folder inside the store's folder.
    pub(crate) fn new(options: &'a Options, store: &Path) -> io::Result<Self> {
        let folder = store.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&folder)?,
        }
        Ok(Self { options, folder })
    }

    /// Writes all rows that `fill` puts and removes, and returns the names of the files.
    pub(crate) fn write(
        &self,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<Vec<PathBuf>, StoreError> {
        thread::scope(|scope| {
            let (chunks, queue) = sync_channel(CHUNKS_AHEAD);
            let start = Builder::new().spawn_scoped(scope, move || self.write_queued(&queue));
            let writer = start.map_err(StoreError::failed)?;
            let mut rows = Rows { chunk: Chunk::default(), chunks };
            let filled = fill(&mut rows).and_then(|()| rows.send());
            drop(rows);
            // If the writer failed, `fill` failed only as a consequence, so the writer's error is
            // returned.
            let names = writer.join().expect("the writer returns errors")?;
            filled.map(|()| names)
        })
    }

    fn write_queued(&self, queue: &Receiver<Chunk>) -> Result<Vec<PathBuf>, StoreError> {
        let mut names = Vec::new();
        let mut file: Option<SstFileWriter<'_>> = None;
        let mut size = 0;
        for chunk in queue.iter().filter(|chunk| !chunk.rows.is_empty()) {
            let writer = match &mut file {
                Some(writer) => writer,
                none => {
                    let name = self.folder.join(format!("{:06}.sst", names.len()));
                    let writer = SstFileWriter::create(self.options);
                    writer.open(&name).map_err(StoreError::failed)?;
                    names.push(name);
                    none.insert(writer)
                }
            };
            for (key, value) in chunk.rows() {
                let written = match value {
                    Some(value) => writer.put(key, value),
                    None => writer.delete(key),
                };
                written.map_err(StoreError::failed)?;
            }
            size += chunk.bytes.len();
            if size >= FILE_SIZE {
                size = 0;
                finish(file.take())?;
            }
        }
        finish(file)?;
        Ok(names)
    }
}

impl Drop for SortedFiles<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn finish(file: Option<SstFileWriter<'_>>) -> Result<(), StoreError> {
    file.map_or(Ok(()), |mut file| file.finish()).map_err(StoreError::failed)
}

/// Sends rows to the writer, in chunks.
struct Rows {
    chunk: Chunk,
    chunks: SyncSender<Chunk>,
}

impl Rows {
    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        self.chunk.push(key, value);
        if self.chunk.bytes.len() >= CHUNK { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), StoreError> {
        let chunk = std::mem::take(&mut self.chunk);
        self.chunks.send(chunk).map_err(|_| StoreError::failed("no thread writes sorted files"))
    }
}

impl Edits for Rows {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.push(key, Some(value))
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.push(key, None)
    }
}

/// Rows in one allocation: freeing memory of another thread slows that thread down.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The sizes of each key and value. A row without a value is deleted.
    rows: Vec<(usize, Option<usize>)>,
}

impl Chunk {
    fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.rows.push((key.len(), value.map(<[u8]>::len)));
    }

    fn rows(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let mut rest = self.bytes.as_slice();
        let mut take = move |size| {
            let (taken, after) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            rest = after;
            taken
        };
        self.rows.iter().map(move |(key, value)| (take(*key), value.map(&mut take)))
    }
}
