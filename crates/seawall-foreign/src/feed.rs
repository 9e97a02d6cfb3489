//! A stream as a window that moves over it: what is asked for is in memory, and its place is known.

use crate::entries::{Damage, Stop};
use std::io::{self, Read};

/// What is read at once.
const CHUNK: usize = 64 * 1024;

/// A window over a stream.
///
/// It grows by what arrives, never by what somebody claims will.
#[derive(Debug)]
pub(crate) struct Feed<R> {
    input: R,
    buffer: Vec<u8>,
    /// How much of the buffer is behind us.
    done: usize,
    /// Where the buffer begins in the stream.
    origin: u64,
    /// Entries behind us.
    entries: u64,
}

impl<R: Read> Feed<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, buffer: vec![], done: 0, origin: 0, entries: 0 }
    }

    /// What is in memory.
    pub(crate) fn rest(&self) -> &[u8] {
        self.buffer.get(self.done..).expect("no more is behind us than was there")
    }

    /// A part of it that was asked for.
    pub(crate) fn part(&self, from: usize, length: usize) -> &[u8] {
        self.rest().get(from..from + length).expect("it was asked for with `need`")
    }

    /// Whether the stream has so many bytes more; they are in memory then.
    pub(crate) fn need(&mut self, bytes: usize) -> io::Result<bool> {
        while self.rest().len() < bytes {
            if !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads on; whether there was more.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.done);
        self.origin += count(self.done);
        self.done = 0;
        let held = self.buffer.len();
        self.buffer.resize(held + CHUNK, 0);
        let room = self.buffer.get_mut(held..).expect("it was just made");
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(held + read.as_ref().map_or(0, |read| *read));
        Ok(read? > 0)
    }

    /// Leaves bytes behind that are in memory.
    pub(crate) fn pass(&mut self, bytes: usize) {
        assert!(bytes <= self.rest().len(), "only what is in memory can be passed");
        self.done += bytes;
    }

    /// Counts an entry that is delivered.
    pub(crate) fn deliver(&mut self) {
        self.entries += 1;
    }

    pub(crate) fn position(&self) -> u64 {
        self.origin + count(self.done)
    }

    /// The entry that begins here is not intact.
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
