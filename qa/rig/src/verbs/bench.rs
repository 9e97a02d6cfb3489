//! Measures a workload in cells that alternate: each round measures every cell once, and each round
//! starts with another cell.

pub(crate) mod report;

use crate::args::{Bench, Buffers, Kinds, Load, Transport};
use crate::database::{self, Database, Kept};
use crate::disk::{BARE, Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, find, free_port};
use crate::rig::say;
use crate::workload::{Measured, Workload};
use seawall_io::{Clock, SystemClock};
use seawall_measure::load::{Others, Watch};

/// Seconds of a run before the first round, which leaves log files that can be reused.
const WARM_UP: u32 = 5;

/// Where the log is, and what a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Way {
    pub(crate) log: Log,
    /// Time that a flush of the log's device takes, in milliseconds.
    pub(crate) delay: f64,
    /// Whether commits do not wait: a crash of the database then loses acknowledged commits.
    pub(crate) is_async: bool,
}

/// Where the log is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Log {
    /// On the file system of the machine.
    Machine,
    /// Directly on the disk's device, without the disk.
    Device,
    /// On that device, with flushes that cost nothing: its cache loses data when the power fails.
    Cached,
    /// On the disk, write-through.
    PassThrough(Buffers),
    /// On the disk, armed.
    Armed(Buffers),
}

impl Way {
    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match (self.log, self.is_async) {
            (Log::Machine | Log::Device, false) => "native",
            (Log::Machine | Log::Device, true) => "native, asynchronous",
            (Log::Cached, false) => "native, write cache on",
            (Log::Cached, true) => "native, write cache on, asynchronous",
            (Log::PassThrough(_), _) => "disk, pass-through",
            (Log::Armed(_), _) => "disk, armed",
        }
    }

    /// The way of this kind on a device with this delay.
    pub(crate) fn of(kind: Kinds, delay: f64, buffers: Buffers) -> Self {
        let native = if delay > 0.0 { Log::Device } else { Log::Machine };
        let log = match kind {
            Kinds::Native | Kinds::Async => native,
            Kinds::Cached | Kinds::CachedAsync => Log::Cached,
            Kinds::PassThrough => Log::PassThrough(buffers),
            Kinds::Armed => Log::Armed(buffers),
        };
        Self { log, delay, is_async: matches!(kind, Kinds::Async | Kinds::CachedAsync) }
    }

    /// The disk's buffers, or `None` without a disk.
    pub(crate) fn buffers(self) -> Option<Buffers> {
        match self.log {
            Log::PassThrough(buffers) | Log::Armed(buffers) => Some(buffers),
            Log::Machine | Log::Device | Log::Cached => None,
        }
    }
}

/// A combination of settings that every round measures.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) way: Way,
    /// PostgreSQL's option `commit_delay`, in microseconds.
    pub(crate) commit_delay: u32,
    pub(crate) clients: u32,
    pub(crate) windows: Vec<Window>,
}

impl Cell {
    /// Whether both have the same settings.
    fn is_same(&self, other: &Self) -> bool {
        let key = |cell: &Self| (cell.way, cell.commit_delay, cell.clients);
        key(self) == key(other)
    }
}

/// The measurement of a cell in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) measured: Measured,
    /// Flushes that returned immediately, and that waited; `None` without a disk.
    pub(crate) flushes: Option<[u64; 2]>,
    /// The share of one processor that the disk's server used; `None` without a disk.
    pub(crate) server_share: Option<f64>,
    /// The processor use of others.
    pub(crate) others: Others,
}

/// Runs all rounds and returns the cells with their measurements.
///
/// # Errors
///
/// The rig itself failed, or the disk could not be armed or stayed armed.
pub(crate) fn run(args: &Bench, ground: &Ground) -> Result<Vec<Cell>, Failure> {
    let mut cells = cells(args);
    let setting = Setting::make(args, ground, &cells)?;
    for round in 0..args.rounds {
        let turned = usize::try_from(round).unwrap_or_default() % cells.len();
        for database in setting.databases() {
            database.checkpoint()?;
        }
        for step in 0..cells.len() {
            let count = cells.len();
            let Some(cell) = cells.get_mut((step + turned) % count) else { continue };
            let window = setting.measure(args, cell)?;
            say(&line(args, round + 1, (cell, &window)));
            cell.windows.push(window);
        }
    }
    setting.end(args.workload())?;
    Ok(cells)
}

