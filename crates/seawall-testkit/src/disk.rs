//! A device in memory with faults, which are planned or drawn from a seed.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use seawall_io::{Access, File, Lock, Recycled, Storage};

use crate::dice::Dice;
use crate::fault::{Act, Fault, Injected, Kind};
use crate::file::FaultFile;
use crate::injector::{Call, Injector, Pace, refused, sum};
use crate::mem_storage::MemStorage;

/// The default size of the blocks that a device writes as a unit, in bytes.
const BLOCK: usize = 4096;

/// A [`MemStorage`] that injects faults.
///
/// Every call is a step, including reads. Steps are numbered from 1. [`FaultDisk::plan`] plans a
/// fault for a step, and [`FaultDisk::draw`] draws faults at random. A fault that does not fit the
/// call at its step waits for the next call that it fits. [`FaultDisk::injected`] returns the
/// faults that occurred; planning these again for the same calls reproduces the run.
///
/// For damage *between* two runs of a program, use [`harm`](crate::harm). For the state after a
/// crash, use [`MemStorage::power_cut`] and [`MemStorage::kill`] on [`FaultDisk::device`].
///
/// # Examples
///
/// A log survives a failed sync and continues:
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
    /// The directory that this handle accesses.
    inner: Arc<dyn Storage>,
    /// The directory's path with a trailing slash, or empty.
    prefix: String,
    injector: Arc<Injector>,
}

impl FaultDisk {
    /// Creates a disk without faults.
    #[must_use]
    pub fn new(device: MemStorage) -> Self {
        Self::build(device, BLOCK, None)
    }

    /// Creates a disk with blocks of `block` bytes. Before each call, `pace` is called with the
    /// duration of the call, which is zero unless it stalls. It may advance a clock or let other
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

    /// Plans a fault for step `step`, or the first later step that it fits.
    pub fn plan(&self, step: u64, fault: Fault) {
        self.injector.plan(step, fault, None);
    }

    /// Plans a fault for calls on files whose names `files` accepts.
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

    /// Makes one call in `one_in`, on average, fail in one of these ways. The choices depend only
    /// on `seed` and the calls.
    pub fn draw(&self, seed: u64, one_in: u64, kinds: &[Kind]) {
        self.injector.draw(Dice::new(seed), one_in, kinds);
    }

    /// Makes all calls after step `steps` fail with "the power is off" and change nothing.
    ///
    /// Then use [`MemStorage::power_cut`] or [`MemStorage::kill`] on [`FaultDisk::device`].
    pub fn stop_after(&self, steps: u64) {
        self.injector.stop_after(steps);
    }

    /// Returns the number of calls so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.injector.steps()
    }

    /// Returns a checksum of all calls so far and their results. Equal runs have equal checksums.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.injector.trace()
    }

    /// Returns the faults that occurred so far, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.injector.injected()
    }

    /// Returns whether the power is off, as set with [`FaultDisk::stop_after`].
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.injector.is_stopped()
    }

    /// Returns the underlying device, which has no faults of its own.
    #[must_use]
    pub fn device(&self) -> &MemStorage {
        &self.device
    }

    /// Performs a call on the directory.
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

    /// Simulates a failure to recycle a file, in some cases after the file was renamed.
    fn fail_to_recycle(&self, seed: u64, (name, spare): (&str, &str)) -> io::Error {
        let is_renamed = Dice::new(seed).one_in(2);
        let renamed = if is_renamed { self.inner.rename_new(name, spare) } else { Ok(()) };
        renamed.err().unwrap_or_else(refused)
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

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        let file = format!("{}{name}", self.prefix);
        let call = Call { act: Act::Recycle, file: &file, numbers: [sum(spare.as_bytes()), 0] };
        let recycled = match self.injector.begin(&call)? {
            Some(Fault { kind: Kind::WriteError, seed }) => {
                Err(self.fail_to_recycle(seed, (name, spare)))
            }
            _ => self.inner.recycle(name, spare),
        };
        self.injector.end(recycled.is_ok());
        Ok(match recycled? {
            Recycled::Renamed(file) => Recycled::Renamed(self.wrap(file, spare)),
            Recycled::Removed(rest) => Recycled::Removed(rest.map(|file| self.wrap(file, name))),
        })
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
