//! `seawall-rig drill`: repeatedly cuts the power of a simulated device under a workload, and reads
//! back every block that a flush acknowledged.

mod nut;
mod pair;
pub(crate) mod power;
mod process;
pub(crate) mod qemu;
mod work;

use crate::args::{self, Drilled, Share};
use crate::need;
use crate::process::Failure;
use pair::{Cut, Pair, Setup};
use process::Process;
use seawall_bench::output::say;
use seawall_disk::nbd;
use seawall_io::{Clock, File, PosixFile, SystemClock};
use seawall_measure::human::{self, bytes, count, to_u64};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use work::{Client, Found, Promised, beside_clients, look};

/// More versions than a client writes in a cycle.
const VERSIONS: u64 = 1 << 40;
/// How often the output of client processes is read and a request to end is noticed.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// The result of one cycle.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    cut: Cut,
    found: Found,
    /// Blocks acknowledged by flushes in this cycle.
    promised: u64,
    /// Whether the recovered dump was whole; `None` if no dump was found.
    dump: Option<bool>,
}

/// Exit code, as in `seawall`: the promised durability does not hold.
const CONTRACT: u8 = 10;

/// Runs all cycles, prints the verdict and returns the exit code.
pub(crate) fn run(args: &args::Drill) -> Result<u8, Failure> {
    if let Some(share) = &args.share {
        return be_a_client(share, args.seed);
    }
    let program = need::seawall(args.seawall.clone())?;
    let kind = Drilled::from(args.kind);
    if !args.json {
        say(&[says_what(kind, args)])?;
    }
    // After a signal, the child processes are ended and the folder is removed.
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, stopped.clone())?;
    }
    let (delay, hold_up) = (args.delay, args.hold_up);
    let setup = Setup { program, delay, hold_up, power: "ok".to_owned() };
    let pair = Pair::start(setup, args.seed)?;
    let mut drill = Drill { args, kind, pair, promised: Promised::new(), stopped };
    let mut cycles = Vec::new();
    for number in 1..=u64::from(args.cycles) {
        let cycle = drill.cycle(number)?;
        if !args.json {
            // Printed as soon as it is known, to show progress.
            say(&[row(number, &cycle, kind)])?;
        }
        cycles.push(cycle);
    }
    drop(drill);
    let verdict = Verdict::of(kind, &cycles);
    if args.json {
        say(&[answer(args, kind, &cycles, &verdict).to_string()])?;
    } else {
        say(&[&verdict.says])?;
    }
    Ok(if verdict.is_broken { CONTRACT } else { 0 })
}

fn says_what(kind: Drilled, args: &args::Drill) -> String {
    let delay = args.delay.as_secs_f64() * 1000.0;
    let device = format!("a SIMULATED device, {delay} ms a flush");
    match kind {
        Drilled::Announced => {
            let hold_up = args.hold_up.as_millis();
            format!("{device}: SIGPWR, and {hold_up} ms later the cut; nothing may be lost")
        }
        Drilled::Unannounced => {
            format!("{device}: unannounced cuts; the control, which must lose")
        }
        Drilled::KilledClient => {
            format!("{device}: all clients are killed, the server is not; nothing may be lost")
        }
    }
}

fn interrupted() -> Failure {
    "interrupted: the cycles so far are no verdict; give --cycles or --seconds less".into()
}

/// State that outlives a cycle.
struct Drill<'a> {
    args: &'a args::Drill,
    kind: Drilled,
    pair: Pair,
    promised: Promised,
    /// Set by a signal that requests the end.
    stopped: Arc<AtomicBool>,
}

