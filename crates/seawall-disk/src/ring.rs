//! The bytes that are not on the device yet: a few buffers of a fixed size, each with one
//! sequential run.
//!
//! A write extends a run or begins a new one. Bytes that a run already holds are overwritten in
//! place, unless the run is being written to the device. Then the newer bytes begin another run,
//! which is not written before the older one has landed. So of all runs that hold a byte the newest
//! is right, and the device receives the writes of each byte in order.
//!
//! After [`Ring::new`] nothing is allocated, and no call panics: a write that does not fit is
//! [refused](Full) before anything changes.

mod buffer;
pub(crate) mod kept;

use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use buffer::{Buffer, place};
use kept::{Entry, Identity, Index, kept_size};
use seawall_io::Memory;
use std::sync::Arc;
use std::time::Duration;

/// The longest time a byte waits before it is written to the device.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a run of at least a block waits for more bytes. A log writes its last block again and
/// again, and each write to the device costs as much processor time as serving many requests.
const LINGER: Duration = Duration::from_millis(5);

/// The bounded buffer of a virtual disk.
///
/// # Examples
///
/// ```
/// use seawall_disk::{Haste, Ring};
/// use std::time::Duration;
///
/// let mut ring = Ring::new(6, 512 * 1024);
/// let now = Duration::ZERO;
/// ring.write(8192, &[7; 4096], now)?;
///
/// let mut block = [0; 8192]; // as the device has it, from offset 4096 on
/// ring.read(4096, &mut block);
/// assert_eq!((block[4095], block[4096]), (0, 7));
///
/// let flight = ring.take(now, Haste::Blocks).expect("a whole block");
/// assert_eq!((flight.offset(), flight.bytes().len()), (8192, 4096));
/// ring.landed(flight); // written, and flushed
/// assert_eq!(ring.dirty(), 0);
/// # Ok::<(), seawall_disk::Full>(())
/// ```
#[derive(Debug)]
pub struct Ring {
    slots: Vec<Slot>,
    index: Index,
    buffer_size: usize,
    /// The number of the newest run.
    newest: u64,
    landings: u64,
}

/// Which runs are written to the device now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// Those that have waited for more bytes long enough, and those that cannot grow.
    Calm,
    /// Also every run of at least a block.
    Blocks,
    /// All.
    All,
}

/// There is no space: the writer must wait until a run has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the ring is full")
    }
}

impl std::error::Error for Full {}

#[derive(Debug)]
struct Slot {
    buffer: Arc<Buffer>,
    run: Option<Run>,
}

/// Consecutive bytes of the device.
#[derive(Clone, Copy, Debug)]
struct Run {
    offset: u64,
    size: usize,
    /// Of two runs that hold a byte, the one with the higher number is right.
    number: u64,
    /// When its first byte arrived.
    since: Duration,
    is_flying: bool,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset.saturating_add(to_u64(self.size))
    }

    fn meets(&self, from: u64, end: u64) -> bool {
        self.offset < end && from < self.end()
    }

    /// The position in the buffer of the byte at `offset`.
    fn place(&self, offset: u64) -> usize {
        place(self.offset, offset)
    }

    fn entry(&self) -> Entry {
        Entry { number: self.number, offset: self.offset, size: self.size }
    }
}

/// A run that is being written to the device. It stays readable in the ring until it has
/// [landed](Ring::landed) or [failed](Ring::failed).
#[derive(Debug)]
pub struct Flight {
    slot: usize,
    run: Run,
    buffer: Arc<Buffer>,
}

impl Flight {
    /// The offset on the device.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.run.offset
    }

    /// Its bytes. Where `offset` is a multiple of [`BLOCK_SIZE`], so is their address.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.run.place(self.run.offset), self.run.size)
    }
}

impl Ring {
    /// Allocates and touches `buffers` buffers of `buffer_size` bytes, at least a block.
    #[must_use]
    pub fn new(buffers: usize, buffer_size: usize) -> Self {
        let (buffers, buffer_size) = (buffers.max(1), buffer_size.max(BLOCK_SIZE));
        let memory = Memory::private(kept_size(buffers, buffer_size));
        Self::in_memory(memory, &Identity::default(), (buffers, buffer_size))
    }

