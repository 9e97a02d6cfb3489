//! The public handle for reading, also while a writer is running. A reader never changes a file.

use crate::base::codec::{Codec, MessagePack, Raw, Stored};
use crate::base::error::log_path::NamesLog;
use crate::base::error::{Error, Result};
use crate::base::options::Options;
use crate::base::record_type;
use crate::files::directory::open_existing;
use crate::files::live::LiveSource;
use crate::files::unlock::{LogFiles, Unlocker, require_key};
use crate::read::cursor::Cursor;
use crate::read::entries::Records;
use crate::read::follower::{Follower, NewRecords};
use crate::read::lookup::{FoundRecord, Lookup};
use crate::read::read_repair::ReadRepair;
use crate::read::record_id::RecordId;
use crate::read::snapshot::Snapshot;
use crate::scan::catalog::log_id;

use seawall_format::{CodecId, Layout, LogId, Lsn, Manifest, RecordType};
use seawall_io::{Storage, SystemClock};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log opened for reading. Takes no lock: any number of readers can run next to one writer.
///
/// While a writer runs, readers show the records that it published as durable. Without one, they
/// show every valid record, as the next open does. If no evidence confirms the last records, a
/// reader first syncs the newest segment and the directory; if that fails, it ends with
/// [`Error::Unconfirmed`](crate::Error::Unconfirmed) after the confirmed ones.
///
/// # Examples
///
/// ```
/// use seawall::{Log, LogReader, Lsn};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-read-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// log.append(&7)?;
/// let reader: LogReader<u32> = LogReader::open(&folder)?;
/// let found: Vec<_> = reader.read_from(Lsn::FIRST)?.collect::<Result<_, _>>()?;
/// assert_eq!(found, [(Lsn::FIRST, 7)]);
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogReader<T: ?Sized, C = MessagePack> {
    files: LogFiles,
    record_type: RecordType,
    /// The log's id; `None` if neither the manifest nor a header is readable.
    id: Option<LogId>,
    layout: Layout,
    /// The highest schema number that can be decoded.
    schema: u32,
    skip_damaged: bool,
    lookup: Lookup,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C: Codec<T>> LogReader<T, C> {
    /// Opens the log in the directory `path` for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::NotALog`], [`Error::Unsupported`]; [`Error::Mismatch`] if the log
    /// has another codec or type name, or a higher schema number. If a writer raises the schema
    /// number later, the reader gets that error when it comes to the new records.
    ///
    /// [`Error::Io`]: crate::Error::Io
    /// [`Error::NotALog`]: crate::Error::NotALog
    /// [`Error::Unsupported`]: crate::Error::Unsupported
    /// [`Error::Mismatch`]: crate::Error::Mismatch
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(open_existing(path.as_ref())?)
    }

    /// Opens the log in a custom storage.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`].
    pub fn open_in(storage: Arc<dyn Storage>) -> Result<Self> {
        Options::new().open_reader_in(storage)
    }

    fn open_with(options: &Options, storage: Arc<dyn Storage>) -> Result<Self> {
        let requested = options.record_type::<T, C>()?;
        let files = LogFiles::new(storage, Arc::new(Unlocker::of(options)?));
        let reader = Self::open_unchecked(files, requested.clone())?;
        record_type::check(&reader.record_type, &requested)?;
        Ok(reader)
    }

    fn open_unchecked(files: LogFiles, requested: RecordType) -> Result<Self> {
        let found = Snapshot::of_files(&files, &mut ReadRepair::default())?.catalog;
        require_key(&files.unlocker, found.is_encrypted())?;
        let id = log_id(&found);
        let manifest = found.manifest();
        let manifest = manifest.map(|manifest| (manifest.layout, manifest.record_type.clone()));
        let header = found.chain.last().map(|link| &link.segment.header);
        let header = header.map(|header| (header.layout, header.record_type.clone()));
        let schema = requested.schema;
        // With neither, there is no record to decode.
        let (layout, record_type) = manifest.or(header).unwrap_or((Layout::Binary, requested));
        let lookup = Lookup::new(files.clone());
        let (skip_damaged, record) = (false, PhantomData);
        Ok(Self { files, record_type, id, layout, schema, skip_damaged, lookup, record })
    }

    /// Sets whether to continue after an error about damage, unreadable bytes, or a record that
    /// cannot be decoded; a follower stays there. Records returned after it are intact, but some
    /// are missing; [`Record::set`](crate::Record::set) tells which ones belong to an incomplete
    /// atomic set.
    #[must_use]
    pub fn skip_damaged(mut self, skip: bool) -> Self {
        self.skip_damaged = skip;
        self
    }

    /// The first record that [`truncate_before`](crate::Log::truncate_before) did not remove, or
    /// the next LSN if the log is empty.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::NotALog`].
    ///
    /// [`Error::Io`]: crate::Error::Io
    /// [`Error::NotALog`]: crate::Error::NotALog
    pub fn oldest(&self) -> Result<Lsn> {
        self.starts().map(|(oldest, _)| oldest)
    }

    /// The LSN at which replay starts, as [`Log::replay_start`](crate::Log::replay_start): the
    /// newest checkpoint, or the oldest record without one.
    ///
    /// # Errors
    ///
    /// As [`oldest`](Self::oldest).
    pub fn replay_start(&self) -> Result<Lsn> {
        self.starts().map(|(oldest, checkpoint)| checkpoint.map_or(oldest, |lsn| lsn.max(oldest)))
    }

    /// The oldest record and the newest checkpoint.
    fn starts(&self) -> Result<(Lsn, Option<Lsn>)> {
        let found = Snapshot::of_files(&self.files, &mut ReadRepair::default());
        let found = found.of_log(&*self.files)?.catalog;
        let base = found.chain.first().map(|link| link.segment.header.base);
        let manifest = found.manifest();
        let stated = manifest.map(|manifest| manifest.oldest_base);
        let checkpoint = manifest.and_then(Manifest::newest_checkpoint);
        Ok((stated.or(base).unwrap_or(Lsn::FIRST), checkpoint))
    }

    /// Reads the records from `from` on.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if `from` was truncated at the start of the log; [`Error::Io`],
    /// [`Error::NotALog`]. The iterator returns damage, and a record that it cannot decode, as an
    /// error at its place, and [`Error::Rewound`] if records that it returned are truncated
    /// meanwhile. After an error it ends, unless the reader skips damage.
    ///
    /// [`Error::Pruned`]: crate::Error::Pruned
    /// [`Error::Io`]: crate::Error::Io
    /// [`Error::NotALog`]: crate::Error::NotALog
    /// [`Error::Rewound`]: crate::Error::Rewound
    pub fn read_from(&self, from: Lsn) -> Result<Records<T, C>> {
        Ok(Records::new(self.cursor(from)?, self.schema))
    }

    /// Reads and verifies the record at `lsn`; `None` after the last record that a reader may see.
    /// Works like [`Log::get`](crate::Log::get), but checks on each call how far the log is
    /// durable.
    ///
    /// # Errors
    ///
    /// As [`Log::get`](crate::Log::get).
    pub fn get(&self, lsn: Lsn) -> Result<Option<C::Item>> {
        let found = self.lookup.get(lsn, LiveSource::File(&*self.files));
        let decode = |FoundRecord { schema, payload, .. }: FoundRecord| {
            Stored { lsn, schema, payload: &payload }.decode::<T, C>(self.schema)
        };
        found.and_then(|found| found.map(decode).transpose()).of_log(&*self.files)
    }

    /// Follows the log: the records from `from` on, then new ones as they become durable.
    ///
    /// `from` is the LSN of a durable record, or the one after the last.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from), and [`Error::BeyondEnd`] if `from` is later: the program
    /// that kept this position has seen records that this log does not have.
    ///
    /// [`Error::BeyondEnd`]: crate::Error::BeyondEnd
    pub fn follow(&self, from: Lsn) -> Result<Follower<T, C>> {
        let cursor = self.cursor_after(from).of_log(&*self.files)?;
        let clock = Arc::new(SystemClock::new());
        let new_records = NewRecords::Polling(self.files.storage.clone(), clock);
        Ok(Follower::new(new_records, Records::new(cursor, self.schema), 0))
    }

    /// A cursor at `from` that has read the record before, and so notices if that is truncated.
    /// Refuses a position after the end of the log.
    fn cursor_after(&self, from: Lsn) -> Result<Cursor> {
        let Some(before) = from.previous() else { return self.cursor(from) };
        let mut cursor = match self.cursor(before) {
            // Reading from `from` reports whether that record was pruned, too.
            Err(Error::Pruned { .. }) => return self.cursor(from),
            cursor => cursor?,
        };
        cursor.check_reaches(from)?;
        // A lost record cannot be read.
        if cursor.next_lsn() == from { Ok(cursor) } else { self.cursor(from) }
    }

    /// Like [`read_from`](Self::read_from), but lends each record's bytes instead of decoding them.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from).
    pub fn cursor(&self, from: Lsn) -> Result<Cursor> {
        Cursor::new(&self.files, from, self.skip_damaged).of_log(&*self.files)
    }

    /// Splits the records from `from` on among up to `count` cursors, one per thread, in order and
    /// in roughly equal shares of whole segments.
    ///
    /// Each cursor reads the log independently, so a truncation meanwhile is an error of the cursor
    /// that it affects.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = std::env::temp_dir().join(format!("seawall-doc-side-{}", std::process::id()));
    /// use seawall::{Cursor, Log, LogReader, Lsn};
    ///
    /// let log: Log<String> = Log::open(&dir)?;
    /// log.append_batch(&["one".to_owned(), "two".to_owned(), "three".to_owned()])?;
    /// let reader: LogReader<String> = LogReader::open(&dir)?;
    /// let count: u64 = std::thread::scope(|scope| {
    ///     let count = |mut cursor: Cursor| {
    ///         let mut records = 0;
    ///         while cursor.next_record()?.is_some() {
    ///             records += 1;
    ///         }
    ///         Ok::<u64, seawall::Error>(records)
    ///     };
    ///     let cursors = reader.cursors(Lsn::FIRST, 2)?.into_iter();
    ///     let start = |cursor| scope.spawn(move || count(cursor));
    ///     let threads: Vec<_> = cursors.map(start).collect();
    ///     threads.into_iter().map(|thread| thread.join().expect("counts")).sum::<Result<_, _>>()
    /// })?;
    /// assert_eq!(count, 3);
    /// # drop(log);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursors(&self, from: Lsn, count: usize) -> Result<Vec<Cursor>> {
        let cursors = Cursor::partition(&self.files, from, (count, self.skip_damaged));
        cursors.of_log(&*self.files)
    }
}

