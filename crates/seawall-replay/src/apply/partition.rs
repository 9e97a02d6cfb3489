//! One partition of the keys: applies its changes in log order, batch by batch.

use crate::apply::batch_size::BatchSize;
use crate::apply::fold::{Folding, Tools};
use crate::error::{Error, Result};
use crate::operation::Change;
use crate::store::Batch;
use crate::store::watermark::Watermark;
use crate::store::write::Write;
use seawall_io::Clock;

/// Returns the partition of a change, by its table and key. The algorithm's number is stored in
/// each [`Watermark`]; a different algorithm needs a new number.
pub(crate) fn partition_of(change: &Change, partitions: u32) -> u32 {
    // FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). The last bytes reach too few of its
    // bits, so half of MurmurHash3's finalizer spreads them.
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    const SPREAD: u64 = 0xff51_afd7_ed55_8ccd;
    if partitions <= 1 {
        return 0;
    }
    let table = change.table().bytes().chain([0]);
    let bytes = table.chain(change.key().unwrap_or_default().iter().copied());
    let hash = bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    let spread = (hash ^ (hash >> 33)).wrapping_mul(SPREAD);
    u32::try_from((spread >> 33) % u64::from(partitions)).expect("a remainder is below the divisor")
}

/// A batch: the changes of whole transactions that belong to one partition.
#[derive(Debug)]
pub(crate) struct Portion {
    pub(crate) rows: Folding,
    /// The number of changes before folding.
    pub(crate) changes: usize,
    /// The partition's watermark after this batch: the last commit dealt out, even if it has no
    /// changes here.
    pub(crate) reached: Watermark,
}

/// Totals of a partition's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) batches: u64,
    pub(crate) changes: u64,
    pub(crate) writes: u64,
}

pub(crate) struct Partition<'a> {
    pub(crate) number: u32,
    pub(crate) tools: Tools<'a>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) size: BatchSize,
    /// The watermark in the store.
    pub(crate) written: Watermark,
    pub(crate) done: Done,
}

impl Partition<'_> {
    /// Writes a batch, and returns the writes so that another thread can free them. A batch without
    /// changes only advances the watermark.
    pub(crate) fn write(&mut self, portion: Portion) -> Result<Vec<Write>> {
        let Portion { rows, changes, reached } = portion;
        if reached.applied_lsn() <= self.written.applied_lsn() {
            return Ok(vec![]);
        }
        let began = self.clock.now();
        let writes = rows.finish(self.tools)?;
        self.done.writes += number(writes.len());
        let mut batch = Batch { writes, watermarks: vec![(self.number, reached)] };
        self.tools.store.write_mut(&mut batch).map_err(Error::store("write a batch"))?;
        self.written = reached;
        self.done.batches += 1;
        self.done.changes += number(changes);
        self.size.took(changes, self.clock.now().saturating_sub(began));
        Ok(batch.writes)
    }
}

pub(crate) fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_one_partition_and_keys_spread_evenly() {
        // The assignment is part of the stored format: changing it needs a new number in the
        // watermark.
        assert_eq!(
            partition_of(&Change::put("t", "k", ""), 4),
            partition_of(&Change::delete("t", "k"), 4)
        );
        let known: Vec<u32> =
            (0..8u8).map(|key| partition_of(&Change::delete("t", [key]), 4)).collect();
        assert_eq!(known, KNOWN);
        let mut counts = [0; 4];
        for key in 0..4000u32 {
            let partition = partition_of(&Change::delete("t", key.to_le_bytes()), 4);
            counts[usize::try_from(partition).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(partition_of(&Change::delete("t", "k"), 1), 0);
    }

    const KNOWN: [u32; 8] = [0, 3, 1, 0, 3, 1, 0, 2];
}