impl Drill<'_> {
    fn cycle(&mut self, number: u64) -> Result<Cycle, Failure> {
        self.check_armed()?;
        let (promised, cut) = match self.kind {
            Drilled::KilledClient => self.kill_clients(number)?,
            Drilled::Announced | Drilled::Unannounced => self.cut(number)?,
        };
        let count = u64::try_from(promised.len()).unwrap_or(u64::MAX);
        if count == 0 {
            // A drill that checked nothing must not pass.
            let what = format!("no flush returned before the cut of cycle {number}");
            return Err(format!("{what}; increase --seconds").into());
        }
        self.promised.extend(promised);
        let mut dump = None;
        if self.kind != Drilled::KilledClient {
            self.pair.start_again(self.args.seed + number)?;
            let status = self.pair.status()?;
            let recovered = status.get("recovered").filter(|recovered| !recovered.is_null());
            dump = recovered.map(|recovered| recovered.get("lost") == Some(&json!(0)));
        }
        let found = look(&self.pair.client()?, &mut self.promised)?;
        Ok(Cycle { cut, found, promised: count, dump })
    }

    /// Fails unless the server is armed: a disk whose flushes all wait has nothing to lose.
    fn check_armed(&self) -> Result<(), Failure> {
        let status = self.pair.status()?;
        let text = |name| status.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("state") == "armed" {
            return Ok(());
        }
        let says = text("says");
        Err(format!("the server is not armed: {says}; increase --hold-up, or lower --delay").into())
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    fn client(&self, cycle: u64, number: u16) -> Client {
        Client { number, above: cycle * VERSIONS, seed: self.args.seed }
    }

    /// Cuts the power under clients that outlive the cut. Returns the blocks acknowledged to them.
    fn cut(&mut self, cycle: u64) -> Result<(Promised, Cut), Failure> {
        let client = |number| Ok((self.client(cycle, number), self.pair.client()?));
        let clients = (0..self.args.clients).map(client).collect::<Result<Vec<_>, Failure>>()?;
        let (promised, cut) = beside_clients(&clients, || {
            let clock = SystemClock::new();
            while clock.now() < self.args.seconds && !self.is_stopped() {
                clock.sleep(LISTEN_EVERY.min(self.args.seconds));
            }
            match self.kind {
                _ if self.is_stopped() => Err(interrupted()),
                Drilled::Announced => self.pair.cut_announced(),
                _ => self.pair.cut_unannounced(),
            }
        });
        Ok((promised, cut?))
    }

    /// Kills all clients, which are processes here, in the middle of their work.
    fn kill_clients(&mut self, cycle: u64) -> Result<(Promised, Cut), Failure> {
        let mut clients = Vec::new();
        for number in 0..self.args.clients {
            let share = format!("{},{number},{}", self.pair.uri(), cycle * VERSIONS);
            let seed = self.args.seed.to_string();
            let arguments = ["drill", "--share", &share, "--seed", &seed];
            let arguments: Vec<OsString> = arguments.map(OsString::from).into();
            clients.push(Process::start(&std::env::current_exe()?, &arguments)?);
        }
        let mut promised = Promised::new();
        let clock = SystemClock::new();
        while clock.now() < self.args.seconds && !self.is_stopped() {
            // Read now, so that the clients' output does not pile up.
            for client in &clients {
                hear(client.lines.try_iter(), &mut promised);
            }
            clock.sleep(LISTEN_EVERY.min(self.args.seconds));
        }
        if self.is_stopped() {
            return Err(interrupted());
        }
        let dirty = self.pair.dirty()?;
        for client in &mut clients {
            client.kill()?;
        }
        // Everything that the clients printed before they were killed.
        for client in &clients {
            hear(client.lines.iter(), &mut promised);
        }
        Ok((promised, Cut { dirty, ..Cut::default() }))
    }
}

/// Works until killed, and prints the acknowledged blocks, one line for each flush.
fn be_a_client(share: &Share, seed: u64) -> Result<u8, Failure> {
    let disk: Arc<dyn File> = if share.uri.starts_with("/dev/") {
        // A block device: this client runs in a guest.
        let device = OpenOptions::new().read(true).write(true).open(&share.uri)?;
        Arc::new(PosixFile::new(device, share.uri.clone()))
    } else {
        Arc::new(nbd::Client::connect(&share.uri.parse()?)?)
    };
    let client = Client { number: share.number, above: share.above, seed };
    let mut out = io::stdout();
    let worked = client.work(&*disk, &AtomicBool::new(false), |flushed| {
        let blocks: Vec<[u64; 2]> = flushed.iter().map(|(at, version)| [*at, *version]).collect();
        // A single write, so that each line is whole.
        out.write_all(format!("{}\n", json!(blocks)).as_bytes())?;
        out.flush()
    });
    Ok(worked.map(|()| 0)?)
}

/// Adds the blocks that client processes report as acknowledged.
fn hear(lines: impl Iterator<Item = String>, promised: &mut Promised) {
    for line in lines {
        // The last line of a killed client may be incomplete.
        let blocks: Vec<[u64; 2]> = serde_json::from_str(&line).unwrap_or_default();
        promised.extend(blocks.into_iter().map(|[block, version]| (block, version)));
    }
}

