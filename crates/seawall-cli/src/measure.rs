//! Durable commits beside plain write-and-sync, in slices that alternate.
//!
//! A disk's sync time drifts by half within a second, so only neighbours are compared: the ratio
//! is that of each pair of slices, and the median of the pairs is what counts.

use seawall::{Log, Options, Raw};
use seawall_format::{batch, frame};
use seawall_io::{Clock, File, PosixStorage, Storage, SystemClock};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Fewer pairs say nothing.
pub(crate) const PAIRS_MIN: u32 = 6;
const SLICE_MIN: Duration = Duration::from_millis(50);
const SLICE_MAX: Duration = Duration::from_millis(150);

/// How long slices are, and how many pairs there are of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    slice: Duration,
    pairs: u32,
}

impl Rounds {
    /// Slices that fill `time`, or a little more if that is too short for [`PAIRS_MIN`].
    pub(crate) fn within(time: Duration) -> Self {
        let slice = (time / (2 * PAIRS_MIN)).clamp(SLICE_MIN, SLICE_MAX);
        let mut pairs = PAIRS_MIN;
        while 2 * slice * (pairs + 1) <= time {
            pairs += 1;
        }
        Self { slice, pairs }
    }
}

/// What came of some writers.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) writers: usize,
    /// Medians of the slices.
    pub(crate) commits_per_s: f64,
    pub(crate) raw_per_s: f64,
    /// Median, lowest and highest of the pairs.
    pub(crate) ratio: f64,
    pub(crate) ratio_min: f64,
    pub(crate) ratio_max: f64,
    /// Of all commits of all slices.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) raw_p50_us: f64,
    pub(crate) pairs: u32,
}

/// What one slice did.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) per_second: f64,
    /// How long each commit took, in nanoseconds.
    pub(crate) times: Vec<u32>,
}

/// Plain writes, each followed by its sync, into a file that was written before.
#[derive(Debug)]
pub(crate) struct Plain {
    file: Arc<dyn File>,
    bytes: Vec<u8>,
    at: u64,
    length: u64,
    clock: SystemClock,
}

impl Plain {
    /// A file of `length` bytes in `folder`, and writes as large as ours with a record of `size`.
    pub(crate) fn new(folder: &Path, length: u64, size: usize) -> io::Result<Self> {
        let storage = PosixStorage::open(folder)?;
        let file = storage.create("plain")?;
        file.fill_with_zeros(length)?;
        file.sync()?;
        storage.sync_dir()?;
        let bytes = vec![0x5a; batch::HEADER_SIZE + frame::size_on_disk(size)];
        Ok(Self { file, bytes, at: 0, length, clock: SystemClock::new() })
    }

    /// Syncs a second, measured for that long.
    pub(crate) fn rate(&mut self, time: Duration) -> io::Result<f64> {
        Ok(self.slice(time)?.per_second)
    }

    fn slice(&mut self, time: Duration) -> io::Result<Slice> {
        let size = u64::try_from(self.bytes.len()).expect("a record is small");
        let begin = self.clock.now();
        let (mut times, mut now) = (vec![], begin);
        while now - begin < time {
            if self.at + size > self.length {
                self.at = 0;
            }
            self.file.write_at(&self.bytes, self.at)?;
            self.file.sync()?;
            self.at += size;
            let then = std::mem::replace(&mut now, self.clock.now());
            times.push(nanoseconds(now - then));
        }
        Ok(Slice { per_second: rate(times.len(), now - begin), times })
    }
}

/// A log whose writers are measured.
#[derive(Debug)]
pub(crate) struct Ours {
    log: Log<[u8], Raw>,
    size: usize,
    clock: SystemClock,
}

impl Ours {
    /// A new log at `path`, for records of `size` bytes.
    pub(crate) fn new(path: &Path, options: &Options, size: usize) -> seawall::Result<Self> {
        // Marks of an idle log would fall into the slices of the other side.
        let log = options.clone().idle_mark(None).open(path)?;
        Ok(Self { log, size, clock: SystemClock::new() })
    }

    /// Ends the log as a program would.
    pub(crate) fn close(self) -> seawall::Result<()> {
        self.log.close()
    }

    /// Commits by so many threads, for that long.
    pub(crate) fn slice(&self, writers: usize, time: Duration) -> seawall::Result<Slice> {
        let record = vec![0x5a; self.size];
        by_threads((writers, time), &self.clock, &|| self.log.append(&record).map(drop))
    }
}

