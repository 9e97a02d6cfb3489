//! A device in memory that can crash: what a test does to it, and what it tells.

pub(crate) mod pending;
mod storage_impl;
mod world;

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use self::pending::{CrashOutcome, Pending};
use self::world::{Item, NodeId, World};

/// A device in memory whose power can be cut.
///
/// Files are held twice: as the page cache shows them, and as the disk holds them. Whatever was
/// done but not synced is a list of [`Pending`] items, and a crash is a choice among them, so
/// a test can visit every state that a power cut may leave. A clone is another handle to the same
/// device. A new one holds at most 4 GiB, see [`MemStorage::limit`].
///
/// Two things are simpler than on real devices: a folder and a lock file are durable once they are
/// made, and zero-filling leaves either no bytes or all of them. A pending sector is an image of
/// the whole sector, so any order in which several of them may reach the disk leaves what some
/// choice of them leaves: a choice is all there is to try.
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
    /// Empty, or the folder that this handle shows, with a slash at the end.
    prefix: String,
}

struct Device {
    world: World,
    run: Run,
}

/// What ends with the process, or was planned for it.
#[derive(Default)]
struct Run {
    steps: u64,
    stop: Option<u64>,
    failures: Vec<PlannedSync>,
    /// The folders whose lock is held, each as the prefix of its names.
    locks: BTreeSet<String>,
    /// The files that are open for reading, each as often as it is.
    read: Vec<NodeId>,
}

struct PlannedSync {
    /// How many syncs come before.
    left: u64,
    fate: Fate,
}

/// What becomes of the items of a sync that is not as it should be.
enum Fate {
    /// They land as this says, and the sync fails.
    Fail(Land),
    /// They land as this says, and the sync succeeds all the same.
    Lie(Land),
    /// The blocks of so many bytes that they lie in are garbled on the disk, and the sync fails.
    Spoil(usize),
}

type Land = Box<dyn FnMut(&Pending) -> CrashOutcome + Send>;

const SECTOR_SIZE: usize = 512;

