//! The bytes that are not on the device yet: buffers of a fixed size, each with one sequential run.
//!
//! A write extends a run or begins a new one. Bytes that a run already holds are overwritten in
//! place, unless the run is being written to the device. Then the newer bytes begin another run,
//! which is not written before the older one has landed. So of all runs that hold a byte the newest
//! has its current value, and the device receives the writes of each byte in order.
//!
//! After [`Ring::new`] nothing is allocated, and no call panics: a write that does not fit is
//! [refused](Full) before anything changes.

mod buffer;
pub(crate) mod flights;
pub(crate) mod kept;

use crate::dump::RUN_EXTRA;
use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use buffer::{Buffer, place};
use kept::{Entry, Identity, Index, kept_size};
use seawall_io::Memory;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

/// The longest time a byte waits before it is written to the device.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The interval at which runs of at least a block are written to the device. A run waits one to two
/// intervals for more bytes and for other runs, with which it shares a flush. A log writes its last
/// block again and again, and each write costs as much processor time as serving many requests.
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
/// let newer: Vec<_> = ring.parts(4096, 8192).collect(); // of the bytes from offset 4096 on
/// assert_eq!(newer, [(4096, [7; 4096].as_slice())]);
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
    /// The slots with a run, by the run's number.
    by_age: Vec<usize>,
    /// The same slots, by the run's offset and then its number.
    by_offset: Vec<usize>,
    /// The bytes in all runs.
    dirty: usize,
    index: Index,
    buffer_size: usize,
    /// The number of the newest run.
    newest: u64,
}

/// Which runs are written to the device now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// Those that have waited long enough.
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
    /// Of two runs that hold a byte, the one with the higher number has its current value.
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

    /// The offset of its end on the device.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.run.end()
    }

    /// The bytes of the run. If `offset` is a multiple of [`BLOCK_SIZE`], so is their address.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.run.place(self.run.offset), self.run.size)
    }
}

impl Ring {
    /// Allocates and touches `buffers` buffers, each of `buffer_size` bytes but at least a block.
    #[must_use]
    pub fn new(buffers: usize, buffer_size: usize) -> Self {
        let (buffers, buffer_size) = (buffers.max(1), buffer_size.max(BLOCK_SIZE));
        let memory = Memory::private(kept_size(buffers, buffer_size));
        Self::in_memory(memory, &Identity::default(), (buffers, buffer_size))
    }

