//! The command-line program of this crate: random corruptions, a list of kinds of damage, seeds for
//! fuzzers, and golden files.

#![forbid(unsafe_code)]

use seawall_hunt::corrupt::{Bench, Report};
use seawall_hunt::targets::TARGETS;
use seawall_hunt::{damage, golden, mend};
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const HELP: &str = "\
Usage: seawall-hunt corrupt [--count N] [--seed S] [--only I] [--json]
       seawall-hunt mend [--count N] [--seed S] [--only I] [--json]
       seawall-hunt damage [--json]
       seawall-hunt seeds DIR
       seawall-hunt golden DIR

corrupt changes logs in memory N times (default: 1,000,000), from one bit to a mebibyte, and
compares the results of verify, readers, opens and repairs with the records that were written.

  --seed S   makes other corruptions than seed 1
  --only I   makes corruption I alone, without catching its panic
  --json     prints one object

mend damages logs with parity N times (default: 100,000). Damage that parity can restore must be
restored; beyond that, every lost record must be named.

damage makes each of a list of changes to logs on disk and prints what Seawall does, beside other
logs: the tables of docs/damage.md. It fails if a promise is broken.

seeds writes valid inputs of each fuzz target to a folder of its name in DIR, which must exist.

golden writes the golden files of format 1 that are missing in DIR; see the README there.

Exit codes: 0 all damage was detected, 1 some was not, 2 usage
";

/// Number of corruptions between two progress messages.
const STRIDE: u64 = 10_000;

