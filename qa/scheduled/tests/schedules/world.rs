//! A small log on a slow device, and a witness that knows which records were acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use scheduler::shuttle::rand::{Rng, thread_rng};
use scheduler::shuttle::thread::{JoinHandle, spawn};
use scheduler::time;
use seawall::encryption::Key;
use seawall::format::Geometry;
use seawall::parity::Parity;
use seawall::{Compression, Level, Log, Lsn, Options, Raw, Result};
use seawall_io::SeededEntropy;
use seawall_testkit::MemStorage;

use crate::disk::Disk;

/// A log of plain bytes.
pub(crate) type Bytes = Log<[u8], Raw>;

const GEOMETRY: Geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
const SEGMENT_MIN: u64 = 7 * 512;
/// The size of a segment: room for a few records, so that logs rotate.
pub(crate) const SEGMENT_MAX: u64 = 14 * 512;

/// Returns a random number below `end`. A replayed schedule returns the same one.
pub(crate) fn below(end: u64) -> u64 {
    thread_rng().gen_range(0..end)
}

/// Returns a random boolean.
pub(crate) fn coin() -> bool {
    below(2) == 0
}

pub(crate) fn lsn(number: u64) -> Lsn {
    Lsn::new(number).expect("LSNs count from 1")
}

/// Options of a small log that writes as a log without settings does.
fn plain() -> Options {
    Options::new()
        .stream_batch(1, 1)
        .geometry(GEOMETRY, SEGMENT_MIN)
        .segment_size(SEGMENT_MAX)
        .idle_mark(None)
        .preallocate(false)
        .env(Arc::new(time::Clock), Arc::new(SeededEntropy::new(below(u64::MAX))))
}

/// Options of a small log without background work: no idle marks, no preallocated files. After its
/// first segment, up to three batches of any size may be in flight. Some logs are encrypted,
/// compressed, or have parity.
pub(crate) fn quiet() -> Options {
    let in_flight = u8::try_from(1 + below(3)).expect("small");
    let mut options = plain().writes_in_flight(in_flight).name_ahead(coin());
    options = options.fill_blocks(coin());
    if below(3) == 0 {
        options = options.compression(Compression::Lz4).encode_sizes(0, 300);
    }
    if below(3) == 0 {
        // One chunk in a batch leaves enough space for records.
        options = options.key(key()).encode_sizes(0, 2000);
    }
    if below(3) == 0 {
        options = options.parity(Parity::new(2, 1));
    }
    options
}

/// The same as `quiet`, but with idle marks, preallocated files and reused files in some runs.
pub(crate) fn any() -> Options {
    let options = quiet().preallocate(coin()).reuse(coin());
    if coin() { options.idle_mark(Some(std::time::Duration::from_millis(100))) } else { options }
}

/// Options to open the log on `device` again.
pub(crate) fn again(device: &MemStorage) -> Options {
    if device.bytes("keys").is_some() { plain().key(key()) } else { plain() }
}

fn key() -> Key {
    Key::new(&[7; 32])
}

pub(crate) fn any_level() -> Level {
    [Level::Buffered, Level::Synced, Level::Confirmed][usize::try_from(below(3)).expect("short")]
}

/// Opens the log on a device that lets other tasks run before every call.
pub(crate) fn open(options: &Options, device: &MemStorage) -> Arc<Bytes> {
    Arc::new(options.open_in(Disk::on(device)).expect("a sound device"))
}

/// Returns a record that differs from those of all other tasks and turns: a few bytes, or most of a
/// batch.
pub(crate) fn record(task: u64, turn: u64) -> Vec<u8> {
    let mut bytes = format!("task {task}, turn {turn}").into_bytes();
    let more = if below(4) == 0 { below(600) } else { below(40) };
    bytes.resize(bytes.len() + usize::try_from(more).expect("short"), b'.');
    bytes
}