    /// Returns a ring in `memory`, of size [`kept_size`]. If this process is killed, another one
    /// that maps the memory can [read](crate::Kept) the bytes in the ring.
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
        let slots: Vec<_> = buffers.into_iter().map(slot).collect();
        let order = || Vec::with_capacity(slots.len());
        let (by_age, by_offset) = (order(), order());
        Self { slots, by_age, by_offset, dirty: 0, index, buffer_size, newest: 0 }
    }

    /// Records in the memory when the home is written, in microseconds since 1970. Call this before
    /// the write.
    pub fn set_active(&mut self, time_us: u64) {
        self.index.set_active(time_us);
    }

    /// The longest write, in bytes, that fits for certain once all runs have landed. A longer one
    /// can be [refused](Full) for ever: split it.
    #[must_use]
    pub fn write_max(&self) -> usize {
        self.buffer_size
    }

    /// The number of bytes that are not on the device, including those being written.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// The most bytes of a [dump](crate::compose) after a write of `size` bytes at `offset`, which
    /// can begin a run between any two that it meets. With a `size` of 0: of a dump now.
    #[must_use]
    pub fn dump_max(&self, offset: u64, size: usize) -> usize {
        let met = self.near(offset, offset.saturating_add(to_u64(size))).count();
        let runs = self.by_age.len() + met + usize::from(size > 0);
        self.dirty.saturating_add(size).saturating_add(runs * RUN_EXTRA)
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
        self.runs().next().is_none_or(|oldest| oldest.number > number)
    }

    /// When the first run should be written; `None` if every run is being written.
    #[must_use]
    pub fn due(&self, haste: Haste) -> Option<Duration> {
        let haste = haste.max(self.haste());
        self.runs().filter(|run| !run.is_flying).map(|run| run_due(&run, haste)).min()
    }

    /// With most buffers in use, blocks are due: no writer must have to wait for a lingering run.
    fn haste(&self) -> Haste {
        if self.by_age.len() * 2 > self.slots.len() { Haste::Blocks } else { Haste::Calm }
    }

    /// Accepts `bytes` as the new contents at `offset`: all of them or none.
    ///
    /// # Errors
    ///
    /// [`Full`] if the bytes do not fit until a run has landed. An empty ring accepts
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
        let free = self.slots.len() - self.by_age.len();
        let (mut at, mut left, mut needed) = (offset, size, 0);
        // The free bytes in the last buffer that the write would begin.
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

    /// The bytes in the ring of the range of `size` bytes at `offset`: parts, each with its
    /// position in the range. Where two parts overlap, the later one is newer.
    ///
    /// Copy them before you read the rest from the device: a run that lands during that read is
    /// afterwards neither in the bytes read nor in the ring.
    pub fn parts(&self, offset: u64, size: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let end = offset.saturating_add(to_u64(size));
        // Visits the runs in the order of their numbers, without memory for a sorted list.
        let after = move |done| {
            let met = self.near(offset, end).filter(|(_, run)| run.meets(offset, end));
            met.filter(|(_, run)| run.number > done).min_by_key(|(_, run)| run.number)
        };
        successors(after(0), move |(_, run)| after(run.number)).filter_map(move |(slot, run)| {
            let (from, to) = (run.offset.max(offset), run.end().min(end));
            let buffer = &self.slots.get(slot)?.buffer;
            Some((to_usize(from - offset), buffer.get(run.place(from), to_usize(to - from))))
        })
    }

    /// Returns the next run to write: the oldest of those that are [due](Ring::due). While more
    /// than half of the buffers are in use, every run of at least a block is due.
    ///
    /// A run waits for every older run that holds some of the same bytes.
    pub fn take(&mut self, now: Duration, haste: Haste) -> Option<Flight> {
        let haste = haste.max(self.haste());
        let is_blocked = |run: &Run| {
            let mut near = self.near(run.offset, run.end());
            near.any(|(_, older)| older.number < run.number && older.meets(run.offset, run.end()))
        };
        let may_fly = |run: &Run| !run.is_flying && run_due(run, haste) <= now && !is_blocked(run);
        let mut slots = self.by_age.iter().copied();
        let slot = slots.find(|slot| self.run(*slot).as_ref().is_some_and(may_fly))?;
        let found = self.slots.get_mut(slot)?;
        let run = found.run.as_mut()?;
        run.is_flying = true;
        Some(Flight { slot, run: *run, buffer: found.buffer.clone() })
    }

    /// Frees the buffer of a flight that is on stable storage: it was written, and the device was
    /// flushed since.
    pub fn landed(&mut self, flight: Flight) {
        let slot = flight.slot;
        // The slot owns its buffer again.
        drop(flight);
        self.index.set(slot, &Entry::default());
        let Some(run) = self.run(slot) else { return };
        self.by_age.retain(|used| *used != slot);
        self.by_offset.retain(|used| *used != slot);
        self.dirty -= run.size;
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.run = None;
        }
    }

    /// Keeps the bytes of a flight that failed or has an unknown outcome: they may be taken again.
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
        self.by_age.iter().filter_map(|slot| {
            let run = self.run(*slot)?;
            let bytes = self.slots.get(*slot)?.buffer.get(run.place(run.offset), run.size);
            Some((run.number, run.offset, bytes))
        })
    }

    fn run(&self, slot: usize) -> Option<Run> {
        self.slots.get(slot)?.run
    }

    /// All runs by their numbers.
    fn runs(&self) -> impl Iterator<Item = Run> {
        self.by_age.iter().filter_map(|slot| self.run(*slot))
    }

    /// The runs that hold bytes of this range or end where it begins, by their offsets.
    fn near(&self, from: u64, end: u64) -> impl Iterator<Item = (usize, Run)> + Clone {
        // No run is longer than a buffer.
        let reach = to_u64(self.buffer_size);
        let is_before = |run: Run| run.offset.saturating_add(reach) < from;
        let first = self.by_offset.partition_point(|slot| self.run(*slot).is_some_and(is_before));
        let slots = self.by_offset.iter().skip(first);
        let runs = slots.filter_map(|slot| Some((*slot, self.run(*slot)?)));
        runs.take_while(move |(_, run)| run.offset < end).filter(move |(_, run)| run.end() >= from)
    }

    /// Where the byte at `at` goes, and how many of the next `left` bytes go to the same place.
    fn home(&self, at: u64, left: usize) -> (Home, usize) {
        let end = at.saturating_add(to_u64(left));
        let covers = |run: &Run| run.offset <= at && at < run.end();
        let near = self.near(at, end);
        let newest = near.clone().filter(|(_, run)| covers(run)).max_by_key(|(_, r)| r.number);
        // The answer may change where another run begins or ends.
        let edges = near.clone().flat_map(|(_, run)| [run.offset, run.end()]);
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
        // No byte that the extended run would cover may be in a newer run.
        match near.filter(|(_, run)| goes_on(run)).max_by_key(|(_, run)| run.number) {
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
            self.dirty += bytes.len();
            self.index.set(slot, &run.entry());
        }
    }

    fn begin(&mut self, offset: u64, bytes: &[u8], now: Duration) {
        let Some(slot) = self.slots.iter().position(|slot| slot.run.is_none()) else { return };
        self.newest += 1;
        let number = self.newest;
        let run = Run { offset, size: bytes.len(), number, since: now, is_flying: false };
        // The newest run of all is the last by age.
        self.by_age.push(slot);
        let is_before = |other: Run| (other.offset, other.number) < (offset, number);
        let rank = self.by_offset.partition_point(|slot| self.run(*slot).is_some_and(is_before));
        self.by_offset.insert(rank, slot);
        self.dirty += run.size;
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

fn run_due(run: &Run, haste: Haste) -> Duration {
    let is_block = run.size >= BLOCK_SIZE;
    let wait = match haste {
        Haste::All => Duration::ZERO,
        Haste::Blocks if is_block => Duration::ZERO,
        Haste::Calm if is_block => 2 * LINGER - since_a_turn(run.since),
        Haste::Calm | Haste::Blocks => WAIT_MAX,
    };
    run.since.saturating_add(wait)
}

/// The time since runs were last due, at a multiple of `LINGER`, which divides a second.
fn since_a_turn(now: Duration) -> Duration {
    Duration::from_nanos((now.subsec_nanos() % LINGER.subsec_nanos()).into())
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
mod tests;
