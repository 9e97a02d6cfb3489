//! A running virtual disk: one lock around ring and budget, and a thread that drains the ring.
//!
//! A write returns when its bytes are in the ring, as in the volatile cache of any disk. A flush
//! makes them durable. It returns at once while the [`Budget`] covers all dirty bytes, and
//! otherwise when the device has them.

use crate::budget::{Budget, Calibration, Disarmed, Supply};
use crate::dump::{Label, Stamp, compose};
use crate::files::{Files, Recovered, bring_home, read_label};
use crate::layout::{BLOCK_SIZE, ZEROS, to_u64, to_usize};
use crate::options::Options;
use crate::ring::flights::{adjacent, join};
use crate::ring::kept::{Identity, kept_size};
use crate::ring::{Flight, Haste, Ring};
use crate::sync::{Builder, Condvar, JoinHandle, Mutex, MutexGuard};
use seawall_io::{AlignedMemory, Clock, Entropy, Memory, SeededEntropy};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Consecutive failures after which the disk refuses writes.
const FAILURES_MAX: u32 = 5;
/// How long the drainer waits after a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the drainer sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(250);
/// Writes and flushes in one calibration.
const PROBES: u32 = 8;
/// The smallest write whose time is measured.
const PROBE_MIN: usize = 16 * BLOCK_SIZE;

/// A virtual disk.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    drainer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a run landed or failed, or the disk was armed again.
    changed: Condvar,
    /// Signalled when there is something to drain.
    wanted: Condvar,
    files: Files,
    /// Lock order: the state before the area.
    area: Mutex<Area>,
    size: u64,
    clock: Arc<dyn Clock>,
}

/// The area's state. The lock on it allows one user of the area at a time.
#[derive(Debug)]
struct Area {
    label: Label,
    /// Memory for the dump, allocated before it is needed.
    memory: AlignedMemory,
    /// The generation of the newest dump.
    generation: u64,
    /// The result of this process's dump. There is only one: a second would overwrite it.
    dumped: Option<Emergency>,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    budget: Budget,
    /// The number of flushes and writes that wait for the device.
    waiting: usize,
    failures: u32,
    /// The last error of the device.
    failure: Option<String>,
    counts: Counts,
    /// The highest number of dirty bytes so far.
    dirty_max: usize,
    /// The number of the newest run for which a flush was acknowledged before the run was on the
    /// device; 0 for none.
    owed: u64,
    /// The number of emergency dumps that have not failed. With one, the home stays as it is.
    dumps: u32,
    /// When the drainer wakes up by itself; zero while it is awake.
    drains_at: Duration,
    is_closing: bool,
}

/// Counters of a disk since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted writes.
    pub writes: u64,
    /// Bytes of the accepted writes.
    pub bytes: u64,
    /// Writes that had to wait for space.
    pub deferred: u64,
    /// Flushes that found everything on the device.
    pub flushes_idle: u64,
    /// Flushes acknowledged before everything was on the device.
    pub flushes_early: u64,
    /// Flushes that waited for the device.
    pub flushes_waited: u64,
    /// Runs written to the device.
    pub drained_runs: u64,
    /// Bytes of the runs written to the device.
    pub drained_bytes: u64,
    /// Flushes of the device.
    pub device_flushes: u64,
    /// Failed writes and flushes of the device.
    pub failures: u64,
}

/// The state of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The number of bytes that may be dirty, or why flushes wait.
    pub armed: Result<u64, Disarmed>,
    /// Bytes that are not on the device.
    pub dirty: usize,
    /// The highest number of dirty bytes so far.
    pub dirty_max: usize,
    /// Dirty bytes that exceed the budget because it has shrunk since their flush was acknowledged.
    /// They are being written to the device.
    pub uncovered: usize,
    /// Whether a flush was acknowledged for bytes that are not on the device.
    pub is_owing: bool,
    /// The power source.
    pub supply: Supply,
    /// The measurement of the device, with its longest flush so far.
    pub calibration: Option<Calibration>,
    /// The device's last error if no success followed.
    pub failure: Option<String>,
    /// Whether the disk refuses writes because the device failed too often.
    pub is_read_only: bool,
    /// The counters.
    pub counts: Counts,
}

