//! Compares durable commits with plain write-and-sync, in alternating slices.
//!
//! The sync time of a disk drifts by half within a second, so only neighbouring slices are
//! compared: the result is the median of the ratios of all pairs.

use crate::contest::spread;
use crate::human::rounded;
use crate::load::{Others, Watch};
use crate::slice::{Slice, by_one, by_tasks, by_threads, median, per_mille};
use seawall::{Log, Options, Raw};
use seawall_format::{batch, frame};
use seawall_io::{Clock, File, PosixStorage, Storage, SystemClock};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The minimum number of pairs for a useful result.
pub const PAIRS_MIN: u32 = 6;
/// How often a thread yields before it sleeps. At real-time priority a yield does not let the
/// kernel's threads run, which complete the sync that the thread waits for.
const YIELDS_MAX: u32 = 100;
const SLICE_MIN: Duration = Duration::from_millis(50);
const SLICE_MAX: Duration = Duration::from_millis(150);

/// The length of a slice and the number of pairs.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    slice: Duration,
    pairs: u32,
}

impl Rounds {
    /// Divides `time` into slices; takes longer if needed for [`PAIRS_MIN`] pairs.
    #[must_use]
    pub fn within(time: Duration) -> Self {
        let slice = (time / (2 * PAIRS_MIN)).clamp(SLICE_MIN, SLICE_MAX);
        let mut pairs = PAIRS_MIN;
        while 2 * slice * (pairs + 1) <= time {
            pairs += 1;
        }
        Self { slice, pairs }
    }
}

/// The result for a number of writers; JSON has fewer digits.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The number of concurrent threads or tasks.
    pub writers: usize,
    /// The commit rate of the log, the median of its slices.
    #[serde(serialize_with = "one_digit")]
    pub commits_per_s: f64,
    /// The median commit latency over all slices, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of the commit latency, in microseconds.
    pub p99_us: f64,
    /// The rate of the log relative to the plain file, the median of the pairs.
    #[serde(rename = "raw_ratio", serialize_with = "three_digits")]
    pub ratio: f64,
    /// The lowest ratio of a pair.
    #[serde(rename = "raw_ratio_min", serialize_with = "three_digits")]
    pub ratio_min: f64,
    /// The highest ratio of a pair.
    #[serde(rename = "raw_ratio_max", serialize_with = "three_digits")]
    pub ratio_max: f64,
    /// The sync rate of the plain file, the median of its slices.
    #[serde(serialize_with = "one_digit")]
    pub raw_per_s: f64,
    /// The median sync latency of the plain file, in microseconds.
    pub raw_p50_us: f64,
    /// The number of pairs.
    pub pairs: u32,
    /// The lower and upper quartile of the ratios.
    #[serde(rename = "raw_ratio_quartiles", serialize_with = "quartiles")]
    pub ratio_quartiles: [f64; 2],
    /// The processor use of other programs.
    #[serde(rename = "others_share", serialize_with = "share")]
    pub others: Others,
}

/// The header of the table whose rows are [`Row::line`].
pub const HEAD: &str =
    "writers   commits/s     plain/s    ratio  (lowest-highest)   p50 us   p99 us";

