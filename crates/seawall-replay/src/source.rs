//! Sources of operations: a log, read from an LSN on.

use crate::operation::{Logged, Operation};
use crate::record_summary::RecordSummary;
use seawall::format::{LogId, RecordId};
use seawall::{Codec, Error, LogReader, Lsn, Result};

/// An iterator over durable operations, each with its record.
pub type Operations<'a> =
    Box<dyn Iterator<Item = Result<(RecordId, Option<Operation>)>> + Send + 'a>;

/// An iterator over the summaries of durable operations, each with its LSN.
pub type RecordSummaries<'a> =
    Box<dyn Iterator<Item = Result<(Lsn, Option<RecordSummary>)>> + Send + 'a>;

/// A log to replay: a [`LogReader`] of records that are [`Logged`].
pub trait Source: Sync {
    /// Returns the id of the log. A store built from another log is refused.
    ///
    /// # Errors
    ///
    /// As [`LogReader::read_from`].
    fn log_id(&self) -> Result<LogId>;

    /// Returns the record that has this LSN now, or `None` after the last durable record. A store
    /// that has applied another record with this LSN is refused.
    ///
    /// # Errors
    ///
    /// As [`LogReader::record_id`].
    fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>>;

    /// Returns the first record that was not pruned.
    ///
    /// # Errors
    ///
    /// As [`LogReader::oldest`].
    fn oldest(&self) -> Result<Lsn>;

    /// Returns the operations from `from` on. A record that changes nothing is `None`. If an LSN is
    /// missing between two operations, a repair gave up that record.
    ///
    /// # Errors
    ///
    /// As [`LogReader::read_from`].
    fn operations(&self, from: Lsn) -> Result<Operations<'_>>;

    /// Returns summaries of the operations, for the first pass of a replay. A source is read faster
    /// if it does not decode keys and values for summaries.
    ///
    /// # Errors
    ///
    /// As [`LogReader::read_from`].
    fn summaries(&self, from: Lsn) -> Result<RecordSummaries<'_>> {
        let outline = |(record, operation): (RecordId, Option<Operation>)| {
            (record.lsn, operation.as_ref().map(RecordSummary::from))
        };
        Ok(Box::new(self.operations(from)?.map(move |entry| entry.map(outline))))
    }
}

/// A source that decodes whole records even for summaries. Used when nothing is applied afterwards,
/// to find unreadable records nevertheless.
pub(crate) struct Decoded<'a>(pub(crate) &'a dyn Source);

impl Source for Decoded<'_> {
    fn log_id(&self) -> Result<LogId> {
        self.0.log_id()
    }

    fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>> {
        self.0.record_id(lsn)
    }

    fn oldest(&self) -> Result<Lsn> {
        self.0.oldest()
    }

    fn operations(&self, from: Lsn) -> Result<Operations<'_>> {
        self.0.operations(from)
    }
}

impl<T: ?Sized, C: Codec<T>> Source for LogReader<T, C>
where
    C::Item: Logged,
{
    fn log_id(&self) -> Result<LogId> {
        known_id(self)
    }

    fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>> {
        self.record_id(lsn)
    }

    fn oldest(&self) -> Result<Lsn> {
        self.oldest()
    }

    fn operations(&self, from: Lsn) -> Result<Operations<'_>> {
        let (mut entries, layout) = (self.read_from(from)?, self.layout());
        let mut next = move || {
            let Some((record, decoded)) = entries.next_stored()? else { return Ok(None) };
            Ok(Some((RecordId::of(&record, layout), decoded.operation())))
        };
        Ok(Box::new(std::iter::from_fn(move || next().transpose())))
    }
}

/// Returns the id of the reader's log. If neither its manifest nor a segment header has the id,
/// reading reports the damage.
///
/// # Errors
///
/// As [`LogReader::read_from`].
pub fn known_id<T: ?Sized, C: Codec<T>>(reader: &LogReader<T, C>) -> Result<LogId> {
    if let Some(id) = reader.id() {
        return Ok(id);
    }
    reader.cursor(reader.oldest()?)?.next_record()?;
    let why = "neither the manifest nor a segment header contains the log's id".to_owned();
    Err(Error::InvalidOption { log: Some(reader.path()), why })
}
