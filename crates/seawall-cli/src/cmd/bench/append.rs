//! `seawall bench append`: durable commits, as multiples of what the disk does with plain syncs.

use super::{conditions, failure, tell_conditions};
use crate::args::BenchAppend;
use crate::human::rounded;
use crate::output::Output;
use crate::report::{Exit, Failure};
use seawall::{Level, Options};
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::{Ours, Plain, Rounds, Row, Trouble, compare};
use seawall_measure::scratch::Scratch;
use serde_json::{Value, json};
use std::time::Duration;

/// As large as a log's segments.
const PLAIN_FILE: u64 = 64 << 20;

/// Measures every number of writers, and says what came of it.
pub(crate) fn run(args: &BenchAppend) -> Result<Exit, Failure> {
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let mut plain = Plain::new(scratch.path(), PLAIN_FILE, args.size)
        .map_err(|error| failure(&args.dir, &Trouble::Plain(error)))?;
    let options = Options::new().level(Level::from(args.level));
    let ours = Ours::new(&scratch.path().join("log"), &options, args.size)
        .map_err(|error| failure(&args.dir, &Trouble::Ours(error)))?;
    let mut out = Output::new();
    if !args.look.json {
        tell_head(&mut out, args);
    }
    let rounds = Rounds::within(Duration::from_secs_f64(args.time));
    let mut rows = vec![];
    for writers in &args.writers {
        let row = compare(&mut plain, &ours, *writers, rounds);
        let row = row.map_err(|trouble| failure(&args.dir, &trouble))?;
        if !args.look.json {
            tell_row(&mut out, &row);
        }
        rows.push(row);
    }
    ours.close().map_err(|error| failure(&args.dir, &Trouble::Ours(error)))?;
    let conditions = conditions(rows.iter().map(|row| row.others));
    tell_conditions(&mut out, args.look, &conditions);
    if args.look.json {
        out.line(&as_json(args, &rows, &conditions).to_string());
    }
    Ok(out.finish())
}

fn tell_head(out: &mut Output, args: &BenchAppend) {
    let (size, level) = (args.size, args.level.name());
    out.line(&format!("{size}-byte records, {level}; in {}", args.dir.display()));
    out.line("plain: write and sync each record, one thread, in a file written before");
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

fn as_json(args: &BenchAppend, rows: &[Row], conditions: &Conditions) -> Value {
    json!({
        "schema": "seawall.bench-append/1",
        "dir": args.dir.display().to_string(),
        "record_bytes": args.size,
        "level": args.level.name(),
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "results": rows.iter().map(row_as_json).collect::<Vec<_>>(),
    })
}

/// One row, with the fields that scripts read.
pub(in crate::cmd) fn row_as_json(row: &Row) -> Value {
    json!({
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
        "others_share": row.others.share().map(three_digits),
    })
}

fn one_digit(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn three_digits(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
