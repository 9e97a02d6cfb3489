//! A device in memory that fails as devices do: as planned, or by chance that follows from a seed.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Access, File, Lock, Storage};

use crate::dice::Dice;
use crate::fault::{Act, Fault, Injected, Kind};
use crate::file::FaultFile;
use crate::injector::{Call, Injector, Pace, refused};
use crate::mem_storage::MemStorage;

/// What a device writes as a whole, unless a disk is told otherwise, in bytes.
const BLOCK: usize = 4096;

/// A device in memory, as [`MemStorage`], that goes wrong where it was told to or by chance.
///
/// Every call is a step, reads too, and steps are numbered from 1. A fault is planned for a step by
/// [`FaultDisk::plan`], or drawn by [`FaultDisk::draw`]; one that does not suit the call at its
/// step waits for the next that it suits. What came to pass is told by [`FaultDisk::injected`]:
/// planned anew for the same calls, it comes to pass again.
///
/// What a device does wrong *between* two lives of a program is done by [`harm`](crate::harm), and
/// what a crash leaves by [`MemStorage::power_cut`] and [`MemStorage::kill`] of
/// [`FaultDisk::device`].
///
/// # Examples
///
/// A log survives a failed sync, and goes on:
///
/// ```
/// use std::sync::Arc;
/// use seawall::{Log, Options};
/// use seawall_testkit::MemStorage;
/// use seawall_testkit::{Fault, FaultDisk, Kind};
///
/// let disk = FaultDisk::new(MemStorage::new());
/// let log: Log<u32> = Options::new().preallocate(false).open_in(Arc::new(disk.clone()))?;
/// log.append(&1)?;
/// disk.plan(disk.steps() + 1, Fault { kind: Kind::FailedSync, seed: 7 });
/// log.append(&2)?;
/// assert_eq!(log.stats().failovers, 1);
/// assert_eq!(disk.injected().len(), 1);
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Clone)]
pub struct FaultDisk {
    device: MemStorage,
    /// The folder that this handle shows.
    inner: Arc<dyn Storage>,
    /// Its path, with a slash at the end, or nothing.
    prefix: String,
    injector: Arc<Injector>,
}

impl FaultDisk {
    /// A disk that does nothing wrong yet.
    #[must_use]
    pub fn new(device: MemStorage) -> Self {
        Self::build(device, BLOCK, None)
    }

    /// The same with blocks of `block` bytes, and `pace` is called before each call with the time
    /// that the call takes, which is none unless it stalls: it may move a clock on, or let other
    /// threads run.
    #[must_use]
    pub fn paced(
        device: MemStorage,
        block: usize,
        pace: impl Fn(Duration) + Send + Sync + 'static,
    ) -> Self {
        Self::build(device, block, Some(Box::new(pace)))
    }

    fn build(device: MemStorage, block: usize, pace: Option<Pace>) -> Self {
        let injector = Arc::new(Injector::new(device.clone(), block, pace));
        Self { inner: Arc::new(device.clone()), device, prefix: String::new(), injector }
    }

    /// Lets this go wrong at step `step`, or at the first one behind it that it suits.
    pub fn plan(&self, step: u64, fault: Fault) {
        self.injector.plan(step, fault, None);
    }

    /// The same for calls of a file whose name `files` is true for, and for no other.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_io::{File, Storage};
    /// use seawall_testkit::MemStorage;
    /// use seawall_testkit::{Fault, FaultDisk, Kind};
    ///
    /// let disk = FaultDisk::new(MemStorage::new());
    /// disk.plan_for(1, Fault { kind: Kind::WriteError, seed: 7 }, |name| name == "notes");
    /// disk.create("others")?.write_at(b"kept", 0)?;
    /// assert!(disk.create("notes").is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan_for(&self, step: u64, fault: Fault, files: fn(&str) -> bool) {
        self.injector.plan(step, fault, Some(files));
    }

    /// Lets one call in `one_in`, on average, go wrong in one of these ways; which one and how
    /// follows from `seed` and the calls.
    pub fn draw(&self, seed: u64, one_in: u64, kinds: &[Kind]) {
        self.injector.draw(Dice::new(seed), one_in, kinds);
    }

    /// Lets all calls behind step `steps` fail with "the power is off", and change nothing.
    ///
    /// Take [`MemStorage::power_cut`] or [`MemStorage::kill`] of [`FaultDisk::device`] from there.
    pub fn stop_after(&self, steps: u64) {
        self.injector.stop_after(steps);
    }

    /// The number of calls so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.injector.steps()
    }

    /// A sum over all calls so far and what came of them: equal for equal runs.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.injector.trace()
    }

    /// What went wrong so far, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.injector.injected()
    }

    /// Whether the power is off, as [`FaultDisk::stop_after`] told it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.injector.is_stopped()
    }

    /// The device below, which does no wrong by itself.
    #[must_use]
    pub fn device(&self) -> &MemStorage {
        &self.device
    }

    /// Does a call of the folder.
    fn call<T>(
        &self,
        (act, name): (Act, &str),
        with: impl FnOnce(&dyn Storage) -> io::Result<T>,
    ) -> io::Result<T> {
        let call = Call { act, file: &format!("{}{name}", self.prefix), numbers: [0; 2] };
        let done = match self.injector.begin(&call)? {
            Some(fault) if act == Act::SyncDir => {
                self.injector.sync_with(fault, &self.prefix, || with(&*self.inner))
            }
            Some(Fault { kind: Kind::WriteError, .. }) => Err(refused()),
            _ => with(&*self.inner),
        };
        self.injector.end(done.is_ok());
        done
    }

    fn wrap(&self, file: Arc<dyn File>, name: &str) -> Arc<dyn File> {
        let name = format!("{}{name}", self.prefix);
        Arc::new(FaultFile::new(file, name, self.injector.clone()))
    }
}

impl Storage for FaultDisk {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let opened = self.call((Act::Open, name), |inner| inner.open(name, access))?;
        Ok(self.wrap(opened, name))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let created = self.call((Act::Create, name), |inner| inner.create(name))?;
        Ok(self.wrap(created, name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call((Act::Rename, to), |inner| inner.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.call((Act::Rename, to), |inner| inner.rename_new(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call((Act::Remove, name), |inner| inner.remove(name))
    }

    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        let rest = self.call((Act::Remove, name), |inner| inner.retire(name))?;
        Ok(rest.map(|file| self.wrap(file, name)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.call((Act::List, ""), |inner| inner.list())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.call((Act::SyncDir, ""), |inner| inner.sync_dir())
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.call((Act::Lock, name), |inner| inner.lock(name))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.call((Act::Lock, name), |inner| inner.is_locked(name))
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.call((Act::Lock, name), |inner| inner.lock_file(name))
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.call((Act::Lock, name), |inner| inner.is_file_locked(name))
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        let inner = self.call((Act::Folder, name), |inner| inner.folder(name))?;
        let prefix = format!("{}{name}/", self.prefix);
        let (device, injector) = (self.device.clone(), self.injector.clone());
        Ok(Arc::new(Self { device, inner, prefix, injector }))
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

impl Debug for FaultDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultDisk").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