impl LogReader<[u8], Raw> {
    /// Opens a log of any codec, type and schema, to read the bytes of its records.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`], without the checks of codec, type name and schema.
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_any_in(open_existing(path.as_ref())?)
    }

    /// Opens a log of any codec, type and schema in a custom storage.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open_any`].
    pub fn open_any_in(storage: Arc<dyn Storage>) -> Result<Self> {
        Options::new().open_any_reader_in(storage)
    }
}

impl<T: ?Sized, C> LogReader<T, C> {
    /// The log's id, as [`Log::id`](crate::Log::id); `None` if neither the manifest nor a segment
    /// header is readable.
    #[must_use]
    pub fn id(&self) -> Option<LogId> {
        self.id
    }

    /// The log's path, or its name in another kind of storage.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.files.path()
    }

    /// The layout of the log's files.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The identity of the record that has this LSN now, as
    /// [`Log::record_id`](crate::Log::record_id).
    ///
    /// # Errors
    ///
    /// As [`Log::record_id`](crate::Log::record_id).
    pub fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>> {
        let found = self.lookup.get(lsn, LiveSource::File(&*self.files));
        Ok(found.of_log(&*self.files)?.map(|found| found.id(lsn, self.layout)))
    }

    /// The codec of the payloads.
    #[must_use]
    pub fn codec(&self) -> CodecId {
        self.record_type.codec
    }

    /// The type name of the records; empty if none was set.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.record_type.name
    }

    /// The highest schema number in the log when it was opened. Each record has its own, see
    /// [`Record::schema`](crate::Record::schema).
    #[must_use]
    pub fn schema(&self) -> u32 {
        self.record_type.schema
    }
}

