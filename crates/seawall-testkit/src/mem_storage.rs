//! A device in memory that can crash: the interface for tests.

mod item;
pub(crate) mod pending;
mod storage_impl;
mod world;

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use self::item::{Item, NodeId};
use self::pending::{CrashOutcome, Pending, What};
use self::world::World;

/// A device in memory whose power can be cut.
///
/// Each file is stored twice: as the page cache shows it, and as the disk holds it. Unsynced
/// changes are a list of [`Pending`] items. A power cut keeps a subset of them, so a test can try
/// every state that it may leave. A clone is another handle to the same device. The default size
/// limit is 4 GiB; see [`MemStorage::limit`].
///
/// Two things are simpler than on real devices: directories and lock files are durable once
/// created, and zero-filling is atomic. A pending sector is an image of the whole sector. So
/// writing several of them in any order gives the same result as some subset of them, and trying
/// all subsets is exhaustive.
///
/// # Examples
///
/// ```
/// use seawall_io::{File, Storage};
/// use seawall_testkit::{MemStorage, What};
///
/// let device = MemStorage::new();
/// let file = device.create("notes")?;
/// device.sync_dir()?;
/// file.write_at(&[1; 1024], 0)?;
///
/// let after = device.power_cut(|item| item.what == What::Sector(1));
/// let found = after.bytes("notes").expect("the name was synced");
/// assert_eq!(found, [[0; 512], [1; 512]].concat());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct MemStorage {
    device: Arc<Mutex<Device>>,
    /// Empty, or the directory that this handle accesses, with a trailing slash.
    prefix: String,
}

struct Device {
    world: World,
    run: Run,
}

/// State that ends with the process, and planned faults.
#[derive(Default)]
struct Run {
    steps: u64,
    /// For each sync, the number of steps up to and including it.
    syncs: Vec<u64>,
    stop: Option<u64>,
    failures: Vec<PlannedSync>,
    /// The locked directories, as name prefixes.
    locks: BTreeSet<String>,
    /// The files open for reading, once per handle.
    read: Vec<NodeId>,
}

struct PlannedSync {
    /// The number of syncs before this fault.
    left: u64,
    fate: Fate,
}

/// The effect of a faulty sync on its items.
enum Fate {
    /// The items reach the disk as the function decides, and the sync fails.
    Fail(Land),
    /// The items reach the disk as the function decides, and the sync succeeds.
    Lie(Land),
    /// The blocks of this size that contain the items are corrupted on the disk, and the sync
    /// fails.
    Spoil(usize),
}

type Land = Box<dyn FnMut(&Pending) -> CrashOutcome + Send>;

const SECTOR_SIZE: usize = 512;

