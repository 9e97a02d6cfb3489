//! `seawall bench`: what this log does here, beside others' methods, in one run.

mod append;
mod cwal;
mod helios;
mod paper;

pub(super) use append::row_as_json;

use crate::args::{BenchVerb, Look};
use crate::output::Output;
use crate::report::{Exit, Failure};
use seawall_measure::machine::{NOT_RANKED, is_real_time};
use seawall_measure::pairs::Trouble;
use std::path::Path;

/// Measures what was asked for.
pub(crate) fn run(what: &BenchVerb) -> Result<Exit, Failure> {
    match what {
        BenchVerb::Append(args) => append::run(args),
        BenchVerb::Paper(args) => paper::run(args),
        BenchVerb::Cwal(args) => cwal::run(args),
        BenchVerb::Helios(args) => helios::run(args),
    }
}

/// What went wrong while measuring in `folder`.
pub(super) fn failure(folder: &Path, trouble: &Trouble) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot measure: {trouble}"));
    failure.at(folder.display()).next("choose another place with --dir, with more room")
}

/// Says that other work could disturb what was measured, if it could; whether it could not.
fn tell_whether_ranked(out: &mut Output, look: Look) -> bool {
    let ranked = is_real_time();
    if !ranked && !look.json {
        out.line("");
        out.lines(&NOT_RANKED);
    }
    ranked
}
