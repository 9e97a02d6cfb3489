//! A device in plain memory that allocates when files are created, never when they are written.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seawall_io::{Access, File, Lock, Storage};

/// Storage without crashes and faults, and with negligible cost.
#[derive(Debug, Clone, Default)]
pub struct Ram(Arc<Mutex<BTreeMap<String, Arc<RamFile>>>>);

#[derive(Debug, Default)]
struct RamFile(Mutex<Vec<u8>>);

#[derive(Debug)]
struct RamLock;

impl Lock for RamLock {
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storage for Ram {
    fn open(&self, name: &str, _: Access) -> io::Result<Arc<dyn File>> {
        let file = lock(&self.0).get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(file)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(RamFile::default());
        lock(&self.0).insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.0);
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        if lock(&self.0).contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.0).remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Ok(Some(Box::new(RamLock)))
    }

    fn is_locked(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        lock(&self.0).entry(name.to_owned()).or_default();
        self.lock(name)
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.is_locked(name)
    }

    fn folder(&self, _: &str) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Self::default()))
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        Some([7; 16])
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

impl RamFile {
    /// The bytes from `offset` on, at most `length`.
    fn range(bytes: &[u8], offset: u64, length: usize) -> std::ops::Range<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        start..(start + length).min(bytes.len())
    }
}

impl File for RamFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = lock(&self.0);
        let found = bytes.get(Self::range(&bytes, offset, buffer.len())).unwrap_or_default();
        let (filled, _) = buffer.split_at_mut(found.len());
        filled.copy_from_slice(found);
        Ok(found.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = lock(&self.0);
        let end = usize::try_from(offset).expect("fits in memory") + bytes.len();
        if end > content.len() {
            content.resize(end, 0);
        }
        let range = Self::range(&content, offset, bytes.len());
        content.get_mut(range).expect("long enough").copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(lock(&self.0).len()).expect("fits in 64 bits"))
    }

    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        lock(&self.0).resize(usize::try_from(length).expect("fits in memory"), 0);
        Ok(())
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        *lock(&self.0) = vec![0; usize::try_from(length).expect("fits in memory")];
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.fill_with_zeros(length)
    }
}
