//! Where operations come from: a log, read from a number on.

use crate::{Logged, Operation, Outline};
use seawall::{Codec, LogReader, Lsn, Result};

/// The operations of a log, each with the number of its record, as far as it is durable.
pub type Operations<'a> = Box<dyn Iterator<Item = Result<(Lsn, Option<Operation>)>> + Send + 'a>;

/// What those do to their transactions.
pub type Outlines<'a> = Box<dyn Iterator<Item = Result<(Lsn, Option<Outline>)>> + Send + 'a>;

/// What is replayed: a [`LogReader`] of records that are [`Logged`].
pub trait Source: Sync {
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
    fn outlines(&self, from: Lsn) -> Result<Outlines<'_>> {
        let outline = |(lsn, operation): (Lsn, Option<Operation>)| {
            (lsn, operation.as_ref().map(Outline::from))
        };
        Ok(Box::new(self.operations(from)?.map(move |entry| entry.map(outline))))
    }
}

/// A source whose records are decoded in the first pass as well: what is only looked at, and not
/// applied behind it, is to be found readable.
pub(crate) struct Decoded<'a>(pub(crate) &'a dyn Source);

impl Source for Decoded<'_> {
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
    fn oldest(&self) -> Result<Lsn> {
        self.oldest()
    }

    fn operations(&self, from: Lsn) -> Result<Operations<'_>> {
        let entries = self.read_from(from)?;
        Ok(Box::new(entries.map(|entry| entry.map(|(lsn, record)| (lsn, record.operation())))))
    }
}
