//! A virtual disk in operation: one lock around ring and budget, and a thread that drains.
//!
//! A write is in the ring when it returns, as in the volatile cache of any disk. A flush is what
//! makes it durable: it returns at once while the [`Budget`] covers everything that is dirty, and
//! otherwise when the device has it.

use crate::budget::{Budget, Calibration, Disarmed, Supply};
use crate::dump::{Label, area_size, compose};
use crate::files::{Files, Recovered, bring_home, read_label};
use crate::layout::{BLOCK_SIZE, ZEROS, to_u64, to_usize};
use crate::options::Options;
use crate::ring::{Flight, Ring};
use crate::sync::{Builder, Condvar, JoinHandle, Mutex, MutexGuard};
use seawall_io::{AlignedMemory, Clock};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Failures in a row before the disk takes no more writes.
const FAILURES_MAX: u32 = 5;
/// How long the drainer waits behind a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// How long it sleeps when nothing is due.
const IDLE: Duration = Duration::from_millis(250);
/// Writes and flushes of a calibration.
const PROBES: u32 = 8;

/// A virtual disk.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    drainer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something landed, failed, or was armed anew.
    changed: Condvar,
    /// There is something to drain.
    wanted: Condvar,
    files: Files,
    /// Locked behind the state, if both are.
    area: Mutex<Area>,
    size: u64,
    clock: Arc<dyn Clock>,
}

/// The area belongs to one at a time.
#[derive(Debug)]
struct Area {
    label: Label,
    /// Memory for the dump, made before it is needed.
    memory: AlignedMemory,
    /// The newest dump.
    generation: u64,
    /// What the dump of this life took: there is one, as another would be written over it.
    dumped: Option<Emergency>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    budget: Budget,
    /// Flushes and writers that wait for the device.
    waiting: usize,
    failures: u32,
    /// The last error of the device.
    failure: Option<String>,
    counts: Counts,
    /// The most bytes that were dirty at a time.
    dirty_max: usize,
    /// The newest run that a flush was acknowledged for before it was on the device; 0: none.
    owed: u64,
    is_closing: bool,
}

/// What a disk has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes taken in.
    pub writes: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Writes that had to wait for room.
    pub deferred: u64,
    /// Flushes that found everything on the device.
    pub flushes_idle: u64,
    /// Flushes that were acknowledged before the device had everything.
    pub flushes_early: u64,
    /// Flushes that waited for the device.
    pub flushes_waited: u64,
    /// Runs written to the device.
    pub drained_runs: u64,
    /// Bytes of them.
    pub drained_bytes: u64,
    /// Flushes of the device.
    pub device_flushes: u64,
    /// Writes and flushes that the device failed.
    pub failures: u64,
}

/// How a disk stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Bytes that may be dirty, or why flushes wait.
    pub armed: Result<u64, Disarmed>,
    /// Bytes that are not on the device.
    pub dirty: usize,
    /// The most that were not.
    pub dirty_max: usize,
    /// How many of them the power would fail for now, among them such whose flush was acknowledged:
    /// the budget has shrunk since. They are on their way to the device.
    pub uncovered: usize,
    /// What feeds the machine.
    pub supply: Supply,
    /// What was measured of the device, with its longest flush up to now.
    pub calibration: Option<Calibration>,
    /// What the device said last, if it failed since the last success.
    pub failure: Option<String>,
    /// Whether it takes no more writes, because the device failed too often.
    pub is_read_only: bool,
    /// What it has done so far.
    pub counts: Counts,
}

/// What an emergency took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emergency {
    /// Bytes written to the area.
    pub bytes: usize,
    /// From the call to the end of the flush.
    pub took: Duration,
}

