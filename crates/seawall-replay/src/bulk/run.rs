//! A run: packed rows, sorted by table and key, in memory or in a scratch file.

use crate::bulk::part::Rows;
use crate::bulk::row::{Packed, Row};
use crate::bulk::tables::Tables;
use crate::error::Result;
use crate::transactions::spill::{Place, Spill};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The least size of a full block of a scratch file, in bytes. Each run has one in memory while it
/// is read.
const BLOCK: usize = 64 << 10;

/// Sorted rows. Rows of one key keep the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Run {
    tables: BTreeMap<u32, VecDeque<Block>>,
    /// The blocks of the open table that were not read.
    unread: VecDeque<Block>,
    block: Arc<Vec<u8>>,
    /// The end of the rows of the block that is read.
    end: usize,
    next: Option<Next>,
}

/// Rows of one table.
#[derive(Debug)]
enum Block {
    Memory(Arc<Vec<u8>>, Range<usize>),
    Scratch(Place),
}

/// The next row, in the block that is read.
#[derive(Debug)]
struct Next {
    row: Packed,
    head: u64,
}

impl Run {
    /// A run in memory.
    pub(crate) fn in_memory(Rows { bytes, ends }: Rows) -> Self {
        let (bytes, mut start) = (Arc::new(bytes), 0);
        let mut tables = BTreeMap::new();
        for (table, end) in ends {
            let block = Block::Memory(bytes.clone(), start..end);
            tables.insert(table, VecDeque::from([block]));
            start = end;
        }
        Self { tables, ..Self::default() }
    }

    /// Continues with the rows of this table.
    pub(crate) fn open(&mut self, table: u32, from: (&Tables, Option<&Spill>)) -> Result<()> {
        self.unread = self.tables.remove(&table).unwrap_or_default();
        self.load(from)
    }

    /// Returns the next row of the open table, and the bytes that contain it.
    pub(crate) fn next(&self) -> Option<(&Packed, &[u8])> {
        Some((&self.next.as_ref()?.row, &self.block))
    }

    /// Continues after the next row.
    pub(crate) fn advance(&mut self, from: (&Tables, Option<&Spill>)) -> Result<()> {
        match self.next.take().map(|next| next.row.end()) {
            Some(at) if at < self.end => self.read(at, from.0),
            _ => self.load(from),
        }
    }

    /// Compares the next rows of two runs by their keys. A run without a row comes last.
    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let (Some(one), Some(two)) = (&self.next, &other.next) else {
            return other.next.is_some().cmp(&self.next.is_some());
        };
        let by_key = || one.row.key(&self.block).cmp(two.row.key(&other.block));
        one.head.cmp(&two.head).then_with(by_key)
    }

    /// Reads the next block.
    fn load(&mut self, (tables, scratch): (&Tables, Option<&Spill>)) -> Result<()> {
        self.next = None;
        let range = match (self.unread.pop_front(), scratch) {
            (Some(Block::Memory(rows, range)), _) => {
                self.block = rows;
                range
            }
            (Some(Block::Scratch(place)), Some(scratch)) => {
                self.block = Arc::new(scratch.get(place)?);
                0..self.block.len()
            }
            _ => return Ok(()),
        };
        self.end = range.end;
        self.read(range.start, tables)
    }

    fn read(&mut self, at: usize, tables: &Tables) -> Result<()> {
        let row = Packed::at(&self.block, at)?;
        let head = tables.head(row.table, row.key(&self.block));
        self.next = Some(Next { row, head });
        Ok(())
    }
}

/// Runs that are read together, in the order of keys.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// An older run has older changes.
    runs: Vec<Run>,
    /// A heap of the runs that have a next row: the first is the lowest key, and of several with
    /// the same key that of the oldest run.
    heap: Vec<usize>,
}

impl Merge {
    /// Merges these runs, of which a later one has later changes.
    pub(crate) fn new(runs: Vec<Run>) -> Self {
        Self { runs, heap: vec![] }
    }

    /// Continues with the rows of this table.
    pub(crate) fn open(&mut self, table: u32, from: (&Tables, Option<&Spill>)) -> Result<()> {
        self.runs.iter_mut().try_for_each(|run| run.open(table, from))?;
        let has_row = |(at, run): (usize, &Run)| run.next().map(|_| at);
        let mut heap: Vec<usize> = self.runs.iter().enumerate().filter_map(has_row).collect();
        heap.sort_unstable_by(|one, other| self.cmp(*one, *other));
        self.heap = heap;
        Ok(())
    }

    /// Returns the next row, and the bytes that contain it.
    pub(crate) fn next(&self) -> Option<(&Packed, &[u8])> {
        self.runs.get(*self.heap.first()?)?.next()
    }

    /// Continues after the next row.
    pub(crate) fn advance(&mut self, from: (&Tables, Option<&Spill>)) -> Result<()> {
        let Some(run) = self.heap.first().and_then(|first| self.runs.get_mut(*first)) else {
            return Ok(());
        };
        run.advance(from)?;
        if run.next().is_none() {
            self.heap.swap_remove(0);
        }
        self.sift_down();
        Ok(())
    }

    /// Takes the next row, of the table with this name.
    pub(crate) fn take(
        &mut self,
        name: &str,
        from: (&Tables, Option<&Spill>),
    ) -> Result<Option<Row>> {
        let Some((row, bytes)) = self.next() else { return Ok(None) };
        let row = row.unpack(bytes, name)?;
        self.advance(from)?;
        Ok(Some(row))
    }

    /// Moves the first run of the heap to its place.
    fn sift_down(&mut self) {
        let mut at = 0;
        while let Some(&run) = self.heap.get(at) {
            let child = |at: usize| self.heap.get(at).map(|run| (at, *run));
            let children = [child(2 * at + 1), child(2 * at + 2)].into_iter().flatten();
            let least = children.min_by(|(_, one), (_, other)| self.cmp(*one, *other));
            match least {
                Some((below, least)) if self.cmp(least, run).is_lt() => {
                    self.heap.swap(at, below);
                    at = below;
                }
                _ => break,
            }
        }
    }

    fn cmp(&self, one: usize, other: usize) -> Ordering {
        match (self.runs.get(one), self.runs.get(other)) {
            (Some(run), Some(another)) => run.cmp(another).then(one.cmp(&other)),
            _ => one.cmp(&other),
        }
    }
}

/// Writes all rows of some runs to the scratch file, as one run.
pub(crate) fn spill(runs: Vec<Run>, tables: &Tables, to: &mut Spill) -> Result<Run> {
    let mut merge = Merge::new(runs);
    let mut spilled = Run::default();
    for table in tables.by_name() {
        let mut block = Vec::new();
        let blocks = spilled.tables.entry(table).or_default();
        merge.open(table, (tables, None))?;
        while let Some((row, bytes)) = merge.next() {
            block.extend_from_slice(row.whole(bytes));
            if block.len() >= BLOCK {
                blocks.push_back(Block::Scratch(to.put(&block)?));
                block.clear();
            }
            merge.advance((tables, None))?;
        }
        if !block.is_empty() {
            blocks.push_back(Block::Scratch(to.put(&block)?));
        }
    }
    Ok(spilled)
}
