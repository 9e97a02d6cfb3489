//! `seawall bench read`: verified records out of a log, beside the least that any reader must do,
//! beside the paper's reader, and beside plain reading from the device.

mod alone;
mod cold;
mod logs;
mod memory;
mod tell;
mod ways;

pub(in crate::cmd) use alone::run as alone;

use super::beside::{Past, Report, compare};
use super::{failure, tell_conditions};
use crate::args::BenchRead;
use crate::human::{folded, number};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use cold::{Cold, Fetched};
use logs::Sample;
use memory::Memory;
use seawall_measure::contest::{Contest, Entry, Standings, hold};
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::Trouble;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use ways::{Checked, InMemory, Replay, Scan, Theirs, entry};

const SCHEMA: &str = "seawall.bench-read/1";

/// What is asked of logs in the cache: a name, the question, and the ways. The first three
/// contests are of the largest log.
const WARM: [(&str, &str, Ways); 5] = [
    ("scan", "a verified scan, one thread; times are of 1,000 records", scans),
    ("threads", "the same scan, each thread its part", threads),
    ("replay", "records decoded by serde, and lent", replays),
    (COST_SCAN, "a verified scan, one thread, of a log of", scans_by_size),
    (COST_REPLAY, "records decoded by serde, one thread, of a log of", replays_by_size),
];
const COST_SCAN: &str = "cost-scan";
const COST_REPLAY: &str = "cost-replay";
const COLD: (&str, &str) = ("cold", "the largest log from below the system's cache, MB a second");

type Ways = fn(&[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble>;

/// All that was measured.
struct Found {
    /// From the smallest to the largest.
    samples: Vec<Sample>,
    contests: Vec<Contest>,
    fetched: Fetched,
}

/// Measures, and says what came of it.
pub(crate) fn run(args: &BenchRead) -> Result<Exit, Failure> {
    let mut sizes = args.records.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let settings = [("schema", json!(SCHEMA)), ("records", json!(sizes))];
    let past = Past::read(&args.beside, &settings)?;
    if let Some(past) = &past {
        let asked = WARM.into_iter().map(|(name, asks, _)| (name, asks));
        past.has(asked.chain([COLD]).map(|(name, asks)| (name, asks.to_owned())))?;
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let mut out = Output::new();
    if !args.look.json {
        out.lines(&[format!("{}; in {}", tell::ABOUT, args.dir.display())]);
    }
    let found = measure(args, &sizes, &mut |contest| {
        compare(contest, past.as_ref())?;
        if !args.look.json {
            out.lines(&contest.lines());
        }
        Ok(())
    })?;
    let conditions = Conditions::of(found.contests.iter().map(|contest| contest.standings.others));
    if args.look.json {
        let mut answer = tell::as_json(args, &found, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    } else {
        out.line("");
        out.line(&folded(&found.fetched.says(), 0));
        out.lines(&tell::sizes(&found));
    }
    tell_conditions(&mut out, args.look, &conditions);
    report.write("seawall bench read", || tell::page(args, &found, &conditions))?;
    Ok(out.finish())
}

/// Makes the logs, and holds all contests; each is shown when it is over.
fn measure(
    args: &BenchRead,
    sizes: &[u64],
    show: &mut dyn FnMut(&mut Contest) -> Result<(), Failure>,
) -> Result<Found, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let time = Duration::from_secs_f64(args.time);
    let samples = sizes.iter().map(|count| Sample::new(scratch.path(), *count));
    let samples = samples.collect::<Result<Vec<_>, _>>().map_err(fail)?;
    let mut contests = vec![];
    let mut keep = |(name, asks): (&'static str, &str), standings: Standings| {
        let mut contest = Contest { name, asks: asks.to_owned(), standings };
        show(&mut contest)?;
        contests.push(contest);
        Ok::<_, Failure>(())
    };
    for (name, asks, ways) in WARM {
        let mut entries = ways(&samples).map_err(fail)?;
        keep((name, asks), hold(&mut entries, time).map_err(fail)?)?;
    }
    let mut cold = Cold::new(largest(&samples)).map_err(fail)?;
    let mut standings = hold(&mut cold.entries, time).map_err(fail)?;
    let fetched = cold.fetched();
    fetched.judge(&mut standings);
    keep(COLD, standings)?;
    Ok(Found { samples, contests, fetched })
}

fn largest(samples: &[Sample]) -> &Sample {
    samples.last().expect("one size at least is asked for")
}

fn scans(samples: &[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let sample = largest(samples);
    let memory = Arc::new(Memory::of(&sample.path).map_err(Trouble::Ours)?);
    let folder = sample.path.parent().expect("it is in a folder of its own");
    let out_of_file = InMemory::out_of(&memory, folder).map_err(Trouble::Plain)?;
    let in_memory = |checked| vec![InMemory::of(&memory, checked)];
    Ok(vec![
        entry("in memory, by batch", in_memory(Checked::Batches)),
        entry("in memory, by record", in_memory(Checked::Records)),
        entry("read, by record", vec![out_of_file]),
        entry("seawall", vec![Scan::of(&sample.path, sample.all())?]),
    ])
}

fn threads(samples: &[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let sample = largest(samples);
    let scan = |part| Scan::of(&sample.path, part);
    let parts = sample.parts(2)?.into_iter().map(scan).collect::<Result<_, _>>()?;
    Ok(vec![entry("1 thread", vec![scan(sample.all())?]), entry("2 threads", parts)])
}

fn replays(samples: &[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let sample = largest(samples);
    let replay = |part| Replay::of(&sample.path, part);
    let parts = sample.parts(2)?.into_iter().map(replay).collect::<Result<_, _>>()?;
    Ok(vec![
        entry("the paper's reader", vec![Theirs::of(sample.write_theirs()?)?]),
        entry("seawall, decoded", vec![replay(sample.all())?]),
        entry("seawall, 2 threads", parts),
        entry("seawall, lent", vec![Scan::of(&sample.path, sample.all())?]),
    ])
}

fn scans_by_size(samples: &[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let scan = |sample: &Sample| {
        Ok(entry(number(sample.records), vec![Scan::of(&sample.path, sample.all())?]))
    };
    samples.iter().map(scan).collect()
}

fn replays_by_size(samples: &[Sample]) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let replay = |sample: &Sample| {
        Ok(entry(number(sample.records), vec![Replay::of(&sample.path, sample.all())?]))
    };
    samples.iter().map(replay).collect()
}
