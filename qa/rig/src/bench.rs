//! pgbench's TPC-B in cells that alternate: each round measures every cell once, in an order that
//! is turned.

use crate::args::{Bench, Transport};
use crate::database::{Cluster, Database, Measured};
use crate::disk::{BARE, Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, find};
use crate::rig::say;
use seawall_measure::load::{Others, Watch};

/// Seconds of a run before the first round, which leaves files of the log to be used again.
const WARM_UP: u32 = 2;

/// Where the log is, and what an acknowledgement waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// On the file system of the machine.
    Native,
    /// There, with `synchronous_commit=off`: PostgreSQL acknowledges what a crash of its own loses.
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
        for cluster in setting.clusters() {
            cluster.sql("CHECKPOINT")?;
        }
        for step in 0..cells.len() {
            let count = cells.len();
            let Some(cell) = cells.get_mut((step + turned) % count) else { continue };
            let window = setting.measure(args, cell.way, cell.clients)?;
            say(&line(round + 1, cell, &window));
            cell.windows.push(window);
        }
    }
    setting.end()?;
    Ok(cells)
}

fn line(round: u32, cell: &Cell, window: &Window) -> String {
    let delay = cell.way.delay().map(|delay| format!(" +{delay} ms")).unwrap_or_default();
    let name = format!("{}{delay}", cell.way.name());
    let Measured { tps, latency_ms } = window.measured;
    let flushes = window
        .flushes
        .map(|[early, waited]| format!("  flushes: {early} at once, {waited} waited"));
    format!(
        "round {round}  {:>2} clients  {name:<28} {tps:>9.1} a second {latency_ms:>9.3} ms{}",
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

/// One cluster with its log on the file system, and two for each device: with its log on a disk,
/// and on the device alone. All of them run, and one at a time has load.
#[derive(Debug)]
struct Setting {
    native: Cluster,
    disks: Vec<OnDisk>,
    bare: Vec<OnDisk>,
}

/// A cluster, its disk and the delay of the disk's device.
#[derive(Debug)]
struct OnDisk {
    delay: f64,
    cluster: Cluster,
    disk: Disk,
}

impl OnDisk {
    fn make(
        (args, ground): (&Bench, &Ground),
        delay: f64,
        transport: Transport,
    ) -> Result<Self, Failure> {
        say(&format!("making a disk whose device takes {delay} ms more: {}", transport.about()));
        let settings = Settings { delay, is_cut: false, hold_up: args.hold_up, transport };
        let kind = if transport == Transport::Bare { "bare" } else { "disk" };
        let disk = Disk::make(ground, &format!("{kind}-{delay}"), settings)?;
        let cluster = Cluster::make(ground, &format!("{kind}-{delay}-data"), &disk.mounted())?;
        Ok(Self { delay, cluster: started(args, cluster)?, disk })
    }
}

impl Setting {
    fn make(args: &Bench, ground: &Ground) -> Result<Self, Failure> {
        let log = ground.dir.join("native-log");
        std::fs::create_dir(&log)?;
        let native = started(args, Cluster::make(ground, "native", &log)?)?;
        let make = |delay: &f64, transport| OnDisk::make((args, ground), *delay, transport);
        let disks = args.delays.iter().map(|delay| make(delay, args.transport));
        let disks = disks.collect::<Result<_, _>>()?;
        let mut slow = args.delays.iter().filter(|delay| **delay > 0.0).peekable();
        if slow.peek().is_some() && find(BARE).is_none() {
            say(&format!(
                "SKIPPED: {BARE} is not installed; native was NOT measured on slow devices"
            ));
            return Ok(Self { native, disks, bare: Vec::new() });
        }
        let bare = slow.map(|delay| make(delay, Transport::Bare)).collect::<Result<_, _>>()?;
        Ok(Self { native, disks, bare })
    }

    fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        let on_disks = self.disks.iter().chain(&self.bare).map(|on| &on.cluster);
        [&self.native].into_iter().chain(on_disks)
    }

    fn measure(&self, args: &Bench, way: Way, clients: u32) -> Result<Window, Failure> {
        let Some((cluster, disk)) = self.of(way) else { return Err("no such device".into()) };
        if let Some(disk) = disk {
            disk.set_armed(matches!(way, Way::Armed(_)))?;
        }
        let counted = || disk.map(Disk::flushes).transpose();
        let (before, watch) = (counted()?, Watch::start());
        let measured = cluster.load(clients, args.seconds, way == Way::NativeAsync)?;
        let (after, others) = (counted()?, watch.others());
        let flushes = before.zip(after).map(|([early, waited], [early_now, waited_now])| {
            [early_now.saturating_sub(early), waited_now.saturating_sub(waited)]
        });
        Ok(Window { measured, flushes, others })
    }

    fn of(&self, way: Way) -> Option<(&Cluster, Option<&Disk>)> {
        let Some(delay) = way.delay() else { return Some((&self.native, None)) };
        let is_bare = matches!(way, Way::Bare(_));
        let all = if is_bare { &self.bare } else { &self.disks };
        let on = all.iter().find(|on| on.delay.total_cmp(&delay).is_eq())?;
        Some((&on.cluster, (!is_bare).then_some(&on.disk)))
    }

    fn end(mut self) -> Result<(), Failure> {
        self.native.stop()?;
        for mut on in self.disks.into_iter().chain(self.bare) {
            on.cluster.stop()?;
            drop(on.disk);
        }
        Ok(())
    }
}

/// A cluster with its tables.
fn started(args: &Bench, mut cluster: Cluster) -> Result<Cluster, Failure> {
    cluster.start()?;
    cluster.fill(args.scale)?;
    cluster.load(1, WARM_UP, false)?;
    Ok(cluster)
}
