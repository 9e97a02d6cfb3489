//! Memory in parts, private or shared. Shared memory outlives the process that wrote to it while
//! another process holds its descriptor.
//!
//! A process can be killed between any two stores. What it stored earlier stays visible, so the
//! order of the stores decides what a later process finds. [`MemoryPart::store`] fixes that order:
//! the compiler moves no store over the call.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

#[cfg(target_os = "linux")]
use rustix::fs::{MemfdFlags, SealFlags};
#[cfg(target_os = "linux")]
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

/// The alignment of direct writes in bytes: of the memory, of the file offset and of the length. No
/// device needs more.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// The size of a huge page, in bytes. Where it differs, memory has small pages.
#[cfg(target_os = "linux")]
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Memory of this size or more has huge pages, in bytes.
#[cfg(target_os = "linux")]
pub(crate) const HUGE_MIN: usize = 128 << 10;

/// Zeroed memory that can be [split](Memory::split) into parts. It starts at a multiple of
/// [`DIRECT_ALIGNMENT`].
///
/// # Examples
///
/// ```
/// use seawall_io::Memory;
///
/// let mut parts = Memory::private(8192).split(&[4096, 10]);
/// parts[1].store(3, b"seven");
/// assert_eq!(parts[1].bytes(), b"\0\0\0seven\0\0");
/// assert!(parts[0].bytes().iter().all(|byte| *byte == 0));
/// ```
#[derive(Debug)]
pub struct Memory {
    owner: Arc<Owner>,
    size: usize,
}

/// A part of a [`Memory`], which stays allocated until its last part is dropped.
#[derive(Debug)]
pub struct MemoryPart {
    start: NonNull<u8>,
    size: usize,
    _owner: Arc<Owner>,
}

// SAFETY: a part is the only access to its bytes in this process, like a `Box<[u8]>`.
unsafe impl Send for MemoryPart {}
// SAFETY: bytes are changed through a mutable reference only.
unsafe impl Sync for MemoryPart {}

/// Frees the memory when dropped.
#[derive(Debug)]
struct Owner {
    start: NonNull<u8>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "dropped, not read"))]
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The allocation around `start`.
    Heap { _bytes: Vec<u8> },
    /// A mapping of `size` bytes that begins `before` bytes before `start`.
    #[cfg(target_os = "linux")]
    Mapped { before: usize, size: usize },
}

// SAFETY: the owner itself reads and writes none of the bytes; it only frees them.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Memory {
    /// Allocates `size` bytes of this process and touches each page.
    #[must_use]
    pub fn private(size: usize) -> Self {
        let mut memory = Self::allocate(size);
        memory.bytes_mut().iter_mut().step_by(4096).for_each(|byte| *byte = black_box(0));
        memory
    }

    /// Allocates `size` bytes of this process, in huge pages if they are many: a direct write of
    /// small pages takes up to a fifth longer, because the device gets each page by itself.
    pub(crate) fn allocate(size: usize) -> Self {
        #[cfg(target_os = "linux")]
        if size >= HUGE_MIN
            && let Ok(memory) = Self::in_huge_pages(size)
        {
            return memory;
        }
        let mut bytes = vec![0u8; size + DIRECT_ALIGNMENT];
        let start = bytes.as_mut_ptr();
        let start = start.wrapping_add(start.align_offset(DIRECT_ALIGNMENT));
        let start = NonNull::new(start).expect("an allocation is not at zero");
        Self { owner: Arc::new(Owner { start, kind: Kind::Heap { _bytes: bytes } }), size }
    }

    #[cfg(target_os = "linux")]
    fn in_huge_pages(size: usize) -> io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

        let huge = size.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // Longer, so that a huge page can begin in it wherever it is mapped.
        let mapped = huge.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (access, hint) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: without an address hint the kernel chooses an unused range.
        let begin = unsafe { mmap_anonymous(hint, mapped, access, MapFlags::PRIVATE) }?;
        let begin: *mut u8 = begin.cast();
        let before = begin.align_offset(HUGE_PAGE);
        let start = begin.wrapping_add(before);
        // If the system has no huge pages, small ones serve as well.
        // SAFETY: the range is a part of the one that was mapped, and nothing refers to it yet.
        let _ = unsafe { madvise(start.cast(), huge, Advice::LinuxHugepage) };
        let start = NonNull::new(start).expect("a mapping is not at zero");
        let kind = Kind::Mapped { before, size: mapped };
        Ok(Self { owner: Arc::new(Owner { start, kind }), size })
    }

    /// Makes `size` bytes of shared memory and returns its descriptor, too. `name` is shown by the
    /// system. The size cannot change any more.
    ///
    /// # Errors
    ///
    /// The system's error.
    #[cfg(target_os = "linux")]
    pub fn shared(name: &str, size: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags)?;
        let length = u64::try_from(size).map_err(|_| io::ErrorKind::InvalidInput)?;
        // The limit on files applies to memory as well.
        crate::failure::check_size("allocate", || name.to_owned(), length)?;
        // Without space, a later store would end the process with SIGBUS.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
        rustix::fs::fcntl_add_seals(&file, seals())?;
        Ok((Self::map(&file, size)?, file))
    }

    /// Maps the shared memory of a descriptor, of at most `size_max` bytes.
    ///
    /// No other process may write to it while this one uses it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if it was not made by [`Memory::shared`], is empty or too
    /// large; otherwise the system's error.
    #[cfg(target_os = "linux")]
    pub fn attach(descriptor: impl AsFd, size_max: u64) -> io::Result<Self> {
        let found = rustix::fs::fcntl_get_seals(&descriptor).unwrap_or(SealFlags::empty());
        let size = u64::try_from(rustix::fs::fstat(&descriptor)?.st_size).unwrap_or(0);
        let is_fit = found.contains(seals()) && (1..=size_max).contains(&size);
        let invalid = || {
            let why = format!("it is not shared memory of 1 to {size_max} bytes");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let size = usize::try_from(size).ok().filter(|_| is_fit).ok_or_else(invalid)?;
        Self::map(&descriptor, size)
    }

    #[cfg(target_os = "linux")]
    fn map(descriptor: &impl AsFd, size: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};

        let access = ProtFlags::READ | ProtFlags::WRITE;
        // Map all pages at once, so that no store waits for a page.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let hint = std::ptr::null_mut();
        // SAFETY: without an address hint the kernel chooses an unused range. The file has `size`
        // bytes, and its seals prevent that it shrinks.
        let start = unsafe { mmap(hint, size, access, flags, descriptor, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { owner: Arc::new(Owner { start, kind: Kind::Mapped { before: 0, size } }), size })
    }

    /// The number of bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: there are no parts yet, and the owner keeps the bytes allocated.
        unsafe { std::slice::from_raw_parts(self.owner.start.as_ptr(), self.size) }
    }

    /// Its bytes, to be changed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; this is the only reference, since the memory is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.owner.start.as_ptr(), self.size) }
    }

    /// Splits the memory into parts of these sizes, one after the other.
    ///
    /// # Panics
    ///
    /// If they exceed the memory.
    #[must_use]
    pub fn split(self, sizes: &[usize]) -> Vec<MemoryPart> {
        let mut at = 0usize;
        let mut parts = Vec::with_capacity(sizes.len());
        for size in sizes {
            let end = at.checked_add(*size).expect("the size of memory fits");
            assert!(end <= self.size, "the parts exceed the memory");
            // SAFETY: `at` is at most the size of the memory.
            let start = unsafe { self.owner.start.add(at) };
            parts.push(MemoryPart { start, size: *size, _owner: self.owner.clone() });
            at = end;
        }
        parts
    }
}

