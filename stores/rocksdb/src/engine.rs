//! RocksDB as a database of sorted keys.

use crate::sorted_files::SortedFiles;
use rocksdb::{DB, DBIterator, Direction, ErrorKind, IngestExternalFileOptions};
use rocksdb::{IteratorMode, Options, ReadOptions, WriteBatch};
use seawall_replay::StoreError;
use seawall_tables::{Edits, Engine, OpenError, Place, Range, Result, Row};
use std::fmt;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of the memtable, in bytes. A larger one makes fewer sorted files.
const MEMTABLE: usize = 128 << 20;

/// A RocksDB database in a locked folder.
pub struct Rocks {
    database: DB,
    options: Options,
    /// A sync of the write-ahead log failed. The next one could succeed without what was lost.
    is_unsynced: AtomicBool,
    /// Released last, after the database is closed.
    place: Place,
}

impl Rocks {
    /// The database, for its statistics. Do not change it.
    #[must_use]
    pub fn database(&self) -> &DB {
        &self.database
    }
}

impl Engine for Rocks {
    const NAME: &'static str = "rocksdb";
    const VALUE_MAX: usize = 3 << 30;
    const PARTITIONS_MAX: usize = 16;
    const INGESTS: bool = true;

    type Rows<'a> = Rows<'a>;

    fn open(path: &Path) -> Result<Self> {
        let place = Place::folder(path, Self::NAME)?;
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(MEMTABLE);
        options.set_keep_log_file_num(4);
        let database = DB::open(&options, place.database()).map_err(failed(path))?;
        Ok(Self { database, options, is_unsynced: AtomicBool::new(false), place })
    }

    fn exists(path: &Path) -> Result<bool> {
        let database = Place::find_folder(path, Self::NAME)?;
        // RocksDB creates this file last.
        let is_complete = |database: PathBuf| database.join("CURRENT").try_exists();
        database.map_or(Ok(false), is_complete).map_err(OpenError::io(path))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.database.get(key).map_err(StoreError::failed)
    }

    fn scan(&self, (from, to): Range) -> Result<Rows<'_>, StoreError> {
        let mut options = ReadOptions::default();
        match to {
            Bound::Included(last) => options.set_iterate_upper_bound([&last[..], &[0]].concat()),
            Bound::Excluded(end) => options.set_iterate_upper_bound(end),
            Bound::Unbounded => {}
        }
        let first = match from {
            Bound::Included(first) => first,
            Bound::Excluded(last) => [&last[..], &[0]].concat(),
            Bound::Unbounded => vec![],
        };
        let mode = IteratorMode::From(&first, Direction::Forward);
        Ok(Rows(self.database.iterator_opt(mode, options)))
    }

    fn write(
        &self,
        _count: usize,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut batch = Batch(WriteBatch::default());
        fill(&mut batch)?;
        self.database.write(batch.0).map_err(StoreError::failed)
    }

    /// After a failed sync, the store has to be opened again: RocksDB then writes all that it reads
    /// in the write-ahead log into sorted files, and syncs these.
    fn flush(&self) -> Result<(), StoreError> {
        if self.is_unsynced.load(Ordering::SeqCst) {
            return Err(StoreError::failed("a sync has failed: open the store again"));
        }
        let synced = self.database.flush_wal(true);
        synced
            .inspect_err(|_| self.is_unsynced.store(true, Ordering::SeqCst))
            .map_err(StoreError::failed)
    }

    /// Writes sorted files, and adds them with one change of RocksDB's manifest.
    fn ingest(
        &self,
        fill: impl FnOnce(&mut dyn Edits) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let files =
            SortedFiles::new(&self.options, self.place.path()).map_err(StoreError::failed)?;
        let names = files.write(fill)?;
        if names.is_empty() {
            return Ok(());
        }
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let ingested = self.database.ingest_external_file_opts(&options, names);
        ingested.map_err(StoreError::failed)
    }
}

impl fmt::Debug for Rocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rocks").finish_non_exhaustive()
    }
}

struct Batch(WriteBatch);

impl Edits for Batch {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.put(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.delete(key);
        Ok(())
    }
}

/// The rows of a range of keys in a snapshot. While the iterator exists, RocksDB keeps unread rows.
pub struct Rows<'a>(DBIterator<'a>);

impl Iterator for Rows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.0.next()?.map_err(StoreError::failed);
        Some(row.map(|(key, value)| (key.into_vec(), value.into_vec())))
    }
}

impl fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

fn failed(path: &Path) -> impl Fn(rocksdb::Error) -> OpenError + use<> {
    let (path, database) = (path.to_owned(), OpenError::database(path));
    move |source| match source.kind() {
        ErrorKind::Busy => OpenError::Locked { path: path.clone() },
        _ => database(source),
    }
}
