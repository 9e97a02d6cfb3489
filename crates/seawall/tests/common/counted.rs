//! A device that counts what is read of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_io::{Access, File, Lock, Storage};

/// Storage, and what was read of it.
#[derive(Debug, Clone)]
pub struct Counted {
    inner: Arc<dyn Storage>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
pub struct Counts {
    bytes: AtomicU64,
    opens: AtomicU64,
    lists: AtomicU64,
}

/// What was read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    pub bytes: u64,
    /// Files that were opened.
    pub opens: u64,
    /// Looks at the directory.
    pub lists: u64,
}

impl Counts {
    /// What was read since this was asked last.
    pub fn take(&self) -> Reads {
        let take = |count: &AtomicU64| count.swap(0, Ordering::SeqCst);
        Reads { bytes: take(&self.bytes), opens: take(&self.opens), lists: take(&self.lists) }
    }
}

impl Counted {
    pub fn new(inner: impl Storage + 'static) -> (Self, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Self { inner: Arc::new(inner), counts: counts.clone() }, counts)
    }

    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CountedFile { inner, counts: self.counts.clone() })
    }
}

impl Storage for Counted {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.counts.opens.fetch_add(1, Ordering::SeqCst);
        self.inner.open(name, access).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create(name).map(|file| self.wrap(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.counts.lists.fetch_add(1, Ordering::SeqCst);
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

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
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
struct CountedFile {
    inner: Arc<dyn File>,
    counts: Arc<Counts>,
}

impl File for CountedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.inner.read_at(buffer, offset)?;
        self.counts.bytes.fetch_add(u64::try_from(read).unwrap(), Ordering::SeqCst);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.inner.fill_with_zeros(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }
}
