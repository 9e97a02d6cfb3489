//! A buffered window over a stream that tracks its position.

use crate::entries::{Damage, Stop};
use std::io::{self, Read};

/// The read size.
const CHUNK: usize = 64 * 1024;

/// A window over a stream.
///
/// Its memory grows with the bytes that arrive, never with lengths that the input claims.
#[derive(Debug)]
pub(crate) struct Feed<R> {
    input: R,
    buffer: Vec<u8>,
    /// The number of bytes in the buffer that are consumed.
    done: usize,
    /// The stream offset of the buffer's start.
    origin: u64,
    /// The number of entries consumed.
    entries: u64,
    /// Where an entry begins that is too large for memory: reading ends there.
    held: Option<u64>,
}

impl<R: Read> Feed<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, buffer: vec![], done: 0, origin: 0, entries: 0, held: None }
    }

    /// The unconsumed bytes in memory.
    pub(crate) fn rest(&self) -> &[u8] {
        self.buffer.get(self.done..).expect("no more bytes are consumed than the buffer has")
    }

    /// A part of the unconsumed bytes, after [`need`](Self::need).
    pub(crate) fn part(&self, from: usize, length: usize) -> &[u8] {
        self.rest().get(from..from + length).expect("`need` has read it")
    }

    /// Reads until `bytes` unconsumed bytes are in memory; returns whether the stream has them.
    pub(crate) fn need(&mut self, bytes: usize) -> io::Result<bool> {
        while self.rest().len() < bytes {
            if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads more bytes; returns whether there were any.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.done);
        self.origin += count(self.done);
        self.done = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + CHUNK, 0);
        let room = self.buffer.get_mut(held..).expect("the buffer was just extended");
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(held + read.as_ref().map_or(0, |read| *read));
        Ok(read? > 0)
    }

    /// Consumes bytes that are in memory.
    pub(crate) fn pass(&mut self, bytes: usize) {
        assert!(bytes <= self.rest().len(), "only bytes in memory can be consumed");
        self.done += bytes;
    }

    /// Counts an entry.
    pub(crate) fn deliver(&mut self) {
        self.entries += 1;
    }

    pub(crate) fn position(&self) -> u64 {
        self.held.unwrap_or(self.origin + count(self.done))
    }

    /// Keeps the position while an entry that is too large for memory is examined.
    pub(crate) fn hold(&mut self) {
        self.held = Some(self.position());
    }

    /// Whether reading ends at the current position.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Consumes `length` bytes and passes them to `part`, without keeping them in memory; returns
    /// whether the stream has them.
    pub(crate) fn stream(
        &mut self,
        mut length: u64,
        mut part: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        while length > 0 {
            if self.rest().is_empty() && !self.fill()? {
                return Ok(false);
            }
            let here = usize::try_from(length).unwrap_or(usize::MAX).min(self.rest().len());
            part(self.part(0, here));
            self.pass(here);
            length -= count(here);
        }
        Ok(true)
    }

    /// Creates the error for the entry at the current position.
    pub(crate) fn damaged(&self, cause: &'static str, why: impl Into<String>) -> Stop {
        self.damaged_at(self.position(), cause, why)
    }

    pub(crate) fn damaged_at(
        &self,
        offset: u64,
        cause: &'static str,
        why: impl Into<String>,
    ) -> Stop {
        let (entry, why) = (self.entries + 1, why.into());
        Stop::Damaged(Damage { entry, offset, cause, why, segment: None, harmless: false })
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a buffer is in memory")
}
