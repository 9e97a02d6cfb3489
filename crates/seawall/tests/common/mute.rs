//! A device that fails for the file `live`: its writes, or everything that would change or remove
//! it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use seawall_io::{Access, File, Lock, Recycled, Storage};
use seawall_testkit::MemStorage;

/// An in-memory device that can refuse calls for the file `live`.
#[derive(Clone, Debug)]
pub struct Mute {
    inner: MemStorage,
    refused: Arc<AtomicU8>,
    has_boot_id: bool,
}

/// The calls that are refused for `live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Nothing = 0,
    /// Writes to any file of that name.
    Writes = 1,
    /// Everything that changes or removes it.
    All = 2,
}

impl Mute {
    pub fn new(inner: MemStorage) -> Self {
        Self { inner, refused: Arc::default(), has_boot_id: true }
    }

    /// A system without a boot id.
    pub fn without_boot_id(inner: MemStorage) -> Self {
        Self { has_boot_id: false, ..Self::new(inner) }
    }

    pub fn refuse(&self, what: Refused) {
        self.refused.store(what as u8, Ordering::SeqCst);
    }

    fn check(&self, name: &str, least: Refused) -> io::Result<()> {
        let is_refused = self.refused.load(Ordering::SeqCst) >= least as u8;
        if name == "live" && is_refused {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn wrap(&self, name: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(MuteFile { storage: self.clone(), name: name.to_owned(), inner })
    }
}

impl Storage for Mute {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.inner.open(name, access).map(|file| self.wrap(name, file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.check(name, Refused::All)?;
        self.inner.create(name).map(|file| self.wrap(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(to, Refused::All)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(to, Refused::All)?;
        self.inner.rename_new(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(name, Refused::All)?;
        self.inner.remove(name)
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        self.check(name, Refused::All)?;
        self.check(spare, Refused::All)?;
        Ok(match self.inner.recycle(name, spare)? {
            Recycled::Renamed(file) => Recycled::Renamed(self.wrap(spare, file)),
            Recycled::Removed(rest) => Recycled::Removed(rest.map(|file| self.wrap(name, file))),
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_locked(name)
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock_file(name)
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_file_locked(name)
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        self.inner.folder(name)
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id().filter(|_| self.has_boot_id)
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

#[derive(Debug)]
struct MuteFile {
    storage: Mute,
    name: String,
    inner: Arc<dyn File>,
}

impl File for MuteFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_uncached(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.storage.check(&self.name, Refused::Writes)?;
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.has_name()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.storage.check(&self.name, Refused::Writes)?;
        self.inner.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.inner.fill_with_zeros(length)
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        self.inner.reserve_space(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }
}
