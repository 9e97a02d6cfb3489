//! Runs a subcommand and turns its result into an exit code.

use crate::SKIPPED;
use crate::args::{
    Arguments, Bench, Buffers, Crash, Detach, Engine, Figures, Guest, Kind, Kinds, Load, Place,
    Power, Qemu, Suite, Transport, What,
};
use crate::need::{
    Ground, folder, look, look_for_bench, look_for_crash, look_for_detach, look_for_figures,
    look_for_guest, look_for_qemu, look_for_suite, look_for_upsd, seawall,
};
use crate::process::Failure;
use crate::verbs::bench::report::Report;
use crate::verbs::{bench, clean, crash, detach, device, drill, figures, guest, suite, walk};
use clap::Parser;
use seawall_io::{PosixStorage, Storage};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Exit code, as in `seawall`: the promised durability does not hold.
const CONTRACT: u8 = 10;
const FAILED: u8 = 1;

/// Delay of the slow device in `smoke`, in milliseconds.
const SMOKE_DELAY: f64 = 1.0;

pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.what {
        What::Clean(place) => clean::clean(&folder(place)).map(|()| 0),
        What::Bench(args) => with(look_for_bench(args), |ground| measure(args, ground)),
        What::Figures(args) => figure(args),
        What::Crash(args) => with(look_for_crash(args), |ground| break_it(args, ground)),
        What::Guest(args) => {
            let ground = look_for_guest(&args.place, &args.root);
            with(ground, |ground| panic_it(args, ground))
        }
        What::Detach(args) => take_away(args),
        What::Device(args) => device::run(args),
        What::Drill(args) => drill::run(args),
        What::Power(args) => power(args),
        What::Qemu(args) => boot(args),
        What::Suite(args) => with(look_for_suite(args), |ground| try_suite(args, ground)),
        What::Walk(place) => with(look(place), |ground| walk::run(ground).map(|()| 0)),
        What::Smoke(place) => with(look(place), |ground| smoke(place, ground)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say(&format!("seawall-rig: {failure}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Prints progress.
pub(crate) fn say(text: &str) {
    // A closed standard error does not stop the run.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs `work` in a folder that is cleaned before and after, if all requirements are met.
fn with(
    ground: Result<Ground, String>,
    work: impl FnOnce(&Ground) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let ground = match ground {
        Ok(ground) => ground,
        Err(why) => return Ok(skip(&why)),
    };
    let _kept = clean::begin(&ground.dir)?;
    work(&ground)
}

fn skip(why: &str) -> u8 {
    say(&format!("SKIPPED, nothing was tested: {why}"));
    SKIPPED
}

fn take_away(args: &Detach) -> Result<u8, Failure> {
    let (dir, seawall) = match look_for_detach(&args.place) {
        Ok(found) => found,
        Err(why) => return Ok(skip(&why)),
    };
    let _kept = clean::begin(&dir)?;
    Ok(match detach::run(args.cycles, &dir, &seawall)? {
        detach::Came::Skipped(why) => skip(&why),
        detach::Came::Kept => 0,
        detach::Came::Broken => CONTRACT,
    })
}

fn power(args: &Power) -> Result<u8, Failure> {
    let program = match look_for_upsd().and_then(|()| seawall(args.seawall.clone())) {
        Ok(program) => program,
        Err(why) => return Ok(skip(&why)),
    };
    let out = PosixStorage::open(&args.out).or_else(|_| PosixStorage::create(&args.out))?;
    let (summary, is_fine) = drill::power::run(args, program)?;
    let text = format!("{summary:#}\n");
    let _ = std::io::stdout().write_all(text.as_bytes());
    replace(&out, "power.json", text.as_bytes())?;
    Ok(if is_fine { 0 } else { CONTRACT })
}

fn boot(args: &Qemu) -> Result<u8, Failure> {
    let (dir, seawall) = match look_for_qemu(&args.place, &args.kernel) {
        Ok(found) => found,
        Err(why) => return Ok(skip(&why)),
    };
    let _kept = clean::begin(&dir)?;
    told(drill::qemu::run(args, (&dir, seawall))?, args.out.as_deref())
}

fn measure(args: &Bench, ground: &Ground) -> Result<u8, Failure> {
    // Opened first, so that a bad folder is noticed before the work.
    let out = PosixStorage::open(&args.out).or_else(|_| PosixStorage::create(&args.out))?;
    let results = bench::run(args, ground)?;
    let report = Report::of(args, ground, &results);
    for line in report.lines() {
        say(&line);
    }
    replace(&out, "bench.json", format!("{:#}\n", report.json()).as_bytes())?;
    replace(&out, "bench.svg", report.svg().as_bytes())?;
    replace(&out, "bench.html", report.html().as_bytes())?;
    say(&format!("in {}: bench.json, bench.svg, bench.html", args.out.display()));
    Ok(0)
}

fn figure(args: &Figures) -> Result<u8, Failure> {
    match look_for_figures(args) {
        Ok(grounds) => figures::run(args, &grounds).map(|()| 0),
        Err(why) => Ok(skip(&why)),
    }
}

fn break_it(args: &Crash, ground: &Ground) -> Result<u8, Failure> {
    let outcomes = crash::run(args, ground)?;
    told(crash::summary(args, &outcomes), args.out.as_deref())
}

fn panic_it(args: &Guest, ground: &Ground) -> Result<u8, Failure> {
    let panics = guest::run(args, ground)?;
    told(guest::summary(args, &panics), args.out.as_deref())
}

fn try_suite(args: &Suite, ground: &Ground) -> Result<u8, Failure> {
    told(suite::run(args, ground)?, args.out.as_deref())
}

/// Prints a summary, writes it to `out`, and returns the exit code.
fn told((summary, is_fine): (Value, bool), out: Option<&Path>) -> Result<u8, Failure> {
    let text = format!("{summary:#}\n");
    let _ = std::io::stdout().write_all(text.as_bytes());
    if let Some(path) = out {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("--out is no file")?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let storage = PosixStorage::open(parent.unwrap_or(Path::new(".")))?;
        replace(&storage, name, text.as_bytes())?;
    }
    Ok(if is_fine { 0 } else { CONTRACT })
}

/// Writes a file, replacing one of the same name.
pub(crate) fn replace(storage: &PosixStorage, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let draft = format!("{name}.partial");
    // Left by an earlier attempt.
    let _ = storage.remove(&draft);
    let file = storage.create(&draft)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    storage.rename(&draft, name)?;
    Ok(storage.sync_dir()?)
}

/// Checks that the rig works here: one second for each cell, one crash of each kind.
fn smoke(place: &Place, ground: &Ground) -> Result<u8, Failure> {
    let out = ground.dir.join("out");
    let short = Bench {
        rounds: 1,
        seconds: 1,
        delays: vec![0.0, SMOKE_DELAY],
        ways: Kinds::USUAL.to_vec(),
        buffers: vec![Buffers::USUAL],
        commit_delays: vec![0],
        tables: None,
        clients: vec![1, 4],
        scale: 1,
        hold_up: 150,
        transport: Transport::Dir,
        database: Engine::Postgres,
        load: Load::Pgbench,
        warehouses: 1,
        out,
        place: place.clone(),
    };
    let mut worst = measure(&short, ground)?;
    for (name, kind, transport) in [
        ("killed", Kind::Killed, Transport::Dir),
        ("server", Kind::Server, Transport::Dir),
        ("announced", Kind::Announced, Transport::Dir),
        ("announced-loop", Kind::Announced, Transport::Loop),
        ("unannounced", Kind::Unannounced, Transport::Dir),
    ] {
        say(&format!("crash, {name}:"));
        let dir = ground.dir.join(name);
        std::fs::create_dir(&dir)?;
        let ground = Ground { dir, ..ground.clone() };
        let args = Crash {
            cycles: 1,
            delay: 8.3,
            kind,
            database: Engine::Postgres,
            transport,
            hold_up: 150,
            tpcc: false,
            warehouses: 1,
            out: None,
            place: place.clone(),
        };
        worst = worst.max(break_it(&args, &ground)?);
    }
    say("walk: the log moves to a disk, and back");
    walk::run(ground)?;
    say(if worst == 0 { "smoke: 7 passed, 0 failed" } else { "smoke: FAILED, see above" });
    Ok(worst)
}
