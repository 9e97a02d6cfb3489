//! Requests of the kernel for the file, answered by the disk.

use super::gate::{Gate, done, errno};
use crate::disk::Disk;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The most bytes of one request.
pub(super) const REQUEST_MAX: u32 = 1 << 20;
/// The most zeros written before checking again that the disk is not closed.
const ZEROS_MAX: u64 = 1 << 20;
/// The most requests that the kernel may send ahead, without waiting for answers.
pub(super) const AHEAD_MAX: u16 = 64;
/// How long the kernel may cache attributes: not at all, so that a dead server is noticed.
pub(super) const BELIEVED: Duration = Duration::ZERO;
pub(super) const BLOCK: u32 = 4096;

/// `O_DSYNC`, which also represents `RWF_DSYNC` and is part of `O_SYNC`.
pub(super) const SYNCED: i32 = 0o10_000;
/// Modes of fallocate(2).
pub(super) const KEEP_SIZE: i32 = 1;
pub(super) const PUNCH_HOLE: i32 = 2;
pub(super) const ZERO_RANGE: i32 = 16;

/// The file system with a single file: its root.
#[derive(Debug)]
pub(super) struct OneFile {
    disk: Arc<Disk>,
    gate: Arc<Gate>,
    owner: (u32, u32),
}

impl OneFile {
    pub(super) fn new(disk: Arc<Disk>, gate: Arc<Gate>) -> Self {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Self { disk, gate, owner: (user.as_raw(), group.as_raw()) }
    }

