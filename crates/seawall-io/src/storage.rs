//! The traits for storage: a directory of files, an open file, and a lock.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that holds one log.
///
/// Names are plain file names: no separators, not empty, not `.` or `..`. An implementation
/// refuses others with [`io::ErrorKind::InvalidInput`].
pub trait Storage: Debug + Send + Sync {
    /// Opens an existing file.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if it does not exist. Refuses anything but a regular file, and
    /// never follows a symbolic link.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file for reading and writing, readable only by its owner.
    ///
    /// Neither the file nor its name is durable before [`File::sync`] and [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file and replaces a file of the new name. The change is atomic, and durable after
    /// the next [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if `from` does not exist; otherwise the device's error.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Renames a file to a name that must be free. The change is atomic, and durable after the next
    /// [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken: nothing has changed then.
    /// [`io::ErrorKind::NotFound`] if `from` does not exist; otherwise the device's error.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file's name. Open handles keep its contents.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if it does not exist; otherwise the device's error.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes a file's name as [`remove`](Self::remove) does. Returns the file if it has no other
    /// name and no reader opened it through a [`Storage`]. The caller can then free its space in
    /// steps with [`File::set_len`]; dropping it frees the rest.
    ///
    /// Freeing many bytes at once can take a file system milliseconds, and the next sync of any
    /// file waits for that.
    ///
    /// # Errors
    ///
    /// Those of [`remove`](Self::remove).
    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        self.remove(name).map(|()| None)
    }

    /// Renames a file that is no longer needed to `spare`, which must be free, so that its space
    /// can be used again. Removes the file instead, as [`retire`](Self::retire) does, if another
    /// holder may still read it or if overwriting it may need new space.
    ///
    /// The file is kept if it has one name, no reader opened it through a [`Storage`], this process
    /// may write to it, and its file system is known to overwrite it in place. A reader that is
    /// about to open it by its old name gets [`io::ErrorKind::NotFound`]. A program that opened it
    /// in another way, such as `cp`, is not detected and may read what is written to it later.
    ///
    /// The change is durable after the next [`Storage::sync_dir`]. Until then a power cut may undo
    /// it, so leave the file unchanged until that sync succeeded.
    ///
    /// # Errors
    ///
    /// Nothing has changed after these: [`io::ErrorKind::NotFound`] if `name` does not exist,
    /// [`io::ErrorKind::AlreadyExists`] if `spare` is taken, and [`io::ErrorKind::InvalidInput`]
    /// for anything but a regular file. After the device's error the file has either name, or none.
    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        let _ = spare;
        self.retire(name).map(Recycled::Removed)
    }

    /// The names of the files in this directory, sorted.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Returns once every creation, renaming and removal so far survives a power cut.
    ///
    /// # Errors
    ///
    /// After an error the state of those changes is unknown, and a second call that succeeds proves
    /// nothing.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the exclusive lock of this directory: a lock on the directory itself and one on the
    /// file `name` in it, which is created if it is missing. Returns `None` if another holder has
    /// it.
    ///
    /// The lock on the directory excludes other holders even if the file is removed or replaced.
    /// The lock on the file is for programs that lock only the file. A directory has at most one
    /// holder, whatever `name` is. The lock ends when the value is dropped or the process ends.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Returns whether the exclusive lock of this directory, or of the file `name` in it, is held.
    /// A missing file is not locked.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn is_locked(&self, name: &str) -> io::Result<bool>;

    /// Takes the exclusive lock of the file `name` only, which is created if it is missing. Returns
    /// `None` if another process or handle holds it.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Returns whether the file `name` itself is locked. A missing file is not.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn is_file_locked(&self, name: &str) -> io::Result<bool>;

    /// The directory `name` inside this one, created if it is missing.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>>;

    /// The directory `name` inside this one if it exists. Implementations create nothing if they
    /// can find that out without creating it.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        self.folder(name).map(Some)
    }

    /// Identifies the current boot of the machine: data that was written but not synced during
    /// another boot may be lost. `None` if it is unknown.
    fn boot_id(&self) -> Option<[u8; 16]>;

    /// The name of this directory for messages.
    fn place(&self) -> String;

    /// The path of this directory, or its name in another kind of storage.
    fn path(&self) -> PathBuf {
        PathBuf::from(self.place())
    }
}

