//! `seawall-rig power`: cuts the power of a simulated device after a real upsd has reported that
//! its UPS is on battery, or has stopped answering. Then reads back every acknowledged block.

use super::nut::Nut;
use super::pair::{Pair, Setup};
use super::work::{Client, Found, Promised, beside_clients, look};
use super::{VERSIONS, interrupted};
use crate::args;
use crate::process::{Failure, wait_for};
use crate::rig::say;
use seawall_io::{Clock, Entropy, SeededEntropy, SystemClock};
use seawall_measure::scratch::Folder;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the server is asked whether it has noticed the failure.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a server may take to be armed; it measures the device first.
const ARMED: Duration = Duration::from_secs(20);
/// How far beyond its own limit the server may notice a failure: the machine has other work.
const SLACK_MS: f64 = 50.0;
/// The file with a line for each cycle.
const LINES: &str = "power.jsonl";
/// After this many cycles, the sequence of kinds repeats.
const KINDS: u64 = 12;

/// What happens to the power source, or to its monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Battery,
    Killed,
    Hangs,
}

impl Kind {
    fn of(cycle: u64) -> Self {
        match cycle % KINDS {
            5 => Self::Killed,
            11 => Self::Hangs,
            _ => Self::Battery,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Battery => "on battery",
            Self::Killed => "upsd killed",
            Self::Hangs => "upsd hangs",
        }
    }
}

/// When the server had noticed the failure, and when it had written the acknowledged bytes that
/// were only in memory, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    noticed_ms: Option<f64>,
    drained_ms: Option<f64>,
    /// The longest time that noticing may take, as reported by the server.
    detection_ms: f64,
    sectors_lost: Option<u64>,
}

/// Runs the missing cycles. Returns a summary, and whether all cycles are fine.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the disk.
pub(crate) fn run(args: &args::Power, program: PathBuf) -> Result<(Value, bool), Failure> {
    let path = args.out.join(LINES);
    let mut rows = begin(args, &path)?;
    // After a signal, the child processes are ended and the folders are removed.
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, stopped.clone())?;
    }
    let (done, cycles) = (u64::try_from(rows.len())?, u64::from(args.cycles));
    if done < cycles {
        let scratch = Folder::new(&std::env::temp_dir(), "seawall-upsd")?;
        let nut = Nut::start(&scratch.path().join("nut"))?;
        let (delay, hold_up) = (args.delay, args.hold_up);
        let setup = Setup { program, delay, hold_up, power: nut.power(done) };
        let pair = Pair::start(setup, args.seed + done)?;
        let mut drill = Drill { args, nut, pair, promised: Promised::new(), stopped };
        for cycle in done..cycles {
            let row = drill.cycle(cycle)?;
            note(&path, &row)?;
            say(&format!("{:>5}   {row}", cycle + 1));
            rows.push(row);
        }
    }
    Ok(summary(args, rows.get(..usize::try_from(cycles)?).unwrap_or(&rows)))
}

/// Returns the rows of an earlier run with the same settings; writes the settings to a new file.
fn begin(args: &args::Power, path: &Path) -> Result<Vec<Value>, Failure> {
    let settings = settings(args);
    if !path.exists() {
        note(path, &settings)?;
    }
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    if !matches!(lines.next(), Some(Ok(found)) if found == settings) {
        let what = format!("{} is of a run with other options", path.display());
        return Err(format!("{what}: give another --out").into());
    }
    Ok(lines.collect::<Result<_, _>>()?)
}

fn settings(args: &args::Power) -> Value {
    json!({
        "schema": "seawall.rig.power/1",
        "seed": args.seed,
        "delay_ms": millis(args.delay),
        "hold_up_ms": millis(args.hold_up),
        "clients": args.clients,
    })
}

/// Appends a line to the file.
fn note(path: &Path, row: &Value) -> Result<(), Failure> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(format!("{row}\n").as_bytes())?)
}

/// State that outlives a cycle.
struct Drill<'a> {
    args: &'a args::Power,
    nut: Nut,
    pair: Pair,
    promised: Promised,
    /// Set by a signal that requests the end.
    stopped: Arc<AtomicBool>,
}

