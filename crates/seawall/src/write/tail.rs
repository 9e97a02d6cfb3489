//! The segment that is open for append.

pub(crate) mod batch_encoder;

use crate::base::num::to_u64;
use crate::parity::writer::Covered;
use crate::write::tail::batch_encoder::BatchEncoder;
use seawall_format::batch::{Life, Spec};
use seawall_format::before::SectorSums;
use seawall_format::{Finished, Offset, SegmentHeader};
use seawall_io::{File, Storage};
use std::io;
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
    /// Checksums of the part of the file where records go, if the file may be used again and this
    /// process has written all of that part.
    pub(crate) sums: Option<SectorSums>,
    /// Compresses or encrypts batches; `None` if the segment stores them as they are.
    pub(crate) encoder: Option<BatchEncoder>,
    /// What this process has written here.
    pub(crate) written: Written,
}

/// Batches and their bytes, before compression.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
}

impl TailSegment {
    /// A segment without a batch. The two files are the one with the header and the one with the
    /// records; `sums` are the checksums of the latter.
    pub(crate) fn empty(
        header: SegmentHeader,
        [head, file]: [Arc<dyn File>; 2],
        (soft_limit, is_reserved): (u64, bool),
        (sums, encoder): (Option<SectorSums>, Option<BatchEncoder>),
    ) -> Self {
        Self {
            sums,
            encoder,
            written: Written::default(),
            life: Life::of(&header),
            at: Offset(header.data_start()),
            chain: header.chain(),
            marks: 0,
            head,
            file,
            soft_limit,
            is_reserved,
            header,
        }
    }

    /// Frees the space after the last batch, once the successor is durable (R6 f). Not synced: a
    /// crash that undoes it does no harm.
    pub(crate) fn truncate_after_last_batch(&self) {
        let length = self.at.0.next_multiple_of(u64::from(self.header.geometry.block));
        if self.header.layout.has_growing_file() {
            self.release_reserved();
        } else if length < self.header.size {
            let _ = self.file.set_len(length);
        }
    }

    /// Number of bytes from `end` to the end of its block.
    pub(crate) fn rest_of_block(&self, end: Offset) -> usize {
        let size = end.0.next_multiple_of(u64::from(self.header.geometry.block)) - end.0;
        usize::try_from(size).expect("less than a block")
    }

    /// Whether several writes may be in flight: each fills its last block then.
    pub(crate) fn takes_stream(&self) -> bool {
        self.header.in_flight_max > 1
    }

    /// Whether the batch at `at` fills its last block. The first batch of a segment that was named
    /// ahead does, so that no later write can damage it: it says where the segment begins.
    pub(crate) fn pads(&self, at: Offset) -> bool {
        self.takes_stream() || (self.header.named_ahead && at.0 == self.header.data_start())
    }

    /// The size of a batch of `size` bytes at `at` that is extended to the end of its last block,
    /// if it does not become too large: it may begin within a block, after carried ones.
    pub(crate) fn padded(&self, size: usize, at: Offset) -> usize {
        let padded = size + self.rest_of_block(at.plus(to_u64(size)));
        let max = usize::try_from(self.header.geometry.batch_max).expect("at most 64 MiB");
        padded.min(max).max(size)
    }

    /// Zeros from `end` to the end of its block.
    pub(crate) fn zeros_after(&self, end: Offset) -> Vec<u8> {
        vec![0; self.rest_of_block(end)]
    }

    /// Frees the space reserved after the end of a text that gets no more records.
    pub(crate) fn release_reserved(&self) {
        if self.header.layout.has_growing_file() && self.is_reserved {
            release_reserved(&*self.file);
        }
    }

    /// The part of the segment that parity covers.
    pub(crate) fn covered<'a>(&'a self, storage: &'a Arc<dyn Storage>) -> Covered<'a> {
        Covered { storage, header: &self.header, file: &*self.file, end: self.at.0 }
    }

    /// Bytes that can be written with certainty.
    pub(crate) fn room(&self) -> u64 {
        self.room_after(self.at)
    }

    /// Bytes that can be written from `at` on with certainty.
    pub(crate) fn room_after(&self, at: Offset) -> u64 {
        if self.is_reserved { self.soft_limit.saturating_sub(at.0) } else { u64::MAX }
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
        let text = self.header.own_head_length().map_or(0, |_| self.at.0);
        self.header.size + text
    }

    /// Updates the checksums after whole sectors were written and synced.
    pub(crate) fn note_written(&mut self, (at, bytes): (u64, &[u8])) {
        if self.sums.as_mut().is_some_and(|sums| !sums.replace(at, bytes)) {
            self.sums = None;
        }
    }

    /// Updates the checksums with those of the sectors that were written.
    pub(crate) fn note_sums(&mut self, written: Option<&SectorSums>) {
        let sums = self.sums.as_mut();
        if sums.is_some_and(|sums| !written.is_some_and(|written| sums.replace_by(written))) {
            self.sums = None;
        }
    }

    /// Encodes a batch for the place `at` into `stored`. `None` if it is to be written as it is.
    pub(crate) fn encode(
        &mut self,
        (plain, spec): (&[u8], Spec),
        at: Offset,
        stored: &mut Vec<u8>,
    ) -> io::Result<Option<Spec>> {
        let Some(encoder) = &mut self.encoder else { return Ok(None) };
        encoder.encode((plain, spec), (at, &self.life), stored)
    }

    /// Completes a batch for the place `at` in the segment. `bytes` (space for the header, then
    /// frames without LSNs) gets bound frames.
    pub(crate) fn finish(&self, bytes: &mut [u8], spec: Spec, at: Offset) -> Finished {
        self.header.layout.finish(bytes, spec, (at, &self.life))
    }
}

/// Frees the space reserved after the end of a text.
pub(crate) fn release_reserved(text: &dyn File) {
    // Ignores errors: they cost space only.
    let _ = text.len().and_then(|length| text.set_len(length));
}
