//! One write to a store.

use seawall::Lsn;
use std::fmt;

/// One write to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The record of the change; the last one if several changes of a key were folded.
    pub lsn: Lsn,
    /// The table. The table with the empty name always exists.
    pub table: String,
    /// The operation on the table.
    pub edit: Edit,
}

/// The operation of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Sets the value of a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Removes a key. A missing key is not an error.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Creates an empty table, which did not exist before.
    Create {
        /// The table's description in the catalog.
        definition: Vec<u8>,
    },
    /// Drops an existing table and its rows.
    Drop,
}

/// A row that an ingestion puts or deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRow<'a> {
    /// The record of the change; the last one if several changes of the key were folded.
    pub lsn: Lsn,
    /// The table.
    pub table: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The value. A row without one is deleted, if it exists.
    pub value: Option<&'a [u8]>,
}

impl<'a> NewRow<'a> {
    /// Returns the row of a write; `None` unless the write puts or deletes a row.
    #[must_use]
    pub fn of(write: &'a Write) -> Option<Self> {
        let (key, value) = match &write.edit {
            Edit::Put { key, value } => (key, Some(value.as_slice())),
            Edit::Delete { key } => (key, None),
            Edit::Create { .. } | Edit::Drop => return None,
        };
        Some(Self { lsn: write.lsn, table: &write.table, key, value })
    }

    /// Converts the row to a write of a batch.
    #[must_use]
    pub fn to_write(&self) -> Write {
        let key = self.key.to_vec();
        let edit = match self.value {
            Some(value) => Edit::Put { key, value: value.to_vec() },
            None => Edit::Delete { key },
        };
        Write { lsn: self.lsn, table: self.table.to_owned(), edit }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.clone();
        match &self.edit {
            Edit::Put { key, .. } => crate::operation::Change::put(table, key.as_slice(), ""),
            Edit::Delete { key } => crate::operation::Change::delete(table, key.as_slice()),
            Edit::Create { .. } => crate::operation::Change::create_table(table, ""),
            Edit::Drop => crate::operation::Change::drop_table(table),
        }
        .fmt(f)
    }
}

/// Returns whether two names are equal. Skips the comparison of empty names: their pointers are
/// dangling, and some processors stall when they load from them speculatively.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
