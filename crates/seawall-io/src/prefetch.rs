//! Hints to the processor about memory that will be written soon.

use std::mem::MaybeUninit;

/// Size of a cache line, in bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const CACHE_LINE: usize = 64;

/// Asks the processor to fetch the cache lines of `memory` for writing, so that later stores do not
/// wait for another processor that has written these lines. May leave out the last line if `memory`
/// begins within a line. No byte changes.
///
/// A hint: it does nothing except on x86-64. The source is the instruction PREFETCHW in the AMD64
/// Architecture Programmer's Manual, volume 3; processors that do not know it do nothing.
///
/// # Examples
///
/// ```
/// let mut buffer = Vec::<u8>::with_capacity(1000);
/// seawall_io::prefetch_for_write(buffer.spare_capacity_mut());
/// buffer.extend_from_slice(b"these bytes are stored sooner");
/// ```
#[inline]
pub fn prefetch_for_write(memory: &mut [MaybeUninit<u8>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in memory.chunks(CACHE_LINE) {
        // SAFETY: a prefetch changes no memory, register or flag, and raises no exception.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) line.as_ptr(),
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetching_changes_no_byte() {
        let before: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let mut memory: Vec<_> = before.iter().map(|byte| MaybeUninit::new(*byte)).collect();
        for start in 0..200 {
            prefetch_for_write(&mut memory[start..start * 50]);
        }
        // SAFETY: all of them were initialised above.
        let after: Vec<u8> = memory.iter().map(|byte| unsafe { byte.assume_init() }).collect();
        assert_eq!(after, before);
    }
}
