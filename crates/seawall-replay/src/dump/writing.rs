//! Writes a dump: streams the state through one chunk buffer into the file, and writes the header
//! last.

use crate::dump::{C_CRC, C_LENGTH, CHUNK_HEADER_SIZE, Header, after_field, put, to_u64};
use seawall_format::nesting::{Nesting, TOO_DEEP};
use seawall_format::{Offset, Salt};
use seawall_io::File;
use serde::Serialize;
use std::io;

/// Why a state was not written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// The device's error.
    Io(io::Error),
    /// The state cannot be encoded.
    Encode(String),
}

/// Writes `state` into a new file, without syncing it. Returns `header` with the length filled in.
pub(crate) fn write<S: Serialize>(
    file: &dyn File,
    header: Header,
    state: &S,
) -> Result<Header, NotWritten> {
    let mut chunks = Chunks::new(file, &header);
    let encoded = rmp_serde::encode::write_named(&mut chunks, state);
    let encoded = encoded.map_err(|error| NotWritten::Encode(error.to_string()));
    // The encoder drops details of a write error, so `chunks` keeps the error.
    let failed = chunks.failed.take();
    failed.map_or(encoded, Err)?;
    finish(chunks, header).map_err(NotWritten::Io)
}

fn finish(mut chunks: Chunks<'_>, header: Header) -> io::Result<Header> {
    chunks.put_away()?;
    let header = Header { length: chunks.length, ..header };
    let Chunks { file, at, .. } = chunks;
    assert_eq!(header.file_length(), Some(at + to_u64(crate::dump::END_SIZE)), "as format.md says");
    file.write_at(&header.end(at), at)?;
    file.write_at(&header.encode(), 0)?;
    Ok(header)
}

/// Collects the bytes of a state and writes them chunk by chunk.
struct Chunks<'a> {
    file: &'a dyn File,
    salt: Salt,
    /// The chunk being filled, with its header.
    filled: Vec<u8>,
    /// The size of a full chunk, with its header.
    full: usize,
    /// The file offset where the current chunk will be written.
    at: u64,
    length: u64,
    /// The nesting of the bytes so far: a reader refuses a deeper state.
    nesting: Nesting,
    failed: Option<NotWritten>,
}

impl<'a> Chunks<'a> {
    fn new(file: &'a dyn File, header: &Header) -> Self {
        let chunk = usize::try_from(header.chunk).expect("fits in memory");
        let (at, full) = (to_u64(header.size()), CHUNK_HEADER_SIZE + chunk);
        let filled = vec![0; CHUNK_HEADER_SIZE];
        let (salt, nesting) = (header.salt(), Nesting::default());
        Self { file, salt, filled, full, at, length: 0, nesting, failed: None }
    }

    /// Writes the current chunk, unless it is empty.
    fn put_away(&mut self) -> io::Result<()> {
        let size = self.filled.len() - CHUNK_HEADER_SIZE;
        if size == 0 {
            return Ok(());
        }
        let length = u32::try_from(size).expect("a chunk is bounded");
        put(&mut self.filled, C_LENGTH, &length.to_le_bytes());
        let crc = self.salt.checksum(Offset(self.at), after_field(&self.filled, C_CRC));
        put(&mut self.filled, C_CRC, &crc.to_le_bytes());
        self.file.write_at(&self.filled, self.at)?;
        self.at += to_u64(self.filled.len());
        self.length += to_u64(size);
        self.filled.truncate(CHUNK_HEADER_SIZE);
        Ok(())
    }
}

impl io::Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled.len() == self.full
            && let Err(error) = self.put_away()
        {
            self.failed = Some(NotWritten::Io(error));
            return Err(io::ErrorKind::Other.into());
        }
        let room = self.full - self.filled.len();
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        if !self.nesting.accepts(taken) {
            self.failed = Some(NotWritten::Encode(TOO_DEEP.to_owned()));
            return Err(io::ErrorKind::Other.into());
        }
        self.filled.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