/// The result of an emergency dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emergency {
    /// Bytes written to the area.
    pub bytes: usize,
    /// The time from the call to the end of the flush.
    pub took: Duration,
}

impl Disk {
    /// Opens a disk. A dump in the area is first written home, durably, even if the home was
    /// written since. Call [`inspect`](crate::inspect) before to learn whether there is a dump, and
    /// its time.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the area has no valid label, belongs to a home of another
    /// size, or is too small for this ring, or if no ring has these options. Otherwise the device's
    /// error.
    pub fn open(
        files: Files,
        options: &Options,
        clock: Arc<dyn Clock>,
    ) -> io::Result<(Self, Option<Recovered>)> {
        let memory = Memory::private(kept_size(options.buffers, options.buffer_size));
        Self::open_in(files, options, clock, (memory, Identity::default()))
    }

    /// Opens a disk whose ring is in `memory`, of size [`kept_size`]. If this process is killed
    /// while another one holds the memory, [`Files::dump_kept`] saves the bytes in the ring.
    ///
    /// # Errors
    ///
    /// As [`open`](Disk::open).
    ///
    /// # Panics
    ///
    /// If the memory is smaller.
    pub fn open_in(
        files: Files,
        options: &Options,
        clock: Arc<dyn Clock>,
        (memory, identity): (Memory, Identity),
    ) -> io::Result<(Self, Option<Recovered>)> {
        let size = files.home.len()?;
        let mut label = read_label(&files, size)?;
        options.check(label.area_size)?;
        let recovered = bring_home(&files, &mut label, &mut || Ok(()))?;
        let mut dump = AlignedMemory::default();
        // Touch the memory now: an emergency is no time to wait for pages. Measurements write it,
        // so a device that compresses must not be faster with it than with a dump.
        SeededEntropy::new(label.disk).fill(dump.first(to_usize(label.area_size)))?;
        let area = Mutex::new(Area { generation: label.used, label, memory: dump, dumped: None });
        let mut ring = Ring::in_memory(memory, &identity, (options.buffers, options.buffer_size));
        ring.set_active(clock.wall_us());
        let state = Mutex::new(State {
            ring,
            budget: Budget::new(options.supply),
            waiting: 0,
            failures: 0,
            failure: None,
            counts: Counts::default(),
            dirty_max: 0,
            owed: 0,
            dumps: 0,
            drains_at: Duration::ZERO,
            is_closing: false,
        });
        let (changed, wanted) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { state, changed, wanted, files, area, size, clock });
        let its = shared.clone();
        let named = Builder::new().name("seawall-drain".to_owned());
        let drainer = named.spawn(move || its.drain_until_closed())?;
        Ok((Self { shared, drainer: Some(drainer) }, recovered))
    }

    /// The size of the disk in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared.size
    }

    /// Accepts bytes. They are durable after the next [`flush`](Disk::flush) that returns.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the disk's end; [`io::ErrorKind::ReadOnlyFilesystem`]
    /// when the power is failing; [`io::ErrorKind::Other`] while the device keeps failing.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.shared.check(offset, bytes.len())?;
        let (mut state, mut at) = (self.shared.state(), offset);
        for part in bytes.chunks(state.ring.write_max()) {
            state = self.shared.take_in(state, at, part)?;
            at += to_u64(part.len());
        }
        state.counts.writes += 1;
        Ok(())
    }

    /// Writes `size` zeros, in pieces: other writes may come in between.
    ///
    /// # Errors
    ///
    /// As [`write`](Disk::write). A part of the range may have become zeros then.
    pub fn write_zeros(&self, offset: u64, size: usize) -> io::Result<()> {
        self.shared.check(offset, size)?;
        let (mut at, mut left) = (offset, size);
        while left > 0 {
            // The first piece ends at a block boundary, and so do all later ones.
            let past = to_usize(at % to_u64(BLOCK_SIZE));
            let piece = ZEROS.get(..left.min(ZEROS.len() - past)).unwrap_or(&ZEROS);
            self.write(at, piece)?;
            at += to_u64(piece.len());
            left -= piece.len();
        }
        Ok(())
    }

    /// Returns when all earlier writes are safe: on the device, or covered by the budget.
    ///
    /// # Errors
    ///
    /// The device's error if it failed too often; [`io::ErrorKind::ReadOnlyFilesystem`] when the
    /// power is failing.
    pub fn flush(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        let (newest, mut has_waited) = (state.ring.newest(), false);
        loop {
            if state.ring.is_home(newest) {
                state.counts.flushes_waited += u64::from(has_waited);
                state.counts.flushes_idle += u64::from(!has_waited);
                return Ok(());
            }
            if state.budget.covers(state.ring.dump_max(0, 0), self.shared.clock.now()) {
                state.counts.flushes_early += 1;
                state.owed = state.owed.max(newest);
                return Ok(());
            }
            state.may_drain()?;
            has_waited = true;
            state = self.shared.wait(state);
        }
    }

    /// Reads the disk's bytes at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] beyond the disk's end; otherwise the device's error.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.shared.check(offset, bytes.len())?;
        let copied = |(at, part): (usize, &[u8])| (at, part.to_vec());
        let newer: Vec<_> =
            self.shared.state().ring.parts(offset, bytes.len()).map(copied).collect();
        let read = self.shared.files.home.read_at(bytes, offset)?;
        bytes.iter_mut().skip(read).for_each(|byte| *byte = 0);
        for (at, part) in newer {
            bytes.iter_mut().skip(at).zip(part).for_each(|(byte, new)| *byte = new);
        }
        Ok(())
    }

    /// Returns when everything is on the device, whatever the budget allows.
    ///
    /// # Errors
    ///
    /// As [`flush`](Disk::flush).
    pub fn drain(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        let newest = state.ring.newest();
        while !state.ring.is_home(newest) {
            state.may_drain()?;
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// Measures the device with writes to the area, while the disk keeps working. Flushes wait for
    /// the device meanwhile; afterwards they return early if the power source allows it.
    ///
    /// # Errors
    ///
    /// The device's error; [`io::ErrorKind::ReadOnlyFilesystem`] when the power is failing.
    pub fn calibrate(&self) -> io::Result<Calibration> {
        // A dump would have to wait for the area, so nothing may be acknowledged early now.
        self.shared.state().budget.forget_calibration();
        self.drain()?;
        let (mut worst, mut written) = (Duration::ZERO, Duration::MAX);
        let mut size = self.shared.probe_size()?;
        for _ in 0..PROBES {
            let (probed, took) = self.shared.probe(size)?;
            size = probed;
            written = written.min(took);
            worst = worst.max(self.shared.probe(BLOCK_SIZE)?.1);
        }
        let bandwidth = u128::from(to_u64(size)) * 1_000_000_000 / written.as_nanos().max(1);
        let bandwidth = u64::try_from(bandwidth).unwrap_or(u64::MAX);
        let calibration =
            Calibration { flush_worst: worst, bandwidth, at: self.shared.clock.now() };
        self.shared.state().budget.calibrated(calibration);
        self.shared.changed.notify_all();
        Ok(calibration)
    }

    /// Returns whether it is time to [calibrate](Disk::calibrate). Call this regularly, so that a
    /// device that was slow for a while is trusted again.
    #[must_use]
    pub fn wants_calibration(&self) -> bool {
        self.shared.state().budget.wants_calibration(self.shared.clock.now())
    }

    /// Records the state of the power source. It counts until the next one.
    pub fn supplied(&self, supply: Supply) {
        self.supplied_for(supply, Duration::MAX);
    }

    /// Records the state of the power source as its monitor reports it. Unless another report
    /// follows within `time`, flushes then wait, and what was acknowledged early is written to the
    /// device.
    pub fn supplied_for(&self, supply: Supply, time: Duration) {
        let expires_at = self.shared.clock.now().saturating_add(time);
        self.shared.state().budget.supplied_until(supply, expires_at);
        self.shared.changed.notify_all();
        self.shared.wanted.notify_all();
    }

    /// Makes all later flushes wait for the device.
    pub fn disarm(&self) {
        self.shared.state().budget.disarm(Disarmed::ByHand);
        self.shared.wanted.notify_all();
    }

    /// Undoes [`disarm`](Disk::disarm). The device must be [calibrated](Disk::calibrate) again.
    pub fn rearm(&self) {
        self.shared.state().budget.rearm(Disarmed::ByHand);
    }

    /// Call this when the power is failing: refuses further writes and writes all dirty bytes to
    /// the area at once. After a call has succeeded, further calls change nothing.
    ///
    /// # Errors
    ///
    /// The device's error. The dirty bytes are then written home for as long as the power lasts:
    /// [`drain`](Disk::drain) waits for that, and the next call finds nothing to dump.
    pub fn emergency(&self) -> io::Result<Emergency> {
        let began = self.shared.clock.now();
        let mut state = self.shared.state();
        state.budget.disarm(Disarmed::Emergency);
        state.dumps += 1;
        let dumped = self.shared.dump(state, began);
        if dumped.is_err() {
            self.shared.state().dumps -= 1;
        }
        self.shared.changed.notify_all();
        self.shared.wanted.notify_all();
        dumped
    }

    /// The state of the disk.
    #[must_use]
    pub fn status(&self) -> Status {
        let (state, now) = (self.shared.state(), self.shared.clock.now());
        Status {
            armed: state.budget.capacity(now),
            uncovered: state.uncovered(now),
            is_owing: state.is_owing(),
            dirty: state.ring.dirty(),
            dirty_max: state.dirty_max,
            supply: state.budget.supply(),
            calibration: state.budget.calibration(),
            failure: state.failure.clone(),
            is_read_only: state.failures >= FAILURES_MAX,
            counts: state.counts,
        }
    }

    /// Drains and closes the disk.
    ///
    /// # Errors
    ///
    /// As [`flush`](Disk::flush): bytes that could not be drained are lost.
    pub fn close(self) -> io::Result<()> {
        self.drain()
    }
}

impl Drop for Disk {
    /// Stops the drainer. Dirty bytes are lost; [`Disk::close`] drains first.
    fn drop(&mut self) {
        self.shared.state().is_closing = true;
        self.shared.wanted.notify_all();
        // The thread returns nothing, and its panic was reported by the thread itself.
        let _ = self.drainer.take().map(JoinHandle::join);
    }
}

impl State {
    /// Returns an error if the drainer does not write home what is in the ring.
    fn may_drain(&self) -> io::Result<()> {
        if self.dumps > 0 {
            return Err(power_fails());
        }
        if self.failures >= FAILURES_MAX {
            let said = self.failure.as_deref().unwrap_or("it gave no reason");
            let why = format!("the device failed {FAILURES_MAX} times in a row: {said}");
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    /// Which runs the drainer should write now.
    fn haste(&self, now: Duration) -> Haste {
        let is_half_used = |capacity| to_u64(self.ring.dump_max(0, 0)) > capacity / 2;
        if self.waiting > 0 || self.uncovered(now) > 0 || self.budget.is_emergency() {
            Haste::All
        } else if self.budget.capacity(now).is_ok_and(is_half_used) {
            Haste::Blocks
        } else {
            Haste::Calm
        }
    }

    /// The time at which the drainer has something to write; `None` while there is nothing. When
    /// the state of the power source expires, that may be everything.
    fn due(&self, now: Duration) -> Option<Duration> {
        let due = self.ring.due(self.haste(now));
        due.map(|due| due.min(self.budget.expires_at(now)))
    }

    /// Returns whether a flush was acknowledged for bytes that are not on the device.
    fn is_owing(&self) -> bool {
        !self.ring.is_home(self.owed)
    }

    /// The number of dirty bytes that exceed the budget, if a flush of any of them was
    /// acknowledged.
    fn uncovered(&self, now: Duration) -> usize {
        let covered = to_usize(self.budget.covered(now));
        let over = self.ring.dump_max(0, 0).saturating_sub(covered).min(self.ring.dirty());
        if self.is_owing() { over } else { 0 }
    }

    fn arrived(&mut self, flights: Vec<Flight>, done: io::Result<bool>, took: Duration) {
        self.budget.flush_ends();
        match done {
            Ok(true) => {
                (self.failures, self.failure) = (0, None);
                self.counts.device_flushes += 1;
                self.budget.flushed(took, flights.len());
                self.budget.rearm(Disarmed::Device);
                for flight in flights {
                    self.counts.drained_runs += 1;
                    self.counts.drained_bytes += to_u64(flight.bytes().len());
                    self.ring.landed(flight);
                }
            }
            Ok(false) => flights.into_iter().for_each(|flight| self.ring.failed(flight)),
            Err(error) => {
                let failures = self.failures.saturating_add(1);
                (self.failures, self.failure) = (failures, Some(error.to_string()));
                self.counts.failures += 1;
                self.budget.disarm(Disarmed::Device);
                for flight in flights {
                    self.ring.failed(flight);
                }
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn area(&self) -> MutexGuard<'_, Area> {
        self.area.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of one measured write: the whole area, if that takes no more than half of
    /// the hold-up time. The limit is for another disk on the device, which may have to write a
    /// dump meanwhile.
    fn probe_size(&self) -> io::Result<usize> {
        let limit = self.state().budget.supply().hold_up / 4;
        let mut size = PROBE_MIN;
        loop {
            let (probed, took) = self.probe(size)?;
            if took > limit || probed < size {
                return Ok(probed);
            }
            size *= 2;
        }
    }

    /// Writes up to `size` arbitrary bytes to the area, durably. Returns their number and the time.
    fn probe(&self, size: usize) -> io::Result<(usize, Duration)> {
        let mut area = self.area();
        if area.generation > area.label.used {
            return Err(power_fails());
        }
        let size = size.min(area.label.room() / BLOCK_SIZE * BLOCK_SIZE);
        // Other bytes each time: some devices do not store a block again that they have.
        area.memory.first(size).rotate_left(1);
        let began = self.clock.now();
        self.files.area.write_synced(area.memory.first(size), to_u64(BLOCK_SIZE))?;
        Ok((size, self.clock.now().saturating_sub(began)))
    }

    /// Writes everything in the ring to the area, unless a call before has done so.
    fn dump(&self, state: MutexGuard<'_, State>, began: Duration) -> io::Result<Emergency> {
        let mut area = self.area();
        if let Some(dumped) = area.dumped {
            return Ok(dumped);
        }
        let Area { label, memory, generation, .. } = &mut *area;
        *generation += 1;
        let (room, memory) = (label.room(), memory.first(label.room()));
        // All later writes to the home are in the dump. So a change of the home that is clearly
        // newer than this time was not made by this disk.
        let stamp = Stamp { generation: *generation, time_us: self.clock.wall_us(), lost: 0 };
        let Some(bytes) = compose(label, &stamp, state.ring.runs_by_age(), memory) else {
            return Err(io::Error::other("the area is too small for the ring"));
        };
        // Runs that land from here on are in the dump, too.
        drop(state);
        if bytes > 0 {
            // Whole blocks, for direct writes.
            let whole = bytes.next_multiple_of(BLOCK_SIZE).min(room);
            memory.iter_mut().take(whole).skip(bytes).for_each(|byte| *byte = 0);
            let written = memory.get(..whole).unwrap_or_default();
            self.files.area.write_synced(written, to_u64(BLOCK_SIZE))?;
        } else if *generation > label.used + 1 {
            // What a failed dump has left must not be written over the home.
            let used = Label { used: *generation, ..*label };
            self.files.area.write_synced(&used.encode(), 0)?;
            *label = used;
        }
        let emergency = Emergency { bytes, took: self.clock.now().saturating_sub(began) };
        area.dumped = Some(emergency);
        Ok(emergency)
    }

    fn check(&self, offset: u64, size: usize) -> io::Result<()> {
        if offset.checked_add(to_u64(size)).is_some_and(|end| end <= self.size) {
            return Ok(());
        }
        let why = format!("{size} bytes at {offset} of a disk of {}", self.size);
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Waits until the ring has space for a piece and, while the budget has capacity, until the
    /// budget covers the piece. Then puts it into the ring.
    fn take_in<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        offset: u64,
        piece: &[u8],
    ) -> io::Result<MutexGuard<'a, State>> {
        let mut has_waited = false;
        loop {
            state.may_drain()?;
            let now = self.clock.now();
            let dump = to_u64(state.ring.dump_max(offset, piece.len()));
            let is_covered = match state.budget.capacity(now) {
                // Bytes whose flush returned early are safe only while a dump of all dirty bytes
                // ends in time.
                Ok(capacity) => dump <= capacity || state.ring.dirty() == 0,
                Err(Disarmed::Emergency) => return Err(power_fails()),
                Err(_) => !state.is_owing(),
            };
            if is_covered && state.ring.write(offset, piece, now).is_ok() {
                state.counts.bytes += to_u64(piece.len());
                state.counts.deferred += u64::from(has_waited);
                state.dirty_max = state.dirty_max.max(state.ring.dirty());
                if state.due(now).is_some_and(|due| due < state.drains_at) {
                    self.wanted.notify_one();
                }
                return Ok(state);
            }
            has_waited = true;
            state = self.wait(state);
        }
    }

    /// Waits for a change at the device and makes the drainer write everything.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        self.wanted.notify_one();
        let waited = self.changed.wait_timeout(state, IDLE);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn drain_until_closed(&self) {
        let mut joined = AlignedMemory::default();
        let mut state = self.state();
        while !state.is_closing {
            let now = self.clock.now();
            let haste = state.haste(now);
            // A dump has to wait for the flush in progress.
            let is_limited = state.is_owing() || state.budget.capacity(now).is_ok();
            let runs_max = if is_limited { state.budget.runs_max() } else { usize::MAX };
            let runs_max = if state.dumps > 0 { 0 } else { runs_max };
            let due = std::iter::from_fn(|| state.ring.take(now, haste));
            let mut flights: Vec<_> = due.take(runs_max).collect();
            flights.sort_by_key(Flight::offset);
            if flights.is_empty() {
                let due = state.due(now).filter(|_| runs_max > 0);
                let pause = due.map_or(IDLE, |due| due.saturating_sub(now));
                let pause = pause.clamp(Duration::from_millis(1), IDLE);
                state.drains_at = now.saturating_add(pause);
                let waited = self.wanted.wait_timeout(state, pause);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                state.drains_at = Duration::ZERO;
                continue;
            }
            state.budget.flush_begins(now);
            drop(state);
            let done = self.write_home(&flights, &mut joined);
            let took = self.clock.now().saturating_sub(now);
            state = self.state();
            state.arrived(flights, done, took);
            self.changed.notify_all();
            if state.failures > 0 {
                let waited = self.wanted.wait_timeout(state, PAUSE);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Writes all flights home and returns `true` when they survive a power cut.
    ///
    /// Returns `false` early if a dump begins meanwhile: all flights are in the dump, which would
    /// otherwise have to wait for a new flush of the device.
    fn write_home(&self, flights: &[Flight], joined: &mut AlignedMemory) -> io::Result<bool> {
        let home = &self.files.home;
        // The time is recorded before each write: later changes of the home are not by this disk.
        let may_write = || {
            let mut state = self.state();
            state.ring.set_active(self.clock.wall_us());
            state.dumps == 0
        };
        let mut rest = flights;
        while let Some(first) = rest.first() {
            if !may_write() {
                return Ok(false);
            }
            let (span, later) = rest.split_at(adjacent(rest));
            let bytes = join(span, joined);
            if span.len() == flights.len() {
                return home.write_synced(bytes, first.offset()).map(|()| true);
            }
            home.write_uncached(bytes, first.offset())?;
            rest = later;
        }
        if may_write() { home.sync().map(|()| true) } else { Ok(false) }
    }
}

fn power_fails() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the power is failing: writes are refused")
}
