//! What a server serves: anything that reads, writes and flushes as a disk does.

use crate::disk::Disk;
use crate::layout::ZEROS;
use std::fmt::Debug;
use std::io;

/// A disk to its clients: bytes by their place, and a flush that makes them durable.
///
/// A server calls it from a thread for each connection, at the same time. A trim is not asked of
/// it: NBD lets a server ignore them, and this one does.
pub trait Target: Debug + Send + Sync {
    /// Bytes of it; that never changes.
    fn size(&self) -> u64;

    /// Fills `bytes` with what is at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the end; whatever the device says.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Takes bytes in; they are durable behind the next flush.
    ///
    /// # Errors
    ///
    /// As [`read`](Target::read); [`io::ErrorKind::ReadOnlyFilesystem`] if it takes none.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes so many zeros; other writers may come in between.
    ///
    /// # Errors
    ///
    /// As [`write`](Target::write); then some of it may be zeros already.
    fn zero(&self, offset: u64, size: usize) -> io::Result<()> {
        let (mut at, mut left) = (offset, size);
        while left > 0 {
            let piece = ZEROS.get(..left).unwrap_or(&ZEROS);
            self.write(at, piece)?;
            at = at.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            left -= piece.len();
        }
        Ok(())
    }

    /// Returns when what was written before, by whomever, is durable as clients are promised it.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn flush(&self) -> io::Result<()>;

    /// The server has ended: brings everything to where it belongs.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn drain(&self) -> io::Result<()>;
}

impl Target for Disk {
    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        Self::read(self, offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        Self::write(self, offset, bytes)
    }

    fn zero(&self, offset: u64, size: usize) -> io::Result<()> {
        self.write_zeros(offset, size)
    }

    fn flush(&self) -> io::Result<()> {
        Self::flush(self)
    }

    fn drain(&self) -> io::Result<()> {
        Self::drain(self)
    }
}
