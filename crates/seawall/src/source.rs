//! The bytes of one segment for those who read it: a window at a time, and around what the device
//! refuses if they ask for that.

use crate::rest::Rest;
use crate::segment::Segment;
use crate::{Error, Offset, Result};
use seawall_format::scan::Scanner;
use seawall_io::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

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
        match self.segment.read_in(&*self.file, from, max) {
            Err(error) if self.around && is_of_device(&error) => self.read_around(from, max),
            read => read,
        }
    }

    /// The same block by block; what cannot be read is noted, and zero.
    fn read_around(&mut self, from: Offset, max: u64) -> Result<Vec<u8>> {
        let block = u64::from(self.segment.header.geometry.block);
        let end = self.segment.data_end(&*self.file)?.min(from.0.saturating_add(max));
        let (mut bytes, mut at) = (vec![], from.0);
        while at < end {
            let next = ((at / block + 1) * block).min(end);
            match self.segment.read_in(&*self.file, Offset(at), next - at) {
                Ok(read) => bytes.extend(read),
                Err(error) if is_of_device(&error) => {
                    if !self.refused(at..next) {
                        self.unreadable.push(at..next);
                    }
                    let size = usize::try_from(next - at).expect("a block fits in memory");
                    bytes.resize(bytes.len() + size, 0);
                }
                Err(error) => return Err(error),
            }
            at = next;
        }
        Ok(bytes)
    }

    /// Whether the device refused a block of that range.
    pub(crate) fn refused(&self, range: Range<u64>) -> bool {
        self.unreadable.iter().any(|block| block.start < range.end && range.start < block.end)
    }

    /// What lies behind the place where `scanner` stopped; up to the next batch, or `whole`.
    pub(crate) fn rest(&mut self, scanner: &Scanner, from: Offset, whole: bool) -> Result<Rest> {
        let end = self.segment.data_end(&*self.file)?;
        let mut rest = Rest::new(scanner, from, end);
        while let Some(at) = rest.wants() {
            let bytes = self.read(at, Rest::window(scanner))?;
            if bytes.is_empty() {
                break;
            }
            rest.look(scanner, at, &bytes);
            if rest.next.is_some() && !whole {
                break;
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
