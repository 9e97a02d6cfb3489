//! A buffer that is filled from a file and consumed from its start.

/// A byte buffer whose memory is reused without being zeroed again.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    held: usize,
}

impl Buffer {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.held).unwrap_or_default()
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.memory.truncate(self.held);
        self.memory
    }

    pub(crate) fn clear(&mut self) {
        self.held = 0;
    }

    /// Drops the first `count` bytes.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.held);
        self.memory.copy_within(count..self.held, 0);
        self.held -= count;
    }

    /// Appends up to `length` bytes through `read`, which returns how many it wrote.
    pub(crate) fn fill<E>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let end = self.held + length;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.held += read(self.memory.get_mut(self.held..end).unwrap_or_default())?.min(length);
        Ok(())
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Self {
        Self { held: memory.len(), memory }
    }
}
