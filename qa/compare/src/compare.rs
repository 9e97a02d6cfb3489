//! `seawall-compare`: measures all tables, one after the other.

use crate::args::Compare;
use crate::peer::{Discipline, Kind};
use crate::peers::{OURS, PEERS};
use crate::race::{self, Raced, Task};
use crate::tell;
use seawall_bench::failure::Failure;
use seawall_bench::output::say;
use seawall_bench::page::PageFile;
use seawall_measure::machine::Conditions;
use seawall_measure::scratch::Scratch;
use std::path::Path;
use std::time::Duration;

/// The logs that were compared, and the results.
pub(crate) struct Compared<'a> {
    pub(crate) args: &'a Compare,
    pub(crate) kinds: Vec<&'static Kind>,
    pub(crate) tables: Vec<Raced>,
}

impl Compared<'_> {
    /// The conditions of all measurements.
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions::of(self.tables.iter().map(|raced| raced.standings.others))
    }
}

/// Measures and reports the results.
pub(crate) fn run(args: &Compare) -> Result<(), Failure> {
    let kinds = chosen(&args.peers)?;
    if args.list {
        return say(&tell::list(&kinds, args.json));
    }
    let report = report(args)?;
    let folder = args.dir.canonicalize().map_err(|error| trouble(&error, &args.dir))?;
    let scratch = Scratch::new(&folder, "seawall-compare")?;
    let mut compared = Compared { args, kinds, tables: vec![] };
    if !args.json {
        say(&tell::head(args))?;
    }
    for task in tasks(args) {
        let place = Scratch::new(scratch.path(), &race::key(task))?;
        // Walrus writes below the current folder, unless an environment variable names another.
        std::env::set_current_dir(place.path()).map_err(|error| trouble(&error, place.path()))?;
        let raced = race::run(&compared.kinds, task, place.path())
            .map_err(|error| trouble(&format!("seawall: {error}"), &args.dir))?;
        if !args.json {
            say(&tell::table(&raced))?;
        }
        compared.tables.push(raced);
    }
    say(&if args.json {
        vec![tell::as_json(&compared).to_string()]
    } else {
        tell::foot(&compared)
    })?;
    if let Some((page, path)) = report {
        let written = page.write("Seawall beside other logs", &tell::page(&compared));
        written.map_err(|error| Failure::of_page(&error, &path))?;
    }
    Ok(())
}

/// Returns Seawall and the requested peers.
fn chosen(asked: &[String]) -> Result<Vec<&'static Kind>, Failure> {
    let named = |name: &str| PEERS.iter().find(|kind| tell::key(kind) == name);
    if let Some(unknown) = asked.iter().find(|name| named(name).is_none()) {
        let what = format!("there is no peer `{unknown}`");
        return Err(Failure::usage(what, "--peers", "seawall-compare --list"));
    }
    let is_wanted = |kind: &&&'static Kind| {
        asked.is_empty() || asked.iter().any(|name| *name == tell::key(kind))
    };
    Ok(std::iter::once(OURS).chain(PEERS.iter().filter(is_wanted).copied()).collect())
}

fn tasks(args: &Compare) -> Vec<Task> {
    let task = |discipline, writers| Task {
        discipline,
        writers,
        size: args.size,
        records: usize::try_from(args.records).expect("32 bits"),
        time: Duration::from_secs_f64(args.time),
    };
    let synced = args.writers.iter().map(|writers| task(Discipline::Synced, *writers));
    let others = [Discipline::Batches, Discipline::Buffered, Discipline::Read];
    synced.chain(others.map(|discipline| task(discipline, 1))).collect()
}

/// Creates the page's temporary file, so that an unusable path is reported before measuring.
fn report(args: &Compare) -> Result<Option<(PageFile, std::path::PathBuf)>, Failure> {
    let begin = |path: &std::path::PathBuf| {
        let page = PageFile::begin(path).map_err(|error| Failure::of_page(&error, path))?;
        Ok((page, path.clone()))
    };
    args.report.as_ref().map(begin).transpose()
}

fn trouble(what: &dyn std::fmt::Display, place: &Path) -> Failure {
    let next = "give --dir a directory with more space";
    Failure::new(format!("cannot measure: {what}"), place.display(), next)
}