#[derive(Debug)]
struct Arguments {
    mends: bool,
    count: u64,
    seed: u64,
    only: Option<u64>,
    json: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, folder] = args.as_slice()
        && ["seeds", "golden"].contains(&verb.as_str())
    {
        let written = if verb == "seeds" { write_seeds(folder) } else { write_golden(folder) };
        return match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("seawall-hunt: {folder}: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    if let Some(form) = damage_form(&args) {
        return match damage::run(form) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                say(&format!("seawall-hunt: damage: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    let Some(arguments) = parse(&args) else {
        let _ = io::stderr().write_all(HELP.as_bytes());
        return ExitCode::from(2);
    };
    if arguments.mends {
        return mend_many(&arguments);
    }
    let bench = Bench::new(arguments.seed, true);
    if let Some(number) = arguments.only {
        say(&bench.describe(number));
        let (sample, change) = bench.draw(number);
        let storage: Arc<dyn Storage> = Arc::new(change.made(sample));
        match sample.kind.maintenance(&storage).verify() {
            Ok(found) => {
                say(&format!("{:?}, tail {:?}", found.verdict, found.tail));
                found.damage.iter().for_each(|damage| say(&damage.to_string()));
            }
            Err(error) => say(&error.to_string()),
        }
        let (_, outcome) = bench.one(number);
        say(&format!("{outcome:?}"));
        return ExitCode::SUCCESS;
    }
    // Panics are reported at the end, each with the number of its corruption.
    std::panic::set_hook(Box::new(|_| {}));
    let clock = SystemClock::new();
    let began = clock.now();
    let mut report = Report::default();
    let mut slowest = Duration::ZERO;
    for from in (0..arguments.count).step_by(usize::try_from(STRIDE).unwrap_or(usize::MAX)) {
        let here = clock.now();
        bench.run(from..(from + STRIDE).min(arguments.count), &mut report);
        slowest = slowest.max(clock.now() - here);
        say(&format!(
            "{} of {}, {} undetected",
            report.sum().cases,
            arguments.count,
            report.broken.len()
        ));
    }
    let seconds = (clock.now() - began).as_secs();
    let _ = tell(&arguments, &bench, &report, seconds);
    for (number, broken) in report.broken.iter().take(20) {
        say(&format!("BROKEN: --seed {} --only {number}: {broken}", arguments.seed));
    }
    if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the command `mend`.
fn mend_many(arguments: &Arguments) -> ExitCode {
    let bench = mend::Bench::new(arguments.seed);
    if let Some(number) = arguments.only {
        say(&bench.one(number));
        return ExitCode::SUCCESS;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let clock = SystemClock::new();
    let began = clock.now();
    let mut report = mend::Report::default();
    for from in (0..arguments.count).step_by(usize::try_from(STRIDE).unwrap_or(usize::MAX)) {
        let to = (from + STRIDE).min(arguments.count);
        bench.run(from..to, &mut report);
        say(&format!("{to} of {}, {} wrong", arguments.count, report.broken.len()));
    }
    let seconds = (clock.now() - began).as_secs();
    let mend::Report { within, beyond, named, blocks, ref broken } = report;
    let (logs, wrong) = (bench.logs(), broken.len());
    let text = if arguments.json {
        format!(
            "{{\"schema\":\"seawall.mend/1\",\"seed\":{},\"logs\":{logs},\
             \"within\":{within},\"beyond\":{beyond},\"blocks\":{blocks},\
             \"named\":{named},\"wrong\":{wrong},\"seconds\":{seconds}}}\n",
            arguments.seed
        )
    } else {
        format!(
            "{blocks} blocks of {logs} logs with parity damaged: {within} cases within its \
             strength; {beyond} beyond it, {named} records lost and named; {wrong} wrong; \
             {seconds} s\n"
        )
    };
    let _ = io::stdout().lock().write_all(text.as_bytes());
    for (number, broken) in broken.iter().take(20) {
        say(&format!("BROKEN: --seed {} --only {number}: {broken}", arguments.seed));
    }
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(arguments: &Arguments, bench: &Bench, report: &Report, seconds: u64) -> io::Result<()> {
    let (sum, mut out) = (report.sum(), io::stdout().lock());
    if arguments.json {
        return writeln!(
            out,
            "{{\"schema\":\"seawall.corrupt/1\",\"seed\":{},\"logs\":{},\"cases\":{},\
             \"missing\":{},\"in_window\":{},\"longest\":{},\"undetected\":{},\
             \"seconds\":{seconds}}}",
            arguments.seed,
            bench.logs(),
            sum.cases,
            sum.missing,
            sum.in_window,
            report.longest,
            sum.undetected,
        );
    }
    write!(out, "{}", report.table())?;
    writeln!(
        out,
        "{} corruptions of {} logs, the longest of {} bytes: {} records not delivered, all of them \
         named but {} that nothing left confirmed; {} undetected; {seconds} s",
        sum.cases,
        bench.logs(),
        report.longest,
        sum.missing,
        sum.in_window,
        sum.undetected,
    )
}

/// Returns the output form if the command is `damage`.
fn damage_form(args: &[String]) -> Option<damage::Form> {
    match args {
        [verb] if verb == "damage" => Some(damage::Form::Text),
        [verb, flag] if verb == "damage" && flag == "--json" => Some(damage::Form::Json),
        _ => None,
    }
}

fn parse(args: &[String]) -> Option<Arguments> {
    let (first, mut rest) = args.split_first()?;
    let (mends, count) = match first.as_str() {
        "corrupt" => (false, 1_000_000),
        "mend" => (true, 100_000),
        _ => return None,
    };
    let mut arguments = Arguments { mends, count, seed: 1, only: None, json: false };
    while let Some((name, behind)) = rest.split_first() {
        rest = behind;
        if name == "--json" {
            arguments.json = true;
            continue;
        }
        let (value, behind) = rest.split_first()?;
        rest = behind;
        let number = value.parse().ok()?;
        match name.as_str() {
            "--count" => arguments.count = number,
            "--seed" => arguments.seed = number,
            "--only" => arguments.only = Some(number),
            _ => return None,
        }
    }
    Some(arguments)
}

fn write_seeds(folder: &str) -> io::Result<()> {
    let root = PosixStorage::open(Path::new(folder))?;
    for target in TARGETS {
        let inside = root.folder(target.name)?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            let name = format!("{index:02}");
            let _ = inside.remove(&name);
            inside.create(&name)?.write_at(seed, 0)?;
        }
    }
    Ok(())
}

fn write_golden(folder: &str) -> io::Result<()> {
    golden::write(Path::new(folder))?.into_iter().for_each(say);
    Ok(())
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
