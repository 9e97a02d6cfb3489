//! The memory of one buffer, allocated and touched once, so that no write has to wait for a page
//! fault.

use crate::layout::BLOCK_SIZE;

/// Bytes of the device from some offset on, placed so that whole blocks of the device are whole
/// blocks of memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// The position of the first block in memory.
    base: usize,
}

impl Buffer {
    /// Allocates space for `size` bytes that may start anywhere in a block.
    pub(crate) fn new(size: usize) -> Self {
        // Write to each page now, so that none is allocated later.
        let mut bytes = vec![0; size + 2 * BLOCK_SIZE];
        bytes.iter_mut().step_by(BLOCK_SIZE).for_each(|byte| *byte = std::hint::black_box(0));
        let base = bytes.as_ptr().align_offset(BLOCK_SIZE);
        Self { bytes, base }
    }

    /// `size` bytes that start `at` bytes after the beginning of a block.
    pub(crate) fn get(&self, at: usize, size: usize) -> &[u8] {
        let from = self.base + at;
        self.bytes.get(from..from + size).expect("runs are no longer than buffers")
    }

    /// Like [`Buffer::get`], for writing.
    pub(crate) fn get_mut(&mut self, at: usize, size: usize) -> &mut [u8] {
        let from = self.base + at;
        self.bytes.get_mut(from..from + size).expect("runs are no longer than buffers")
    }
}
