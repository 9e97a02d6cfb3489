//! A device in memory that fails as devices do: as planned, or by chance that follows from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::mem_storage::MemStorage;
use crate::mem_storage::pending::{CrashOutcome, Pending, What};
use seawall_io::{Access, File, Lock, Storage};

use crate::dice::Dice;
use crate::fault::{Act, Fault, Injected, Kind};
use crate::file::FaultFile;

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
    shared: Arc<Shared>,
}

/// What all handles and files of a disk share.
pub(crate) struct Shared {
    device: MemStorage,
    /// How many bytes a spoiled sync garbles for each of its sectors.
    block: usize,
    pace: Option<Pace>,
    state: Mutex<State>,
    /// Held while a sync is told how to fail.
    syncing: Mutex<()>,
}

/// Called before each call of the device, with the time that the call takes.
type Pace = Box<dyn Fn(Duration) + Send + Sync>;

#[derive(Default)]
struct State {
    steps: u64,
    trace: u64,
    stop: Option<u64>,
    planned: BTreeMap<u64, Vec<Planned>>,
    chance: Option<Chance>,
    injected: Vec<Injected>,
    /// Files that fail for good.
    broken: BTreeSet<String>,
    full_until: u64,
    /// Until then overwrites need room, too.
    copies_until: u64,
}

/// A fault, and the files that it is for; `None`: all.
struct Planned {
    fault: Fault,
    files: Option<fn(&str) -> bool>,
}

struct Chance {
    dice: Dice,
    one_in: u64,
    kinds: Vec<Kind>,
}

/// What a call is about.
pub(crate) struct Call<'a> {
    pub(crate) act: Act,
    pub(crate) file: &'a str,
    /// Distinguishes calls of the same kind: an offset, a length, a sum of bytes.
    pub(crate) numbers: [u64; 2],
}

/// What a device writes as a whole, unless a disk is told otherwise, in bytes.
const BLOCK: usize = 4096;

/// The longest time that a call stalls, in microseconds.
const STALL_US_MAX: u64 = 10_000_000;

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
        let shared = Shared {
            device: device.clone(),
            block,
            pace,
            state: Mutex::default(),
            syncing: Mutex::default(),
        };
        let inner = Arc::new(device.clone());
        Self { device, inner, prefix: String::new(), shared: Arc::new(shared) }
    }

    /// Lets this go wrong at step `step`, or at the first one behind it that it suits.
    pub fn plan(&self, step: u64, fault: Fault) {
        self.shared.state().planned.entry(step).or_default().push(Planned { fault, files: None });
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
        let planned = Planned { fault, files: Some(files) };
        self.shared.state().planned.entry(step).or_default().push(planned);
    }

    /// Lets one call in `one_in`, on average, go wrong in one of these ways; which one and how
    /// follows from `seed` and the calls.
    pub fn draw(&self, seed: u64, one_in: u64, kinds: &[Kind]) {
        let chance = Chance { dice: Dice::new(seed), one_in, kinds: kinds.to_vec() };
        self.shared.state().chance = Some(chance);
    }

    /// Lets all calls behind step `steps` fail with "the power is off", and change nothing.
    ///
    /// Take [`MemStorage::power_cut`] or [`MemStorage::kill`] of [`FaultDisk::device`] from there.
    pub fn stop_after(&self, steps: u64) {
        self.shared.state().stop = Some(steps);
    }

    /// The number of calls so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.shared.state().steps
    }

    /// A sum over all calls so far and what came of them: equal for equal runs.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.shared.state().trace
    }

    /// What went wrong so far, in order.
    #[must_use]
    pub fn injected(&self) -> Vec<Injected> {
        self.shared.state().injected.clone()
    }

    /// Whether the power is off, as [`FaultDisk::stop_after`] told it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let state = self.shared.state();
        state.stop.is_some_and(|stop| state.steps >= stop)
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
        let done = match self.shared.begin(&call)? {
            Some(fault) if act == Act::SyncDir => {
                self.shared.sync_with(fault, &self.prefix, || with(&*self.inner))
            }
            Some(Fault { kind: Kind::WriteError, .. }) => Err(refused()),
            _ => with(&*self.inner),
        };
        self.shared.end(done.is_ok());
        done
    }

    fn wrap(&self, file: Arc<dyn File>, name: &str) -> Arc<dyn File> {
        let name = format!("{}{name}", self.prefix);
        Arc::new(FaultFile::new(file, name, self.shared.clone()))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; what goes wrong in it.
    pub(crate) fn begin(&self, call: &Call<'_>) -> io::Result<Option<Fault>> {
        let mut state = self.state();
        if state.stop.is_some_and(|stop| state.steps >= stop) {
            return Err(io::Error::other("the power is off"));
        }
        state.steps += 1;
        state.note(call);
        let fault = state.due(call);
        if let Some(fault) = fault {
            state.inject(fault, call.file);
        }
        let broken = matches!(call.act, Act::Read | Act::Write) && state.broken.contains(call.file);
        drop(state);
        if let Some(pace) = &self.pace {
            pace(match fault {
                Some(Fault { kind: Kind::Stall, seed }) => {
                    Duration::from_micros(Dice::new(seed).below(STALL_US_MAX))
                }
                _ => Duration::ZERO,
            });
        }
        if broken { Err(refused()) } else { Ok(fault) }
    }

    /// Notes what came of it.
    pub(crate) fn end(&self, succeeded: bool) {
        self.state().add(u64::from(succeeded) + 1);
    }

    /// Whether files can grow now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.steps < state.full_until.max(state.copies_until)
    }

    /// Whether files cannot be overwritten now, as that needs room, too.
    pub(crate) fn is_full_for_overwrites(&self) -> bool {
        let state = self.state();
        state.steps < state.copies_until
    }

    /// Does `sync`, and lets it go wrong that way.
    pub(crate) fn sync_with<T>(
        &self,
        fault: Fault,
        prefix: &str,
        sync: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let _guard = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let dice = Dice::new(fault.seed);
        match fault.kind {
            Kind::FailedSync => self.device.fail_sync(0, by_lot(dice)),
            Kind::SpoiledSync => self.device.spoil_sync(0, self.block),
            Kind::LostWrite => self.device.lie_at_sync(0, by_lot(dice)),
            Kind::MisdirectedWrite => self.device.lie_at_sync(0, self.one_astray(dice, prefix)),
            _ => {}
        }
        sync()
    }

    /// Lets one sector land in the place of another, and the others where they belong.
    fn one_astray(
        &self,
        mut dice: Dice,
        file: &str,
    ) -> impl FnMut(&Pending) -> CrashOutcome + Send + use<> {
        let names = self.device.names();
        let mut left = Some(dice.below(4));
        let target = if dice.one_in(3) { dice.pick(&names).cloned() } else { None };
        let file = target.unwrap_or_else(|| file.to_owned());
        let sector = dice.below(24);
        move |item| {
            let is_sector = matches!(item.what, What::Sector(_));
            match left {
                Some(0) if is_sector => {
                    left = None;
                    CrashOutcome::Astray { file: file.clone(), sector }
                }
                Some(count) if is_sector => {
                    left = Some(count - 1);
                    CrashOutcome::Whole
                }
                _ => CrashOutcome::Whole,
            }
        }
    }
}

