//! The names of *Design and Reliability of a User Space Write-Ahead Log in Rust*, over this log.
//!
//! What the paper's two logs promise holds here, and more: a changed value is caught in the JSON
//! log too, a torn end is told from damage, and sets are atomic. `docs/performance.md` repeats the
//! paper's experiments with the outcomes side by side.

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

/// The paper's log whose records people can read: one line of JSON each.
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

/// The paper's compact log: `MessagePack`, checksummed.
pub type BinLogger<T> = Logger<T, MessagePack>;

/// A log by the paper's method names: [`JSONLogger`] or [`BinLogger`].
///
/// `new`, `write`, `retrieve` are the paper's abstract operations, `write_data` and
/// `retrieve_iterator` the names in its listing. A log is a directory here, not a file.
#[derive(Debug)]
pub struct Logger<T, C> {
    path: PathBuf,
    state: Mutex<State<T, C>>,
}

#[derive(Debug)]
enum State<T, C> {
    Open(Arc<Log<T, C>>),
    /// What opening ended with, if nobody was told of it.
    Failed(Option<Error>),
}

impl<T, C: Codec<T>> Logger<T, C> {
    /// Opens or creates the log in the directory `path`.
    ///
    /// As the paper's, it returns no error: the first call that needs the log does; the calls
    /// behind it try again.
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

    /// Writes a record; it is durable when this returns. An error says that it is not, and
    /// the call may be repeated.
    ///
    /// # Errors
    ///
    /// As [`Log::append`], and as [`Log::open`] until that has succeeded.
    pub fn write(&self, record: &T) -> Result<Lsn> {
        self.log()?.append(record)
    }

    /// Writes a set of records as one, the paper's configurations B and C: all of them are
    /// durable when this returns, and after a crash all or none are there.
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

    /// [`write`](Self::write), as the paper's listing calls it.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_data(&self, record: &T) -> Result<Lsn> {
        self.write(record)
    }

    /// The records in the order in which they were written, read and verified one by one. At a
    /// corrupted record stands an error that names it, and nothing comes behind.
    ///
    /// A damaged log can be retrieved up to its damage, though nothing can be written to it.
    ///
    /// # Errors
    ///
    /// As [`Log::open`], and as [`LogReader::read_from`].
    pub fn retrieve(&self) -> Result<Retrieved<T, C>> {
        match self.log() {
            Ok(_) | Err(Error::Damaged(_) | Error::Ambiguous { .. } | Error::Busy { .. }) => {}
            Err(error) => return Err(error),
        }
        let reader = LogReader::<T, C>::open(&self.path)?;
        let oldest = reader.oldest()?;
        Ok(Retrieved { entries: reader.read_from(oldest)? })
    }

    /// [`retrieve`](Self::retrieve), as the paper's listing calls it.
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
