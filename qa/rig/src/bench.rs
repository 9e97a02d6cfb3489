//! A workload in cells that alternate: each round measures every cell once, in an order that is
//! turned.

use crate::args::{Bench, Load, Transport};
use crate::database::{self, Database};
use crate::disk::{BARE, Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, find, free_port};
use crate::rig::say;
use crate::workload::{Measured, Workload};
use seawall_io::{Clock, SystemClock};
use seawall_measure::load::{Others, Watch};

/// Seconds of a run before the first round, which leaves files of the log to be used again.
const WARM_UP: u32 = 5;

/// Where the log is, and what an acknowledgement waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// On the file system of the machine.
    Native,
    /// There, but commits do not wait: the database acknowledges what a crash of its own loses.
    NativeAsync,
    /// On the device of a disk alone; its delay in milliseconds.
    Bare(f64),
    /// On the disk, not armed; the delay of its device in milliseconds.
    PassThrough(f64),
    /// On the disk, armed.
    Armed(f64),
}

impl Way {
    /// As a report calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native | Self::Bare(_) => "native",
            Self::NativeAsync => "native, asynchronous",
            Self::PassThrough(_) => "disk, pass-through",
            Self::Armed(_) => "disk, armed",
        }
    }

    /// The native way to compare a device of this delay with.
    pub(crate) fn native(delay: f64) -> Self {
        if delay > 0.0 { Self::Bare(delay) } else { Self::Native }
    }

    /// Of its device.
    pub(crate) fn delay(self) -> Option<f64> {
        match self {
            Self::Native | Self::NativeAsync => None,
            Self::Bare(delay) | Self::PassThrough(delay) | Self::Armed(delay) => Some(delay),
        }
    }
}

/// What is measured again and again.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) way: Way,
    pub(crate) clients: u32,
    pub(crate) windows: Vec<Window>,
}

/// A cell in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) measured: Measured,
    /// Flushes of the disk that returned at once, and that waited; nothing where there is no disk.
    pub(crate) flushes: Option<[u64; 2]>,
    /// The share of one processor that the disk's server used; nothing where there is no disk.
    pub(crate) server_share: Option<f64>,
    /// What others used of the processors.
    pub(crate) others: Others,
}

/// All windows of all cells.
///
/// # Errors
///
/// The rig does not work, or the disk could not be armed or stayed armed.
pub(crate) fn run(args: &Bench, ground: &Ground) -> Result<Vec<Cell>, Failure> {
    let setting = Setting::make(args, ground)?;
    let mut cells = cells(args, !setting.bare.is_empty());
    for round in 0..args.rounds {
        let turned = usize::try_from(round).unwrap_or_default() % cells.len();
        for database in setting.databases() {
            database.checkpoint()?;
        }
        for step in 0..cells.len() {
            let count = cells.len();
            let Some(cell) = cells.get_mut((step + turned) % count) else { continue };
            let window = setting.measure(args, cell.way, cell.clients)?;
            say(&line(args, round + 1, (cell, &window)));
            cell.windows.push(window);
        }
    }
    setting.end(args.workload())?;
    Ok(cells)
}