    /// A ring in memory of [`kept_size`]. If this process is killed, another one that maps the
    /// memory can [read](crate::Kept) what the ring holds.
    ///
    /// # Panics
    ///
    /// If the memory is smaller.
    #[must_use]
    pub fn in_memory(
        memory: Memory,
        identity: &Identity,
        (buffers, buffer_size): (usize, usize),
    ) -> Self {
        let (index, buffers) = Index::format(memory, identity, (buffers, buffer_size));
        let slot = |buffer| Slot { buffer: Arc::new(buffer), run: None };
        let slots = buffers.into_iter().map(slot).collect();
        Self { slots, index, buffer_size, newest: 0, landings: 0 }
    }

    /// Notes in the memory when the home is written, in microseconds since 1970. Call it before the
    /// write.
    pub fn set_active(&mut self, time_us: u64) {
        self.index.set_active(time_us);
    }

    /// The longest single write in bytes; split longer ones.
    #[must_use]
    pub fn write_max(&self) -> usize {
        self.buffer_size
    }

    /// The number of bytes that are not on the device, including those being written.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.runs().map(|run| run.size).sum()
    }

    /// An upper bound of [`dirty`](Ring::dirty) after a write of `size` bytes.
    #[must_use]
    pub fn dirty_with(&self, size: usize) -> usize {
        self.dirty().saturating_add(size)
    }

    /// The number of the newest run. Later writes go to this run, older ones, or runs with higher
    /// numbers.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns whether everything in runs up to this number is on the device.
    #[must_use]
    pub fn is_home(&self, number: u64) -> bool {
        self.runs().all(|run| run.number > number)
    }

    /// When the first run should be written; `None` if every run is being written.
    #[must_use]
    pub fn due(&self, haste: Haste) -> Option<Duration> {
        let haste = haste.max(self.haste());
        self.runs().filter(|run| !run.is_flying).map(|run| self.run_due(&run, haste)).min()
    }

    fn run_due(&self, run: &Run, haste: Haste) -> Duration {
        let is_block = run.size >= BLOCK_SIZE;
        let wait = match haste {
            Haste::All => Duration::ZERO,
            Haste::Blocks if is_block => Duration::ZERO,
            Haste::Calm if run.size >= self.buffer_size => Duration::ZERO,
            Haste::Calm if is_block => LINGER,
            Haste::Calm | Haste::Blocks => WAIT_MAX,
        };
        run.since.saturating_add(wait)
    }

    /// A writer must not have to wait for a run that lingers.
    fn haste(&self) -> Haste {
        let used = self.runs().count();
        if used * 2 > self.slots.len() { Haste::Blocks } else { Haste::Calm }
    }

    /// The number of runs that have landed. A reader that read the device meanwhile must start
    /// over.
    #[must_use]
    pub fn landings(&self) -> u64 {
        self.landings
    }

    /// Accepts `bytes` as the new contents at `offset`: all of them or none.
    ///
    /// # Errors
    ///
    /// [`Full`]: it does not fit until a run has landed. An empty ring accepts
    /// [`write_max`](Ring::write_max) bytes, and more in separate writes.
    pub fn write(&mut self, offset: u64, bytes: &[u8], now: Duration) -> Result<(), Full> {
        if offset.checked_add(to_u64(bytes.len())).is_none() || !self.has_room(offset, bytes.len())
        {
            return Err(Full);
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let (home, size) = self.home(at, rest.len());
            let (here, behind) = rest.split_at(size);
            match home {
                Home::In(slot) => self.overwrite(slot, at, here),
                Home::Behind(slot) => self.extend(slot, at, here),
                Home::New => self.begin(at, here, now),
            }
            at = at.saturating_add(to_u64(size));
            rest = behind;
        }
        Ok(())
    }

    /// Returns whether a write of `size` bytes at `offset` fits now.
    #[must_use]
    pub fn has_room(&self, offset: u64, size: usize) -> bool {
        let free = self.slots.iter().filter(|slot| slot.run.is_none()).count();
        let (mut at, mut left, mut needed) = (offset, size, 0);
        // The bytes in the last buffer that would be begun.
        let mut in_new = 0;
        while left > 0 {
            let (home, mut part) = self.home(at, left);
            match home {
                Home::In(_) | Home::Behind(_) => in_new = 0,
                Home::New if in_new > 0 => {
                    part = part.min(in_new);
                    in_new -= part;
                }
                Home::New => {
                    needed += 1;
                    in_new = self.buffer_size - part;
                }
            }
            at = at.saturating_add(to_u64(part));
            left -= part;
        }
        needed <= free
    }

    /// Overwrites bytes read from the device at `offset` with the newer ones in the ring.
    ///
    /// Read the device first. If [`landings`](Ring::landings) changed since before that read, start
    /// over: a run that landed meanwhile is in neither.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        let end = offset.saturating_add(to_u64(bytes.len()));
        let mut done = 0;
        // In the order of their numbers, without memory for a sorted list.
        while let Some((slot, run)) = self.next_run(done) {
            done = run.number;
            let (from, to) = (run.offset.max(offset), run.end().min(end));
            if from >= to {
                continue;
            }
            let size = to_usize(to - from);
            let source = slot.buffer.get(run.place(from), size);
            let target = bytes.get_mut(to_usize(from - offset)..).and_then(|t| t.get_mut(..size));
            if let Some(target) = target {
                target.copy_from_slice(source);
            }
        }
    }

    /// The next run to write, if any should be written: the oldest that has waited a second,
    /// otherwise the largest of those that are [due](Ring::due). While more than half of the
    /// buffers are in use, every run of at least a block is.
    ///
    /// A run waits for every older run that holds some of the same bytes.
    pub fn take(&mut self, now: Duration, haste: Haste) -> Option<Flight> {
        let haste = haste.max(self.haste());
        let is_overdue = |run: &Run| now.saturating_sub(run.since) >= WAIT_MAX;
        let may_fly = |run: &Run| {
            let blocks =
                |older: Run| older.number < run.number && older.meets(run.offset, run.end());
            let is_due = self.run_due(run, haste) <= now;
            !run.is_flying && is_due && !self.runs().any(blocks)
        };
        let numbered = self.slots.iter().enumerate();
        let ready = numbered.filter_map(|(slot, s)| Some((slot, s.run.filter(may_fly)?)));
        // The oldest of the overdue runs, then the largest.
        let by_age = |run: &Run| (1, u64::MAX - run.number);
        let by_size = |run: &Run| (0, to_u64(run.size));
        let rank = |run: &Run| if is_overdue(run) { by_age(run) } else { by_size(run) };
        let (slot, _) = ready.max_by_key(|(_, run)| rank(run))?;
        let found = self.slots.get_mut(slot)?;
        let run = found.run.as_mut()?;
        run.is_flying = true;
        Some(Flight { slot, run: *run, buffer: found.buffer.clone() })
    }

    /// The flight is on stable storage: it was written, and the device was flushed since.
    pub fn landed(&mut self, flight: Flight) {
        let slot = flight.slot;
        // The slot owns its buffer again.
        drop(flight);
        self.landings += 1;
        self.index.set(slot, &Entry::default());
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.run = None;
        }
    }

    /// The flight failed, or its outcome is unknown: its bytes are kept and may be taken again.
    pub fn failed(&mut self, flight: Flight) {
        let slot = flight.slot;
        drop(flight);
        if let Some(run) = self.slots.get_mut(slot).and_then(|slot| slot.run.as_mut()) {
            run.is_flying = false;
        }
    }

    /// Everything that is not on the device as (number, offset, bytes), oldest first. Written in
    /// this order it restores all acknowledged bytes.
    pub fn runs_by_age(&self) -> impl Iterator<Item = (u64, u64, &[u8])> + Clone {
        let mut done = 0;
        std::iter::from_fn(move || {
            let (slot, run) = self.next_run(done)?;
            done = run.number;
            Some((run.number, run.offset, slot.buffer.get(run.place(run.offset), run.size)))
        })
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        self.slots.iter().filter_map(|slot| slot.run)
    }

    /// The run with the lowest number above `number`.
    fn next_run(&self, number: u64) -> Option<(&Slot, Run)> {
        let runs = self.slots.iter().filter_map(|slot| Some((slot, slot.run?)));
        runs.filter(|(_, run)| run.number > number).min_by_key(|(_, run)| run.number)
    }

    /// Where the byte at `at` goes, and how many of the next `left` bytes go to the same place.
    fn home(&self, at: u64, left: usize) -> (Home, usize) {
        let end = at.saturating_add(to_u64(left));
        let covers = |run: &Run| run.offset <= at && at < run.end();
        let numbered = self.slots.iter().enumerate().filter_map(|(n, slot)| Some((n, slot.run?)));
        let newest = numbered.clone().filter(|(_, run)| covers(run)).max_by_key(|(_, r)| r.number);
        // The answer may change where another run begins or ends.
        let edges = self.runs().flat_map(|run| [run.offset, run.end()]);
        let edge = edges.filter(|edge| *edge > at).fold(end, u64::min);
        let part = to_usize(edge - at);
        if let Some((slot, run)) = newest
            && !run.is_flying
        {
            return (Home::In(slot), part);
        }
        let number = newest.map_or(0, |(_, run)| run.number);
        let goes_on = |run: &Run| {
            let capacity = self.buffer_size.saturating_sub(run.size);
            run.end() == at && !run.is_flying && run.number > number && capacity > 0
        };
        // None of the bytes that it would cover may be in a newer run.
        match numbered.filter(|(_, run)| goes_on(run)).max_by_key(|(_, run)| run.number) {
            Some((slot, run)) => (Home::Behind(slot), part.min(self.buffer_size - run.size)),
            None => (Home::New, part.min(self.buffer_size)),
        }
    }

    /// Replaces bytes of a run.
    fn overwrite(&mut self, slot: usize, at: u64, bytes: &[u8]) {
        let run = self.slots.get(slot).and_then(|slot| slot.run);
        self.index.begin_overwrite(run.map_or(0, |run| run.number), at, bytes);
        self.put(slot, at, bytes);
        self.index.end_overwrite();
    }

    /// Adds bytes to the end of a run.
    fn extend(&mut self, slot: usize, at: u64, bytes: &[u8]) {
        self.put(slot, at, bytes);
        if let Some(run) = self.slots.get_mut(slot).and_then(|slot| slot.run.as_mut()) {
            run.size += bytes.len();
            self.index.set(slot, &run.entry());
        }
    }

    fn begin(&mut self, offset: u64, bytes: &[u8], now: Duration) {
        let Some(slot) = self.slots.iter().position(|slot| slot.run.is_none()) else { return };
        self.newest += 1;
        let number = self.newest;
        let run = Run { offset, size: bytes.len(), number, since: now, is_flying: false };
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.run = Some(run);
        }
        self.put(slot, offset, bytes);
        self.index.set(slot, &run.entry());
    }

    fn put(&mut self, slot: usize, at: u64, bytes: &[u8]) {
        let Some(Slot { buffer, run: Some(run) }) = self.slots.get_mut(slot) else { return };
        // There is no other reference because the run is not in flight.
        if let Some(buffer) = Arc::get_mut(buffer) {
            buffer.put(run.place(at), bytes);
        }
    }
}

