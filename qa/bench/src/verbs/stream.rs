//! `seawall-bench stream`: one thread that appends without waiting for each record, beside plain
//! writes of 1 MiB.

mod handover;
mod pipeline;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::page;
use seawall::{Log, Options, Raw, Retention, Ticket};
use seawall_format::frame::HEADER_SIZE as FRAME_HEADER;
use seawall_host::{BlockDevice, RawFile};
use seawall_io::{AlignedMemory, DIRECT_ALIGNMENT};
use seawall_measure::contest::{Entry, hold_in_slices};
use seawall_measure::human::{bytes, to_f64, to_u64};
use seawall_measure::machine::Stopwatch;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, by_one, nanoseconds};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use handover::Handovers;
use pipeline::Pipeline;

/// Bytes of a plain write.
const PLAIN_WRITE: usize = 1 << 20;
/// Size of the file for plain writes, which wrap around.
const PLAIN_FILE: u64 = 64 << 20;
/// Bytes of records appended between two checks of the log's statistics.
const TURN: usize = 16 << 20;
/// One of this many records is timed, and its ticket awaited.
const TIMED: u64 = 64;
/// Longer than slices of single commits, so that the background work that a stream leaves behind
/// weighs less.
const SLICE: Duration = Duration::from_millis(250);
/// How long a stream runs alone to count what the device writes.
const ALONE: Duration = Duration::from_secs(1);

