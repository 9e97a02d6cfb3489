//! The memory of one request: segments that the guest has chained, checked before they are used.

use super::config::{REQUEST_MAX, SEGMENTS_MAX};
use crate::layout::to_usize;
use std::ops::Deref;
use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

/// Space for a request's header, and for its status.
const EXTRA: u32 = 17;

/// A segment of the guest's memory.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: GuestAddress,
    size: usize,
}

/// The segments of one direction, used from the front.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The segments in reverse order.
    reversed: Vec<Segment>,
    left: usize,
}

/// A request's segments.
#[derive(Debug)]
pub(super) struct Chain {
    /// Bytes from the guest: the header, and the bytes to write.
    pub(super) readable: Segments,
    /// Space for the bytes that are read.
    pub(super) writable: Segments,
    /// The address of the status, the last writable byte.
    pub(super) status: GuestAddress,
    /// Whether all segments are in the guest's memory, in the right order, and within the limits.
    pub(super) is_valid: bool,
}

impl Chain {
    /// Follows a chain to its end; `None` if the chain has no end within the limits, or no place
    /// for the status.
    pub(super) fn of<M>(descriptors: DescriptorChain<M>, memory: &GuestMemoryMmap) -> Option<Self>
    where
        M: Deref,
        M::Target: GuestMemory,
    {
        let (mut readable, mut writable) = (Vec::new(), Vec::new());
        let (mut total, mut has_end, mut is_valid) = (0_u32, false, true);
        // After a loop, or a part that cannot be read, the last descriptor still has a next one.
        for descriptor in descriptors.take(to_usize(u64::from(SEGMENTS_MAX)) + 2) {
            has_end = !descriptor.has_next();
            total = total.saturating_add(descriptor.len());
            let size = usize::try_from(descriptor.len()).unwrap_or(usize::MAX);
            let segment = Segment { at: descriptor.addr(), size };
            let access = if descriptor.is_write_only() {
                writable.push(segment);
                Permissions::Write
            } else {
                is_valid &= writable.is_empty();
                readable.push(segment);
                Permissions::Read
            };
            is_valid &= memory.check_range(segment.at, segment.size, access);
        }
        is_valid &= total <= REQUEST_MAX + EXTRA;
        let last = writable.last_mut().filter(|last| has_end && last.size > 0)?;
        last.size -= 1;
        let status = GuestAddress(last.at.0.checked_add(u64::try_from(last.size).ok()?)?);
        let (readable, writable) = (Segments::new(readable), Segments::new(writable));
        Some(Self { readable, writable, status, is_valid })
    }
}

impl Segments {
    fn new(mut segments: Vec<Segment>) -> Self {
        let left = segments.iter().fold(0_usize, |sum, next| sum.saturating_add(next.size));
        segments.reverse();
        Self { reversed: segments, left }
    }

    /// The number of bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Copies the next bytes from the guest; `None` if fewer are left, or memory is gone.
    pub(super) fn read(&mut self, memory: &GuestMemoryMmap, bytes: &mut [u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let part = self.next(bytes.len() - at)?;
            memory.read_slice(bytes.get_mut(at..at + part.size)?, part.at).ok()?;
            at += part.size;
        }
        Some(())
    }

    /// Copies bytes to the guest; `None` if less space is left, or memory is gone.
    pub(super) fn write(&mut self, memory: &GuestMemoryMmap, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        while at < bytes.len() {
            let part = self.next(bytes.len() - at)?;
            memory.write_slice(bytes.get(at..at + part.size)?, part.at).ok()?;
            at += part.size;
        }
        Some(())
    }

    /// Takes up to `size` bytes of the first segment.
    fn next(&mut self, size: usize) -> Option<Segment> {
        let mut first = self.reversed.pop()?;
        let part = Segment { at: first.at, size: first.size.min(size) };
        first.size -= part.size;
        if first.size > 0 {
            first.at = GuestAddress(first.at.0.checked_add(u64::try_from(part.size).ok()?)?);
            self.reversed.push(first);
        }
        self.left -= part.size;
        Some(part)
    }
}
