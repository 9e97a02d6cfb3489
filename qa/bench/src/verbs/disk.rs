//! `seawall-bench disk`: the time of a write and its flush while the virtual disk is armed, and of
//! dumping a full ring while writers continue.

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use hdrhistogram::Histogram;
use seawall_disk::device::{Cost, Device};
use seawall_disk::nbd::{Client, Limits, Listen, Server, Target, Uri};
use seawall_disk::{Disk, Emergency, Files, Options, Supply};
use seawall_io::{Clock, Entropy, File, PosixStorage, Storage, SystemClock, SystemEntropy};
use seawall_measure::human::{number, to_f64, to_u64};
use seawall_measure::load::Watch;
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::Trouble;
use seawall_measure::scratch::Scratch;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Size of the disk in bytes. The writes wrap around.
const SIZE: u64 = 64 << 20;
/// The regions that the simulated device exports, and the size of the second one.
const HOME: &str = "home";
const AREA: &str = "area";
const AREA_SIZE: u64 = 16 << 20;
/// Bytes of a write.
const WRITE: usize = 8 << 10;
/// Fill level that counts as full, in sixteenths, because runs need not fill their buffers.
const FULL: usize = 15;
/// Maximum time to wait until the ring is full.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the fill level is checked.
const LOOK_EVERY: Duration = Duration::from_micros(50);
/// Targets for these figures, on the device that they were planned for.
const WRITE_P99_MAX: Duration = Duration::from_micros(20);
const DIR_WORST_MAX: Duration = Duration::from_millis(5);
const DEVICE_WORST_MAX: Duration = Duration::from_millis(20);

/// The times of writes and of dumps.
pub(crate) struct Found {
    writes: Writes,
    /// The dumps on the file system, and on the simulated device.
    dumps: [Dumps; 2],
    conditions: Conditions,
}

impl Bench for args::Disk {
    const NAME: &'static str = "disk";
    const TITLE: &'static str = "The virtual disk, while it is armed and when the power fails";
    type Found = Found;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "What a write and its flush take while the virtual disk is armed, and what the dump of a \
         full ring takes while writers go on."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Found, Failure> {
        let own = |error| failure(&self.common.dir, &Trouble::Plain(error));
        let files = in_folder(stage.folder()).map_err(own)?;
        let watch = Watch::start();
        let writes = Writes::time(&files, self).map_err(own)?;
        stage.say(&[writes.says()])?;
        let name = "the file system";
        let dumps = Dumps::time((name, DIR_WORST_MAX), &files, self).map_err(own)?;
        stage.say(&[dumps.says()])?;
        let conditions = Conditions::of([watch.others()]);

        let place = Scratch::new(&std::env::temp_dir(), "seawall-bench-device")?;
        let (device, files) = on_device(place.path(), self.delay).map_err(own)?;
        let name = "the simulated device";
        let simulated = Dumps::time((name, DEVICE_WORST_MAX), &files, self).map_err(own)?;
        stage.say(&[simulated.says()])?;
        drop(files);
        device.stop().map_err(own)?;
        Ok(Found { writes, dumps: [dumps, simulated], conditions })
    }

    fn conditions(&self, found: &Found, _: &[Compared]) -> Conditions {
        found.conditions
    }

    fn results(&self, found: &Found, _: &[Compared]) -> Fields {
        vec![
            ("write", found.writes.as_json()),
            ("delay_ms", json!(millis(self.delay))),
            ("writers", json!(self.writers)),
            ("emergency", found.dumps.iter().map(Dumps::as_json).collect()),
        ]
    }

    fn page(&self, found: &Found, _: &[Compared]) -> String {
        let [dir, device] = &found.dumps;
        let says = [found.writes.says(), dir.says(), device.says()];
        format!("<p>{}</p>\n", says.map(|says| page::escaped(&says)).join("</p>\n<p>"))
    }
}

/// Options of a disk whose power budget covers a full ring.
fn options() -> Options {
    let hold_up = Duration::from_secs(3600);
    Options {
        supply: Supply { hold_up, detection: Duration::ZERO, is_healthy: true },
        ..Options::default()
    }
}

fn in_folder(folder: &Path) -> io::Result<Files> {
    let storage = PosixStorage::open(folder)?;
    let files = Files { home: storage.create(HOME)?, area: storage.create(AREA)? };
    files.home.fill_with_zeros(SIZE)?;
    files.home.sync()?;
    files.prepare(SystemEntropy.random()?, &options())?;
    storage.sync_dir()?;
    Ok(files)
}

/// Starts a simulated device that serves over NBD, and connects to its two regions.
fn on_device(folder: &Path, delay: Duration) -> io::Result<(Server, Files)> {
    let storage = PosixStorage::open(folder)?;
    let region = |(name, size): (&str, u64)| -> io::Result<Arc<dyn File>> {
        let file = storage.create(name)?;
        file.set_len(size)?;
        Ok(file)
    };
    let regions = [(HOME, SIZE), (AREA, AREA_SIZE)].into_iter().map(region);
    let cost = Cost { delay, bandwidth: 0 };
    let device =
        Device::new(regions.collect::<Result<_, _>>()?, cost, Arc::new(SystemClock::new()));
    let device = Arc::new(device?);
    let exports: [(&str, Arc<dyn Target>); 2] =
        [(HOME, Arc::new(device.region(0))), (AREA, Arc::new(device.region(1)))];
    let socket = folder.join("d");
    let server = Server::start_all(&exports, &Listen::Unix(socket.clone()), Limits::default())?;
    let uri = Uri::new(HOME, &socket);
    let connect = |name| Client::connect(&uri.with_name(name)).map(Arc::new);
    let files = Files { home: connect(HOME)?, area: connect(AREA)? };
    files.prepare(SystemEntropy.random()?, &options())?;
    Ok((server, files))
}

