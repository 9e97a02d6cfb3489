//! Requests of the kernel for a folder, answered by a volume.
//!
//! Each change is flushed before it is answered. While the disk is armed that costs nothing, and
//! the kernel need not send the program's sync: a commit is one request instead of two.

use super::gate::{Gate, done, errno};
use super::requests::{BELIEVED, BLOCK, KEEP_SIZE, PUNCH_HOLE, REQUEST_MAX, ZERO_RANGE, configure};
use crate::volume::{Attributes, Change, Entry, ROOT, Tree};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use seawall_io::{Clock, File, SystemClock};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// Flags of open(2).
const EXCLUSIVE: i32 = 0o200;
const TRUNCATE: i32 = 0o1000;
/// The permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;
/// The most bytes of a name.
const NAME_MAX: u32 = 98;

/// The file system with the files of a volume.
///
/// Stores the owner, the permission bits, and the time of the last change of a file's size, name or
/// attributes; no other times and no extended attributes. New files do not inherit a folder's
/// group.
pub(super) struct Folder {
    tree: Tree,
    gate: Arc<Gate>,
    clock: SystemClock,
    /// The open files by the numbers that the kernel knows.
    files: RwLock<HashMap<u64, Arc<dyn File>>>,
    next: AtomicU64,
}

impl Folder {
    pub(super) fn new(tree: Tree, gate: Arc<Gate>) -> Self {
        let (clock, files) = (SystemClock::new(), RwLock::default());
        Self { tree, gate, clock, files, next: AtomicU64::new(1) }
    }

    /// Runs a request, unless the server is being stopped.
    fn pass<T>(&self, work: impl FnOnce(&Tree) -> io::Result<T>) -> Result<T, Errno> {
        self.gate.pass(|| work(&self.tree).map_err(errno))
    }

    /// Runs a change and flushes it: the kernel sends no sync.
    fn commit<T>(&self, work: impl FnOnce(&Tree) -> io::Result<T>) -> Result<T, Errno> {
        self.pass(|tree| {
            let done = work(tree)?;
            tree.sync()?;
            Ok(done)
        })
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<dyn File>, Errno> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn opened(&self, file: Arc<dyn File>) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(handle, file);
        self.gate.file_opened();
        FileHandle(handle)
    }

    fn read_some(&self, handle: FileHandle, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = self.file(handle)?;
        let mut bytes = vec![0; usize::try_from(size.min(REQUEST_MAX)).unwrap_or_default()];
        let count = self.pass(|_| file.read_at(&mut bytes, offset))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn write_some(&self, handle: FileHandle, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let file = self.file(handle)?;
        self.commit(|_| file.write_at(data, offset))?;
        u32::try_from(data.len()).map_err(|_| Errno::EINVAL)
    }

    /// Creates and opens a file. Opens the existing one of this name, unless the call is exclusive.
    fn create_or_open(
        &self,
        (parent, name): (INodeNo, &OsStr),
        attributes: Attributes,
        flags: i32,
    ) -> Result<(Entry, FileHandle), Errno> {
        let (parent, name) = (id_of(parent)?, text(name)?);
        let (entry, file) = self.commit(|tree| {
            let made = tree.make_file(parent, name, attributes);
            let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
            let is_shared = flags & EXCLUSIVE == 0;
            let entry = match made {
                Err(error) if is_taken(&error) && is_shared => tree.look_up(parent, name)?,
                made => made?,
            };
            let file = tree.open(entry.id)?;
            if flags & TRUNCATE != 0 {
                file.set_len(0)?;
            }
            Ok((tree.entry(entry.id)?, file))
        })?;
        Ok((entry, self.opened(file)))
    }

    fn new_attributes(&self, request: &Request, mode: u32) -> Attributes {
        let (user, group) = (request.uid(), request.gid());
        Attributes { mode: permissions(mode), user, group, changed_us: self.clock.wall_us() }
    }

    fn change(&self, id: u64, size: Option<u64>, change: &Change) -> Result<Entry, Errno> {
        self.commit(|tree| {
            if let Some(size) = size {
                tree.open(id)?.set_len(size)?;
            }
            let now = size.map(|_| self.clock.wall_us());
            tree.change(id, &Change { changed_us: change.changed_us.or(now), ..*change })
        })
    }

    fn microseconds(&self, time: TimeOrNow) -> u64 {
        match time {
            TimeOrNow::Now => self.clock.wall_us(),
            TimeOrNow::SpecificTime(time) => {
                // Times before 1970 become 1970.
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
            }
        }
    }

    fn allocate(&self, id: u64, (offset, length): (u64, u64), mode: i32) -> Result<(), Errno> {
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let keeps_size = mode & KEEP_SIZE != 0;
        self.commit(|tree| {
            let length = if keeps_size { 0 } else { end };
            match mode & !KEEP_SIZE {
                0 => tree.extend(id, (offset, end), length),
                PUNCH_HOLE if keeps_size => tree.zero(id, (offset, end)),
                ZERO_RANGE => {
                    tree.extend(id, (offset, end), length)?;
                    tree.zero(id, (offset, end))
                }
                _ => Err(io::ErrorKind::Unsupported.into()),
            }
        })
    }

    fn list(&self, id: u64, after: u64, reply: &mut ReplyDirectory) -> Result<(), Errno> {
        // The places of all other names are higher than these two.
        for (place, name) in [(1, "."), (2, "..")] {
            if after < place && reply.add(number_of(id), place, FileType::Directory, name) {
                return Ok(());
            }
        }
        for child in self.pass(|tree| tree.children(id, after))? {
            let kind = if child.is_folder { FileType::Directory } else { FileType::RegularFile };
            if reply.add(number_of(child.id), child.place, kind, child.name) {
                break;
            }
        }
        Ok(())
    }
}

/// Converts a file's id to the kernel's number, where the root is 1; `id_of` converts back.
fn number_of(id: u64) -> INodeNo {
    INodeNo(id.saturating_add(1))
}

fn id_of(number: INodeNo) -> Result<u64, Errno> {
    number.0.checked_sub(1).ok_or(Errno::EINVAL)
}

/// Returns a name as text, or an error if it is not UTF-8.
fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EILSEQ)
}

