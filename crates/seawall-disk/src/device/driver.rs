//! Drives a cache over files, which hold only durable bytes.

use super::cache::{Cache, Fate, Place, Run};
use crate::layout::{SECTOR_SIZE, to_u64, to_usize};
use crate::nbd::target::Target;
use seawall_io::{Clock, Entropy, File, SeededEntropy};
use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most bytes that the cache holds. When it is full, a write waits for a flush, as on a real
/// device.
pub const CACHE_MAX: usize = 64 << 20;

/// The time that a flush takes: a fixed delay and the time for its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time of every flush, however small.
    pub delay: Duration,
    /// Bytes a second; 0 for no limit.
    pub bandwidth: u64,
}

impl Cost {
    /// The time that a flush of `bytes` bytes takes.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_disk::device::Cost;
    /// use std::time::Duration;
    ///
    /// let cost = Cost { delay: Duration::from_micros(8300), bandwidth: 1_000_000 };
    /// assert_eq!(cost.of(2_000), Duration::from_micros(10_300));
    /// ```
    #[must_use]
    pub fn of(&self, bytes: usize) -> Duration {
        let nanos = to_u64(bytes).saturating_mul(1_000_000_000);
        let moved = nanos.checked_div(self.bandwidth).unwrap_or_default();
        self.delay.saturating_add(Duration::from_nanos(moved))
    }
}

/// How long this process took to write the bytes of its last flush to the files.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    bytes: usize,
    took: Duration,
}

impl Pace {
    fn of(self, bytes: usize) -> Duration {
        let of = |bytes| u128::try_from(bytes).unwrap_or(u128::MAX);
        let nanos = self.took.as_nanos().saturating_mul(of(bytes)).checked_div(of(self.bytes));
        nanos
            .and_then(|nanos| u64::try_from(nanos).ok())
            .map(Duration::from_nanos)
            .unwrap_or_default()
    }

    fn took(&mut self, bytes: usize, took: Duration) {
        *self = Self { bytes, took };
    }
}

/// A device with a volatile cache over several regions.
///
/// Reads and writes continue during a flush. A flush that is requested meanwhile waits for it, and
/// takes no further time if the first one covered its writes.
///
/// # Examples
///
/// ```
/// use seawall_disk::device::{Cost, Device};
/// use seawall_disk::nbd::Target;
/// use seawall_io::{File, Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::sync::Arc;
///
/// let storage = MemStorage::new();
/// let (home, area) = (storage.create("home")?, storage.create("area")?);
/// home.set_len(8192)?;
/// area.set_len(4096)?;
/// let regions = vec![home.clone(), area];
/// let device = Arc::new(Device::new(regions, Cost::default(), Arc::new(SystemClock::new()))?);
///
/// let region = device.region(0);
/// region.write(100, b"flushed")?;
/// region.flush()?;
/// region.write(100, b"written")?;
/// let mut durable = [0; 7];
/// home.read_at(&mut durable, 100)?;
/// assert_eq!(&durable, b"flushed");
///
/// device.cut(7)?;
/// assert!(region.read(100, &mut durable).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Device {
    state: Mutex<State>,
    /// Held during a flush, so that there is one at a time. Lock order: before the state.
    turn: Mutex<Pace>,
    /// The durable bytes of each region.
    files: Vec<Arc<dyn File>>,
    sizes: Vec<u64>,
    cost: Cost,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    cache: Cache,
    is_off: bool,
}