/// The result of [`Storage::recycle`].
///
/// # Examples
///
/// ```
/// use seawall_io::{Access, PosixStorage, Recycled, Storage};
///
/// # let path = std::env::temp_dir().join(format!("seawall-io-recycle-{}", std::process::id()));
/// let storage = PosixStorage::create(&path)?;
/// storage.create("1.seg")?.write_at(b"old", 0)?;
/// let recycled = storage.recycle("1.seg", "spare")?;
/// storage.sync_dir()?;
/// match recycled {
///     Recycled::Renamed(file) => file.write_at(b"new", 0)?,
///     Recycled::Removed(_) => storage.create("spare")?.write_at(b"new", 0)?,
/// }
/// assert!(storage.open("1.seg", Access::Read).is_err());
/// assert_eq!(storage.list()?, ["spare"]);
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Recycled {
    /// The file has the new name, its old bytes and its old length, and is open for reading and
    /// writing.
    Renamed(Arc<dyn File>),
    /// The file has no name. It is returned if its space can be freed in steps, as
    /// [`Storage::retire`] says.
    Removed(Option<Arc<dyn File>>),
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; works on read-only media.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// One open file.
pub trait File: Debug + Send + Sync {
    /// Reads at `offset` until `buffer` is full or the file ends. Returns the number of bytes read.
    ///
    /// It repeats interrupted and short reads, so a smaller number means the end of the file.
    ///
    /// # Errors
    ///
    /// The device's error. An error is not damage: the bytes are unknown, not wrong.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Reads as [`read_at`](Self::read_at) does, but from the device instead of the cache. After a
    /// failed sync the two may differ. Unsynced bytes may be written to the device first.
    ///
    /// `buffer` must be whole blocks of [`AlignedMemory`](crate::AlignedMemory), and `offset` a
    /// multiple of [`DIRECT_ALIGNMENT`](crate::DIRECT_ALIGNMENT). Otherwise, or if the file system
    /// has no direct reads, this is `read_at` and proves nothing about the device.
    ///
    /// # Errors
    ///
    /// As for [`File::read_at`].
    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buffer, offset)
    }

    /// Writes all of `bytes` at `offset` and extends the file if needed.
    ///
    /// It repeats interrupted and short writes.
    ///
    /// # Errors
    ///
    /// After an error any part of the range may hold the new bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Returns once all bytes written so far, and the length, survive a power cut.
    ///
    /// # Errors
    ///
    /// After an error the state of the unsynced bytes stays unknown: the cache may show them
    /// although the device lost them, and a second call that succeeds proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Writes as [`File::write_at`] does. Whole blocks in [`AlignedMemory`](crate::AlignedMemory)
    /// may bypass the cache: worth it for many bytes that nobody reads soon.
    ///
    /// # Errors
    ///
    /// As for [`File::write_at`].
    fn write_uncached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)
    }

    /// Writes all of `bytes` at `offset` and returns once they survive a power cut. It does not
    /// make other writes durable.
    ///
    /// Whole blocks in [`AlignedMemory`](crate::AlignedMemory) may bypass the cache.
    ///
    /// # Errors
    ///
    /// As for [`File::write_at`] and [`File::sync`].
    fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()
    }

    /// The alignment in bytes that [`File::write_direct`] requires of offset, length and memory.
    /// `None` while direct writes are not known to work, as before the first one of
    /// [`File::write_synced`].
    fn direct_alignment(&self) -> Option<usize> {
        None
    }

    /// Writes all of `bytes` at `offset`, past the cache, and returns once they survive a power
    /// cut. Several threads may write different blocks at the same time, and each learns of the
    /// failure of its own bytes only. A sync cannot do that: it reports a failed write of any
    /// thread, and to one thread.
    ///
    /// # Errors
    ///
    /// As for [`File::write_synced`]. `Unsupported` without a
    /// [`direct_alignment`](File::direct_alignment); nothing is written then.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _ = (bytes, offset);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file has no bytes.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns whether some bytes of `range` are unknown. That is so only in a view of a damaged
    /// file, which reads as zeros where the device fails to read and no other copy exists.
    fn has_unknown(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Returns whether the file still has a name. Without one, its contents are lost when it is
    /// closed.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn has_name(&self) -> io::Result<bool>;

    /// Truncates the file, or extends it with zeros that need not be written to the device. The
    /// file system also frees the space that [`File::reserve_space`] reserved beyond the end, even
    /// if the length does not change.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes the file `length` bytes of zeros that *are* written to the device, so that a later
    /// write inside changes no metadata. Syncing such a write costs half as much as in a merely
    /// allocated file.
    ///
    /// Called on a new, empty file. Durable after [`File::sync`].
    ///
    /// # Errors
    ///
    /// A full disk is reported here, not by a later write.
    fn fill_with_zeros(&self, length: u64) -> io::Result<()>;

    /// Makes the file `length` bytes that read as zeros and have space on the device, without
    /// writing them. This is fast, but the first sync of each part costs twice as much.
    ///
    /// # Errors
    ///
    /// A full disk is reported here, not by a later write.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Reserves space on the device for the first `length` bytes without changing the file's
    /// length. Returns whether writes up to there are now certain to find space: `false` if the
    /// file system cannot reserve beyond the end of a file.
    ///
    /// The space stays reserved until [`File::set_len`] frees it, even after the process ends.
    ///
    /// # Errors
    ///
    /// A full disk is reported here, not by a later write. After an error nothing beyond the end is
    /// reserved.
    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        let _ = length;
        Ok(false)
    }

    /// The offset, at or after `offset`, of the next bytes that were ever written. `None` if only a
    /// hole follows, which reads as zeros. A file system that cannot tell reports `offset` itself.
    ///
    /// # Errors
    ///
    /// The device's error.
    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }
}

/// A held lock; dropping it releases it.
pub trait Lock: Debug + Send + Sync {
    /// Returns without error if the directory, and the file under its name in it, are still those
    /// that were locked.
    ///
    /// # Errors
    ///
    /// Names what was removed or replaced: the directory may now belong to another process, or have
    /// no name. Otherwise the device's error.
    fn check(&self) -> io::Result<()>;
}