#[cfg(target_os = "linux")]
fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

impl MemoryPart {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes belong to this part alone, and the owner keeps them allocated.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// Stores `bytes` from `at` on, after all earlier stores and before all later ones. A process
    /// that maps this memory after this one was killed sees the stores in that order. The bytes of
    /// one call are stored in any order.
    ///
    /// # Panics
    ///
    /// If they exceed the part.
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.size), "a store beyond the end of the memory");
        compiler_fence(Ordering::SeqCst);
        let start = self.start.as_ptr().wrapping_add(at);
        // SAFETY: the bytes from `start` on belong to this part, as was checked. It is borrowed
        // mutably, so `bytes` is elsewhere.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        compiler_fence(Ordering::SeqCst);
    }
}

#[cfg(target_os = "linux")]
impl Drop for Owner {
    fn drop(&mut self) {
        if let Kind::Mapped { before, size } = self.kind {
            let begin = self.start.as_ptr().wrapping_sub(before);
            // SAFETY: the range was mapped with this size, and no part is left.
            let unmapped = unsafe { rustix::mm::munmap(begin.cast(), size) };
            debug_assert!(unmapped.is_ok(), "the range was mapped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_aligned() {
        let mut parts = Memory::private(3 * 4096).split(&[4096, 4096, 4096]);
        for (n, part) in (1..).zip(&mut parts) {
            assert_eq!(part.bytes().as_ptr().addr() % DIRECT_ALIGNMENT, 0);
            part.store(0, &[n; 4096]);
        }
        for (n, part) in (1..).zip(&parts) {
            assert_eq!(part.bytes(), [n; 4096]);
        }
        let last = parts.pop().unwrap();
        drop(parts);
        assert_eq!(last.bytes(), [3; 4096]);
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn store_beyond_the_end_panics() {
        Memory::private(10).split(&[10]).remove(0).store(9, b"12");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn shared_memory_is_there_while_a_descriptor_is_open() {
        let (memory, descriptor) = Memory::shared("seawall-test", 5000).unwrap();
        memory.split(&[5000]).remove(0).store(4990, b"kept");
        let again = Memory::attach(&descriptor, 5000).unwrap();
        assert_eq!(again.size(), 5000);
        assert_eq!(&again.split(&[4990, 4])[1].bytes(), b"kept");
        for wrong in [Memory::attach(&descriptor, 4999), Memory::attach(io::stdin(), 1 << 20)] {
            assert_eq!(wrong.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let file = std::fs::File::from(descriptor);
        assert!(file.set_len(1).is_err(), "sealed");
    }
}