/// Opens the disk, calibrates it, and checks that it is armed.
fn open(files: &Files) -> io::Result<Disk> {
    let (disk, _) = Disk::open(files.clone(), &options(), Arc::new(SystemClock::new()))?;
    disk.calibrate()?;
    match disk.status().armed {
        Ok(_) => Ok(disk),
        Err(why) => Err(io::Error::other(format!("the disk is not armed: {why}"))),
    }
}

/// The latency of writes, each with its flush.
struct Writes {
    nanos: Histogram<u64>,
    rate: u32,
    /// Number of flushes that waited for the device, and of writes that waited for room; normally
    /// none.
    waited: u64,
}

impl Writes {
    fn time(files: &Files, args: &args::Disk) -> io::Result<Self> {
        let disk = open(files)?;
        let clock = SystemClock::new();
        let mut nanos = Histogram::new(3).map_err(io::Error::other)?;
        let every = Duration::from_secs(1) / args.rate;
        let bytes = [0x5a; WRITE];
        let (mut at, mut due) = (0, Duration::ZERO);
        for _ in 0..args.writes {
            clock.sleep(due.saturating_sub(clock.now()));
            let began = clock.now();
            disk.write(at, &bytes)?;
            disk.flush()?;
            let took = clock.now().saturating_sub(began);
            // The histogram resizes itself. Clamping to its range would hide the slowest writes.
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            nanos.record(took).map_err(io::Error::other)?;
            at = (at + to_u64(WRITE)) % SIZE;
            // A late writer must not catch up at a higher rate than requested.
            due = clock.now().saturating_sub(every).max(due) + every;
        }
        let counts = disk.status().counts;
        disk.close()?;
        Ok(Self { nanos, rate: args.rate, waited: counts.flushes_waited + counts.deferred })
    }

    fn micros(&self, part: f64) -> f64 {
        to_f64(self.nanos.value_at_quantile(part)) / 1000.0
    }

    fn is_within(&self) -> bool {
        self.micros(0.99) < WRITE_P99_MAX.as_secs_f64() * 1e6
    }

    fn says(&self) -> String {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|part| self.micros(part));
        let (count, waited) = (number(self.nanos.len()), number(self.waited));
        let verdict = if self.is_within() { "within" } else { "NOT within" };
        let rate = number(u64::from(self.rate));
        format!(
            "write 8 KiB and flush, armed, {rate} a second, {count} times: p50 {p50:.1} us, \
             p99 {p99:.1} us, p99.9 {p999:.1} us; {waited} waited; p99 {verdict} 20 us"
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "count": self.nanos.len(),
            "bytes": WRITE,
            "per_s": self.rate,
            "p50_us": self.micros(0.5),
            "p99_us": self.micros(0.99),
            "p999_us": self.micros(0.999),
            "max_us": to_f64(self.nanos.max()) / 1000.0,
            "waited": self.waited,
            "within": self.is_within(),
        })
    }
}

/// Emergencies under load, the fastest first.
struct Dumps {
    name: &'static str,
    worst_max: Duration,
    all: Vec<Emergency>,
}

impl Dumps {
    fn time(
        (name, worst_max): (&'static str, Duration),
        files: &Files,
        args: &args::Disk,
    ) -> io::Result<Self> {
        let mut all = Vec::new();
        for _ in 0..args.emergencies {
            all.push(dump_under_load(files, args.writers)?);
        }
        all.sort_by_key(|dump| dump.took);
        Ok(Self { name, worst_max, all })
    }

    fn median(&self) -> Duration {
        self.all.get(self.all.len() / 2).map_or(Duration::ZERO, |dump| dump.took)
    }

    fn worst(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, |dump| dump.took)
    }

    /// The bytes of the smallest dump.
    fn least(&self) -> usize {
        self.all.iter().map(|dump| dump.bytes).min().unwrap_or_default()
    }

    fn says(&self) -> String {
        let (median, worst) = (millis(self.median()), millis(self.worst()));
        let verdict = if self.worst() < self.worst_max { "within" } else { "NOT within" };
        format!(
            "dump of a full ring under load on {}, {} times, {} or more: median {median:.2} ms, \
             worst {worst:.2} ms; {verdict} {} ms",
            self.name,
            self.all.len(),
            seawall_measure::human::bytes(to_u64(self.least())),
            self.worst_max.as_millis()
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "device": self.name,
            "count": self.all.len(),
            "least_bytes": self.least(),
            "median_ms": millis(self.median()),
            "worst_ms": millis(self.worst()),
            "all_ms": self.all.iter().map(|dump| millis(dump.took)).collect::<Vec<_>>(),
            "within": self.worst() < self.worst_max,
        })
    }
}

/// Lets writers fill the ring, then declares an emergency while they continue.
fn dump_under_load(files: &Files, writers: u16) -> io::Result<Emergency> {
    let disk = open(files)?;
    let clock = SystemClock::new();
    let Options { buffers, buffer_size, .. } = options();
    thread::scope(|scope| {
        for number in 0..u64::from(writers) {
            let (disk, share) = (&disk, SIZE / u64::from(writers) / to_u64(WRITE));
            // Like a log, each thread writes sequentially in its own region until the power fails.
            scope.spawn(move || {
                let first = number * share * to_u64(WRITE);
                let places = (0..share).cycle().map(|at| first + at * to_u64(WRITE));
                let mut done = places.map(|at| disk.write(at, &[0x5a; WRITE]));
                done.find(Result::is_err)
            });
        }
        while disk.status().dirty < buffers * buffer_size / 16 * FULL && clock.now() < PATIENCE {
            clock.sleep(LOOK_EVERY);
        }
        disk.emergency()
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
