//! The verbs, one file each, in folders by purpose.

mod answers;
mod foreign;
mod help;
mod keys;
mod machine;
mod maintenance;
mod opener;
mod outside;
mod records;
mod transfer;

use crate::args::{BenchVerb, Verb};
use crate::stores::Stores;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;

/// Runs a verb.
pub(crate) fn run(verb: &Verb, stores: Stores) -> Result<Exit, Failure> {
    match verb {
        Verb::Append(args) => records::append::run(args),
        Verb::Cat(args) => records::cat::run(args),
        Verb::Convert(args) => transfer::convert::run(args),
        Verb::Copy(args) => maintenance::copy::run(args),
        Verb::Tail(args) => records::tail::run(args),
        Verb::Truncate(args) => maintenance::truncate::run(args),
        Verb::Keygen(args) => keys::keygen::run(args),
        Verb::Rekey(args) => keys::rekey::run(args),
        Verb::Repair(args) => maintenance::repair::run(args),
        Verb::Protect(args) => maintenance::protect::run(args),
        Verb::Replay(args) => transfer::replay::run(args, stores),
        Verb::Disk(args) => seawall_disk_cli::run(args),
        Verb::Explain(args) => Ok(help::explain::run(args)),
        Verb::Verify(args) => maintenance::verify::run(args),
        Verb::Doctor(args) => machine::doctor::run(args),
        Verb::Probe(args) => machine::probe::run(args),
        Verb::Completions(args) => Ok(help::completions::run(args)),
        Verb::Man(args) => help::man::run(args),
        Verb::Stat(args) => maintenance::stat::run(args),
        Verb::Bench(args) => match &args.what {
            BenchVerb::Append(args) => machine::bench::run(args),
        },
        Verb::Demo(args) => machine::demo::run(args),
        Verb::Version => Ok(version()),
        Verb::DemoWriter(args) => machine::demo::writer::run(args),
    }
}

fn version() -> Exit {
    let mut out = Output::lock();
    out.line(concat!("seawall ", env!("CARGO_PKG_VERSION")));
    out.finish()
}
