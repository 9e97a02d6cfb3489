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
///
/// Only a reader that [skips damage](crate::LogReader::skip_damaged) continues after errors, also
/// after a record that cannot be decoded.
#[derive(Debug)]
pub struct Records<T: ?Sized, C = MessagePack> {
    cursor: Cursor,
    /// Names the log in errors while a record is borrowed from the cursor.
    log: LogFiles,
    /// The highest schema number that can be decoded.
    schema: u32,
    /// The record that was not decoded, because of an error or a panic.
    undecoded: Option<Lsn>,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C> Records<T, C> {
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The LSN of the next record: after a failed decoding, of the record that failed.
    pub(crate) fn position(&self) -> Lsn {
        self.undecoded.unwrap_or_else(|| self.cursor.next_lsn())
    }

    /// Restarts at [`position`](Self::position) after an error.
    ///
    /// # Errors
    ///
    /// As [`Log::read_from`](crate::Log::read_from).
    pub(crate) fn restart_after_error(&mut self) -> Result<()> {
        if let Some(undecoded) = self.undecoded.take() {
            self.cursor.step_back(undecoded);
        }
        self.cursor.restart_after_error()
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
}

impl<T: ?Sized, C: Codec<T>> Records<T, C> {
    pub(crate) fn new(cursor: Cursor, schema: u32) -> Self {
        let (undecoded, record) = (None, PhantomData);
        Self { log: cursor.files().clone(), cursor, schema, undecoded, record }
    }
}

impl<T: ?Sized, C: Codec<T>> Records<T, C> {
    /// Returns the next record, both decoded and as stored; `None` at the end.
    ///
    /// # Errors
    ///
    /// As for each item of the iterator.
    pub fn next_stored(&mut self) -> Result<Option<(Record<'_>, C::Item)>> {
        if self.undecoded.is_some() && !self.cursor.skips_damage() {
            return Ok(None);
        }
        let Some(record) = self.cursor.next_record()? else { return Ok(None) };
        let Record { lsn, schema, payload, .. } = record;
        // Before decoding, because a codec may panic.
        self.undecoded = Some(lsn);
        let decoded = Stored { lsn, schema, payload }.decode::<T, C>(self.schema);
        let decoded = decoded.of_log(&*self.log)?;
        self.undecoded = None;
        Ok(Some((record, decoded)))
    }
}

impl<T: ?Sized, C: Codec<T>> Iterator for Records<T, C> {
    type Item = Result<(Lsn, C::Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        let stored = self.next_stored().transpose()?;
        Some(stored.map(|(record, decoded)| (record.lsn, decoded)))
    }
}
