//! Runs the source of the virtual disk under many schedules: writers, flushes, a reader, the
//! drainer and an emergency. The guarantees must hold, and no task may wait forever: a lost wake-up
//! shows as a deadlock, a spinning task as too many steps.
//!
//! `SEAWALL_SCHEDULES` sets the total number of schedules, `SEAWALL_SEED` their seed. A failing
//! schedule is printed; `SEAWALL_REPLAY` runs it again: docs/design.md.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

extern crate seawall_disk_scheduled as seawall_disk;

use scheduler::shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use scheduler::shuttle::{Runner, thread};
use scheduler::{switch, time};
use seawall_disk::{Disk, Files, Options, Supply};
use seawall_io::{Access, Storage};
use seawall_testkit::FaultDisk;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: u64 = 64 * 1024;
const BLOCK: u64 = 4096;
/// The total number of schedules for all scenarios, unless `SEAWALL_SCHEDULES` is set.
const SCHEDULES: u64 = 4_000;
/// The bug depth of PCT, which limits how often a schedule changes priorities.
const DEPTH: usize = 3;
/// The maximum number of steps. The longest schedule has a few thousand.
const STEPS_MAX: usize = 100_000;

/// Generates a test for each scenario.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        const SCENARIOS: u64 = [$(stringify!($name)),*].len() as u64;
        mod tried {
            $(
                #[test]
                fn $name() {
                    super::run(super::$name);
                }
            )*
        }
    };
}

scenarios! {
    flushes_of_a_disarmed_disk_wait_for_the_device,
    an_emergency_keeps_what_was_acknowledged,
    two_emergencies_at_once_dump_once,
    a_reader_sees_what_was_written_before,
    a_disarmed_disk_owes_nothing_once_it_is_drained,
}

const SMALL: Options = Options {
    buffers: 3,
    buffer_size: 8192,
    supply: Supply {
        hold_up: Duration::from_secs(1_000_000),
        detection: Duration::ZERO,
        is_healthy: true,
    },
};

/// Runs a scenario under its share of the schedules, half of them random and half by PCT.
fn run(scenario: fn()) {
    if let Ok(schedule) = env::var("SEAWALL_REPLAY") {
        return runner(ReplayScheduler::new_from_encoded(&schedule), scenario);
    }
    let number = |name, other| env::var(name).map_or(other, |text| text.parse().unwrap());
    let half = number("SEAWALL_SCHEDULES", SCHEDULES).div_ceil(2 * SCENARIOS);
    let (seed, half) = (number("SEAWALL_SEED", 1), usize::try_from(half).unwrap());
    runner(RandomScheduler::new_from_seed(seed, half), scenario);
    runner(PctScheduler::new_from_seed(seed, DEPTH, half), scenario);
}

fn runner<S: Scheduler + 'static>(scheduler: S, scenario: fn()) {
    let mut config = scheduler::config();
    config.max_steps = scheduler::shuttle::MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config).run(scenario);
}

/// Creates a device with a disk that was never opened.
fn made() -> MemStorage {
    let device = MemStorage::new();
    let home = device.create("home").unwrap();
    home.fill_with_zeros(SIZE).unwrap();
    home.sync().unwrap();
    let area = device.create("area").unwrap();
    Files { home, area }.prepare(7, &SMALL).unwrap();
    device.sync_dir().unwrap();
    device
}

fn open(device: &MemStorage) -> Arc<Disk> {
    let slow = FaultDisk::paced(device.clone(), 4096, |_| switch());
    let open = |name| slow.open(name, Access::ReadWrite).unwrap();
    let files = Files { home: open("home"), area: open("area") };
    Arc::new(Disk::open(files, &SMALL, Arc::new(time::Clock)).unwrap().0)
}

fn open_armed(device: &MemStorage) -> Arc<Disk> {
    time::flow();
    let disk = open(device);
    disk.calibrate().unwrap();
    disk.status().armed.unwrap();
    disk
}

fn open_disarmed(device: &MemStorage) -> Arc<Disk> {
    time::flow();
    let disk = open(device);
    disk.disarm();
    disk
}

fn write(disk: &Disk, block: u64, version: u64) -> bool {
    disk.write(block * BLOCK, &version.to_le_bytes().repeat(512)).is_ok()
}