impl MemStorage {
    /// Creates an empty device with sectors of 512 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_sector(SECTOR_SIZE)
    }

    /// Creates an empty device with sectors of `size` bytes. A crash keeps or loses whole sectors.
    ///
    /// # Panics
    ///
    /// Panics if `size` is zero.
    #[must_use]
    pub fn with_sector(size: usize) -> Self {
        assert!(size > 0, "the sector size must not be zero");
        Self::over(World::new(size))
    }

    fn over(world: World) -> Self {
        let device = Device { world, run: Run::default() };
        Self { device: Arc::new(Mutex::new(device)), prefix: String::new() }
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        lock(&self.device)
    }

    fn full(&self, name: &str) -> String {
        [&self.prefix, name].concat()
    }

    /// Returns the number of changing operations so far, including refused ones.
    ///
    /// These are writes, syncs, changes of length, zero-filling, creations, renames, removals and
    /// new directories. Reads and locks do not count.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.device().run.steps
    }

    /// Returns one number for each sync so far, including refused ones: the [`steps`](Self::steps)
    /// up to and including it. [`MemStorage::fail_sync`] could plan a fault for each of them.
    #[must_use]
    pub fn syncs(&self) -> Vec<u64> {
        self.device().run.syncs.clone()
    }

    /// Makes all operations fail with "the power is off" after `steps` operations.
    ///
    /// From then on nothing changes and nothing can be read, except with the methods of
    /// [`MemStorage`] itself. Tests then continue with [`MemStorage::power_cut`] or
    /// [`MemStorage::kill`].
    pub fn stop_after(&self, steps: u64) {
        self.device().run.stop = Some(steps);
    }

    /// Returns everything that a power cut could lose now, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        self.device().world.pending()
    }

    /// Returns the device after a power cut. `land` decides which part of each pending item reaches
    /// the disk; `true` means all of it and `false` nothing.
    ///
    /// Items reach the disk in order. The result is an independent device after a reboot, with this
    /// one's limit and unreadable bytes, but without its locks, planned faults and
    /// [`MemStorage::stop_after`]. Steps count from zero.
    ///
    /// A sector after the end of its file extends the file. A rename of a file whose creation was
    /// lost does nothing.
    #[must_use]
    pub fn power_cut<L: Into<CrashOutcome>>(&self, mut land: impl FnMut(&Pending) -> L) -> Self {
        let mut world = self.after_loss(&mut |item| land(item).into());
        world.reboot();
        Self::over(world)
    }

    /// Returns the device after it was detached and attached again without a reboot: for example, a
    /// cable was pulled, a file system was remounted after an error, or a network device restarted.
    ///
    /// `land` decides which pending items reach the disk, as in [`MemStorage::power_cut`], and all
    /// processes that used the device have ended. But the boot id is the same. So a file that
    /// carries the current boot id may still have lost unsynced writes.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_io::{File, Storage};
    /// use seawall_testkit::MemStorage;
    ///
    /// let device = MemStorage::new();
    /// let file = device.create("notes")?;
    /// device.sync_dir()?;
    /// file.write_at(b"unsynced", 0)?;
    ///
    /// let after = device.detach(|_| false);
    /// assert_eq!(after.bytes("notes"), Some(vec![]));
    /// assert_eq!(after.boot_id(), device.boot_id());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn detach<L: Into<CrashOutcome>>(&self, mut land: impl FnMut(&Pending) -> L) -> Self {
        Self::over(self.after_loss(&mut |item| land(item).into()))
    }

    /// Returns the content of the disk after pending items reached it as `land` decides.
    fn after_loss(&self, land: &mut dyn FnMut(&Pending) -> CrashOutcome) -> World {
        let mut world = self.device().world.clone();
        world.settle(|_| true, land);
        world.restart();
        world
    }

    /// Returns the device after the process was killed while the machine kept running.
    ///
    /// The result is an independent device. It keeps the cache, the pending items and the boot id,
    /// but not the locks, planned faults and [`MemStorage::stop_after`]. Steps count from zero.
    #[must_use]
    pub fn kill(&self) -> Self {
        Self::over(self.device().world.clone())
    }

    /// Makes the `nth` sync from now fail, of a file or a directory; 0 is the next one.
    ///
    /// `land` decides which of its items reach the disk. The others are dropped, while the cache
    /// still shows them, as on Linux. `land` must not use the device.
    pub fn fail_sync<L: Into<CrashOutcome>>(
        &self,
        nth: u64,
        mut land: impl FnMut(&Pending) -> L + Send + 'static,
    ) {
        self.plan(nth, Fate::Fail(Box::new(move |item| land(item).into())));
    }

    /// Makes the `nth` sync from now succeed although its items reach the disk only as `land`
    /// decides: the device lost or misplaced writes without an error. The cache still shows them in
    /// the right place. `land` must not use the device.
    pub fn lie_at_sync<L: Into<CrashOutcome>>(
        &self,
        nth: u64,
        mut land: impl FnMut(&Pending) -> L + Send + 'static,
    ) {
        self.plan(nth, Fate::Lie(Box::new(move |item| land(item).into())));
    }

    /// Makes the `nth` sync from now fail and corrupt on the disk each block of `block` bytes that
    /// contains one of its writes, including older data in the block. The cache still shows what
    /// was written.
    pub fn spoil_sync(&self, nth: u64, block: usize) {
        self.plan(nth, Fate::Spoil(block));
    }

    fn plan(&self, nth: u64, fate: Fate) {
        self.device().run.failures.push(PlannedSync { left: nth, fate });
    }

    /// Refuses all operations that would make the files take more than `bytes` in total.
    pub fn limit(&self, bytes: u64) {
        self.device().world.limit(bytes);
    }

    /// Returns the number of bytes that the files take: their lengths and the space reserved
    /// beyond.
    #[must_use]
    pub fn used(&self) -> u64 {
        u64::try_from(self.device().world.used()).expect("lengths fit in 64 bits")
    }

    /// Disables reserving space beyond the end of a file, as on file systems without `fallocate`.
    pub fn reserve_nothing(&self) {
        self.device().world.reserve_nothing();
    }

    /// Makes an overwrite take as much space as new bytes until it is synced, as on copy-on-write
    /// file systems (btrfs, ZFS, shared extents of XFS): data goes to a new place, and the old
    /// place becomes free when the new one is durable. Overwrites beyond [`MemStorage::limit`] are
    /// refused, and [`recycle`](seawall_io::Storage::recycle) removes files.
    pub fn copy_on_write(&self) {
        self.device().world.copy_on_write();
    }

    /// Makes all reads that touch these bytes of a file fail.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn fail_read(&self, name: &str, bytes: std::ops::Range<usize>) {
        self.device().world.spoil(&self.full(name), bytes);
    }

    /// Makes all writes to a file fail, or succeed again.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn refuse_writes(&self, name: &str, refused: bool) {
        self.device().world.refuse_writes(&self.full(name), refused);
    }

    /// Changes a file's bytes directly, to simulate damage. The change is immediately durable.
    /// Pending changes of the file are dropped.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(name).expect("only an existing file can be edited");
        change(&mut bytes);
        self.device().world.replace(&self.full(name), bytes);
    }

    /// Changes a file's bytes on the disk only. The cache is unchanged until [`MemStorage::evict`],
    /// and pending items may still reach the disk.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn edit_disk(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.device().world.edit_disk(&self.full(name), change);
    }

    /// Drops everything from the cache that is not pending, so that it is read from the disk again.
    pub fn evict(&self) {
        self.device().world.evict();
    }

    /// Returns the content of a file as the cache shows it; `None` if the file does not exist.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.device().world.bytes(&self.full(name))
    }

    /// Returns the names of all files, sorted; those in directories as `directory/file`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.device().world.names(&self.prefix)
    }

    /// Removes a file, durably. Open handles keep working on the unnamed file.
    ///
    /// # Panics
    ///
    /// Panics if the file does not exist.
    pub fn remove_raw(&self, name: &str) {
        self.device().world.remove_raw(&self.full(name));
    }

    /// Replaces `to` with a copy of `from` as the cache shows it, durably.
    ///
    /// # Panics
    ///
    /// Panics if `from` does not exist.
    pub fn copy_raw(&self, from: &str, to: &str) {
        let bytes = self.bytes(from).expect("only an existing file can be copied");
        self.device().world.place_raw(&self.full(to), bytes);
    }
}

