//! `seawall bench append`: durable commits, as multiples of what the disk does with plain syncs.

mod page;

use super::beside::{Past, Report};
use super::{failure, tell_conditions};
use crate::args::BenchAppend;
use crate::human::rounded;
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use seawall::{Level, Options};
use seawall_measure::baseline;
use seawall_measure::machine::{Conditions, is_real_time};
use seawall_measure::pairs::{Ours, Plain, Rounds, Row, Trouble, compare};
use serde_json::{Value, json};
use std::time::Duration;

pub(in crate::cmd) use page::rates;

const SCHEMA: &str = "seawall.bench-append/1";
const PLAIN: &str = "plain: write and sync each record, one thread, in a file written before";
/// As large as a log's segments.
const PLAIN_FILE: u64 = 64 << 20;

/// Measures every number of writers, and says what came of it.
pub(crate) fn run(args: &BenchAppend) -> Result<Exit, Failure> {
    let settings = [
        ("schema", json!(SCHEMA)),
        ("record_bytes", json!(args.size)),
        ("level", json!(args.level.name())),
        ("writers_are", json!(writers_are(args))),
    ];
    let past = Past::read(&args.beside, &settings)?;
    if let Some(past) = &past {
        for writers in &args.writers {
            past.baseline.result("writers", *writers).map_err(|unfit| past.failure(&unfit))?;
        }
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let mut plain = Plain::new(scratch.path(), PLAIN_FILE, args.size)
        .map_err(|error| failure(&args.dir, &Trouble::Plain(error)))?;
    let options = Options::new().level(Level::from(args.level));
    let ours = Ours::new(&scratch.path().join("log"), &options, args.size)
        .map_err(|error| failure(&args.dir, &Trouble::Ours(error)))?
        .by_tasks(args.tasks);
    let mut out = Output::new();
    if !args.look.json {
        tell_head(&mut out, args);
    }
    let rounds = Rounds::within(Duration::from_secs_f64(args.time));
    let mut rows = vec![];
    for writers in &args.writers {
        let row = compare(&mut plain, &ours, *writers, rounds);
        let mut row = row.map_err(|trouble| failure(&args.dir, &trouble))?;
        if let Some(past) = &past {
            row.compare(&past.baseline, is_real_time()).map_err(|unfit| past.failure(&unfit))?;
        }
        if !args.look.json {
            tell_row(&mut out, &row);
        }
        rows.push(row);
    }
    ours.close().map_err(|error| failure(&args.dir, &Trouble::Ours(error)))?;
    let conditions = Conditions::of(rows.iter().map(|row| row.others));
    if args.look.json {
        let mut answer = as_json(args, &rows, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    } else {
        tell_changes(&mut out, &rows);
    }
    tell_conditions(&mut out, args.look, &conditions);
    report.write("seawall bench append", || page::body(args, &rows, &conditions))?;
    Ok(out.finish())
}

/// What is measured.
fn about(args: &BenchAppend) -> String {
    let by = if args.tasks { ", by tasks of one thread" } else { "" };
    format!("{}-byte records, {}{by}", args.size, args.level.name())
}

fn writers_are(args: &BenchAppend) -> &'static str {
    if args.tasks { "tasks" } else { "threads" }
}

fn writers(count: usize) -> String {
    crate::human::count(u64::try_from(count).unwrap_or(u64::MAX), "writer")
}

fn tell_head(out: &mut Output, args: &BenchAppend) {
    out.line(&format!("{}; in {}", about(args), args.dir.display()));
    out.line(PLAIN);
    out.line("");
    out.line("writers   commits/s     plain/s    ratio  (lowest-highest)   p50 us   p99 us");
    out.flush();
}

fn tell_row(out: &mut Output, row: &Row) {
    out.line(&format!(
        "{:>7}{:>12}{:>12}{:>8.2}x  {:<17}{:>9}{:>9}",
        row.writers,
        rounded(row.commits_per_s),
        rounded(row.raw_per_s),
        row.ratio,
        format!("({:.2}-{:.2})", row.ratio_min, row.ratio_max),
        rounded(row.p50_us),
        rounded(row.p99_us),
    ));
    out.flush();
}

fn tell_changes(out: &mut Output, rows: &[Row]) {
    let changes = rows.iter().filter_map(|row| Some((writers(row.writers), row.change.as_ref()?)));
    let lines = baseline::lines(changes);
    if !lines.is_empty() {
        out.line("");
        out.lines(&lines);
    }
}

fn as_json(args: &BenchAppend, rows: &[Row], conditions: &Conditions) -> Value {
    json!({
        "schema": SCHEMA,
        "dir": args.dir.display().to_string(),
        "record_bytes": args.size,
        "level": args.level.name(),
        "writers_are": writers_are(args),
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "results": rows.iter().map(row_as_json).collect::<Vec<_>>(),
    })
}

/// One row, with the fields that scripts read.
pub(in crate::cmd) fn row_as_json(row: &Row) -> Value {
    let mut found = json!({
        "writers": row.writers,
        "commits_per_s": one_digit(row.commits_per_s),
        "p50_us": row.p50_us,
        "p99_us": row.p99_us,
        "raw_ratio": three_digits(row.ratio),
        "raw_ratio_min": three_digits(row.ratio_min),
        "raw_ratio_max": three_digits(row.ratio_max),
        "raw_per_s": one_digit(row.raw_per_s),
        "raw_p50_us": row.raw_p50_us,
        "pairs": row.pairs,
        "raw_ratio_quartiles": row.ratio_quartiles.map(three_digits),
        "others_share": row.others.share().map(three_digits),
    });
    baseline::add(&mut found, row.change.as_ref());
    found
}

fn one_digit(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn three_digits(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
