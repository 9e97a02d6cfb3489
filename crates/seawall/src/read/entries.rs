//! Iterator over decoded records.

use crate::base::codec::{Codec, MessagePack, Stored};
use crate::base::error::Result;
use crate::base::error::log_path::NamesLog;
use crate::files::unlock::LogFiles;
use crate::read::cursor::{Cursor, Record};
use seawall_format::Lsn;
use std::marker::PhantomData;

/// The decoded records of a log: each item is `Ok((lsn, record))`, or the error at which reading
/// ends.
#[derive(Debug)]
pub struct Records<T: ?Sized, C = MessagePack> {
    cursor: Cursor,
    /// Names the log in errors while a record is borrowed from the cursor.
    log: LogFiles,
    /// The highest schema number that can be decoded.
    schema: u32,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C> Records<T, C> {
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
}

impl<T: ?Sized, C: Codec<T>> Records<T, C> {
    pub(crate) fn new(cursor: Cursor, schema: u32) -> Self {
        Self { log: cursor.files().clone(), cursor, schema, record: PhantomData }
    }
}

impl<T: ?Sized, C: Codec<T>> Records<T, C> {
    /// Returns the next record, both decoded and as stored; `None` at the end.
    ///
    /// # Errors
    ///
    /// As for each item of the iterator.
    pub fn next_stored(&mut self) -> Result<Option<(Record<'_>, C::Item)>> {
        let Some(record) = self.cursor.next_record()? else { return Ok(None) };
        let Record { lsn, schema, payload, .. } = record;
        let decoded = Stored { lsn, schema, payload }.decode::<T, C>(self.schema);
        Ok(Some((record, decoded.of_log(&*self.log)?)))
    }
}

impl<T: ?Sized, C: Codec<T>> Iterator for Records<T, C> {
    type Item = Result<(Lsn, C::Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        let stored = self.next_stored().transpose()?;
        Some(stored.map(|(record, decoded)| (record.lsn, decoded)))
    }
}
