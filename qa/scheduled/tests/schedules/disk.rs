//! A device in memory that lets other tasks run before every call.

use std::io;
use std::sync::Arc;

use scheduler::switch;
use seawall_io::{Access, File, Lock, Recycled, Storage};
use seawall_testkit::MemStorage;

/// Storage in memory whose calls take as long as the scheduler chooses.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<dyn Storage>);

impl Disk {
    pub(crate) fn on(device: &MemStorage) -> Arc<dyn Storage> {
        Arc::new(Self(Arc::new(device.clone())))
    }
}

fn wrap(file: Arc<dyn File>) -> Arc<dyn File> {
    Arc::new(SlowFile(file))
}

impl Storage for Disk {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        switch();
        self.0.open(name, access).map(wrap)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        switch();
        self.0.create(name).map(wrap)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        switch();
        self.0.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        switch();
        self.0.rename_new(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        switch();
        self.0.remove(name)
    }

    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        switch();
        Ok(self.0.retire(name)?.map(wrap))
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        switch();
        Ok(match self.0.recycle(name, spare)? {
            Recycled::Renamed(file) => Recycled::Renamed(wrap(file)),
            Recycled::Removed(rest) => Recycled::Removed(rest.map(wrap)),
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        switch();
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        switch();
        self.0.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        switch();
        self.0.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        switch();
        self.0.is_locked(name)
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        switch();
        self.0.lock_file(name)
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        switch();
        self.0.is_file_locked(name)
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        self.0.folder(name).map(|inner| -> Arc<dyn Storage> { Arc::new(Self(inner)) })
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.0.boot_id()
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

#[derive(Debug)]
struct SlowFile(Arc<dyn File>);

impl File for SlowFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        switch();
        self.0.read_at(buffer, offset)
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        switch();
        self.0.read_uncached(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        switch();
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        switch();
        self.0.sync()
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.0.direct_alignment()
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        switch();
        self.0.write_at(bytes, offset)?;
        switch();
        self.0.write_direct(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.0.has_name()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        switch();
        self.0.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        switch();
        self.0.fill_with_zeros(length)
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        switch();
        self.0.reserve_space(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        switch();
        self.0.allocate(length)
    }
}
