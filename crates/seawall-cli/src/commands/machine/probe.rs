//! `seawall probe`: the cost of durable writes in this directory, for each method.

mod advice;
mod ways;

use super::doctor::checks::{Check, State};
use super::doctor::{Judged, tell_check};
use crate::args::Probe;
use crate::output::progress::Progress;
use advice::{Advice, Costs};
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::machine::Conditions;
use seawall_measure::scratch::Scratch;
use seawall_measure::slice::check_threads;
use seawall_measure::streams::{NOT_DIRECT, Streams};
use seawall_measure::tour::{Stay, stations};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{bytes, folded, rounded};
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use ways::{Prepared, Way, Writer, flush_after, together};

/// The write size of most rows: a page.
const PAGE: usize = 4096;

const WAYS: [(&str, Way); 7] = [
    ("write, fdatasync", Way::Fdatasync),
    ("write, fsync", Way::Fsync),
    ("write with RWF_DSYNC", Way::Dsync),
    ("direct, with RWF_DSYNC", Way::DirectDsync),
    ("direct, fdatasync", Way::DirectFdatasync),
    ("fdatasync of nothing", Way::OnlySync),
    ("write, NOT durable", Way::Never),
];
const PREPARED: [(&str, Prepared); 3] = [
    ("written before", Prepared::Written),
    ("growing", Prepared::Growing),
    ("allocated, not written", Prepared::Allocated),
];
const SIZES: [(&str, usize); 5] = [
    ("4 KiB", PAGE),
    ("16 KiB", 16 << 10),
    ("64 KiB", 64 << 10),
    ("256 KiB", 256 << 10),
    ("1 MiB", 1 << 20),
];
const THREADS: [(&str, usize); 5] = [
    ("1 thread", 1),
    ("2 threads", 2),
    ("4 threads", 4),
    ("8 threads", 8),
    ("16 threads", THREADS_MAX),
];
const THREADS_MAX: usize = 16;
/// The numbers of bytes to write to the device before a measured sync.
const DIRTY: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];
/// The share of the measuring time that the streams get: they have the most rows.
const STREAMS: f64 = 0.37;

/// Measures and reports; exits with 10 if synced data is not durable here.
pub(crate) fn run(args: &Probe) -> Result<Exit, Failure> {
    let judged = Judged::of(&args.dir)?;
    let mut out = Output::lock();
    if !args.look.json {
        tell_place(&mut out, args, &judged.checks);
    }
    let fail = |error| failure(&args.dir, &error);
    check_threads(THREADS_MAX).map_err(|error| {
        let what = format!("cannot start {THREADS_MAX} threads: {error}");
        let failure = Failure::new(Exit::Failed, what).at("seawall probe");
        failure.next("raise the limits of threads and memory: ulimit -a")
    })?;
    let scratch = Scratch::new(&args.dir, "seawall-probe")?;
    let mut asked = vec![];
    let time = Duration::from_secs_f64(args.time);
    let contests: [(&str, &str, f64, Maker); 5] = [
        ("ways", "4 KiB made durable, in a file written before", 0.2, by_way),
        ("files", "the same by fdatasync, in a file that is", 0.1, by_file),
        ("sizes", "one write and its fdatasync, of", 0.13, by_size),
        ("threads", "4 KiB and fdatasync each, every thread in its file", 0.13, by_threads),
        ("processors", "4 KiB and fdatasync by one thread that stays on", 0.07, by_processor),
    ];
    for (name, asks, share, make) in contests {
        let mut entries = make(scratch.path()).map_err(fail)?;
        if entries.is_empty() {
            continue;
        }
        let standings = hold(&mut entries, time.mul_f64(share)).map_err(fail)?;
        let contest = Contest { name, asks: asks.to_owned(), standings };
        if !args.look.json {
            out.lines(&contest.lines());
        }
        asked.push(contest);
    }
    let streams = streams(scratch.path(), args)?;
    if !args.look.json {
        out.lines(&streams.as_ref().map_or(NOT_DIRECT.map(str::to_owned).into(), Streams::lines));
    }
    let flushes = flushes(scratch.path()).map_err(fail)?;
    let advice = advice::of(&Costs { streams: streams.as_ref(), ..costs(&asked, &flushes) });
    let standings = asked.iter().map(|one| &one.standings);
    let standings = standings.chain(streams.as_ref().map(|streams| &streams.standings));
    let conditions = Conditions::of(standings.map(|standings| standings.others));
    let exit = judged.exit;
    let found = Found { judged, asked, streams, flushes, advice, conditions };
    if args.look.json {
        out.json(&Answer::of(found));
    } else {
        tell_rest(&mut out, &found);
    }
    Ok(exit.worse(out.finish()))
}

/// All results.
struct Found {
    judged: Judged,
    asked: Vec<Contest>,
    /// `None` if the file system has no direct writes.
    streams: Option<Streams>,
    /// Pairs: the number of unsynced bytes, and the duration of their sync in microseconds.
    flushes: Vec<(u64, f64)>,
    advice: Vec<Advice>,
    conditions: Conditions,
}

answer! {
    /// `seawall probe --json`
    #[serde(tag = "schema", rename = "seawall.probe/1")]
    struct Answer(found: Found) {
        #[serde(flatten)]
        judged: Judged = found.judged,
        contests: Vec<Value> = found.asked.iter().map(Contest::as_json).collect(),
        flushes: Vec<Flush> = found.flushes.iter().map(Flush::of).collect(),
        advice: Vec<Advice> = found.advice,
        ranked: bool = found.conditions.are_good(),
        others_share: Option<f64> = found.conditions.others().share(),
        streams: Option<Value> = found.streams.as_ref().map(Streams::as_json),
    }
}

