//! `seawall-bench read`: the rate of reading verified records from a log, beside the minimum work
//! of any reader, the paper's reader, and plain reads of the device.

mod alone;
mod cold;
mod logs;
mod memory;
mod tell;
mod ways;

pub(crate) use alone::run as alone;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use cold::{Cold, Fetched};
use logs::Sample;
use memory::Memory;
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::human::{folded, number};
use seawall_measure::pairs::Trouble;
use serde_json::json;
use std::sync::Arc;
use ways::{Checked, InMemory, Replay, Scan, Theirs, entry};

/// The contests of cached logs: name, question and ways. The first three use the largest log.
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

/// The results other than the contests.
pub(crate) struct Found {
    /// The logs, from the smallest to the largest.
    samples: Vec<Sample>,
    fetched: Fetched,
}

/// `seawall-bench read`, with the log sizes sorted.
pub(crate) struct Read(args::Read);

impl Read {
    pub(crate) fn of(mut args: args::Read) -> Self {
        args.records.sort_unstable();
        args.records.dedup();
        Self(args)
    }
}

impl Bench for Read {
    const NAME: &'static str = "read";
    const TITLE: &'static str = "Reading, beside the least that must be done";
    type Found = Found;

    fn common(&self) -> &Common {
        &self.0.common
    }

    fn about(&self) -> String {
        format!("Logs of {}; the contests are of the largest.", tell::ABOUT)
    }

    fn settings(&self) -> Fields {
        vec![("records", json!(self.0.records))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let warm = WARM.into_iter().map(|(name, asks, _)| (name, asks));
        warm.chain([COLD]).map(|(name, asks)| (name, asks.to_owned())).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Found, Failure> {
        let dir = &self.0.common.dir;
        let fail = |trouble: Trouble| failure(dir, &trouble);
        stage.say(&[format!("{}; in {}", tell::ABOUT, dir.display())])?;
        let samples = self.0.records.iter().map(|count| Sample::new(stage.folder(), *count));
        let samples = samples.collect::<Result<Vec<_>, _>>().map_err(fail)?;
        for (name, asks, ways) in WARM {
            let mut entries = ways(&samples).map_err(fail)?;
            let standings = hold(&mut entries, stage.time()).map_err(fail)?;
            stage.keep(Contest { name, asks: asks.to_owned(), standings })?;
        }
        let mut cold = Cold::new(largest(&samples)).map_err(fail)?;
        let mut standings = hold(&mut cold.entries, stage.time()).map_err(fail)?;
        let fetched = cold.fetched();
        fetched.judge(&mut standings);
        let (name, asks) = COLD;
        stage.keep(Contest { name, asks: asks.to_owned(), standings })?;
        Ok(Found { samples, fetched })
    }

    fn remarks(&self, found: &Found, held: &[Compared]) -> Vec<String> {
        let mut lines = vec![String::new(), folded(&found.fetched.says(), 0)];
        lines.extend(tell::sizes(found, held));
        lines
    }

    fn results(&self, found: &Found, held: &[Compared]) -> Fields {
        vec![
            ("sizes", tell::as_json(found, held)),
            ("cold", found.fetched.as_json()),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, found: &Found, held: &[Compared]) -> String {
        tell::page(found, held)
    }
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
