//! One write to a store.

use seawall::Lsn;
use std::fmt;

/// One write to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The record that asks for it; of several writes to one key the last.
    pub lsn: Lsn,
    /// The table; the one without a name is always there.
    pub table: String,
    /// What to do in it.
    pub edit: Edit,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The key is no longer there; it may never have been.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// The table comes to be, empty; it was not there.
    Create {
        /// What the catalog says of it.
        definition: Vec<u8>,
    },
    /// The table, which was there, and its rows go.
    Drop,
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
