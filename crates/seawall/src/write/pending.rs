//! Batches kept in memory so that a new segment can repeat them.

use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::write::in_flight::chain_value::ChainValue;
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec};
use seawall_format::encryption::SegmentKeys;
use seawall_format::{Lsn, Offset, encoded, frame};
use std::io;

/// A batch that was written. Kept while it shares a block with the next batch, because a failed
/// write may damage the whole block (R8).
#[derive(Debug)]
pub(crate) struct WrittenBatch {
    /// The batch in the binary layout, also if it was written as text; compressed or encrypted if
    /// it was written so.
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

/// A batch that has its LSNs and its place in the tail, but is not completed yet.
#[derive(Debug)]
pub(crate) struct PlacedBatch {
    /// Where it begins.
    pub(crate) at: Offset,
    pub(crate) spec: Spec,
    /// Size that the batch would have on the device without compression, in bytes.
    pub(crate) plain_bytes: u64,
    /// Space for the batch header, then the body, to the end of the batch.
    pub(crate) bytes: Vec<u8>,
}

impl PlacedBatch {
    /// The batch, completed up to `end`, with its chain value and that of the batch before.
    pub(crate) fn complete(self, end: Offset, (chain, before): (u64, u64)) -> BatchInFlight {
        let Self { at, spec: Spec { first, count, kind, time_us, .. }, plain_bytes, bytes } = self;
        let chain_before = before;
        let sent = WrittenBatch { bytes, first, count, kind, time_us, end, chain_before };
        BatchInFlight { at, chain, plain_bytes: plain_bytes.max(end.0 - at.0), sent }
    }

    /// The last record.
    pub(crate) fn last(&self) -> Lsn {
        self.spec.first.plus(u64::from(self.spec.count) - 1)
    }
}

/// A batch of the tail whose write has not been acknowledged.
#[derive(Debug)]
pub(crate) struct BatchInFlight {
    /// Where it begins.
    pub(crate) at: Offset,
    /// Its chain value.
    pub(crate) chain: u64,
    /// Size that the batch would have on the device without compression, in bytes.
    pub(crate) plain_bytes: u64,
    pub(crate) sent: WrittenBatch,
}

/// The facts that the writer keeps about a batch that a thread writes without the writer.
#[derive(Debug)]
pub(crate) struct LaunchedBatch {
    /// Where it ends.
    pub(crate) end: Offset,
    /// Its last record.
    pub(crate) last: Lsn,
    pub(crate) chain: ChainValue,
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

impl RewriteBatch {
    /// Splits this batch, between atomic sets, into batches of at most `size_max` bytes, as far as
    /// that is possible.
    pub(crate) fn split(self, size_max: usize) -> Vec<Self> {
        if self.bytes.len() <= size_max || self.kind == BodyKind::Void {
            return vec![self];
        }
        let Self { first, time_us, .. } = self;
        let frames = self.bytes.get(HEADER_SIZE..).unwrap_or_default();
        let empty = |first| {
            let (bytes, kind) = (vec![0; HEADER_SIZE], BodyKind::Frames);
            Self { bytes, first, count: 0, kind, time_us }
        };
        let (mut parts, mut open, mut next) = (vec![], empty(first), first);
        let (mut start, mut at, mut in_set) = (0, 0, 0);
        while let Some((frame, end)) = frame::read(frames, at, next) {
            (at, next, in_set) = (end, next.next(), in_set + 1);
            if frame.goes_on {
                continue;
            }
            if open.count > 0 && open.bytes.len() + (end - start) > size_max {
                let first = open.first.plus(u64::from(open.count));
                parts.push(std::mem::replace(&mut open, empty(first)));
            }
            open.bytes.extend_from_slice(frames.get(start..end).unwrap_or_default());
            (open.count, in_set, start) = (open.count + in_set, 0, end);
        }
        parts.push(open);
        parts
    }
}

impl WrittenBatch {
    /// The last record.
    pub(crate) fn last(&self) -> Lsn {
        self.first.plus(u64::from(self.count) - 1)
    }

    /// Converts the batch for another segment; `life` and `keys` belong to the segment that it was
    /// written to.
    ///
    /// # Errors
    ///
    /// The encoded batch does not decode, because memory has changed.
    pub(crate) fn unseal(
        mut self,
        (life, keys): (&Life, Option<&SegmentKeys>),
    ) -> Result<RewriteBatch> {
        if !matches!(self.kind, BodyKind::Frames | BodyKind::Void) {
            return self.decode((life, keys));
        }
        let (_, frames) = self.bytes.split_at_mut(HEADER_SIZE);
        let frame_count = if self.kind == BodyKind::Void { 0 } else { self.count };
        // Binding is an XOR, so binding twice undoes it.
        let size = frame::bind(frames, &life.salt, self.first, frame_count);
        // Drop the zeros up to the end of the block.
        self.bytes.truncate(HEADER_SIZE + size);
        let Self { bytes, first, count, kind, time_us, .. } = self;
        Ok(RewriteBatch { bytes, first, count, kind, time_us })
    }