/// The conclusion from all cycles.
struct Verdict {
    is_broken: bool,
    name: &'static str,
    says: String,
    promised: u64,
    lost: u64,
}

impl Verdict {
    fn of(kind: Drilled, cycles: &[Cycle]) -> Self {
        let sum = |of: fn(&Cycle) -> u64| cycles.iter().map(of).sum::<u64>();
        let promised = sum(|cycle| cycle.promised);
        let lost = sum(|cycle| cycle.found.lost);
        let damaged = sum(|cycle| cycle.found.damaged);
        // A killed client leaves each block old or new; a power cut may mix old and new sectors.
        let mixed = match kind {
            Drilled::KilledClient => sum(|cycle| cycle.found.mixed),
            Drilled::Announced | Drilled::Unannounced => 0,
        };
        let is_broken = lost + damaged + mixed > 0;
        let losing = cycles.iter().filter(|cycle| cycle.found.lost > 0).count();
        let (cuts, blocks) = (count(to_u64(cycles.len()), "cut"), human::number(promised));
        let name = match (kind, is_broken) {
            (Drilled::Unannounced, true) => "control-lost",
            (Drilled::Unannounced, false) => "control-kept",
            (_, true) => "lost",
            (_, false) => "kept",
        };
        let says = match name {
            "control-lost" => format!(
                "simulated: {losing} of {cuts} without a warning lost {} of {blocks} acknowledged \
                 blocks, as an armed disk has to; this is the control",
                human::number(lost)
            ),
            "control-kept" => format!(
                "simulated: {cuts} without a warning happened to lose nothing of {blocks} \
                 acknowledged blocks: give --cycles or --seconds more, as this proves nothing"
            ),
            "kept" => format!("simulated: {cuts}, nothing lost of {blocks} acknowledged blocks"),
            _ => format!(
                "simulated: {cuts}, {} of {blocks} acknowledged blocks LOST, {damaged} damaged, \
                 {mixed} torn",
                human::number(lost)
            ),
        };
        Self { is_broken, name, says, promised, lost }
    }
}

fn row(number: u64, cycle: &Cycle, kind: Drilled) -> String {
    let Cycle { cut, found, promised, dump } = cycle;
    let dirty = bytes(cut.dirty);
    let emergency = match (kind, cut.emergency_ms) {
        (Drilled::Announced, Some(ms)) => format!("   emergency {ms:>7.3} ms"),
        (Drilled::Announced, None) => "   emergency NOT within the hold-up".to_owned(),
        (Drilled::Unannounced | Drilled::KilledClient, _) => String::new(),
    };
    let dump = match dump {
        Some(true) => ", dump whole",
        Some(false) => ", dump TORN",
        None => "",
    };
    let (lost, checked) = (found.lost, found.checked);
    let damaged =
        if found.damaged > 0 { format!(", {} DAMAGED", found.damaged) } else { String::new() };
    format!(
        "{number:>5}   dirty {dirty:>9}{emergency}   promised {promised:>6}   lost {lost} of \
         {checked} blocks{damaged}{dump}"
    )
}

fn answer(args: &args::Drill, kind: Drilled, cycles: &[Cycle], verdict: &Verdict) -> Value {
    let kind = match kind {
        Drilled::Announced => "announced",
        Drilled::Unannounced => "unannounced",
        Drilled::KilledClient => "killed-client",
    };
    let rows: Vec<Value> = cycles.iter().map(cycle_as_json).collect();
    json!({
        "schema": "seawall.disk.drill/1",
        "simulated": true,
        "kind": kind,
        "seed": args.seed,
        "delay_ms": millis(args.delay),
        "hold_up_ms": millis(args.hold_up),
        "clients": args.clients,
        "cycles": rows,
        "acknowledged": verdict.promised,
        "lost": verdict.lost,
        "verdict": verdict.name,
        "says": verdict.says,
    })
}

fn cycle_as_json(cycle: &Cycle) -> Value {
    let Cycle { cut, found, promised, dump } = cycle;
    json!({
        "dirty": cut.dirty,
        "emergency_ms": cut.emergency_ms,
        "device_sectors_lost": cut.sectors_lost,
        "dump_whole": dump,
        "acknowledged": promised,
        "checked": found.checked,
        "lost": found.lost,
        "damaged": found.damaged,
        "mixed": found.mixed,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
