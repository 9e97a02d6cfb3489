//! The segment that is open for append.

use crate::parity::writer::Covered;
use seawall_format::batch::{HEADER_SIZE, Life, Spec};
use seawall_format::{Layout, Offset, SegmentHeader, batch, frame, lines};
use seawall_io::{File, Storage};
use std::sync::Arc;

/// The last segment of the log, open for append.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) life: Life,
    /// The file with header, marks and seal.
    pub(crate) head: Arc<dyn File>,
    /// The file with the records: the same one, except in the text layout.
    pub(crate) file: Arc<dyn File>,
    /// File length that the next batch should not exceed; beyond it the log rotates.
    pub(crate) soft_limit: u64,
    /// Whether space is reserved on the device up to `soft_limit`; false for a text on a file
    /// system that cannot reserve space.
    pub(crate) is_reserved: bool,
    /// Where the next batch goes.
    pub(crate) at: Offset,
    /// The chain value of the last batch, which the next one repeats.
    pub(crate) chain: u64,
    /// Sequence number of the last mark.
    pub(crate) marks: u64,
}

impl TailSegment {
    /// Frees the space after the last batch, once the successor is durable (R6 f). Not synced: a
    /// crash that undoes it does no harm.
    pub(crate) fn truncate_after_last_batch(&self) {
        let length = self.at.0.next_multiple_of(u64::from(self.header.geometry.block));
        if self.header.layout == Layout::Text {
            self.release_reserved();
        } else if length < self.header.size {
            let _ = self.file.set_len(length);
        }
    }

    /// Frees the space reserved after the end of a text that gets no more records.
    pub(crate) fn release_reserved(&self) {
        if self.header.layout == Layout::Text && self.is_reserved {
            release_reserved(&*self.file);
        }
    }

    /// The part of the segment that parity covers.
    pub(crate) fn covered<'a>(&'a self, storage: &'a Arc<dyn Storage>) -> Covered<'a> {
        Covered { storage, header: &self.header, file: &*self.file, end: self.at.0 }
    }

    /// Bytes that can be written with certainty.
    pub(crate) fn room(&self) -> u64 {
        if self.is_reserved { self.soft_limit.saturating_sub(self.at.0) } else { u64::MAX }
    }

    /// Whether a batch of `size` bytes must go to the next segment.
    pub(crate) fn is_full_for(&self, size: u64) -> bool {
        let is_new = self.at.0 == self.header.data_start();
        // Without reserved space, a text takes a batch of any size, and the limit only decides when
        // to rotate.
        self.at.plus(size).0 > self.soft_limit && (self.is_reserved || !is_new)
    }

    /// Size of the segment's files, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let text = if self.header.layout == Layout::Text { self.at.0 } else { 0 };
        self.header.size + text
    }

    /// Completes a batch for its place in the segment. `bytes` (space for the header, then frames
    /// without LSNs) gets bound frames.
    pub(crate) fn finish(&self, bytes: &mut [u8], spec: Spec) -> Finished {
        let (life, at) = (&self.life, self.at);
        let size = |bytes: &[u8]| u64::try_from(bytes.len()).expect("fits in 64 bits");
        if self.header.layout == Layout::Binary {
            let chain = batch::finish(bytes, spec, at, life);
            return Finished { end: at.plus(size(bytes)), chain, text: None };
        }
        let (text, chain) = lines::write(bytes, &spec, life);
        let (_, frames) = bytes.split_at_mut(HEADER_SIZE);
        frame::bind(frames, &life.salt, spec.first);
        Finished { end: at.plus(size(&text)), chain, text: Some(text) }
    }
}

/// Frees the space reserved after the end of a text.
pub(crate) fn release_reserved(text: &dyn File) {
    // Ignores errors: they cost space only.
    let _ = text.len().and_then(|length| text.set_len(length));
}

/// Bytes that a record takes at most in this layout, in addition to its frame.
pub(crate) fn overhead_max(layout: Layout) -> u64 {
    if layout == Layout::Text { lines::LINE_OVERHEAD_MAX } else { 0 }
}

/// A batch that is ready to be written.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Where the batch ends in its segment.
    pub(crate) end: Offset,
    /// The batch's chain value.
    pub(crate) chain: u64,
    /// The bytes to write, if they are not the batch itself.
    pub(crate) text: Option<Vec<u8>>,
}
