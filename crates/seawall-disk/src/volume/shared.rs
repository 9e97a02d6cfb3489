//! The shared state of a volume's handles, and the steps that change a file's entry or chunks.

use super::table::{Node, Table, place_of};
use crate::disk::Disk;
use crate::layout::{SECTOR_SIZE, ZEROS, to_u64, to_usize};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(super) struct Shared {
    pub(super) disk: Arc<Disk>,
    state: RwLock<State>,
}

pub(super) struct State {
    pub(super) table: Table,
    /// The number of the lock on each locked folder, by the folder's path.
    pub(super) folders: HashMap<String, u64>,
    /// The number of the lock on each locked file, by the file's id.
    pub(super) files: HashMap<u64, u64>,
    pub(super) locks: u64,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(disk: Arc<Disk>, table: Table) -> Self {
        let state = State { table, folders: HashMap::new(), files: HashMap::new(), locks: 0 };
        Self { disk, state: RwLock::new(state) }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the entry of a node, unless it has no name, then records the node in the table.
    pub(super) fn put(&self, table: &mut Table, id: Option<u64>, node: Node) -> io::Result<u64> {
        if node.name.is_some() {
            let (place, sector) = table.encode(&node)?;
            self.disk.write(place, &sector)?;
        }
        Ok(table.set(id, node))
    }

    /// Removes the name of a node. Its chunks are free once that is durable and no handle is left.
    pub(super) fn unlink(&self, table: &mut Table, id: u64) -> io::Result<()> {
        let node = table.node(id)?.clone();
        self.disk.write(place_of(node.entry), &[0; SECTOR_SIZE])?;
        table.set(Some(id), Node { name: None, ..node });
        self.disk.flush()?;
        table.forget_unused(id);
        Ok(())
    }

    /// Writes zeros to a range of a file whose chunks exist.
    pub(super) fn fill(
        &self,
        table: &Table,
        node: &Node,
        (from, to): (u64, u64),
    ) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let (place, size) = locate(table, node, at, to - at);
            if let Some(place) = place {
                let zeros = to_usize(size).min(ZEROS.len());
                self.disk.write(place, ZEROS.get(..zeros).unwrap_or(&ZEROS))?;
                at += to_u64(zeros);
            } else {
                at += size;
            }
        }
        Ok(())
    }

    /// Allocates the range's missing chunks, as zeros, and extends the file to at least `length`.
    pub(super) fn extend(&self, id: u64, range: (u64, u64), length: u64) -> io::Result<()> {
        let mut state = self.write();
        let table = &mut state.table;
        let old = table.node(id)?.clone();
        let mut node = old.clone();
        let first = to_usize(range.0 / table.chunk_size());
        let chunks = table.chunks_of(range.1.max(length))?;
        let end = table.chunks_of(range.1)?;
        node.chunks.resize(chunks.max(node.chunks.len()), 0);
        let is_hole = |n: &usize| node.chunks.get(*n) == Some(&0);
        let holes: Vec<usize> = (first..end).filter(is_hole).collect();
        let before = holes.first().and_then(|hole| node.chunks.get(hole.checked_sub(1)?));
        let before = before.copied().filter(|chunk| *chunk != 0);
        let new = table.allocate(holes.len(), before)?;
        for (hole, chunk) in holes.into_iter().zip(&new) {
            if let Some(slot) = node.chunks.get_mut(hole) {
                *slot = *chunk;
            }
        }
        node.length = node.length.max(length);
        let done = self.make_zeros(table, (&old, &node), &new).and_then(|()| {
            node.sequence = table.next_sequence();
            self.put(table, Some(id), node)
        });
        if done.is_err() {
            table.release(&new);
        }
        done.map(drop)
    }

    /// Writes zeros to the new chunks, and to the bytes between the old and the new length.
    fn make_zeros(
        &self,
        table: &Table,
        (old, new): (&Node, &Node),
        chunks: &[u32],
    ) -> io::Result<()> {
        for chunk in chunks {
            self.disk.write_zeros(table.start_of(*chunk), to_usize(table.chunk_size()))?;
        }
        let gap_end = old.length.next_multiple_of(table.chunk_size()).min(new.length);
        self.fill(table, old, (old.length, gap_end))?;
        // Otherwise a power cut could leave bytes of another file in this one.
        if chunks.is_empty() { Ok(()) } else { self.disk.flush() }
    }

    pub(super) fn shorten(&self, id: u64, length: u64) -> io::Result<()> {
        let mut state = self.write();
        let table = &mut state.table;
        let mut node = table.node(id)?.clone();
        let kept = table.chunks_of(length)?.min(node.chunks.len());
        let freed = node.chunks.split_off(kept);
        node.length = length;
        node.sequence = table.next_sequence();
        self.put(table, Some(id), node)?;
        if freed.iter().any(|chunk| *chunk != 0) {
            self.disk.flush()?;
        }
        table.release(&freed);
        Ok(())
    }
}

/// Returns where the byte at `at` of a file is on the disk, `None` for a hole, and how many of the
/// next `most` bytes are in the same chunk.
pub(super) fn locate(table: &Table, node: &Node, at: u64, most: u64) -> (Option<u64>, u64) {
    let size = table.chunk_size();
    let chunk = node.chunks.get(to_usize(at / size)).copied().filter(|chunk| *chunk != 0);
    let place = chunk.map(|chunk| table.start_of(chunk) + at % size);
    (place, most.min(size - at % size))
}