/// What so many threads do in that time that call `act` again and again.
pub(crate) fn by_threads<E: Send>(
    (writers, time): (usize, Duration),
    clock: &SystemClock,
    act: &(dyn Fn() -> Result<(), E> + Sync),
) -> Result<Slice, E> {
    let barrier = Barrier::new(writers);
    let done: Vec<_> = std::thread::scope(|scope| {
        let start = |_| scope.spawn(|| one_thread((&barrier, time), clock, act));
        let threads: Vec<_> = (1..writers).map(start).collect();
        // This thread is one of the writers, as it is the plain one: a lone writer then runs on the
        // same processor as what it is compared with, as near to the disk's interrupts.
        let mut done = vec![one_thread((&barrier, time), clock, act)];
        let others = threads.into_iter().map(|thread| thread.join().expect("a writer returns"));
        done.extend(others);
        done
    });
    let (mut begin, mut end, mut times) = (Duration::MAX, Duration::ZERO, vec![]);
    for part in done {
        let part = part?;
        begin = begin.min(part.begin);
        end = end.max(part.end);
        times.extend(part.times);
    }
    Ok(Slice { per_second: rate(times.len(), end.saturating_sub(begin)), times })
}

fn one_thread<E>(
    (barrier, time): (&Barrier, Duration),
    clock: &SystemClock,
    act: &dyn Fn() -> Result<(), E>,
) -> Result<Part, E> {
    barrier.wait();
    let begin = clock.now();
    let (mut times, mut now) = (vec![], begin);
    while now - begin < time {
        act()?;
        let then = std::mem::replace(&mut now, clock.now());
        times.push(nanoseconds(now - then));
    }
    Ok(Part { begin, end: now, times })
}

/// What one writer did in a slice.
#[derive(Debug)]
struct Part {
    begin: Duration,
    end: Duration,
    times: Vec<u32>,
}

/// Why measuring ended.
#[derive(Debug)]
pub(crate) enum Trouble {
    Plain(io::Error),
    Ours(seawall::Error),
}

impl Display for Trouble {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(error) => error.fmt(f),
            Self::Ours(error) => error.fmt(f),
        }
    }
}

/// Measures `writers` on the log against the plain file, by pairs of slices.
pub(crate) fn compare(
    plain: &mut Plain,
    ours: &Ours,
    writers: usize,
    rounds: Rounds,
) -> Result<Row, Trouble> {
    // The first slice of a new number of writers starts threads and grows buffers.
    ours.slice(writers, SLICE_MIN).map_err(Trouble::Ours)?;
    let (mut left, mut right, mut ratios) = (vec![], vec![], vec![]);
    let (mut plain_times, mut times) = (vec![], vec![]);
    for pair in 0..rounds.pairs {
        // Who goes first changes, so that drift favours nobody.
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
    Ok(Row {
        writers,
        commits_per_s: median(&mut right),
        raw_per_s: median(&mut left),
        ratio: median(&mut ratios),
        ratio_min: ratios.first().copied().unwrap_or_default(),
        ratio_max: ratios.last().copied().unwrap_or_default(),
        p50_us: per_mille(&mut times, 500),
        p99_us: per_mille(&mut times, 990),
        raw_p50_us: per_mille(&mut plain_times, 500),
        pairs: rounds.pairs,
    })
}

/// Sorts the values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Sorts the times; in microseconds, with one digit.
pub(crate) fn per_mille(times: &mut [u32], place: usize) -> f64 {
    times.sort_unstable();
    let place = times.len().saturating_sub(1) * place / 1000;
    let nanoseconds = times.get(place).copied().unwrap_or_default();
    f64::from(nanoseconds / 100) / 10.0
}

pub(crate) fn nanoseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fill_their_time_with_enough_pairs() {
        for (seconds, slice_ms, pairs) in
            [(3.0, 150, 10), (6.0, 150, 20), (1.2, 100, 6), (0.1, 50, 6)]
        {
            let rounds = Rounds::within(Duration::from_secs_f64(seconds));
            assert_eq!((rounds.slice, rounds.pairs), (Duration::from_millis(slice_ms), pairs));
        }
    }

    #[test]
    fn a_place_is_that_among_the_sorted_times() {
        let mut times: Vec<u32> = (1..=101).rev().map(|n| n * 1000).collect();
        assert_eq!((per_mille(&mut times, 500), per_mille(&mut times, 990)), (51.0, 100.0));
        assert!(per_mille(&mut [], 500).abs() < f64::EPSILON);
    }
}
