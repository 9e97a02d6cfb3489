//! Executes one request of the guest.

use super::chain::{Chain, Segments};
use super::config::{SECTOR, SERIAL_SIZE, ZERO_SECTORS_MAX};
use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use crate::nbd::target::Target;
use std::io;
use vm_memory::{Bytes, GuestMemoryMmap};

/// The most bytes that are copied at a time. A write of up to this size is accepted as a whole, a
/// longer one in pieces that end at block boundaries.
const PIECE: usize = 1 << 20;

/// The kinds of requests, as the virtio specification numbers them.
mod kind {
    pub(super) const READ: u32 = 0;
    pub(super) const WRITE: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const SERIAL: u32 = 8;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// The result of a request, as reported to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Done,
    Failed,
    Unsupported,
}

/// The disk and the memory that requests work on.
#[derive(Debug)]
pub(super) struct Device<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) serial: &'a [u8; SERIAL_SIZE],
    /// Whether each write includes a flush.
    pub(super) is_write_through: bool,
    pub(super) memory: &'a GuestMemoryMmap,
    /// Empty until it is needed.
    pub(super) buffer: &'a mut Vec<u8>,
}

impl Device<'_> {
    /// Executes the request and tells the guest how it ended. Returns how many bytes of the guest's
    /// memory may have changed.
    pub(super) fn execute(&mut self, mut chain: Chain) -> u32 {
        let space = chain.writable.left();
        let status = if chain.is_valid { self.outcome(&mut chain) } else { Status::Failed };
        let code: u8 = match status {
            Status::Done => 0,
            Status::Failed => 1,
            Status::Unsupported => 2,
        };
        let told = self.memory.write_obj(code, chain.status);
        let changed = if status == Status::Done { space + 1 } else { 1 };
        told.map_or(0, |()| u32::try_from(changed).unwrap_or(u32::MAX))
    }

    fn outcome(&mut self, chain: &mut Chain) -> Status {
        let mut header = [0; 16];
        if chain.readable.read(self.memory, &mut header).is_none() {
            return Status::Failed;
        }
        let sector = u64_at(&header, 8);
        let done = match u32_at(&header, 0) {
            kind::READ => self.read(sector, &mut chain.writable),
            kind::WRITE => self.write(sector, &mut chain.readable).and_then(|()| self.written()),
            kind::FLUSH => self.target.flush(),
            kind::SERIAL => self.tell_serial(&mut chain.writable),
            kind::WRITE_ZEROES => {
                self.write_zeroes(&mut chain.readable).and_then(|()| self.written())
            }
            _ => return Status::Unsupported,
        };
        match done {
            Ok(()) => Status::Done,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Status::Unsupported,
            Err(_) => Status::Failed,
        }
    }

    fn read(&mut self, sector: u64, to: &mut Segments) -> io::Result<()> {
        let mut offset = self.offset(sector, to.left())?;
        while to.left() > 0 {
            let size = to.left().min(PIECE);
            let bytes = buffer(self.buffer, size);
            self.target.read(offset, bytes)?;
            to.write(self.memory, bytes).ok_or_else(invalid)?;
            offset += to_u64(size);
        }
        Ok(())
    }

    fn write(&mut self, sector: u64, from: &mut Segments) -> io::Result<()> {
        let mut offset = self.offset(sector, from.left())?;
        while from.left() > 0 {
            let past = to_usize(offset % to_u64(BLOCK_SIZE));
            let size = from.left().min(PIECE - past);
            let bytes = buffer(self.buffer, size);
            from.read(self.memory, bytes).ok_or_else(invalid)?;
            self.target.write(offset, bytes)?;
            offset += to_u64(size);
        }
        Ok(())
    }

    fn write_zeroes(&mut self, from: &mut Segments) -> io::Result<()> {
        let mut range = [0; 16];
        from.read(self.memory, &mut range).ok_or_else(invalid)?;
        let (sector, sectors, flags) = (u64_at(&range, 0), u32_at(&range, 8), u32_at(&range, 12));
        // The only flag, 1, lets the device unmap the range, which is optional.
        if flags > 1 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if from.left() > 0 || sectors > ZERO_SECTORS_MAX {
            return Err(invalid());
        }
        let size = to_usize(u64::from(sectors) * SECTOR);
        self.target.zero(self.offset(sector, size)?, size)
    }

    /// A guest that does not know flushes takes what is written for durable.
    fn written(&self) -> io::Result<()> {
        if self.is_write_through { self.target.flush() } else { Ok(()) }
    }

    fn tell_serial(&self, to: &mut Segments) -> io::Result<()> {
        let size = to.left().min(SERIAL_SIZE);
        let serial = self.serial.get(..size).unwrap_or_default();
        to.write(self.memory, serial).ok_or_else(invalid)
    }

    /// Returns the offset of a range, which must consist of whole sectors of the disk.
    fn offset(&self, sector: u64, size: usize) -> io::Result<u64> {
        let offset = sector.checked_mul(SECTOR).ok_or_else(invalid)?;
        let end = offset.checked_add(to_u64(size)).ok_or_else(invalid)?;
        let is_whole = to_u64(size).is_multiple_of(SECTOR);
        if is_whole && end <= self.target.size() { Ok(offset) } else { Err(invalid()) }
    }
}

/// The first `size` bytes of a buffer that grows when it must.
fn buffer(buffer: &mut Vec<u8>, size: usize) -> &mut [u8] {
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    buffer.get_mut(..size).expect("it has just grown")
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

fn u32_at(bytes: &[u8; 16], at: usize) -> u32 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(field.copied().unwrap_or_default())
}

fn u64_at(bytes: &[u8; 16], at: usize) -> u64 {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u64::from_le_bytes(field.copied().unwrap_or_default())
}
