//! Iterates over the rows of a table.

use crate::key::ROW_PREFIX;
use fjall::{Guard, Iter};
use seawall_replay::StoreError;
use std::fmt;

/// A snapshot of the rows of a table, sorted by key, from
/// [`FjallStore::rows`](crate::FjallStore::rows).
///
/// Each item is a key with its value, or an error of fjall. While the iterator exists, fjall keeps
/// the remaining rows.
pub struct Rows(Option<Iter>);

impl Rows {
    pub(crate) fn new(rows: Option<Iter>) -> Self {
        Self(rows)
    }
}

impl Iterator for Rows {
    type Item = Result<(Vec<u8>, Vec<u8>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(row(self.0.as_mut()?.next()?))
    }
}

impl DoubleEndedIterator for Rows {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(row(self.0.as_mut()?.next_back()?))
    }
}

fn row(entry: Guard) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    let (key, value) = entry.into_inner().map_err(StoreError::failed)?;
    Ok((key.get(ROW_PREFIX..).unwrap_or_default().to_vec(), value.to_vec()))
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}
