//! The sizes of segments, from which the oracle decides whether retention may have removed one.

use std::collections::BTreeMap;

use seawall_format::{Lsn, SegmentHeader, SegmentId};
use seawall_testkit::MemStorage;

use crate::evidence::begun_header;
use crate::world::to_u64;

/// The segments seen since the last open that was checked, and the limits in effect since then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removals {
    /// The largest size of the files of each segment, in bytes.
    sizes: BTreeMap<SegmentId, u64>,
    /// The first LSN of each segment, and the segment before.
    bases: BTreeMap<SegmentId, (Lsn, Option<SegmentId>)>,
    /// The newest segment with a batch. The limit does not apply to the segment being written.
    newest: Option<SegmentId>,
    /// The lowest limit; `None` if retention removes nothing.
    limit: Option<u64>,
}

impl Removals {
    /// Notes that a life with this limit begins.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.limit = [self.limit, limit].into_iter().flatten().min();
    }

    /// Forgets the segments and the limits so far.
    pub(crate) fn restart(&mut self, limit: Option<u64>) {
        *self = Self { limit, ..Self::default() };
    }

    /// Notes the sizes of all segments on this device.
    pub(crate) fn saw(&mut self, device: &MemStorage) {
        let mut sizes: BTreeMap<SegmentId, u64> = BTreeMap::new();
        for name in device.names() {
            let Some(id) = SegmentId::from_any_name(&name) else { continue };
            let is_of_records = [".seg", ".head", ".jsonl"].iter().any(|end| name.ends_with(end));
            let Some(bytes) = device.bytes(&name).filter(|_| is_of_records) else { continue };
            *sizes.entry(id).or_default() += to_u64(bytes.len());
            let is_known = self.bases.contains_key(&id);
            if let Some(header) = begun_header(&bytes).filter(|begun| !is_known && begun.id == id) {
                self.bases.insert(id, (header.base, header.pred.map(|pred| pred.id)));
                self.newest = self.newest.max(Some(id));
            }
        }
        for (id, size) in sizes {
            let largest = self.sizes.entry(id).or_default();
            *largest = size.max(*largest);
        }
    }

    /// Whether retention may have removed everything before the segment `oldest`: the newest of
    /// the removed segments did not fit the limit together with the later ones.
    pub(crate) fn may_begin_with(&self, oldest: &SegmentHeader) -> bool {
        let Some(limit) = self.limit else { return false };
        // Segments without records begin with the same LSN, and go with those before.
        let mut removed = oldest.pred.map(|pred| pred.id);
        while let Some((base, pred)) = removed.and_then(|removed| self.bases.get(&removed))
            && *base == oldest.base
        {
            removed = *pred;
        }
        // Without a size of the removed segment, nothing is known.
        let Some(removed) = removed.filter(|removed| self.sizes.contains_key(removed)) else {
            return true;
        };
        let Some(newest) = self.newest.filter(|newest| *newest > removed) else { return true };
        let kept = self.sizes.range(removed..newest);
        kept.map(|(_, size)| *size).sum::<u64>() > limit
    }
}
