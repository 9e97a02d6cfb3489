//! Reads the bytes of one segment. On request, skips blocks that the device cannot read.

use crate::base::error::{Error, Result, is_read_error};
use crate::base::num::to_u64;
use crate::files::directory::{open_if_exists, read_small};
use crate::files::read_buffer::Buffer;
use crate::files::segment::Segment;
use seawall_format::{Offset, STORED_MAX, SegmentHeader, SegmentId};
use seawall_io::{File, Storage};
use std::ops::Range;
use std::sync::Arc;

/// An open segment.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    segment: Segment,
    file: Arc<dyn File>,
    /// Whether an unreadable block is replaced with zeros.
    skip_io_errors: bool,
    /// Blocks that could not be read, in the order of the reads.
    unreadable: Vec<Range<u64>>,
}

impl SegmentReader {
    /// Opens the data file of the segment.
    ///
    /// # Errors
    ///
    /// `NotFound` if the segment was pruned meanwhile.
    pub(crate) fn open(segment: &Segment, skip_io_errors: bool) -> Result<Self> {
        let file = segment.open()?;
        Ok(Self { segment: segment.clone(), file, skip_io_errors, unreadable: vec![] })
    }

    /// Reads up to `max` bytes from `from`; fewer only at the end of the file.
    pub(crate) fn read(&mut self, from: Offset, max: u64) -> Result<Vec<u8>> {
        let mut buffer = Buffer::default();
        self.read_append((from, max), &mut buffer)?;
        Ok(buffer.into_bytes())
    }

    /// Like `read`, appending to `buffer`.
    pub(crate) fn read_append(
        &mut self,
        (from, max): (Offset, u64),
        buffer: &mut Buffer,
    ) -> Result<()> {
        match self.segment.read_in(&*self.file, (from, max), buffer) {
            Err(error) if self.skip_io_errors && is_read_error(&error) => {
                self.read_around((from, max), buffer)
            }
            read => read,
        }
    }

    /// Reads block by block; replaces unreadable blocks with zeros and records them.
    fn read_around(&mut self, (from, max): (Offset, u64), buffer: &mut Buffer) -> Result<()> {
        let block = u64::from(self.segment.header.geometry.block);
        let end = self.end()?.min(from.0.saturating_add(max));
        let mut at = from.0;
        while at < end {
            let next = ((at / block + 1) * block).min(end);
            match self.segment.read_in(&*self.file, (Offset(at), next - at), buffer) {
                Ok(()) => {}
                Err(error) if is_read_error(&error) => {
                    if !self.had_io_error(&(at..next)) {
                        self.unreadable.push(at..next);
                    }
                    let size = usize::try_from(next - at).expect("a block fits in memory");
                    let zeros = |room: &mut [u8]| {
                        room.fill(0);
                        Ok::<_, Error>(room.len())
                    };
                    buffer.fill(size, zeros)?;
                }
                Err(error) => return Err(error),
            }
            at = next;
        }
        Ok(())
    }

    /// End of the part of the file that can hold records.
    pub(crate) fn end(&self) -> Result<u64> {
        self.segment.data_end(&*self.file)
    }

    /// Offset of the next written byte at or after `at`; skips holes.
    pub(crate) fn next_written(&self, at: Offset) -> Result<Option<Offset>> {
        let next = self.file.next_written(at.0);
        let failed = || Error::io(format!("look for holes in {}", self.segment.name()));
        Ok(next.map_err(failed())?.map(Offset))
    }

    /// Whether a block in `range` could not be read and was replaced with zeros.
    pub(crate) fn had_io_error(&self, range: &Range<u64>) -> bool {
        self.unreadable.iter().any(|block| block.start < range.end && range.start < block.end)
    }

    /// Whether `range` contains bytes that the device cannot read and parity, which restored the
    /// rest of their block, does not cover.
    pub(crate) fn is_unknown(&self, range: &Range<u64>) -> bool {
        self.file.has_unknown(range.clone())
    }
}

/// The unit in which a device reports unreadable bytes.
pub(crate) const PAGE: u64 = 4096;

pub(crate) fn length(file: &dyn File, name: &str) -> Result<u64> {
    file.len().map_err(Error::io(format!("get the length of {name}")))
}

/// Reads up to `size` bytes from `at`, and returns the ranges that the device could not read; these
/// bytes are zero.
pub(crate) fn read_around(
    file: &dyn File,
    at: u64,
    size: u64,
) -> Result<(Vec<u8>, Vec<Range<usize>>)> {
    let end = length(file, "a file of the log")?.min(at.saturating_add(size));
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(at)).expect("a part of a file")];
    if file.read_at(&mut bytes, at).is_ok_and(|read| read == bytes.len()) {
        return Ok((bytes, vec![]));
    }
    let mut refused: Vec<Range<usize>> = vec![];
    let mut from = 0;
    while from < bytes.len() {
        let page = PAGE - (at + to_u64(from)) % PAGE;
        let next = (from + usize::try_from(page).expect("a page")).min(bytes.len());
        let part = bytes.get_mut(from..next).unwrap_or_default();
        if file.read_at(part, at + to_u64(from)).is_err() {
            part.fill(0);
            refused.push(from..next);
        }
        from = next;
    }
    Ok((bytes, refused))
}

/// Reads a small file of two slots; `None` if it does not exist. If the device refuses a part of
/// it, that part is zero, and the error is returned, too: it counts if no slot can be read.
pub(crate) fn read_both_slots(
    storage: &dyn Storage,
    name: &str,
    max: usize,
) -> Result<(Option<Vec<u8>>, Option<Error>)> {
    match read_small(storage, name, max) {
        Err(error) if is_read_error(&error) => {
            let Some(file) = open_if_exists(storage, name)? else { return Ok((None, None)) };
            Ok((Some(read_around(&*file, 0, to_u64(max))?.0), Some(error)))
        }
        read => Ok((read?, None)),
    }
}

/// The valid header in the files of a segment of either layout.
pub(crate) fn read_header(storage: &dyn Storage, id: SegmentId) -> Result<Option<SegmentHeader>> {
    for name in [id.file_name(), id.head_name()] {
        let Some(file) = open_if_exists(storage, &name)? else { continue };
        let (bytes, _) = read_around(&*file, 0, to_u64(STORED_MAX))?;
        if let Some(header) = SegmentHeader::decode(&bytes).ok().filter(|header| header.id == id) {
            return Ok(Some(header));
        }
    }
    Ok(None)
}
