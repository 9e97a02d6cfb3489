//! `seawall-bench append`: the table of `seawall bench append`, with a page and a baseline.

mod page;

use crate::args::{self, Common};
use crate::baseline::{self, Change, Ratio, Unfit};
use crate::beside::Past;
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use seawall::Options;
use seawall_measure::human::{count, to_u64};
use seawall_measure::machine::{Conditions, is_real_time};
use seawall_measure::pairs::{HEAD, Ours, Plain, Rounds, Row, Trouble, compare};
use serde_json::{Value, json};

const PLAIN: &str = "plain: write and sync each record, one thread, in a file written before";
/// The size of a log's segments.
const PLAIN_FILE: u64 = 64 << 20;

/// The result for one number of writers, and its change since an earlier build.
pub(crate) type Paired = (Row, Option<Change>);

impl Bench for args::Append {
    const NAME: &'static str = "append";
    const TITLE: &'static str = "Durable commits beside plain syncs";
    type Found = Vec<Paired>;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        format!("{}. {PLAIN}.", about(self))
    }

    fn settings(&self) -> Fields {
        let writers_are = if self.tasks { "tasks" } else { "threads" };
        vec![
            ("record_bytes", json!(self.common.size(Self::NAME))),
            ("level", json!(self.level.name())),
            ("writers_are", json!(writers_are)),
        ]
    }

    fn check(&self, past: &Past<'_>) -> Result<(), Unfit> {
        let mut writers = self.writers.iter();
        writers.try_for_each(|writers| past.baseline.result("writers", *writers).map(drop))
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Vec<Paired>, Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        let size = self.common.size(Self::NAME);
        let mut plain = Plain::new(stage.folder(), PLAIN_FILE, size)
            .map_err(|error| fail(Trouble::Plain(error)))?;
        let options = Options::new().level(self.level.level());
        let ours = Ours::new(&stage.folder().join("log"), &options, size)
            .map_err(|error| fail(Trouble::Ours(error)))?
            .by_tasks(self.tasks);
        let place = format!("{}; in {}", about(self), self.common.dir.display());
        stage.say(&[&place, PLAIN, "", HEAD])?;
        let rounds = Rounds::within(stage.time());
        let mut rows = vec![];
        for writers in &self.writers {
            let row = compare(&mut plain, &ours, *writers, rounds).map_err(fail)?;
            stage.say(&[row.line()])?;
            let change = match stage.past() {
                None => None,
                Some(past) => change(&row, past).map_err(|unfit| past.failure(&unfit))?,
            };
            rows.push((row, change));
        }
        ours.close().map_err(|error| fail(Trouble::Ours(error)))?;
        Ok(rows)
    }

    fn conditions(&self, rows: &Vec<Paired>, _: &[Compared]) -> Conditions {
        Conditions::of(rows.iter().map(|(row, _)| row.others))
    }

    fn remarks(&self, rows: &Vec<Paired>, _: &[Compared]) -> Vec<String> {
        let changes =
            rows.iter().filter_map(|(row, change)| Some((writers(row), change.as_ref()?)));
        let lines = baseline::lines(changes);
        if lines.is_empty() { lines } else { [String::new()].into_iter().chain(lines).collect() }
    }

    fn results(&self, rows: &Vec<Paired>, _: &[Compared]) -> Fields {
        let row = |(row, change): &Paired| {
            let mut found = serde_json::to_value(row).expect("a row is plain data");
            baseline::add(&mut found, change.as_ref());
            found
        };
        vec![("results", rows.iter().map(row).collect::<Value>())]
    }

    fn page(&self, rows: &Vec<Paired>, _: &[Compared]) -> String {
        page::body(rows)
    }
}

/// Compares the ratio of a row with that of an earlier build.
fn change(row: &Row, past: &Past<'_>) -> Result<Option<Change>, Unfit> {
    let then = past.baseline.result("writers", row.writers)?;
    let then = past.baseline.ratio(then, "raw_ratio");
    let is_ranked = is_real_time() && row.others.is_quiet();
    let now = Ratio { median: row.ratio, quartiles: row.ratio_quartiles, is_ranked };
    Ok(then.map(|then| Change { then, now }))
}

/// Describes the measurement: record size, level and kind of writers.
fn about(args: &args::Append) -> String {
    let by = if args.tasks { ", by tasks of one thread" } else { "" };
    format!("{}-byte records, {}{by}", args.common.size("append"), args.level.name())
}

fn writers(row: &Row) -> String {
    count(to_u64(row.writers), "writer")
}
