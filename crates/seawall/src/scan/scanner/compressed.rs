//! Decodes compressed batches. format.md section 3.6.

use crate::base::error::{Corruption, Damage};
use crate::base::num::to_u64;
use crate::scan::intact::{Contents, ExpectedFrames};
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use seawall_format::batch::HEADER_SIZE;
use seawall_format::encoded;
use seawall_format::scan::Limit;

impl LogScanner {
    /// Decodes a valid batch, unless the caller wants it as it is stored. If that fails, returns
    /// the damage. It is not the end of the log: nothing is wrong with the checksums, so the batch
    /// may have been acknowledged.
    pub(super) fn decode(&mut self, found: &mut ScannedBatch) -> Option<ScanItem> {
        let mut memory = std::mem::take(self.decoding_memory.as_mut()?);
        let (link, scanner) = self.current.as_ref().expect("a scanner found a batch");
        let (header, life) = (found.header, *scanner.life());
        let body = self.buffer.bytes().get(found.body.clone()).unwrap_or_default();
        if encoded::decode(&header, body, &life, &mut memory) {
            found.body = HEADER_SIZE..memory.len();
            self.synthesized_batch = Some(memory);
            return None;
        }
        let is_limit = link.limit == Limit::At(Some(found.last));
        let (first, last, counts_to) = (header.first, Some(header.last()), Some(found.last));
        let expected = ExpectedFrames { first, last, counts_to, is_limit, is_open: false };
        let place = self.raw(found);
        let (salvaged, memory) = expected.salvage(place, (found.start, &life), Contents::Chunks);
        let named = Damage {
            segment: Some(link.segment.header.id),
            offset: found.start,
            bytes: to_u64(place.len()),
            lost: None,
            cause: Corruption::Encoding,
            origin: None,
        };
        self.synthesized_batch = memory;
        Some(ScanItem::Damage(expected.each_lost(&named, &salvaged), salvaged))
    }
}
