//! `seawall-bench paper`: Tables I and II of *Design and Reliability of a User Space Write-Ahead
//! Log in Rust*, with its method and with Seawall, in one run.

pub(crate) mod ours;
pub(crate) mod records;
mod tables;
pub(crate) mod theirs;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use ours::Wait;
use records::{Record, sets};
use seawall_measure::human::{to_f64, to_u64};
use seawall_measure::load::Watch;
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::Trouble;
use seawall_measure::scratch::Scratch;
use seawall_measure::slice::median;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use theirs::Sync;

/// The file format of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    MessagePack,
    Json,
}

/// The result of writing or reading the records once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(super) time: Duration,
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Measured {
    fn per_second(self) -> f64 {
        to_f64(self.records) / self.time.as_secs_f64().max(1e-9)
    }
}

/// The configurations by the paper's names, with the number of records in a set.
pub(super) const SIZES: [(&str, usize); 3] = [("A", 1), ("B", 2), ("C", 4)];

/// The measurements of one format and one set size; each list has one entry per run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    unsynced: Vec<Measured>,
    synced: Vec<Measured>,
    ours: Vec<Measured>,
    ours_each: Vec<Measured>,
    read: Vec<Measured>,
    ours_read: Vec<Measured>,
}

impl Cell {
    /// The ratio of the record rates: the median over the runs, each compared with the same run.
    fn ratio(ours: &[Measured], theirs: &[Measured]) -> f64 {
        let pairs = ours.iter().zip(theirs);
        let ratio =
            |(ours, theirs): (&Measured, &Measured)| ours.per_second() / theirs.per_second();
        median(&mut pairs.map(ratio).collect::<Vec<_>>())
    }
}

/// The measurements of one format, for all set sizes.
#[derive(Debug)]
pub(crate) struct Table {
    format: Format,
    cells: [Cell; 3],
}

impl Bench for args::Paper {
    const NAME: &'static str = "paper";
    const TITLE: &'static str = "The paper's tables, beside seawall";
    type Found = ([Table; 2], Conditions);

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        format!("{}.", tables::head(self))
    }

    fn settings(&self) -> Fields {
        vec![("records", json!(self.records)), ("runs", json!(self.runs))]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Self::Found, Failure> {
        let records = SIZES.map(|(_, size)| records::records(size));
        let mut tables = [Format::MessagePack, Format::Json]
            .map(|format| Table { format, cells: Default::default() });
        let watch = Watch::start();
        for run in 0..self.runs {
            for table in &mut tables {
                let sizes = SIZES.into_iter().zip(&records);
                for (((_, size), sets), cell) in sizes.zip(&mut table.cells) {
                    let what = (sets.as_slice(), size, self.records);
                    let format = table.format;
                    let turn = Turn { stage, dir: &self.common.dir, format, what };
                    // The order alternates, so that drift favours neither.
                    let measured = if run % 2 == 0 {
                        turn.theirs(cell).and_then(|()| turn.ours(cell))
                    } else {
                        turn.ours(cell).and_then(|()| turn.theirs(cell))
                    };
                    measured?;
                }
            }
        }
        Ok((tables, Conditions::of([watch.others()])))
    }

    fn conditions(&self, found: &Self::Found, _: &[Compared]) -> Conditions {
        found.1
    }

    fn remarks(&self, (tables, _): &Self::Found, _: &[Compared]) -> Vec<String> {
        tables::lines_of(self, tables)
    }

    fn results(&self, (tables, _): &Self::Found, _: &[Compared]) -> Fields {
        tables::as_json(tables)
    }

    fn page(&self, (tables, _): &Self::Found, _: &[Compared]) -> String {
        tables::page(tables)
    }
}

/// One format and one set size, in one run.
struct Turn<'a> {
    stage: &'a Stage<'a>,
    dir: &'a Path,
    format: Format,
    what: (&'a [Record], usize, u64),
}

impl Turn<'_> {
    fn theirs(&self, cell: &mut Cell) -> Result<(), Failure> {
        let (format, what) = (self.format, self.what);
        self.within(|folder| {
            cell.unsynced.push(theirs::write(folder, (format, Sync::Never), what)?);
            cell.read.push(theirs::read(folder, format, what.1)?);
            Ok(())
        })?;
        let each = Sync::EachSet(self.stage.time());
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
            cell.ours_read.push(ours::read(folder, format, (what.1, written.bytes))?);
            Ok(())
        })?;
        let each = Wait::EachSet(self.stage.time());
        self.within(|folder| {
            cell.ours_each.push(ours::write(folder, (format, each), what)?);
            Ok(())
        })
    }

    /// Runs `act` in a scratch folder, which is removed before the system writes its files back.
    fn within(&self, act: impl FnOnce(&Path) -> Result<(), Trouble>) -> Result<(), Failure> {
        let scratch = Scratch::new(self.stage.folder(), "run")?;
        act(scratch.path()).map_err(|trouble| failure(self.dir, &trouble))
    }
}
