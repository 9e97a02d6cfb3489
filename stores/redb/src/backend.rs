//! Where redb stores a database: a file whose failed syncs are recorded, and an unchanged file
//! whose changes stay in memory.

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use seawall_tables::Place;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Locked<T> = Result<T, BackendError>;

/// A file whose failed syncs are recorded. When redb is opened again, it takes all that it reads
/// for stored, and writes nothing of it again.
#[derive(Debug)]
pub(crate) struct Recorded<B> {
    pub(crate) backend: B,
    pub(crate) place: Arc<Place>,
}

impl<B: StorageBackend> StorageBackend for Recorded<B> {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.backend.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data().inspect_err(|_| self.place.mark_unsynced())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.backend.query_lock_range(start, end)
    }
}

/// A file that is not changed: redb repairs the database in memory.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: FileBackend,
    changed: Mutex<Changed>,
}

/// The content that differs from the file.
#[derive(Debug)]
struct Changed {
    length: u64,
    /// What the file has from here on was cut off.
    file_length: u64,
    /// Whole pages by their number.
    pages: BTreeMap<u64, Vec<u8>>,
}

/// The size of the pages that are kept in memory.
const PAGE: u64 = 4096;

impl Overlay {
    pub(crate) fn new(file: FileBackend) -> io::Result<Self> {
        let length = file.len()?;
        let changed = Changed { length, file_length: length, pages: BTreeMap::new() };
        Ok(Self { file, changed: Mutex::new(changed) })
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a page of the file; zeros after its end.
    fn page(&self, number: u64, file_length: u64) -> io::Result<Vec<u8>> {
        let start = number * PAGE;
        let mut page = vec![0; index(PAGE)];
        let there = index(file_length.saturating_sub(start).min(PAGE));
        if let Some(there) = page.get_mut(..there).filter(|there| !there.is_empty()) {
            self.file.read(start, there)?;
        }
        Ok(page)
    }

    /// Calls `visit` with each page of a range, the part of the page, and that of the range.
    fn each(
        (offset, length): (u64, usize),
        mut visit: impl FnMut(u64, (usize, usize), (usize, usize)) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let at = offset + u64::try_from(done).unwrap_or(u64::MAX);
            let from = index(at % PAGE);
            let count = (index(PAGE) - from).min(length - done);
            visit(at / PAGE, (from, from + count), (done, done + count))?;
            done += count;
        }
        Ok(())
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changed().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changed = self.changed();
        let end = offset.checked_add(u64::try_from(out.len()).unwrap_or(u64::MAX));
        if end.is_none_or(|end| end > changed.length) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if changed.pages.is_empty() && end <= Some(changed.file_length) {
            return self.file.read(offset, out);
        }
        Self::each((offset, out.len()), |number, (from, to), (at, until)| {
            let read;
            let page = if let Some(page) = changed.pages.get(&number) {
                page
            } else {
                read = self.page(number, changed.file_length)?;
                &read
            };
            if let (Some(out), Some(page)) = (out.get_mut(at..until), page.get(from..to)) {
                out.copy_from_slice(page);
            }
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changed = self.changed();
        changed.file_length = changed.file_length.min(length);
        changed.pages.retain(|number, page| {
            let kept = index(length.saturating_sub(number * PAGE));
            page.iter_mut().skip(kept).for_each(|byte| *byte = 0);
            kept > 0
        });
        changed.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changed = self.changed();
        let file_length = changed.file_length;
        Self::each((offset, data.len()), |number, (from, to), (at, until)| {
            let page = match changed.pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(place) => place.insert(self.page(number, file_length)?),
            };
            if let (Some(page), Some(data)) = (page.get_mut(from..to), data.get(at..until)) {
                page.copy_from_slice(data);
            }
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // A file that is open for reading can be locked only against writers.

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<()> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Locked<bool> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arbitrary reads and changes give the same bytes as those of an array, and leave the file
    /// alone.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "this file is not a log's")]
    fn overlay_behaves_like_an_array_and_its_file_stays_the_same() {
        let folder = seawall_store_tests::Folder::new("redb-overlay");
        let path = folder.0.join("file");
        let mut number = 7_u64;
        let mut below = |limit: usize| {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            index(number >> 33) % limit
        };
        for _ in 0..32 {
            let mut model: Vec<u8> = (0..below(20_000)).map(|at| at.to_le_bytes()[0]).collect();
            let before = model.clone();
            std::fs::write(&path, &before).unwrap();
            let file = std::fs::File::open(&path).unwrap();
            let overlay = Overlay::new(FileBackend::new(file).unwrap()).unwrap();
            for step in 0..60_u8 {
                let at = below(model.len() + 1);
                let size = below(9000).min(model.len() - at);
                let offset = u64::try_from(at).unwrap();
                match below(4) {
                    0 => {
                        let length = below(24_000);
                        model.resize(length, 0);
                        overlay.set_len(u64::try_from(length).unwrap()).unwrap();
                    }
                    1 => {
                        let bytes = vec![step; size];
                        model.splice(at..at + size, bytes.iter().copied());
                        overlay.write(offset, &bytes).unwrap();
                    }
                    _ => {
                        let mut read = vec![0; size];
                        overlay.read(offset, &mut read).unwrap();
                        assert!(model.get(at..at + size) == Some(&read[..]));
                    }
                }
                assert_eq!(overlay.len().unwrap(), u64::try_from(model.len()).unwrap());
            }
            assert!(std::fs::read(&path).unwrap() == before);
        }
    }
}
