//! Shared helpers for the tests of the whole log: records that contain their own number, a tiny log
//! in memory, and functions to write, damage, reopen and read it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "each test uses a part of this, and in a test a panic is the report"
)]

pub(crate) mod counted;
pub(crate) mod frozen;
pub(crate) mod gate;
pub(crate) mod hooked;
pub(crate) mod images;
pub(crate) mod lives;
pub(crate) mod mute;
#[path = "../../../seawall-host/src/programs.rs"]
pub(crate) mod programs;
pub(crate) mod ram;
pub(crate) mod sample;
pub(crate) mod watched;
pub(crate) mod workloads;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, LocalKey, Thread};
use std::time::Duration;

use seawall::damage::Lost;
use seawall::encryption::{Key, Padding};
use seawall::format::{CodecId, Geometry};
use seawall::verify::Verification;
use seawall::{Compression, Error, Layout, Level, Log, LogReader, Lsn, Maintenance, Options, Raw};
use seawall_io::{ManualClock, PosixStorage, SeededEntropy, Storage};
use seawall_testkit::MemStorage;

/// A log of plain bytes.
pub type Bytes = Log<[u8], Raw>;

/// Small enough to visit every byte of a log.
pub const GEOMETRY: Geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
/// The smallest segment: space for 1 KiB of batches.
pub const SEGMENT_MIN: u64 = 7 * 512;

/// Options of a tiny log without background work. The same seed gives the same bytes.
pub fn tiny(seed: u64) -> Options {
    of_any_size(seed).segment_size(10 * 512)
}

/// The same options without a segment size, for a log that lost its manifest and with it the size
/// of its largest segment.
pub fn of_any_size(seed: u64) -> Options {
    let clock = ManualClock::new();
    clock.set_wall_us(seed);
    let options = Options::new()
        .geometry(GEOMETRY, SEGMENT_MIN)
        .idle_mark(None)
        .preallocate(false)
        .name_ahead(true)
        .fill_blocks(FILLS_BLOCKS.get())
        .env(Arc::new(clock), Arc::new(SeededEntropy::new(seed)));
    maybe_encoded(options)
}

