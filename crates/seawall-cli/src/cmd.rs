//! The verbs, one file each.

mod append;
mod bench;
mod cat;
mod completions;
mod convert;
mod copy;
mod demo;
mod disk;
mod doctor;
mod explain;
mod man;
mod mended;
mod probe;
mod protect;
mod repair;
mod replay;
mod stat;
mod tail;
mod truncate;
mod verify;

use crate::args::{BenchVerb, Verb};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::stores::Stores;

/// Does what was asked for.
pub(crate) fn run(verb: &Verb, stores: Stores) -> Result<Exit, Failure> {
    match verb {
        Verb::Append(args) => append::run(args),
        Verb::Cat(args) => cat::run(args),
        Verb::Convert(args) => convert::run(args),
        Verb::Copy(args) => copy::run(args),
        Verb::Tail(args) => tail::run(args),
        Verb::Truncate(args) => truncate::run(args),
        Verb::Repair(args) => repair::run(args),
        Verb::Protect(args) => protect::run(args),
        Verb::Replay(args) => replay::run(args, stores),
        Verb::Disk(args) => disk::run(&args.what),
        Verb::Explain(args) => Ok(explain::run(args)),
        Verb::Verify(args) => verify::run(args),
        Verb::Doctor(args) => doctor::run(args),
        Verb::Probe(args) => probe::run(args),
        Verb::Completions(args) => Ok(completions::run(args)),
        Verb::Man(args) => man::run(args),
        Verb::Stat(args) => stat::run(args),
        Verb::Bench(args) => match &args.what {
            BenchVerb::Append(args) => bench::run(args),
        },
        Verb::Demo(args) => demo::run(args),
        Verb::Version => Ok(version()),
        Verb::DemoWriter(args) => demo::writer::run(args),
    }
}

fn version() -> Exit {
    let mut out = Output::new();
    out.line(concat!("seawall ", env!("CARGO_PKG_VERSION")));
    out.finish()
}
