//! The command line of the program, and its output.

mod bench;
mod calls;
mod config;
mod judge;
mod tool;
mod tracer;
mod witness;
mod work;

use crate::SKIPPED;
use bench::{Plan, Row, Table, bench};
use config::Config;
use seawall_io::{Clock, SystemClock};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Usage: seawall-syscalls [--all | --every N] [--only CALL]... [--workload NAME]...
                        [--dir DIR] [--jobs N]

Fails the system calls of ten workloads, each call once in each way, and checks the log afterwards:
binary-1, binary-4, readable-1, readable-4 (layout and threads), binary-1-parity and
readable-1-parity (with parity beside the segments), binary-1-stream (several writes in flight),
binary-1-encrypted (its keys are replaced), binary-1-encrypted-append and binary-1-encrypted-rekey
(the verbs of the command line).
Without --all, only every 60th call of a kind fails, others each day; SEAWALL_SEED=N fails the same
again. The logs are made in DIR, by default the directory for temporary files.

Exit codes: 0 all promises hold, 1 one is broken, 2 usage, 77 tracing is not permitted here
";

/// Runs the command line.
pub(super) fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == tool::NAME) {
        return wait_for_tracer().map_or_else(|exit| exit, |()| seawall_cli::main_with(&[]));
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["work", folder, name] => return begin(Path::new(folder), name),
        ["--help" | "-h" | "help"] => return tell(HELP),
        _ => {}
    }
    let Some(mut plan) = plan(&words) else {
        say(HELP.trim_end());
        return ExitCode::from(2);
    };
    plan.folder = plan.folder.join(format!("seawall-syscalls-{}", std::process::id()));
    let done = run(&plan);
    let _ = fs::remove_dir_all(&plan.folder);
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            say(&format!("SKIPPED, nothing was tested: tracing is not permitted here: {error}"));
            ExitCode::from(SKIPPED)
        }
        Err(error) => {
            say(&format!("seawall-syscalls: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs the workload, in the process that is traced.
fn begin(folder: &Path, name: &str) -> ExitCode {
    let Some(config) = Config::named(name) else { return ExitCode::from(2) };
    wait_for_tracer().map_or_else(|exit| exit, |()| work::run(folder, config))
}

/// Waits for the byte on standard input that the tracer sends when it is ready.
fn wait_for_tracer() -> Result<(), ExitCode> {
    let mut word = [0];
    if io::stdin().read_exact(&mut word).is_err() {
        return Err(ExitCode::from(2));
    }
    tracer::stop_at_calls().map_err(|error| {
        say(&format!("no filter for calls: {error}"));
        ExitCode::from(SKIPPED)
    })
}

fn plan(words: &[&str]) -> Option<Plan> {
    let mut plan = Plan {
        configs: vec![],
        every: 60,
        seed: seed()?,
        only: vec![],
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        folder: std::env::temp_dir(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--all" => plan.every = 1,
            "--every" => plan.every = words.next()?.parse().ok().filter(|every| *every > 0)?,
            "--jobs" => plan.jobs = words.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            "--dir" => plan.folder = PathBuf::from(words.next()?).canonicalize().ok()?,
            "--only" => plan.only.push(calls::named(words.next()?)?.name.to_owned()),
            "--workload" => plan.configs.push(Config::named(words.next()?)?),
            _ => return None,
        }
    }
    if plan.configs.is_empty() {
        plan.configs = Config::ALL.to_vec();
    }
    Some(plan)
}

/// Returns `SEAWALL_SEED`, or by default the current day.
fn seed() -> Option<u64> {
    match std::env::var("SEAWALL_SEED") {
        Ok(seed) => seed.parse().ok(),
        Err(_) => Some(SystemClock::new().wall_us() / 86_400_000_000),
    }
}

fn run(plan: &Plan) -> io::Result<bool> {
    let clock = SystemClock::new();
    let mut sum = Row::default();
    for config in &plan.configs {
        let table = bench(plan, *config)?;
        print(*config, &table)?;
        for row in table.values() {
            sum.add(row);
        }
    }
    let mut out = io::stdout().lock();
    writeln!(out, "every call in {}, SEAWALL_SEED={}", plan.every, plan.seed)?;
    writeln!(
        out,
        "{} calls failed: {} unnoticed, {} errors, {} kills; {} broke a promise",
        sum.struck, sum.went_on, sum.refused, sum.killed, sum.broken
    )?;
    say(&format!("{} s", clock.now().as_secs()));
    if sum.struck == 0 {
        return Err(io::Error::other("no call failed: nothing was tested"));
    }
    Ok(sum.broken == 0)
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.struck += other.struck;
        self.went_on += other.went_on;
        self.failovers += other.failovers;
        self.refused += other.refused;
        self.killed += other.killed;
        self.broken += other.broken;
    }
}

fn print(config: Config, table: &Table) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:<25} {:<10} {:>6} {:>6} {:>8} {:>9} {:>8} {:>7} {:>7}",
        config.name(),
        "fails as",
        "runs",
        "struck",
        "went on",
        "failover",
        "refused",
        "killed",
        "broken"
    )?;
    for ((call, fault), row) in table {
        writeln!(
            out,
            "{call:<25} {:<10} {:>6} {:>6} {:>8} {:>9} {:>8} {:>7} {:>7}",
            fault.name(),
            row.runs,
            row.struck,
            row.went_on,
            row.failovers,
            row.refused,
            row.killed,
            row.broken
        )?;
    }
    writeln!(out)
}

fn tell(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn say(text: &str) {
    // The reader of the output may be gone.
    let _ = writeln!(io::stderr(), "{text}");
}
