//! `seawall bench`: what this log does here, beside others' methods, in one run.

mod append;
mod beside;
mod cwal;
mod disk;
mod frame;
mod helios;
mod paper;
mod parity;
mod read;
mod replay;
mod roll;
mod stream;

pub(super) use append::{rates, row_as_json};
pub(super) use read::alone;

use crate::args::{BenchVerb, Look};
use crate::output::Output;
use crate::report::{Exit, Failure, say};
use crate::stores::Stores;
use seawall_measure::machine::{Conditions, IN_MEMORY, is_in_memory};
use seawall_measure::pairs::Trouble;
use std::path::Path;

/// Measures what was asked for.
pub(crate) fn run(what: &BenchVerb, stores: Stores) -> Result<Exit, Failure> {
    if is_in_memory(what.dir()) {
        say(&format!("seawall: {IN_MEMORY}"));
    }
    match what {
        BenchVerb::Append(args) => append::run(args),
        BenchVerb::Read(args) => read::run(args),
        BenchVerb::Paper(args) => paper::run(args),
        BenchVerb::Cwal(args) => cwal::run(args),
        BenchVerb::Helios(args) => helios::run(args),
        BenchVerb::Disk(args) => disk::run(args),
        BenchVerb::Stream(args) => stream::run(args),
        BenchVerb::Roll(args) => roll::run(args),
        BenchVerb::Frame(args) => frame::run(args),
        BenchVerb::Parity(args) => parity::run(args),
        BenchVerb::Replay(args) => replay::run(args, stores),
    }
}

/// What went wrong while measuring in `folder`.
pub(super) fn failure(folder: &Path, trouble: &Trouble) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot measure: {trouble}"));
    failure.at(folder.display()).next("choose another place with --dir, with more room")
}

/// Says why nothing is ranked, if so.
fn tell_conditions(out: &mut Output, look: Look, conditions: &Conditions) {
    let says = conditions.says();
    if !says.is_empty() && !look.json {
        out.line("");
        out.lines(&says);
    }
}
