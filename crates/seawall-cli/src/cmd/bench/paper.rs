//! `seawall bench paper`: Tables I and II of *Design and Reliability of a User Space Write-Ahead
//! Log in Rust*, by its method and by this log, in one run.

pub(super) mod ours;
pub(super) mod records;
mod tables;
pub(super) mod theirs;

use super::beside::Report;
use crate::args::BenchPaper;
use crate::human::to_f64;
use crate::human::to_u64;
use crate::output::Output;
use crate::progress::Progress;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use ours::Wait;
use records::{Record, sets};
use seawall_measure::load::Watch;
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::median;
use std::path::Path;
use std::time::Duration;
use theirs::Sync;

/// What stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    MessagePack,
    Json,
}

/// What one writing or reading took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) time: Duration,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Measured {
    fn per_second(self) -> f64 {
        to_f64(self.records) / self.time.as_secs_f64().max(1e-9)
    }
}

/// Records in a set, by the paper's names.
pub(super) const SIZES: [(&str, usize); 3] = [("A", 1), ("B", 2), ("C", 4)];

/// Everything that was measured of one format and one size of sets: one entry a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    unsynced: Vec<Measured>,
    synced: Vec<Measured>,
    ours: Vec<Measured>,
    ours_each: Vec<Measured>,
    read: Vec<Measured>,
    ours_read: Vec<Measured>,
}

impl Cell {
    /// The median over the runs.
    fn of(runs: &[Measured], value: impl Fn(Measured) -> f64) -> f64 {
        median(&mut runs.iter().map(|run| value(*run)).collect::<Vec<_>>())
    }

    /// How many times as many records a second; the median over the runs, each with itself.
    fn ratio(ours: &[Measured], theirs: &[Measured]) -> f64 {
        let pairs = ours.iter().zip(theirs);
        let ratio =
            |(ours, theirs): (&Measured, &Measured)| ours.per_second() / theirs.per_second();
        median(&mut pairs.map(ratio).collect::<Vec<_>>())
    }
}

/// One format in all sizes.
#[derive(Debug)]
pub(super) struct Table {
    format: Format,
    cells: [Cell; 3],
}

/// Measures, and prints the paper's tables beside ours.
pub(crate) fn run(args: &BenchPaper) -> Result<Exit, Failure> {
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let records = records::records();
    let mut tables = [Format::MessagePack, Format::Json]
        .map(|format| Table { format, cells: Default::default() });
    let report = Report::begin(args.report.as_deref())?;
    let total = u64::from(args.runs) * 6;
    let mut progress = Progress::start(args.patience, args.look.quiet)?.counting("steps");
    let mut steps = 0;
    let watch = Watch::start();
    for run in 0..args.runs {
        for table in &mut tables {
            for ((_, size), cell) in SIZES.into_iter().zip(&mut table.cells) {
                let what = (records.as_slice(), size, args.records);
                let bench = Bench { args, folder: scratch.path(), format: table.format, what };
                // Who goes first changes, so that drift favours nobody.
                let measured = if run % 2 == 0 {
                    bench.theirs(cell).and_then(|()| bench.ours(cell))
                } else {
                    bench.ours(cell).and_then(|()| bench.theirs(cell))
                };
                measured?;
                steps += 1;
                progress.tell(steps, Some(total));
            }
        }
    }
    progress.end();
    let conditions = Conditions::of([watch.others()]);
    let mut out = Output::new();
    if args.look.json {
        out.line(&tables::as_json(args, &tables, &conditions).to_string());
    } else {
        tables::tell(&mut out, args, &tables);
    }
    super::tell_conditions(&mut out, args.look, &conditions);
    report.write("seawall bench paper", || tables::page(args, &tables, &conditions))?;
    Ok(out.finish())
}

/// One format, one size of sets, one run.
struct Bench<'a> {
    args: &'a BenchPaper,
    folder: &'a Path,
    format: Format,
    what: (&'a [Record], usize, u64),
}

impl Bench<'_> {
    fn theirs(&self, cell: &mut Cell) -> Result<(), Failure> {
        let (format, what) = (self.format, self.what);
        self.within(|folder| {
            cell.unsynced.push(theirs::write(folder, (format, Sync::Never), what)?);
            cell.read.push(theirs::read(folder, format)?);
            Ok(())
        })?;
        let each = Sync::EachSet(Duration::from_secs_f64(self.args.time));
        self.within(|folder| {
            cell.synced.push(theirs::write(folder, (format, each), what)?);
            Ok(())
        })
    }

    fn ours(&self, cell: &mut Cell) -> Result<(), Failure> {
        let (format, what) = (self.format, self.what);
        self.within(|folder| {
            let written = ours::write(folder, (format, Wait::AtTheEnd), what)?;
            cell.ours.push(written);
            cell.ours_read.push(ours::read(folder, format, written.bytes)?);
            Ok(())
        })?;
        let each = Wait::EachSet(Duration::from_secs_f64(self.args.time));
        self.within(|folder| {
            cell.ours_each.push(ours::write(folder, (format, each), what)?);
            Ok(())
        })
    }

    /// In a folder that goes with what is in it, before the system comes to write that out.
    fn within(&self, act: impl FnOnce(&Path) -> Result<(), Trouble>) -> Result<(), Failure> {
        let scratch = Scratch::new(self.folder, "run")?;
        act(scratch.path()).map_err(|trouble| super::failure(&self.args.dir, &trouble))
    }
}