    fn attributes(&self) -> FileAttr {
        let (uid, gid) = self.owner;
        let then = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: INodeNo::ROOT,
            size: self.disk.size(),
            blocks: self.disk.size().div_ceil(512),
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// How many of the `size` bytes from `offset` on are before the end of the disk.
    fn within(&self, offset: u64, size: u64) -> u64 {
        size.min(self.disk.size().saturating_sub(offset))
    }

    fn read_some(&self, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let size = self.within(offset, u64::from(size.min(REQUEST_MAX)));
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::EINVAL)?];
        if !bytes.is_empty() {
            self.gate.pass(|| self.disk.read(offset, &mut bytes).map_err(errno))?;
        }
        Ok(bytes)
    }

    /// Writes as much as fits before the end.
    fn write_some(&self, offset: u64, data: &[u8], flags: i32) -> Result<u32, Errno> {
        let size = self.within(offset, u64::try_from(data.len()).map_err(|_| Errno::EINVAL)?);
        let size = u32::try_from(size).map_err(|_| Errno::EINVAL)?;
        let data = usize::try_from(size).ok().and_then(|size| data.get(..size));
        let data = data.ok_or(Errno::EINVAL)?;
        if data.is_empty() {
            return Err(Errno::ENOSPC);
        }
        self.gate.pass(|| {
            self.disk.write(offset, data).map_err(errno)?;
            if flags & SYNCED != 0 { self.disk.flush().map_err(errno) } else { Ok(()) }
        })?;
        Ok(size)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.gate.pass(|| self.disk.flush().map_err(errno))
    }

    fn allocate(&self, (offset, length): (u64, u64), mode: i32) -> Result<(), Errno> {
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        match mode {
            _ if mode & KEEP_SIZE == 0 && end > self.disk.size() => Err(Errno::ENOSPC),
            // All of the space is always allocated.
            0 | KEEP_SIZE => Ok(()),
            _ if [PUNCH_HOLE, ZERO_RANGE].contains(&(mode & !KEEP_SIZE)) => {
                self.zero(offset, self.within(offset, length))
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn zero(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let (mut at, mut left) = (offset, length);
        while left > 0 {
            let piece = left.min(ZEROS_MAX);
            let size = usize::try_from(piece).map_err(|_| Errno::EINVAL)?;
            self.gate.pass(|| self.disk.write_zeros(at, size).map_err(errno))?;
            at += piece;
            left -= piece;
        }
        Ok(())
    }
}

/// Negotiates the sizes of requests.
pub(super) fn configure(config: &mut KernelConfig) -> io::Result<()> {
    // Each capability is optional.
    let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
    let _ = config.set_max_background(AHEAD_MAX);
    let set = config.set_max_write(REQUEST_MAX);
    set.map(drop).map_err(|_| io::Error::other("the kernel does not support requests of 1 MiB"))
}

/// `fuser` answers all other requests with "not implemented".
impl Filesystem for OneFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        configure(config)
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVED, &self.attributes());
    }

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let is_owned_anew = mode.is_some() || uid.is_some() || gid.is_some();
        if is_owned_anew || size.is_some_and(|size| size != self.disk.size()) {
            reply.error(Errno::EPERM);
        } else {
            reply.attr(&BELIEVED, &self.attributes());
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.gate.file_opened();
        // The size is fixed, so writes need not wait for each other.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.gate.file_closed();
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_some(offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_some(offset, data, flags.0) {
            Ok(size) => reply.written(size),
            Err(error) => reply.error(error),
        }
    }

    /// Called at close, which promises nothing.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.sync(), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.allocate((offset, length), mode), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.disk.size() / u64::from(BLOCK);
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK, 255, BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, Options};
    use seawall_io::{Access, Storage, SystemClock};
    use seawall_testkit::MemStorage;

    const SIZE: u64 = 1 << 20;

    fn opened(device: &MemStorage) -> Arc<Disk> {
        let open = |name| device.open(name, Access::ReadWrite).unwrap();
        let files = Files { home: open("home"), area: open("area") };
        let opened = Disk::open(files, &Options::default(), Arc::new(SystemClock::new()));
        Arc::new(opened.unwrap().0)
    }

    /// A new disk. No monitor reports its power source as healthy, so each flush waits for the
    /// device.
    fn made() -> (MemStorage, OneFile) {
        let device = MemStorage::new();
        let create = |name| device.create(name).unwrap();
        let files = Files { home: create("home"), area: create("area") };
        files.home.fill_with_zeros(SIZE).unwrap();
        files.home.sync().unwrap();
        files.prepare(7, &Options::default()).unwrap();
        device.sync_dir().unwrap();
        let file = OneFile::new(opened(&device), Arc::default());
        (device, file)
    }

    /// The first bytes of the disk after a power cut.
    fn left(device: &MemStorage) -> [u8; 4] {
        let mut bytes = [0; 4];
        opened(&device.power_cut(|_| false)).read(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn synced_data_survives_a_power_cut() {
        let (device, file) = made();
        file.write_some(0, b"home", 0).unwrap();
        file.sync().unwrap();
        assert_eq!(&left(&device), b"home");
    }

    #[test]
    fn synced_write_survives_a_power_cut() {
        let (device, file) = made();
        file.write_some(0, b"home", SYNCED | 1).unwrap();
        assert_eq!(&left(&device), b"home");
    }

    #[test]
    fn reads_and_writes_stop_at_the_end() {
        let (_, file) = made();
        assert_eq!(file.write_some(SIZE - 3, b"abcd", 0).unwrap(), 3);
        for offset in [SIZE, SIZE + 1, u64::MAX] {
            let refused = file.write_some(offset, b"a", 0).unwrap_err();
            assert_eq!(refused.code(), Errno::ENOSPC.code());
            assert!(file.read_some(offset, u32::MAX).unwrap().is_empty());
        }
        assert_eq!(file.read_some(SIZE - 4, u32::MAX).unwrap(), b"\0abc");
        assert_eq!(file.read_some(0, u32::MAX).unwrap().len(), 1 << 20);
    }

    #[test]
    fn zeroed_ranges_read_as_zeros_and_keep_the_size() {
        for mode in [PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE] {
            let (_, file) = made();
            file.write_some(0, &[7; 8192], 0).unwrap();
            file.allocate((1, 8190), mode).unwrap();
            let bytes = file.read_some(0, 8192).unwrap();
            assert_eq!((bytes[0], bytes[8191]), (7, 7));
            assert!(bytes[1..8191].iter().all(|byte| *byte == 0));
        }
        let (_, file) = made();
        let asked = |range, mode| file.allocate(range, mode).map_err(Errno::code);
        assert_eq!(asked((0, SIZE), 0), Ok(()));
        assert_eq!(asked((0, SIZE + 1), 0), Err(Errno::ENOSPC.code()));
        assert_eq!(asked((SIZE - 1, 2), ZERO_RANGE), Err(Errno::ENOSPC.code()));
        assert_eq!(asked((SIZE - 1, 2), PUNCH_HOLE | KEEP_SIZE), Ok(()));
        assert_eq!(asked((u64::MAX, 2), PUNCH_HOLE | KEEP_SIZE), Err(Errno::EFBIG.code()));
        for mode in [4, 8, 32, 64, PUNCH_HOLE | ZERO_RANGE | KEEP_SIZE, i32::MIN | KEEP_SIZE] {
            assert_eq!(asked((0, 1), mode), Err(Errno::EOPNOTSUPP.code()), "{mode}");
        }
    }

    #[test]
    fn nothing_is_acknowledged_after_the_gate_closes() {
        let (_, file) = made();
        file.gate.close();
        let refused = [
            file.write_some(0, b"a", 0).map(drop),
            file.read_some(0, 1).map(drop),
            file.sync(),
            file.allocate((0, 1), ZERO_RANGE),
        ];
        for refused in refused {
            assert_eq!(refused.unwrap_err().code(), Errno::ESHUTDOWN.code());
        }
    }
}
