//! An open file on a disk with faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_io::File;

use crate::dice::Dice;
use crate::fault::{Act, Fault, Kind};
use crate::injector::{Call, Injector, no_room, refused, sum};

/// One open file of a [`FaultDisk`](crate::FaultDisk).
#[derive(Debug)]
pub(crate) struct FaultFile {
    inner: Arc<dyn File>,
    name: String,
    injector: Arc<Injector>,
    /// The reserved length. The file may be shorter. Used on a full disk.
    reserved: AtomicU64,
}

impl FaultFile {
    pub(crate) fn new(inner: Arc<dyn File>, name: String, injector: Arc<Injector>) -> Self {
        Self { inner, name, injector, reserved: AtomicU64::new(0) }
    }

    fn call<T>(
        &self,
        (act, numbers): (Act, [u64; 2]),
        with: impl FnOnce(Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let done = self.injector.begin(&Call { act, file: &self.name, numbers }).and_then(with);
        self.injector.end(done.is_ok());
        done
    }

    /// Returns the length up to which space is reserved.
    fn has_room_for(&self) -> io::Result<u64> {
        Ok(self.inner.len()?.max(self.reserved.load(Ordering::Relaxed)))
    }

    /// Reads with `read`, which reads from the cache or from the device.
    fn read(
        &self,
        (buffer, offset): (&mut [u8], u64),
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.call((Act::Read, [offset, to_u64(buffer.len())]), |fault| {
            let Some(Fault { kind, seed }) = fault else {
                return read(buffer, offset);
            };
            let mut dice = Dice::new(seed);
            match kind {
                Kind::ReadError | Kind::LastingError => return Err(refused()),
                Kind::MisdirectedRead => {
                    let count = read(buffer, offset)?;
                    let sectors = self.inner.len()? / 512;
                    let wrong = dice.below(sectors) * 512;
                    read(buffer.split_at_mut(count).0, wrong)?;
                    return Ok(count);
                }
                _ => {}
            }
            let count = read(buffer, offset)?;
            if kind == Kind::FlippedRead && count > 0 {
                let place = some_of(count, &mut dice);
                let bit = 1 << dice.below(8);
                buffer.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= bit);
            }
            Ok(count)
        })
    }

    /// Changes the length or the reserved space to `length`.
    fn grow<T>(
        &self,
        (act, length): (Act, u64),
        with: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.call((act, [length, 0]), |fault| {
            if self.injector.is_full() && length > self.has_room_for()? {
                return Err(no_room());
            }
            match fault.map(|fault| fault.kind) {
                Some(Kind::WriteError) => Err(refused()),
                _ => with(),
            }
        })
    }
}

pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}

/// Returns a random number below `size`.
fn some_of(size: usize, dice: &mut Dice) -> usize {
    usize::try_from(dice.below(to_u64(size))).expect("the number is below a length")
}

impl File for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read((buffer, offset), |buffer, offset| self.inner.read_at(buffer, offset))
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read((buffer, offset), |buffer, offset| self.inner.read_uncached(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call((Act::Write, [offset, sum(bytes)]), |fault| {
            let end = offset.saturating_add(to_u64(bytes.len()));
            let grows = self.injector.is_full() && end > self.has_room_for()?;
            if grows || self.injector.is_full_for_overwrites() {
                return Err(no_room());
            }
            match fault {
                Some(Fault { kind: Kind::LastingError, .. }) => Err(refused()),
                Some(Fault { kind: Kind::WriteError, seed }) => {
                    let done = some_of(bytes.len() + 1, &mut Dice::new(seed));
                    self.inner.write_at(bytes.split_at(done).0, offset)?;
                    Err(refused())
                }
                _ => self.inner.write_at(bytes, offset),
            }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call((Act::Sync, [0; 2]), |fault| match fault {
            Some(fault) => self.injector.sync_with(fault, &self.name, || self.inner.sync()),
            None => self.inner.sync(),
        })
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.inner.direct_alignment()
    }

    /// Makes two calls, so that a crash or another write can occur between them.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.call((Act::Sync, [offset, to_u64(bytes.len())]), |fault| {
            let write = || self.inner.write_direct(bytes, offset);
            match fault {
                Some(fault) => self.injector.sync_with(fault, &self.name, write),
                None => write(),
            }
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.call((Act::Length, [0; 2]), |_| self.inner.len())
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.has_name()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.grow((Act::SetLength, length), || {
            self.reserved.store(0, Ordering::Relaxed);
            self.inner.set_len(length)
        })
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.grow((Act::Fill, length), || self.inner.fill_with_zeros(length))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.grow((Act::Allocate, length), || self.inner.allocate(length))
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        let reserved = self.grow((Act::Reserve, length), || self.inner.reserve_space(length));
        match reserved {
            Ok(true) => drop(self.reserved.fetch_max(length, Ordering::Relaxed)),
            Ok(false) => {}
            // The inner file was not called, and may still have reserved space.
            Err(_) => self.reserved.store(0, Ordering::Relaxed),
        }
        reserved
    }
}
