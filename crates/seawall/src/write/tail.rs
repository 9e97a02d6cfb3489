//! The open segment at the end of the log.

use crate::parity::writer::Covered;
use seawall_format::batch::{HEADER_SIZE, Life, Spec};
use seawall_format::{Layout, Offset, SegmentHeader, batch, frame, lines};
use seawall_io::{File, Storage};
use std::sync::Arc;

/// The segment that is open for append.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) life: Life,
    /// The file with header, marks and seal.
    pub(crate) head: Arc<dyn File>,
    /// The file with the records: the same, unless they are lines of text.
    pub(crate) file: Arc<dyn File>,
    /// The length of that file which the next batch is not to exceed: it rolls.
    pub(crate) soft_limit: u64,
    /// Whether the file has its space on the device up to there: not so a text on a file system
    /// that cannot reserve any.
    pub(crate) is_reserved: bool,
    /// Where the next batch goes.
    pub(crate) at: Offset,
    /// The chain value that it names.
    pub(crate) chain: u64,
    /// The sequence number of the last mark.
    pub(crate) marks: u64,
}

impl TailSegment {
    /// Frees the room behind the last batch, once the successor is durable (R6 f). Not synced: a
    /// crash that undoes it harms nobody.
    pub(crate) fn truncate_after_last_batch(&self) {
        let length = self.at.0.next_multiple_of(u64::from(self.header.geometry.block));
        if self.header.layout == Layout::Text {
            self.release_reserved();
        } else if length < self.header.size {
            let _ = self.file.set_len(length);
        }
    }

    /// Frees what is reserved beyond the end of a text, once nothing more is written to it.
    pub(crate) fn release_reserved(&self) {
        if self.header.layout == Layout::Text && self.is_reserved {
            release_reserved(&*self.file);
        }
    }

    /// What parity needs to know of it.
    pub(crate) fn covered<'a>(&'a self, storage: &'a Arc<dyn Storage>) -> Covered<'a> {
        Covered { storage, header: &self.header, file: &*self.file, end: self.at.0 }
    }

    /// How many bytes can still be written that surely have their place in it.
    pub(crate) fn room(&self) -> u64 {
        if self.is_reserved { self.soft_limit.saturating_sub(self.at.0) } else { u64::MAX }
    }

    /// Whether a batch of `size` bytes has its place in the next segment.
    pub(crate) fn is_full_for(&self, size: u64) -> bool {
        let is_new = self.at.0 == self.header.data_start();
        // Where nothing is reserved a text takes a batch of any size; it is only a matter of when
        // to begin another.
        self.at.plus(size).0 > self.soft_limit && (self.is_reserved || !is_new)
    }

    /// The size of its files, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let text = if self.header.layout == Layout::Text { self.at.0 } else { 0 };
        self.header.size + text
    }

    /// Makes what is to be written where the next batch goes: of a batch (room for its header, then
    /// unbound frames), whose frames are bound then.
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

/// Frees what is reserved beyond the end of a text.
pub(crate) fn release_reserved(text: &dyn File) {
    // As it takes room only, an error harms nobody.
    let _ = text.len().and_then(|length| text.set_len(length));
}

/// How many bytes a record takes at most in that layout beside its frame.
pub(crate) fn overhead_max(layout: Layout) -> u64 {
    if layout == Layout::Text { lines::LINE_OVERHEAD_MAX } else { 0 }
}

/// A batch that can be written.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Where it ends in its segment.
    pub(crate) end: Offset,
    /// What the next batch names.
    pub(crate) chain: u64,
    /// What is written of it, if that is not the batch itself.
    pub(crate) text: Option<Vec<u8>>,
}
