//! A run: changes of rows, sorted by table and key, in memory or in a scratch file.

use crate::apply::fold::{Sorted, is_same_row, merged};
use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::operation::Change;
use crate::transactions::spill::{Place, Spill};
use seawall::Lsn;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

/// The size of a block of a scratch file, in rows and in bytes. Each run has one in memory while it
/// is read.
const BLOCK_ROWS: usize = 512;
const BLOCK_BYTES: usize = 64 << 10;

/// A change and its record.
pub(crate) type Row = (Lsn, Change);

/// Sorted changes. Changes of one key keep the order of the log.
#[derive(Debug)]
pub(crate) enum Run {
    /// In memory: the rows of each table, and of the open table.
    Memory { sorted: Sorted, tables: BTreeMap<String, Range<usize>>, open: Range<usize> },
    /// In blocks of a scratch file.
    Scratch {
        tables: BTreeMap<String, VecDeque<Place>>,
        open: VecDeque<Place>,
        block: std::vec::IntoIter<(u64, Change)>,
    },
}

impl Run {
    /// Keeps sorted rows in memory.
    pub(crate) fn in_memory(sorted: Sorted) -> Self {
        let tables = sorted.tables();
        Self::Memory { sorted, tables, open: 0..0 }
    }

    /// Writes sorted rows to the scratch file.
    pub(crate) fn spilled(sorted: Sorted, to: &mut Spill, operators: &Operators) -> Result<Self> {
        let mut tables: BTreeMap<String, VecDeque<Place>> = BTreeMap::new();
        let mut block = Block::default();
        for row in fold(sorted.into_rows(), operators) {
            let (lsn, change) = row?;
            if block.is_full() || block.is_of_another_table(&change) {
                block.write(&mut tables, to)?;
            }
            block.push(lsn, change);
        }
        block.write(&mut tables, to)?;
        Ok(Self::Scratch { tables, open: VecDeque::new(), block: vec![].into_iter() })
    }

    /// The tables that it has rows of.
    pub(crate) fn tables(&self) -> Vec<&String> {
        match self {
            Self::Memory { tables, .. } => tables.keys().collect(),
            Self::Scratch { tables, .. } => tables.keys().collect(),
        }
    }

    /// Continues with the rows of this table.
    pub(crate) fn open(&mut self, table: &str) {
        match self {
            Self::Memory { tables, open, .. } => {
                *open = tables.remove(table).unwrap_or_default();
            }
            Self::Scratch { tables, open, .. } => {
                *open = tables.remove(table).unwrap_or_default();
            }
        }
    }

    /// Takes the next row of the open table.
    pub(crate) fn next(&mut self, scratch: Option<&Spill>) -> Result<Option<Row>> {
        match self {
            Self::Memory { sorted, open, .. } => {
                Ok(open.next().and_then(|position| sorted.take(position)))
            }
            Self::Scratch { open, block, .. } => {
                if block.as_slice().is_empty()
                    && let (Some(place), Some(scratch)) = (open.pop_front(), scratch)
                {
                    let bytes = scratch.get(place)?;
                    let rows: Vec<_> = rmp_serde::from_slice(&bytes).map_err(garbled)?;
                    *block = rows.into_iter();
                }
                let Some((lsn, change)) = block.next() else { return Ok(None) };
                let lsn = Lsn::new(lsn).ok_or_else(|| garbled("an LSN of 0"))?;
                Ok(Some((lsn, change)))
            }
        }
    }
}

/// Rows of one table that are written together.
#[derive(Default)]
struct Block {
    rows: Vec<(u64, Change)>,
    weight: usize,
}

impl Block {
    fn is_full(&self) -> bool {
        self.rows.len() >= BLOCK_ROWS || self.weight >= BLOCK_BYTES
    }

    fn is_of_another_table(&self, change: &Change) -> bool {
        self.rows.last().is_some_and(|(_, last)| last.table() != change.table())
    }

    fn push(&mut self, lsn: Lsn, change: Change) {
        self.weight += change.weight();
        self.rows.push((lsn.get(), change));
    }

    fn write(
        &mut self,
        tables: &mut BTreeMap<String, VecDeque<Place>>,
        to: &mut Spill,
    ) -> Result<()> {
        let Some((_, first)) = self.rows.first() else { return Ok(()) };
        let table = first.table().to_owned();
        let place = to.put(&rmp_serde::to_vec(&self.rows).map_err(garbled)?)?;
        tables.entry(table).or_default().push_back(place);
        *self = Self::default();
        Ok(())
    }
}

/// Folds changes of one key as far as possible without its value in the store: a merge into a known
/// value, and a value that replaces a known one. No merge is dropped, because it may fail.
fn fold(
    rows: impl Iterator<Item = Row>,
    operators: &Operators,
) -> impl Iterator<Item = Result<Row>> {
    let mut rows = rows.peekable();
    std::iter::from_fn(move || {
        let mut row = rows.next()?;
        while !matches!(row.1, Change::Merge { .. })
            && let Some(next) = rows.next_if(|(_, next)| is_same_row(&row.1, next))
        {
            row = match merged(row, next, operators) {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
        }
        Some(Ok(row))
    })
}

fn garbled(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Spill(io::Error::new(io::ErrorKind::InvalidData, error))
}
