//! Decodes compressed and encrypted batches. format.md sections 3.6 and 3.7.

use crate::base::error::{Corruption, Damage, Error, Result};
use crate::base::num::to_u64;
use crate::files::directory::file_place;
use crate::files::segment::Segment;
use crate::files::unlock::lost_keys;
use crate::scan::catalog::KeysLost;
use crate::scan::intact::{Contents, ExpectedFrames, RangeEnd};
use crate::scan::scanner::{Decoding, LogScanner, ScanItem, ScannedBatch};
use seawall_format::batch::HEADER_SIZE;
use seawall_format::encoded;
use seawall_format::encryption::KeyError;
use seawall_format::next_lsn;
use seawall_format::scan::Limit;

impl LogScanner {
    /// Decodes a valid batch, unless the caller wants it as it is stored. If that fails, returns
    /// the damage. It is not the end of the log: nothing is wrong with the checksums, so the batch
    /// may have been acknowledged.
    ///
    /// # Errors
    ///
    /// [`Error::Key`] if the batch is encrypted, and no holder of the key wrote it or the keys are
    /// not known.
    #[inline(never)]
    pub(super) fn decode(&mut self, found: &mut ScannedBatch) -> Result<Option<ScanItem>> {
        if self.decoding == Decoding::AsStored {
            return Ok(None);
        }
        let mut memory = std::mem::take(&mut self.decoding_memory);
        let (link, scanner) = self.current.as_ref().expect("a scanner found a batch");
        let (header, life, segment) = (found.header, *scanner.life(), &link.segment);
        let body = self.buffer.bytes().get(found.body.clone()).unwrap_or_default();
        let is_decoded = match &segment.keys {
            _ if !life.is_encrypted => encoded::decode(&header, body, &life, &mut memory),
            Some(keys) => {
                let opened = keys.open((&header, body), (found.start, &life), &mut memory);
                opened.map_err(|error| key_error(segment, error))?
            }
            None if self.decoding == Decoding::IfUnlocked => {
                (found.is_locked, found.body) = (true, 0..0);
                self.decoding_memory = memory;
                return Ok(None);
            }
            None => return Err(self.no_keys()),
        };
        if is_decoded || header.is_void() {
            found.body = HEADER_SIZE..memory.len();
            self.synthesized_batch = Some(memory);
            return Ok(None);
        }
        let is_limit = link.limit == Limit::At(Some(found.last));
        let (first, last, counts_to) = (header.first, Some(header.last()), Some(found.last));
        let (end, time_us) = (RangeEnd::Known, header.time_us);
        let expected = ExpectedFrames { first, last, counts_to, is_limit, end, time_us };
        let place = self.raw(found);
        let salvaged = expected.salvage(place, (found.start, &life), (Contents::Chunks, segment));
        let (salvaged, memory) = salvaged.map_err(|error| key_error(segment, error))?;
        let named = Damage {
            segment: Some(segment.header.id),
            offset: found.start,
            bytes: to_u64(place.len()),
            ..Damage::new(Corruption::Encoding)
        };
        self.synthesized_batch = memory;
        Ok(Some(ScanItem::Damage(expected.each_lost(&named, &salvaged), salvaged)))
    }

    /// Why an encrypted batch cannot be read.
    pub(super) fn no_keys(&self) -> Error {
        match self.keys_lost {
            Some(KeysLost::From(first)) => Error::damaged(lost_keys(first)),
            Some(KeysLost::ToCome) | None => Error::key(None)(KeyError::NoKey),
        }
    }

    /// Damage for keys that are lost before a record needed them: none can be appended.
    pub(super) fn lost_keys_to_come(&self) -> Option<Damage> {
        let is_lost = self.keys_lost == Some(KeysLost::ToCome);
        is_lost.then(|| lost_keys(next_lsn(self.last)))
    }
}

/// Converts `error`, found in the file of `segment`, to an error that names the file.
pub(super) fn key_error(segment: &Segment, error: KeyError) -> Error {
    Error::key(file_place(&**segment.storage(), &segment.name()))(error)
}
