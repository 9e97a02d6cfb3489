//! Batches kept in memory so that a new segment can repeat them.

use seawall_format::batch::{BodyKind, HEADER_SIZE, Life};
use seawall_format::{Lsn, Offset, frame};

/// A batch that was written. Kept while it shares a block with the next batch, because a failed
/// write may damage the whole block (R8).
#[derive(Debug)]
pub(crate) struct WrittenBatch {
    /// The batch in the binary layout, also if it was written as text.
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    pub(crate) kind: BodyKind,
    pub(crate) time_us: u64,
    /// Where the batch ends in its segment.
    pub(crate) end: Offset,
    /// The chain value of the batch that holds the record before `first`, or 0.
    pub(crate) chain_before: u64,
}

/// A batch of the tail whose write has not been acknowledged.
#[derive(Debug)]
pub(crate) struct BatchInFlight {
    /// Where it begins.
    pub(crate) at: Offset,
    /// Its chain value.
    pub(crate) chain: u64,
    pub(crate) sent: WrittenBatch,
}

/// Records for the start of a new segment: space for a batch header, then frames without LSNs.
#[derive(Clone, Debug)]
pub(crate) struct RewriteBatch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: Lsn,
    pub(crate) count: u32,
    /// Frames, or void.
    pub(crate) kind: BodyKind,
    pub(crate) time_us: u64,
}

impl WrittenBatch {
    /// The last record.
    pub(crate) fn last(&self) -> Lsn {
        self.first.plus(u64::from(self.count) - 1)
    }

    /// Converts the batch for another segment; `life` belongs to the segment that it was written
    /// to.
    pub(crate) fn unseal(mut self, life: &Life) -> RewriteBatch {
        let (_, frames) = self.bytes.split_at_mut(HEADER_SIZE);
        let frame_count = if self.kind == BodyKind::Void { 0 } else { self.count };
        // Binding is an XOR, so binding twice undoes it.
        let size = frame::bind(frames, &life.salt, self.first, frame_count);
        // Without the zeros to the end of its block.
        self.bytes.truncate(HEADER_SIZE + size);
        let Self { bytes, first, count, kind, time_us, .. } = self;
        RewriteBatch { bytes, first, count, kind, time_us }
    }
}
