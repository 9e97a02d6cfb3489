//! The seams to a device: a directory of files, one open file, and a lock.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
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
    /// [`io::ErrorKind::NotFound`] where there is none; what is not a regular file is refused, and
    /// a symbolic link is never followed.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Creates an empty file for reading and writing, readable by its owner alone.
    ///
    /// Neither the file nor its name is durable before [`File::sync`] and [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, replacing what had it; atomic, durable after the next
    /// [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if `from` does not exist; whatever the device says.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file a name that nothing has; atomic, durable after the next
    /// [`Storage::sync_dir`].
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the name is taken, and nothing is changed;
    /// [`io::ErrorKind::NotFound`] if `from` does not exist; whatever the device says.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file's name. Open handles keep its content.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if it does not exist; whatever the device says.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Removes a file's name as [`remove`](Self::remove) does. The file comes back where it has no
    /// other name and nobody reads it through a [`Storage`]: its bytes can be cut off a few at a
    /// time, by [`File::set_len`], and all that are left go when it is dropped.
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

    /// The names of the files in this directory, sorted.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Returns once every creation, renaming and removal so far survives a power cut.
    ///
    /// # Errors
    ///
    /// After an error nothing is known of those changes, and a second call proves nothing.
    fn sync_dir(&self) -> io::Result<()>;

    /// Takes the exclusive lock of this directory: of the directory itself, and of the file `name`
    /// in it, which is created if it is missing.
    ///
    /// The directory is what keeps a second holder out, whatever becomes of the file; the file is
    /// for programs that lock no more than that. A directory has one holder, whatever `name` is.
    /// The lock ends with the returned value, and with the process. `None`: another holder.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Whether somebody holds the exclusive lock of this directory, or of file `name` in it; a
    /// missing file is not locked.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn is_locked(&self, name: &str) -> io::Result<bool>;

    /// Takes the exclusive lock of the file `name`, which is created if it is missing; the lock of
    /// the directory does not matter. `None`: another process or handle holds it.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Whether the file `name` itself is locked; a missing file is not.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn is_file_locked(&self, name: &str) -> io::Result<bool>;

    /// The directory `name` inside this one, created where it is missing.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>>;

    /// The directory `name` inside this one, if it is there; nothing is made where that can be
    /// known without.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        self.folder(name).map(Some)
    }

    /// Which run of the machine this is: what was written but not synced under another one may
    /// be gone. `None` where it cannot be known.
    fn boot_id(&self) -> Option<[u8; 16]>;

    /// What to call this directory in a message.
    fn place(&self) -> String;
}

/// What an opened file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; works on read-only media.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// One open file.
pub trait File: Debug + Send + Sync {
    /// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read.
    ///
    /// Interrupted and short reads are repeated here, so fewer bytes than asked for mean the end.
    ///
    /// # Errors
    ///
    /// Whatever the device says. An error is not damage: the bytes are unknown, not wrong.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`, growing the file if needed.
    ///
    /// Interrupted and short writes are repeated here.
    ///
    /// # Errors
    ///
    /// After an error any part of the range may hold the new bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// The barrier: returns once all bytes written so far, and the length, survive a power cut.
    ///
    /// # Errors
    ///
    /// After an error the un-synced bytes are unknown for ever: the cache may show them though
    /// the device lost them, and a second call that succeeds proves nothing.
    fn sync(&self) -> io::Result<()>;

    /// Writes all of `bytes` at `offset` and returns once they survive a power cut; of what else
    /// was written it says nothing.
    ///
    /// Whole blocks in [`AlignedMemory`](crate::AlignedMemory) may go past the cache.
    ///
    /// # Errors
    ///
    /// As those of [`File::write_at`] and [`File::sync`].
    fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()
    }

    /// The file's length in bytes.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Whether some bytes of `range` are unknown: this is a view of a damaged file, and it reads as
    /// zeros where the device refuses to read and nothing else knows the bytes.
    fn has_unknown(&self, range: Range<u64>) -> bool {
        let _ = range;
        false
    }

    /// Whether the file still has a name: without one, what is in it goes when it is closed.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn has_name(&self) -> io::Result<bool>;

    /// Cuts the file, or grows it with zeros that need not be written to the device. The file
    /// system frees what [`File::reserve_space`] reserved beyond the end, also where the length
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Makes the file `length` bytes of zeros that *are* written, so that a later write inside
    /// changes no metadata: such a sync costs half of one into a merely allocated file.
    ///
    /// Called on a new, empty file. Durable after [`File::sync`].
    ///
    /// # Errors
    ///
    /// A full disk is noticed here, not at a later write.
    fn fill_with_zeros(&self, length: u64) -> io::Result<()>;

    /// Makes the file `length` bytes that read as zeros and have their room on the device, without
    /// writing them: quick, but each first sync of a part costs twice.
    ///
    /// # Errors
    ///
    /// A full disk is noticed here, not at a later write.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Reserves space on the device for the first `length` bytes of the file; its length stays as
    /// it is. Returns whether writes up to there surely find room from now on: `false` where the
    /// file system cannot reserve beyond the end of a file.
    ///
    /// The space stays reserved until [`File::set_len`] frees it, also when the process ends.
    ///
    /// # Errors
    ///
    /// A full disk is noticed here, not at a later write. After an error nothing beyond the end is
    /// reserved.
    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        let _ = length;
        Ok(false)
    }

    /// Where, from `offset` on, the file has bytes that were ever written; `None` if nothing but a
    /// hole follows, which reads as zeros. A file that cannot say has some everywhere.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }
}

/// A held lock; dropping it releases it.
pub trait Lock: Debug + Send + Sync {
    /// Returns if what is locked is where it was when it was locked: the directory, and in it the
    /// file under its name.
    ///
    /// # Errors
    ///
    /// Names what was removed or replaced: what is in the directory by now may be another's, or
    /// nobody finds it any more; whatever the device says.
    fn check(&self) -> io::Result<()>;
}