fn read(disk: &Disk, block: u64) -> u64 {
    let mut bytes = [0; 4096];
    disk.read(block * BLOCK, &mut bytes).unwrap();
    version(&bytes)
}

/// Returns the version of a block, and asserts that all of its parts have the same one.
fn version(bytes: &[u8]) -> u64 {
    let parts: Vec<u64> =
        bytes.chunks(8).map(|part| u64::from_le_bytes(part.try_into().unwrap())).collect();
    assert!(parts.iter().all(|part| *part == parts[0]), "a block is of one version");
    parts[0]
}

/// Returns the version of a block after a power cut now that loses everything unsynced.
fn durable(device: &MemStorage, block: u64) -> u64 {
    let from = usize::try_from(block * BLOCK).unwrap();
    version(&device.power_cut(|_| false).bytes("home").unwrap()[from..from + 4096])
}

/// The lowest version that each block may have. The lock is std's, which is no scheduling point: no
/// other task runs while it is held.
type Promised = Arc<Mutex<BTreeMap<u64, u64>>>;

/// Writes versions of two blocks, one next to the other writer's and one far from it, and flushes.
fn work(disk: &Disk, number: u64, promised: &Promised) {
    for version in 1..=3 {
        for block in [number, 4 + number * 3] {
            if !write(disk, block, version) {
                return;
            }
        }
        if disk.flush().is_err() {
            return;
        }
        let mut promised = promised.lock().unwrap();
        promised.insert(number, version);
        promised.insert(4 + number * 3, version);
    }
}

fn flushes_of_a_disarmed_disk_wait_for_the_device() {
    let device = made();
    let disk = open_disarmed(&device);
    let tasks = [0, 1].map(|number| {
        let (disk, device) = (disk.clone(), device.clone());
        thread::spawn(move || {
            for version in 1..=3 {
                assert!(write(&disk, number, version));
                disk.flush().unwrap();
                assert_eq!(durable(&device, number), version);
            }
        })
    });
    for task in tasks {
        task.join().unwrap();
    }
}

fn an_emergency_keeps_what_was_acknowledged() {
    let device = made();
    let disk = open_armed(&device);
    let promised = Promised::default();
    let tasks = [0, 1].map(|number| {
        let (disk, promised) = (disk.clone(), promised.clone());
        thread::spawn(move || work(&disk, number, &promised))
    });
    switch();
    disk.emergency().unwrap();
    // No other task runs between these two calls.
    let (kept, left) = (promised.lock().unwrap().clone(), device.power_cut(|_| false));
    for task in tasks {
        task.join().unwrap();
    }
    drop(disk);
    let after = open(&left);
    for (block, version) in kept {
        assert!(read(&after, block) >= version, "block {block}");
    }
}

fn two_emergencies_at_once_dump_once() {
    let device = made();
    let disk = open_armed(&device);
    assert!(write(&disk, 3, 9));
    disk.flush().unwrap();
    let its = disk.clone();
    let other = thread::spawn(move || its.emergency().unwrap());
    let one = disk.emergency().unwrap();
    assert_eq!(other.join().unwrap(), one);
    drop(disk);
    assert_eq!(read(&open(&device.power_cut(|_| false)), 3), 9);
}

fn a_reader_sees_what_was_written_before() {
    let device = made();
    let disk = open_armed(&device);
    let newest = Arc::new(AtomicU64::new(0));
    let writer = {
        let (disk, newest) = (disk.clone(), newest.clone());
        thread::spawn(move || {
            for version in 1..=4 {
                assert!(write(&disk, 2, version));
                newest.store(version, Ordering::SeqCst);
                if version % 2 == 0 {
                    disk.drain().unwrap();
                }
            }
        })
    };
    for _ in 0..4 {
        let before = newest.load(Ordering::SeqCst);
        assert!(read(&disk, 2) >= before);
    }
    writer.join().unwrap();
}

fn a_disarmed_disk_owes_nothing_once_it_is_drained() {
    let device = made();
    let disk = open_armed(&device);
    let promised = Promised::default();
    let task = {
        let (disk, promised) = (disk.clone(), promised.clone());
        thread::spawn(move || work(&disk, 0, &promised))
    };
    switch();
    disk.disarm();
    disk.drain().unwrap();
    let kept = promised.lock().unwrap().clone();
    for (block, version) in kept {
        assert!(durable(&device, block) >= version, "block {block}");
    }
    task.join().unwrap();
}
