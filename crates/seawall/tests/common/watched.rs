//! A device that reports each call to a [`Watch`] before passing it on. A watch counts calls,
//! delays them, runs something before them, or panics.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use seawall_io::{Access, File, Lock, Recycled, Storage};

/// A call of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open(Access),
    Create,
    Rename,
    Recycle,
    Remove,
    List,
    SyncDir,
    Lock,
    IsLocked,
    Folder,
    Read,
    Write,
    /// A direct write at this offset, so far only in the cache.
    Direct(u64),
    Sync,
    Len,
    SetLen,
    Fill,
    Allocate,
    Reserve,
}

/// Observes the calls of a device.
pub trait Watch: Debug + Send + Sync + 'static {
    /// Called before each call of the device.
    fn before(&self, call: Call);

    /// Called after a read of `_bytes` bytes.
    fn was_read(&self, _bytes: usize) {}

    /// Called after a file lost its name: it may be truncated now.
    fn was_retired(&self, _file: &Arc<dyn File>) {}
}

/// Storage that reports its calls.
#[derive(Debug)]
pub struct Watched<W> {
    inner: Arc<dyn Storage>,
    watch: Arc<W>,
}

impl<W: Watch> Watched<W> {
    pub fn by(watch: W, inner: impl Storage + 'static) -> (Self, Arc<W>) {
        let watch = Arc::new(watch);
        (Self { inner: Arc::new(inner), watch: watch.clone() }, watch)
    }

    /// Another handle of a device that `watch` observes.
    pub fn of(watch: &Arc<W>, inner: impl Storage + 'static) -> Self {
        Self { inner: Arc::new(inner), watch: watch.clone() }
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { inner, watch: self.watch.clone() })
    }
}

impl<W> Clone for Watched<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), watch: self.watch.clone() }
    }
}

impl<W: Watch> Storage for Watched<W> {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.watch.before(Call::Open(access));
        self.inner.open(name, access).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.watch.before(Call::Create);
        self.inner.create(name).map(|file| self.wrap(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.watch.before(Call::Rename);
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.watch.before(Call::Rename);
        self.inner.rename_new(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.watch.before(Call::Remove);
        self.inner.remove(name)
    }

    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        self.watch.before(Call::Remove);
        let file = self.inner.retire(name)?.map(|file| self.wrap(file));
        Ok(file.inspect(|file| self.watch.was_retired(file)))
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        self.watch.before(Call::Recycle);
        Ok(match self.inner.recycle(name, spare)? {
            Recycled::Renamed(file) => Recycled::Renamed(self.wrap(file)),
            Recycled::Removed(rest) => {
                let file = rest.map(|file| self.wrap(file));
                Recycled::Removed(file.inspect(|file| self.watch.was_retired(file)))
            }
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.watch.before(Call::List);
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.watch.before(Call::SyncDir);
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.watch.before(Call::Lock);
        self.inner.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.watch.before(Call::IsLocked);
        self.inner.is_locked(name)
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.watch.before(Call::Lock);
        self.inner.lock_file(name)
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.watch.before(Call::IsLocked);
        self.inner.is_file_locked(name)
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        self.watch.before(Call::Folder);
        self.inner.folder(name)
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

#[derive(Debug)]
struct WatchedFile<W> {
    inner: Arc<dyn File>,
    watch: Arc<W>,
}

impl<W: Watch> File for WatchedFile<W> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.watch.before(Call::Read);
        let read = self.inner.read_at(buffer, offset)?;
        self.watch.was_read(read);
        Ok(read)
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.watch.before(Call::Read);
        let read = self.inner.read_uncached(buffer, offset)?;
        self.watch.was_read(read);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.watch.before(Call::Write);
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.watch.before(Call::Sync);
        self.inner.sync()
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.inner.direct_alignment()
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)?;
        self.watch.before(Call::Direct(offset));
        self.inner.write_direct(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.watch.before(Call::Len);
        self.inner.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.has_name()
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        self.inner.next_written(offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.watch.before(Call::SetLen);
        self.inner.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.watch.before(Call::Fill);
        self.inner.fill_with_zeros(length)
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        self.watch.before(Call::Reserve);
        self.inner.reserve_space(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.watch.before(Call::Allocate);
        self.inner.allocate(length)
    }
}
