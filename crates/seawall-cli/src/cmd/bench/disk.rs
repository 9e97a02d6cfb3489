//! `seawall bench disk`: what a write and its flush take while the virtual disk is armed, and what
//! the dump of a full ring takes while writers go on.

use super::failure;
use super::tell_conditions;
use crate::args::BenchDisk;
use crate::cmd::disk::{AREA, HOME, start_device};
use crate::human::to_u64;
use crate::human::{number, to_f64};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use hdrhistogram::Histogram;
use seawall_disk::nbd::{Client, Uri};
use seawall_disk::{Disk, Emergency, Files, Options, Supply};
use seawall_io::{Clock, Entropy, PosixStorage, Storage, SystemClock, SystemEntropy};
use seawall_measure::load::Watch;
use seawall_measure::machine::Conditions;
use seawall_measure::pairs::Trouble;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const SCHEMA: &str = "seawall.bench-disk/1";
/// Bytes of the disk: some are written again and again.
const SIZE: u64 = 64 << 20;
/// Bytes of a write.
const WRITE: usize = 8 << 10;
/// What counts as a full ring, in parts of 16: runs begin and end somewhere.
const FULL: usize = 15;
/// How long it may take until the ring is full.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(50);
/// What these figures are to be on the device that they were planned for.
const WRITE_P99_MAX: Duration = Duration::from_micros(20);
const DIR_WORST_MAX: Duration = Duration::from_millis(5);
const DEVICE_WORST_MAX: Duration = Duration::from_millis(20);

/// Measures all of it.
pub(crate) fn run(args: &BenchDisk) -> Result<Exit, Failure> {
    let mut out = Output::new();
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let own = |error| failure(&args.dir, &Trouble::Plain(error));
    let files = in_folder(scratch.path()).map_err(own)?;
    let watch = Watch::start();
    let writes = Writes::time(&files, args).map_err(own)?;
    tell(&mut out, args, &writes.says());
    let name = "the file system";
    let dumps = Dumps::time((name, DIR_WORST_MAX), &files, args).map_err(own)?;
    tell(&mut out, args, &dumps.says());
    // The device is another process: what it takes is not counted as that of others.
    let conditions = Conditions::of([watch.others()]);

    let place = Scratch::new(&std::env::temp_dir(), "seawall-bench-device")?;
    let device = start_device(place.path(), SIZE, (args.delay, 1))?;
    let files = over_nbd(place.path()).map_err(own)?;
    let name = "the simulated device";
    let simulated = Dumps::time((name, DEVICE_WORST_MAX), &files, args).map_err(own)?;
    tell(&mut out, args, &simulated.says());
    drop((files, device));

    if args.look.json {
        let answer = json!({
            "schema": SCHEMA,
            "dir": args.dir.display().to_string(),
            "ranked": conditions.are_good(),
            "others_share": conditions.others().share(),
            "write": writes.as_json(),
            "delay_ms": millis(args.delay),
            "writers": args.writers,
            "emergency": [dumps.as_json(), simulated.as_json()],
        });
        out.line(&answer.to_string());
    }
    tell_conditions(&mut out, args.look, &conditions);
    Ok(out.finish())
}

fn tell(out: &mut Output, args: &BenchDisk, says: &str) {
    if !args.look.json {
        out.lines(&[says]);
    }
}

/// A disk whose budget covers whatever fits in the ring.
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

fn over_nbd(folder: &Path) -> io::Result<Files> {
    let uri = Uri::new(HOME, &folder.join("d"));
    let connect = |name| Client::connect(&uri.with_name(name)).map(Arc::new);
    let files = Files { home: connect(HOME)?, area: connect(AREA)? };
    files.prepare(SystemEntropy.random()?, &options())?;
    Ok(files)
}

/// A disk that is armed.
fn open(files: &Files) -> io::Result<Disk> {
    let (disk, _) = Disk::open(files.clone(), &options(), Arc::new(SystemClock::new()))?;
    disk.calibrate()?;
    match disk.status().armed {
        Ok(_) => Ok(disk),
        Err(why) => Err(io::Error::other(format!("the disk is not armed: {why}"))),
    }
}

/// Writes, each with its flush.
struct Writes {
    nanos: Histogram<u64>,
    rate: u32,
    /// Flushes that waited for the device, and writes that waited for room: none as a rule.
    waited: u64,
}

impl Writes {
    fn time(files: &Files, args: &BenchDisk) -> io::Result<Self> {
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
            // It grows: to saturate it would be to cut off what matters.
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            nanos.record(took).map_err(io::Error::other)?;
            at = (at + to_u64(WRITE)) % SIZE;
            // Who is late is not to catch up at a rate that nobody asked for.
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

/// Emergencies under load, the quickest first.
struct Dumps {
    name: &'static str,
    worst_max: Duration,
    all: Vec<Emergency>,
}

impl Dumps {
    fn time(
        (name, worst_max): (&'static str, Duration),
        files: &Files,
        args: &BenchDisk,
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
            crate::human::bytes(to_u64(self.least())),
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

/// Lets writers fill the ring, and the power fail under them.
fn dump_under_load(files: &Files, writers: u16) -> io::Result<Emergency> {
    let disk = open(files)?;
    let clock = SystemClock::new();
    let Options { buffers, buffer_size, .. } = options();
    thread::scope(|scope| {
        for number in 0..u64::from(writers) {
            let (disk, share) = (&disk, SIZE / u64::from(writers) / to_u64(WRITE));
            // Each writes as a log does, in a part of its own, until the power fails.
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
