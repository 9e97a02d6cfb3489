//! A change of a row, packed into bytes: for memory and the scratch file, not for a log.
//!
//! byte  size  field     value
//!    0     8  lsn       the record
//!    8     4  table     the number of the table
//!   12     4  key       the size of the key
//!   16     4  operator  the size of the operator's name; 0 except in a merge
//!   20     4  value     the size of the value or operand
//!   24     1  kind      0 put, 1 delete, 2 merge
//!   25        the key, the operator, and the value or operand

use crate::error::{Error, Result};
use crate::operation::Change;
use seawall::Lsn;
use std::io;
use std::ops::Range;

const HEADER: usize = 25;

/// A change and its record.
pub(crate) type Row = (Lsn, Change);

/// The kinds of changes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
    Merge,
}

impl Kind {
    fn to_byte(self) -> u8 {
        match self {
            Self::Put => 0,
            Self::Delete => 1,
            Self::Merge => 2,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Put, Self::Delete, Self::Merge].into_iter().find(|kind| kind.to_byte() == byte)
    }
}

/// The header of a packed row, and the positions of its parts in the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    start: usize,
    pub(crate) lsn: Lsn,
    pub(crate) table: u32,
    kind: Kind,
    key: Range<usize>,
    operator: Range<usize>,
    value: Range<usize>,
}

/// Appends a change of a row in packed form. Skips a change of a table, which has none.
///
/// # Errors
///
/// [`Error::Spill`] if the key, the operator or the value has 4 GiB or more.
pub(crate) fn pack(lsn: Lsn, (table, change): (u32, &Change), to: &mut Vec<u8>) -> Result<()> {
    let (kind, key, operator, value): (_, &[u8], &str, &[u8]) = match change {
        Change::Put { key, value, .. } => (Kind::Put, key, "", value),
        Change::Delete { key, .. } => (Kind::Delete, key, "", &[]),
        Change::Merge { key, operator, operand, .. } => (Kind::Merge, key, operator, operand),
        Change::CreateTable { .. } | Change::DropTable { .. } => return Ok(()),
    };
    let (key_size, operator_size, value_size) =
        (size(key)?, size(operator.as_bytes())?, size(value)?);
    to.extend_from_slice(&lsn.get().to_le_bytes());
    to.extend_from_slice(&table.to_le_bytes());
    to.extend_from_slice(&key_size);
    to.extend_from_slice(&operator_size);
    to.extend_from_slice(&value_size);
    to.push(kind.to_byte());
    to.extend_from_slice(key);
    to.extend_from_slice(operator.as_bytes());
    to.extend_from_slice(value);
    Ok(())
}

fn size(part: &[u8]) -> Result<[u8; 4]> {
    let size = u32::try_from(part.len());
    size.map(u32::to_le_bytes).map_err(|_| garbled("a key or value of 4 GiB and more"))
}

impl Packed {
    /// Reads the row that begins at `start`.
    ///
    /// # Errors
    ///
    /// [`Error::Spill`] if the bytes are not a row.
    pub(crate) fn at(bytes: &[u8], start: usize) -> Result<Self> {
        Self::parse(bytes, start).ok_or_else(|| garbled("a scratch file has changed"))
    }

    fn parse(bytes: &[u8], start: usize) -> Option<Self> {
        let (lsn, rest) = bytes.get(start..)?.split_first_chunk()?;
        let (table, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (operator, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let mut at = start + HEADER;
        let mut part = |size: &[u8; 4]| {
            let end = at.checked_add(usize::try_from(u32::from_le_bytes(*size)).ok()?)?;
            let part = at..end;
            at = end;
            Some(part)
        };
        let (key, operator, value) = (part(key)?, part(operator)?, part(value)?);
        let kind = Kind::from_byte(*rest.first()?)?;
        let lsn = Lsn::new(u64::from_le_bytes(*lsn))?;
        (value.end <= bytes.len()).then_some(Self {
            start,
            lsn,
            table: u32::from_le_bytes(*table),
            kind,
            key,
            operator,
            value,
        })
    }

    /// Returns the end of the row, where the next one begins.
    pub(crate) fn end(&self) -> usize {
        self.value.end
    }

    /// Returns all bytes of the row.
    pub(crate) fn whole<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.end()).unwrap_or_default()
    }

    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.key.clone()).unwrap_or_default()
    }

    /// Returns the value of a put; `None` for a delete or a merge.
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let is_put = self.kind == Kind::Put;
        is_put.then(|| bytes.get(self.value.clone()).unwrap_or_default())
    }

    /// Replaces the content of `to` with the row, and returns the row's position there.
    pub(crate) fn copy(&self, bytes: &[u8], to: &mut Vec<u8>) -> Self {
        to.clear();
        to.extend_from_slice(self.whole(bytes));
        let part = |part: &Range<usize>| part.start - self.start..part.end - self.start;
        let (key, operator, value) = (part(&self.key), part(&self.operator), part(&self.value));
        Self { start: 0, key, operator, value, ..*self }
    }

    pub(crate) fn is_merge(&self) -> bool {
        self.kind == Kind::Merge
    }

    /// Unpacks the row from its bytes.
    pub(crate) fn unpack(&self, bytes: &[u8], table: &str) -> Result<Row> {
        let part = |part: &Range<usize>| bytes.get(part.clone()).unwrap_or_default().to_vec();
        let (table, key) = (table.to_owned(), part(&self.key));
        let change = match self.kind {
            Kind::Put => Change::Put { table, key, value: part(&self.value) },
            Kind::Delete => Change::Delete { table, key },
            Kind::Merge => {
                let operator = String::from_utf8(part(&self.operator)).map_err(garbled)?;
                Change::Merge { table, key, operator, operand: part(&self.value) }
            }
        };
        Ok((self.lsn, change))
    }
}

/// Creates the error for a scratch file that does not contain what was written to it.
pub(crate) fn garbled(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Spill(io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_are_unpacked_as_they_were() {
        let changes = [
            Change::put("t", "key", "value"),
            Change::put("t", "", ""),
            Change::delete("t", "key"),
            Change::merge("t", "key", ("add", "1")),
        ];
        let mut bytes = Vec::new();
        for change in &changes {
            pack(Lsn::FIRST, (7, change), &mut bytes).unwrap();
        }
        let mut start = 0;
        for change in changes {
            let row = Packed::at(&bytes, start).unwrap();
            assert_eq!((row.table, row.is_merge()), (7, matches!(change, Change::Merge { .. })));
            assert_eq!(row.unpack(&bytes, "t").unwrap(), (Lsn::FIRST, change));
            start = row.end();
        }
        assert_eq!(start, bytes.len());
    }

    #[test]
    fn cut_row_is_no_row() {
        let mut bytes = Vec::new();
        pack(Lsn::FIRST, (0, &Change::put("", "key", "value")), &mut bytes).unwrap();
        let is_row = |size: usize| Packed::at(bytes.get(..size).unwrap(), 0).is_ok();
        assert!((0..bytes.len()).all(|size| !is_row(size)) && is_row(bytes.len()));
    }
}
