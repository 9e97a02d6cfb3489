//! Whole blocks for direct writes: the device accepts only aligned ones.

use crate::write::pending::WrittenBatch;
use seawall_format::batch::{FinishedBody, HEADER_SIZE, Life, Spec};
use seawall_format::batch::{finish_body, finish_header};
use seawall_format::before::SectorSums;
use seawall_format::{Offset, SECTOR};
use seawall_io::AlignedMemory;
use std::collections::VecDeque;

/// A buffer larger than this is freed after its write, in bytes.
const KEPT_MAX: usize = 4 << 20;

/// Aligned memory for the blocks of one write.
#[derive(Debug, Default)]
pub(crate) struct Blocks(AlignedMemory);

/// The body of a batch, copied to blocks; its header is not copied yet.
#[derive(Debug)]
pub(crate) struct BodyInBlocks {
    body: FinishedBody,
    /// Size of the blocks, in bytes.
    length: usize,
    /// The checksums of their sectors, if they are wanted.
    sums: Option<SectorSums>,
}

/// The result of [`Blocks::complete`].
#[derive(Debug)]
pub(crate) struct CompletedBlocks {
    /// The chain value of the batch.
    pub(crate) chain: u64,
    /// Size of its blocks, in bytes.
    pub(crate) length: usize,
    /// The checksums of their sectors, if they are wanted.
    pub(crate) sums: Option<SectorSums>,
}

impl Blocks {
    /// The first `length` bytes.
    pub(crate) fn first(&mut self, length: usize) -> &[u8] {
        self.0.first(length)
    }

    /// Completes the body of a batch that begins at a block, at the place `at` of a segment, and
    /// copies it, with zeros to the end of its last block. The chain value in `spec` does not
    /// matter yet.
    pub(crate) fn complete_body(
        &mut self,
        batch: &mut [u8],
        (spec, at, life): (&Spec, Offset, &Life),
        needs_sums: bool,
    ) -> BodyInBlocks {
        let block = usize::try_from(life.block).expect("at most 64 KiB");
        let length = batch.len().next_multiple_of(block);
        let memory = self.space(length);
        let mut sums = needs_sums.then(|| SectorSums::from_offset(at.0));
        let body = finish_body((batch, spec), (at, life), sums.as_mut(), |start, piece| {
            let here = memory.get_mut(start..start + piece.len());
            here.expect("a part of it").copy_from_slice(piece);
        });
        let (_, after) = memory.split_at_mut(batch.len());
        after.fill(0);
        if let Some(sums) = &mut sums {
            // Those of the whole sectors of the batch are known.
            sums.extend(memory.get(batch.len() / SECTOR * SECTOR..).unwrap_or_default());
        }
        BodyInBlocks { body, length, sums }
    }

    /// Completes the header of a batch whose body was completed last, and copies it.
    pub(crate) fn complete(
        &mut self,
        batch: &mut [u8],
        (spec, at, life): (Spec, Offset, &Life),
        BodyInBlocks { body, length, mut sums }: BodyInBlocks,
    ) -> CompletedBlocks {
        let chain = finish_header(batch, spec, body, (at, life));
        let memory = self.0.first(length);
        let (head, _) = memory.split_at_mut(HEADER_SIZE);
        head.copy_from_slice(batch.first_chunk::<HEADER_SIZE>().expect("a batch has a header"));
        if let Some(sums) = &mut sums {
            let (first, _) = memory.split_at(SECTOR);
            assert!(sums.replace(at.0, first), "the first sector is one of them");
        }
        CompletedBlocks { chain, length, sums }
    }

    /// Memory for `whole` bytes.
    fn space(&mut self, whole: usize) -> &mut [u8] {
        if self.0.size() > KEPT_MAX.max(whole.next_power_of_two()) {
            self.0 = AlignedMemory::default();
        }
        self.0.first(whole)
    }