impl Bench for args::Stream {
    const NAME: &'static str = "stream";
    const TITLE: &'static str = "A stream of records";
    type Found = Found;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "One thread that appends without waiting for each record, beside plain writes of a \
         mebibyte. Times are those of a write, and from append to durable."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![("record_bytes", json!(self.common.size(Self::NAME)))]
    }

    fn also(&self) -> Fields {
        vec![("fresh", json!(self.fresh)), ("kept_bytes", json!(self.keep))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        let rate = if self.fresh { "MB/s in new files" } else { "MB a second" };
        let asks = format!("{rate}, records of {size} bytes by one thread, so much on its way");
        vec![(Self::NAME, asks)]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Found, Failure> {
        let plain = Plain::all(stage.folder());
        let plain = plain.map_err(|error| stage.failure(&Trouble::Plain(error)))?;
        let options = Options::new().idle_mark(None);
        let options = if self.fresh {
            options.reuse(false)
        } else {
            options.retention(Retention::new().max_bytes(self.keep).without_checkpoints())
        };
        let log = options.open(stage.folder().join("log"));
        let log = log.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        let stream = Stream { log: &log, record: vec![0x5a; self.common.size(Self::NAME)] };
        if !self.fresh {
            stream.fill(self.keep).map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        }
        let handovers = RefCell::new(Handovers::default());
        let mut entries: Vec<Entry<'_, Trouble>> = vec![];
        for (number, mut plain) in plain.into_iter().enumerate() {
            let (name, handovers) = (plain.name, &handovers);
            let act = move |time| {
                if number == 0 {
                    handovers.borrow_mut().measure();
                }
                plain.slice(time).map_err(Trouble::Plain)
            };
            entries.push(Entry::new(name, act));
        }
        for window in self.windows.iter().filter(|_| self.pipeline) {
            let pipeline = Pipeline::new(stage.folder(), &stream.record, *window);
            let mut pipeline = pipeline.map_err(|error| stage.failure(&Trouble::Plain(error)))?;
            let name = format!("pipeline, {}", bytes(*window));
            let act = move |time| pipeline.slice(time).map_err(Trouble::Plain);
            entries.push(Entry::new(name, act));
        }
        for window in &self.windows {
            let name = format!("seawall, {}", bytes(*window));
            let act = |time| stream.slice(*window, time).map_err(Trouble::Ours);
            entries.push(Entry::new(name, act));
        }
        let standings = hold_in_slices(&mut entries, stage.time(), SLICE)
            .map_err(|trouble| stage.failure(&trouble))?;
        drop(entries);
        stage.keep_one(self.contests(), standings)?;
        let device = BlockDevice::below(stage.folder());
        let written = |window: &u64| DeviceBytes::measure(&stream, *window, device.as_ref());
        let written: seawall::Result<Vec<_>> = self.windows.iter().map(written).collect();
        let written = written.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        log.close().map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        Ok(Found { written, handovers: handovers.into_inner() })
    }

    fn remarks(&self, found: &Found, _: &[Compared]) -> Vec<String> {
        [String::new()].into_iter().chain(found.says()).collect()
    }

    fn results(&self, found: &Found, held: &[Compared]) -> Fields {
        vec![
            ("device", found.written.iter().map(DeviceBytes::as_json).collect()),
            ("cache_line_ns", found.handovers.as_json()),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, found: &Found, held: &[Compared]) -> String {
        let contests: String = held.iter().map(page::contest).collect();
        let says = found.says().map(|says| format!("<p>{}</p>\n", page::escaped(&says)));
        contests + &says.collect::<String>()
    }
}

/// What was measured beside the speeds.
#[derive(Debug)]
pub(crate) struct Found {
    written: Vec<DeviceBytes>,
    handovers: Handovers,
}

impl Found {
    fn says(&self) -> impl Iterator<Item = String> {
        self.written.iter().map(DeviceBytes::says).chain(self.handovers.says())
    }
}

/// The bytes that the device wrote during a stream.
#[derive(Debug)]
pub(crate) struct DeviceBytes {
    window: u64,
    /// Bytes of batches in the log's files.
    logged: u64,
    /// Bytes that the device wrote; `None` if the system does not report them.
    device: Option<u64>,
}

impl DeviceBytes {
    fn measure(
        stream: &Stream<'_>,
        window: u64,
        device: Option<&BlockDevice>,
    ) -> seawall::Result<Self> {
        let written = || device.and_then(BlockDevice::written);
        let (begin, before) = (stream.log.stats().bytes, written());
        stream.slice(window, ALONE)?;
        let logged = stream.log.stats().bytes - begin;
        let device = before.zip(written()).and_then(|(before, after)| after.checked_sub(before));
        Ok(Self { window, logged, device })
    }

    fn ratio(&self) -> Option<f64> {
        Some(to_f64(self.device?) / to_f64(self.logged.max(1)))
    }

    fn says(&self) -> String {
        let window = bytes(self.window);
        self.ratio().map_or_else(
            || format!("{window}: the system does not tell what the device wrote."),
            |ratio| format!("{window}: the device wrote {ratio:.3} bytes for each logged byte."),
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "window_bytes": self.window,
            "logged_bytes": self.logged,
            "device_bytes": self.device,
            "ratio": self.ratio(),
        })
    }
}

/// Sequential writes of 1 MiB that wrap around in a file that was written before.
struct Plain {
    name: &'static str,
    file: RawFile,
    memory: Pages,
    is_direct: bool,
    at: u64,
}

/// The bytes to write.
enum Pages {
    /// Ordinary memory, aligned for direct writes.
    Small(Vec<u8>),
    /// The memory that the log uses.
    Huge(AlignedMemory),
}

impl Pages {
    fn new(is_huge: bool) -> Self {
        let mut memory = if is_huge {
            Self::Huge(AlignedMemory::default())
        } else {
            Self::Small(vec![0; PLAIN_WRITE + DIRECT_ALIGNMENT])
        };
        memory.bytes().fill(0x5a);
        memory
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Huge(memory) => memory.first(PLAIN_WRITE),
            Self::Small(memory) => {
                let start = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
                memory.get_mut(start..start + PLAIN_WRITE).expect("it is longer by the alignment")
            }
        }
    }
}