impl Disk {
    /// Opens a disk: what an emergency dumped is written home first, durably, whatever was written
    /// there since. [`inspect`](crate::inspect) tells before whether a dump waits, and of when.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the area is none, or of a home of another size, or too
    /// small for this ring. Whatever the device says.
    pub fn open(
        files: Files,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> io::Result<(Self, Option<Recovered>)> {
        let size = files.home.len()?;
        let mut label = read_label(&files, size)?;
        let needed = to_u64(area_size(options.buffers, options.buffer_size));
        if label.area_size < needed {
            let why =
                format!("the area has {} bytes, and this ring needs {needed}", label.area_size);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let recovered = bring_home(&files, &mut label, &mut || Ok(()))?;
        let mut memory = AlignedMemory::default();
        // Touched now: an emergency is no time to wait for pages.
        memory.first(to_usize(label.area_size)).fill(1);
        let area = Mutex::new(Area { label, memory, generation: label.used, dumped: None });
        let state = State {
            ring: Ring::new(options.buffers, options.buffer_size),
            budget: Budget::new(options.supply),
            waiting: 0,
            failures: 0,
            failure: None,
            counts: Counts::default(),
            dirty_max: 0,
            owed: 0,
            is_closing: false,
        };
        let (changed, wanted) = (Condvar::new(), Condvar::new());
        let state = Mutex::new(state);
        let shared = Arc::new(Shared { state, changed, wanted, files, area, size, clock });
        let its = shared.clone();
        let named = Builder::new().name("seawall-drain".to_owned());
        let drainer = named.spawn(move || its.drain_until_closed())?;
        Ok((Self { shared, drainer: Some(drainer) }, recovered))
    }

    /// Bytes of the disk.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.size
    }

    /// Takes bytes in. They are durable behind the next [`flush`](Disk::flush) that returns.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the disk's end; [`io::ErrorKind::ReadOnlyFilesystem`]
    /// when the power fails; [`io::ErrorKind::Other`] while the device fails again and again.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.check(offset, bytes.len())?;
        let mut state = self.shared.state();
        let piece = state.ring.write_max();
        let mut at = offset;
        for part in bytes.chunks(piece) {
            state = self.shared.take_in(state, at, part)?;
            at += to_u64(part.len());
        }
        state.counts.writes += 1;
        Ok(())
    }

    /// Writes so many zeros, in pieces: other writers may come in between.
    ///
    /// # Errors
    ///
    /// As [`write`](Disk::write); then some of it may be zeros already.
    pub fn write_zeros(&self, offset: u64, size: usize) -> io::Result<()> {
        self.shared.check(offset, size)?;
        let mut at = offset;
        let mut left = size;
        while left > 0 {
            // The first piece ends where a block ends, and so do all behind it.
            let past = to_usize(at % to_u64(BLOCK_SIZE));
            let piece = ZEROS.get(..left.min(ZEROS.len() - past)).unwrap_or(&ZEROS);
            self.write(at, piece)?;
            at += to_u64(piece.len());
            left -= piece.len();
        }
        Ok(())
    }

