//! Runs a bench: reads the baseline, creates the page and a scratch folder, measures, and writes
//! the result as text, JSON and page.

use crate::args::{Common, Defaults};
use crate::baseline::Unfit;
use crate::beside::{Past, Report};
use crate::compared::Compared;
use crate::failure::Failure;
use crate::output::say;
use crate::page;
use seawall_measure::contest::{Contest, Standings};
use seawall_measure::machine::{Conditions, IN_MEMORY, is_in_memory};
use seawall_measure::pairs::Trouble;
use seawall_measure::scratch::Scratch;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Fields of the JSON result.
pub(crate) type Fields = Vec<(&'static str, Value)>;

/// One benchmark.
pub(crate) trait Bench {
    /// The verb on the command line. The JSON result has the schema `seawall.bench-NAME/1`.
    const NAME: &'static str;
    /// The title of the page.
    const TITLE: &'static str;
    /// The results other than the contests.
    type Found;

    /// The options that all benches have.
    fn common(&self) -> &Common;

    /// The introduction of the page.
    fn about(&self) -> String;

    /// Settings that must be the same in a baseline.
    fn settings(&self) -> Fields;

    /// Settings that may differ in a baseline.
    fn also(&self) -> Fields {
        vec![]
    }

    /// The names and questions of the contests that a baseline must have.
    fn contests(&self) -> Vec<(&'static str, String)> {
        vec![]
    }

    /// Refuses a baseline that was not measured in the same way.
    fn check(&self, past: &Past<'_>) -> Result<(), Unfit> {
        let contests = self.contests();
        if contests.is_empty() {
            return Err(Unfit::Other(format!("`{}` has no ratios to compare", Self::NAME)));
        }
        let mut contests = contests.into_iter();
        contests.try_for_each(|(name, asks)| past.baseline.contest(name, &asks).map(drop))
    }

    /// Measures, and passes each contest to [`Stage::keep`].
    fn measure(&self, stage: &mut Stage<'_>) -> Result<Self::Found, Failure>;

    /// The conditions of the measurement.
    fn conditions(&self, _found: &Self::Found, held: &[Compared]) -> Conditions {
        Conditions::of(held.iter().map(|compared| compared.contest.standings.others))
    }

    /// Lines printed at the end of the text output.
    fn remarks(&self, _found: &Self::Found, _held: &[Compared]) -> Vec<String> {
        vec![]
    }

    /// Fields of the JSON result.
    fn results(&self, _found: &Self::Found, held: &[Compared]) -> Fields {
        vec![("contests", held.iter().map(Compared::as_json).collect())]
    }

    /// The body of the page.
    fn page(&self, _found: &Self::Found, held: &[Compared]) -> String {
        held.iter().map(page::contest).collect()
    }
}

/// The environment of a running bench: its scratch folder, the baseline, and the contests so far.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    common: &'a Common,
    defaults: Defaults,
    scratch: Scratch,
    past: Option<&'a Past<'a>>,
    held: Vec<Compared>,
}

impl Stage<'_> {
    /// The scratch folder, which is removed at the end.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// How long to measure.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.common.time.or(self.defaults.time).unwrap_or(1.0))
    }

    /// Converts an error of the measurement.
    pub(crate) fn failure(&self, trouble: &Trouble) -> Failure {
        failure(&self.common.dir, trouble)
    }

    /// Prints lines now, unless the output is JSON.
    pub(crate) fn say(&self, lines: &[impl AsRef<str>]) -> Result<(), Failure> {
        if self.common.json { Ok(()) } else { say(lines) }
    }

    /// Compares a contest with the baseline, prints it, and keeps it.
    pub(crate) fn keep(&mut self, contest: Contest) -> Result<&Contest, Failure> {
        let mut compared = Compared::from(contest);
        if let Some(past) = self.past {
            past.compare(&mut compared)?;
        }
        self.say(&compared.lines())?;
        self.held.push(compared);
        Ok(&self.held.last().expect("it was just kept").contest)
    }

    /// Keeps the contest of a bench that has exactly one.
    pub(crate) fn keep_one(
        &mut self,
        contests: Vec<(&'static str, String)>,
        standings: Standings,
    ) -> Result<(), Failure> {
        let (name, asks) = contests.into_iter().next().expect("a bench with one contest names it");
        self.keep(Contest { name, asks, standings }).map(drop)
    }

    /// The baseline, if there is one.
    pub(crate) fn past(&self) -> Option<&Past<'_>> {
        self.past
    }
}

/// Converts an error of a measurement in `folder`.
pub(crate) fn failure(folder: &Path, trouble: &Trouble) -> Failure {
    let next = "give --dir a directory with more space";
    Failure::new(format!("cannot measure: {trouble}"), folder.display(), next)
}

/// Runs a bench and reports its result.
pub(crate) fn run<B: Bench>(bench: &B) -> Result<(), Failure> {
    let (common, defaults) = (bench.common(), Defaults::of(B::NAME));
    common.refuse_unused(B::NAME, defaults)?;
    if is_in_memory(&common.dir) {
        eprintln!("seawall-bench: {IN_MEMORY}");
    }
    let schema = ("schema", json!(format!("seawall.bench-{}/1", B::NAME)));
    let settings = bench.settings();
    let same: Fields = [schema.clone()].into_iter().chain(settings.clone()).collect();
    let past = Past::read(&common.beside, &same)?;
    if let Some(past) = &past {
        bench.check(past).map_err(|unfit| past.failure(&unfit))?;
    }
    let report = Report::begin(common.beside.report.as_deref())?;
    let scratch = Scratch::new(&common.dir, "seawall-bench")?;
    let mut stage = Stage { common, defaults, scratch, past: past.as_ref(), held: vec![] };
    let found = bench.measure(&mut stage)?;
    let held = std::mem::take(&mut stage.held);
    drop(stage);
    let conditions = bench.conditions(&found, &held);
    if common.json {
        let dir = json!(common.dir.display().to_string());
        let mut answer: Map<String, Value> = [schema, ("dir", dir)]
            .into_iter()
            .chain(settings)
            .chain(bench.also())
            .chain([
                ("ranked", json!(conditions.are_good())),
                ("others_share", json!(conditions.others().share())),
            ])
            .chain(bench.results(&found, &held))
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if let Some(past) = &past {
            answer.insert("baseline".to_owned(), past.as_json());
        }
        say(&[Value::from(answer).to_string()])?;
    } else {
        say(&bench.remarks(&found, &held))?;
        let says = conditions.says();
        if !says.is_empty() {
            say(&[""])?;
            say(&says)?;
        }
    }
    report.write(&format!("seawall-bench {}", B::NAME), || {
        page::head(B::TITLE, &conditions, (&bench.about(), &common.dir))
            + &bench.page(&found, &held)
    })
}
