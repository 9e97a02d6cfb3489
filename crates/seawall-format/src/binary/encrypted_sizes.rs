//! How large batches become when they are encrypted.

use crate::binary::chunk::{content, encrypted, encrypted_prefix};
use crate::encryption::{Padding, TAG_SIZE};
use crate::fields::sizes::BATCH_HEADER;
use crate::ids::to_u64;

/// Bytes of a batch before its chunks.
const FIXED: usize = BATCH_HEADER + encrypted_prefix::SIZE;

/// Bytes that a chunk takes in addition to its frames, at most.
const CHUNK_OVERHEAD: usize = encrypted::HEADER_SIZE + content::HEADER_SIZE + TAG_SIZE + 7;

/// How encrypted batches are divided and padded.
#[derive(Clone, Copy, Debug)]
pub struct EncryptedSizes {
    /// The most bytes of frames in a chunk, unless a single record is larger.
    pub chunk_max: usize,
    /// The sizes to which chunks are padded.
    pub padding: Padding,
}

impl Default for EncryptedSizes {
    fn default() -> Self {
        Self { chunk_max: 64 << 10, padding: Padding::Off }
    }
}

impl EncryptedSizes {
    /// The largest size of a batch with this many bytes of frames, header included, padding not.
    #[must_use]
    pub fn size_max(self, frames: usize) -> usize {
        FIXED.saturating_add(self.chunks_size_max(frames))
    }

    /// The largest size with padding, which never enlarges a batch beyond `batch_max`.
    #[must_use]
    pub fn padded_max(self, frames: usize, batch_max: usize) -> usize {
        let size = self.size_max(frames);
        let more = match self.padding {
            Padding::Off => 0,
            // At most an eighth of a chunk and what precedes it: together they are not small.
            Padding::Padme => size / 8 + 8 * self.chunks_max(frames),
            Padding::Multiple(_) => {
                let multiple = self.padding.padded(1);
                self.chunks_max(frames).saturating_mul(multiple + 8)
            }
        };
        size.saturating_add(more).min(batch_max.max(size))
    }

    /// The most bytes of frames that certainly fit in a batch of `batch_max` bytes.
    #[must_use]
    pub fn frames_max(self, batch_max: usize) -> usize {
        let room = batch_max.saturating_sub(FIXED + CHUNK_OVERHEAD);
        let wide = |size: usize| u128::from(to_u64(size));
        let (room, chunk) = (wide(room), wide(self.chunk_max.max(1)));
        let most = room * chunk / (chunk + 2 * wide(CHUNK_OVERHEAD));
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    pub(crate) fn chunks_size_max(self, frames: usize) -> usize {
        let chunks = if frames == 0 { 0 } else { self.chunks_max(frames) };
        frames.saturating_add(chunks.saturating_mul(CHUNK_OVERHEAD))
    }

    /// The most chunks: of two in a row, the second holds a frame that did not fit in the first.
    fn chunks_max(self, frames: usize) -> usize {
        1 + frames.saturating_mul(2) / self.chunk_max.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_fit_fit() {
        for chunk_max in [1, 100, 500, 64 << 10] {
            let sizes = EncryptedSizes { chunk_max, padding: Padding::Off };
            for batch_max in [512, 4096, 8192, 1 << 20, 8 << 20, 64 << 20] {
                let most = sizes.frames_max(batch_max);
                assert!(sizes.size_max(most) <= batch_max, "{chunk_max} {batch_max}: {most}");
            }
        }
        let sizes = EncryptedSizes::default();
        assert!(sizes.frames_max(8 << 20) > (8 << 20) - (24 << 10));
    }

    #[test]
    fn no_batch_is_larger_than_one_with_more_frames() {
        let batch_max = 64 << 10;
        let multiples = [8, 4096].map(|size| Padding::multiple_of(size).unwrap());
        for padding in [Padding::Off, Padding::Padme].into_iter().chain(multiples) {
            for chunk_max in [1, 100, 512, 64 << 10] {
                let sizes = EncryptedSizes { chunk_max, padding };
                let size_of = |frames| sizes.padded_max(frames, batch_max);
                assert!((0..=batch_max).step_by(8).map(size_of).is_sorted(), "{sizes:?}");
            }
        }
    }
}
