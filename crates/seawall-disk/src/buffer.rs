//! Memory of one buffer: made once, touched once, so that no write has to wait for a page.

use crate::layout::BLOCK_SIZE;

/// Bytes of a device from some offset on, placed so that whole blocks of the device are whole
/// blocks of memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Where the first block begins.
    base: usize,
}

impl Buffer {
    /// Room for `size` bytes, wherever in a block they begin.
    pub(crate) fn new(size: usize) -> Self {
        // Not zeros by the system's grace, but written: each page is there from now on.
        let mut bytes = vec![0; size + 2 * BLOCK_SIZE];
        bytes.iter_mut().step_by(BLOCK_SIZE).for_each(|byte| *byte = std::hint::black_box(0));
        let base = bytes.as_ptr().align_offset(BLOCK_SIZE);
        Self { bytes, base }
    }

    /// `size` bytes, the first of them `at` bytes behind the beginning of a block.
    pub(crate) fn get(&self, at: usize, size: usize) -> &[u8] {
        let from = self.base + at;
        self.bytes.get(from..from + size).expect("runs are no longer than buffers")
    }

    /// The same, to be written.
    pub(crate) fn get_mut(&mut self, at: usize, size: usize) -> &mut [u8] {
        let from = self.base + at;
        self.bytes.get_mut(from..from + size).expect("runs are no longer than buffers")
    }
}