/// Each item lands or does not; now and then all of them are lost.
fn by_lot(mut dice: Dice) -> impl FnMut(&Pending) -> bool + Send {
    let all_lost = dice.one_in(3);
    move |_| !all_lost && dice.one_in(2)
}

impl State {
    fn due(&mut self, call: &Call<'_>) -> Option<Fault> {
        let (steps, act) = (self.steps, call.act);
        let mut planned = self.planned.range_mut(..=steps).filter_map(|(step, faults)| {
            let suits = |planned: &Planned| {
                planned.fault.kind.applies_to(act)
                    && planned.files.is_none_or(|files| files(call.file))
            };
            let place = faults.iter().position(suits)?;
            Some((*step, faults.remove(place).fault))
        });
        if let Some((step, fault)) = planned.next() {
            if self.planned.get(&step).is_some_and(Vec::is_empty) {
                self.planned.remove(&step);
            }
            return Some(fault);
        }
        let chance = self.chance.as_mut()?;
        if !chance.dice.one_in(chance.one_in) {
            return None;
        }
        let suits = |kind: &&Kind| kind.applies_to(act);
        let kinds: Vec<Kind> = chance.kinds.iter().filter(suits).copied().collect();
        let kind = *chance.dice.pick(&kinds)?;
        Some(Fault { kind, seed: chance.dice.any() & 0xFFFF })
    }

    fn inject(&mut self, fault: Fault, file: &str) {
        match fault.kind {
            Kind::LastingError => drop(self.broken.insert(file.to_owned())),
            Kind::Full => self.full_until = self.steps + 1 + Dice::new(fault.seed).below(40),
            Kind::FullCopying => {
                self.copies_until = self.steps + 1 + Dice::new(fault.seed).below(40);
            }
            _ => {}
        }
        self.injected.push(Injected { step: self.steps, fault, file: file.to_owned() });
    }

    fn note(&mut self, call: &Call<'_>) {
        self.add(call.act.number());
        call.numbers.into_iter().for_each(|number| self.add(number));
        self.add(sum(call.file.as_bytes()));
    }

    fn add(&mut self, number: u64) {
        self.trace = step_of_sum(self.trace, number);
    }
}

/// A sum over bytes that tells most contents apart; for traces.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(target, byte)| *target = *byte);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).fold(0, step_of_sum)
}

fn step_of_sum(sum: u64, number: u64) -> u64 {
    (sum.rotate_left(5) ^ number).wrapping_mul(0x517C_C1B7_2722_0A95)
}

/// What a device says that fails.
pub(crate) fn refused() -> io::Error {
    io::Error::other("the device failed, as it was told to")
}

/// What a device says that is full.
pub(crate) fn no_room() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
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
        let (device, shared) = (self.device.clone(), self.shared.clone());
        Ok(Arc::new(Self { device, inner, prefix, shared }))
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

impl Debug for Shared {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
