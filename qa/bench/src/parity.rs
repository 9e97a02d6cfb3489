//! `seawall-bench parity`: what parity beside the segments costs a commit.

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use seawall::{Level, Options, Retention};
use seawall_measure::contest::{Contest, Entry, hold_in_slices};
use seawall_measure::human::{count, rounded, to_f64, to_u64};
use seawall_measure::machine::processor_time;
use seawall_measure::pairs::{Ours, Plain, Trouble};
use seawall_measure::slice::Slice;
use serde_json::json;
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

/// As large as a log's segments.
const PLAIN_FILE: u64 = 64 << 20;
/// Long enough for what is made durable in the background.
const SLICE: Duration = Duration::from_millis(250);
/// What a log keeps of what was written, in bytes.
const KEPT: u64 = 256 << 20;

impl Bench for args::Parity {
    const NAME: &'static str = "parity";
    const TITLE: &'static str = "What parity costs a commit";
    type Found = Vec<Costs>;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "Two logs, one that keeps parity beside its segments and one that does not, by turns, \
         beside plain writes, each with its sync."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![
            ("record_bytes", json!(self.common.size(Self::NAME))),
            ("parity", json!(self.stripe.to_string())),
        ]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        let contest = |writers: &usize| {
            let name = NAMES.iter().find(|(count, _)| count == writers);
            let count = count(to_u64(*writers), "writer");
            let asks = format!("{count}, records of {size} bytes, synced");
            (name.map_or("writers", |name| name.1), asks)
        };
        self.writers.iter().map(contest).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Vec<Costs>, Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        let size = self.common.size(Self::NAME);
        let mut plain = Plain::new(stage.folder(), PLAIN_FILE, size)
            .map_err(|error| fail(Trouble::Plain(error)))?;
        let log = |name, parity| Side::new(&stage.folder().join(name), parity, size);
        let with = log("with", Some(self.stripe)).map_err(|error| fail(Trouble::Ours(error)))?;
        let without = log("without", None).map_err(|error| fail(Trouble::Ours(error)))?;
        let mut costs = vec![];
        for ((name, asks), writers) in self.contests().into_iter().zip(&self.writers) {
            with.forget();
            without.forget();
            let by_plain = |time| plain.slice(time).map_err(Trouble::Plain);
            let mut entries: Vec<Entry<'_, Trouble>> = vec![
                Entry::new(format!("parity {}", self.stripe), |time| with.slice(*writers, time)),
                Entry::new("none", |time| without.slice(*writers, time)),
                Entry::new("plain writes and syncs", by_plain),
            ];
            let standings = hold_in_slices(&mut entries, stage.time(), SLICE).map_err(fail)?;
            drop(entries);
            let cost = Costs([with.cost_us(), without.cost_us()]);
            stage.keep(Contest { name, asks, standings })?;
            stage.say(&[&cost.says()])?;
            costs.push(cost);
        }
        with.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        without.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        Ok(costs)
    }

    fn results(&self, costs: &Vec<Costs>, held: &[Compared]) -> Fields {
        let costs = costs.iter().map(|Costs([with, none])| json!({ "parity": with, "none": none }));
        vec![
            ("commit_us", costs.collect()),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, costs: &Vec<Costs>, held: &[Compared]) -> String {
        let one = |(compared, cost): (&Compared, &Costs)| {
            page::contest(compared) + &format!("<p>{}</p>\n", page::escaped(&cost.says()))
        };
        held.iter().zip(costs).map(one).collect()
    }
}

/// What contests are called that an earlier build is asked for.
const NAMES: [(usize, &str); 5] =
    [(1, "1 writer"), (2, "2 writers"), (8, "8 writers"), (64, "64 writers"), (256, "256 writers")];

/// One of the logs, and what it cost the processor.
struct Side {
    log: Ours,
    commits: Cell<u64>,
    time: Cell<Duration>,
}

impl Side {
    fn new(
        path: &Path,
        parity: Option<seawall::parity::Parity>,
        size: usize,
    ) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        let options = Options::new().level(Level::Synced).parity(parity).retention(kept);
        let log = Ours::new(path, &options, size)?;
        Ok(Self { log, commits: Cell::default(), time: Cell::default() })
    }

    fn slice(&self, writers: usize, time: Duration) -> Result<Slice, Trouble> {
        let before = processor_time();
        let slice = self.log.slice(writers, time).map_err(Trouble::Ours)?;
        if let (Some(before), Some(after)) = (before, processor_time()) {
            self.time.set(self.time.get() + after.saturating_sub(before));
            let count = u64::try_from(slice.times.len()).unwrap_or(u64::MAX);
            self.commits.set(self.commits.get() + count);
        }
        Ok(slice)
    }

    fn forget(&self) {
        self.commits.take();
        self.time.take();
    }

    /// Processor time of a commit, in microseconds.
    fn cost_us(&self) -> Option<f64> {
        let commits = Some(self.commits.get()).filter(|commits| *commits > 0)?;
        Some(self.time.get().as_secs_f64() * 1e6 / to_f64(commits))
    }
}

/// Processor time of a commit with parity and without, in microseconds.
#[derive(Debug)]
pub(crate) struct Costs([Option<f64>; 2]);

impl Costs {
    fn says(&self) -> String {
        match self.0 {
            [Some(with), Some(without)] => format!(
                "A commit took {} us of processor time with parity, {} without.",
                rounded(with),
                rounded(without)
            ),
            _ => "The system does not tell what a commit costs the processor.".to_owned(),
        }
    }
}