impl Options {
    /// Opens the log in the directory `path` for reading. Only the options that describe the
    /// records apply.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`].
    pub fn open_reader<T: ?Sized, C: Codec<T>>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<LogReader<T, C>> {
        self.open_reader_in(open_existing(path.as_ref())?)
    }

    /// Opens the log in the directory `path` for reading, whatever its codec, type and schema are.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open_any`].
    pub fn open_any_reader(&self, path: impl AsRef<Path>) -> Result<LogReader<[u8], Raw>> {
        self.open_any_reader_in(open_existing(path.as_ref())?)
    }

    /// Like [`open_any_reader`](Self::open_any_reader), in a custom storage.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open_any`].
    pub fn open_any_reader_in(&self, storage: Arc<dyn Storage>) -> Result<LogReader<[u8], Raw>> {
        let any = RecordType { schema: u32::MAX, ..RecordType::of(CodecId::Raw) };
        let log = storage.clone();
        let unlocker = Unlocker::of(self);
        let files = unlocker.map(|unlocker| LogFiles::new(storage, Arc::new(unlocker)));
        files.and_then(|files| LogReader::open_unchecked(files, any)).of_log(&*log)
    }

    /// Opens the log in a custom storage for reading.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`].
    pub fn open_reader_in<T: ?Sized, C: Codec<T>>(
        &self,
        storage: Arc<dyn Storage>,
    ) -> Result<LogReader<T, C>> {
        let log = storage.clone();
        LogReader::open_with(self, storage).of_log(&*log)
    }
}
