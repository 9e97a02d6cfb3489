//! The memory of one buffer of the ring.

use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use seawall_io::MemoryPart;

/// Bytes of the device from some offset on, placed so that blocks of the device begin at block
/// boundaries in memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Begins at a multiple of a block.
    part: MemoryPart,
}

impl Buffer {
    /// The bytes of memory for a run of `size` bytes that may start anywhere in a block.
    pub(crate) fn room(size: usize) -> usize {
        (size + BLOCK_SIZE).next_multiple_of(BLOCK_SIZE)
    }

    /// A buffer in memory of this [`room`](Buffer::room).
    pub(crate) fn new(part: MemoryPart) -> Self {
        Self { part }
    }

    /// `size` bytes that start `at` bytes after the beginning of a block.
    pub(crate) fn get(&self, at: usize, size: usize) -> &[u8] {
        self.part.bytes().get(at..at + size).expect("runs are no longer than buffers")
    }

    /// Stores bytes, `at` bytes after the beginning of a block.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.part.store(at, bytes);
    }
}

/// The position, in the buffer of a run that begins at `first`, of the byte at `offset`.
pub(crate) fn place(first: u64, offset: u64) -> usize {
    let in_block = first % to_u64(BLOCK_SIZE);
    to_usize(in_block + (offset - first))
}