thread_local! {
    static IS_COMPRESSED: Cell<bool> = const { Cell::new(false) };
    static IS_ENCRYPTED: Cell<bool> = const { Cell::new(false) };
    static FILLS_BLOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `test` with logs that fill the last block of each write. This does not apply to threads
/// that `test` starts.
pub fn with_filled_blocks<T>(test: impl FnOnce() -> T) -> T {
    during(&FILLS_BLOCKS, test)
}

/// The key of encrypted logs.
pub const KEY: [u8; 32] = [7; 32];

/// Runs `test` with logs encrypted in small chunks, and with readers that have the key. This does
/// not apply to threads that `test` starts.
pub fn encrypted<T>(test: impl FnOnce() -> T) -> T {
    during(&IS_ENCRYPTED, test)
}

fn during<T>(what: &'static LocalKey<Cell<bool>>, test: impl FnOnce() -> T) -> T {
    /// Resets the setting for later tests on this thread, also after a panic.
    struct End(&'static LocalKey<Cell<bool>>);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    what.set(true);
    let _end = End(what);
    test()
}

/// Whether [`encrypted`] runs.
pub fn is_encrypted() -> bool {
    IS_ENCRYPTED.get()
}

/// The factor by which encoded logs check fewer states, because each state is also checked without
/// encoding. Encryption takes longer than compression.
pub fn sample_divisor() -> u64 {
    (if is_compressed() { 4 } else { 1 }) * (if is_encrypted() { 8 } else { 1 })
}

/// Adds the key, within [`encrypted`].
pub fn maybe_encrypted(options: Options) -> Options {
    if is_encrypted() { options.key(Key::new(&KEY)).encode_sizes(0, 4096) } else { options }
}

/// A reader for the records of any log, with the key within [`encrypted`].
pub fn reader(storage: Arc<dyn Storage>) -> seawall::Result<LogReader<[u8], Raw>> {
    maybe_encrypted(Options::new()).open_any_reader_in(storage)
}

/// Maintenance for a log, with the key within [`encrypted`].
pub fn maintenance<'a>(storage: &Arc<dyn Storage>) -> Maintenance<'a> {
    let maintenance = Maintenance::on(storage);
    if is_encrypted() { maintenance.key(Key::new(&KEY)) } else { maintenance }
}

/// The compression method of the tests.
pub const METHOD: Compression =
    if cfg!(feature = "zstd") { Compression::Zstd } else { Compression::Lz4 };

/// Chunk size of the tests, in bytes: zstd needs more to save an eighth.
pub const CHUNK: usize = if cfg!(feature = "zstd") { 900 } else { 300 };

/// Runs `test` with logs compressed in small chunks, and with records that compress. This does not
/// apply to threads that `test` starts.
pub fn compressed<T>(test: impl FnOnce() -> T) -> T {
    during(&IS_COMPRESSED, test)
}

/// Whether [`compressed`] runs.
pub fn is_compressed() -> bool {
    IS_COMPRESSED.get()
}

/// Adds compression and the key, within [`compressed`] and [`encrypted`]. Within both, also adds
/// padding, and keeps the larger chunks of [`maybe_encrypted`], which leave enough space for
/// records.
pub fn maybe_encoded(options: Options) -> Options {
    let options = maybe_encrypted(options);
    match (is_compressed(), is_encrypted()) {
        (false, _) => options,
        (true, false) => options.compression(METHOD).encode_sizes(0, CHUNK),
        (true, true) => options.compression(METHOD).encrypt(Padding::Padme),
    }
}

/// Wraps `test` so that any thread can run it with the encoding of this thread.
pub fn with_same_encoding<T>(test: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let (is_compressed, is_encrypted) = (is_compressed(), is_encrypted());
    move || match (is_compressed, is_encrypted) {
        (false, false) => test(),
        (true, false) => compressed(test),
        (false, true) => encrypted(test),
        (true, true) => encrypted(|| compressed(test)),
    }
}

/// The options of [`tiny`] for another process: other random bits, another time.
pub fn again(seed: u64) -> Options {
    tiny(seed << 32)
}

/// The same options for a log of layout `layout`.
pub fn laid_out(options: Options, layout: Layout) -> Options {
    match layout {
        // Several segments within a few lines. A line takes at most 160 bytes besides the record's
        // frame.
        Layout::Text => options.geometry(GEOMETRY, 1024 + 160).codec(CodecId::Json).layout(layout),
        _ => options,
    }
}

pub fn open(options: &Options, device: &MemStorage) -> seawall::Result<Bytes> {
    options.open_in(Arc::new(device.clone()))
}

/// The bytes of record `lsn` in life `life`: none is zero, and they differ for each record.
pub fn payload(lsn: u64, life: u64, size: usize) -> Vec<u8> {
    let name = format!("record {lsn} of life {life}.");
    let random = Random::new(lsn << 8 | life);
    if is_compressed() {
        // A third of the payload does not repeat.
        let random = random.take(size / 3).map(|n| n.to_le_bytes()[3] | 1);
        return name.bytes().chain(random).chain(name.bytes().cycle()).take(size).collect();
    }
    let mut bytes: Vec<u8> = random.take(size).map(|n| n.to_le_bytes()[3] | 1).collect();
    let length = name.len().min(size);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// The same for layout `layout`: in a text, a JSON string, or a digit if there is no space.
pub fn payload_in(layout: Layout, (lsn, life): (u64, u64), size: usize) -> Vec<u8> {
    let bytes = payload(lsn, life, size);
    match (layout, size) {
        (Layout::Binary, _) => bytes,
        (_, 0 | 1) => b"7".to_vec(),
        _ => {
            let plain = |byte: &u8| if byte.is_ascii_graphic() { *byte } else { b' ' };
            let text: Vec<u8> = bytes.iter().skip(2).map(plain).collect();
            let text = String::from_utf8(text).unwrap().replace(['"', '\\'], "/");
            format!("\"{text}\"").into_bytes()
        }
    }
}

/// Pseudorandom numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EA_4A11)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next().unwrap() % end
    }
}

impl Iterator for Random {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(mixed ^ (mixed >> 31))
    }
}

pub fn lsn_count(records: &[Vec<u8>]) -> u64 {
    u64::try_from(records.len()).unwrap()
}

pub fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// The output of a reader, by LSN.
#[derive(Debug, Default)]
pub struct Found {
    pub records: BTreeMap<u64, Vec<u8>>,
    /// The lost ranges that its errors name.
    pub lost: Vec<Lost>,
    pub errors: u64,
}

impl Found {
    /// Collects the whole output of a reader. LSNs must increase.
    pub fn take(
        entries: impl Iterator<Item = seawall::Result<(Lsn, Vec<u8>)>>,
    ) -> seawall::Result<Self> {
        let mut found = Self::default();
        for (turn, entry) in entries.enumerate() {
            assert!(turn < 100_000, "the reader ends");
            match entry {
                Ok((lsn, payload)) => {
                    let last = found.records.keys().next_back().copied();
                    assert!(Some(lsn.get()) > last, "record {lsn} comes after {last:?}");
                    found.records.insert(lsn.get(), payload);
                }
                Err(Error::Damaged { damage, .. }) => {
                    found.errors += 1;
                    found.lost.extend(damage.lost);
                }
                Err(other) => return Err(other),
            }
        }
        Ok(found)
    }

    /// Whether the records have no gap and begin at or before record `pruned + 1`.
    pub fn follows(&self, pruned: u64) -> bool {
        let Some((first, end)) = self.records.keys().next().copied().zip(self.end()) else {
            return true;
        };
        first <= pruned + 1 && self.records.keys().copied().eq(first..=end)
    }

