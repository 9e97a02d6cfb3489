//! The interface of a disk that a server can serve: read, write and flush.

use crate::disk::Disk;
use crate::layout::ZEROS;
use std::fmt::Debug;
use std::io;

/// A disk to its clients: bytes by offset, and a flush that makes them durable.
///
/// A server calls it concurrently from a thread for each connection. It has no trim: NBD lets a
/// server ignore trims, and this one does.
pub trait Target: Debug + Send + Sync {
    /// The size in bytes; it never changes.
    fn size(&self) -> u64;

    /// Reads the bytes at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the end; otherwise the device's error.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Accepts bytes; they are durable after the next flush.
    ///
    /// # Errors
    ///
    /// As [`read`](Target::read); [`io::ErrorKind::ReadOnlyFilesystem`] if it refuses writes.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes `size` zeros; other writes may come in between.
    ///
    /// # Errors
    ///
    /// As [`write`](Target::write). A part of the range may have become zeros then.
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

    /// Returns when all earlier writes of any client are durable in the sense promised to clients.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn flush(&self) -> io::Result<()>;

    /// Called when the server has stopped: writes everything to its final place.
    ///
    /// # Errors
    ///
    /// The device's error.
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
