//! Iterates over the rows of a table.

use crate::engine::Row;
use crate::key::ROW_PREFIX;
use seawall_replay::StoreError;
use std::fmt;

/// The rows of a table, sorted by key, from [`Tables::rows`](crate::Tables::rows).
///
/// Each item is a key with its value, or an error of the database.
pub struct Rows<I>(Option<Result<I, StoreError>>);

impl<I> Rows<I> {
    pub(crate) fn new(rows: Option<Result<I, StoreError>>) -> Self {
        Self(rows)
    }

    fn next_with(
        &mut self,
        next: impl FnOnce(&mut I) -> Option<Result<Row, StoreError>>,
    ) -> Option<Result<Row, StoreError>> {
        match &mut self.0 {
            None => None,
            Some(Ok(rows)) => {
                Some(next(rows)?.map(|(key, value)| {
                    (key.get(ROW_PREFIX..).unwrap_or_default().to_vec(), value)
                }))
            }
            Some(Err(_)) => self.0.take().and_then(Result::err).map(Err),
        }
    }
}

impl<I: Iterator<Item = Result<Row, StoreError>>> Iterator for Rows<I> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_with(I::next)
    }
}

impl<I: DoubleEndedIterator<Item = Result<Row, StoreError>>> DoubleEndedIterator for Rows<I> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_with(I::next_back)
    }
}

impl<I> fmt::Debug for Rows<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}