impl Plain {
    /// Prepares direct writes, where they are supported, and synced writes through the page cache.
    fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let new = |(name, is_direct, is_huge)| {
            let file = RawFile::create(folder, is_direct)?;
            file.fill(PLAIN_FILE)?;
            Ok(Self { name, file, memory: Pages::new(is_huge), is_direct, at: 0 })
        };
        let ways = [
            ("direct writes of 1 MiB", true, false),
            ("direct, from huge pages", true, true),
            ("synced writes of 1 MiB", false, false),
        ];
        let unsupported = io::ErrorKind::Unsupported;
        let is_missing =
            |made: &io::Result<Self>| made.as_ref().is_err_and(|error| error.kind() == unsupported);
        ways.into_iter().map(new).filter(|made| !is_missing(made)).collect()
    }

    fn slice(&mut self, time: Duration) -> io::Result<Slice> {
        let bytes = &*self.memory.bytes();
        let slice = by_one(time, || {
            if self.is_direct {
                self.file.write_synced(bytes, self.at)?;
            } else {
                self.file.write(bytes, self.at)?;
                self.file.sync_data()?;
            }
            self.at = (self.at + to_u64(PLAIN_WRITE)) % PLAIN_FILE;
            io::Result::Ok(())
        })?;
        let per_second = slice.per_second * megabytes(to_u64(PLAIN_WRITE), Duration::from_secs(1));
        Ok(Slice { per_second, ..slice })
    }
}

/// Appends without waiting while at most a window of bytes is in flight.
pub(crate) struct Stream<'a> {
    pub(crate) log: &'a Log<[u8], Raw>,
    pub(crate) record: Vec<u8>,
}

/// The result of streaming until all records were durable.
pub(crate) struct Streamed {
    pub(crate) records: u64,
    pub(crate) took: Duration,
    /// The time from append to durable of the timed records, in nanoseconds.
    pub(crate) times: Vec<u32>,
}

/// A timed record.
struct Timed {
    ticket: Ticket,
    since: Duration,
    /// Total bytes of the records up to and including this one.
    before: u64,
}

impl Stream<'_> {
    /// Streams until the log reuses the files of removed segments, as a log with retention does for
    /// most of its life. Its first segments are too small for that. Stops at four times the
    /// retained size where the file system does not allow it.
    pub(crate) fn fill(&self, kept: u64) -> seawall::Result<()> {
        while self.log.stats().reused == 0 && self.log.stats().bytes < 4 * kept {
            for _ in 0..=TURN / (self.record.len() + FRAME_HEADER) {
                drop(self.log.submit(&self.record)?);
            }
            self.log.flush()?;
        }
        Ok(())
    }

    fn slice(&self, window: u64, time: Duration) -> seawall::Result<Slice> {
        let begin = self.log.stats().bytes;
        let Streamed { took, times, .. } = self.run(window, time)?;
        Ok(Slice { per_second: megabytes(self.log.stats().bytes - begin, took), times })
    }

    /// Streams for `time`, then waits until all records are durable.
    pub(crate) fn run(&self, window: u64, time: Duration) -> seawall::Result<Streamed> {
        let watch = Stopwatch::start();
        let (mut times, mut on_their_way, mut count) = (vec![], VecDeque::new(), 0_u64);
        let mut now = Duration::ZERO;
        while now < time {
            let mut ticket = self.log.submit(&self.record)?;
            count += 1;
            if !count.is_multiple_of(TIMED) {
                continue;
            }
            now = watch.elapsed();
            // Polling the ticket makes a thread of the log write the record at once.
            let _ = Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop()));
            let before = count * to_u64(self.record.len());
            on_their_way.push_back(Timed { ticket, since: now, before });
            while on_their_way.front().is_some_and(|oldest: &Timed| before - oldest.before > window)
            {
                let oldest = on_their_way.pop_front().expect("just looked at");
                oldest.ticket.wait()?;
                now = watch.elapsed();
                times.push(nanoseconds(now - oldest.since));
            }
        }
        for timed in on_their_way {
            timed.ticket.wait()?;
            times.push(nanoseconds(watch.elapsed() - timed.since));
        }
        self.log.flush()?;
        Ok(Streamed { records: count, took: watch.elapsed(), times })
    }
}

fn megabytes(bytes: u64, time: Duration) -> f64 {
    to_f64(bytes) / 1e6 / time.as_secs_f64().max(1e-9)
}
