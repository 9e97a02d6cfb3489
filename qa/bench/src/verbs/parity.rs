//! `seawall-bench parity`: what parity or filled blocks cost a commit.

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use crate::processor::{Costs, Usage};
use seawall::{Level, Options, Retention};
use seawall_measure::contest::{Contest, Entry, hold_in_slices};
use seawall_measure::human::{count, to_u64};
use seawall_measure::pairs::{Ours, Plain, Trouble};
use seawall_measure::slice::Slice;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The size of a log's segments.
const PLAIN_FILE: u64 = 64 << 20;
/// Long enough to include the work in the background.
const SLICE: Duration = Duration::from_millis(250);
/// Retention of a log, in bytes.
const KEPT: u64 = 256 << 20;

impl Bench for args::Parity {
    const NAME: &'static str = "parity";
    const TITLE: &'static str = "What parity or filled blocks cost a commit";
    type Found = Vec<Costs>;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        format!(
            "Two logs, one with {} and one without, by turns, beside plain writes, each with its \
             sync.",
            self.what()
        )
    }

    fn settings(&self) -> Fields {
        vec![("record_bytes", json!(self.common.size(Self::NAME))), ("with", json!(self.what()))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        let contest = |writers: &usize| {
            let count = count(to_u64(*writers), "writer");
            (name_of(*writers), format!("{count}, records of {size} bytes, synced"))
        };
        self.writers.iter().map(contest).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Vec<Costs>, Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        let size = self.common.size(Self::NAME);
        let mut plain = Plain::new(stage.folder(), PLAIN_FILE, size)
            .map_err(|error| fail(Trouble::Plain(error)))?;
        let log = |name, options| Side::new(&stage.folder().join(name), options, size);
        let with = if self.fill_blocks {
            Options::new().fill_blocks(true)
        } else {
            Options::new().parity(Some(self.stripe))
        };
        let with = log("with", with).map_err(|error| fail(Trouble::Ours(error)))?;
        let without = log("without", Options::new()).map_err(|error| fail(Trouble::Ours(error)))?;
        let mut costs = vec![];
        for ((name, asks), writers) in self.contests().into_iter().zip(&self.writers) {
            let by_plain = |time| plain.slice(time).map_err(Trouble::Plain);
            let mut entries: Vec<Entry<'_, Trouble>> = vec![
                Entry::new(self.what(), |time| with.slice(*writers, time)),
                Entry::new("without", |time| without.slice(*writers, time)),
                Entry::new("plain writes and syncs", by_plain),
            ];
            let standings = hold_in_slices(&mut entries, stage.time(), SLICE).map_err(fail)?;
            drop(entries);
            let cost = Costs([without.usage.take_us(), with.usage.take_us()]);
            stage.keep(Contest { name, asks, standings })?;
            stage.say(&[self.says(&cost)])?;
            costs.push(cost);
        }
        with.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        without.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        Ok(costs)
    }

    fn results(&self, costs: &Vec<Costs>, held: &[Compared]) -> Fields {
        let costs =
            costs.iter().map(|Costs([none, with])| json!({ "with": with, "without": none }));
        vec![
            ("commit_us", costs.collect()),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, costs: &Vec<Costs>, held: &[Compared]) -> String {
        let one = |(compared, cost): (&Compared, &Costs)| {
            page::contest(compared) + &format!("<p>{}</p>\n", page::escaped(&self.says(cost)))
        };
        held.iter().zip(costs).map(one).collect()
    }
}

/// The names of contests by number of writers, which must match those of a baseline.
const NAMES: [(usize, &str); 5] =
    [(1, "1 writer"), (2, "2 writers"), (8, "8 writers"), (64, "64 writers"), (256, "256 writers")];

/// The name of the contest with this number of writers.
pub(crate) fn name_of(writers: usize) -> &'static str {
    NAMES.iter().find(|(count, _)| *count == writers).map_or("writers", |name| name.1)
}

impl args::Parity {
    /// The feature that is measured.
    fn what(&self) -> String {
        if self.fill_blocks {
            "filled blocks".to_owned()
        } else {
            format!("parity {}", self.stripe)
        }
    }

    /// The processor cost of a commit, as text.
    fn says(&self, costs: &Costs) -> String {
        costs.says("A commit", ["without", &format!("with {}", self.what())])
    }
}

/// One of the two logs, and its processor time.
struct Side {
    log: Ours,
    usage: Usage,
}

impl Side {
    fn new(path: &Path, options: Options, size: usize) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        let options = options.level(Level::Synced).retention(kept);
        let log = Ours::new(path, &options, size)?;
        Ok(Self { log, usage: Usage::default() })
    }

    fn slice(&self, writers: usize, time: Duration) -> Result<Slice, Trouble> {
        self.usage.add(|| {
            let slice = self.log.slice(writers, time).map_err(Trouble::Ours)?;
            Ok((to_u64(slice.times.len()), slice))
        })
    }
}
