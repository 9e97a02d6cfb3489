//! Power cuts under a workload: announced, unannounced, and unannounced while flushes are
//! acknowledged early. The last is the control: it must lose data.
//!
//! `SEAWALL_DISK_CUTS=N cargo test --release -p seawall-disk --test all cuts` makes N cuts of each
//! kind.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common::{Call, failing, guarded, slow};
use seawall_disk::{BUFFERS_MAX, Disarmed, Disk, Files, Inspected, Options, Supply, inspect};
use seawall_io::{Access, Clock, ManualClock, Storage, SystemClock};
use seawall_testkit::Dice;
use seawall_testkit::MemStorage;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const SIZE: u64 = 1 << 20;
const SECTOR: u64 = 512;

const SMALL: Options = Options {
    buffers: 4,
    buffer_size: 16 * 1024,
    supply: Supply {
        hold_up: Duration::from_secs(100),
        detection: Duration::ZERO,
        is_healthy: true,
    },
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

fn made() -> MemStorage {
    crate::common::made(SIZE, &SMALL)
}

fn files(device: &MemStorage) -> Files {
    let open = |name| device.open(name, Access::ReadWrite).unwrap();
    Files { home: slow(open("home"), Duration::from_millis(3)), area: open("area") }
}

/// The minimum version of each sector that was acknowledged as flushed.
type Promised = Arc<Mutex<BTreeMap<u64, u64>>>;

/// Writes increasing versions to a few sectors, and flushes now and then.
fn work(disk: &Disk, (writer, seed): (u64, u64), promised: &Promised, stop: &AtomicBool) {
    let mut dice = Dice::new(seed * 100 + writer);
    let mut unflushed = BTreeMap::new();
    for version in 1.. {
        // Each writer has its own sectors; some are adjacent, some far apart.
        let sector = writer * 100 + if dice.one_in(3) { dice.below(90) } else { version % 20 };
        let bytes: Vec<u8> = version.to_le_bytes().repeat(64);
        if disk.write(sector * SECTOR, &bytes).is_err() || stop.load(Ordering::Relaxed) {
            return;
        }
        unflushed.insert(sector, version);
        if dice.one_in(4) {
            if disk.flush().is_err() {
                return;
            }
            promised.lock().unwrap().append(&mut unflushed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Warned,
    WarnedTooLate,
    DisarmedAndUnwarned,
}

/// Returns the number of sectors that hold less than was acknowledged before the power cut.
fn lost(cut: Cut, seed: u64) -> usize {
    let device = made();
    let (disk, recovered) = Disk::open(files(&device), &SMALL, clock()).unwrap();
    assert_eq!(recovered, None);
    if cut != Cut::DisarmedAndUnwarned {
        disk.calibrate().unwrap();
        disk.status().armed.unwrap();
    }
    let (promised, stop) = (Promised::default(), AtomicBool::new(false));
    let mut dice = Dice::new(seed);
    let left = thread::scope(|scope| {
        for writer in 0..3 {
            let (disk, promised, stop) = (&disk, &promised, &stop);
            scope.spawn(move || work(disk, (writer, seed), promised, stop));
        }
        // A cut before the first acknowledgement tests nothing, and a busy machine can be that
        // slow.
        wait_until(|| promised.lock().unwrap().len() >= 10);
        SystemClock::new().sleep(Duration::from_micros(2000 + dice.below(10_000)));
        if cut == Cut::Warned {
            disk.emergency().unwrap();
        }
        // Everything acknowledged up to here must survive.
        let promised = promised.lock().unwrap().clone();
        let left = device.power_cut(|_| dice.one_in(2));
        stop.store(true, Ordering::Relaxed);
        (left, promised)
    });
    drop(disk);
    let (left, promised) = left;
    let (disk, _) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    let is_lost = |(sector, version): (&u64, &u64)| {
        let mut bytes = [0; 512];
        disk.read(sector * SECTOR, &mut bytes).unwrap();
        let found: Vec<u64> =
            bytes.chunks(8).map(|part| u64::from_le_bytes(part.try_into().unwrap())).collect();
        let is_whole = found.iter().all(|part| part == &found[0]);
        assert!(is_whole, "sector {sector}");
        found[0] < *version
    };
    promised.iter().filter(|entry| is_lost(*entry)).count()
}

/// The number of cuts of each kind.
fn cuts() -> u64 {
    std::env::var("SEAWALL_DISK_CUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

#[test]
fn announced_power_cut_loses_nothing() {
    for seed in 0..cuts() {
        assert_eq!(lost(Cut::Warned, seed), 0, "seed {seed}");
    }
}

#[test]
fn unarmed_disk_loses_nothing_without_a_warning() {
    for seed in 0..cuts() {
        assert_eq!(lost(Cut::DisarmedAndUnwarned, seed), 0, "seed {seed}");
    }
}

#[test]
fn armed_disk_loses_data_without_a_warning() {
    // How many cuts lose data depends on scheduling: the drainer may have written everything
    // acknowledged.
    let lost = (0..200).filter(|seed| lost(Cut::WarnedTooLate, *seed) > 0).take(11).count();
    assert_eq!(lost, 11, "of 200");
}

#[test]
fn dump_is_restored_once() {
    let device = made();
    let (disk, _) = Disk::open(files(&device), &SMALL, clock()).unwrap();
    disk.calibrate().unwrap();
    disk.write(100, &[7; 1000]).unwrap();
    let emergency = disk.emergency().unwrap();
    assert_eq!(emergency.bytes, 1536);
    let steps = device.steps();
    assert_eq!(disk.emergency().unwrap(), emergency);
    assert_eq!(device.steps(), steps, "a second dump is not written over the first");
    disk.write(0, &[1]).unwrap_err();
    disk.flush().unwrap_err();
    disk.calibrate().unwrap_err();
    assert_eq!(disk.status().dirty_max, 1000);
    let left = device.power_cut(|_| false);
    let has_dump = || inspect(&*files(&left).area).unwrap().map(|found| found.dump.is_some());
    assert_eq!(has_dump(), Some(true));
    let (disk, recovered) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    assert_eq!(has_dump(), Some(false));
    assert_eq!(recovered.map(|found| (found.generation, found.runs, found.lost)), Some((1, 1, 0)));
    let mut read = [0; 1002];
    disk.read(99, &mut read).unwrap();
    assert_eq!((read[0], read[1], read[1000], read[1001]), (0, 7, 7, 0));
    disk.write(100, &[8; 10]).unwrap();
    disk.close().unwrap();
    let (disk, recovered) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    assert_eq!(recovered, None);
    disk.read(99, &mut read).unwrap();
    assert_eq!((read[1], read[11]), (8, 7));
}

/// The process is killed at each step of a start that restores a dump. The next start serves newer
/// data, and then the power fails: the old dump must not be restored over it.
#[test]
fn start_that_was_killed_never_restores_a_dump_over_newer_data() {
    let dumped = || {
        let device = made();
        let (disk, _) = Disk::open(files(&device), &SMALL, clock()).unwrap();
        disk.write(4096, &[7; 4096]).unwrap();
        disk.emergency().unwrap();
        device.power_cut(|_| false)
    };
    for steps in 0.. {
        let device = dumped();
        let opened = files(&device);
        device.stop_after(device.steps() + steps);
        let is_done = Disk::open(opened, &SMALL, clock()).is_ok();
        let killed = device.kill();
        let (disk, _) = Disk::open(files(&killed), &SMALL, clock()).unwrap();
        disk.write(4096, &[8; 4096]).unwrap();
        disk.flush().unwrap();
        let left = killed.power_cut(|_| false);
        let (disk, _) = Disk::open(files(&left), &SMALL, clock()).unwrap();
        let mut read = [0; 4096];
        disk.read(4096, &mut read).unwrap();
        assert_eq!(read[0], 8, "killed after {steps} steps");
        if is_done {
            assert!(steps > 3, "{steps}");
            return;
        }
    }
}

/// After a flush, bytes that a killed process had written but not synced are durable.
#[test]
fn flush_after_a_start_covers_what_a_killed_process_has_written() {
    let device = made();
    device.open("home", Access::ReadWrite).unwrap().write_at(&[7; 4096], 0).unwrap();
    let killed = device.kill();
    let (disk, _) = Disk::open(files(&killed), &SMALL, clock()).unwrap();
    disk.flush().unwrap();
    let mut read = [0; 4096];
    disk.read(0, &mut read).unwrap();
    let left = killed.power_cut(|_| false);
    let (disk, _) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    let mut again = [0; 4096];
    disk.read(0, &mut again).unwrap();
    assert!(read == again, "{} became {}", read[0], again[0]);
}

/// Counts of the calls to an image that lets only `passes` writes through.
#[derive(Debug, Default)]
struct Counts {
    passes: AtomicUsize,
    writes: AtomicUsize,
    syncs: AtomicUsize,
}

impl Counts {
    fn count(&self, call: Call) {
        if call == Call::Sync {
            self.syncs.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        wait_until(|| number < self.passes.load(Ordering::SeqCst));
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

#[test]
fn no_flush_of_the_image_begins_after_a_power_failure() {
    let device = made();
    let Files { home, area } = files(&device);
    let counts = Arc::new(Counts::default());
    let own = counts.clone();
    let gated = Files { home: guarded(home, move |call| own.count(call)), area };
    let (disk, _) = Disk::open(gated, &SMALL, clock()).unwrap();
    let write = |place: u64| disk.write(place * 100_000, &[7; 8192]).unwrap();
    write(0);
    wait_until(|| counts.writes.load(Ordering::SeqCst) == 1);
    // These are written together, once the first write has completed.
    (1..4).for_each(write);
    counts.passes.store(1, Ordering::SeqCst);
    wait_until(|| counts.writes.load(Ordering::SeqCst) == 2);
    thread::scope(|scope| {
        let emergency = scope.spawn(|| disk.emergency());
        wait_until(|| disk.status().armed == Err(Disarmed::Emergency));
        counts.passes.store(usize::MAX, Ordering::SeqCst);
        emergency.join().unwrap().unwrap();
    });
    // Closing fails, because the dumped data is not in the image.
    disk.close().unwrap_err();
    // One sync when the disk was opened, and one after the first run.
    assert_eq!((counts.writes.load(Ordering::SeqCst), counts.syncs.load(Ordering::SeqCst)), (2, 2));
    let left = device.power_cut(|_| false);
    let (disk, _) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    let mut read = [0; 8192];
    for place in 0..4 {
        disk.read(place * 100_000, &mut read).unwrap();
        assert_eq!(read, [7; 8192], "{place}");
    }
}

/// A bad sector in the dump area ends each dump after its first bytes, and the power lasts.
#[test]
fn data_that_cannot_be_dumped_is_written_to_the_image() {
    let device = made();
    let Files { home, area } = files(&device);
    let (counts, is_broken) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
    let own = counts.clone();
    let home = guarded(home, move |call| own.count(call));
    let broken = Files { home, area: failing(area, is_broken.clone()) };
    let (disk, _) = Disk::open(broken, &SMALL, clock()).unwrap();
    disk.calibrate().unwrap();
    disk.write(4096, &[1; 4096]).unwrap();
    wait_until(|| counts.writes.load(Ordering::SeqCst) == 1);
    // The older bytes are on their way: these begin another run, which a dump has after theirs.
    disk.write(4096, &[2; 4096]).unwrap();
    disk.flush().unwrap();
    assert_eq!((disk.status().dirty, disk.status().is_owing), (8192, true));
    is_broken.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        disk.emergency().unwrap_err();
    }
    disk.write(0, &[3; 1]).unwrap_err();
    counts.passes.store(usize::MAX, Ordering::SeqCst);
    disk.drain().unwrap();
    assert_eq!((disk.status().dirty, disk.status().is_owing), (0, false));
    let mut read = [0; 4096];
    // Without power from here on, the torn dump may be all that the next start finds of them.
    let found = inspect(&*files(&device).area).unwrap().unwrap().dump.unwrap();
    assert_eq!((found.extents.len(), found.lost), (1, 1));
    // The label fits into what the area still stores: the older bytes are not restored.
    disk.emergency().unwrap_err();
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(disk.emergency().unwrap().bytes, 0);
    disk.write(0, &[3; 1]).unwrap_err();
    disk.drain().unwrap();
    drop(disk);
    let left = device.power_cut(|_| false);
    let (disk, recovered) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    assert_eq!(recovered, None);
    disk.read(4096, &mut read).unwrap();
    assert_eq!(read, [2; 4096]);
}

/// A clock whose time the test sets.
#[derive(Debug, Default)]
struct Hands(Mutex<Duration>);

impl Clock for Hands {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {}
}

#[test]
fn data_beyond_a_reduced_budget_is_reported_and_written_first() {
    let device = made();
    let Files { home, area } = files(&device);
    let counts = Arc::new(Counts::default());
    let own = counts.clone();
    let gated = Files { home: guarded(home, move |call| own.count(call)), area };
    let hands = Arc::new(Hands::default());
    let (disk, _) = Disk::open(gated, &SMALL, hands.clone()).unwrap();
    disk.calibrate().unwrap();
    disk.flush().unwrap();
    disk.write(0, &[7; 8192]).unwrap();
    // Until this time the disk waits for the run to grow.
    *hands.0.lock().unwrap() = Duration::from_millis(10);
    wait_until(|| counts.writes.load(Ordering::SeqCst) == 1);
    disk.write(100_000, &[7; 100]).unwrap();
    disk.flush().unwrap();
    let armed = disk.status();
    // The write in flight takes so long that the hold-up time does not suffice for another one.
    *hands.0.lock().unwrap() = Duration::from_secs(60);
    let late = disk.status();
    let beside = thread::scope(|scope| {
        let writer = scope.spawn(|| disk.write(200_000, &[8; 100]));
        SystemClock::new().sleep(Duration::from_millis(50));
        let beside = disk.status();
        counts.passes.store(usize::MAX, Ordering::SeqCst);
        writer.join().unwrap().unwrap();
        beside
    });
    let flushes = (armed.counts.flushes_idle, armed.counts.flushes_early);
    assert_eq!((flushes, armed.dirty, armed.uncovered), ((1, 1), 8292, 0));
    assert_eq!((late.armed, late.uncovered), (Err(Disarmed::HoldUp), 8292));
    assert!(armed.is_owing && late.is_owing);
    assert_eq!(beside.dirty, 8292, "nothing is added to it");
    let status = disk.status();
    assert_eq!((status.dirty, status.uncovered, status.counts.deferred), (100, 0, 1));
    let mut read = [0; 100];
    assert_eq!(files(&device).home.read_at(&mut read, 100_000).unwrap(), 100);
    assert_eq!(read, [7; 100]);
}

/// The device hangs with acknowledged bytes when a measurement begins, or after a disarm.
#[test]
fn data_of_a_device_that_hangs_is_reported_whatever_disarms() {
    for is_measured in [true, false] {
        let device = made();
        let Files { home, area } = files(&device);
        let counts = Arc::new(Counts::default());
        let own = counts.clone();
        let gated = Files { home: guarded(home, move |call| own.count(call)), area };
        let hands = Arc::new(Hands::default());
        let (disk, _) = Disk::open(gated, &SMALL, hands.clone()).unwrap();
        disk.calibrate().unwrap();
        disk.write(0, &[7; 100]).unwrap();
        disk.flush().unwrap();
        thread::scope(|scope| {
            let act = scope.spawn(|| {
                if is_measured {
                    return disk.calibrate().map(drop);
                }
                disk.disarm();
                disk.drain()
            });
            wait_until(|| counts.writes.load(Ordering::SeqCst) == 1);
            let begun = disk.status();
            *hands.0.lock().unwrap() = Duration::from_secs(60);
            let late = disk.status();
            counts.passes.store(usize::MAX, Ordering::SeqCst);
            act.join().unwrap().unwrap();
            let why = if is_measured { Disarmed::NeverCalibrated } else { Disarmed::ByHand };
            assert_eq!((begun.armed, begun.dirty, begun.uncovered), (Err(why), 100, 0));
            assert_eq!((late.is_owing, late.uncovered), (true, 100), "{why}");
        });
        assert_eq!(disk.status().uncovered, 0);
    }
}

/// During a measurement, another disk on the device may have to write its dump.
#[test]
fn measurement_keeps_a_slow_device_busy_for_half_of_the_hold_up_at_most() {
    let supply = Supply { hold_up: Duration::from_millis(10), ..SMALL.supply };
    let options = Options { buffers: 6, buffer_size: 512 * 1024, supply };
    let longest = |bytes_per_us: usize| {
        let device = crate::common::made(SIZE, &options);
        let clock = Arc::new(ManualClock::new());
        let (own, longest) = (clock.clone(), Arc::new(AtomicUsize::new(0)));
        let seen = longest.clone();
        let Files { home, area } = files(&device);
        let area = guarded(area, move |call| {
            if let Call::Write(bytes) = call {
                seen.fetch_max(bytes, Ordering::SeqCst);
                own.advance(Duration::from_micros((bytes / bytes_per_us) as u64));
            }
        });
        let (disk, _) = Disk::open(Files { home, area }, &options, clock).unwrap();
        disk.calibrate().unwrap();
        let all = device.bytes("area").unwrap().len() - 4096;
        (longest.load(Ordering::SeqCst), all)
    };
    let (fast, all) = longest(1000);
    assert_eq!(fast, all);
    assert_eq!([100, 10].map(longest).map(|(bytes, _)| bytes), [256 * 1024, 64 * 1024]);
}

/// A disk whose area takes 100 bytes in a microsecond, and the budget that this gives.
fn with_a_small_budget(buffers: usize) -> (Disk, u64) {
    let supply = Supply { hold_up: Duration::from_micros(480), ..SMALL.supply };
    let options = Options { buffers, buffer_size: 16 * 1024, supply };
    let device = crate::common::made(SIZE, &options);
    let clock = Arc::new(ManualClock::new());
    let (own, Files { home, area }) = (clock.clone(), files(&device));
    let area = guarded(area, move |call| {
        if let Call::Write(bytes) = call {
            own.advance(Duration::from_micros((bytes / 100) as u64));
        }
    });
    let (disk, _) = Disk::open(Files { home, area }, &options, clock).unwrap();
    disk.calibrate().unwrap();
    let capacity = disk.status().armed.unwrap();
    (disk, capacity)
}

/// In a dump, each run has a header and fills whole sectors.
#[test]
fn dump_of_many_small_runs_is_within_the_budget() {
    for runs in [1, 20, 38, 60] {
        let (disk, capacity) = with_a_small_budget(64);
        assert!((20_000..20_100).contains(&capacity), "{capacity}");
        for run in 0..runs {
            disk.write(run * 10_000, &[7; 10]).unwrap();
            disk.flush().unwrap();
        }
        assert!(disk.status().counts.flushes_early >= runs.min(30));
        let dumped = disk.emergency().unwrap().bytes;
        assert!(dumped as u64 <= capacity, "{runs} runs: {dumped} bytes");
    }
}

/// What was acknowledged early stays within the budget until the budget shrinks.
#[test]
fn write_that_just_fits_into_the_budget_leaves_nothing_uncovered() {
    let (disk, capacity) = with_a_small_budget(80);
    // With its header, each run takes up to 577 bytes of a dump.
    let runs = capacity / 577;
    disk.write(0, &[7; 10]).unwrap();
    disk.flush().unwrap();
    for run in 1..runs {
        disk.write(run * 10_000, &[7; 10]).unwrap();
    }
    let status = disk.status();
    assert_eq!((status.is_owing, status.counts.deferred, status.uncovered), (true, 0, 0));
    assert_eq!(status.dirty as u64, runs * 10);
    disk.flush().unwrap();
    assert_eq!(disk.status().counts.flushes_early, 2);
}

/// A device that compresses, or stores equal blocks once, would be measured as too fast.
#[test]
fn measurement_writes_bytes_that_no_device_can_compress() {
    let device = made();
    let (disk, _) = Disk::open(files(&device), &SMALL, clock()).unwrap();
    disk.calibrate().unwrap();
    let area = device.bytes("area").unwrap();
    let words: BTreeSet<&[u8]> = area[4096..].chunks(8).collect();
    assert!(words.len() > area.len() / 8 * 9 / 10, "{} of {}", words.len(), area.len() / 8);
    disk.calibrate().unwrap();
    let again = device.bytes("area").unwrap();
    let same = area.chunks(4096).zip(again.chunks(4096)).skip(1).filter(|(one, two)| one == two);
    assert_eq!(same.count(), 0, "blocks that the device has");
}

#[test]
fn data_beyond_the_budget_is_written_without_delay() {
    let device = made();
    let hands = Arc::new(Hands::default());
    let (disk, _) = Disk::open(files(&device), &SMALL, hands).unwrap();
    disk.calibrate().unwrap();
    // Less than a block is held back for a second of this clock, which never passes.
    disk.write(0, &[7; 100]).unwrap();
    disk.flush().unwrap();
    assert_eq!(disk.status().dirty, 100);
    disk.supplied(Supply { is_healthy: false, ..SMALL.supply });
    let clock = SystemClock::new();
    let is_late = || clock.now() > Duration::from_secs(60);
    wait_until(|| disk.status().dirty == 0 || is_late());
    assert_eq!((disk.status().dirty, disk.status().uncovered), (0, 0));
    assert!(!disk.status().is_owing);
}

/// The monitor of the power source hangs after a good answer.
#[test]
fn acknowledged_data_is_written_when_the_state_of_the_power_source_is_old() {
    let device = made();
    let hands = Arc::new(ManualClock::new());
    let (disk, _) = Disk::open(files(&device), &SMALL, hands.clone()).unwrap();
    disk.calibrate().unwrap();
    disk.supplied_for(SMALL.supply, Duration::from_millis(700));
    disk.write(0, &[7; 100]).unwrap();
    disk.flush().unwrap();
    assert_eq!((disk.status().dirty, disk.status().is_owing), (100, true));
    hands.advance(Duration::from_millis(700));
    assert_eq!(disk.status().armed, Err(Disarmed::PowerSource));
    let clock = SystemClock::new();
    wait_until(|| disk.status().dirty == 0 || clock.now() > Duration::from_secs(60));
    assert_eq!((disk.status().dirty, disk.status().is_owing), (0, false));
}

/// On battery, data that was acknowledged early goes to the device. The power can end meanwhile,
/// and a dump must not have to wait for a longer flush than one while the disk was armed.
#[test]
fn power_source_that_fails_makes_no_flush_longer() {
    let options = Options { buffers: 200, buffer_size: 4096, ..SMALL };
    let device = crate::common::made(SIZE, &options);
    let Files { home, area } = files(&device);
    let counts = Arc::new(Counts { passes: AtomicUsize::new(usize::MAX), ..Counts::default() });
    let (own, longest) = (counts.clone(), Arc::new(AtomicUsize::new(0)));
    let its = longest.clone();
    let home = guarded(home, move |call| {
        own.count(call);
        if call == Call::Sync {
            its.fetch_max(own.writes.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        }
    });
    let gated = Files { home, area };
    let (disk, _) = Disk::open(gated, &options, Arc::new(ManualClock::new())).unwrap();
    disk.calibrate().unwrap();
    (0..64).for_each(|run| disk.write(run * 8192, &[7; 100]).unwrap());
    disk.flush().unwrap();
    assert_eq!((disk.status().dirty, disk.status().counts.flushes_early), (6400, 1));
    disk.supplied(Supply { is_healthy: false, ..SMALL.supply });
    disk.drain().unwrap();
    let longest = longest.load(Ordering::SeqCst);
    assert!((1..64).contains(&longest), "a flush of {longest} runs");
}

#[test]
fn failing_device_disarms_and_keeps_the_bytes() {
    let device = made();
    let (disk, _) = Disk::open(files(&device), &SMALL, clock()).unwrap();
    disk.calibrate().unwrap();
    device.fail_sync(0, |_| false);
    disk.write(0, &[7; 8192]).unwrap();
    disk.drain().unwrap();
    let status = disk.status();
    assert_eq!((status.counts.failures, status.is_read_only, status.failure), (1, false, None));
    assert_eq!(status.armed, Err(Disarmed::NeverCalibrated));
    let left = device.power_cut(|_| false);
    let (disk, _) = Disk::open(files(&left), &SMALL, clock()).unwrap();
    let mut read = [0; 8192];
    disk.read(0, &mut read).unwrap();
    assert_eq!(read, [7; 8192]);
}

#[test]
fn device_that_fails_for_good_makes_the_disk_read_only() {
    let device = made();
    let (disk, _) = Disk::open(files(&device), &SMALL, clock()).unwrap();
    for nth in 0..100 {
        device.fail_sync(nth, |_| false);
    }
    disk.write(0, &[7; 8192]).unwrap();
    let error = disk.flush().unwrap_err();
    assert!(error.to_string().starts_with("the device failed 5 times in a row"), "{error}");
    disk.write(0, &[8; 1]).unwrap_err();
    let mut read = [0; 8192];
    disk.read(0, &mut read).unwrap();
    assert_eq!(read, [7; 8192]);
    assert!(disk.status().is_read_only);
}

#[test]
fn dump_area_of_another_disk_is_refused() {
    let device = made();
    let home = device.create("other").unwrap();
    home.fill_with_zeros(SIZE / 2).unwrap();
    let wrong = Files { home, ..files(&device) };
    let error = Disk::open(wrong, &SMALL, clock()).unwrap_err();
    assert_eq!(error.to_string(), "the area is that of a disk of 1048576 bytes, not 524288");
    let larger = Options { buffers: 5, ..SMALL };
    Disk::open(files(&device), &larger, clock()).unwrap_err();
}

/// The memory of such a ring could not be read back after a kill.
#[test]
fn ring_without_a_layout_in_memory_is_refused() {
    let device = made();
    for (buffers, buffer_size) in [(0, 4096), (BUFFERS_MAX + 1, 4096), (1, 0), (1, 4095)] {
        let options = Options { buffers, buffer_size, ..SMALL };
        files(&device).prepare(7, &options).unwrap();
        let error = Disk::open(files(&device), &options, clock()).unwrap_err();
        let why = format!("no ring has {buffers} buffers of {buffer_size} bytes");
        assert_eq!((error.kind(), error.to_string()), (io::ErrorKind::InvalidData, why));
    }
    let largest = Options { buffers: BUFFERS_MAX, buffer_size: 4096, ..SMALL };
    files(&device).prepare(7, &largest).unwrap();
    Disk::open(files(&device), &largest, clock()).unwrap();
}

#[test]
fn dump_area_can_be_inspected_and_recreated_in_place() {
    let device = made();
    let files = files(&device);
    let Inspected { label, dump } = inspect(&*files.area).unwrap().unwrap();
    assert_eq!((label.disk, label.home_size, dump), (7, SIZE, None));
    let (disk, _) = Disk::open(files.clone(), &SMALL, clock()).unwrap();
    disk.write(100, &[7; 1000]).unwrap();
    let began = clock().wall_us();
    disk.emergency().unwrap();
    drop(disk);
    let dump = || inspect(&*files.area).unwrap().unwrap().dump;
    assert!(dump().unwrap().time_us.unwrap() >= began && dump().unwrap().extents.len() == 1);
    // Recreating the area removes the dump, even for the same disk id, and keeps the size of a
    // device.
    let before = files.area.len().unwrap();
    files.prepare(7, &Options { buffers: 1, ..SMALL }).unwrap();
    assert_eq!(dump(), None);
    assert_eq!(files.area.len().unwrap(), before);
    assert_eq!(files.recover(&mut || Ok(())).unwrap(), None);
    files.area.write_at(&[0; 4096], 0).unwrap();
    assert_eq!(inspect(&*files.area).unwrap(), None);
    // A label that claims a larger area than there is.
    let wide = seawall_disk::Label { area_size: u64::MAX, ..label };
    files.area.write_at(&wide.encode(), 0).unwrap();
    assert_eq!(dump(), None);
    files.area.write_at(b"else", 0).unwrap();
    assert_eq!(inspect(&*files.area).unwrap_err().kind(), io::ErrorKind::InvalidData);
}
