//! The differences between the layouts: the one place that knows what depends on a log's layout.
//!
//! The batches and lines themselves are found by [`scan`](crate::scan).

use crate::binary::batch::{HEADER_SIZE, Life, Spec, finish};
use crate::binary::frame;
use crate::files::segment::SegmentHeader;
use crate::ids::{Offset, to_u64};
use crate::text::line_set as lines;
use crate::types::{Geometry, Layout};

impl Layout {
    /// Whether the records of a segment have a file of their own, which grows with them. Otherwise
    /// they share a file of fixed size with header, marks and seal.
    #[must_use]
    pub fn has_growing_file(self) -> bool {
        self == Self::Text
    }

    /// Whether each record must be one JSON value.
    #[must_use]
    pub fn takes_json_only(self) -> bool {
        self == Self::Text
    }

    /// Whether each batch begins with a header that identifies its body.
    #[must_use]
    pub fn has_batch_headers(self) -> bool {
        self == Self::Binary
    }

    /// Bytes that a record takes at most, in addition to its frame.
    #[must_use]
    pub fn record_overhead_max(self) -> u64 {
        match self {
            Self::Binary => 0,
            Self::Text => lines::LINE_OVERHEAD_MAX,
        }
    }

    /// Size of the file that holds `data` bytes of records, but at least `size_min`.
    #[must_use]
    pub fn data_file_size(self, geometry: Geometry, data: u64, size_min: u64) -> u64 {
        match self {
            Self::Binary => geometry.segment_size(data, size_min),
            Self::Text => data.max(size_min),
        }
    }

    /// Completes a batch for its place in a segment: binds the frames in `batch`, which has space
    /// for a header before them.
    ///
    /// # Panics
    ///
    /// If a record does not fit the layout, or the batch its segment: the log checks both earlier.
    pub fn finish(self, batch: &mut [u8], spec: Spec, (offset, life): (Offset, &Life)) -> Finished {
        match self {
            Self::Binary => {
                let chain = finish(batch, spec, offset, life);
                Finished { end: offset.plus(to_u64(batch.len())), chain, text: None }
            }
            Self::Text => {
                let (text, chain) = lines::write(batch, &spec, life);
                let (_, frames) = batch.split_at_mut(HEADER_SIZE);
                frame::bind(frames, &life.salt, spec.first, spec.frames());
                Finished { end: offset.plus(to_u64(text.len())), chain, text: Some(text) }
            }
        }
    }
}

/// A batch that is ready to be written.
#[derive(Debug)]
pub struct Finished {
    /// Where the batch ends in its segment.
    pub end: Offset,
    /// The batch's chain value.
    pub chain: u64,
    /// The bytes to write, if they are not the batch itself.
    pub text: Option<Vec<u8>>,
}

impl SegmentHeader {
    /// Length of the file with the records, in bytes; `None` if it grows.
    #[must_use]
    pub fn fixed_length(&self) -> Option<u64> {
        (!self.layout.has_growing_file()).then_some(self.size)
    }

    /// Length of the file with header, marks and seal, in bytes, if the records are in another.
    #[must_use]
    pub fn own_head_length(&self) -> Option<u64> {
        self.layout.has_growing_file().then_some(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_differ_in_batches_and_file_growth() {
        let geometry = Geometry { block: 512, reach: 1024, batch_max: 4096 };
        let sizes = |layout: Layout| {
            [(0, 0), (1, 0), (1, 9000)]
                .map(|(data, size_min)| layout.data_file_size(geometry, data, size_min))
        };
        assert_eq!(sizes(Layout::Binary), [3072, 3584, 9216]);
        assert_eq!(sizes(Layout::Text), [0, 1, 9000]);
        let answers = |layout: Layout| {
            (layout.has_growing_file(), layout.takes_json_only(), layout.has_batch_headers())
        };
        assert_eq!(answers(Layout::Binary), (false, false, true));
        assert_eq!(answers(Layout::Text), (true, true, false));
        assert_eq!(Layout::Binary.record_overhead_max(), 0);
        assert_eq!(Layout::Text.record_overhead_max() > 0, cfg!(feature = "json"));
    }
}