impl Device {
    /// Returns a device over `files`: one for each region, as long as the region.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a length that is not a whole number of sectors;
    /// otherwise the error of a file.
    pub fn new(files: Vec<Arc<dyn File>>, cost: Cost, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let sizes = files.iter().map(|file| file.len()).collect::<io::Result<Vec<u64>>>()?;
        if let Some(size) = sizes.iter().find(|size| !size.is_multiple_of(to_u64(SECTOR_SIZE))) {
            let why = format!("{size} bytes are not a whole number of sectors of {SECTOR_SIZE}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (state, turn) = (Mutex::default(), Mutex::default());
        Ok(Self { state, turn, files, sizes, cost, clock })
    }

    /// Returns the region of this index.
    ///
    /// # Panics
    ///
    /// If there is no region of this index.
    #[must_use]
    pub fn region(self: &Arc<Self>, index: usize) -> Region {
        assert!(index < self.files.len(), "there are {} regions", self.files.len());
        Region { device: self.clone(), index }
    }

    /// Returns when everything written before, to any region, is durable.
    ///
    /// # Errors
    ///
    /// The error of a file. Every call fails after the power is cut.
    pub fn flush(&self) -> io::Result<()> {
        let wanted = self.on()?.cache.newest();
        let mut pace = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.on()?;
        if state.cache.is_durable(wanted) {
            return Ok(());
        }
        let began = self.clock.now();
        let (covered, bytes) = (state.cache.newest(), state.cache.dirty());
        // The time that this process needs before and after the sleep is part of the flush's time.
        let runs = state.cache.settled(covered);
        drop(state);
        let cost = self.cost.of(bytes);
        let left = |clock: &dyn Clock| cost.saturating_sub(clock.now().saturating_sub(began));
        self.clock.sleep(left(&*self.clock).saturating_sub(pace.of(bytes)));
        let mut state = self.on()?;
        let woke = self.clock.now();
        self.put(&runs)?;
        state.cache.forget(covered);
        pace.took(bytes, self.clock.now().saturating_sub(woke));
        drop(state);
        // This flush was faster than the estimate; wait for the rest of its time.
        self.clock.sleep(left(&*self.clock));
        Ok(())
    }

    /// Makes everything durable, so that it also survives a power cut of the machine itself.
    ///
    /// # Errors
    ///
    /// As [`flush`](Device::flush).
    pub fn settle(&self) -> io::Result<()> {
        self.flush()?;
        self.files.iter().try_for_each(|file| file.sync())
    }

    /// Cuts the power. Which unflushed sectors are durable depends on `seed`, for each sector
    /// independently. Every later call fails.
    ///
    /// # Errors
    ///
    /// The error of a file, or an error if the power is off already.
    pub fn cut(&self, seed: u64) -> io::Result<Fate> {
        let mut state = self.on()?;
        state.is_off = true;
        let chance = SeededEntropy::new(seed);
        let (runs, fate) = state.cache.cut(|choices| {
            let lot = chance.random().unwrap_or_default();
            to_usize(lot % to_u64(choices))
        });
        self.put(&runs)?;
        Ok(fate)
    }

    fn put(&self, runs: &[Run]) -> io::Result<()> {
        for run in runs {
            let file = self.files.get(run.region).expect("every run belongs to a region");
            file.write_at(&run.bytes, run.offset)?;
        }
        Ok(())
    }

    /// Returns the locked state, or an error if the power is off.
    fn on(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_off { Err(io::Error::other("the power is off")) } else { Ok(state) }
    }
}

/// One region of a device: a disk to its clients.
#[derive(Clone, Debug)]
pub struct Region {
    device: Arc<Device>,
    index: usize,
}

impl Region {
    fn check(&self, offset: u64, size: usize) -> io::Result<()> {
        let (end, all) = (offset.checked_add(to_u64(size)), self.size());
        if end.is_some_and(|end| end <= all) {
            return Ok(());
        }
        let why = format!("{size} bytes at {offset} of a region of {all}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Reads the newest bytes: cached ones over durable ones.
    fn show(&self, state: &State, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.device.files.get(self.index).expect("the region exists");
        let read = file.read_at(bytes, offset)?;
        bytes.iter_mut().skip(read).for_each(|byte| *byte = 0);
        state.cache.read(self.index, offset, bytes);
        Ok(())
    }

    /// Extends bytes to whole sectors. The rest of the first and last sector keeps its contents.
    fn filled_up<'a>(
        &self,
        state: &State,
        offset: u64,
        bytes: &'a [u8],
    ) -> io::Result<Cow<'a, [u8]>> {
        let before = to_usize(offset % to_u64(SECTOR_SIZE));
        if before == 0 && bytes.len().is_multiple_of(SECTOR_SIZE) {
            return Ok(bytes.into());
        }
        let mut whole = vec![0; (before + bytes.len()).next_multiple_of(SECTOR_SIZE)];
        let from = offset - to_u64(before);
        let behind = to_u64(whole.len() - SECTOR_SIZE);
        if let Some(first) = whole.first_chunk_mut::<SECTOR_SIZE>() {
            self.show(state, from, first)?;
        }
        if let Some(last) = whole.last_chunk_mut::<SECTOR_SIZE>() {
            self.show(state, from + behind, last)?;
        }
        whole.iter_mut().skip(before).zip(bytes).for_each(|(to, from)| *to = *from);
        Ok(whole.into())
    }
}

impl Target for Region {
    fn size(&self) -> u64 {
        self.device.sizes.get(self.index).copied().unwrap_or_default()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        let state = self.device.on()?;
        self.show(&state, offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        loop {
            let mut state = self.device.on()?;
            if state.cache.held() + bytes.len() <= CACHE_MAX || state.cache.held() == 0 {
                let whole = self.filled_up(&state, offset, bytes)?;
                let sector = offset / to_u64(SECTOR_SIZE);
                state.cache.write(Place { region: self.index, sector }, &whole);
                return Ok(());
            }
            drop(state);
            self.device.flush()?;
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.device.flush()
    }

    fn drain(&self) -> io::Result<()> {
        self.device.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::{Storage, SystemClock};
    use seawall_testkit::MemStorage;
    use std::sync::{Condvar, mpsc};
    use std::thread;

    fn device_with(clock: Arc<dyn Clock>) -> (Arc<Device>, MemStorage) {
        let storage = MemStorage::new();
        let make = |name| {
            let file = storage.create(name).unwrap();
            file.set_len(8192).unwrap();
            file
        };
        let cost = Cost { delay: Duration::from_millis(5), bandwidth: 0 };
        let device = Device::new(vec![make("home"), make("area")], cost, clock).unwrap();
        (Arc::new(device), storage)
    }

    fn read(region: &Region, offset: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        region.read(offset, &mut bytes).unwrap();
        bytes
    }

    /// A clock whose `sleep` blocks until the test calls `open`.
    #[derive(Debug, Default)]
    struct Gate {
        sleepers: Mutex<(u32, bool)>,
        changed: Condvar,
    }

    impl Gate {
        fn wait_for_a_sleeper(&self) {
            let sleepers = self.sleepers.lock().unwrap();
            drop(self.changed.wait_while(sleepers, |sleepers| sleepers.0 == 0).unwrap());
        }

        fn open(&self) {
            self.sleepers.lock().unwrap().1 = true;
            self.changed.notify_all();
        }
    }

    impl Clock for Gate {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn wall_us(&self) -> u64 {
            0
        }

        fn sleep(&self, _: Duration) {
            let mut sleepers = self.sleepers.lock().unwrap();
            sleepers.0 += 1;
            self.changed.notify_all();
            drop(self.changed.wait_while(sleepers, |sleepers| !sleepers.1).unwrap());
        }
    }

    #[test]
    fn only_a_flush_makes_all_regions_durable() {
        let (device, storage) = device_with(Arc::new(SystemClock::new()));
        let (home, area) = (device.region(0), device.region(1));
        home.write(510, &[1; 4]).unwrap();
        area.write(0, &[2; 1024]).unwrap();
        assert_eq!(read(&home, 509, 6), [0, 1, 1, 1, 1, 0]);
        assert!(storage.bytes("home").unwrap().iter().all(|byte| *byte == 0));
        assert!(storage.bytes("area").unwrap().iter().all(|byte| *byte == 0));
        area.flush().unwrap();
        assert_eq!(storage.bytes("home").unwrap()[509..515], [0, 1, 1, 1, 1, 0]);
        assert_eq!(storage.bytes("area").unwrap()[1023..1025], [2, 0]);
    }

    #[test]
    fn writes_during_a_flush_continue_and_are_not_covered() {
        let clock = Arc::new(Gate::default());
        let (device, storage) = device_with(clock.clone());
        let home = device.region(0);
        home.write(0, &[1; 512]).unwrap();
        thread::scope(|scope| {
            let flush = scope.spawn(|| home.flush());
            clock.wait_for_a_sleeper();
            home.write(0, &[2; 512]).unwrap();
            assert_eq!(read(&home, 0, 1), [2]);
            assert_eq!(storage.bytes("home").unwrap()[0], 0, "it takes its time");
            clock.open();
            flush.join().unwrap().unwrap();
        });
        assert_eq!(storage.bytes("home").unwrap()[0], 1, "a later write is not in it");
        assert_eq!(read(&home, 0, 1), [2]);
    }

    #[test]
    fn flush_interrupted_by_a_power_cut_has_not_flushed() {
        let clock = Arc::new(Gate::default());
        let (device, _storage) = device_with(clock.clone());
        let home = device.region(0);
        home.write(0, &[1; 512]).unwrap();
        let (sender, result) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| sender.send(home.flush()).unwrap());
            clock.wait_for_a_sleeper();
            let fate = device.cut(1).unwrap();
            assert_eq!(fate.kept + fate.lost, 1);
            clock.open();
            result.recv().unwrap().unwrap_err();
        });
        home.write(0, &[1]).unwrap_err();
        home.flush().unwrap_err();
        device.cut(1).unwrap_err();
    }

    /// A clock that advances by a fixed step whenever it is read, and by the time of each sleep.
    #[derive(Debug, Default)]
    struct Steps {
        now: Mutex<Duration>,
        step: Mutex<Duration>,
    }

    impl Clock for Steps {
        fn now(&self) -> Duration {
            let mut now = self.now.lock().unwrap();
            *now += *self.step.lock().unwrap();
            *now
        }

        fn wall_us(&self) -> u64 {
            0
        }

        fn sleep(&self, duration: Duration) {
            *self.now.lock().unwrap() += duration;
        }
    }

    #[test]
    fn flush_takes_at_least_the_configured_time() {
        let clock = Arc::new(Steps::default());
        let (device, _storage) = device_with(clock.clone());
        let home = device.region(0);
        for (step, bytes) in [(1, 512), (0, 512), (0, 8192), (2, 512), (0, 4096)] {
            *clock.step.lock().unwrap() = Duration::from_millis(step);
            home.write(0, &vec![1; bytes]).unwrap();
            let before = *clock.now.lock().unwrap();
            home.flush().unwrap();
            let took = *clock.now.lock().unwrap() - before;
            assert!(took >= Duration::from_millis(5), "{bytes} bytes took {took:?}");
        }
    }

    #[test]
    fn seed_determines_what_a_power_cut_leaves() {
        let left = |seed| {
            let (device, storage) = device_with(Arc::new(SystemClock::new()));
            for byte in 1..=3 {
                device.region(0).write(0, &[byte; 8192]).unwrap();
            }
            let fate = device.cut(seed).unwrap();
            (fate, storage.bytes("home").unwrap())
        };
        assert_eq!(left(3), left(3));
        assert_ne!(left(3).1, left(4).1);
        let Fate { kept, older, lost } = left(3).0;
        assert!(kept > 0 && older > 0 && lost > 0 && kept + older + lost == 16);
    }

    #[test]
    fn access_beyond_a_region_is_refused() {
        let (device, _storage) = device_with(Arc::new(SystemClock::new()));
        let home = device.region(0);
        for offset in [8192, u64::MAX] {
            assert_eq!(home.write(offset, &[1]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(
                home.read(offset, &mut [0]).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}