    /// The last record.
    pub fn end(&self) -> Option<u64> {
        self.records.keys().next_back().copied()
    }

    /// Whether the records are 1, 2, 3, ... without a gap.
    pub fn is_prefix(&self) -> bool {
        self.records.keys().copied().eq(1..=self.count())
    }

    pub fn count(&self) -> u64 {
        u64::try_from(self.records.len()).unwrap()
    }
}

/// Reads with a `LogReader`.
pub fn read(device: &MemStorage, skip_damaged: bool) -> seawall::Result<Found> {
    let reader = reader(Arc::new(device.clone()))?;
    Found::take(reader.skip_damaged(skip_damaged).read_from(Lsn::FIRST)?)
}

/// Reads with a `LogReader` from record `first` on, skipping damage.
pub fn read_from(device: &MemStorage, first: Lsn) -> seawall::Result<Found> {
    let reader = reader(Arc::new(device.clone()))?;
    Found::take(reader.skip_damaged(true).read_from(first)?)
}

/// Reads with the log's own handle.
pub fn read_own(log: &Bytes) -> Found {
    Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap()
}

pub fn judge(device: &MemStorage) -> seawall::Result<Verification> {
    Maintenance::on(&(Arc::new(device.clone()) as Arc<dyn Storage>)).verify()
}

/// Whether a lost range contains record `lsn`.
pub fn names(lost: &Lost, lsn: u64) -> bool {
    lost.from.get() <= lsn && lost.to.is_none_or(|to| to.get() >= lsn)
}

/// Runs `test` on a thread of its own and fails if it takes longer than `seconds`.
pub fn within<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    let waited = wait.recv_timeout(Duration::from_secs(seconds));
    let in_time = waited != Err(mpsc::RecvTimeoutError::Timeout);
    assert!(in_time, "somebody still waits after {seconds} s");
    thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread and returns its output.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A real directory that is removed when the test ends.
pub struct Scratch {
    pub path: std::path::PathBuf,
}

impl Scratch {
    pub fn new(test: &str) -> Self {
        let name = format!("seawall-{test}-{}", std::process::id());
        Self { path: std::env::temp_dir().join(name) }
    }

    /// The directory, which is created if it is missing.
    pub fn storage(&self) -> Arc<dyn Storage> {
        programs::wait_for_programs();
        Arc::new(
            PosixStorage::open(&self.path).or_else(|_| PosixStorage::create(&self.path)).unwrap(),
        )
    }
}

impl Scratch {
    /// Lists `name` and every file and folder below it, with their mode bits.
    pub fn modes(&self, name: &str) -> Vec<(String, u32)> {
        use std::os::unix::fs::MetadataExt;
        let path = self.path.join(name);
        let mode = path.symlink_metadata().unwrap().mode() & 0o7777;
        let mut found = vec![(name.to_owned(), mode)];
        let inside = path.is_dir().then(|| path.read_dir().unwrap());
        for entry in inside.into_iter().flatten() {
            let inside = entry.unwrap().file_name().into_string().unwrap();
            found.extend(self.modes(&format!("{name}/{inside}")));
        }
        found
    }

    /// Moves `name` away, leaves a symbolic link to it, and returns its new name.
    pub fn replace_by_link(&self, name: &str) -> String {
        let (path, away) = (self.path.join(name), self.path.join("away"));
        #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
        std::fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, path).unwrap();
        "away".to_owned()
    }

    /// The path for a log inside, which another program may take away.
    pub fn log(&self) -> std::path::PathBuf {
        self.storage();
        self.path.join("log")
    }

    /// Removes the log and everything in it.
    pub fn remove_log(&self) {
        std::fs::remove_dir_all(self.log()).unwrap();
    }

    /// Renames the log's directory and returns the new path.
    pub fn move_log(&self) -> std::path::PathBuf {
        let moved = self.path.join("moved");
        #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
        std::fs::rename(self.log(), &moved).unwrap();
        moved
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        #[expect(clippy::disallowed_methods, reason = "this acts as another program")]
        std::fs::read(self.path.join(name)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The levels that guarantee durability when an append returns.
pub const LEVELS: [Level; 2] = [Level::Synced, Level::Confirmed];

/// Both layouts of a log.
pub const LAYOUTS: [Layout; 2] = [Layout::Binary, Layout::Text];

/// The layouts that a test should try: a text log cannot be compressed or encrypted.
pub fn layouts() -> impl Iterator<Item = Layout> {
    LAYOUTS
        .into_iter()
        .filter(|layout| *layout == Layout::Binary || !(is_compressed() || is_encrypted()))
}

/// A level and a layout.
pub type Kind = (Level, Layout);

/// All combinations of level and layout.
pub const KINDS: [Kind; 4] = [
    (Level::Synced, Layout::Binary),
    (Level::Confirmed, Layout::Binary),
    (Level::Synced, Layout::Text),
    (Level::Confirmed, Layout::Text),
];
