//! Aligned memory for direct writes, which grows.

use crate::memory::Memory;
#[cfg(target_os = "linux")]
use crate::memory::{HUGE_MIN, HUGE_PAGE};

/// Memory that begins at a multiple of [`DIRECT_ALIGNMENT`](crate::DIRECT_ALIGNMENT).
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
    memory: Option<Memory>,
}

impl AlignedMemory {
    /// Returns the first `length` bytes. Earlier contents stay unless the memory has to grow.
    pub fn first(&mut self, length: usize) -> &mut [u8] {
        let memory = self.memory.take().filter(|memory| memory.size() >= length);
        let memory = memory.unwrap_or_else(|| Memory::allocate(capacity_for(length)));
        let bytes = self.memory.insert(memory).bytes_mut();
        bytes.get_mut(..length).expect("as long as it was made")
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::size)
    }
}

/// A capacity for `length` bytes: whole huge pages, if they are used.
fn capacity_for(length: usize) -> usize {
    let capacity = length.next_power_of_two();
    #[cfg(target_os = "linux")]
    if capacity >= HUGE_MIN {
        return capacity.max(HUGE_PAGE);
    }
    capacity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::DIRECT_ALIGNMENT;

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

    #[cfg(target_os = "linux")]
    #[test]
    fn large_buffer_begins_at_a_huge_page_and_keeps_it() {
        let mut memory = AlignedMemory::default();
        for (length, size) in [(HUGE_MIN, HUGE_PAGE), (HUGE_PAGE + 1, 2 * HUGE_PAGE)] {
            let first = memory.first(length);
            assert_eq!((first.len(), first.as_ptr().addr() % HUGE_PAGE), (length, 0));
            assert!(first.iter().all(|byte| *byte == 0));
            first.fill(7);
            assert_eq!(memory.size(), size);
        }
        memory.first(memory.size()).fill(7);
        let small = memory.first(HUGE_MIN).as_ptr();
        assert_eq!(small, memory.first(2 * HUGE_PAGE).as_ptr());
    }
}