fn line(args: &Bench, round: u32, (cell, window): (&Cell, &Window)) -> String {
    let delay = format!(" +{} ms", cell.way.delay);
    let buffers = cell.way.buffers().filter(|buffers| *buffers != Buffers::USUAL);
    let buffers = buffers.map(|buffers| format!(", {buffers}")).unwrap_or_default();
    let commit = match cell.commit_delay {
        0 => String::new(),
        delay => format!(", commit_delay {delay}"),
    };
    let name = format!("{}{delay}{buffers}{commit}", cell.way.name());
    let Measured { rate, latency_ms } = window.measured;
    let unit = args.workload().unit();
    let flushes = window
        .flushes
        .map(|[early, waited]| format!("  flushes: {early} at once, {waited} waited"));
    format!(
        "round {round}  {:>2} clients  {name:<28} {rate:>9.1} {unit} {latency_ms:>9.3} ms{}",
        cell.clients,
        flushes.unwrap_or_default()
    )
}

/// Lists each combination of settings once.
fn cells(args: &Bench) -> Vec<Cell> {
    let kinds = kinds(args);
    let mut cells: Vec<Cell> = Vec::new();
    for &clients in &args.clients {
        for &delay in &args.delays {
            for way in ways(args, &kinds, delay) {
                for &commit_delay in &args.commit_delays {
                    let cell = Cell { way, commit_delay, clients, windows: Vec::new() };
                    if !cells.iter().any(|other| other.is_same(&cell)) {
                        cells.push(cell);
                    }
                }
            }
        }
    }
    cells
}

/// The ways on a device with this delay; those on the disk once for each kind of buffers.
fn ways(args: &Bench, kinds: &[Kinds], delay: f64) -> Vec<Way> {
    let of = |kind: &Kinds| {
        let kind = *kind;
        args.buffers.iter().map(move |buffers| Way::of(kind, delay, *buffers))
    };
    let ways = kinds.iter().flat_map(of);
    ways.filter(|way| way.log != Log::Device || find(BARE).is_some()).collect()
}

/// The kinds that can be measured here.
fn kinds(args: &Bench) -> Vec<Kinds> {
    let is_cached = |kind: &Kinds| matches!(kind, Kinds::Cached | Kinds::CachedAsync);
    let mut kinds = args.ways.clone();
    let is_slow = args.delays.iter().any(|delay| *delay > 0.0);
    if find(BARE).is_none() && (is_slow || kinds.iter().any(is_cached)) {
        say(&format!("SKIPPED: {BARE} is not installed; native was NOT measured on slow devices"));
        kinds.retain(|kind| !is_cached(kind));
    }
    kinds
}

/// One database for each place of the log. All databases run, but only one at a time has load.
#[derive(Debug)]
struct Setting {
    places: Vec<(Place, Box<dyn Database>, Option<Disk>)>,
}

/// A place of the log with its own database: the machine's file system, or a device or disk with
/// this delay and these buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Machine,
    Device(f64),
    Disk(f64, Buffers),
}

impl Place {
    fn of(way: Way) -> Self {
        match way.log {
            Log::Machine => Self::Machine,
            Log::Device => Self::Device(way.delay),
            // The delay applies to flushes, and this device does not wait for those.
            Log::Cached => Self::Device(0.0),
            Log::PassThrough(buffers) | Log::Armed(buffers) => Self::Disk(way.delay, buffers),
        }
    }
}

fn start(args: &Bench, database: &mut dyn Database) -> Result<(), Failure> {
    if args.load == Load::Tpcc {
        database.listen(free_port()?);
    }
    database.start()
}

impl Setting {
    fn make(args: &Bench, ground: &Ground, cells: &[Cell]) -> Result<Self, Failure> {
        let tables = filled(args, ground)?;
        let mut setting = Self { places: Vec::new() };
        for cell in cells {
            let place = Place::of(cell.way);
            if setting.places.iter().all(|(other, _, _)| *other != place) {
                setting.add(args, ground, (place, &tables))?;
            }
        }
        Ok(setting)
    }

