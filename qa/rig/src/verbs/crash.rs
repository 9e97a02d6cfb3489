//! Repeated crashes, and a comparison of the inserts that survive with those acknowledged.

use crate::args::{Buffers, Crash, Kind};
use crate::database::{self, Client, Database, number};
use crate::disk::{Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, free_port, kill_all, pause, wait_for};
use crate::rig::say;
use crate::workload::Workload;
use seawall_io::{Clock, SystemClock};
use serde_json::{Value, json};
use std::time::Duration;

/// Acknowledged inserts that a client needs before the crash.
const ENOUGH: u64 = 20;
const ENOUGH_WITHIN: Duration = Duration::from_secs(30);
/// Number of TPC-C clients.
const CLIENTS: u32 = 4;

/// The result of one crash.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) cycle: u32,
    /// The last key that the client was told is durable.
    pub(crate) acknowledged: u64,
    /// Keys found up to `acknowledged`; `None` if the database did not come back.
    pub(crate) found: Option<u64>,
    /// The highest key found, or 0.
    pub(crate) max: u64,
    /// Time from the crash until the database answers.
    pub(crate) back_ms: u64,
    /// Why the database did not come back.
    pub(crate) why: Option<String>,
}

impl Outcome {
    /// The number of acknowledged keys that are gone.
    pub(crate) fn lost(&self) -> u64 {
        self.acknowledged.saturating_sub(self.found.unwrap_or_default())
    }

    pub(crate) fn line(&self) -> String {
        let Self { cycle, acknowledged, max, back_ms, .. } = self;
        let lost = match (self.lost(), &self.why) {
            (_, Some(why)) => format!("DID NOT COME BACK: {why}"),
            (0, None) => "nothing lost".to_owned(),
            (lost, None) => format!("LOST {lost}"),
        };
        let keys = format!("acknowledged {acknowledged:>6}  highest {max:>6}");
        format!("{cycle:>4}  {keys}  back in {back_ms:>5} ms  {lost}")
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({
            "cycle": self.cycle,
            "acknowledged": self.acknowledged,
            "found": self.found,
            "max": self.max,
            "lost": self.lost(),
            "back_ms": self.back_ms,
            "why": self.why,
        })
    }
}

/// Runs all cycles.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the disk.
pub(crate) fn run(args: &Crash, ground: &Ground) -> Result<Vec<Outcome>, Failure> {
    let settings = Settings {
        delay: args.delay,
        is_cut: true,
        hold_up: args.hold_up,
        transport: args.transport,
        buffers: Buffers::USUAL,
    };
    let mut outcomes = Vec::new();
    let mut rig = None;
    for cycle in 1..=args.cycles {
        let (mut disk, mut database) = match rig.take() {
            Some(kept) => kept,
            None => made(args, ground, (cycle, settings))?,
        };
        let outcome = crash(args, cycle, (&mut disk, &mut *database))?;
        say(&outcome.line());
        // A database that did not come back is not used again.
        rig = outcome.found.is_some().then_some((disk, database));
        outcomes.push(outcome);
    }
    if let Some((disk, mut database)) = rig {
        database.stop()?;
        drop(disk);
    }
    Ok(outcomes)
}

fn made(
    args: &Crash,
    ground: &Ground,
    (cycle, settings): (u32, Settings),
) -> Result<(Disk, Box<dyn Database>), Failure> {
    let disk = Disk::make(ground, &format!("disk-{cycle}"), settings)?;
    let name = format!("database-{cycle}");
    let mut database = database::make(args.database, ground, (&name, &disk.mounted()))?;
    if let Some(workload) = args.workload() {
        database.listen(free_port()?);
        database.start()?;
        say(&format!("filling the tables: {}", workload.about()));
        disk.set_armed(true)?;
        workload.fill(&*database)?;
    } else {
        database.start()?;
    }
    Ok((disk, database))
}

