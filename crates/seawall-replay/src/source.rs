//! Where operations come from: a log, read from a number on.

use crate::{Logged, Operation};
use seawall::{Codec, LogReader, Lsn, Result};

/// The operations of a log, each with the number of its record, as far as it is durable.
pub type Operations<'a> = Box<dyn Iterator<Item = Result<(Lsn, Option<Operation>)>> + Send + 'a>;

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
