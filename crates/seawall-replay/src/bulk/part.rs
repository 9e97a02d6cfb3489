//! A part of the collected changes, small enough to be sorted in the CPU cache.

use crate::apply::fold::merged;
use crate::bulk::row::{Packed, Row, pack};
use crate::bulk::tables::Tables;
use crate::error::Result;
use crate::merge::Operators;
use crate::operation::Change;
use seawall::Lsn;

/// Packed rows in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Part {
    bytes: Vec<u8>,
    rows: Vec<Position>,
}

/// The position of a row, with the numbers that decide most comparisons.
#[derive(Clone, Copy, Debug)]
struct Position {
    table: u32,
    /// See [`Tables::head`].
    head: u64,
    at: usize,
}

/// Packed rows, sorted by table and key.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) bytes: Vec<u8>,
    /// The number of each table, and the end of its rows in `bytes`.
    pub(crate) ends: Vec<(u32, usize)>,
}

impl Part {
    /// The size in memory, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<Position>()
    }

    /// Adds a change of a row of this table.
    pub(crate) fn add(&mut self, lsn: Lsn, (table, change): (u32, &Change)) -> Result<()> {
        self.rows.push(Position { table, head: 0, at: self.bytes.len() });
        pack(lsn, (table, change), &mut self.bytes)
    }

    /// Takes the rows of each table, sorted by key. Rows of one key keep the order of the log, and
    /// are folded as far as possible without reading the store: a merge into a known value is
    /// evaluated, and a value replaces a known one. No merge is dropped, because it may fail.
    pub(crate) fn take_sorted(
        &mut self,
        (tables, operators): (&Tables, &Operators),
    ) -> Result<Rows> {
        self.sort(tables);
        let mut sorted = Rows { bytes: Vec::with_capacity(self.bytes.len()), ends: vec![] };
        let to = &mut sorted.bytes;
        let is_same_key = |one: &Position, other: &Position| {
            (one.table, one.head) == (other.table, other.head) && self.key(one) == self.key(other)
        };
        for same in self.rows.chunk_by(is_same_key) {
            let Some(table) = same.first().map(|row| row.table) else { continue };
            let rows = same.iter().map(|row| Packed::at(&self.bytes, row.at));
            let rows: Vec<Packed> = rows.collect::<Result<_>>()?;
            match rows.last() {
                Some(last) if !rows.iter().any(Packed::is_merge) => {
                    to.extend_from_slice(last.whole(&self.bytes));
                }
                _ => {
                    let name = tables.name(table);
                    let rows = rows.iter().map(|row| row.unpack(&self.bytes, name));
                    for row in fold(rows.collect::<Result<Vec<_>>>()?, operators) {
                        let (lsn, change) = row?;
                        pack(lsn, (table, &change), to)?;
                    }
                }
            }
            match sorted.ends.last_mut() {
                Some((last, end)) if *last == table => *end = to.len(),
                _ => sorted.ends.push((table, to.len())),
            }
        }
        // Folding many changes of few keys leaves few rows.
        to.shrink_to_fit();
        self.bytes.clear();
        self.rows.clear();
        Ok(sorted)
    }

    fn sort(&mut self, tables: &Tables) {
        let mut rows = std::mem::take(&mut self.rows);
        for row in &mut rows {
            row.head = tables.head(row.table, self.key(row));
        }
        rows.sort_unstable_by(|one, other| {
            let numbers = (one.table, one.head).cmp(&(other.table, other.head));
            let by_key = || self.key(one).cmp(self.key(other)).then(one.at.cmp(&other.at));
            numbers.then_with(by_key)
        });
        self.rows = rows;
    }

    fn key(&self, row: &Position) -> &[u8] {
        Packed::at(&self.bytes, row.at).map_or(&[], |packed| packed.key(&self.bytes))
    }
}

/// Folds the changes of one key.
fn fold(rows: Vec<Row>, operators: &Operators) -> impl Iterator<Item = Result<Row>> {
    let mut rows = rows.into_iter();
    std::iter::from_fn(move || {
        let mut row = rows.next()?;
        while !matches!(row.1, Change::Merge { .. })
            && let Some(next) = rows.next()
        {
            row = match merged(row, next, operators) {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
        }
        Some(Ok(row))
    })
}
