//! Fails every call of every workload once in every way, and checks each run.

use super::calls::{self, Fault};
use super::config::Config;
use super::judge;
use super::tool::{self, Verb};
use super::tracer::{BOOT_ID, End, Injection, Run, Subject, run};
use super::witness::Witness;
use crate::SKIPPED;
use nix::sys::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time limit of a run, which usually takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) configs: Vec<Config>,
    /// Every n-th call of a kind fails, and at least one.
    pub(super) every: u64,
    /// Selects which of them comes first; differs each day by default.
    pub(super) seed: u64,
    /// The calls that fail; all calls if empty.
    pub(super) only: Vec<String>,
    pub(super) jobs: usize,
    /// The directory for the logs.
    pub(super) folder: PathBuf,
}

/// The results of the runs in which one call failed in one way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Row {
    /// Number of runs.
    pub(super) runs: u64,
    /// Runs in which the call failed. Threads take turns in no fixed order, so the last occurrence
    /// is sometimes not reached.
    pub(super) struck: u64,
    /// Runs in which the workload got no error.
    pub(super) went_on: u64,
    /// Runs without an error in which the log continued in a new segment.
    pub(super) failovers: u64,
    /// Runs in which the workload got an error.
    pub(super) refused: u64,
    /// Runs in which the process was killed, as intended.
    pub(super) killed: u64,
    /// Runs in which a promise was broken.
    pub(super) broken: u64,
}

/// All rows of a workload, by call and fault.
pub(super) type Table = BTreeMap<(&'static str, Fault), Row>;

/// Runs a workload without a fault, then once for each call and fault. Prints each broken promise.
///
/// # Errors
///
/// Tracing is not permitted, or a run without a fault breaks a promise.
pub(super) fn bench(plan: &Plan, config: Config) -> io::Result<Table> {
    let counts = sound(plan, config)?;
    let queue: Mutex<VecDeque<Injection>> = Mutex::new(injections(plan, &counts).into());
    let table = Mutex::new(Table::new());
    let work = |worker: usize| -> io::Result<()> {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(injection) = next else { return Ok(()) };
            let trial = trial(plan, config, (worker, Some(injection)))?;
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            let row = table.entry((injection.call.name, injection.fault)).or_default();
            trial.count(row);
            for broken in &trial.broken {
                complain(config, injection, broken);
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..plan.jobs).map(|worker| scope.spawn(move || work(worker))).collect();
        let ended = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the bench died")))
        });
        ended.collect::<Vec<_>>().into_iter().collect::<io::Result<()>>()
    })?;
    Ok(table.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns how often each call is made, at most. It takes three runs, because threads take turns in
/// no fixed order.
fn sound(plan: &Plan, config: Config) -> io::Result<BTreeMap<&'static str, u64>> {
    let (mut counts, mut overlapped) = (BTreeMap::new(), 0);
    for _ in 0..3 {
        let trial = trial(plan, config, (0, None))?;
        if let Some(broken) = trial.broken.first() {
            return Err(io::Error::other(format!("without any fault: {broken}")));
        }
        for (call, count) in trial.counts {
            let most = counts.entry(call).or_default();
            *most = count.max(*most);
        }
        overlapped += trial.overlapped;
    }
    if config.stream && overlapped == 0 {
        return Err(io::Error::other("no write began while another was in flight"));
    }
    Ok(counts)
}

fn injections(plan: &Plan, counts: &BTreeMap<&'static str, u64>) -> Vec<Injection> {
    let mut injections = vec![];
    let wanted = |name: &str| plan.only.is_empty() || plan.only.iter().any(|only| only == name);
    let calls = counts.keys().filter_map(|name| calls::named(name)).filter(|c| wanted(c.name));
    for call in calls {
        let count = counts.get(call.name).copied().unwrap_or(0);
        // Each kind of call fails in each way at least once.
        let step = plan.every.min(count);
        for (shift, fault) in (0..).zip(call.faults()) {
            // Each fault starts at another call, so that together they reach more calls.
            for occurrence in
                (1 + (plan.seed + shift) % step..=count).step_by(usize::try_from(step).unwrap_or(1))
            {
                injections.push(Injection { call, occurrence, fault: *fault });
            }
        }
    }
    injections
}

/// The results of one run.
struct Trial {
    counts: BTreeMap<&'static str, u64>,
    struck: bool,
    end: End,
    errors: bool,
    failovers: u64,
    overlapped: u64,
    broken: Vec<String>,
}

impl Trial {
    fn count(&self, row: &mut Row) {
        row.runs += 1;
        if !self.struck {
            return;
        }
        row.struck += 1;
        match self.end {
            End::Signal(_) => row.killed += 1,
            _ if self.errors => row.refused += 1,
            _ => row.went_on += 1,
        }
        row.failovers += u64::from(!self.errors && self.failovers > 0);
        row.broken += u64::from(!self.broken.is_empty());
    }
}

