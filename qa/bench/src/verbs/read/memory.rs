//! The upper bound of a scan: the same payloads in memory, each with a length and a CRC32C, in
//! batches with their own CRC32C, and a minimal checker.

use seawall::{LogReader, Lsn};
use seawall_io::{File, PosixStorage, Storage};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Size of a batch: as much as a log reader reads at once.
const BATCH: usize = 256 << 10;
/// More than any processor cache, and no more memory than most machines can spare.
const BYTES_MAX: usize = 256 << 20;
const HEAD: usize = 8;

/// Records in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    batches: Vec<(std::ops::Range<usize>, u32)>,
}

/// Consecutive records, with a checksum over all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    bytes: &'a [u8],
    checksum: u32,
}

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) payload: &'a [u8],
    checksum: u32,
}

impl Memory {
    /// Copies the records of a log, starting with the first, up to `BYTES_MAX`.
    pub(super) fn of(log: &Path) -> seawall::Result<Self> {
        let mut cursor = LogReader::open_any(log)?.cursor(Lsn::FIRST)?;
        let mut memory = Self::default();
        let mut start = 0;
        while let Some(record) = cursor.next_record()? {
            let length = u32::try_from(record.payload.len()).unwrap_or(u32::MAX);
            memory.bytes.extend_from_slice(&length.to_le_bytes());
            let checksum = crc_fast::crc32_iscsi(record.payload);
            memory.bytes.extend_from_slice(&checksum.to_le_bytes());
            memory.bytes.extend_from_slice(record.payload);
            memory.bytes.resize(memory.bytes.len().next_multiple_of(8), 0);
            if memory.bytes.len() - start >= BATCH {
                start = memory.end_batch(start);
            }
            if memory.bytes.len() >= BYTES_MAX {
                break;
            }
        }
        memory.end_batch(start);
        Ok(memory)
    }

    /// Ends the batch that begins at `start`, unless it is empty. Returns the start of the next.
    fn end_batch(&mut self, start: usize) -> usize {
        let end = self.bytes.len();
        if let Some(bytes) = self.bytes.get(start..end).filter(|bytes| !bytes.is_empty()) {
            self.batches.push((start..end, crc_fast::crc32_iscsi(bytes)));
        }
        end
    }

    /// Writes the bytes to a file in this folder. Reading each batch from it before checking is the
    /// minimum work of a reader that does not map files into memory.
    pub(super) fn write(&self, folder: &Path) -> io::Result<Arc<dyn File>> {
        let file = PosixStorage::open(folder)?.create("plain")?;
        file.write_at(&self.bytes, 0)?;
        Ok(file)
    }

    /// Reads batch `number` from that file.
    pub(super) fn read(
        &self,
        file: &dyn File,
        number: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (range, _) = self.batches.get(number).cloned().unwrap_or_default();
        into.resize(range.len(), 0);
        file.read_at(into, u64::try_from(range.start).unwrap_or(u64::MAX))?;
        Ok(())
    }

    /// Batch `number`, whose content is in `bytes`.
    pub(super) fn batch_in<'a>(&self, number: usize, bytes: &'a [u8]) -> Option<Batch<'a>> {
        let (_, checksum) = self.batches.get(number)?;
        Some(Batch { bytes, checksum: *checksum })
    }

    pub(super) fn batch(&self, number: usize) -> Option<Batch<'_>> {
        let (range, checksum) = self.batches.get(number)?;
        Some(Batch { bytes: self.bytes.get(range.clone())?, checksum: *checksum })
    }
}

impl<'a> Batch<'a> {
    pub(super) fn length(self) -> usize {
        self.bytes.len()
    }

    pub(super) fn check(self) -> io::Result<()> {
        compare(self.bytes, self.checksum)
    }

    /// Returns the frame at `place`, and the place of the next one.
    pub(super) fn frame(self, place: usize) -> io::Result<(Frame<'a>, usize)> {
        let found = || {
            let (head, behind) = self.bytes.get(place..)?.split_first_chunk::<HEAD>()?;
            let [a, b, c, d, rest @ ..] = *head;
            let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
            let checksum = u32::from_le_bytes(rest);
            let payload = behind.get(..length)?;
            Some((Frame { payload, checksum }, place + (HEAD + length).next_multiple_of(8)))
        };
        found().ok_or_else(|| io::Error::other("a frame in memory does not fit"))
    }
}

impl Frame<'_> {
    pub(super) fn check(self) -> io::Result<()> {
        compare(self.payload, self.checksum)
    }
}

fn compare(bytes: &[u8], checksum: u32) -> io::Result<()> {
    if crc_fast::crc32_iscsi(bytes) == checksum {
        return Ok(());
    }
    Err(io::Error::other("a checksum in memory does not match"))
}