impl MemStorage {
    /// An empty device with sectors of 512 bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_sector(SECTOR_SIZE)
    }

    /// An empty device with sectors of `size` bytes: the unit that a crash keeps or loses whole.
    ///
    /// # Panics
    ///
    /// If `size` is zero.
    #[must_use]
    pub fn with_sector(size: usize) -> Self {
        assert!(size > 0, "a sector has a size");
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
        format!("{}{name}", self.prefix)
    }

    /// The number of changing operations so far, refused ones included; a place to cut.
    ///
    /// They are writes, syncs, changes of length, zero-filling, creations, renamings, removals
    /// and new folders; reads and locks do not count.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.device().run.steps
    }

    /// Lets everything fail with "the power is off" once `steps` operations have been counted.
    ///
    /// From then on nothing is changed and nothing can be read, except by the methods of
    /// [`MemStorage`] itself: tests look at what was left, and take [`MemStorage::power_cut`] or
    /// [`MemStorage::kill`] from there.
    pub fn stop_after(&self, steps: u64) {
        self.device().run.stop = Some(steps);
    }

    /// Everything that a power cut could lose now, in the order in which it was done.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        self.device().world.pending()
    }

    /// The device after a power cut in which the pending items landed as `land` says; `true` and
    /// `false` do for those that land whole and those that do not.
    ///
    /// They land in order. The result is a device of its own, on a new boot, with the limit and
    /// the unreadable bytes of this one; locks, the stop and planned failures are gone, and steps
    /// count from zero.
    ///
    /// A sector that lands behind the end of its file lengthens it. A renaming whose creation was
    /// lost does nothing.
    #[must_use]
    pub fn power_cut<L: Into<CrashOutcome>>(&self, mut land: impl FnMut(&Pending) -> L) -> Self {
        let mut world = self.after_loss(&mut |item| land(item).into());
        world.reboot();
        Self::over(world)
    }

    /// The device after it went away and came back while the machine ran on: a cable that was
    /// pulled, a file system that was shut down after an error and mounted again, a loop or network
    /// device that was started again.
    ///
    /// Of the pending items those are left that `land` says, as after [`MemStorage::power_cut`],
    /// and every process that used the device is gone; but the boot is the same. So what a file
    /// says of this boot may be old.
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

    /// What a machine finds on the disk when the pending items landed as `land` says.
    fn after_loss(&self, land: &mut dyn FnMut(&Pending) -> CrashOutcome) -> World {
        let mut world = self.device().world.clone();
        world.settle(|_| true, land);
        world.restart();
        world
    }

    /// The device after the process died and the machine went on.
    ///
    /// The result is a device of its own. Cache, pending items and boot stay; locks, the stop and
    /// planned failures are gone, and steps count from zero.
    #[must_use]
    pub fn kill(&self) -> Self {
        Self::over(self.device().world.clone())
    }

    /// Lets the `nth` sync from now, of a file or a directory, fail; 0 is the next one.
    ///
    /// What it should have made durable lands as `land` says; what does not is forgotten, while
    /// the cache goes on to show it: this is what Linux does. `land` must not use the device.
    pub fn fail_sync<L: Into<CrashOutcome>>(
        &self,
        nth: u64,
        mut land: impl FnMut(&Pending) -> L + Send + 'static,
    ) {
        self.plan(nth, Fate::Fail(Box::new(move |item| land(item).into())));
    }

    /// Lets the `nth` sync from now succeed though what it should have made durable lands as `land`
    /// says: writes that the device lost, or put elsewhere, and knows nothing of. The cache goes on
    /// to show them where they belong. `land` must not use the device.
    pub fn lie_at_sync<L: Into<CrashOutcome>>(
        &self,
        nth: u64,
        mut land: impl FnMut(&Pending) -> L + Send + 'static,
    ) {
        self.plan(nth, Fate::Lie(Box::new(move |item| land(item).into())));
    }

    /// Lets the `nth` sync from now fail and garble, on the disk alone, every block of `block`
    /// bytes that a write which it should have made durable lies in: neighbours in the block go
    /// with it. The cache goes on to show what was written.
    pub fn spoil_sync(&self, nth: u64, block: usize) {
        self.plan(nth, Fate::Spoil(block));
    }

    fn plan(&self, nth: u64, fate: Fate) {
        self.device().run.failures.push(PlannedSync { left: nth, fate });
    }

    /// Refuses from now on whatever would let the files take more than `bytes` in sum.
    pub fn limit(&self, bytes: u64) {
        self.device().world.limit(bytes);
    }

    /// How many bytes the files take: their lengths, and what is reserved beyond their ends.
    #[must_use]
    pub fn used(&self) -> u64 {
        u64::try_from(self.device().world.used()).expect("lengths fit in 64 bits")
    }

    /// Reserves no space beyond the end of a file from now on, as file systems without
    /// `fallocate`.
    pub fn reserve_nothing(&self) {
        self.device().world.reserve_nothing();
    }

    /// Lets an overwrite need as much room as new bytes do, until it is synced: a file system that
    /// copies on write (btrfs, ZFS, a shared extent of XFS) puts it in a new place, and the old one
    /// is free once the new one is durable. What [`MemStorage::limit`] leaves no room for is
    /// refused.
    pub fn copy_on_write(&self) {
        self.device().world.copy_on_write();
    }

    /// Lets every read fail from now on that touches these bytes of a file.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn fail_read(&self, name: &str, bytes: std::ops::Range<usize>) {
        self.device().world.spoil(&self.full(name), bytes);
    }

    /// Lets every write to a file fail from now on, or no longer.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn refuse_writes(&self, name: &str, refused: bool) {
        self.device().world.refuse_writes(&self.full(name), refused);
    }

    /// Changes a file's bytes behind everybody's back: damage, cuts, overwritten sectors.
    ///
    /// The result is durable at once; what was pending of this file is forgotten.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(name).expect("only an existing file can be edited");
        change(&mut bytes);
        self.device().world.replace(&self.full(name), bytes);
    }

    /// Changes what the disk holds of a file, and no more: the cache goes on to show what it showed
    /// until [`MemStorage::evict`], and what is pending may still land.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn edit_disk(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        self.device().world.edit_disk(&self.full(name), change);
    }

    /// Lets the cache forget all that is not pending: it is read from the disk again.
    pub fn evict(&self) {
        self.device().world.evict();
    }

    /// What the cache shows of a file, if there is one.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.device().world.bytes(&self.full(name))
    }

    /// The names of all files, sorted; those in folders as `folder/file`.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.device().world.names(&self.prefix)
    }

    /// Loses a file, durably and at once; a handle to it works on, on a file without a name.
    ///
    /// # Panics
    ///
    /// If there is no such file.
    pub fn remove_raw(&self, name: &str) {
        self.device().world.remove_raw(&self.full(name));
    }

    /// Puts a copy of what the cache shows of `from` in the place of `to`, durably and at once.
    ///
    /// # Panics
    ///
    /// If there is no file `from`.
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

/// A test that panicked elsewhere leaves a device that is as good as before.
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

    /// Makes `mine` durable, or fails as planned.
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
                self.world.garble(mine, block);
                Err(Errno::IO.into())
            }
        }
    }
}

impl Run {
    /// Counts one sync down; what the failure planned for it keeps.
    fn planned_failure(&mut self) -> Option<Fate> {
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
