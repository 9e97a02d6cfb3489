//! The API of the paper *Design and Reliability of a User Space Write-Ahead Log in Rust*, on top of
//! this log.
//!
//! The promises of the paper's two logs hold, and more: the JSON log detects changed values, too;
//! torn ends and damage are distinguished; and sets are atomic. `docs/performance.md` repeats the
//! paper's experiments and compares the results.

use crate::base::codec::{Codec, MessagePack};
use crate::base::error::{Error, Result};
use crate::base::json::Json;
use crate::base::options::Options;
use crate::base::sync::Mutex;
use crate::log::Log;
use crate::read::entries::Records;
use crate::reader::LogReader;
use seawall_format::{CodecId, Layout, Lsn};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

/// The paper's readable log: one line of JSON per record.
///
/// # Examples
///
/// ```
/// use seawall::paper::JSONLogger;
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-paper-{}", std::process::id()));
/// let logger: JSONLogger<u32> = JSONLogger::new(&folder);
/// logger.write(&42)?;
/// let records: Vec<u32> = logger.retrieve()?.collect::<Result<_, _>>()?;
/// assert_eq!(records, [42]);
/// # drop(logger); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type JSONLogger<T> = Logger<T, Json>;

/// The paper's compact log: `MessagePack` with checksums.
pub type BinLogger<T> = Logger<T, MessagePack>;

/// A log by the paper's method names: [`JSONLogger`] or [`BinLogger`].
///
/// `new`, `write` and `retrieve` are the paper's abstract operations, `write_data` and
/// `retrieve_iterator` the names in its listing. Here a log is a directory, not a file.
#[derive(Debug)]
pub struct Logger<T, C> {
    path: PathBuf,
    state: Mutex<State<T, C>>,
}

#[derive(Debug)]
enum State<T, C> {
    Open(Arc<Log<T, C>>),
    /// The error of opening, until a call has returned it.
    Failed(Option<Error>),
}

impl<T, C: Codec<T>> Logger<T, C> {
    /// Opens or creates the log in the directory `path`.
    ///
    /// As in the paper, this returns no error. The first call that needs the log does; later calls
    /// try again to open it.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let state = match Self::open(&path) {
            Ok(log) => State::Open(Arc::new(log)),
            Err(error) => State::Failed(Some(error)),
        };
        Self { path, state: Mutex::new(state) }
    }

    fn open(path: &Path) -> Result<Log<T, C>> {
        let layout = if C::ID == CodecId::Json { Layout::Text } else { Layout::Binary };
        Options::new().layout(layout).open(path)
    }

    fn log(&self) -> Result<Arc<Log<T, C>>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let log = match &mut *state {
            State::Open(log) => return Ok(log.clone()),
            State::Failed(error) => match error.take() {
                Some(error) => return Err(error),
                None => Arc::new(Self::open(&self.path)?),
            },
        };
        *state = State::Open(log.clone());
        Ok(log)
    }

    /// Writes a record and returns once it is durable. After an error the record is not
    /// acknowledged, and the call may be repeated.
    ///
    /// # Errors
    ///
    /// As [`Log::append`], and as [`Log::open`] until that has succeeded.
    pub fn write(&self, record: &T) -> Result<Lsn> {
        self.log()?.append(record)
    }

    /// Writes records as one atomic set, as in the paper's configurations B and C: all of them are
    /// durable when this returns, and after a crash either all exist or none.
    ///
    /// # Errors
    ///
    /// As [`Log::append_batch`], and as [`Log::open`] until that has succeeded.
    pub fn write_set<'a>(
        &self,
        records: impl IntoIterator<Item = &'a T>,
    ) -> Result<RangeInclusive<Lsn>>
    where
        T: 'a,
    {
        self.log()?.append_batch(records)
    }

    /// The name of [`write`](Self::write) in the paper's listing.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_data(&self, record: &T) -> Result<Lsn> {
        self.write(record)
    }

    /// Sets a checkpoint durably: [`retrieve_since_checkpoint`](Self::retrieve_since_checkpoint)
    /// begins at the record `lsn`. First make the dump of your state durable that replaces the
    /// records before it.
    ///
    /// # Errors
    ///
    /// As [`Log::checkpoint`], and as [`Log::open`] until that has succeeded.
    pub fn checkpoint(&self, lsn: Lsn) -> Result<()> {
        self.log()?.checkpoint(lsn)
    }

    /// Reads all records in the order in which they were written, each verified. At a corrupted
    /// record the iterator returns an error that names it, and ends.
    ///
    /// A damaged log can be read up to its damage, although nothing can be written to it.
    ///
    /// # Errors
    ///
    /// As [`Log::open`], and as [`LogReader::read_from`].
    pub fn retrieve(&self) -> Result<Retrieved<T, C>> {
        self.retrieve_from(LogReader::oldest)
    }

    /// Reads the records from the newest checkpoint on, as the paper's recovery does; without a
    /// checkpoint, all of them.
    ///
    /// # Errors
    ///
    /// As [`retrieve`](Self::retrieve).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::paper::BinLogger;
    ///
    /// # let name = format!("seawall-doc-since-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let logger: BinLogger<u32> = BinLogger::new(&folder);
    /// let last = logger.write(&1)?;
    /// // Here the program makes a dump of its state durable, record 1 included.
    /// logger.checkpoint(last.next())?;
    /// logger.write(&2)?;
    /// let records: Vec<u32> = logger.retrieve_since_checkpoint()?.collect::<Result<_, _>>()?;
    /// assert_eq!(records, [2]);
    /// # drop(logger); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retrieve_since_checkpoint(&self) -> Result<Retrieved<T, C>> {
        self.retrieve_from(LogReader::replay_start)
    }

    fn retrieve_from(
        &self,
        start: impl FnOnce(&LogReader<T, C>) -> Result<Lsn>,
    ) -> Result<Retrieved<T, C>> {
        let reader: LogReader<T, C> = match self.log() {
            // Not by its path, where another log may be by now.
            Ok(log) => LogReader::open_in(log.shared_storage())?,
            Err(Error::Damaged { .. } | Error::Ambiguous { .. } | Error::Busy { .. }) => {
                LogReader::open(&self.path)?
            }
            Err(error) => return Err(error),
        };
        let entries = reader.read_from(start(&reader)?)?;
        Ok(Retrieved { entries })
    }

    /// The name of [`retrieve`](Self::retrieve) in the paper's listing.
    ///
    /// # Errors
    ///
    /// As [`retrieve`](Self::retrieve).
    pub fn retrieve_iterator(&self) -> Result<Retrieved<T, C>> {
        self.retrieve()
    }
}

/// The records of a [`Logger`], oldest first.
#[derive(Debug)]
pub struct Retrieved<T, C> {
    entries: Records<T, C>,
}

impl<T, C: Codec<T>> Iterator for Retrieved<T, C> {
    type Item = Result<C::Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next().map(|entry| entry.map(|(_, record)| record))
    }
}