fn line(args: &Bench, round: u32, (cell, window): (&Cell, &Window)) -> String {
    let delay = cell.way.delay().map(|delay| format!(" +{delay} ms")).unwrap_or_default();
    let name = format!("{}{delay}", cell.way.name());
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

fn cells(args: &Bench, has_bare: bool) -> Vec<Cell> {
    let bare = |delay| Some(Way::native(delay)).filter(|way| has_bare && *way != Way::Native);
    let disks = args.delays.iter().flat_map(|delay| {
        bare(*delay).into_iter().chain([Way::PassThrough(*delay), Way::Armed(*delay)])
    });
    let ways: Vec<Way> = [Way::Native, Way::NativeAsync].into_iter().chain(disks).collect();
    let of = |clients: &u32| {
        let clients = *clients;
        ways.iter().map(move |way| Cell { way: *way, clients, windows: Vec::new() })
    };
    args.clients.iter().flat_map(of).collect()
}

/// One database with its log on the file system, and two for each device: with its log on a disk,
/// and on the device alone. All of them run, and one at a time has load.
#[derive(Debug)]
struct Setting {
    native: Box<dyn Database>,
    disks: Vec<OnDisk>,
    bare: Vec<OnDisk>,
}

/// A database, its disk and the delay of the disk's device.
#[derive(Debug)]
struct OnDisk {
    delay: f64,
    database: Box<dyn Database>,
    disk: Disk,
}

impl OnDisk {
    /// Makes them, with the tables of another database, which is stopped.
    fn make(
        (args, ground): (&Bench, &Ground),
        (delay, transport): (f64, Transport),
        filled: &dyn Database,
    ) -> Result<Self, Failure> {
        say(&format!("making a disk whose device takes {delay} ms more: {}", transport.about()));
        let settings = Settings { delay, is_cut: false, hold_up: args.hold_up, transport };
        let kind = if transport == Transport::Bare { "bare" } else { "disk" };
        let disk = Disk::make(ground, &format!("{kind}-{delay}"), settings)?;
        let name = format!("{kind}-{delay}-data");
        let mut database = database::make(args.database, ground, (&name, &disk.mounted()))?;
        database::copy(filled, &*database)?;
        start(args, &mut *database)?;
        args.workload().warm_up(&*database, WARM_UP)?;
        Ok(Self { delay, database, disk })
    }
}

fn start(args: &Bench, database: &mut dyn Database) -> Result<(), Failure> {
    if args.load == Load::Tpcc {
        database.listen(free_port()?);
    }
    database.start()
}

impl Setting {
    fn make(args: &Bench, ground: &Ground) -> Result<Self, Failure> {
        let log = ground.dir.join("native-log");
        std::fs::create_dir(&log)?;
        let mut native = database::make(args.database, ground, ("native", &log))?;
        start(args, &mut *native)?;
        say(&format!("filling the tables: {}", args.workload().about()));
        args.workload().fill(&*native)?;
        native.stop()?;
        let make =
            |delay: &f64, transport| OnDisk::make((args, ground), (*delay, transport), &*native);
        let disks = args.delays.iter().map(|delay| make(delay, args.transport));
        let disks = disks.collect::<Result<_, _>>()?;
        let mut slow: Vec<&f64> = args.delays.iter().filter(|delay| **delay > 0.0).collect();
        if !slow.is_empty() && find(BARE).is_none() {
            say(&format!(
                "SKIPPED: {BARE} is not installed; native was NOT measured on slow devices"
            ));
            slow.clear();
        }
        let bare = slow.into_iter().map(|delay| make(delay, Transport::Bare));
        let bare = bare.collect::<Result<_, _>>()?;
        start(args, &mut *native)?;
        args.workload().warm_up(&*native, WARM_UP)?;
        Ok(Self { native, disks, bare })
    }

    fn databases(&self) -> impl Iterator<Item = &dyn Database> {
        let on_disks = self.disks.iter().chain(&self.bare).map(|on| &*on.database);
        [&*self.native].into_iter().chain(on_disks)
    }

    fn measure(&self, args: &Bench, way: Way, clients: u32) -> Result<Window, Failure> {
        let Some((database, disk)) = self.of(way) else { return Err("no such device".into()) };
        if let Some(disk) = disk {
            disk.set_armed(matches!(way, Way::Armed(_)))?;
        }
        let counted = || disk.map(Disk::flushes).transpose();
        let used = || disk.map(Disk::processor_time).transpose();
        let (before, watch) = (counted()?, Watch::start());
        let (used_before, clock) = (used()?, SystemClock::new());
        let is_async = way == Way::NativeAsync;
        database.set_async(is_async)?;
        let measured = args.workload().run(database, clients, args.seconds)?;
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

    fn of(&self, way: Way) -> Option<(&dyn Database, Option<&Disk>)> {
        let Some(delay) = way.delay() else { return Some((&*self.native, None)) };
        let is_bare = matches!(way, Way::Bare(_));
        let all = if is_bare { &self.bare } else { &self.disks };
        let on = all.iter().find(|on| on.delay.total_cmp(&delay).is_eq())?;
        Some((&*on.database, (!is_bare).then_some(&on.disk)))
    }

    /// Checks the tables and shuts down.
    fn end(mut self, workload: Workload) -> Result<(), Failure> {
        for database in self.databases() {
            workload.check(database)?;
        }
        self.native.stop()?;
        for mut on in self.disks.into_iter().chain(self.bare) {
            on.database.stop()?;
            drop(on.disk);
        }
        Ok(())
    }
}