/// Runs `act` in `count` tasks, each with its number.
pub(crate) fn tasks<T: Send + 'static>(
    count: u64,
    act: impl Fn(u64) -> T + Send + Sync + 'static,
) -> Vec<JoinHandle<T>> {
    let act = Arc::new(act);
    let start = |number| {
        let act = Arc::clone(&act);
        spawn(move || act(number))
    };
    (0..count).map(start).collect()
}

/// Waits for all tasks.
pub(crate) fn join<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    tasks.into_iter().map(|task| task.join().expect("a panic ends the schedule")).collect()
}

/// The records offered to the log, and those that it acknowledged as durable.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    offered: Mutex<BTreeSet<Vec<u8>>>,
    kept: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Witness {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Notes that the log may contain these bytes from now on.
    pub(crate) fn offer(&self, bytes: &[u8]) {
        assert!(self.offered.lock().unwrap().insert(bytes.to_vec()), "a record is offered once");
    }

    /// Notes that the log reported the record with this LSN as durable.
    pub(crate) fn keep(&self, number: Lsn, bytes: &[u8]) {
        let before = self.kept.lock().unwrap().insert(number.get(), bytes.to_vec());
        assert!(before.is_none(), "{number} was given twice");
    }

    /// Returns the records that the log reported as durable, by LSN.
    pub(crate) fn kept(&self) -> BTreeMap<u64, Vec<u8>> {
        self.kept.lock().unwrap().clone()
    }

    /// Appends a record, and notes it as durable once the log acknowledges it.
    pub(crate) fn append(&self, log: &Bytes, bytes: &[u8]) -> Result<Lsn> {
        self.offer(bytes);
        let number = log.append(bytes)?;
        if log.level() != Level::Buffered {
            assert!(log.durable() >= Some(number), "acknowledged and not durable");
            self.keep(number, bytes);
        }
        Ok(number)
    }

    /// Cuts the power, with any part of the unsynced writes lost, opens the log again and checks
    /// that every acknowledged record is there, none that was not offered, and none twice. Returns
    /// the last LSN.
    pub(crate) fn check(&self, device: &MemStorage) -> u64 {
        let log = cut(device);
        assert_eq!(log.oldest(), Lsn::FIRST);
        self.check_log(&log)
    }

    /// The same as `check`, for a log that prunes: if it did, at least `kept_min` records are left.
    pub(crate) fn check_pruned(&self, device: &MemStorage, kept_min: u64) -> u64 {
        let log = cut(device);
        let (oldest, last) = (log.oldest().get(), self.check_log(&log));
        assert!(oldest == 1 || last + 1 - oldest >= kept_min, "only {oldest} to {last} is left");
        last
    }

    fn check_log(&self, log: &Bytes) -> u64 {
        let oldest = log.oldest();
        let entries = log.read_from(oldest).expect("readable");
        let found: BTreeMap<u64, Vec<u8>> = entries
            .map(|entry| entry.expect("readable"))
            .map(|(number, bytes)| (number.get(), bytes))
            .collect();
        for (number, bytes) in self.kept().split_off(&oldest.get()) {
            assert_eq!(found.get(&number), Some(&bytes), "record {number} was acknowledged");
        }
        let last = log.durable().map_or(0, Lsn::get);
        let first = found.keys().next().copied().unwrap_or(oldest.get());
        assert!(found.keys().copied().eq(first..=last), "{:?}, {last}", found.keys());
        let mut offered = self.offered.lock().unwrap().clone();
        for (number, bytes) in &found {
            assert!(offered.remove(bytes), "record {number}: never appended, or there twice");
        }
        last
    }
}

/// Cuts the power, with any part of the unsynced writes lost, and opens the log again.
fn cut(device: &MemStorage) -> Bytes {
    let after = device.power_cut(|_| coin());
    let log: Bytes = again(&after).open_in(Arc::new(after)).expect("a crash is no damage");
    assert!(log.recovery().damage.is_empty(), "{:?}", log.recovery());
    log
}