/// The destination of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// Into a run that holds them already.
    In(usize),
    /// To the end of a run.
    Behind(usize),
    /// Into a new run.
    New,
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_testkit::{Dice, each_seed};

    const DISK: usize = 64 * 1024;
    const NOW: Duration = Duration::ZERO;

    #[derive(Clone, Debug)]
    enum Act {
        Write { at: usize, size: usize, with: u8 },
        Take { haste: Haste },
        Land(usize),
        Fail(usize),
        Cut { kept: Vec<bool> },
    }

    fn act(dice: &mut Dice) -> Act {
        match dice.below(16) {
            0..3 => {
                let size = 1 + dice.index(8999);
                Act::Write { at: dice.index(DISK).min(DISK - size), size, with: dice.byte() }
            }
            // The same places repeatedly, as logs write.
            3..9 => {
                let (at, size) = (dice.index(40) * 512, 1 + dice.index(1199));
                Act::Write { at, size, with: dice.byte() }
            }
            9..12 => Act::Take { haste: if dice.one_in(2) { Haste::All } else { Haste::Blocks } },
            12..14 => Act::Land(dice.index(usize::MAX)),
            14 => Act::Fail(dice.index(usize::MAX)),
            _ => Act::Cut { kept: dice.many(64, |dice| dice.one_in(2)) },
        }
    }

    /// A device that keeps any choice of the sectors in flight.
    fn land_some(device: &mut [u8], flight: &Flight, kept: &[bool]) {
        let at = to_usize(flight.offset());
        for (n, (to, from)) in device[at..].iter_mut().zip(flight.bytes()).enumerate() {
            if kept[((at + n) / 512) % kept.len()] {
                *to = *from;
            }
        }
    }

    /// Whatever is written, taken, landed or failed, in any order: reads see the newest bytes; a
    /// power cut with a dump of the ring loses nothing; and when everything has landed, the device
    /// has it.
    fn nothing_is_lost(acts: Vec<Act>, (buffers, size): (usize, usize)) {
        let mut ring = Ring::new(buffers, size * 4096);
        let (mut truth, mut device) = (vec![0; DISK], vec![0; DISK]);
        let mut flights: Vec<Flight> = Vec::new();
        for act in acts {
            match act {
                Act::Write { at, size, with } => {
                    let bytes = vec![with; size];
                    let has_room = ring.has_room(to_u64(at), size);
                    let taken = ring.write(to_u64(at), &bytes, NOW);
                    assert_eq!(taken.is_ok(), has_room);
                    if taken.is_ok() {
                        truth[at..at + size].copy_from_slice(&bytes);
                    }
                }
                Act::Take { haste } => flights.extend(ring.take(NOW, haste)),
                Act::Land(which) if !flights.is_empty() => {
                    let flight = flights.swap_remove(which % flights.len());
                    land_some(&mut device, &flight, &[true]);
                    ring.landed(flight);
                }
                Act::Fail(which) if !flights.is_empty() => {
                    let flight = flights.swap_remove(which % flights.len());
                    ring.failed(flight);
                }
                Act::Land(_) | Act::Fail(_) => {}
                Act::Cut { kept } => {
                    let mut left = device.clone();
                    for flight in &flights {
                        land_some(&mut left, flight, &kept);
                    }
                    for (_, offset, bytes) in ring.runs_by_age() {
                        left[to_usize(offset)..][..bytes.len()].copy_from_slice(bytes);
                    }
                    assert_eq!(&left, &truth);
                }
            }
            let mut read = device.clone();
            ring.read(0, &mut read);
            assert!(read == truth, "a read");
            let mut part = device[1000..30_000].to_vec();
            ring.read(1000, &mut part);
            assert!(part == truth[1000..30_000], "a read of a part");
            assert!(ring.dirty() <= buffers * size * 4096);
        }
        for flight in flights {
            ring.failed(flight);
        }
        while let Some(flight) = ring.take(NOW, Haste::All) {
            land_some(&mut device, &flight, &[true]);
            ring.landed(flight);
        }
        assert_eq!(ring.dirty(), 0);
        assert!(device == truth, "at the end");
    }

    #[test]
    fn newest_bytes_are_read_dumped_and_written_last() {
        each_seed(400, |dice| {
            let sizes = (1 + dice.index(6), 1 + dice.index(4));
            let acts = 1 + dice.index(119);
            nothing_is_lost(dice.many(acts, act), sizes);
        });
    }

    /// A sequence that failed once.
    #[test]
    fn bytes_written_twice_keep_the_last_write() {
        let write = |at, size, with| Act::Write { at, size, with };
        let take = |haste| Act::Take { haste };
        let first = [(10_201, 1), (9827, 1), (0, 1), (123, 1209), (0, 1), (0, 1), (0, 1)];
        let mut acts = first.map(|(at, size)| write(at, size, 0)).to_vec();
        let takes = [Haste::All, Haste::All, Haste::Blocks].map(take);
        acts.extend(takes.into_iter().chain([write(0, 1, 1), write(0, 1, 1)]));
        nothing_is_lost(acts, (5, 1));
    }

    #[test]
    fn sequential_writes_form_one_run() {
        let mut ring = Ring::new(6, 512 * 1024);
        for n in 0..64u64 {
            ring.write(n * 8192, &[1; 8192], NOW).unwrap();
            // The last page is written again, as databases do.
            ring.write(n * 8192, &[2; 8192], NOW).unwrap();
        }
        let flight = ring.take(NOW, Haste::Blocks).unwrap();
        assert_eq!((flight.offset(), flight.bytes().len()), (0, 512 * 1024));
        assert!(ring.take(NOW, Haste::All).is_none());
    }

    #[test]
    fn large_runs_go_first_and_small_ones_within_a_second() {
        let mut ring = Ring::new(6, 64 * 1024);
        ring.write(0, &[1; 100], NOW).unwrap();
        ring.write(100_000, &[1; 5000], NOW).unwrap();
        ring.write(200_000, &[1; 9000], NOW).unwrap();
        let take =
            |ring: &mut Ring, now| ring.take(now, Haste::Blocks).map(|flight| flight.offset());
        assert_eq!(take(&mut ring, NOW), Some(200_000));
        assert_eq!(take(&mut ring, NOW), Some(100_000));
        assert_eq!(take(&mut ring, Duration::from_millis(999)), None);
        assert_eq!(take(&mut ring, Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn runs_of_a_block_linger_until_a_buffer_is_full_or_half_of_them_are_used() {
        let mut ring = Ring::new(4, 64 * 1024);
        let linger = LINGER;
        ring.write(0, &[1; 8192], NOW).unwrap();
        assert!(ring.take(NOW, Haste::Calm).is_none());
        assert_eq!(ring.due(Haste::Calm), Some(linger));
        assert_eq!(ring.due(Haste::Blocks), Some(NOW));
        assert_eq!(ring.take(linger, Haste::Calm).map(|flight| flight.offset()), Some(0));

        ring.write(1 << 20, &vec![1; 64 * 1024], NOW).unwrap();
        assert_eq!(ring.take(NOW, Haste::Calm).map(|flight| flight.offset()), Some(1 << 20));

        ring.write(2 << 20, &[1; 4096], NOW).unwrap();
        assert_eq!(ring.take(NOW, Haste::Calm).map(|flight| flight.offset()), Some(2 << 20));
    }

    #[test]
    fn newer_bytes_stay_newer_after_a_failed_run() {
        let mut ring = Ring::new(6, 64 * 1024);
        ring.write(0, &[1; 4096], NOW).unwrap();
        let first = ring.take(NOW, Haste::Blocks).unwrap();
        ring.write(4096, &[2; 4096], NOW).unwrap();
        let second = ring.take(NOW, Haste::Blocks).unwrap();
        ring.failed(first);
        // The first run ends here and could be extended, but these bytes are in flight in a newer
        // one.
        ring.write(4096, &[3; 100], NOW).unwrap();
        let mut read = [0; 8192];
        ring.read(0, &mut read);
        assert_eq!((read[4095], read[4096], read[4196]), (1, 3, 2));
        ring.landed(second);
        ring.read(0, &mut read);
        assert_eq!((read[4095], read[4096]), (1, 3));
    }

    #[test]
    fn overdue_runs_go_before_large_ones() {
        let mut ring = Ring::new(6, 64 * 1024);
        ring.write(0, &[1; 100], NOW).unwrap();
        ring.write(100_000, &[1; 10_000], Duration::from_millis(900)).unwrap();
        let flight = ring.take(Duration::from_secs(1), Haste::Calm).unwrap();
        assert_eq!(flight.offset(), 0);
    }

    #[test]
    fn full_ring_refuses_new_bytes_but_accepts_overwrites() {
        let mut ring = Ring::new(2, 4096);
        ring.write(0, &[1; 8192], NOW).unwrap();
        assert_eq!(ring.write(8192, &[1; 1], NOW), Err(Full));
        assert_eq!(ring.write(8000, &[2; 500], NOW), Err(Full));
        ring.write(4000, &[3; 500], NOW).unwrap();
        let mut read = vec![0; 8192];
        ring.read(0, &mut read);
        assert_eq!((read[3999], read[4000], read[4499], read[4500], read[8000]), (1, 3, 3, 1, 1));
        assert_eq!(ring.write(u64::MAX, &[1; 2], NOW), Err(Full));
    }

    #[test]
    fn device_blocks_are_memory_blocks() {
        let mut ring = Ring::new(1, 64 * 1024);
        ring.write(4096 * 5 + 100, &[1; 9000], NOW).unwrap();
        let flight = ring.take(NOW, Haste::Blocks).unwrap();
        assert_eq!(flight.bytes().as_ptr().addr() % BLOCK_SIZE, 100);
    }
}
