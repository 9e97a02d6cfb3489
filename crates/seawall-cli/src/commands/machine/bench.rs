//! `seawall bench append`: durable commits compared with plain synced writes to the same disk.

use crate::args::BenchAppend;
use seawall::{Level, Options};
use seawall_measure::machine::{Conditions, IN_MEMORY, is_in_memory};
use seawall_measure::pairs::{HEAD, Ours, Plain, Rounds, Row, Trouble, compare};
use seawall_measure::scratch::Scratch;
use seawall_measure::slice::check_threads;
use seawall_output::answer;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

const PLAIN: &str = "plain: write and sync each record, one thread, in a file written before";
/// The size of the plain file in bytes: that of a segment.
const PLAIN_FILE: u64 = 64 << 20;

/// Measures each number of writers and prints each result immediately.
pub(crate) fn run(args: &BenchAppend) -> Result<Exit, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    if is_in_memory(&args.dir) {
        say(&format!("seawall: {IN_MEMORY}"));
    }
    let threads = args.writers.iter().copied().max().filter(|threads| *threads > 1 && !args.tasks);
    let threads = threads.unwrap_or_default();
    check_threads(threads).map_err(|error| {
        let what = format!("cannot start {threads} threads: {error}");
        Failure::new(Exit::Failed, what).at("--writers").next("give fewer, or --tasks")
    })?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let mut plain = Plain::new(scratch.path(), PLAIN_FILE, args.size)
        .map_err(|error| fail(Trouble::Plain(error)))?;
    let level = Level::from(args.level);
    let options = Options::new().level(level);
    let ours = Ours::new(&scratch.path().join("log"), &options, args.size)
        .map_err(|error| fail(Trouble::Ours(error)))?
        .by_tasks(args.tasks);
    let mut out = Output::lock();
    if !args.look.json {
        let by = if args.tasks { ", by tasks of one thread" } else { "" };
        let about = format!("{}-byte records, {}{by}", args.size, level.name());
        out.lines(&[&format!("{about}; in {}", args.dir.display()), PLAIN, "", HEAD]);
    }
    let rounds = Rounds::within(Duration::from_secs_f64(args.time));
    let mut rows = vec![];
    for writers in &args.writers {
        let row = compare(&mut plain, &ours, *writers, rounds).map_err(fail)?;
        if !args.look.json {
            out.lines(&[row.line()]);
        }
        rows.push(row);
    }
    ours.close().map_err(|error| fail(Trouble::Ours(error)))?;
    let conditions = Conditions::of(rows.iter().map(|row| row.others));
    if args.look.json {
        out.json(&Answer::of(args, rows, &conditions));
    } else if !conditions.says().is_empty() {
        out.line("");
        out.lines(&conditions.says());
    }
    Ok(out.finish())
}

/// The error of a measurement in `folder`.
pub(super) fn failure(folder: &Path, trouble: &Trouble) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot measure: {trouble}"));
    failure.at(folder.display()).next("give --dir a directory with more space")
}

answer! {
    /// `seawall bench append --json`
    #[serde(tag = "schema", rename = "seawall.bench-append/1")]
    struct Answer(args: &BenchAppend, rows: Vec<Row>, conditions: &Conditions) {
        dir: String = args.dir.display().to_string(),
        record_bytes: usize = args.size,
        level: &'static str = Level::from(args.level).name(),
        writers_are: &'static str = if args.tasks { "tasks" } else { "threads" },
        ranked: bool = conditions.are_good(),
        others_share: Option<f64> = conditions.others().share(),
        results: Vec<Row> = rows,
    }
}
