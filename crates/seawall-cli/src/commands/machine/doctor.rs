//! `seawall doctor`: whether this machine keeps the guarantees of a log, as far as can be detected.

pub(super) mod checks;

use crate::args::Doctor;
use checks::{Check, Machine, State};
use seawall_host::HostInfo;
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use seawall_output::color::{self, Tone, paint};
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::width::fitted;
use serde::Serialize;
use std::io;
use std::path::Path;

/// Checks the directory; exits with 10 if synced data is not durable, 1 if no log can be created.
pub(crate) fn run(args: &Doctor) -> Result<Exit, Failure> {
    let judged = Judged::of(&args.dir)?;
    let mut out = Output::lock();
    if args.look.json {
        out.json(&Answer { judged: &judged });
    } else {
        tell(&mut out, args, &judged);
    }
    Ok(judged.exit.worse(out.finish()))
}

/// `seawall doctor --json`
#[derive(Serialize)]
#[serde(tag = "schema", rename = "seawall.doctor/1")]
struct Answer<'a> {
    #[serde(flatten)]
    judged: &'a Judged,
}

/// A directory, and the results of its checks.
#[derive(Debug, Serialize)]
pub(super) struct Judged {
    dir: String,
    /// The state of the worst check.
    state: State,
    pub(super) exit: Exit,
    pub(super) checks: Vec<Check>,
}

impl Judged {
    pub(super) fn of(folder: &Path) -> Result<Self, Failure> {
        let found = look(folder).map_err(|error| failure(folder, &error))?;
        let checks = checks::judge(&found);
        let state = checks.iter().map(|check| check.state).max().unwrap_or(State::Ok);
        let exit = match state {
            State::Ok | State::Warning => Exit::Fine,
            State::Unusable => Exit::Failed,
            State::Broken => Exit::Contract,
        };
        Ok(Self { dir: folder.display().to_string(), state, exit, checks })
    }
}

fn look(folder: &Path) -> io::Result<Machine> {
    let around = HostInfo::of(folder)?;
    // This can name a library that skips syncs, as preloaded in tests.
    let preload = std::env::var("LD_PRELOAD").ok();
    let boot_id = PosixStorage::open(&folder.canonicalize()?)?.boot_id().is_some();
    Ok(Machine { around, preload, boot_id, wall_us: SystemClock::new().wall_us() })
}

fn tell(out: &mut Output, args: &Doctor, judged: &Judged) {
    let (verdict, tone) = match judged.state {
        State::Ok => ("no problem found for logs here", Tone::Good),
        State::Warning => ("logs can be kept here, with care", Tone::Doubtful),
        State::Unusable => ("NO LOG CAN BE WRITTEN HERE", Tone::Bad),
        State::Broken => ("WHAT IS SYNCED HERE CAN BE LOST", Tone::Bad),
    };
    let head = format!("{}   {verdict}", judged.dir);
    out.headline(&head, (verdict, tone), &format!("exit {}", judged.exit.code()));
    let is_told = |check: &&Check| !args.look.quiet || check.state != State::Ok;
    judged.checks.iter().filter(is_told).for_each(|check| tell_check(out, check));
}

pub(super) fn tell_check(out: &mut Output, check: &Check) {
    let (word, tone) = (check.state.name(), check.state.tone());
    let start = format!("  {word:<9}");
    let start = if color::is_wanted() { paint(&start, word, tone) } else { start };
    let line = format!("{start}{:<15}{}", check.name, check.says);
    out.line(&fitted(&line, out.columns()));
    if let Some(next) = &check.next {
        out.line(&fitted(&format!("{:26}next: {next}", ""), out.columns()));
    }
}

fn failure(folder: &Path, error: &io::Error) -> Failure {
    let (what, next) = match error.kind() {
        io::ErrorKind::NotFound => ("no such directory".to_owned(), "check the path"),
        io::ErrorKind::NotADirectory => {
            ("not a directory".to_owned(), "give the directory that logs are in")
        }
        _ => (format!("cannot inspect: {error}"), "check the path and its permissions"),
    };
    Failure::new(Exit::Failed, what).at(folder.display()).next(next)
}
