//! Streams: direct, synced writes one after the other, as a log makes them when it never has to
//! wait for records.
//!
//! The speed depends on the file. A write to new blocks also changes metadata, which its sync has
//! to write; a write to blocks that were written before does not. The speed also depends on the
//! number of writes in flight. So each kind of file is measured with several numbers of writes, in
//! turns.

mod shown;

use crate::contest::{Entry, Standings, hold_shuffled};
use crate::human::{to_f64, to_u64};
use crate::machine::Stopwatch;
use crate::slice::{Slice, by_threads_while, rate};
use seawall_host::RawFile;
use seawall_io::AlignedMemory;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The reference: one write of a mebibyte at a time, over blocks that were written before.
const REFERENCE: Way = Way { blocks: Blocks::Written, in_flight: 1, bytes: 1 << 20 };
/// The size of all other writes: four in flight are as many bytes as one write of the reference.
const WRITE: usize = 256 << 10;
const IN_FLIGHT: [usize; 3] = [1, 2, 4];
/// The size of each file: that of a segment.
const FILE_SIZE: u64 = 64 << 20;
/// The maximum length of a slice: enough for hundreds of writes.
const SLICE_MAX: Duration = Duration::from_millis(150);

/// The lines to show without a result. The first is empty.
pub const NOT_DIRECT: [&str; 2] =
    ["", "a stream of direct writes: not measured, this file system has none"];

/// The blocks of a file before the stream writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Written before, as in a file that is used again.
    Written,
    /// Not allocated: each write extends the file.
    Growing,
    /// Allocated but never written.
    Allocated,
}

/// One way to write a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The blocks of the file.
    pub blocks: Blocks,
    /// The number of writes in flight.
    pub in_flight: usize,
    /// The size of each write.
    pub bytes: usize,
}

/// The speed of each way.
#[derive(Debug)]
pub struct Streams {
    /// One for each row of the standings. The first is the reference.
    pub ways: Vec<Way>,
    /// The speed in megabytes (10^6 bytes) a second.
    pub standings: Standings,
    /// The maximum size in bytes of a write that a power cut cannot tear: 0 if any write can be
    /// torn, `None` if the system does not report it.
    pub atomic_write_max: Option<u32>,
}

impl Streams {
    /// Measures in `folder` for about `time`, with unnamed files of 192 MiB in total. Calls `tell`
    /// before each round with the number of finished rounds and of all rounds. Returns `None` if
    /// the file system has no direct writes.
    ///
    /// # Errors
    ///
    /// The disk is full; otherwise the device's error.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_measure::streams::Streams;
    /// use std::time::Duration;
    ///
    /// let folder = std::env::temp_dir();
    /// let found = Streams::measure(&folder, Duration::from_millis(10), &mut |_, _| {})?;
    /// if let Some(streams) = found {
    ///     assert_eq!(streams.ways.len(), streams.standings.rows.len());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn measure(
        folder: &Path,
        time: Duration,
        tell: &mut dyn FnMut(u32, u32),
    ) -> io::Result<Option<Self>> {
        let mut memory = AlignedMemory::default();
        memory.first(REFERENCE.bytes).fill(0x5a);
        let bytes: &[u8] = memory.first(REFERENCE.bytes);
        let make = |blocks| Target::new(folder, blocks, bytes).transpose();
        let kinds = [Blocks::Growing, Blocks::Allocated, Blocks::Written];
        let targets: Vec<_> = kinds.into_iter().filter_map(make).collect::<io::Result<_>>()?;
        let Some(written) = targets.iter().find(|target| target.blocks == Blocks::Written) else {
            return Ok(None);
        };
        let small =
            |target: &Target, in_flight| Way { blocks: target.blocks, in_flight, bytes: WRITE };
        let each = |target| IN_FLIGHT.map(|in_flight| (target, small(target, in_flight)));
        let mut runs = vec![(written, REFERENCE)];
        runs.extend(targets.iter().flat_map(each));
        let mut entries: Vec<_> =
            runs.iter().map(|(target, way)| target.entry(*way, bytes)).collect();
        let standings = hold_shuffled(&mut entries, time, SLICE_MAX, tell)?;
        let ways = runs.iter().map(|(_, way)| *way).collect();
        Ok(Some(Self { ways, standings, atomic_write_max: written.file.atomic_write_max() }))
    }
}

/// A file that streams are written to.
///
/// The files of a log fall back to the page cache if direct writes are refused; this file reports
/// an error.
#[derive(Debug)]
struct Target {
    file: RawFile,
    blocks: Blocks,
    /// The offset of the next write. In a file of written blocks, an offset beyond the end wraps
    /// around to the beginning.
    next: AtomicU64,
}

impl Target {
    /// Returns `None` if the file system has no direct writes or no such blocks.
    fn new(folder: &Path, blocks: Blocks, bytes: &[u8]) -> io::Result<Option<Self>> {
        let made = RawFile::create(folder, true).and_then(|file| {
            let target = Self { file, blocks, next: AtomicU64::new(0) };
            if blocks == Blocks::Written {
                target.file.fill(FILE_SIZE)?;
            }
            target.prepare()?;
            // Some file systems open a file for direct writes and then refuse them.
            target.write(bytes)?;
            Ok(target)
        });
        match made {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
            made => made.map(Some),
        }
    }

    fn entry<'a>(&'a self, way: Way, bytes: &'a [u8]) -> Entry<'a, io::Error> {
        Entry::new(way.to_string(), move |time| self.slice(way, bytes, time))
    }

    /// Writes for about `time`, which includes preparing the file; only the writes are measured.
    fn slice(&self, way: Way, bytes: &[u8], time: Duration) -> io::Result<Slice> {
        let bytes = bytes.get(..way.bytes).expect("the writes of the reference are the largest");
        let watch = Stopwatch::start();
        let (mut elapsed, mut times) = (Duration::ZERO, vec![]);
        while times.is_empty() || watch.elapsed() < time {
            self.prepare()?;
            let left = time.saturating_sub(watch.elapsed());
            let pass = by_threads_while((way.in_flight, left), &|_| self.write(bytes))?;
            elapsed += pass.elapsed();
            times.extend(pass.times);
        }
        let megabytes = to_f64(to_u64(way.bytes)) / 1e6;
        Ok(Slice { per_second: rate(times.len(), elapsed) * megabytes, times })
    }

    /// Restores the blocks to the state that is measured.
    fn prepare(&self) -> io::Result<()> {
        match self.blocks {
            Blocks::Growing => self.file.allocate(0)?,
            Blocks::Allocated => self.file.allocate(FILE_SIZE)?,
            Blocks::Written => {
                let aligned = self.next.load(Ordering::Relaxed).next_multiple_of(1 << 20);
                self.next.store(aligned, Ordering::Relaxed);
                return Ok(());
            }
        }
        self.next.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Writes at the next offset; returns false if no new blocks are left.
    fn write(&self, bytes: &[u8]) -> io::Result<bool> {
        let size = to_u64(bytes.len());
        let next = self.next.fetch_add(size, Ordering::Relaxed);
        let is_over = next + size > FILE_SIZE;
        if is_over && self.blocks != Blocks::Written {
            return Ok(false);
        }
        self.file.write_synced(bytes, next % FILE_SIZE)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
