//! Batches in memory that were written, or that a new segment has to repeat.

use seawall_format::batch::{HEADER_SIZE, Life};
use seawall_format::{Lsn, Offset, frame};

/// A batch as it was sent to the device; kept while it shares a block with the next one, because a
/// failed write may take its neighbours with it (R8).
#[derive(Debug)]
pub(crate) struct WrittenBatch {
    /// The batch as it stands on disk; of lines, as it would stand in a batch.
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    pub(crate) is_void: bool,
    pub(crate) time_us: u64,
    /// Where it ends in its segment.
    pub(crate) end: Offset,
    /// The chain value of the batch that holds the record before `first`, or 0.
    pub(crate) chain_before: u64,
}

/// Records that a new segment starts with: room for a header, then unbound frames.
#[derive(Clone, Debug)]
pub(crate) struct RewriteBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    /// Whether there are no frames: the records are lost and were given up.
    pub(crate) is_void: bool,
    pub(crate) time_us: u64,
}

impl WrittenBatch {
    /// The same records, free to go to another place; `life` is that of the segment they are in.
    pub(crate) fn unseal(mut self, life: &Life) -> RewriteBatch {
        let (_, frames) = self.bytes.split_at_mut(HEADER_SIZE);
        // Binding is an XOR: the second time it undoes itself.
        frame::bind(frames, &life.salt, self.first);
        let Self { bytes, first, count, is_void, time_us, .. } = self;
        RewriteBatch { bytes, first, count, is_void, time_us }
    }
}
