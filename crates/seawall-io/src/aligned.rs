//! Aligned memory for direct writes.

/// The alignment of direct writes in bytes: of the memory, of the file offset and of the length. No
/// device needs more.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Memory that begins at a multiple of [`DIRECT_ALIGNMENT`].
///
/// # Examples
///
/// ```
/// use seawall_io::{AlignedMemory, DIRECT_ALIGNMENT};
///
/// let mut memory = AlignedMemory::default();
/// let page = memory.first(4096);
/// assert_eq!((page.len(), page.as_ptr().addr() % DIRECT_ALIGNMENT), (4096, 0));
/// ```
#[derive(Debug, Default)]
pub struct AlignedMemory {
    bytes: Vec<u8>,
}

impl AlignedMemory {
    /// Returns the first `length` bytes. Earlier contents stay unless the memory has to grow.
    pub fn first(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.is_empty() || self.size() < length {
            self.bytes = vec![0; length.next_power_of_two() + DIRECT_ALIGNMENT];
        }
        let start = self.bytes.as_ptr().align_offset(DIRECT_ALIGNMENT);
        self.bytes.get_mut(start..start + length).expect("as long as it was made")
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len().saturating_sub(DIRECT_ALIGNMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_stays_aligned_when_it_grows() {
        let mut memory = AlignedMemory::default();
        assert_eq!(memory.first(0).len(), 0);
        for length in [1, 4095, 4096, 4097, 1 << 20, 5] {
            let first = memory.first(length);
            assert_eq!((first.len(), first.as_ptr().addr() % DIRECT_ALIGNMENT), (length, 0));
            first.fill(7);
            assert!(memory.size() >= length);
        }
        assert_eq!(memory.first(6), [7; 6], "a smaller part is the same memory");
    }
}