impl Row {
    /// Formats a row of the table for people.
    #[must_use]
    pub fn line(&self) -> String {
        format!(
            "{:>7}{:>12}{:>12}{:>8.2}x  {:<17}{:>9}{:>9}",
            self.writers,
            rounded(self.commits_per_s),
            rounded(self.raw_per_s),
            self.ratio,
            format!("({:.2}-{:.2})", self.ratio_min, self.ratio_max),
            rounded(self.p50_us),
            rounded(self.p99_us),
        )
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn one_digit<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((value * 10.0).round() / 10.0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn three_digits<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(in_thousandths(*value))
}

fn quartiles<S: Serializer>(quartiles: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
    quartiles.map(in_thousandths).serialize(to)
}

fn share<S: Serializer>(others: &Others, to: S) -> Result<S::Ok, S::Error> {
    others.share().map(in_thousandths).serialize(to)
}

fn in_thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Ends the writes beside another file.
const END: u64 = u64::MAX;

/// A plain file with a sync after each write, without a log.
#[derive(Debug)]
pub struct Plain {
    file: Arc<dyn File>,
    bytes: Vec<u8>,
    at: u64,
    length: u64,
}

impl Plain {
    /// Creates a file of `length` bytes in `folder`, for writes as large as those of a log with
    /// records of `size` bytes.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or filled.
    pub fn new(folder: &Path, length: u64, size: usize) -> io::Result<Self> {
        let storage = PosixStorage::open(folder)?;
        let file = storage.create("plain")?;
        file.fill_with_zeros(length)?;
        file.sync()?;
        storage.sync_dir()?;
        let bytes = vec![0x5a; batch::HEADER_SIZE + frame::size_on_disk(size)];
        Ok(Self { file, bytes, at: 0, length })
    }

    /// Measures the syncs per second during `time`.
    ///
    /// # Errors
    ///
    /// If a write or sync fails.
    pub fn rate(&mut self, time: Duration) -> io::Result<f64> {
        Ok(self.slice(time)?.per_second)
    }

    /// Measures one slice of this length.
    ///
    /// # Errors
    ///
    /// As [`Plain::rate`].
    pub fn slice(&mut self, time: Duration) -> io::Result<Slice> {
        by_one(time, || self.write())
    }

    /// Measures one slice in which `other` is written at the same time as this file, by another
    /// thread. A write has ended when both are durable.
    ///
    /// # Errors
    ///
    /// As [`Plain::rate`].
    pub fn slice_beside(&mut self, other: &mut Self, time: Duration) -> io::Result<Slice> {
        let [begun, done] = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            let write = || other.write_each(&begun, &done);
            let beside = std::thread::Builder::new().spawn_scoped(scope, write)?;
            let slice = by_one(time, || {
                let number = begun.fetch_add(1, Ordering::AcqRel) + 1;
                self.write()?;
                spin_until(|| done.load(Ordering::Acquire) >= number || beside.is_finished());
                Ok(())
            });
            begun.store(END, Ordering::Release);
            let beside = beside.join().unwrap_or_else(|panic| resume_unwind(panic));
            beside.and(slice)
        })
    }

    /// Writes once for each number that `begun` gets, and stores it in `done`, until it is [`END`].
    /// Spins, since a thread that sleeps would begin late.
    fn write_each(&mut self, begun: &AtomicU64, done: &AtomicU64) -> io::Result<()> {
        let mut last = 0;
        loop {
            spin_until(|| begun.load(Ordering::Acquire) != last);
            last = begun.load(Ordering::Acquire);
            if last == END {
                return Ok(());
            }
            self.write()?;
            done.store(last, Ordering::Release);
        }
    }

    /// Writes and syncs once.
    fn write(&mut self) -> io::Result<()> {
        let size = u64::try_from(self.bytes.len()).expect("a record is small");
        if self.at + size > self.length {
            self.at = 0;
        }
        self.file.write_at(&self.bytes, self.at)?;
        self.file.sync()?;
        self.at += size;
        Ok(())
    }
}

/// Waits until `is_done`.
fn spin_until(is_done: impl Fn() -> bool) {
    let (clock, mut yields) = (SystemClock::new(), 0);
    while !is_done() {
        if yields < YIELDS_MAX {
            yields += 1;
            std::thread::yield_now();
        } else {
            clock.sleep(Duration::from_micros(20));
        }
    }
}

/// The log that is measured.
#[derive(Debug)]
pub struct Ours {
    log: Log<[u8], Raw>,
    size: usize,
    tasks: bool,
}

impl Ours {
    /// Creates a log at `path` for records of `size` bytes.
    ///
    /// # Errors
    ///
    /// As for opening a log.
    pub fn new(path: &Path, options: &Options, size: usize) -> seawall::Result<Self> {
        // Idle marks would be written during the slices of the plain file.
        let log = options.clone().idle_mark(None).open(path)?;
        Ok(Self { log, size, tasks: false })
    }

    /// Uses tasks of a single thread as writers instead of threads.
    #[must_use]
    pub fn by_tasks(mut self, tasks: bool) -> Self {
        self.tasks = tasks;
        self
    }

