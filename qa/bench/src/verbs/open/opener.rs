//! The process that opens the log, fills the newest segment, and waits to be killed.

use crate::args::{self, Opener};
use crate::driver::failure;
use crate::failure::Failure;
use crate::output::say;
use seawall::{Log, Options, Raw};
use seawall_format::{HEADER_SIZE, SegmentHeader, SegmentId};
use seawall_io::{Access, Clock, PosixStorage, Storage, SystemClock};
use seawall_measure::human::to_f64;
use seawall_measure::machine::{Stopwatch, bytes_from_below, processor_time};
use seawall_measure::pairs::Trouble;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Number of synced sets in a segment.
const SETS: usize = 64;
const SET_PAUSE: Duration = Duration::from_millis(15);
/// Maximum time to wait until the next segment has its name.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The cost of opening the log.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Opened {
    pub(super) took_ms: f64,
    pub(super) processor_ms: f64,
    /// Bytes that did not come from the page cache.
    pub(super) read_bytes: f64,
}

/// A process that has opened and filled the log. Dropping this kills it.
pub(super) struct Killed {
    process: Child,
    pub(super) opened: Opened,
}

impl Killed {
    pub(super) fn after_opening(log: &Path, args: &args::Open, reuse: bool) -> io::Result<Self> {
        let mut opener = Command::new(std::env::current_exe()?);
        opener.arg("opener").arg(log).stdin(Stdio::piped()).stdout(Stdio::piped());
        opener.arg("--segment-size").arg(args.segment_size.to_string());
        opener.arg("--record-size").arg(args.common.size("open").to_string());
        opener.args(reuse.then_some("--reuse"));
        let process = opener.spawn()?;
        let (took_ms, processor_ms, read_bytes) = (0.0, 0.0, 0.0);
        let mut killed = Self { process, opened: Opened { took_ms, processor_ms, read_bytes } };
        let said = killed.process.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        killed.opened = serde_json::from_str(&line)
            .map_err(|_| io::Error::other("the process that opens the log has failed"))?;
        Ok(killed)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Opens the log, fills the newest segment until the next one has its name, prints the cost of
/// opening, and waits.
pub(crate) fn run(args: &Opener) -> Result<(), Failure> {
    let fail = |trouble: Trouble| failure(&args.log, &trouble);
    let now = || (processor_time().unwrap_or_default(), bytes_from_below().unwrap_or_default());
    let (watch, before) = (Stopwatch::start(), now());
    let options = Options::new().idle_mark(None).segment_size(args.segment_size);
    let log =
        options.reuse(args.reuse).open(&args.log).map_err(|error| fail(Trouble::Ours(error)))?;
    let (took, after) = (watch.elapsed(), now());
    let opened = Opened {
        took_ms: took.as_secs_f64() * 1e3,
        processor_ms: after.0.saturating_sub(before.0).as_secs_f64() * 1e3,
        read_bytes: to_f64(after.1 - before.1),
    };
    fill(&log, args).map_err(|error| fail(Trouble::Ours(error)))?;
    wait_for_next(&args.log).map_err(|error| fail(Trouble::Plain(error)))?;
    say(&[serde_json::to_string(&opened).expect("three numbers")])?;
    // Waits for the kill, or for the end of standard input if the parent process is gone.
    let _ = io::stdin().lock().read_line(&mut String::new());
    Ok(())
}

/// Appends until a segment of full size is nearly full. The segment before it also has full size,
/// so that the next segment can reuse its file.
fn fill(log: &Log<[u8], Raw>, args: &Opener) -> seawall::Result<()> {
    let record = vec![0x5a; args.record_size];
    let size = usize::try_from(args.segment_size).unwrap_or(usize::MAX);
    let set: Vec<&[u8]> = vec![&record; (size / SETS / (args.record_size + 8)).max(1)];
    let full = args.segment_size / 8 * 7;
    let clock = SystemClock::new();
    let (mut was_full, mut rolls, mut start) = (false, log.stats().rolls, log.stats().bytes);
    loop {
        let written = log.append_batch(set.iter().copied())?;
        let stats = log.stats();
        let used = stats.bytes - start;
        if stats.rolls > rolls {
            (was_full, rolls, start) = (used > full, stats.rolls, stats.bytes);
            log.truncate_before(*written.start())?;
        } else if was_full && used > full {
            return Ok(());
        }
        // Leaves time for the next segment to be named.
        clock.sleep(SET_PAUSE);
    }
}

/// Waits until the segment after the newest one has its name.
fn wait_for_next(log: &Path) -> io::Result<()> {
    let clock = SystemClock::new();
    while !has_next(log)? {
        if clock.now() > PATIENCE {
            return Err(io::Error::other("the next segment did not get its name in time"));
        }
        clock.sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Whether the last file is a segment that was named ahead and follows the one before it.
fn has_next(log: &Path) -> io::Result<bool> {
    let storage = PosixStorage::open(log)?;
    let names = storage.list()?;
    let mut segments = names.iter().rev().filter(|name| SegmentId::from_file_name(name).is_some());
    let (Some(last), Some(before)) = (segments.next(), segments.next()) else { return Ok(false) };
    let mut bytes = [0; HEADER_SIZE];
    storage.open(last, Access::Read)?.read_at(&mut bytes, 0)?;
    let header = SegmentHeader::decode(&bytes).ok().filter(|header| header.named_ahead);
    let pred = header.and_then(|header| header.pred);
    Ok(pred.map(|pred| pred.id) == SegmentId::from_file_name(before))
}