    /// Adds a disk and a database with these tables.
    fn add(
        &mut self,
        args: &Bench,
        ground: &Ground,
        (place, tables): (Place, &Kept),
    ) -> Result<(), Failure> {
        let name = format!("place-{}", self.places.len());
        let (delay, transport, buffers) = match place {
            Place::Machine => (0.0, None, Buffers::USUAL),
            Place::Device(delay) => (delay, Some(Transport::Bare), Buffers::USUAL),
            Place::Disk(delay, buffers) => (delay, Some(args.transport), buffers),
        };
        let make = |transport: Transport| {
            let about = transport.about();
            say(&format!("making a disk whose device takes {delay} ms more: {about}; {buffers}"));
            let hold_up = args.hold_up;
            let settings = Settings { delay, is_cut: false, hold_up, transport, buffers };
            Disk::make(ground, &name, settings)
        };
        let disk = transport.map(make).transpose()?;
        let log = disk.as_ref().map_or_else(|| ground.dir.join(&name), Disk::mounted);
        if disk.is_none() {
            std::fs::create_dir(&log)?;
        }
        let name = format!("{name}-data");
        let mut database = database::make(args.database, ground, (&name, &log))?;
        tables.give(&*database)?;
        start(args, &mut *database)?;
        args.workload().warm_up(&*database, WARM_UP)?;
        self.places.push((place, database, disk));
        Ok(())
    }

    fn databases(&self) -> impl Iterator<Item = &dyn Database> {
        self.places.iter().map(|(_, database, _)| &**database)
    }

    fn measure(&self, args: &Bench, cell: &Cell) -> Result<Window, Failure> {
        let place = Place::of(cell.way);
        let found = self.places.iter().find(|(other, _, _)| *other == place);
        let (_, database, disk) = found.ok_or("no such device")?;
        let disk = disk.as_ref().filter(|_| cell.way.buffers().is_some());
        if let Some(disk) = disk {
            disk.set_armed(matches!(cell.way.log, Log::Armed(_)))?;
        }
        database.set_async(cell.way.is_async)?;
        if args.commit_delays.iter().any(|delay| *delay > 0) {
            database.set_commit_delay(cell.commit_delay)?;
        }
        let counted = || disk.map(Disk::flushes).transpose();
        let used = || disk.map(Disk::processor_time).transpose();
        let (before, watch) = (counted()?, Watch::start());
        let (used_before, clock) = (used()?, SystemClock::new());
        let measured = args.workload().run(&**database, cell.clients, args.seconds)?;
        let took = clock.now();
        let server_share = used_before.zip(used()?).map(|(before, after)| {
            after.saturating_sub(before).as_secs_f64() / took.as_secs_f64().max(1e-9)
        });
        let (after, others) = (counted()?, watch.others());
        let flushes = before.zip(after).map(|([early, waited], [early_now, waited_now])| {
            [early_now.saturating_sub(early), waited_now.saturating_sub(waited)]
        });
        Ok(Window { measured, flushes, server_share, others })
    }

    /// Checks the tables and shuts everything down.
    fn end(self, workload: Workload) -> Result<(), Failure> {
        for database in self.databases() {
            workload.check(database)?;
        }
        for (_, mut database, disk) in self.places {
            database.stop()?;
            drop(disk);
        }
        Ok(())
    }
}

/// Returns the files of a database with filled tables: files kept by an earlier run, or new ones.
fn filled(args: &Bench, ground: &Ground) -> Result<Kept, Failure> {
    let engine = args.database.name().to_lowercase();
    let Workload { load, size } = args.workload();
    let name = format!("{engine}-{load:?}-{size}").to_lowercase();
    let kept = Kept::new(args.tables.as_ref().unwrap_or(&ground.dir), &name);
    if kept.is_whole() {
        return Ok(kept);
    }
    let log = ground.dir.join("filled-log");
    std::fs::create_dir(&log)?;
    let mut database = database::make(args.database, ground, ("filled", &log))?;
    start(args, &mut *database)?;
    say(&format!("filling the tables: {}", args.workload().about()));
    // Kept files become valid when their marker is created, so nothing has to be durable yet.
    database.set_async(true)?;
    args.workload().fill(&*database)?;
    database.set_async(false)?;
    database.stop()?;
    kept.take(&*database)?;
    Ok(kept)
}