    /// Closes the log.
    ///
    /// # Errors
    ///
    /// As for closing a log.
    pub fn close(self) -> seawall::Result<()> {
        self.log.close()
    }

    /// Commits with `writers` threads or tasks for `time`.
    ///
    /// # Errors
    ///
    /// As for appending.
    pub fn slice(&self, writers: usize, time: Duration) -> seawall::Result<Slice> {
        let record = vec![0x5a; self.size];
        if self.tasks {
            return by_tasks((writers, time), &|| self.log.submit(&record));
        }
        by_threads((writers, time), &|_| self.log.append(&record).map(drop))
    }
}

/// The reason why a measurement failed.
#[derive(Debug)]
pub enum Trouble {
    /// An error of the plain file, or of another baseline.
    Plain(io::Error),
    /// An error of the log.
    Ours(seawall::Error),
}

impl Display for Trouble {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(error) => error.fmt(f),
            Self::Ours(error) => error.without_log().fmt(f),
        }
    }
}

/// Compares `writers` on the log with the plain file, in pairs of slices.
///
/// # Errors
///
/// The first error of either side.
pub fn compare(
    plain: &mut Plain,
    ours: &Ours,
    writers: usize,
    rounds: Rounds,
) -> Result<Row, Trouble> {
    // Warm up: the first slice starts threads and grows buffers.
    ours.slice(writers, SLICE_MIN).map_err(Trouble::Ours)?;
    let (mut left, mut right, mut ratios) = (vec![], vec![], vec![]);
    let (mut plain_times, mut times) = (vec![], vec![]);
    let watch = Watch::start();
    for pair in 0..rounds.pairs {
        // The order alternates, so that drift favours neither side.
        let (one, other) = if pair.is_multiple_of(2) {
            let one = plain.slice(rounds.slice).map_err(Trouble::Plain)?;
            (one, ours.slice(writers, rounds.slice).map_err(Trouble::Ours)?)
        } else {
            let other = ours.slice(writers, rounds.slice).map_err(Trouble::Ours)?;
            (plain.slice(rounds.slice).map_err(Trouble::Plain)?, other)
        };
        ratios.push(other.per_second / one.per_second);
        left.push(one.per_second);
        right.push(other.per_second);
        plain_times.extend(one.times);
        times.extend(other.times);
    }
    let others = watch.others();
    let ratio = spread(&ratios);
    Ok(Row {
        writers,
        commits_per_s: median(&mut right),
        raw_per_s: median(&mut left),
        ratio: ratio.median,
        ratio_min: ratio.lowest,
        ratio_max: ratio.highest,
        ratio_quartiles: ratio.quartiles,
        p50_us: per_mille(&mut times, 500),
        p99_us: per_mille(&mut times, 990),
        raw_p50_us: per_mille(&mut plain_times, 500),
        pairs: rounds.pairs,
        others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn rounds_fill_the_time_with_enough_pairs() {
        for (seconds, slice_ms, pairs) in
            [(3.0, 150, 10), (6.0, 150, 20), (1.2, 100, 6), (0.1, 50, 6)]
        {
            let rounds = Rounds::within(Duration::from_secs_f64(seconds));
            assert_eq!((rounds.slice, rounds.pairs), (Duration::from_millis(slice_ms), pairs));
        }
    }

    #[test]
    fn two_files_are_written_equally_often() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-pairs").unwrap();
        let make = |name| {
            let folder = scratch.path().join(name);
            PosixStorage::create(&folder).unwrap();
            Plain::new(&folder, 16 << 20, 100).unwrap()
        };
        let (mut one, mut other) = (make("one"), make("other"));
        // Each slice makes at least one write, however slow the disk is.
        let mut slice = || one.slice_beside(&mut other, Duration::from_millis(5)).unwrap();
        let count: usize = (0..3).map(|_| slice().times.len()).sum();
        assert!(count >= 3);
        let size = u64::try_from(one.bytes.len()).unwrap();
        let written = u64::try_from(count).unwrap() * size;
        assert_eq!((one.at, other.at), (written, written));
    }
}