    /// Copies the blocks that `batch` touches: the batches `before` it in the first block, the
    /// batch itself, and zeros to the end of the last block. Also returns the offset of the first
    /// block.
    ///
    /// `None` if `before` does not cover the start of the first block without a gap, for example
    /// because the segment header is there.
    pub(crate) fn covering(
        &mut self,
        (at, batch): (Offset, &[u8]),
        before: &VecDeque<WrittenBatch>,
        block: u32,
    ) -> Option<(u64, &[u8])> {
        let block = u64::from(block);
        let start = at.0 / block * block;
        let lead = usize::try_from(at.0 - start).expect("less than a block");
        let size = lead + batch.len();
        let whole = size.next_multiple_of(usize::try_from(block).expect("at most 64 KiB"));
        let memory = self.space(whole);
        let (first, rest) = memory.split_at_mut(lead);
        let (here, after) = rest.split_at_mut(batch.len());
        here.copy_from_slice(batch);
        after.fill(0);
        // Backwards: each batch ends where the next one begins.
        let (mut left, mut next) = (first, at.0);
        for sent in before.iter().rev() {
            if left.is_empty() {
                break;
            }
            if sent.end.0 != next {
                return None;
            }
            let remaining = left.len().saturating_sub(sent.bytes.len());
            let (rest, here) = left.split_at_mut(remaining);
            let (_, end) = sent.bytes.split_at(sent.bytes.len() - here.len());
            here.copy_from_slice(end);
            (left, next) = (rest, start + u64::try_from(remaining).expect("less than a block"));
        }
        left.is_empty().then_some((start, &*memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::batch::{BodyKind, finish};
    use seawall_format::frame::push_unbound;
    use seawall_format::{Compression, Epoch, LogId, Lsn, Salt};

    fn sent(bytes: &[u8], end: u64) -> WrittenBatch {
        let bytes = bytes.to_vec();
        let (first, end) = (Lsn::FIRST, Offset(end));
        WrittenBatch {
            bytes,
            first,
            count: 1,
            kind: BodyKind::Frames,
            time_us: 0,
            end,
            chain_before: 0,
        }
    }

    #[test]
    fn first_block_keeps_its_bytes_and_the_end_of_the_last_is_zero() {
        let before = [sent(&[1; 700], 900), sent(&[2; 100], 1000), sent(&[3; 50], 1050)].into();
        let mut blocks = Blocks::default();
        // Twice, because the memory is reused.
        for batch in [vec![9; 1500], vec![4; 600]] {
            let (start, whole) = blocks.covering((Offset(1050), &batch), &before, 512).unwrap();
            let mut expected = [vec![3; 26], batch].concat();
            assert_eq!(start, 1024);
            expected.resize(expected.len().next_multiple_of(512), 0);
            assert_eq!(whole, expected);
        }
        let (start, whole) =
            blocks.covering((Offset(1050), &[4; 20]), &before, 4096).unwrap_or_default();
        assert_eq!((start, whole.len()), (0, 0), "from 0 to 200 there are no batches");
        let (start, whole) =
            blocks.covering((Offset(1024), &[4; 20]), &VecDeque::new(), 512).unwrap();
        assert_eq!((start, &whole[..20], &whole[20..]), (1024, &[4; 20][..], &[0; 492][..]));
    }

    #[test]
    fn batch_completed_in_one_pass_is_the_same() {
        let life = Life {
            salt: Salt::new(LogId(3), Epoch(9)),
            epoch: Epoch(9),
            is_encrypted: false,
            batch_max: 1 << 20,
            block: 1024,
            in_flight_max: 2,
            compression_max: Compression::None,
        };
        let at = Offset(5 * 1024);
        let mut blocks = Blocks::default();
        for (count, rest) in [(1, 0), (1, 424), (500, 8), (900, 0)] {
            let mut bytes = vec![0; HEADER_SIZE];
            (0..count).for_each(|_| push_unbound(&mut bytes, &[7; 116], false));
            bytes.resize(bytes.len() + rest, 0);
            let (first, kind, confirmed) = (Lsn::FIRST, BodyKind::Frames, None);
            let spec = Spec { first, count, kind, confirmed, chain: 5, time_us: 1 };
            let (mut expected, offset) = (bytes.clone(), at.0);
            let chain = finish(&mut expected, spec, at, &life);
            let late = Spec { chain: 0, ..spec };
            let body = blocks.complete_body(&mut bytes, (&late, at, &life), true);
            let completed = blocks.complete(&mut bytes, (spec, at, &life), body);
            let CompletedBlocks { chain: own, length, sums } = completed;
            assert!((&bytes, own) == (&expected, chain), "{count} records");
            expected.resize(length, 0);
            assert!(blocks.first(length) == expected && length % 1024 == 0, "{count} records");
            let mut expected_sums = SectorSums::from_offset(offset);
            expected_sums.extend(&expected);
            assert_eq!(sums, Some(expected_sums), "{count} records");
        }
    }

    #[test]
    fn batches_that_are_not_contiguous_are_refused() {
        let mut blocks = Blocks::default();
        for end in [1040, 1049, 1051] {
            let before = [sent(&[3; 500], end)].into();
            assert_eq!(blocks.covering((Offset(1050), &[4; 20]), &before, 512), None, "{end}");
        }
    }
}
