//! `seawall-compare damage`: shows how each log reacts to one change of its files.
//!
//! Each step is a separate process. A process that ends without closing the log leaves the same
//! files as a crash, and a log that panics or hangs does not affect the others.

mod change;
mod process;
mod step;

pub(crate) use step::run as step;

use crate::args::{Act, Damage};
use crate::payload::Payloads;
use crate::peer::{Done, Kind};
use crate::peers::DAMAGED;
use crate::tell;
use change::Change;
use process::{End, Ran};
use seawall_bench::failure::Failure;
use seawall_bench::output::say;
use seawall_measure::scratch::Scratch;
use std::path::Path;

/// Records in a log, each synced on its own.
const RECORDS: usize = 600;
/// Bytes in a record.
const SIZE: usize = 256;
/// The record that a change in the middle hits, counted from 0.
const MIDDLE: usize = 299;
/// A record far from every change. It must still be in a file after the log was opened.
const UNTOUCHED: usize = 449;

/// The columns of the table.
const CASES: [(&str, Change); 4] = [
    ("one bit", Change::Bit),
    ("512 B zeroed", Change::Sector),
    ("last 100 B missing", Change::Cut),
    ("100 B zeroed", Change::TailZeros),
];

/// Damages the logs and prints the table.
pub(crate) fn run(args: &Damage) -> Result<(), Failure> {
    let kinds = chosen(&args.peers)?;
    let folder = args.dir.canonicalize().map_err(|error| failed(&error, &args.dir))?;
    let scratch = Scratch::new(&folder, "seawall-damage")?;
    let head = CASES.iter().map(|(name, _)| (*name).to_owned());
    let mut grid = vec![std::iter::once("log".to_owned()).chain(head).collect::<Vec<_>>()];
    for kind in kinds {
        let row = row(kind, scratch.path());
        grid.push(row.map_err(|error| failed(&format!("{}: {error}", kind.name), &folder))?);
    }
    say(&drawn(&grid))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Kind>, Failure> {
    if let Some(unknown) = names.iter().find(|name| step::named(name).is_none()) {
        let what = format!("there is no log `{unknown}` to damage");
        return Err(Failure::usage(what, "--peers", "leave --peers out to damage all of them"));
    }
    let is_wanted = |kind: &&&'static Kind| names.is_empty() || names.contains(&tell::key(kind));
    Ok(DAMAGED.iter().filter(is_wanted).copied().collect())
}

fn failed(what: &dyn std::fmt::Display, folder: &Path) -> Failure {
    let next = "choose another directory with --dir";
    Failure::new(format!("cannot damage the logs: {what}"), folder.display(), next)
}

/// The results of one log for all changes.
fn row(kind: &'static Kind, scratch: &Path) -> Done<Vec<String>> {
    let unchanged = cell(kind, None, scratch)?;
    if unchanged != RECORDS.to_string() {
        return Err(format!("without any change: {unchanged}").into());
    }
    let mut cells = vec![kind.what.to_owned()];
    for (_, change) in CASES {
        cells.push(cell(kind, Some(change), scratch)?);
    }
    Ok(cells)
}

/// Writes a log, changes a file, reads the log, appends to it, and describes the result.
fn cell(kind: &'static Kind, change: Option<Change>, scratch: &Path) -> Done<String> {
    let home = Scratch::new(scratch, &tell::key(kind))?;
    let written = process::run(Act::Write, kind, home.path())?;
    if written.end != End::Done {
        return Err(format!("it cannot be written: {:?}", written.end).into());
    }
    let records = Payloads::new(SIZE).first(RECORDS);
    if let Some(change) = change {
        change.apply(home.path(), &records)?;
    }
    let read = process::run(Act::Read, kind, home.path())?;
    let untouched = records.get(UNTOUCHED).ok_or("there are fewer records")?;
    let is_deleted = change::find(home.path(), untouched)?.is_none();
    let appended = process::run(Act::Append, kind, home.path())?;
    Ok(words(&read, &appended, is_deleted))
}

/// Describes the result in a cell.
fn words(read: &Ran, appended: &Ran, is_deleted: bool) -> String {
    let (intact, wrong) = (read.delivered.intact, read.delivered.wrong);
    match (read.end, appended.end) {
        (End::Crashed, _) => "panics".to_owned(),
        (End::Hung, _) => "hangs".to_owned(),
        _ if wrong > 0 => format!("{}, {wrong} WRONG", intact + wrong),
        (End::Failed, End::Done) => format!("{intact}, error"),
        (End::Failed, _) => "does not open".to_owned(),
        (End::Done, End::Failed | End::Crashed | End::Hung) => format!("{intact}, no append"),
        (End::Done, End::Done) if usize::try_from(intact).is_ok_and(|all| all == RECORDS) => {
            intact.to_string()
        }
        (End::Done, End::Done) if is_deleted => format!("{intact}, rest DELETED"),
        (End::Done, End::Done) => format!("{intact}, no error"),
    }
}

fn drawn(grid: &[Vec<String>]) -> Vec<String> {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |at: usize| grid.iter().filter_map(|line| line.get(at)).map(String::len).max();
    let widths: Vec<_> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    grid.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Delivered;

    fn ran(end: End, intact: u64, wrong: u64) -> Ran {
        Ran { end, delivered: Delivered { intact, wrong } }
    }

    #[test]
    fn a_cell_shows_the_worst_result() {
        let (done, failed) = (ran(End::Done, 0, 0), ran(End::Failed, 0, 0));
        let all = [
            (ran(End::Done, 600, 0), &done, false, "600"),
            (ran(End::Done, 599, 1), &done, false, "600, 1 WRONG"),
            (ran(End::Failed, 599, 0), &done, false, "599, error"),
            (ran(End::Failed, 299, 0), &failed, false, "does not open"),
            (ran(End::Done, 299, 0), &done, false, "299, no error"),
            (ran(End::Done, 299, 0), &done, true, "299, rest DELETED"),
            (ran(End::Done, 600, 0), &failed, false, "600, no append"),
            (ran(End::Crashed, 0, 0), &failed, false, "panics"),
            (ran(End::Hung, 0, 0), &failed, false, "hangs"),
        ];
        for (read, appended, is_deleted, expected) in all {
            assert_eq!(words(&read, appended, is_deleted), expected);
        }
    }
}