    fn decode(self, (life, keys): (&Life, Option<&SegmentKeys>)) -> Result<RewriteBatch> {
        let Self { first, count, time_us, .. } = self;
        let at = Offset(self.end.0.saturating_sub(to_u64(self.bytes.len())));
        let (head, body) = self.bytes.split_at(HEADER_SIZE);
        let mut bytes = vec![];
        let header = BatchHeader::decode(head, at, life);
        let decoded = header.filter(|header| match keys {
            None => encoded::decode(header, body, life, &mut bytes),
            Some(keys) => {
                let opened = keys.open((header, body), (at, life), &mut bytes);
                opened.is_ok_and(|ends_set| ends_set || header.is_void())
            }
        });
        let Some(header) = decoded else {
            let why = io::Error::other("it has changed in memory");
            return Err(Error::io(format!("decode the batch of record {first}"))(why));
        };
        let kind = if header.is_void() { BodyKind::Void } else { BodyKind::Frames };
        Ok(RewriteBatch { bytes, first, count, kind, time_us })
    }
}

#[cfg(test)]
mod split_tests {
    use super::*;

    #[test]
    fn batch_is_divided_between_atomic_sets() {
        let mut bytes = vec![0; HEADER_SIZE];
        // Sets of 1, 2, 1 and 3 records of 24 bytes each.
        for goes_on in [false, true, false, false, true, true, false] {
            frame::push_unbound(&mut bytes, &[7; 16], goes_on);
        }
        let (first, kind) = (Lsn::new(5).unwrap(), BodyKind::Frames);
        let batch = RewriteBatch { bytes, first, count: 7, kind, time_us: 3 };
        let parts_of = |records: usize| {
            let parts = batch.clone().split(HEADER_SIZE + 24 * records);
            let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes[48..].to_vec()).collect();
            assert_eq!(whole, batch.bytes[48..]);
            parts.iter().map(|part| (part.first.get(), part.count)).collect::<Vec<_>>()
        };
        assert_eq!(parts_of(7), [(5, 7)]);
        assert_eq!(parts_of(6), [(5, 4), (9, 3)]);
        assert_eq!(parts_of(3), [(5, 3), (8, 1), (9, 3)]);
        assert_eq!(parts_of(2), [(5, 1), (6, 2), (8, 1), (9, 3)], "a set stays whole");
    }
}

#[cfg(test)]
#[cfg(feature = "lz4")]
mod tests {
    use super::*;
    use seawall_format::batch::finish;
    use seawall_format::encoded::{EncodeSizes, Encoder};
    use seawall_format::{Compression, Epoch, LogId, Salt};

    const LIFE: Life = Life {
        salt: Salt::new(LogId(3), Epoch(9)),
        epoch: Epoch(9),
        batch_max: 4096,
        block: 512,
        in_flight_max: 2,
        compression_max: Compression::Lz4,
        is_encrypted: false,
    };

    /// Ten records for a new segment, and the compressed batch that holds them.
    fn written() -> (Vec<u8>, WrittenBatch) {
        let mut plain = vec![0; HEADER_SIZE];
        (0..10).for_each(|_| frame::push_unbound(&mut plain, &[7; 200], false));
        let (first, count, time_us, at) = (Lsn::FIRST, 10, 5, Offset(4096));
        let spec =
            Spec { first, count, kind: BodyKind::Frames, confirmed: None, chain: 1, time_us };
        let sizes = EncodeSizes { frames_min: 0, chunk_max: 500 };
        let mut encoder = Encoder::of(Compression::Lz4, sizes).expect("the feature is on");
        let mut bytes = vec![];
        let spec = encoder.encode((&plain, spec), (at, &LIFE), &mut bytes).expect("it shrinks");
        // Pads the batch to the end of its last block.
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        finish(&mut bytes, spec, at, &LIFE);
        let (kind, end) = (spec.kind, at.plus(to_u64(bytes.len())));
        (plain, WrittenBatch { bytes, first, count, kind, time_us, end, chain_before: 0 })
    }

    #[test]
    fn compressed_batch_is_decoded_for_another_segment() {
        let (plain, written) = written();
        assert!(written.bytes.len() < plain.len() / 2 && written.kind == BodyKind::Encoded);
        let RewriteBatch { mut bytes, kind, .. } =
            written.unseal((&LIFE, None)).expect("it is sound");
        // The next header overwrites these bytes, so their values do not matter.
        bytes[..HEADER_SIZE].fill(0);
        assert_eq!((bytes, kind), (plain, BodyKind::Frames));
    }

    #[test]
    fn batch_that_changed_in_memory_is_not_carried() {
        let (_, written) = written();
        let mut refused = 0;
        for at in 0..written.bytes.len() {
            let mut bytes = written.bytes.clone();
            bytes[at] ^= 4;
            let changed = WrittenBatch { bytes, ..written_like(&written) };
            // Decoding reads only the bytes that the chunks need, not the zeros after them.
            match changed.unseal((&LIFE, None)) {
                Ok(rewrite) => assert!(rewrite.bytes[HEADER_SIZE..].len() == 10 * 208, "{at}"),
                Err(error) => {
                    assert_eq!(error.to_string(), "cannot decode the batch of record 1");
                    refused += 1;
                }
            }
        }
        assert!(refused > 60, "{refused}");
    }

    fn written_like(batch: &WrittenBatch) -> WrittenBatch {
        let WrittenBatch { first, count, kind, time_us, end, chain_before, .. } = *batch;
        WrittenBatch { bytes: vec![], first, count, kind, time_us, end, chain_before }
    }
}
