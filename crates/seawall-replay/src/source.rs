//! Where operations come from: a log, read from a number on.

use crate::operation::{Logged, Operation};
use crate::record_summary::RecordSummary;
use seawall::format::{LogId, RecordId};
use seawall::{Codec, Error, LogReader, Lsn, Result};

/// The operations of a log, each with its record, as far as it is durable.
pub type Operations<'a> =
    Box<dyn Iterator<Item = Result<(RecordId, Option<Operation>)>> + Send + 'a>;

/// What those do to their transactions, each with the number of its record.
pub type RecordSummaries<'a> =
    Box<dyn Iterator<Item = Result<(Lsn, Option<RecordSummary>)>> + Send + 'a>;

/// What is replayed: a [`LogReader`] of records that are [`Logged`].
pub trait Source: Sync {
    /// Which log it is: a store that was brought back from another one is refused.
    ///
    /// # Errors
    ///
    /// As [`LogReader::read_from`].
    fn log_id(&self) -> Result<LogId>;

    /// Which record has this number now; `None` behind the last durable one. A store that has
    /// applied another record with this number is refused.
    ///
    /// # Errors
    ///
    /// As [`LogReader::record_id`].
    fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>>;

    /// The first record that was not given up.
    ///
    /// # Errors
    ///
    /// As [`LogReader::oldest`].
    fn oldest(&self) -> Result<Lsn>;

    /// The operations from `from` on; a record that changes nothing is `None`.
    ///
    /// # Errors
    ///
    /// As [`LogReader::read_from`].
    fn operations(&self, from: Lsn) -> Result<Operations<'_>>;

    /// The same, as the first pass of a replay needs them. A source that can tell without decoding
    /// keys and values may do so, and is read faster.
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

/// A source whose records are decoded in the first pass as well: what is only looked at, and not
/// applied behind it, is to be found readable.
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

/// Which log a reader has open. Where neither its manifest nor a header says so, reading it names
/// the damage.
///
/// # Errors
///
/// As [`LogReader::read_from`].
pub fn known_id<T: ?Sized, C: Codec<T>>(reader: &LogReader<T, C>) -> Result<LogId> {
    if let Some(id) = reader.id() {
        return Ok(id);
    }
    reader.cursor(reader.oldest()?)?.next_record()?;
    let why = "neither a manifest nor the header of a segment says which log it is".to_owned();
    Err(Error::InvalidOption { why })
}
