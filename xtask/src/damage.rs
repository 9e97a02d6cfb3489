//! `cargo xtask damage`: what a log does with damage, ours beside its peers. Each case makes one
//! change to a log whose content is known, looks in four ways, and compares with the truth.

mod cases;
mod change;
mod image;
mod json;
mod judge;
mod look;
mod peers;
mod sample;
mod scratch;
mod table;

use cases::{Case, GROUPS, Kind};
use change::Scene;
use judge::Truth;
use look::Seen;
use sample::{End, Sample};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How the answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For machines: one object a row.
    Json,
}

/// What came of one case.
#[derive(Debug)]
struct Row {
    group: &'static str,
    case: &'static str,
    end: End,
    /// `Err`: it panicked, or failed in a way that damage is no excuse for.
    seen: Result<Seen, String>,
    /// The promises that are broken.
    broken: Vec<String>,
}

/// Runs all cases; false if a promise is broken.
///
/// # Errors
///
/// The logs cannot be made, or the answer not written.
pub(crate) fn run(form: Form) -> io::Result<bool> {
    let rows = rows()?;
    let mut out = io::stdout().lock();
    out.write_all(
        match form {
            Form::Text => table::text(&rows),
            Form::Json => json::lines(&rows),
        }
        .as_bytes(),
    )?;
    let mut err = io::stderr().lock();
    for row in &rows {
        for broken in &row.broken {
            writeln!(err, "BROKEN: {}, {}: {broken}", row.case, row.end.name())?;
        }
    }
    let broken = rows.iter().filter(|row| !row.broken.is_empty()).count();
    writeln!(err, "damage: {} cases, {broken} break a promise", rows.len())?;
    Ok(broken == 0)
}

fn rows() -> io::Result<Vec<Row>> {
    let samples = [Sample::make(End::Closed)?, Sample::make(End::Crashed)?];
    let [closed, crashed] = &samples;
    let mut rows = vec![];
    for group in GROUPS {
        for case in group.cases {
            for (sample, other) in [(closed, crashed), (crashed, closed)] {
                rows.push(row(group.title, case, (sample, other))?);
            }
        }
    }
    Ok(rows)
}

fn row(group: &'static str, case: &Case, (sample, other): (&Sample, &Sample)) -> io::Result<Row> {
    let mut scene = Scene { image: sample.image.clone(), sample, other };
    (case.change)(&mut scene)
        .ok_or_else(|| io::Error::other(format!("no place: {}", case.name)))?;
    let crashed = sample.end == End::Crashed;
    let truth = Truth {
        touched: sample.touched(&scene.image),
        window: sample.window(),
        is_blind: crashed && case.kind == Kind::Blind,
        must_open: crashed && case.kind == Kind::Torn,
    };
    let seen = match catch_unwind(AssertUnwindSafe(|| look::look(&scene.image))) {
        Ok(seen) => seen.map_err(|error| error.to_string()),
        Err(_) => Err("it panics".to_owned()),
    };
    let broken = match &seen {
        Ok(seen) => judge::broken(&truth, seen),
        Err(error) => vec![error.clone()],
    };
    Ok(Row { group, case: case.name, end: sample.end, seen, broken })
}

#[cfg(test)]
mod tests;
