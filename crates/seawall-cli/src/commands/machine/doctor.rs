//! `seawall doctor`: whether this machine keeps what a log promises, as far as it can be seen.

pub(super) mod checks;

use crate::args::Doctor;
use crate::output::color::{self, Tone, paint};
use crate::output::report::{Exit, Failure};
use crate::output::stdout::Output;
use crate::output::width::fitted;
use checks::{Check, Machine, State};
use seawall_host::HostInfo;
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// Looks around the directory; 10 if what is synced there is not durable, 1 if no log can be made.
pub(crate) fn run(args: &Doctor) -> Result<Exit, Failure> {
    let found = look(&args.dir).map_err(|error| failure(&args.dir, &error))?;
    let checks = checks::judge(&found);
    let worst = checks.iter().map(|check| check.state).max().unwrap_or(State::Ok);
    let exit = exit_for(worst);
    let mut out = Output::new();
    if args.look.json {
        out.line(&as_json(&args.dir, (worst, exit), &checks).to_string());
    } else {
        tell(&mut out, args, (worst, exit), &checks);
    }
    Ok(exit.worse(out.finish()))
}

pub(super) fn look(folder: &Path) -> io::Result<Machine> {
    let around = HostInfo::of(folder)?;
    // What lets a program be killed without loss in tests makes syncs do nothing.
    let preload = std::env::var("LD_PRELOAD").ok();
    let boot_id = PosixStorage::open(&folder.canonicalize()?)?.boot_id().is_some();
    Ok(Machine { around, preload, boot_id, wall_us: SystemClock::new().wall_us() })
}

/// How a program ends that found this.
pub(super) fn exit_for(worst: State) -> Exit {
    match worst {
        State::Ok | State::Warning => Exit::Fine,
        State::Unusable => Exit::Failed,
        State::Broken => Exit::Contract,
    }
}

fn as_json(folder: &Path, (worst, exit): (State, Exit), checks: &[Check]) -> Value {
    json!({
        "schema": "seawall.doctor/1",
        "dir": folder.display().to_string(),
        "state": worst.name(),
        "exit": exit.code(),
        "checks": checks.iter().map(check_as_json).collect::<Vec<_>>(),
    })
}

pub(super) fn check_as_json(check: &Check) -> Value {
    json!({
        "name": check.name.replace(' ', "-"),
        "state": check.state.name(),
        "says": check.says,
        "next": check.next,
    })
}

fn tell(out: &mut Output, args: &Doctor, (worst, exit): (State, Exit), checks: &[Check]) {
    let (verdict, tone) = match worst {
        State::Ok => ("nothing speaks against keeping logs here", Tone::Good),
        State::Warning => ("logs can be kept here, with care", Tone::Doubtful),
        State::Unusable => ("NO LOG CAN BE WRITTEN HERE", Tone::Bad),
        State::Broken => ("WHAT IS SYNCED HERE CAN BE LOST", Tone::Bad),
    };
    let head = format!("{}   {verdict}", args.dir.display());
    out.toned(&format!("{head:<72}{:>8}", format!("exit {}", exit.code())), verdict, tone);
    for check in checks.iter().filter(|check| !args.look.quiet || check.state != State::Ok) {
        tell_check(out, check);
    }
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

pub(super) fn failure(folder: &Path, error: &io::Error) -> Failure {
    let (what, next) = match error.kind() {
        io::ErrorKind::NotFound => ("no such directory".to_owned(), "check the path"),
        io::ErrorKind::NotADirectory => {
            ("not a directory".to_owned(), "give the directory that logs are in")
        }
        _ => (format!("cannot inspect: {error}"), "check the path and its permissions"),
    };
    Failure::new(Exit::Failed, what).at(folder.display()).next(next)
}