fn permissions(mode: u32) -> u16 {
    u16::try_from(mode & PERMISSIONS).unwrap_or_default()
}

fn shown(entry: &Entry) -> FileAttr {
    let Attributes { mode, user, group, changed_us } = entry.attributes;
    let since = Duration::from_micros(changed_us);
    let time = SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH);
    FileAttr {
        ino: number_of(entry.id),
        size: entry.length,
        blocks: entry.space / 512,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if entry.is_folder { FileType::Directory } else { FileType::RegularFile },
        perm: mode,
        nlink: u32::try_from(entry.names).unwrap_or_default(),
        uid: user,
        gid: group,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn tell(found: Result<Entry, Errno>, reply: ReplyEntry) {
    match found {
        Ok(entry) => reply.entry(&BELIEVED, &shown(&entry), Generation(0)),
        Err(error) => reply.error(error),
    }
}

/// `fuser` answers all other requests with "not implemented".
impl Filesystem for Folder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let names = id_of(parent).and_then(|id| Ok((id, text(name)?)));
        tell(names.and_then(|(id, name)| self.pass(|tree| tree.look_up(id, name))), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match id_of(number).and_then(|id| self.pass(|tree| tree.entry(id))) {
            Ok(entry) => reply.attr(&BELIEVED, &shown(&entry)),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        changed: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed_us = changed.map(|time| self.microseconds(time));
        let change = Change { mode: mode.map(permissions), user, group, changed_us };
        match id_of(number).and_then(|id| self.change(id, size, &change)) {
            Ok(entry) => reply.attr(&BELIEVED, &shown(&entry)),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let attributes = self.new_attributes(request, mode);
        let names = id_of(parent).and_then(|id| Ok((id, text(name)?)));
        let make = |(id, name)| self.commit(|tree| tree.make_folder(id, name, attributes));
        tell(names.and_then(make), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let names = id_of(parent).and_then(|id| Ok((id, text(name)?)));
        let remove = |(id, name)| self.commit(|tree| tree.remove_file(id, name));
        done(names.and_then(remove), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let names = id_of(parent).and_then(|id| Ok((id, text(name)?)));
        let remove = |(id, name)| self.commit(|tree| tree.remove_folder(id, name));
        done(names.and_then(remove), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let names = || Ok(((id_of(parent)?, text(name)?), (id_of(new_parent)?, text(new_name)?)));
        let renamed = names().and_then(|(from, to)| {
            if flags.is_empty() {
                self.commit(|tree| tree.rename(from, to))
            } else if flags == RenameFlags::RENAME_NOREPLACE {
                self.commit(|tree| tree.rename_new(from, to))
            } else {
                Err(Errno::EINVAL)
            }
        });
        done(renamed, reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let names = || Ok((id_of(number)?, id_of(parent)?, text(name)?));
        let link = |(id, parent, name)| self.commit(|tree| tree.link(id, parent, name));
        tell(names().and_then(link), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let attributes = self.new_attributes(request, mode);
        match self.create_or_open((parent, name), attributes, flags) {
            Ok((entry, handle)) => {
                reply.created(&BELIEVED, &shown(&entry), Generation(0), handle, direct());
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match id_of(number).and_then(|id| self.pass(|tree| tree.open(id))) {
            Ok(file) => reply.opened(self.opened(file), direct()),
            Err(error) => reply.error(error),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let closed = self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        if closed.is_some() {
            self.gate.file_closed();
        }
        // Outside the lock: this can free the space of a removed file.
        drop(closed);
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_some(handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_some(handle, offset, data) {
            Ok(size) => reply.written(size),
            Err(error) => reply.error(error),
        }
    }

    /// Called at close, which promises nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    /// The kernel takes `ENOSYS` as success and sends no more requests of this kind.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    /// As [`fsync`](Self::fsync).
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        after: u64,
        mut reply: ReplyDirectory,
    ) {
        match id_of(number).and_then(|id| self.list(id, after, &mut reply)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done_so = id_of(number).and_then(|id| self.allocate(id, (offset, length), mode));
        done(done_so, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = self.tree.space();
        let [free, blocks] = space.bytes.map(|bytes| bytes / u64::from(BLOCK));
        let [free_entries, entries] = space.entries;
        reply.statfs(blocks, free, free, entries, free_entries, BLOCK, NAME_MAX, BLOCK);
    }
}

/// Flags to bypass the page cache, and to run writes that do not extend a file in parallel.
fn direct() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

const _: () = assert!(ROOT == 0, "the kernel's number of the root is 1");
