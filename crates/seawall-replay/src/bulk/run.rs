//! A run: packed rows, sorted by table and key, in memory or in a scratch file.

use crate::bulk::part::Rows;
use crate::bulk::row::Packed;
use crate::bulk::tables::Tables;
use crate::error::Result;
use crate::transactions::spill::{Place, Spill};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The minimum size of a full block of a scratch file, in bytes. A run that is being read has one
/// block in memory.
const BLOCK: usize = 64 << 10;

/// Sorted rows. Rows of one key keep the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Run {
    tables: BTreeMap<u32, VecDeque<Block>>,
    /// The unread blocks of the open table.
    unread: VecDeque<Block>,
    block: Arc<Vec<u8>>,
    /// The end of the rows to read in `block`.
    end: usize,
    /// The next row, which is in `block`.
    next: Option<Packed>,
}

/// Rows of one table.
#[derive(Debug)]
enum Block {
    Memory(Arc<Vec<u8>>, Range<usize>),
    Scratch(Place),
}

impl Run {
    /// Creates a run in memory.
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
    pub(crate) fn open(&mut self, table: u32, scratch: Option<&Spill>) -> Result<()> {
        self.unread = self.tables.remove(&table).unwrap_or_default();
        self.load(scratch)
    }

    /// Returns the next row of the open table, and the bytes that contain it.
    pub(crate) fn next(&self) -> Option<(&Packed, &[u8])> {
        Some((self.next.as_ref()?, &self.block))
    }

    /// Continues after the next row.
    pub(crate) fn advance(&mut self, scratch: Option<&Spill>) -> Result<()> {
        match self.next.take().map(|next| next.end()) {
            Some(at) if at < self.end => self.read(at),
            _ => self.load(scratch),
        }
    }

    /// Reads the next block.
    fn load(&mut self, scratch: Option<&Spill>) -> Result<()> {
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
        self.read(range.start)
    }

    fn read(&mut self, at: usize) -> Result<()> {
        self.next = Some(Packed::at(&self.block, at)?);
        Ok(())
    }
}

/// Several runs, read together in key order.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    /// The runs, ordered from the oldest changes to the newest.
    runs: Vec<Run>,
    /// A heap of the runs that have a next row. First is the run with the lowest next key; among
    /// equal keys, the oldest run.
    heap: Vec<Head>,
}

/// A run in the heap, with the number that decides most comparisons.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// See [`Tables::head`].
    head: u64,
    run: usize,
}

impl Merge {
    /// Merges these runs, which must be ordered from the oldest changes to the newest.
    pub(crate) fn new(runs: Vec<Run>) -> Self {
        Self { runs, heap: vec![] }
    }

    /// Continues with the rows of this table.
    pub(crate) fn open(
        &mut self,
        table: u32,
        (tables, scratch): (&Tables, Option<&Spill>),
    ) -> Result<()> {
        self.runs.iter_mut().try_for_each(|run| run.open(table, scratch))?;
        let heads = self.runs.iter().enumerate();
        let mut heap: Vec<Head> = heads.filter_map(|(at, run)| Head::of(at, run, tables)).collect();
        heap.sort_unstable_by(|one, other| self.cmp(one, other));
        self.heap = heap;
        Ok(())
    }

    /// Returns the next row, and the bytes that contain it.
    pub(crate) fn next(&self) -> Option<(&Packed, &[u8])> {
        self.runs.get(self.heap.first()?.run)?.next()
    }

    /// Continues after the next row.
    pub(crate) fn advance(&mut self, (tables, scratch): (&Tables, Option<&Spill>)) -> Result<()> {
        let Some(first) = self.heap.first_mut() else { return Ok(()) };
        let at = first.run;
        let Some(run) = self.runs.get_mut(at) else { return Ok(()) };
        run.advance(scratch)?;
        match Head::of(at, run, tables) {
            Some(head) => *first = head,
            None => {
                self.heap.swap_remove(0);
            }
        }
        self.sift_down();
        Ok(())
    }

    /// Restores the heap order after the first entry has changed.
    fn sift_down(&mut self) {
        let mut at = 0;
        while let Some(&first) = self.heap.get(at) {
            let child = |at: usize| self.heap.get(at).map(|head| (at, *head));
            let children = [child(2 * at + 1), child(2 * at + 2)].into_iter().flatten();
            let least = children.min_by(|(_, one), (_, other)| self.cmp(one, other));
            match least {
                Some((below, least)) if self.cmp(&least, &first).is_lt() => {
                    self.heap.swap(at, below);
                    at = below;
                }
                _ => break,
            }
        }
    }

    fn cmp(&self, one: &Head, other: &Head) -> Ordering {
        let key = |head: &Head| {
            let (row, bytes) = self.runs.get(head.run)?.next()?;
            Some(row.key(bytes))
        };
        let by_key = || key(one).cmp(&key(other)).then(one.run.cmp(&other.run));
        one.head.cmp(&other.head).then_with(by_key)
    }
}

impl Head {
    /// Returns the head of the run number `at`; `None` if the run has no next row.
    fn of(at: usize, run: &Run, tables: &Tables) -> Option<Self> {
        let (row, bytes) = run.next()?;
        Some(Self { head: tables.head(row.table, row.key(bytes)), run: at })
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
