//! Reads a dump: each chunk is checked before its bytes are decoded, and the end marker before the
//! state is returned.

use crate::dump::{
    C_CRC, C_LENGTH, CHUNK_HEADER_SIZE, END_SIZE, HEADER_SIZE, Header, Refused, after_field,
    damaged, get, to_u64,
};
use seawall_format::Offset;
use seawall_format::nesting::{Nesting, TOO_DEEP};
use seawall_io::File;
use serde::de::DeserializeOwned;
use std::io;

/// Reads the header and the state. `accept` can reject the header before anything else is read.
pub(crate) fn read<S: DeserializeOwned, E: From<Refused>>(
    file: &dyn File,
    accept: impl FnOnce(&Header) -> Result<(), E>,
) -> Result<S, E> {
    let header = header(file)?;
    accept(&header)?;
    Ok(state(file, &header)?)
}

fn header(file: &dyn File) -> Result<Header, Refused> {
    let mut bytes = [0; HEADER_SIZE];
    fill(file, &mut bytes, 0)?;
    let header = Header::decode(&bytes)?;
    let length = file.len().map_err(Refused::Unread)?;
    if header.file_length() != Some(length) {
        return Err(damaged(format!(
            "the file has {length} bytes, which does not match its header"
        )));
    }
    Ok(header)
}

fn state<S: DeserializeOwned>(file: &dyn File, header: &Header) -> Result<S, Refused> {
    let mut chunks = Chunks::new(file, header);
    let decoded = rmp_serde::from_read(&mut chunks);
    if let Some(refused) = chunks.refused.take() {
        return Err(refused);
    }
    let state = decoded.map_err(|error| Refused::Undecoded(error.to_string()))?;
    if chunks.left > 0 || chunks.taken < chunks.chunk.len() {
        return Err(Refused::Undecoded("unexpected bytes follow the state".to_owned()));
    }
    let (mut end, at) = ([0; END_SIZE], chunks.at);
    fill(file, &mut end, at)?;
    if end != header.end(at) {
        return Err(damaged("the end marker does not match this dump"));
    }
    Ok(state)
}

/// Reads chunk by chunk, and checks each before its payload is used.
struct Chunks<'a> {
    file: &'a dyn File,
    header: &'a Header,
    /// The current chunk with its header, and the number of its consumed bytes.
    chunk: Vec<u8>,
    taken: usize,
    /// The offset of the next chunk, and the number of payload bytes from there on.
    at: u64,
    left: u64,
    /// The nesting of the consumed bytes.
    nesting: Nesting,
    refused: Option<Refused>,
}

impl<'a> Chunks<'a> {
    fn new(file: &'a dyn File, header: &'a Header) -> Self {
        let (at, left) = (to_u64(header.size()), header.length);
        let nesting = Nesting::default();
        Self { file, header, chunk: vec![], taken: 0, at, left, nesting, refused: None }
    }

    fn next(&mut self) -> Result<(), Refused> {
        let length = self.left.min(u64::from(self.header.chunk));
        let size = usize::try_from(length).expect("a chunk is bounded");
        self.chunk.resize(CHUNK_HEADER_SIZE + size, 0);
        fill(self.file, &mut self.chunk, self.at)?;
        let crc = self.header.salt().checksum(Offset(self.at), after_field(&self.chunk, C_CRC));
        if get(&self.chunk, C_LENGTH) != length || get(&self.chunk, C_CRC) != u64::from(crc) {
            let at = self.at;
            return Err(damaged(format!(
                "the checksum of the chunk at offset {at} does not match"
            )));
        }
        self.taken = CHUNK_HEADER_SIZE;
        self.at += to_u64(self.chunk.len());
        self.left -= length;
        Ok(())
    }
}

impl io::Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.refused.is_some() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.taken == self.chunk.len()
            && self.left > 0
            && let Err(refused) = self.next()
        {
            self.refused = Some(refused);
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rest = self.chunk.get(self.taken..).unwrap_or_default();
        let size = rest.len().min(buffer.len());
        let ((filled, _), (given, _)) = (buffer.split_at_mut(size), rest.split_at(size));
        filled.copy_from_slice(given);
        if !self.nesting.accepts(given) {
            self.refused = Some(Refused::Undecoded(TOO_DEEP.to_owned()));
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.taken += size;
        Ok(size)
    }
}

fn fill(file: &dyn File, bytes: &mut [u8], at: u64) -> Result<(), Refused> {
    let read = file.read_at(bytes, at).map_err(Refused::Unread)?;
    if read < bytes.len() {
        return Err(damaged("the file ends too early"));
    }
    Ok(())
}