answer! {
    /// The duration of a sync after some bytes were written.
    struct Flush(flush: &(u64, f64)) {
        dirty_bytes: u64 = flush.0,
        flush_us: f64 = flush.1,
    }
}

type Maker = fn(&Path) -> io::Result<Vec<Entry<'static, io::Error>>>;

fn by_way(folder: &Path) -> io::Result<Vec<Entry<'static, io::Error>>> {
    let make = |(name, way)| entry(folder, name, (way, Prepared::Written), PAGE);
    WAYS.into_iter().filter_map(|way| make(way).transpose()).collect()
}

fn by_file(folder: &Path) -> io::Result<Vec<Entry<'static, io::Error>>> {
    let make = |(name, prepared)| entry(folder, name, (Way::Fdatasync, prepared), PAGE);
    PREPARED.into_iter().filter_map(|prepared| make(prepared).transpose()).collect()
}

fn by_size(folder: &Path) -> io::Result<Vec<Entry<'static, io::Error>>> {
    let make = |(name, size)| entry(folder, name, (Way::Fdatasync, Prepared::Written), size);
    SIZES.into_iter().filter_map(|size| make(size).transpose()).collect()
}

/// Returns an entry with its own file; `None` if the file system does not support the method.
fn entry(
    folder: &Path,
    name: &'static str,
    way: (Way, Prepared),
    size: usize,
) -> io::Result<Option<Entry<'static, io::Error>>> {
    let Some(mut writer) = Writer::new(folder, way, size)? else { return Ok(None) };
    Ok(Some(Entry::new(name, move |time| writer.slice(time))))
}

fn by_threads(folder: &Path) -> io::Result<Vec<Entry<'static, io::Error>>> {
    let way = (Way::Fdatasync, Prepared::Written);
    let writers = (0..THREADS_MAX).filter_map(|_| Writer::new(folder, way, PAGE).transpose());
    let writers = Rc::new(RefCell::new(writers.collect::<io::Result<Vec<_>>>()?));
    let make = |(name, threads): (&'static str, usize)| {
        let writers = writers.clone();
        let act = move |time| {
            let mut writers = writers.borrow_mut();
            let count = threads.min(writers.len());
            together(writers.get_mut(..count).unwrap_or_default(), time)
        };
        Entry::new(name, act)
    };
    Ok(THREADS.into_iter().map(make).collect())
}

/// Returns one entry per processor; empty if there is only one processor.
fn by_processor(folder: &Path) -> io::Result<Vec<Entry<'static, io::Error>>> {
    let way = (Way::Fdatasync, Prepared::Written);
    let Some(writer) = Writer::new(folder, way, PAGE)? else { return Ok(vec![]) };
    let writer = Rc::new(RefCell::new(writer));
    let make = |processor| {
        let writer = writer.clone();
        let act = move |time| {
            let _stay = Stay::on(processor);
            writer.borrow_mut().slice(time)
        };
        Entry::new(format!("processor {processor}"), act)
    };
    Ok(stations().into_iter().map(make).collect())
}

/// Measures streams, with progress on standard error.
fn streams(folder: &Path, args: &Probe) -> Result<Option<Streams>, Failure> {
    let mut progress = Progress::start(args.patience, args.look.quiet)?.counting("rounds");
    let mut tell = |done: u32, total: u32| progress.tell(done.into(), Some(total.into()));
    let time = Duration::from_secs_f64(args.time * STREAMS);
    Streams::measure(folder, time, &mut tell).map_err(|error| failure(&args.dir, &error))
}

/// How long a sync takes after each number of bytes, in microseconds; empty without direct I/O.
fn flushes(folder: &Path) -> io::Result<Vec<(u64, f64)>> {
    let mut found = vec![];
    for dirty in DIRTY {
        let time = flush_after(folder, dirty)?;
        found.extend(time.map(|time| (dirty, time)));
    }
    Ok(found)
}

fn costs<'a>(asked: &'a [Contest], flushes: &'a [(u64, f64)]) -> Costs<'a> {
    let rows = |name: &str| {
        let contest = asked.iter().find(|contest| contest.name == name);
        contest.map(|contest| contest.standings.rows.as_slice()).unwrap_or_default()
    };
    Costs {
        files: rows("files"),
        sizes: rows("sizes").iter().zip(SIZES.map(|(_, size)| size)).collect(),
        threads: rows("threads").iter().zip(THREADS.map(|(_, threads)| threads)).collect(),
        processors: rows("processors"),
        streams: None,
        flushes,
    }
}

fn failure(folder: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot measure: {error}"));
    failure.at(folder.display()).next("give a directory with 300 MiB of free space")
}

fn tell_place(out: &mut Output, args: &Probe, checks: &[Check]) {
    out.line(&format!("{}   measured for about {} s", args.dir.display(), args.time));
    checks.iter().filter(|check| is_of_the_disk(check)).for_each(|check| tell_check(out, check));
    out.flush();
}

/// Whether a check matters for the measurements; only `doctor` shows the others.
fn is_of_the_disk(check: &Check) -> bool {
    check.state >= State::Unusable
        || ["file system", "overwrites", "write cache"].contains(&check.name)
}

fn tell_rest(out: &mut Output, found: &Found) {
    let Found { flushes, advice, conditions, .. } = found;
    out.line("");
    if !flushes.is_empty() {
        out.line("a sync, after this much unsynced data");
        for (dirty, time) in flushes {
            out.line(&format!("  {:<23}{:>18} us", bytes(*dirty), rounded(*time)));
        }
        out.line("");
    }
    for Advice { topic, says } in advice {
        out.line(&format!("{topic:<10}{}", folded(says, 10)));
    }
    let says = conditions.says();
    if !says.is_empty() {
        out.line("");
        out.lines(&says);
    }
}