fn trial(
    plan: &Plan,
    config: Config,
    (worker, injection): (usize, Option<Injection>),
) -> io::Result<Trial> {
    let place = plan.folder.join(worker.to_string());
    let folder = place.join("folder");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&folder)?;
    let said = place.join("said");
    let program = std::env::current_exe()?;
    let work = ["work".to_owned(), folder.display().to_string(), config.name()];
    let arguments = config.verb().map_or_else(|| work.to_vec(), |verb| verb.arguments(&folder));
    let before = config.verb().map(|_| tool::prepare(&folder)).transpose()?;
    let subject = Subject {
        program: &program,
        name: if config.verb().is_some() { tool::NAME } else { "seawall-syscalls" },
        arguments: &arguments,
        input: &config.verb().map_or_else(String::new, Verb::input),
        folder: &folder,
        said: &said,
        patience: PATIENCE,
    };
    let run = run(&subject, injection)?;
    if run.end == End::Exit(i32::from(SKIPPED)) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "no filter for its calls"));
    }
    let mut text = fs::read_to_string(&said)?;
    if let Some((verb, before)) = config.verb().zip(before) {
        let complaint = fs::read_to_string(said.with_extension("err"))?;
        text = before + &verb.testimony(run.end, (&text, &complaint));
    }
    let witness = Witness::read(&text);
    let live = [folder.join("log/live"), PathBuf::from(BOOT_ID)];
    let lags = run.struck.as_ref().is_some_and(|struck| live.contains(&struck.path));
    let mut broken = judge::broken(&folder, &witness, (config.is_encrypted(), lags));
    broken.extend(manners(&run, &witness, (&text, injection), config.verb()));
    if broken.iter().any(|broken| broken.contains("exit")) {
        let complaint = fs::read_to_string(said.with_extension("err")).unwrap_or_default();
        broken.extend(complaint.lines().take(2).map(str::to_owned));
    }
    Ok(Trial {
        counts: run.counts,
        struck: run.struck.is_some(),
        end: run.end,
        errors: !witness.errors.is_empty(),
        failovers: witness.failovers,
        overlapped: witness.overlapped,
        broken,
    })
}

/// Returns what is wrong with how the process continued and ended.
fn manners(
    run: &Run,
    witness: &Witness,
    (text, injection): (&str, Option<Injection>),
    verb: Option<Verb>,
) -> Vec<String> {
    let mut broken = vec![];
    for number in &run.unknown {
        broken.push(format!("system call {number}: does it touch the log? See calls.rs"));
    }
    let struck = injection.zip(run.struck.as_ref());
    let kills =
        struck.is_some_and(|(i, _)| matches!(i.fault, Fault::KillBefore | Fault::KillAfter));
    match run.end {
        End::Hung => broken.push("it hangs".to_owned()),
        End::Signal(Signal::SIGKILL) if kills => return broken,
        End::Signal(signal) => broken.push(format!("it ends by signal {signal}")),
        End::Exit(code) if verb.is_some() && tool::may_exit(code, run.struck.as_ref()) => {}
        End::Exit(0 | 3) if verb.is_none() && witness.done => {}
        End::Exit(code) => broken.push(format!("it ends with exit code {code}")),
    }
    let first = witness.errors.first();
    match (struck, first) {
        (None, Some(error)) => broken.push(format!("an error without a fault: {error}")),
        (Some((injection, _)), Some(error)) if injection.call.hides(injection.fault) => {
            broken.push(format!("it shows: {error}"));
        }
        (Some((injection, at)), Some(error))
            if is_spared(injection, &at.path) && Witness::only_appends(text, at.said) =>
        {
            broken
                .push(format!("one failed call on {} ended an append: {error}", at.path.display()));
        }
        _ => {}
    }
    broken
}

/// Whether appends must continue after this fault: after one failed write or sync of a segment, the
/// log continues in a new one.
fn is_spared(injection: Injection, path: &Path) -> bool {
    let is_segment = path.extension().is_some_and(|ending| ending == "seg" || ending == "jsonl");
    let is_write = ["write", "pwrite64", "fsync", "fdatasync"].contains(&injection.call.name);
    is_segment && is_write
}

fn complain(config: Config, injection: Injection, broken: &str) {
    let Injection { call, occurrence, fault } = injection;
    let _ = writeln!(
        io::stderr(),
        "PROMISE BROKEN: {}, {} {occurrence}, {}: {broken}",
        config.name(),
        call.name,
        fault.name()
    );
}