    /// Returns when everything that was written before is safe: on the device, or covered by the
    /// budget.
    ///
    /// # Errors
    ///
    /// The device's, when it has failed too often; [`io::ErrorKind::ReadOnlyFilesystem`] when the
    /// power fails.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        let newest = state.ring.newest();
        let mut has_waited = false;
        loop {
            if state.ring.is_home(newest) {
                state.counts.flushes_waited += u64::from(has_waited);
                state.counts.flushes_idle += u64::from(!has_waited);
                return Ok(());
            }
            if state.budget.covers(state.ring.dirty(), self.shared.clock.now()) {
                state.counts.flushes_early += 1;
                state.owed = state.owed.max(newest);
                return Ok(());
            }
            state.may_write()?;
            has_waited = true;
            state = self.shared.wait(state);
        }
    }

    /// Fills `bytes` with what the disk has at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the disk's end; whatever the device says.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.check(offset, bytes.len())?;
        loop {
            let before = self.shared.state().ring.landings();
            let read = self.shared.files.home.read_at(bytes, offset)?;
            bytes.iter_mut().skip(read).for_each(|byte| *byte = 0);
            let state = self.shared.state();
            if state.ring.landings() == before {
                state.ring.read(offset, bytes);
                return Ok(());
            }
        }
    }

    /// Returns when everything is on the device, whatever the budget says.
    ///
    /// # Errors
    ///
    /// As [`flush`](Disk::flush).
    pub fn drain(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        let newest = state.ring.newest();
        while !state.ring.is_home(newest) {
            state.may_write()?;
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// Measures the device, in the area, beside what it has to do otherwise; flushes wait for the
    /// device meanwhile, and return early from then on if the supply allows it.
    ///
    /// # Errors
    ///
    /// Whatever the device says; [`io::ErrorKind::ReadOnlyFilesystem`] when the power fails.
    pub fn calibrate(&self) -> io::Result<Calibration> {
        // A dump would have to wait for the area: nothing is to be owed meanwhile.
        self.shared.state().budget.forget_calibration();
        self.drain()?;
        let clock = &*self.shared.clock;
        let (mut worst, mut written) = (Duration::ZERO, Duration::MAX);
        let mut size = 0;
        for _ in 0..PROBES {
            let began = clock.now();
            size = self.shared.probe(usize::MAX)?;
            written = written.min(clock.now().saturating_sub(began));
            let began = clock.now();
            self.shared.probe(BLOCK_SIZE)?;
            worst = worst.max(clock.now().saturating_sub(began));
        }
        let nanos = written.as_nanos().max(1);
        let bandwidth = u128::from(to_u64(size)) * 1_000_000_000 / nanos;
        let bandwidth = u64::try_from(bandwidth).unwrap_or(u64::MAX);
        let calibration = Calibration { flush_worst: worst, bandwidth, at: clock.now() };
        self.shared.state().budget.calibrated(calibration);
        self.shared.changed.notify_all();
        Ok(calibration)
    }

    /// Whether it is time to [calibrate](Disk::calibrate): to be asked now and then, so that a
    /// device that was slow once is trusted again when it is not any more.
    #[must_use]
    pub fn wants_calibration(&self) -> bool {
        self.shared.state().budget.wants_calibration(self.shared.clock.now())
    }

    /// What is known of the power source now.
    pub fn supplied(&self, supply: Supply) {
        self.shared.state().budget.supplied(supply);
        self.shared.changed.notify_all();
        self.shared.wanted.notify_all();
    }

    /// Lets flushes wait for the device from now on.
    pub fn disarm(&self) {
        self.shared.state().budget.disarm(Disarmed::ByHand);
        self.shared.wanted.notify_all();
    }

    /// Takes a [`disarm`](Disk::disarm) back; the device is to be
    /// [calibrated](Disk::calibrate) anew.
    pub fn rearm(&self) {
        self.shared.state().budget.rearm(Disarmed::ByHand);
    }

    /// The power fails: no more is taken in, and everything is written to the area at once. When it
    /// is there, another call changes nothing.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
    pub fn emergency(&self) -> io::Result<Emergency> {
        let Shared { files, clock, .. } = &*self.shared;
        let began = clock.now();
        let mut state = self.shared.state();
        state.budget.disarm(Disarmed::Emergency);
        let mut area = self.shared.area();
        if let Some(dumped) = area.dumped {
            return Ok(dumped);
        }
        let Area { label, memory, generation, .. } = &mut *area;
        *generation += 1;
        let room = label.room();
        let memory = memory.first(room);
        // Whatever is written home from now on is in the dump, so that a change of the home which
        // is younger than that, and a moment, is not the disk's.
        let stamp = (*generation, clock.wall_us());
        let Some(bytes) = compose(label, stamp, &state.ring, memory) else {
            return Err(io::Error::other("the area is too small for the ring"));
        };
        // What lands from here on is in the dump, too.
        drop(state);
        if bytes > 0 {
            // Whole blocks, for a way past the cache.
            let whole = bytes.next_multiple_of(BLOCK_SIZE).min(room);
            let (_, rest) = memory.split_at_mut(bytes);
            rest.iter_mut().take(whole - bytes).for_each(|byte| *byte = 0);
            let written = memory.get(..whole).unwrap_or_default();
            files.area.write_synced(written, to_u64(BLOCK_SIZE))?;
        }
        let emergency = Emergency { bytes, took: clock.now().saturating_sub(began) };
        area.dumped = Some(emergency);
        drop(area);
        self.shared.changed.notify_all();
        Ok(emergency)
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.shared.state();
        let now = self.shared.clock.now();
        Status {
            armed: state.budget.capacity(now),
            uncovered: state.uncovered(now),
            dirty: state.ring.dirty(),
            dirty_max: state.dirty_max,
            supply: state.budget.supply(),
            calibration: state.budget.calibration(),
            failure: state.failure.clone(),
            is_read_only: state.failures >= FAILURES_MAX,
            counts: state.counts,
        }
    }

    /// Drains, and gives the disk up.
    ///
    /// # Errors
    ///
    /// As [`flush`](Disk::flush): what could not be drained is lost.
    pub fn close(self) -> io::Result<()> {
        self.drain()
    }
}

impl Drop for Disk {
    /// Ends the drainer. What is dirty then is lost: [`Disk::close`] drains.
    fn drop(&mut self) {
        self.shared.state().is_closing = true;
        self.shared.wanted.notify_all();
        if let Some(drainer) = self.drainer.take() {
            // It returns nothing, and its panics are its own.
            let _ = drainer.join();
        }
    }
}

impl State {
    fn may_write(&self) -> io::Result<()> {
        if self.budget.is_emergency() {
            let why = "the power fails: no more is taken in";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why));
        }
        if self.failures >= FAILURES_MAX {
            let said = self.failure.as_deref().unwrap_or("it does not say why");
            let why = format!("the device failed {FAILURES_MAX} times in a row: {said}");
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    /// Whether a flush was acknowledged for something that is not on the device.
    fn is_owing(&self) -> bool {
        !self.ring.is_home(self.owed)
    }

    /// Dirty bytes that the power holds too short for, if any of them are owed.
    fn uncovered(&self, now: Duration) -> usize {
        let covered = match self.budget.capacity(now) {
            Ok(capacity) => to_usize(capacity),
            Err(Disarmed::HoldUp | Disarmed::PowerSource | Disarmed::Device) => 0,
            // Nothing says that the power would not hold.
            Err(_) => usize::MAX,
        };
        if self.is_owing() { self.ring.dirty().saturating_sub(covered) } else { 0 }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn area(&self) -> MutexGuard<'_, Area> {
        self.area.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes up to so many bytes that mean nothing to the area, durably.
    fn probe(&self, size: usize) -> io::Result<usize> {
        let mut area = self.area();
        if area.generation > area.label.used {
            let why = "the power fails, and the area holds what it is for";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, why));
        }
        let size = size.min(area.label.room() / BLOCK_SIZE * BLOCK_SIZE);
        self.files.area.write_synced(area.memory.first(size), to_u64(BLOCK_SIZE))?;
        Ok(size)
    }

    fn check(&self, offset: u64, size: usize) -> io::Result<()> {
        match offset.checked_add(to_u64(size)) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{size} bytes at {offset} of a disk of {}", self.size),
            )),
        }
    }

    /// Puts a piece into the ring, when there is room, and the budget covers it if it covers
    /// anything.
    fn take_in<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        offset: u64,
        piece: &[u8],
    ) -> io::Result<MutexGuard<'a, State>> {
        let mut has_waited = false;
        loop {
            state.may_write()?;
            let now = self.clock.now();
            let dirty = to_u64(state.ring.dirty_with(piece.len()));
            let is_covered = match state.budget.capacity(now) {
                // A flush that returned early is kept only as long as the dump of all that is
                // dirty ends in time.
                Ok(capacity) => dirty <= capacity || state.ring.dirty() == 0,
                Err(_) => !state.is_owing(),
            };
            if is_covered && state.ring.write(offset, piece, now).is_ok() {
                state.counts.bytes += to_u64(piece.len());
                state.counts.deferred += u64::from(has_waited);
                let dirty = state.ring.dirty();
                state.dirty_max = state.dirty_max.max(dirty);
                if dirty >= BLOCK_SIZE {
                    self.wanted.notify_one();
                }
                return Ok(state);
            }
            has_waited = true;
            state = self.wait(state);
        }
    }

    /// Waits until something has changed at the device, and lets everything go there.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        self.wanted.notify_one();
        let waited = self.changed.wait_timeout(state, IDLE);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn drain_until_closed(&self) {
        let mut state = self.state();
        while !state.is_closing {
            let now = self.clock.now();
            let is_urgent = state.waiting > 0 || state.uncovered(now) > 0;
            let mut flights = Vec::new();
            if !state.budget.is_emergency() {
                flights.extend(std::iter::from_fn(|| state.ring.take(now, is_urgent)));
            }
            if flights.is_empty() {
                let due = state.ring.due().map_or(IDLE, |due| due.saturating_sub(now));
                let pause = due.clamp(Duration::from_millis(1), IDLE);
                let waited = self.wanted.wait_timeout(state, pause);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.budget.flush_begins(now);
            drop(state);
            let done = self.write_home(&flights);
            let took = self.clock.now().saturating_sub(now);
            state = self.state();
            let has_failed = done.is_err();
            state.arrived(flights, done, took);
            self.changed.notify_all();
            if has_failed {
                let (again, _) =
                    self.wanted.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner);
                state = again;
            }
        }
    }

    /// Writes them all, and returns when they survive a power cut.
    ///
    /// Not so, and `false`, if the power fails meanwhile: all of them are in the dump, which would
    /// have to wait for a flush of the device that begins now.
    fn write_home(&self, flights: &[Flight]) -> io::Result<bool> {
        let home = &self.files.home;
        let has_failed = || self.state().budget.is_emergency();
        if let [alone] = flights {
            return home.write_synced(alone.bytes(), alone.offset()).map(|()| true);
        }
        for flight in flights {
            if has_failed() {
                return Ok(false);
            }
            home.write_at(flight.bytes(), flight.offset())?;
        }
        if has_failed() { Ok(false) } else { home.sync().map(|()| true) }
    }
}

impl State {
    fn arrived(&mut self, flights: Vec<Flight>, done: io::Result<bool>, took: Duration) {
        self.budget.flush_ends();
        match done {
            Ok(true) => {
                self.failures = 0;
                self.failure = None;
                self.counts.device_flushes += 1;
                self.budget.flushed(took);
                self.budget.rearm(Disarmed::Device);
                for flight in flights {
                    self.counts.drained_runs += 1;
                    self.counts.drained_bytes += to_u64(flight.bytes().len());
                    self.ring.landed(flight);
                }
            }
            Ok(false) => flights.into_iter().for_each(|flight| self.ring.failed(flight)),
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.counts.failures += 1;
                self.failure = Some(error.to_string());
                self.budget.disarm(Disarmed::Device);
                for flight in flights {
                    self.ring.failed(flight);
                }
            }
        }
    }
}

impl Label {
    /// Bytes behind the label's block.
    fn room(&self) -> usize {
        to_usize(self.area_size).saturating_sub(BLOCK_SIZE)
    }
}