impl Drill<'_> {
    /// Runs one cycle and returns its row for the file.
    fn cycle(&mut self, cycle: u64) -> Result<Value, Failure> {
        let kind = Kind::of(cycle);
        self.wait_until_armed()?;
        let (promised, seen) = self.work(cycle, kind)?;
        let acknowledged = promised.len();
        self.promised.extend(promised);
        match kind {
            Kind::Battery => self.nut.recover(cycle)?,
            Kind::Killed => self.nut.start_again()?,
            Kind::Hangs => self.nut.pause(false)?,
        }
        if kind != Kind::Battery {
            self.nut.wait_until_online()?;
        }
        self.pair.set_power(self.nut.power(cycle + 1));
        self.pair.start_again(self.args.seed + cycle + 1)?;
        let found = look(&self.pair.client()?, &mut self.promised)?;
        Ok(row(kind, &seen, (acknowledged, found)))
    }

    /// Waits until the server is armed: a disk whose flushes all wait has nothing to lose.
    fn wait_until_armed(&self) -> Result<(), Failure> {
        let mut last = Value::Null;
        let armed = wait_for(ARMED, || {
            last = self.pair.status().unwrap_or_default();
            (last.get("state") == Some(&json!("armed"))).then_some(())
        });
        armed.ok_or_else(|| {
            let says = last.get("says").and_then(Value::as_str).unwrap_or_default();
            format!("the server is not armed: {says}; increase --hold-up, or lower --delay").into()
        })
    }

    /// Lets clients work until the power is cut. Returns their acknowledged blocks and what was
    /// seen.
    fn work(&mut self, cycle: u64, kind: Kind) -> Result<(Promised, Seen), Failure> {
        let (above, seed) = ((cycle + 1) * VERSIONS, self.args.seed);
        let client = |number| Ok((Client { number, above, seed }, self.pair.client()?));
        let clients = (0..self.args.clients).map(client).collect::<Result<Vec<_>, Failure>>()?;
        let (promised, outcome) = beside_clients(&clients, || self.fail(cycle, kind));
        Ok((promised, outcome?))
    }

    /// Makes the power source or its monitor fail at a random moment, then cuts the power.
    fn fail(&mut self, cycle: u64, kind: Kind) -> Result<Seen, Failure> {
        let clock = SystemClock::new();
        let chance = SeededEntropy::new(self.args.seed ^ cycle.rotate_left(32)).random()?;
        clock.sleep(Duration::from_millis(50 + chance % 250));
        let failed = match kind {
            Kind::Battery => self.nut.fail(cycle, &clock)?,
            Kind::Killed => self.nut.kill().map(|()| clock.now())?,
            Kind::Hangs => self.nut.pause(true).map(|()| clock.now())?,
        };
        let mut seen = Seen::default();
        while clock.now() < failed + self.args.hold_up {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            seen.look(&self.pair.status()?, clock.now().saturating_sub(failed));
            clock.sleep(LOOK_EVERY);
        }
        // The device comes first, so that the cut can meet one of its flushes.
        seen.sectors_lost = self.pair.cut_device()?;
        self.pair.kill_server()?;
        Ok(seen)
    }
}

impl Seen {
    fn look(&mut self, status: &Value, now: Duration) {
        let supply = |name| status.get("supply").and_then(|supply| supply.get(name));
        if let Some(detection_ms) = supply("detection_ms").and_then(Value::as_f64) {
            self.detection_ms = detection_ms;
        }
        let has_noticed = supply("healthy") == Some(&json!(false));
        if has_noticed && self.noticed_ms.is_none() {
            self.noticed_ms = Some(millis(now));
        }
        if has_noticed && self.drained_ms.is_none() && status.get("uncovered") == Some(&json!(0)) {
            self.drained_ms = Some(millis(now));
        }
    }
}

fn row(kind: Kind, seen: &Seen, (acknowledged, found): (usize, Found)) -> Value {
    let noticed_in_time = seen.noticed_ms.is_some_and(|ms| ms <= seen.detection_ms + SLACK_MS);
    let is_kept = found.lost + found.damaged == 0;
    json!({
        "kind": kind.name(),
        "is_fine": noticed_in_time && seen.drained_ms.is_some() && is_kept,
        "noticed_ms": seen.noticed_ms,
        "detection_ms": seen.detection_ms,
        "drained_ms": seen.drained_ms,
        "device_sectors_lost": seen.sectors_lost,
        "acknowledged": acknowledged,
        "lost": found.lost,
        "damaged": found.damaged,
    })
}

/// Summarises all rows.
fn summary(args: &args::Power, rows: &[Value]) -> (Value, bool) {
    let sum = |name| rows.iter().filter_map(|row| row.get(name)?.as_u64()).sum::<u64>();
    let is_fine = |row: &&Value| row.get("is_fine") == Some(&json!(true));
    let of = |kind: Kind| {
        let its = rows.iter().filter(|row| row.get("kind") == Some(&json!(kind.name())));
        let max = |name| {
            let found = its.clone().filter_map(|row| row.get(name)?.as_f64());
            found.fold(0.0, f64::max)
        };
        json!({
            "cycles": its.clone().count(),
            "fine": its.clone().filter(is_fine).count(),
            "noticed_ms_max": max("noticed_ms"),
            "drained_ms_max": max("drained_ms"),
        })
    };
    let all_fine = rows.iter().all(|row| is_fine(&row)) && sum("acknowledged") > 0;
    let summary = json!({
        "settings": settings(args),
        "simulated": "the device and the UPS; upsd is real",
        "on_battery": of(Kind::Battery),
        "upsd_killed": of(Kind::Killed),
        "upsd_hangs": of(Kind::Hangs),
        "acknowledged": sum("acknowledged"),
        "device_sectors_lost": sum("device_sectors_lost"),
        "lost": sum("lost"),
        "damaged": sum("damaged"),
        "verdict": if all_fine { "kept" } else { "BROKEN" },
    });
    (summary, all_fine)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
