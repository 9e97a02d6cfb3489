//! `seawall-hunt damage`: how Seawall and other logs respond to damage. Each case makes one change
//! to a log whose content is known, uses the log in four ways, and compares the results with the
//! known content.

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

use cases::{Case, GROUPS, Group, Kind, Mends, WITH_PARITY};
use change::Scene;
use judge::Truth;
use look::Seen;
use sample::{End, Sample};
use seawall::parity::Parity;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tables.
    Text,
    /// One JSON object for each row.
    Json,
}

/// The result of one case.
#[derive(Debug)]
struct Row {
    group: &'static str,
    case: &'static str,
    end: End,
    parity: Option<Parity>,
    /// `Err`: a panic, or an error that the damage does not explain.
    seen: Result<Seen, String>,
    /// The broken promises.
    broken: Vec<String>,
}

/// Runs all cases; returns false if a promise is broken.
///
/// # Errors
///
/// The logs cannot be created, or the result cannot be written.
pub fn run(form: Form) -> io::Result<bool> {
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
    let mut rows = vec![];
    let samples = Samples::make(&[End::Closed, End::Crashed], None)?;
    samples.try_all(GROUPS, &mut rows)?;
    let samples = Samples::make(&[End::Closed, End::Again, End::Crashed], Some(Parity::DEFAULT))?;
    samples.try_all(WITH_PARITY, &mut rows)?;
    Ok(rows)
}

/// The logs to damage: one for each way in which writing can end.
struct Samples {
    logs: Vec<Sample>,
    parity: Option<Parity>,
}

impl Samples {
    fn make(ends: &[End], parity: Option<Parity>) -> io::Result<Self> {
        let logs = ends.iter().map(|end| Sample::make(*end, parity)).collect::<Result<_, _>>()?;
        Ok(Self { logs, parity })
    }

    fn try_all(&self, groups: &[Group], rows: &mut Vec<Row>) -> io::Result<()> {
        for group in groups {
            for case in group.cases {
                let before = rows.len();
                for (sample, other) in self.logs.iter().zip(self.logs.iter().cycle().skip(1)) {
                    rows.extend(self.row(group.title, case, (sample, other))?);
                }
                if rows.len() == before {
                    return Err(io::Error::other(format!("no log is changed by: {}", case.name)));
                }
            }
        }
        Ok(())
    }

    /// Runs a case on a log. Returns `None` if the change has no effect on this log.
    fn row(
        &self,
        group: &'static str,
        case: &Case,
        (sample, other): (&Sample, &Sample),
    ) -> io::Result<Option<Row>> {
        let mut scene = Scene { image: sample.image.clone(), sample, other };
        (case.change)(&mut scene)
            .ok_or_else(|| io::Error::other(format!("no place to apply: {}", case.name)))?;
        if scene.image == sample.image {
            return Ok(None);
        }
        let crashed = sample.end == End::Crashed;
        let truth = Truth {
            touched: sample.touched(&scene.image),
            window: sample.window(),
            is_blind: crashed && case.kind == Kind::Blind,
            must_open: crashed && case.kind == Kind::Torn,
            must_mend: self.parity.is_some()
                && (case.mends == Mends::All || (case.mends == Mends::AtRest && !crashed)),
        };
        let (seen, broken) = judged(&scene, &truth);
        let (case, end, parity) = (case.name, sample.end, self.parity);
        Ok(Some(Row { group, case, end, parity, seen, broken }))
    }
}

/// Returns the result of a change, and the promises that it breaks.
fn judged(scene: &Scene<'_>, truth: &Truth) -> (Result<Seen, String>, Vec<String>) {
    let seen = match catch_unwind(AssertUnwindSafe(|| look::look(&scene.image))) {
        Ok(seen) => seen.map_err(|error| error.to_string()),
        Err(_) => Err("panic".to_owned()),
    };
    let broken = match &seen {
        Ok(seen) => judge::broken(truth, seen),
        Err(error) => vec![error.clone()],
    };
    (seen, broken)
}

#[cfg(test)]
mod tests;