impl Default for MemStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl Debug for MemStorage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemStorage").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// A poisoned mutex is fine: the device's state is consistent after a test's panic.
fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    fn powered(&self) -> io::Result<()> {
        match self.run.stop {
            Some(stop) if self.run.steps >= stop => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    fn step(&mut self) -> io::Result<()> {
        self.powered()?;
        self.run.steps += 1;
        Ok(())
    }

    /// Makes the items that `mine` accepts durable, or fails as planned.
    fn sync(&mut self, mine: impl Fn(&Item) -> bool) -> io::Result<()> {
        match self.run.planned_failure() {
            None => {
                self.world.settle(mine, &mut |_| CrashOutcome::Whole);
                Ok(())
            }
            Some(Fate::Fail(mut land)) => {
                self.world.settle(mine, &mut land);
                Err(Errno::IO.into())
            }
            Some(Fate::Lie(mut land)) => {
                self.world.settle(mine, &mut land);
                Ok(())
            }
            Some(Fate::Spoil(block)) => {
                self.world.settle(mine, &mut |item| match item.what {
                    What::Sector(_) => CrashOutcome::Garbled(block),
                    What::Length(_) | What::Directory => CrashOutcome::Whole,
                });
                Err(Errno::IO.into())
            }
        }
    }
}

impl Run {
    /// Counts a sync and returns its planned fault.
    fn planned_failure(&mut self) -> Option<Fate> {
        self.syncs.push(self.steps);
        let due = self.failures.iter().position(|failure| failure.left == 0);
        let failure = due.map(|index| self.failures.swap_remove(index));
        for failure in &mut self.failures {
            failure.left = failure.left.saturating_sub(1);
        }
        failure.map(|failure| failure.fate)
    }
}

#[cfg(test)]
mod tests;