fn crash(
    args: &Crash,
    cycle: u32,
    (disk, database): (&mut Disk, &mut dyn Database),
) -> Result<Outcome, Failure> {
    let table = format!("counted_{cycle}");
    database.make_table(&table)?;
    disk.set_armed(true)?;
    // Keys are noted beside the disk, on the machine's file system, which keeps its power.
    let (shared, own) = match args.workload() {
        Some(workload) if database.has_one_client() => (None, Some(workload)),
        workload => (workload, None),
    };
    let beside = own.map(|workload| workload.transactions(cycle.into()));
    let client = Client::start(database, (&table, disk.folder()), beside)?;
    let log = disk.folder().join("load.log");
    let load = shared.map(|workload| workload.start(database, (CLIENTS, &log)));
    let load = load.transpose()?;
    wait_for(ENOUGH_WITHIN, || (client.acknowledged() >= ENOUGH).then_some(()))
        .ok_or("the client was told next to nothing")?;
    // A different moment in each cycle, but the same whenever that cycle is repeated.
    pause(Duration::from_millis(u64::from(cycle) * 379 % 700));

    let clock = SystemClock::new();
    match args.kind {
        Kind::Killed => database.kill(),
        Kind::Server => disk.kill_server()?,
        Kind::Announced => {
            disk.warn()?;
            pause(Duration::from_millis(u64::from(args.hold_up)));
            disk.cut()?;
        }
        Kind::Unannounced => disk.cut()?,
    }
    database.kill();
    let acknowledged = client.end();
    if let Some(mut load) = load {
        kill_all(load.id());
        load.wait()?;
    }
    let mut outcome = Outcome { cycle, acknowledged, found: None, max: 0, back_ms: 0, why: None };
    match back(args, &table, (disk, database), acknowledged) {
        Ok((found, max)) => (outcome.found, outcome.max) = (Some(found), max),
        Err(why) => outcome.why = Some(format!("{why}\n{}", disk.said())),
    }
    outcome.back_ms = u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX);
    Ok(outcome)
}

/// Restarts whatever is gone. Returns how many acknowledged keys are there, and the highest key.
fn back(
    args: &Crash,
    table: &str,
    (disk, database): (&mut Disk, &mut dyn Database),
    acknowledged: u64,
) -> Result<(u64, u64), Failure> {
    if args.kind != Kind::Killed {
        // A new mount, so that nothing is read from the system's cache of the old one.
        disk.forget()?;
        disk.up()?;
    }
    database.start()?;
    let count = format!("SELECT count(*) FROM {table} WHERE k <= {acknowledged}");
    let found = number(database, &count)?;
    let max = number(database, &format!("SELECT coalesce(max(k), 0) FROM {table}"))?;
    database.check(table)?;
    if let Some(workload) = args.workload() {
        workload.check(database)?;
    }
    Ok((found, max))
}

/// Returns the summary as JSON, and whether the result is as expected.
pub(crate) fn summary(args: &Crash, outcomes: &[Outcome]) -> (Value, bool) {
    let losing = outcomes.iter().filter(|outcome| outcome.lost() > 0 || outcome.found.is_none());
    let losing = losing.count();
    let acknowledged: u64 = outcomes.iter().map(|outcome| outcome.acknowledged).sum();
    let lost: u64 = outcomes.iter().map(Outcome::lost).sum();
    let is_fine = match args.kind {
        // The control must lose keys without a warning, or the other kinds prove nothing.
        Kind::Unannounced => losing * 2 > outcomes.len(),
        Kind::Killed | Kind::Server | Kind::Announced => losing == 0 && !outcomes.is_empty(),
    };
    let summary = json!({
        "schema": "seawall.rig.crash/1",
        "database": args.database.name(),
        "kind": args.kind.name(),
        "transport": args.transport.about(),
        "workload_beside": args.workload().map(Workload::about),
        "delay_ms": args.delay,
        "hold_up_ms": args.hold_up,
        "cycles": outcomes.len(),
        "acknowledged": acknowledged,
        "lost": lost,
        "cycles_that_lost": losing,
        "as_it_should_be": is_fine,
        "about": "The log alone (of SQLite all files) is on the disk that is cut; data directory \
                  and acknowledged keys are on the file system of the machine, whose power stays.",
        "outcomes": outcomes.iter().map(Outcome::as_json).collect::<Vec<_>>(),
    });
    (summary, is_fine)
}
