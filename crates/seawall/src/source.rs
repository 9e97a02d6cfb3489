//! The bytes of one segment for those who read it: a window at a time, and around what the device
//! refuses if they ask for that.

use crate::rest::Rest;
use crate::segment::Segment;
use crate::walk::to_u64;
use crate::{Error, Offset, Result};
use seawall_format::scan::Scanner;
use seawall_format::{Layout, tail};
use seawall_io::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that were read, in memory that is used again without clearing it first.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    held: usize,
}

impl Buffer {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.held).unwrap_or_default()
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.memory.truncate(self.held);
        self.memory
    }

    pub(crate) fn clear(&mut self) {
        self.held = 0;
    }

    /// Forgets the first `count` bytes.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.held);
        self.memory.copy_within(count..self.held, 0);
        self.held -= count;
    }

    /// Has up to `length` bytes read behind those that it holds; `read` says how many it put there.
    pub(crate) fn fill<E>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<(), E> {
        let end = self.held + length;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.held += read(self.memory.get_mut(self.held..end).unwrap_or_default())?.min(length);
        Ok(())
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Self {
        Self { held: memory.len(), memory }
    }
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Source {
    segment: Segment,
    file: Arc<dyn File>,
    /// Whether to read on where the device refuses a block, as if it were zero.
    around: bool,
    /// Blocks that the device refused, in the order they were met.
    unreadable: Vec<Range<u64>>,
}

impl Source {
    /// Opens the segment's file.
    ///
    /// # Errors
    ///
    /// `NotFound` if it was pruned meanwhile.
    pub(crate) fn open(segment: &Segment, around: bool) -> Result<Self> {
        let file = segment.open()?;
        Ok(Self { segment: segment.clone(), file, around, unreadable: vec![] })
    }

    /// Bytes from `from` on, `max` at most, fewer only at the end of the file.
    pub(crate) fn read(&mut self, from: Offset, max: u64) -> Result<Vec<u8>> {
        let mut buffer = Buffer::default();
        self.read_behind((from, max), &mut buffer)?;
        Ok(buffer.into_bytes())
    }

    /// The same, behind what `buffer` holds.
    pub(crate) fn read_behind(
        &mut self,
        (from, max): (Offset, u64),
        buffer: &mut Buffer,
    ) -> Result<()> {
        match self.segment.read_in(&*self.file, (from, max), buffer) {
            Err(error) if self.around && is_of_device(&error) => {
                self.read_around((from, max), buffer)
            }
            read => read,
        }
    }

    /// The same block by block; what cannot be read is noted, and zero.
    fn read_around(&mut self, (from, max): (Offset, u64), buffer: &mut Buffer) -> Result<()> {
        let block = u64::from(self.segment.header.geometry.block);
        let end = self.end()?.min(from.0.saturating_add(max));
        let mut at = from.0;
        while at < end {
            let next = ((at / block + 1) * block).min(end);
            match self.segment.read_in(&*self.file, (Offset(at), next - at), buffer) {
                Ok(()) => {}
                Err(error) if is_of_device(&error) => {
                    if !self.was_refused(&(at..next)) {
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

    /// Where records cannot be any more.
    pub(crate) fn end(&self) -> Result<u64> {
        self.segment.data_end(&*self.file)
    }

    /// Where, from `at` on, the file holds something that was written.
    pub(crate) fn next_written(&self, at: Offset) -> Result<Option<Offset>> {
        let next = self.file.next_written(at.0);
        let failed = || Error::io(format!("look for holes in {}", self.segment.name()));
        Ok(next.map_err(failed())?.map(Offset))
    }

    /// Whether a block of that range could not be read, and was passed over.
    pub(crate) fn was_refused(&self, range: &Range<u64>) -> bool {
        self.unreadable.iter().any(|block| block.start < range.end && range.start < block.end)
    }

    /// Whether the device refuses bytes of that range which parity, that gives the rest of their
    /// block, does not know.
    pub(crate) fn is_unknown(&self, range: &Range<u64>) -> bool {
        self.file.has_unknown(range.clone())
    }

    /// What lies behind the place where `scanner` stopped; up to the next batch, or `whole`.
    pub(crate) fn rest(&mut self, scanner: &Scanner, from: Offset, whole: bool) -> Result<Rest> {
        let mut rest = Rest::new(scanner, from, self.end()?);
        while let Some(at) = rest.wants() {
            let bytes = self.read(at, Rest::window(scanner))?;
            if bytes.is_empty() {
                break;
            }
            rest.look(scanner, at, &bytes);
            if rest.next.is_some() && !whole {
                break;
            }
            // A text may be as long as its file system allows, and hold next to nothing.
            if scanner.layout() == Layout::Text && tail::is_zero(&bytes) {
                let behind = at.plus(to_u64(bytes.len()));
                rest.pass_hole(self.next_written(behind)?);
            }
        }
        Ok(rest)
    }
}

/// Whether the device said that it cannot give these bytes.
pub(crate) fn is_of_device(error: &Error) -> bool {
    let not = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    matches!(error, Error::Io { source, .. } if !not.contains(&source.kind()))
}
